#include "cuda/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "cuda/wire_client.h"
#include "cuda/wire_dispatch.h"

namespace tf::cuda {
namespace {

ModuleFacts SomeFacts() {
  return {.kernels = {{.name = "k", .parameters = {{0, 8}, {8, 4}}, .attributes = {1024, 0, -1}}, {.name = ""}},
          .log = "warning: nothing"};
}

std::vector<std::byte> Encode(const auto& value) {
  std::vector<std::byte> bytes(WireSize(value));
  Writer writer(bytes.data());
  writer.Put(value);
  EXPECT_EQ(writer.at(), bytes.data() + bytes.size());
  return bytes;
}

TEST(WireTest, StructsComeBack) {
  std::vector<std::byte> bytes = Encode(SomeFacts());
  Reader reader(bytes);
  ModuleFacts back;
  reader.Get(&back);
  EXPECT_TRUE(reader.done());
  ASSERT_EQ(back.kernels.size(), 2u);
  EXPECT_EQ(back.kernels[0].name, "k");
  EXPECT_EQ(back.kernels[0].parameters[1].offset, 8u);
  EXPECT_EQ(back.kernels[0].attributes, (std::vector<int32_t>{1024, 0, -1}));
  EXPECT_EQ(back.log, "warning: nothing");
}

TEST(WireTest, EveryTruncationIsRefused) {
  std::vector<std::byte> bytes = Encode(SomeFacts());
  for (size_t size = 0; size < bytes.size(); ++size) {
    Reader reader(std::span<const std::byte>{bytes}.first(size));
    ModuleFacts back;
    reader.Get(&back);
    EXPECT_FALSE(reader.done()) << size;
  }
}

TEST(WireTest, CountsBeyondTheBytesAreRefusedWithoutAllocating) {
  std::vector<std::byte> bytes(4, std::byte{0xff});
  Reader reader(bytes);
  std::vector<uint64_t> items;
  reader.Get(&items);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(items.capacity(), 0u);
}

constexpr CUresult kUnused = CUDA_ERROR_NOT_SUPPORTED;

// A target that records what reached it.
class Recorder : public WireTarget {
 public:
  std::string last;

  CUresult Describe(Snapshot*) override { return kUnused; }
  CUresult Monitor(MonitorReport*) override { return kUnused; }
  CUresult ContextCreate(uint64_t, int32_t, uint32_t) override { return kUnused; }
  CUresult ContextDestroy(uint64_t) override { return kUnused; }
  CUresult ContextSetLimit(uint64_t, int32_t, uint64_t) override { return kUnused; }
  CUresult ContextGetLimit(uint64_t, int32_t, uint64_t*) override { return kUnused; }
  Pending ContextSynchronize(uint64_t) override { return Pending::Now(kUnused); }
  CUresult PeerEnable(uint64_t, uint64_t) override { return kUnused; }
  CUresult PeerDisable(uint64_t, uint64_t) override { return kUnused; }
  CUresult StreamCreate(uint64_t, uint64_t, uint32_t, int32_t) override { return kUnused; }
  CUresult StreamDestroy(uint64_t, uint64_t) override { return kUnused; }
  CUresult StreamQuery(uint64_t, uint64_t) override { return kUnused; }
  Pending StreamSynchronize(uint64_t, uint64_t) override { return Pending::Now(kUnused); }
  CUresult StreamWaitEvent(uint64_t, uint64_t, uint64_t, uint32_t) override { return kUnused; }
  CUresult StreamHostFunction(uint64_t, uint64_t, uint64_t) override { return kUnused; }
  CUresult EventCreate(uint64_t, uint64_t, uint32_t) override { return kUnused; }
  CUresult EventDestroy(uint64_t, uint64_t) override { return kUnused; }
  CUresult EventRecord(uint64_t, uint64_t, uint64_t, uint32_t) override { return kUnused; }
  CUresult EventQuery(uint64_t, uint64_t) override { return kUnused; }
  Pending EventSynchronize(uint64_t, uint64_t) override { return Pending::Now(kUnused); }
  CUresult EventElapsed(uint64_t, uint64_t, uint64_t, float*) override { return kUnused; }
  CUresult MemoryInfo(uint64_t, uint64_t*, uint64_t*) override { return kUnused; }
  CUresult MemoryAllocate(uint64_t context, uint64_t size, uint64_t* address) override {
    last = "MemoryAllocate " + std::to_string(context) + " " + std::to_string(size);
    *address = 0x1234;
    return CUDA_SUCCESS;
  }
  CUresult MemoryFree(uint64_t, uint64_t) override { return kUnused; }
  CUresult PoolCreate(uint64_t, uint64_t, int32_t, uint64_t) override { return kUnused; }
  CUresult PoolDestroy(uint64_t, uint64_t) override { return kUnused; }
  CUresult PoolTrim(uint64_t, uint64_t, uint64_t) override { return kUnused; }
  CUresult PoolSetAttribute(uint64_t, uint64_t, int32_t, uint64_t) override { return kUnused; }
  CUresult PoolGetAttribute(uint64_t, uint64_t, int32_t, uint64_t*) override { return kUnused; }
  CUresult PoolAllocate(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t*) override { return kUnused; }
  CUresult PoolFree(uint64_t, uint64_t, uint64_t) override { return kUnused; }
  CUresult Fill(uint64_t, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t, uint64_t, uint64_t) override {
    return kUnused;
  }
  CUresult ModuleUnload(uint64_t, uint64_t) override { return kUnused; }
  CUresult ModuleGlobal(uint64_t, uint64_t, std::string_view, uint64_t*, uint64_t*) override { return kUnused; }
  CUresult KernelSetAttribute(uint64_t, uint64_t, uint32_t, int32_t, int32_t) override { return kUnused; }
  CUresult Launch(uint64_t, uint64_t, uint64_t, uint32_t kernel, const LaunchShape& shape,
                  std::span<const std::byte> parameters) override {
    last = "Launch " + std::to_string(kernel) + " " + std::to_string(shape.block.y) + " " +
           std::to_string(parameters.size());
    return CUDA_SUCCESS;
  }
  CUresult ModuleFind(uint64_t, uint64_t, std::string_view, uint8_t*, ModuleFacts*) override { return kUnused; }
  CUresult ModuleSend(uint64_t, uint64_t, std::string_view, std::span<const std::byte>, ModuleFacts*) override {
    return kUnused;
  }
  CUresult Upload(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, std::span<const std::byte>) override {
    return kUnused;
  }
  Pending Download(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, std::span<std::byte> data) override {
    for (std::byte& byte : data) byte = std::byte{7};
    return Pending::Now(CUDA_SUCCESS);
  }
  CUresult CopyDevice(uint64_t, uint64_t, const CopyShape&) override { return kUnused; }
  CUresult RegionMap(uint64_t, uint64_t, uint64_t, uint64_t, uint32_t) override { return kUnused; }
  CUresult RegionUnmap(uint64_t, uint64_t) override { return kUnused; }
  CUresult CopyRegion(uint64_t, uint64_t, uint32_t, const CopyShape&) override { return kUnused; }
  CUresult FetchCopy(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) override { return kUnused; }
  CUresult StoreCopy(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) override { return kUnused; }
  void HostFunctionDone(uint64_t) override {}
  void FetchData(uint64_t, uint64_t, std::span<const std::byte>) override {}
};

struct Answers {
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::vector<std::byte> outputs;
  void Queued(Op, uint64_t, CUresult r) { result = r; }
  template <class Put>
  void Now(CUresult r, size_t size, Put put) {
    result = r;
    outputs.resize(size);
    Writer writer(outputs.data());
    put(writer);
  }
  template <class Size, class Put>
  void Later(Pending pending, Size size, Put put) {
    result = pending.Wait();
    Now(result, size(), put);
  }
};

// A port that dispatches at once: client marshalling against worker dispatch.
struct Loopback {
  Recorder target;
  std::vector<std::byte> last_message;
  bool accepted = false;

