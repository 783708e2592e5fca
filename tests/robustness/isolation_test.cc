// A session reaches nothing that is another's, and not one byte beyond the worker's limit. The clients here speak the
// wire operations themselves, without the checks of the driver front: a hostile program would.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "worker_process.h"

namespace tf::tests {
namespace {

using cuda::CopyShape;
using remoting::RemoteBackend;

constexpr uint64_t kLimit = 64 << 20;
constexpr uint32_t kPageable = 1;

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry peek(.param .u64 from, .param .u64 to) {
  .reg .u64 %a, %b;
  .reg .u32 %v;
  ld.param.u64 %a, [from];
  ld.param.u64 %b, [to];
  ld.global.u32 %v, [%a];
  st.global.u32 [%b], %v;
  ret;
}
)";

CopyShape Row(uint64_t destination, uint64_t source, uint64_t bytes) {
  return {.destination = destination,
          .destination_pitch = bytes,
          .destination_slice = bytes,
          .source = source,
          .source_pitch = bytes,
          .source_slice = bytes,
          .width = bytes,
          .height = 1,
          .depth = 1};
}

struct Session {
  explicit Session(const WorkerProcess& worker) : backend(worker.ConnectBackend()) {
    EXPECT_EQ(backend->ContextCreate(1, 0, 0), CUDA_SUCCESS);
  }
  uint64_t Allocate(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(backend->MemoryAllocate(1, bytes, &address), CUDA_SUCCESS);
    return address;
  }
  CUresult Read(uint64_t address, std::vector<char>* bytes) {
    return backend->Copy(1, 0, 1, Row(reinterpret_cast<uint64_t>(bytes->data()), address, bytes->size()), kPageable)
        .Wait();
  }
  CUresult Write(uint64_t address, const std::vector<char>& bytes) {
    CUresult result =
        backend->Copy(1, 0, 0, Row(address, reinterpret_cast<uint64_t>(bytes.data()), bytes.size()), kPageable).Wait();
    return result != CUDA_SUCCESS ? result : backend->StreamSynchronize(1, 0).Wait();
  }
  CUresult Peek(uint64_t from, uint64_t to) {
    if (!loaded) {
      cuda::ModuleFacts facts;
      EXPECT_EQ(backend->ModuleLoad(1, 2, std::as_bytes(std::span(kKernels, sizeof kKernels - 1)), &facts),
                CUDA_SUCCESS)
          << facts.log;
      loaded = true;
    }
    uint64_t arguments[] = {from, to};
    (void)backend->Launch(1, 0, 2, 0, {.grid = {1, 1, 1}, .block = {1, 1, 1}}, std::as_bytes(std::span(arguments)));
    return backend->StreamSynchronize(1, 0).Wait();
  }
  std::unique_ptr<RemoteBackend> backend;
  bool loaded = false;
};

class IsolationTest : public testing::TestWithParam<const char*> {};

TEST_P(IsolationTest, NoSessionReadsOrWritesAnothersMemory) {
  WorkerProcess worker(GetParam());
  Session owner(worker), thief(worker);
  const std::vector<char> secret(4096, 's');
  uint64_t theirs = owner.Allocate(secret.size());
  ASSERT_EQ(owner.Write(theirs, secret), CUDA_SUCCESS);
  uint64_t mine = thief.Allocate(4096);

  std::vector<char> got(4096, '.');
  EXPECT_EQ(thief.Read(theirs, &got), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(got, std::vector<char>(4096, '.'));
  EXPECT_EQ(thief.Write(theirs, std::vector<char>(4096, 'x')), CUDA_ERROR_INVALID_VALUE);
  (void)thief.backend->Copy(1, 0, 2, Row(mine, theirs, 4096), 0).Wait();
  EXPECT_EQ(thief.backend->StreamSynchronize(1, 0).Wait(), CUDA_ERROR_INVALID_VALUE);
  (void)thief.backend->Fill(1, 0, theirs, 4096, 1, 'x', 4096, 1);
  EXPECT_EQ(thief.backend->StreamSynchronize(1, 0).Wait(), CUDA_ERROR_INVALID_VALUE);
  (void)thief.backend->MemoryFree(1, theirs);
  EXPECT_EQ(thief.backend->StreamSynchronize(1, 0).Wait(), CUDA_ERROR_INVALID_VALUE);
  // Their names mean nothing here.
  EXPECT_EQ(thief.backend->StreamSynchronize(7, 0).Wait(), CUDA_ERROR_INVALID_HANDLE);
  // Not even a kernel can: it faults, in this session alone.
  EXPECT_EQ(thief.Peek(theirs, mine), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(thief.Read(mine, &got), CUDA_SUCCESS) << "the fault stays";

  std::vector<char> still(4096);
  EXPECT_EQ(owner.Read(theirs, &still), CUDA_SUCCESS);
  EXPECT_EQ(still, secret);
}

TEST_P(IsolationTest, MemoryOfAnEndedSessionIsNotSeenByTheNext) {
  WorkerProcess worker(GetParam(), {{"TF_GPU_MEMORY_LIMIT", "64"}});
  {
    Session owner(worker);
    uint64_t all = owner.Allocate(kLimit);
    (void)owner.backend->Fill(1, 0, all, kLimit, 1, 's', kLimit, 1);
    ASSERT_EQ(owner.backend->StreamSynchronize(1, 0).Wait(), CUDA_SUCCESS);
  }
  ASSERT_TRUE(worker.Await(5, [](auto& status) { return status.memory_used == 0; }).has_value());
  Session next(worker);
  std::vector<char> bytes(kLimit);
  ASSERT_EQ(next.Read(next.Allocate(kLimit), &bytes), CUDA_SUCCESS);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 's'), 0);
}

TEST_P(IsolationTest, NotOneByteOverTheLimitTogether) {
  WorkerProcess worker(GetParam(), {{"TF_GPU_MEMORY_LIMIT", "64"}});
  Session one(worker), two(worker);
  uint64_t free = 0, total = 0, address = 0;
  ASSERT_EQ(one.backend->MemoryInfo(1, &free, &total), CUDA_SUCCESS);
  EXPECT_EQ(total, kLimit);
  EXPECT_EQ(free, kLimit);
  cuda::Snapshot snapshot;
  ASSERT_EQ(one.backend->Describe(&snapshot), CUDA_SUCCESS);
  EXPECT_EQ(snapshot.devices[0].total_memory, kLimit);

  EXPECT_EQ(one.backend->MemoryAllocate(1, kLimit + 1, &address), CUDA_ERROR_OUT_OF_MEMORY);
  uint64_t half = one.Allocate(kLimit / 2);
  EXPECT_EQ(two.backend->MemoryAllocate(1, kLimit / 2 + 1, &address), CUDA_ERROR_OUT_OF_MEMORY);
  two.Allocate(kLimit / 2);
  EXPECT_EQ(one.backend->MemoryAllocate(1, 1, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(one.backend->PoolAllocate(1, 0, 0, 1, &address), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(two.backend->MemoryInfo(1, &free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, 0u);
  EXPECT_EQ(total, kLimit);
  // Out of memory is not sticky, and what is freed can be had again.
  EXPECT_EQ(one.backend->StreamSynchronize(1, 0).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(one.backend->MemoryFree(1, half), CUDA_SUCCESS);
  EXPECT_EQ(one.backend->StreamSynchronize(1, 0).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(two.backend->MemoryAllocate(1, kLimit / 2, &address), CUDA_SUCCESS);
}

TEST_P(IsolationTest, ConcurrentAllocationsNeverPassTheLimit) {
  WorkerProcess worker(GetParam(), {{"TF_GPU_MEMORY_LIMIT", "64"}});
  constexpr uint64_t kPiece = 5 << 20;
  std::atomic<int> granted = 0;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(std::make_unique<Session>(worker));
  std::vector<std::thread> threads;
  for (auto& session : sessions) {
    threads.emplace_back([&] {
      uint64_t address;
      for (int n = 0; n < 50; ++n) granted += session->backend->MemoryAllocate(1, kPiece, &address) == CUDA_SUCCESS;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, static_cast<int>(kLimit / kPiece));
}

INSTANTIATE_TEST_SUITE_P(All, IsolationTest, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace tf::tests
