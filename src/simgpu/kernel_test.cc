// Kernels on the backend: what they compute, how they fail, how they share a card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "simgpu/testing.h"

namespace tf::simgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64

.global .align 4 .u32 counter = 5;
.const .align 4 .u32 factors[2] = {3, 4};
.global .align 8 .u64 where = factors;

.visible .entry add_one(.param .u64 p_data, .param .u32 p_count)
{
  .reg .pred %p;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p_data];
  ld.param.u32 %r1, [p_count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra done;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd3], %r2;
done:
  ret;
}

.visible .entry use_globals(.param .u64 p_out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p_out];
  ld.global.u32 %r1, [counter];
  ld.const.u32 %r2, [factors+4];
  mul.lo.u32 %r3, %r1, %r2;
  st.global.u32 [%rd1], %r3;
  ld.global.u64 %rd2, [where];
  st.global.u64 [%rd1+8], %rd2;
  ret;
}

.visible .entry store(.param .u64 p_address)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p_address];
  mov.u32 %r1, 7;
  st.global.u32 [%rd1], %r1;
  ret;
}

.visible .entry stop()
{
  trap;
}

// Spins until *p_flag is not 0.
.visible .entry await(.param .u64 p_flag)
{
  .reg .pred %p;
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p_flag];
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p, %r1, 0;
  @%p bra again;
  ret;
}

// Adds p_rounds times.
.visible .entry spin(.param .u32 p_rounds)
{
  .reg .pred %p;
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [p_rounds];
  mov.u32 %r2, 0;
again:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p, %r2, %r1;
  @%p bra again;
  ret;
}
)";

enum Kernel : uint32_t { kAddOne, kUseGlobals, kStore, kStop, kAwait, kSpin };

class Kernels : public BackendTest {
 protected:
  Kernels() { module_ = Load(kPtx); }

  uint64_t Load(const std::string& text, CUresult expected = CUDA_SUCCESS, uint64_t context = kContext) {
    facts_ = {};
    EXPECT_EQ(backend_->ModuleLoad(context, ++next_, std::as_bytes(std::span(text)), &facts_), expected) << facts_.log;
    return next_;
  }
  template <typename... Arguments>
  CUresult Launch(uint32_t kernel, uint64_t stream, uint32_t grid, uint32_t block, Arguments... arguments) {
    // Each argument at a multiple of its size, as PTX lays out parameters.
    std::vector<std::byte> bytes;
    [[maybe_unused]] auto add = [&](auto value) {
      bytes.resize(RoundUp(bytes.size(), sizeof value) + sizeof value);
      std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
    };
    (add(arguments), ...);
    return backend_->Launch(kContext, stream, module_, kernel, {{grid, 1, 1}, {block, 1, 1}, 0, 0}, bytes);
  }
  CUresult Synchronize() { return backend_->ContextSynchronize(kContext).Wait(); }

  cuda::ModuleFacts facts_;
  uint64_t module_;
};

TEST_F(Kernels, Facts) {
  ASSERT_EQ(facts_.kernels.size(), 6u);
  EXPECT_EQ(facts_.kernels[kAddOne].name, "add_one");
  ASSERT_EQ(facts_.kernels[kAddOne].parameters.size(), 2u);
  EXPECT_EQ(facts_.kernels[kAddOne].parameters[1].offset, 8u);
  EXPECT_EQ(facts_.kernels[kAddOne].parameters[1].size, 4u);
  const auto& attributes = facts_.kernels[kAddOne].attributes;
  ASSERT_EQ(attributes.size(), size_t{CU_FUNC_ATTRIBUTE_MAX});
  EXPECT_EQ(attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK], 1024);
  EXPECT_EQ(attributes[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES], 8);
  EXPECT_EQ(attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION], 70);
  EXPECT_EQ(attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION], 75);
  EXPECT_EQ(attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES], 48 << 10);
}

TEST_F(Kernels, ComputeInStreamOrder) {
  std::vector<uint32_t> data(10000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = i;
  uint64_t address = Allocate(data.size() * 4), stream = NewStream();
  Upload(address, data, stream);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Launch(kAddOne, stream, 79, 128, address, 10000u), CUDA_SUCCESS);
  for (auto& value : data) value += 3;
  EXPECT_EQ(Download<uint32_t>(address, data.size(), stream), data);
}

