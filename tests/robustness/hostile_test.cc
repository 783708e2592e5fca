// Clients that lie: a recorded session, mutated ten thousand times. Each such session ends with an error or does
// nothing that matters; the worker and its other sessions go on.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "cuda/wire_client.h"
#include "remoting/message.h"
#include "worker_process.h"

namespace tf::tests {
namespace {

constexpr int kSessions = 10000;

struct Message {
  bool control;
  link::FrameHeader header;
  std::vector<std::byte> payload;
};

// A port that writes down what a client would send.
struct Recorder {
  std::vector<Message> messages;

  template <class Put>
  void Record(bool control, cuda::Op op, uint64_t call, size_t size, Put&& put) {
    Message message{control, {.op = static_cast<uint16_t>(op), .call = call}, std::vector<std::byte>(size)};
    cuda::Writer writer(message.payload.data());
    put(writer);
    messages.push_back(std::move(message));
  }
  template <class Put>
  CUresult Queue(cuda::Op op, size_t size, Put&& put) {
    Record(false, op, 0, size, put);
    return CUDA_SUCCESS;
  }
  template <class Put, class Get>
  CUresult Call(cuda::Op op, size_t size, Put&& put, Get&&) {
    Record(false, op, messages.size() + 1, size, put);
    return CUDA_SUCCESS;
  }
  template <class Put, class Get>
  cuda::Pending Start(cuda::Op op, size_t size, Put&& put, Get&& get) {
    return cuda::Pending::Now(Call(op, size, put, get));
  }
  template <class Put>
  void Tell(cuda::Op op, size_t size, Put&& put) {
    Record(true, op, 0, size, put);
  }
};

constexpr char kKernel[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing(.param .u64 a, .param .u32 b) { ret; }\n";

// One of everything, in an order that makes sense.
std::vector<Message> RecordedSession() {
  Recorder port;
  cuda::WireClient<Recorder> wire(&port);
  cuda::Snapshot snapshot;
  cuda::MonitorReport report;
  cuda::ModuleFacts facts;
  uint64_t value = 0, other = 0;
  uint8_t found = 0;
  float milliseconds = 0;
  const std::string hash(32, 'h');
  std::vector<std::byte> bytes(4096, std::byte{1});
  auto image = std::as_bytes(std::span(kKernel, sizeof kKernel - 1));
  const cuda::CopyShape shape{.destination = 0x7f0000000000,
                              .destination_pitch = 64,
                              .destination_slice = 64,
                              .source = 0x7f0000001000,
                              .source_pitch = 64,
                              .source_slice = 64,
                              .width = 64,
                              .height = 1,
                              .depth = 1};
  wire.Describe(&snapshot);
  wire.Monitor(&report);
  wire.ContextCreate(1, 0, 0);
  wire.ContextSetLimit(1, CU_LIMIT_STACK_SIZE, 4096);
  wire.ContextGetLimit(1, CU_LIMIT_STACK_SIZE, &value);
  wire.StreamCreate(1, 2, 1, 0);
  wire.EventCreate(1, 3, 0);
  wire.EventCreate(1, 4, 0);
  wire.MemoryAllocate(1, 65536, &value);
  wire.MemoryInfo(1, &value, &other);
  wire.ModuleFind(1, 5, hash, &found, &facts);
  wire.ModuleSend(1, 5, hash, image, &facts);
  wire.ModuleGlobal(1, 5, "g", &value, &other);
  wire.KernelSetAttribute(1, 5, 0, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
  wire.EventRecord(1, 3, 2, 0);
  wire.Launch(1, 2, 5, 0, {.grid = {1, 1, 1}, .block = {32, 1, 1}}, std::span(bytes).first(12));
  wire.EventRecord(1, 4, 2, 0);
  wire.Fill(1, 2, 0x7f0000000000, 64, 4, 7, 64, 1);
  wire.Upload(1, 0, 0x7f0000000000, 64, 4096, 1, bytes);
  (void)wire.Download(1, 0, 0x7f0000000000, 64, 4096, 1, bytes);
  wire.CopyDevice(1, 0, shape);
  wire.CopyRegion(1, 0, 0, shape);
  wire.RegionUnmap(1, 9);
  wire.FetchCopy(1, 2, 100, 0x7f0000000000, 64, 64, 1);
  wire.FetchData(100, 0, std::span(bytes).first(64));
  wire.StoreCopy(1, 2, 101, 0x7f0000000000, 64, 64, 1);
  wire.StreamHostFunction(1, 2, 6);
  wire.HostFunctionDone(6);
  wire.StreamWaitEvent(1, 0, 4, 0);
  wire.StreamQuery(1, 2);
  wire.EventQuery(1, 4);
  wire.EventElapsed(1, 3, 4, &milliseconds);
  wire.PoolCreate(1, 7, 0, 0);
  wire.PoolAllocate(1, 2, 7, 4096, &value);
  wire.PoolFree(1, 2, 0x7f0000000000);
  wire.PoolSetAttribute(1, 7, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
  wire.PoolGetAttribute(1, 7, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
  wire.PoolTrim(1, 7, 0);
  wire.PoolDestroy(1, 7);
  (void)wire.EventSynchronize(1, 4);
  (void)wire.StreamSynchronize(1, 2);
  (void)wire.ContextSynchronize(1);
  wire.MemoryFree(1, 0x7f0000000000);
  wire.ModuleUnload(1, 5);
  wire.EventDestroy(1, 3);
  wire.StreamDestroy(1, 2);
  wire.PeerEnable(1, 1);
  wire.PeerDisable(1, 1);
  wire.ContextDestroy(1);
  return std::move(port.messages);
}

void Mutate(std::vector<Message>& session, std::mt19937& random) {
  int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes; ++i) {
    Message& message = session[random() % session.size()];
    switch (random() % 9) {
      case 0:  // another value for a byte
      case 1:
      case 2:
        if (!message.payload.empty()) message.payload[random() % message.payload.size()] = std::byte(random());
        break;
      case 3:  // a number at an edge
        if (message.payload.size() >= 8) {
          static constexpr uint64_t kEdges[] = {0,          1,          0x7fffffff, 0x80000000,
                                                0xffffffff, 1ull << 63, ~0ull,      0x7f0000000000};
          uint64_t edge = kEdges[random() % std::size(kEdges)];
          std::memcpy(message.payload.data() + random() % (message.payload.size() - 7), &edge, 8);
        }
        break;
      case 4:  // cut off
        message.payload.resize(message.payload.empty() ? 0 : random() % message.payload.size());
        break;
      case 5:  // too long
        message.payload.resize(message.payload.size() + 1 + random() % 64, std::byte(random()));
        break;
      case 6:  // another operation
        message.header.op = static_cast<uint16_t>(random() % (cuda::kOpCount + 4));
        break;
      case 7:  // other flags, another channel
        message.header.flags = static_cast<uint16_t>(random() & link::kUserFlags);
        message.control = random() % 4 == 0;
        break;
      case 8:  // another order
        std::swap(message, session[random() % session.size()]);
        break;
    }
  }
}

TEST(HostileTest, TenThousandMutatedSessionsHurtNobody) {
  WorkerProcess worker("shm");
  // An honest session works all the time.
  std::atomic<bool> stop = false;
  std::atomic<int> rounds = 0;
  std::thread honest([&] {
    auto backend = worker.ConnectBackend();
    ASSERT_EQ(backend->ContextCreate(1, 0, 0), CUDA_SUCCESS);
    for (uint32_t n = 0; !stop; ++n) {
      uint64_t address = 0;
      ASSERT_EQ(backend->MemoryAllocate(1, 4096, &address), CUDA_SUCCESS);
      ASSERT_EQ(backend->Fill(1, 0, address, 4096, 4, n, 4096, 1), CUDA_SUCCESS);
      std::vector<uint32_t> got(1024);
      cuda::CopyShape shape{.destination = reinterpret_cast<uint64_t>(got.data()),
                            .destination_pitch = 4096,
                            .destination_slice = 4096,
                            .source = address,
                            .source_pitch = 4096,
                            .source_slice = 4096,
                            .width = 4096,
                            .height = 1,
                            .depth = 1};
      ASSERT_EQ(backend->Copy(1, 0, 1, shape, 1).Wait(), CUDA_SUCCESS);
      ASSERT_EQ(got, std::vector<uint32_t>(1024, n));
      ASSERT_EQ(backend->MemoryFree(1, address), CUDA_SUCCESS);
      ++rounds;
    }
  });

  const std::vector<Message> recorded = RecordedSession();
  std::mt19937 random(20261130);
  for (int i = 0; i < kSessions; ++i) {
    std::vector<Message> session = recorded;
    if (i > 0) Mutate(session, random);  // the first goes as it was recorded
    std::unique_ptr<link::Connection> connection = worker.Connect();
    for (const Message& message : session) {
      link::Channel& channel = message.control ? connection->control() : connection->data();
      link::FrameHeader header = message.header;
      if (!channel.Send(header, {message.payload}).ok()) break;
      if (message.control) (void)channel.Flush();
    }
    (void)connection->data().Flush();
    // Waits for some answers, as a client does; a few leave at once.
    for (int answers = static_cast<int>(random() % 8); answers > 0; --answers) {
      if (!connection->data().Receive(link::After(absl::Milliseconds(2))).ok()) break;
    }
  }
  EXPECT_TRUE(worker.Alive());
  int before = rounds;
  auto later = worker.Await(10, [&](auto&) { return rounds > before; });
  EXPECT_TRUE(later.has_value()) << "the honest session no longer gets on";
  stop = true;
  honest.join();
  EXPECT_TRUE(
      worker.Await(10, [](auto& status) { return status.sessions == 0 && status.memory_used == 0; }).has_value());
}

}  // namespace
}  // namespace tf::tests