  template <class Put>
  Answers Send(Op op, size_t size, Put put) {
    last_message.resize(size);
    Writer writer(last_message.data());
    put(writer);
    EXPECT_EQ(writer.at(), last_message.data() + size);
    Answers answers;
    accepted = Dispatch(target, static_cast<uint16_t>(op), last_message, answers);
    return answers;
  }
  template <class Put>
  CUresult Queue(Op op, size_t size, Put put) {
    return Send(op, size, put).result;
  }
  template <class Put, class Get>
  CUresult Call(Op op, size_t size, Put put, Get get) {
    Answers answers = Send(op, size, put);
    Reader reader(answers.outputs);
    get(reader);
    EXPECT_TRUE(reader.done());
    return answers.result;
  }
  template <class Put, class Get>
  Pending Start(Op op, size_t size, Put put, Get get) {
    return Pending::Now(Call(op, size, put, get));
  }
  template <class Put>
  void Tell(Op, size_t, Put) {}
};

TEST(WireTest, ClientAndDispatchAgree) {
  Loopback port;
  WireClient<Loopback> client(&port);
  uint64_t address = 0;
  EXPECT_EQ(client.MemoryAllocate(3, 4096, &address), CUDA_SUCCESS);
  EXPECT_EQ(address, 0x1234u);
  EXPECT_EQ(port.target.last, "MemoryAllocate 3 4096");
  std::vector<std::byte> parameters(24);
  EXPECT_EQ(client.Launch(1, 2, 3, 9, {.grid = {1, 2, 3}, .block = {4, 5, 6}}, parameters), CUDA_SUCCESS);
  EXPECT_EQ(port.target.last, "Launch 9 5 24");
  std::vector<std::byte> data(12);
  EXPECT_EQ(client.Download(1, 0, 0, 4, 4, 3, data).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(data, std::vector<std::byte>(12, std::byte{7}));
}

TEST(WireTest, HostileLengthsOfOutputsAreRefused) {
  Loopback port;
  WireClient<Loopback> client(&port);
  std::vector<std::byte> data;
  for (auto [width, height] :
       {std::pair<uint64_t, uint64_t>{1u << 21, 1}, {1, 1u << 21}, {1u << 20, 1u << 20}, {~0ull, ~0ull}}) {
    (void)port.Send(Op::kDownload, 6 * 8, [&](Writer& w) {
      for (uint64_t v : {uint64_t{1}, uint64_t{0}, uint64_t{0}, width, width, height}) w.Put(v);
    });
    EXPECT_FALSE(port.accepted);
  }
}

TEST(WireTest, RandomBytesNeverCrashTheDispatch) {
  std::mt19937 random(7);
  Loopback port;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random() % 96);
    for (std::byte& byte : bytes) byte = std::byte(random() % 3 == 0 ? random() : 0);
    Answers answers;
    Dispatch(port.target, random() % (kOpCount + 2), bytes, answers);
    DispatchNotice(port.target, random() % (kOpCount + 2), bytes);
  }
}

}  // namespace
}  // namespace tf::cuda