TEST_F(Kernels, Globals) {
  uint64_t out = Allocate(16), counter = 0, factors = 0, size = 0;
  EXPECT_EQ(backend_->ModuleGlobal(kContext, module_, "counter", &counter, &size), CUDA_SUCCESS);
  EXPECT_EQ(size, 4u);
  EXPECT_EQ(backend_->ModuleGlobal(kContext, module_, "factors", &factors, &size), CUDA_SUCCESS);
  EXPECT_EQ(size, 8u);
  EXPECT_EQ(backend_->ModuleGlobal(kContext, module_, "none", &counter, &size), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(Launch(kUseGlobals, 0, 1, 1, out), CUDA_SUCCESS);
  EXPECT_EQ(Download<uint32_t>(out, 1)[0], 20u);
  Upload<uint32_t>(factors + 4, {100});
  EXPECT_EQ(Launch(kUseGlobals, 0, 1, 1, out), CUDA_SUCCESS);
  EXPECT_EQ(Download<uint32_t>(out, 1)[0], 500u);
  EXPECT_EQ(Download<uint64_t>(out, 2)[1], factors);
  uint64_t free = Free();
  EXPECT_EQ(backend_->ModuleUnload(kContext, module_), CUDA_SUCCESS);
  EXPECT_GT(Free(), free);
  EXPECT_EQ(Launch(kUseGlobals, 0, 1, 1, out), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Kernels, ModulesOfTwoContextsHaveTheirOwnGlobals) {
  ASSERT_EQ(backend_->ContextCreate(2, 1, 0), CUDA_SUCCESS);
  uint64_t other = Load(kPtx, CUDA_SUCCESS, 2), here = 0, there = 0, size = 0;
  EXPECT_EQ(backend_->ModuleGlobal(kContext, module_, "counter", &here, &size), CUDA_SUCCESS);
  EXPECT_EQ(backend_->ModuleGlobal(2, other, "counter", &there, &size), CUDA_SUCCESS);
  EXPECT_NE(here, there);
  Upload<uint32_t>(here, {6});
  EXPECT_EQ(Download<uint32_t>(there, 1, 0, 2)[0], 5u);
}

TEST_F(Kernels, BadLaunchesAndImages) {
  uint64_t address = Allocate(4);
  EXPECT_EQ(Launch(kStore, 0, 0, 1, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(kStore, 0, 1, 1025, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(kStore, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(99, 0, 1, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Launch(kStore, 99, 1, 1, address), CUDA_ERROR_INVALID_HANDLE);
  std::byte parameters[8]{};
  cuda::LaunchShape shape{{1, 1, 1}, {1, 1, 1}, 50 << 10, 0};
  EXPECT_EQ(backend_->Launch(kContext, 0, module_, kStop, shape, parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      backend_->KernelSetAttribute(kContext, module_, kStop, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65 << 10),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);

  Load("neither PTX nor an image", CUDA_ERROR_INVALID_IMAGE);
  Load(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry f() { wave.at.me; ret; }\n",
       CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(facts_.log, HasSubstr("wave"));
  Load(".version 99.0\n.target sm_70\n.address_size 64\n", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

TEST_F(Kernels, AccessOutsideIsCaughtAndPoisonsTheContextOnly) {
  ASSERT_EQ(backend_->ContextCreate(2, 0, 0), CUDA_SUCCESS);
  uint64_t address = Allocate(100), neighbour = Allocate(100), stream = NewStream(), event = NewEvent();
  EXPECT_GT(neighbour, address);
  testing::internal::CaptureStderr();
  EXPECT_EQ(Launch(kStore, stream, 1, 1, address + 4096), CUDA_SUCCESS);
  EXPECT_EQ(backend_->StreamSynchronize(kContext, stream).Wait(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("illegal address (error 700) at address"));
  uint64_t more = 0;
  EXPECT_EQ(backend_->MemoryAllocate(kContext, 4, &more), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(Launch(kStore, 0, 1, 1, address), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(backend_->EventRecord(kContext, event, 0, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(Synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(backend_->ContextSynchronize(2).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(backend_->ContextDestroy(kContext), CUDA_SUCCESS);
  EXPECT_EQ(Free(2), 15ull << 30);
}

TEST_F(Kernels, FaultsHaveTheirDocumentedNumbers) {
  testing::internal::CaptureStderr();
  auto fault = [&](uint32_t kernel, auto... arguments) {
    EXPECT_EQ(Launch(kernel, 0, 1, 1, arguments...), CUDA_SUCCESS);
    CUresult result = Synchronize();
    EXPECT_EQ(backend_->ContextDestroy(kContext), CUDA_SUCCESS);
    EXPECT_EQ(backend_->ContextCreate(kContext, 0, 0), CUDA_SUCCESS);
    module_ = Load(kPtx);
    return result;
  };
  EXPECT_EQ(fault(kStore, Allocate(8) + 2), CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_EQ(fault(kStop), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(fault(kStore, uint64_t{0}), CUDA_ERROR_ILLEGAL_ADDRESS);
  uint64_t factors = 0, size = 0;
  EXPECT_EQ(backend_->ModuleGlobal(kContext, module_, "factors", &factors, &size), CUDA_SUCCESS);
  EXPECT_EQ(fault(kStore, factors), CUDA_ERROR_ILLEGAL_ADDRESS);
  uint64_t freed = Allocate(4096);
  EXPECT_EQ(backend_->MemoryFree(kContext, freed), CUDA_SUCCESS);
  EXPECT_EQ(fault(kStore, freed), CUDA_ERROR_ILLEGAL_ADDRESS);
  std::vector<uint32_t> host(4);
  EXPECT_EQ(fault(kStore, reinterpret_cast<uint64_t>(host.data())), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(host[0], 0u);
  // The memory of another context of the same card.
  ASSERT_EQ(backend_->ContextCreate(2, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(fault(kStore, Allocate(4, 2)), CUDA_ERROR_ILLEGAL_ADDRESS);
  testing::internal::GetCapturedStderr();
}

TEST_F(Kernels, ReachPinnedMemoryAndEnabledPeers) {
  uint64_t pinned = 0;
  ASSERT_EQ(backend_->HostAllocate(kContext, 4, 0, &pinned), CUDA_SUCCESS);
  EXPECT_EQ(Launch(kStore, 0, 1, 1, pinned), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(pinned), 7u);

  ASSERT_EQ(backend_->ContextCreate(2, 1, 0), CUDA_SUCCESS);
  uint64_t there = Allocate(4, 2);
  EXPECT_EQ(backend_->PeerEnable(kContext, 2), CUDA_SUCCESS);
  EXPECT_EQ(Launch(kStore, 0, 1, 1, there), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Download<uint32_t>(there, 1, 0, 2)[0], 7u);
  testing::internal::CaptureStderr();
  EXPECT_EQ(backend_->PeerDisable(kContext, 2), CUDA_SUCCESS);
  EXPECT_EQ(Launch(kStore, 0, 1, 1, there), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  testing::internal::GetCapturedStderr();
}

TEST_F(Kernels, OfDifferentStreamsRunTogether) {
  uint64_t flag = 0, first = NewStream(), second = NewStream();
  ASSERT_EQ(backend_->HostAllocate(kContext, 4, 0, &flag), CUDA_SUCCESS);
  EXPECT_EQ(Launch(kAwait, first, 1, 1, flag), CUDA_SUCCESS);
  EXPECT_EQ(Launch(kStore, second, 1, 1, flag), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
}

TEST_F(Kernels, DestroyingTheContextStopsAKernelThatNeverEnds) {
  uint64_t flag = Allocate(4);
  EXPECT_EQ(Launch(kAwait, 0, 1, 1, flag), CUDA_SUCCESS);
  EXPECT_EQ(backend_->ContextDestroy(kContext), CUDA_SUCCESS);
  ASSERT_EQ(backend_->ContextCreate(2, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(Free(2), 15ull << 30);
}

TEST_F(Kernels, FreeingWaitsForKernels) {
  uint64_t flag = 0, data = Allocate(4), stream = NewStream();
  ASSERT_EQ(backend_->HostAllocate(kContext, 4, 0, &flag), CUDA_SUCCESS);
  EXPECT_EQ(Launch(kAwait, stream, 1, 1, flag), CUDA_SUCCESS);
  EXPECT_EQ(Launch(kStore, stream, 1, 1, data), CUDA_SUCCESS);
  std::thread opener([&] { reinterpret_cast<std::atomic<uint32_t>*>(flag)->store(1); });
  EXPECT_EQ(backend_->MemoryFree(kContext, data), CUDA_SUCCESS);
  opener.join();
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
}

// --- Cards shared between processes

TEST_F(Kernels, BusyTimeIsThatOfKernels) {
  auto state = *CardState::Open(cards_.list());
  EXPECT_EQ(state->Read(0).busy_ns, 0u);
  auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(Launch(kSpin, 0, 4, 128, 200'000u), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  uint64_t elapsed = std::chrono::nanoseconds(std::chrono::steady_clock::now() - before).count();
  uint64_t busy = state->Read(0).busy_ns;
  EXPECT_GT(busy, 0u);
  EXPECT_LE(busy, elapsed);
  EXPECT_EQ(state->Read(1).busy_ns, 0u);
}

// A second process with a backend on the same cards, made before this one has threads.
class Sharing : public testing::Test {
 protected:
  // Runs `body` in a child; it gets its own backend, with context 1 on card 0 and kPtx as module 2.
  pid_t Fork(const std::function<void(SimBackend&, int write_end)>& body) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
      auto backend = *SimBackend::Create(cards_.list());
      RecordedEvents events;
      backend->SetEvents(&events);
      cuda::ModuleFacts facts;
      bool good = backend->ContextCreate(1, 0, 0) == CUDA_SUCCESS &&
                  backend->ModuleLoad(1, 2, std::as_bytes(std::span(kPtx, sizeof kPtx - 1)), &facts) == CUDA_SUCCESS;
      if (good) body(*backend, ends[1]);
      _exit(good ? 0 : 1);
    }
    close(ends[1]);
    read_end_ = ends[0];
    return pid;
  }
  static CUresult Launch(SimBackend& backend, uint32_t kernel, std::vector<uint64_t> parameters, uint32_t grid = 1) {
    return backend.Launch(1, 0, 2, kernel, {{grid, 1, 1}, {32, 1, 1}, 0, 0}, std::as_bytes(std::span(parameters)));
  }

  TestCards cards_{"T4"};
  int read_end_ = -1;
};

TEST_F(Sharing, AKilledProcessGivesBackTheCardAndItsMemory) {
  pid_t other = Fork([](SimBackend& backend, int write_end) {
    uint64_t address = 0;
    backend.MemoryAllocate(1, 10ull << 30, &address);
    Launch(backend, kAwait, {address});
    (void)!write(write_end, "x", 1);
    backend.ContextSynchronize(1).Wait();
  });
  char byte;
  ASSERT_EQ(read(read_end_, &byte, 1), 1);
  auto state = *CardState::Open(cards_.list());
  while (state->Read(0).busy_ns == 0) std::this_thread::yield();
  auto backend = *SimBackend::Create(cards_.list());
  cuda::ModuleFacts facts;
  ASSERT_EQ(backend->ContextCreate(1, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(backend->ModuleLoad(1, 2, std::as_bytes(std::span(kPtx, sizeof kPtx - 1)), &facts), CUDA_SUCCESS);
  uint64_t address = 0, free = 0, total = 0;
  EXPECT_EQ(backend->MemoryAllocate(1, 6ull << 30, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(backend->MemoryInfo(1, &free, &total), CUDA_SUCCESS);
  EXPECT_LT(free, 5ull << 30);
  EXPECT_EQ(Launch(*backend, kSpin, {1}), CUDA_SUCCESS);
  EXPECT_EQ(backend->StreamQuery(1, 0), CUDA_ERROR_NOT_READY);  // the other holds the card
  kill(other, SIGKILL);
  EXPECT_EQ(backend->ContextSynchronize(1).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(backend->MemoryAllocate(1, 14ull << 30, &address), CUDA_SUCCESS);
  waitpid(other, nullptr, 0);
}

// One launches kernels of several slices, the other kernels that are ten times longer.
TEST_F(Sharing, TwoProcessesGetEqualShares) {
  auto work = [](SimBackend& backend, uint32_t grid) {
    Launch(backend, kSpin, {20'000}, grid);
    Launch(backend, kSpin, {20'000}, grid);
    backend.StreamSynchronize(1, 0).Wait();
  };
  pid_t other = Fork([&](SimBackend& backend, int write_end) {
    (void)!write(write_end, "x", 1);
    for (;;) work(backend, 400);
  });
  char byte;
  ASSERT_EQ(read(read_end_, &byte, 1), 1);
  auto state = *CardState::Open(cards_.list());
  while (state->Read(0).busy_ns == 0) std::this_thread::yield();
  auto backend = *SimBackend::Create(cards_.list());
  cuda::ModuleFacts facts;
  ASSERT_EQ(backend->ContextCreate(1, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(backend->ModuleLoad(1, 2, std::as_bytes(std::span(kPtx, sizeof kPtx - 1)), &facts), CUDA_SUCCESS);
  auto busy_of = [&](pid_t pid) {
    for (const ProcessUse& process : state->Read(0).processes) {
      if (process.pid == pid) return process.busy_ns;
    }
    return uint64_t{0};
  };
  // Always something in the queue: a process that has nothing to run has no claim to its share.
  constexpr uint64_t kInFlight = 4, kFirstEvent = 10;
  for (uint64_t i = 0; i < kInFlight; ++i) ASSERT_EQ(backend->EventCreate(1, kFirstEvent + i, 0), CUDA_SUCCESS);
  uint64_t other_before = busy_of(other);
  for (uint64_t launched = 0; busy_of(getpid()) < 200'000'000; ++launched) {
    uint64_t event = kFirstEvent + launched % kInFlight;
    ASSERT_EQ(backend->EventSynchronize(1, event).Wait(), CUDA_SUCCESS);
    ASSERT_EQ(Launch(*backend, kSpin, {20'000}, 40), CUDA_SUCCESS);
    ASSERT_EQ(backend->EventRecord(1, event, 0, 0), CUDA_SUCCESS);
  }
  double mine = static_cast<double>(busy_of(getpid()));
  double others = static_cast<double>(busy_of(other) - other_before);
  EXPECT_GT(mine / (mine + others), 0.4);
  EXPECT_LT(mine / (mine + others), 0.6);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}

}  // namespace
}  // namespace tf::simgpu
