// A client that never stops asking: calls of every kind in random order, each result checked against a model of the
// device's memory. Many of these at once, some of them killed, are the soak test (tools/soak).
//
//   soak_client --seconds N --seed S
//
// Prints "soak_client: begun" when its session stands, and at the end "soak_client: PASS …" (status 0) or
// "soak_client: FAIL …" (status 1).
#include <tensor_fusion/cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "example.h"

#define CHECK_DRIVER(call) \
  do {                     \
    Check((call), #call);  \
  } while (0)

namespace {

constexpr char kPtx[] = R"(
.version 6.3
.target sm_75
.address_size 64

.visible .global .align 4 .u32 step = 1;

.visible .entry increase(.param .u64 data, .param .u32 count, .param .u32 amount)
{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;

    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [count];
    ld.param.u32 %r2, [amount];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra END;
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r6, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r7, [%rd3];
    add.u32 %r7, %r7, %r2;
    ld.global.u32 %r8, [step];
    add.u32 %r7, %r7, %r8;
    st.global.u32 [%rd3], %r7;
END:
    ret;
}
)";

long calls = 0;

void Check(CUresult result, const char* call) {
  ++calls;
  if (result == CUDA_SUCCESS) return;
  const char* name = "?";
  cuGetErrorName(result, &name);
  example::Fail("%s: %s (%d) after %ld calls", call, name, static_cast<int>(result), calls);
}

void Expect(CUresult result, CUresult expected, const char* what) {
  ++calls;
  if (result != expected) {
    example::Fail("%s: error %d, expected %d, after %ld calls", what, static_cast<int>(result),
                  static_cast<int>(expected), calls);
  }
}

// Device memory and what it must hold. All that touches it goes through its stream.
struct Block {
  CUdeviceptr address;
  std::vector<uint32_t> expected;
  CUstream stream;
  bool pooled;
  size_t bytes() const { return expected.size() * 4; }
};

struct Module {
  CUmodule module;
  CUfunction add;
  uint32_t step = 1;
};

class Client {
 public:
  explicit Client(unsigned seed) : random_(seed) {
    CHECK_DRIVER(cuInit(0));
    CHECK_DRIVER(cuDeviceGet(&device_, 0));
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context_, device_));
    CHECK_DRIVER(cuCtxSetCurrent(context_));
    for (CUstream& stream : streams_) CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    LoadModule();
    CHECK_DRIVER(cuMemAllocHost(reinterpret_cast<void**>(&pinned_), kMostWords * 4));
  }

  void Step() {
    switch (Below(16)) {
      case 0:
      case 1:
        return Allocate();
      case 2:
        return Free();
      case 3:
      case 4:
        return Launch();
      case 5:
        return Verify();
      case 6:
        return VerifyPinned();
      case 7:
        return Fill();
      case 8:
        return CopyBetween();
      case 9:
        return Upload();
      case 10:
        return ReplaceStream();
      case 11:
        return HostFunctions();
      case 12:
        return modules_.size() < 3 ? LoadModule() : UnloadModule();
      case 13:
        return OtherContext();
      case 14:
        return Mistakes();
      case 15:
        return OtherThread();
    }
  }

  void Finish() {
    while (!blocks_.empty()) {
      Verify();
      Free();
    }
    while (!modules_.empty()) UnloadModule();
    for (CUstream stream : streams_) CHECK_DRIVER(cuStreamDestroy(stream));
    CHECK_DRIVER(cuMemFreeHost(pinned_));
    CHECK_DRIVER(cuDevicePrimaryCtxRelease(device_));
  }

 private:
  static constexpr size_t kMostWords = 64 << 10, kMostBlocks = 8;

  unsigned Below(unsigned limit) { return random_.Next() % limit; }
  Block& AnyBlock() {
    if (blocks_.empty()) Allocate();
    return blocks_[Below(static_cast<unsigned>(blocks_.size()))];
  }
  CUstream AnyStream() { return streams_[Below(kStreams)]; }

  void Allocate() {
    if (blocks_.size() >= kMostBlocks) return Free();
    Block block{.address = 0, .expected = {}, .stream = AnyStream(), .pooled = Below(3) == 0};
    block.expected.resize(1 + Below(Below(2) ? 256 : kMostWords));
    for (uint32_t& word : block.expected) word = random_.Next();
    if (block.pooled) {
      CHECK_DRIVER(cuMemAllocAsync(&block.address, block.bytes(), block.stream));
    } else {
      CHECK_DRIVER(cuMemAlloc(&block.address, block.bytes()));
    }
    CHECK_DRIVER(cuMemcpyHtoDAsync(block.address, block.expected.data(), block.bytes(), block.stream));
    blocks_.push_back(std::move(block));
  }

  void Free() {
    if (blocks_.empty()) return Allocate();
    std::swap(AnyBlock(), blocks_.back());
    Block& block = blocks_.back();
    if (block.pooled) {
      CHECK_DRIVER(cuMemFreeAsync(block.address, block.stream));
    } else {
      CHECK_DRIVER(cuMemFree(block.address));
    }
    blocks_.pop_back();
  }

  void Launch() {
    Block& block = AnyBlock();
    Module& module = modules_[Below(static_cast<unsigned>(modules_.size()))];
    uint32_t count = static_cast<uint32_t>(block.expected.size()), amount = Below(1000);
    void* arguments[] = {&block.address, &count, &amount};
    CHECK_DRIVER(cuLaunchKernel(module.add, (count + 127) / 128, 1, 1, 128, 1, 1, 0, block.stream, arguments, nullptr));
    for (uint32_t& word : block.expected) word += amount + module.step;
  }

  void Compare(const Block& block, const uint32_t* found) {
    for (size_t i = 0; i < block.expected.size(); ++i) {
      if (found[i] != block.expected[i]) {
        example::Fail("word %zu of %zu is %u, expected %u, after %ld calls", i, block.expected.size(), found[i],
                      block.expected[i], calls);
      }
    }
  }

  void Verify() {
    Block& block = AnyBlock();
    std::vector<uint32_t> found(block.expected.size());
    CHECK_DRIVER(cuStreamSynchronize(block.stream));
    CHECK_DRIVER(cuMemcpyDtoH(found.data(), block.address, block.bytes()));
    Compare(block, found.data());
  }

  void VerifyPinned() {
    Block& block = AnyBlock();
    std::memset(pinned_, 0, block.bytes());
    CHECK_DRIVER(cuMemcpyDtoHAsync(pinned_, block.address, block.bytes(), block.stream));
    CUevent event;
    CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK_DRIVER(cuEventRecord(event, block.stream));
    const CUresult done = cuEventQuery(event);
    if (done != CUDA_SUCCESS) Expect(done, CUDA_ERROR_NOT_READY, "cuEventQuery");
    CHECK_DRIVER(cuEventSynchronize(event));
    CHECK_DRIVER(cuEventDestroy(event));
    Compare(block, pinned_);
  }

  void Fill() {
    Block& block = AnyBlock();
    const uint32_t value = random_.Next();
    const size_t words = 1 + Below(static_cast<unsigned>(block.expected.size()));
    CHECK_DRIVER(cuMemsetD32Async(block.address, value, words, block.stream));
    for (size_t i = 0; i < words; ++i) block.expected[i] = value;
  }

  void CopyBetween() {
    Block &to = AnyBlock(), &from = AnyBlock();
    if (&to == &from) return;
    const size_t words = std::min(to.expected.size(), from.expected.size());
    CUevent event;
    CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DEFAULT));
    CHECK_DRIVER(cuEventRecord(event, from.stream));
    CHECK_DRIVER(cuStreamWaitEvent(to.stream, event, 0));
    CHECK_DRIVER(cuMemcpyDtoDAsync(to.address, from.address, words * 4, to.stream));
    CHECK_DRIVER(cuEventRecord(event, to.stream));
    CHECK_DRIVER(cuStreamWaitEvent(from.stream, event, 0));
    CHECK_DRIVER(cuEventDestroy(event));
    std::copy_n(from.expected.begin(), words, to.expected.begin());
  }

  // From memory that is written again as soon as the call is back.
  void Upload() {
    Block& block = AnyBlock();
    for (uint32_t& word : block.expected) word = random_.Next();
    std::vector<uint32_t> copy = block.expected;
    CHECK_DRIVER(cuMemcpyHtoDAsync(block.address, copy.data(), block.bytes(), block.stream));
    std::memset(copy.data(), 0x77, block.bytes());
  }

  void ReplaceStream() {
    CUstream& stream = streams_[Below(kStreams)];
    CUstream fresh;
    CHECK_DRIVER(cuStreamCreate(&fresh, CU_STREAM_NON_BLOCKING));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    for (Block& block : blocks_) {
      if (block.stream == stream) block.stream = fresh;
    }
    CHECK_DRIVER(cuStreamDestroy(stream));
    stream = fresh;
  }

  void HostFunctions() {
    std::atomic<int> ran = 0;
    const int times = 1 + static_cast<int>(Below(4));
    CUstream stream = AnyStream();
    for (int i = 0; i < times; ++i) {
      CHECK_DRIVER(cuLaunchHostFunc(stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &ran));
    }
    CHECK_DRIVER(cuStreamSynchronize(stream));
    if (ran != times) example::Fail("%d host functions ran, expected %d", ran.load(), times);
  }

  void LoadModule() {
    Module module{};
    CHECK_DRIVER(cuModuleLoadData(&module.module, kPtx));
    CHECK_DRIVER(cuModuleGetFunction(&module.add, module.module, "increase"));
    CUdeviceptr step;
    size_t bytes;
    CHECK_DRIVER(cuModuleGetGlobal(&step, &bytes, module.module, "step"));
    module.step = Below(100);
    CHECK_DRIVER(cuMemcpyHtoD(step, &module.step, bytes));
    modules_.push_back(module);
  }

  void UnloadModule() {
    for (CUstream stream : streams_) CHECK_DRIVER(cuStreamSynchronize(stream));
    CHECK_DRIVER(cuModuleUnload(modules_.back().module));
    modules_.pop_back();
  }

  // What a context holds goes with it.
  void OtherContext() {
    CUcontext other, popped;
    CHECK_DRIVER(cuCtxCreate(&other, 0, device_));
    CUdeviceptr memory;
    CUstream stream;
    CHECK_DRIVER(cuMemAlloc(&memory, 4096));
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    CHECK_DRIVER(cuMemsetD8Async(memory, 1, 4096, stream));
    CHECK_DRIVER(cuCtxSynchronize());
    CHECK_DRIVER(cuCtxPopCurrent(&popped));
    CHECK_DRIVER(cuCtxDestroy(other));
  }

  // Answered as documented, and without harm.
  void Mistakes() {
    CUdeviceptr memory;
    Expect(cuMemAlloc(&memory, size_t{1} << 50), CUDA_ERROR_OUT_OF_MEMORY, "an allocation of 1 PiB");
    Expect(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE, "an allocation of nothing");
    CUfunction function;
    Expect(cuModuleGetFunction(&function, modules_.back().module, "nothing"), CUDA_ERROR_NOT_FOUND,
           "a kernel that is not there");
    size_t free_bytes, total;
    CHECK_DRIVER(cuMemGetInfo(&free_bytes, &total));
    if (free_bytes > total) example::Fail("%zu bytes free of %zu", free_bytes, total);
  }

  void OtherThread() {
    std::thread([this] {
      CHECK_DRIVER(cuCtxSetCurrent(context_));
      VerifyPinned();
      Launch();
    }).join();
  }

  static constexpr unsigned kStreams = 3;
  example::Random random_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream streams_[kStreams] = {};
  std::vector<Block> blocks_;
  std::vector<Module> modules_;
  uint32_t* pinned_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  long seconds = 10, seed = 1;
  example::ParseOptions(argc, argv, "soak_client", "calls of every kind in random order, checked",
                        {{"seconds", &seconds, "how long"}, {"seed", &seed, "which order"}});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  Client client(static_cast<unsigned>(seed));
  std::printf("soak_client: begun\n");
  std::fflush(stdout);
  do {
    client.Step();
  } while (std::chrono::steady_clock::now() < end);
  client.Finish();
  example::Pass("%ld calls", calls);
}
