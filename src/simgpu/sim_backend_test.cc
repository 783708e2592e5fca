#include "simgpu/sim_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "simgpu/testing.h"

namespace tf::simgpu {
namespace {

using testing::ElementsAre;

constexpr uint64_t kGiB = 1ull << 30;
constexpr uint64_t kMiB = 1ull << 20;

class Memory : public BackendTest {};

TEST_F(Memory, AWholeCardFitsAndNotOneByteMore) {
  EXPECT_EQ(Free(), 15 * kGiB);
  uint64_t address = Allocate(15 * kGiB), more = 0;
  EXPECT_EQ(address % 512, 0u);
  EXPECT_EQ(backend_->MemoryAllocate(kContext, 1, &more), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(backend_->MemoryAllocate(kContext, ~0ull, &more), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(backend_->MemoryAllocate(kContext, 0, &more), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Free(), 0u);
  // Not sticky.
  EXPECT_EQ(backend_->ContextSynchronize(kContext).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(backend_->MemoryFree(kContext, address), CUDA_SUCCESS);
  EXPECT_EQ(backend_->MemoryFree(kContext, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Free(), 15 * kGiB);
}

TEST_F(Memory, ContextsShareTheCard) {
  ASSERT_EQ(backend_->ContextCreate(2, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(backend_->ContextCreate(3, 1, 0), CUDA_SUCCESS);
  Allocate(10 * kGiB, 2);
  uint64_t address = 0;
  EXPECT_EQ(backend_->MemoryAllocate(kContext, 6 * kGiB, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Free(3), 15 * kGiB);
  EXPECT_EQ(backend_->ContextDestroy(2), CUDA_SUCCESS);
  EXPECT_EQ(Free(), 15 * kGiB);
  EXPECT_EQ(backend_->MemoryInfo(2, &address, &address), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Memory, WhatOneContextLeavesIsNotSeenByAnother) {
  for (uint64_t size : std::vector<uint64_t>{4096, 64 << 10, 8 * kMiB}) {
    uint64_t address = Allocate(size);
    EXPECT_EQ(backend_->Fill(kContext, 0, address, size, 1, 0xab, size, 1), CUDA_SUCCESS);
    EXPECT_EQ(Download<uint8_t>(address, size), std::vector<uint8_t>(size, 0xab));
    EXPECT_EQ(backend_->MemoryFree(kContext, address), CUDA_SUCCESS);
    ASSERT_EQ(backend_->ContextCreate(++next_, 0, 0), CUDA_SUCCESS);
    uint64_t context = next_;
    EXPECT_EQ(Allocate(size, context), address);  // the same place
    EXPECT_EQ(Download<uint8_t>(address, size, 0, context), std::vector<uint8_t>(size, 0));
    EXPECT_EQ(backend_->ContextDestroy(context), CUDA_SUCCESS);
  }
}

TEST_F(Memory, ConcurrentAllocationsNeverPassTheCardTogether) {
  std::vector<std::thread> threads;
  std::atomic<uint64_t> taken{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      uint64_t address;
      while (backend_->MemoryAllocate(kContext, 100 * kMiB, &address) == CUDA_SUCCESS) taken += 100 * kMiB;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(taken, 15 * kGiB / (100 * kMiB) * 100 * kMiB);
  EXPECT_EQ(Free(), 15 * kGiB - taken);
}

TEST_F(Memory, ManySizesComeAndGo) {
  std::vector<uint64_t> addresses;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 1; i <= 300; ++i) addresses.push_back(Allocate(i * 700));
    // Every second one, then the rest backwards.
    for (size_t i = 0; i < addresses.size(); i += 2) backend_->MemoryFree(kContext, addresses[i]);
    for (size_t i = addresses.size() / 2; i-- > 0;) {
      EXPECT_EQ(backend_->MemoryFree(kContext, addresses[2 * i + 1]), CUDA_SUCCESS);
    }
    addresses.clear();
  }
  EXPECT_EQ(Free(), 15 * kGiB);
  Allocate(15 * kGiB);
}

class Streams : public BackendTest {};

TEST_F(Streams, AreOrderedAndAsynchronous) {
  uint64_t stream = NewStream();
  Gate gate;
  std::vector<int> order;
  HostFunction(stream, [&] { gate.Pass(); });
  for (int i = 0; i < 100; ++i) HostFunction(stream, [&, i] { order.push_back(i); });
  EXPECT_EQ(backend_->StreamQuery(kContext, stream), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_EQ(backend_->StreamSynchronize(kContext, stream).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(backend_->StreamQuery(kContext, stream), CUDA_SUCCESS);
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST_F(Streams, DefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
  uint64_t blocking = NewStream(), other = NewStream(), free_stream = NewStream(CU_STREAM_NON_BLOCKING);
  Gate first, second, ran_free;
  std::vector<char> order;
  std::mutex mutex;
  auto note = [&](char name) {
    std::lock_guard lock(mutex);
    order.push_back(name);
  };
  HostFunction(blocking, [&] { first.Pass(), note('a'); });
  HostFunction(0, [&] { note('b'), second.Pass(), note('c'); });
  HostFunction(other, [&] { note('d'); });
  HostFunction(free_stream, [&] { note('f'); });
  EXPECT_EQ(backend_->StreamSynchronize(kContext, free_stream).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(backend_->StreamQuery(kContext, 0), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(backend_->StreamQuery(kContext, other), CUDA_ERROR_NOT_READY);
  first.Open();
  second.AwaitArrival();
  EXPECT_EQ(backend_->StreamQuery(kContext, blocking), CUDA_SUCCESS);
  EXPECT_EQ(backend_->StreamQuery(kContext, other), CUDA_ERROR_NOT_READY);
  second.Open();
  EXPECT_EQ(backend_->ContextSynchronize(kContext).Wait(), CUDA_SUCCESS);
  EXPECT_THAT(order, ElementsAre('f', 'a', 'b', 'c', 'd'));
}

TEST_F(Streams, SynchronisingTheDefaultStreamWaitsForBlockingStreams) {
  uint64_t blocking = NewStream();
  Gate gate;
  std::atomic<bool> done{false};
  HostFunction(blocking, [&] { gate.Pass(), done = true; });
  cuda::Pending pending = backend_->StreamSynchronize(kContext, 0);
  EXPECT_EQ(backend_->StreamQuery(kContext, 0), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_EQ(pending.Wait(), CUDA_SUCCESS);
  EXPECT_TRUE(done);
}

TEST_F(Streams, DestroyedStreamsFinishTheirWork) {
  uint64_t stream = NewStream();
  Gate gate;
  std::atomic<bool> done{false};
  HostFunction(stream, [&] { gate.Pass(), done = true; });
  EXPECT_EQ(backend_->StreamDestroy(kContext, stream), CUDA_SUCCESS);
  EXPECT_EQ(backend_->StreamQuery(kContext, stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(backend_->StreamDestroy(kContext, stream), CUDA_ERROR_INVALID_HANDLE);
  cuda::Pending pending = backend_->ContextSynchronize(kContext);
  gate.Open();
  EXPECT_EQ(pending.Wait(), CUDA_SUCCESS);
  EXPECT_TRUE(done);
}

TEST_F(Streams, EventsOrderAcrossStreamsAndContexts) {
  ASSERT_EQ(backend_->ContextCreate(2, 1, 0), CUDA_SUCCESS);
  uint64_t first = NewStream(), second = NewStream(0, 2), event = NewEvent();
  Gate gate;
  std::atomic<int> value{0};
  EXPECT_EQ(backend_->EventQuery(kContext, event), CUDA_SUCCESS);  // never recorded
  HostFunction(first, [&] { gate.Pass(), value = 1; });
  EXPECT_EQ(backend_->EventRecord(kContext, event, first, 0), CUDA_SUCCESS);
  EXPECT_EQ(backend_->EventQuery(kContext, event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(backend_->StreamWaitEvent(2, second, event, 0), CUDA_SUCCESS);
  int seen = -1;
  HostFunction(second, [&] { seen = value; }, 2);
  // Recording again or destroying the event changes nothing for those who wait already.
  HostFunction(first, [&] { value = 2; });
  EXPECT_EQ(backend_->EventDestroy(kContext, event), CUDA_SUCCESS);
  EXPECT_EQ(backend_->StreamQuery(2, second), CUDA_ERROR_NOT_READY);
  gate.Open();
  EXPECT_EQ(backend_->StreamSynchronize(2, second).Wait(), CUDA_SUCCESS);
  EXPECT_GE(seen, 1);
  EXPECT_EQ(backend_->StreamSynchronize(kContext, first).Wait(), CUDA_SUCCESS);  // its functions write to `value`
}

TEST_F(Streams, EventsCarryTime) {
  uint64_t stream = NewStream(), start = NewEvent(), end = NewEvent();
  float milliseconds = -1;
  EXPECT_EQ(backend_->EventElapsed(kContext, start, end, &milliseconds), CUDA_ERROR_INVALID_HANDLE);
  Gate gate;
  EXPECT_EQ(backend_->EventRecord(kContext, start, stream, 0), CUDA_SUCCESS);
  HostFunction(stream, [&] { gate.Pass(); });
  EXPECT_EQ(backend_->EventRecord(kContext, end, stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(backend_->EventElapsed(kContext, start, end, &milliseconds), CUDA_ERROR_NOT_READY);
  gate.AwaitArrival();
  auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
  while (std::chrono::steady_clock::now() < until) {
  }
  gate.Open();
  EXPECT_EQ(backend_->EventSynchronize(kContext, end).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(backend_->EventElapsed(kContext, start, end, &milliseconds), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 3);
  EXPECT_LT(milliseconds, 10'000);
  EXPECT_EQ(backend_->EventElapsed(kContext, start, 999, &milliseconds), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Streams, DestroyingAContextWithWorkThatNeverEndsLosesTheRest) {
  ASSERT_EQ(backend_->ContextCreate(2, 0, 0), CUDA_SUCCESS);
  uint64_t stream = NewStream(0, 2), waiting = NewStream(0, kContext), event = NewEvent();
  Gate gate;
  HostFunction(waiting, [&] { gate.Pass(); });
  EXPECT_EQ(backend_->EventRecord(kContext, event, waiting, 0), CUDA_SUCCESS);
  // Context 2 waits for something that does not come.
  EXPECT_EQ(backend_->StreamWaitEvent(2, stream, event, 0), CUDA_SUCCESS);
  bool ran = false;
  HostFunction(stream, [&] { ran = true; }, 2);
  EXPECT_EQ(backend_->ContextDestroy(2), CUDA_SUCCESS);
  EXPECT_FALSE(ran);
  gate.Open();
  EXPECT_EQ(backend_->ContextSynchronize(kContext).Wait(), CUDA_SUCCESS);
}

class Copies : public BackendTest {};

TEST_F(Copies, Rectangles) {
  uint64_t address = Allocate(1024);
  EXPECT_EQ(backend_->Fill(kContext, 0, address, 1024, 4, 0x01020304, 1024, 1), CUDA_SUCCESS);
  EXPECT_EQ(backend_->Fill(kContext, 0, address + 64, 128, 2, 0xffff, 8, 4), CUDA_SUCCESS);
  auto data = Download<uint8_t>(address, 1024);
  for (size_t i = 0; i < data.size(); ++i) {
    bool filled = i >= 64 && i < 64 + 4 * 128 && (i - 64) % 128 < 8;
    ASSERT_EQ(data[i], filled ? 0xff : 4 - i % 4) << i;
  }
  std::vector<uint8_t> rows(4 * 16);
  cuda::CopyShape shape{reinterpret_cast<uint64_t>(rows.data()), 16, 0, address + 64, 128, 0, 12, 4, 1};
  EXPECT_EQ(backend_->Copy(kContext, 0, 1, shape, 3).Wait(), CUDA_SUCCESS);
  EXPECT_THAT(std::vector<uint8_t>(rows.begin() + 16, rows.begin() + 32),
              ElementsAre(255, 255, 255, 255, 255, 255, 255, 255, 4, 3, 2, 1, 0, 0, 0, 0));
  EXPECT_EQ(backend_->Fill(kContext, 0, address + 1, 4, 4, 0, 4, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(backend_->Fill(kContext, 0, address, 4, 3, 0, 3, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copies, PageableSourcesAreCapturedAtTheCallAndPinnedOnesWhenTheStreamGetsThere) {
  uint64_t stream = NewStream(), address = Allocate(8), pinned = 0;
  ASSERT_EQ(backend_->HostAllocate(kContext, 4, 0, &pinned), CUDA_SUCCESS);
  auto* pinned_value = reinterpret_cast<std::atomic<uint32_t>*>(pinned);
  uint32_t pageable_value = 1;
  *pinned_value = 1;
  Gate gate;
  HostFunction(stream, [&] { gate.Pass(); });
  auto pageable =
      backend_->Copy(kContext, stream, 0, Linear(address, reinterpret_cast<uint64_t>(&pageable_value), 4), 1);
  auto in_order = backend_->Copy(kContext, stream, 0, Linear(address + 4, pinned, 4), 0);
  EXPECT_TRUE(pageable.over());
  EXPECT_TRUE(in_order.over());
  pageable_value = 2;
  *pinned_value = 2;
  gate.Open();
  EXPECT_THAT(Download<uint32_t>(address, 2, stream), ElementsAre(1, 2));
}

TEST_F(Copies, PageableDestinationsAreFinalWhenTheWaitIsOver) {
  uint64_t stream = NewStream(), address = Allocate(4);
  Upload<uint32_t>(address, {7});
  uint32_t value = 0;
  Gate gate;
  HostFunction(stream, [&] { gate.Pass(); });
  auto pending = backend_->Copy(kContext, stream, 1, Linear(reinterpret_cast<uint64_t>(&value), address, 4), 1);
  EXPECT_FALSE(pending.over());
  gate.Open();
  EXPECT_EQ(pending.Wait(), CUDA_SUCCESS);
  EXPECT_EQ(value, 7u);
}

TEST_F(Copies, BetweenCards) {
  ASSERT_EQ(backend_->ContextCreate(2, 1, 0), CUDA_SUCCESS);
  uint64_t here = Allocate(64), there = Allocate(64, 2);
  Upload<uint32_t>(here, {1, 2, 3});
  EXPECT_EQ(backend_->Copy(kContext, 0, 2, Linear(there, here, 12), 2).Wait(), CUDA_SUCCESS);
  EXPECT_THAT(Download<uint32_t>(there, 3, 0, 2), ElementsAre(1, 2, 3));
}

TEST_F(Copies, HostMemoryRegistration) {
  std::vector<uint8_t> buffer(8192);
  uint64_t address = reinterpret_cast<uint64_t>(buffer.data()), pinned = 0;
  EXPECT_EQ(backend_->HostRegister(kContext, address, 8192, 0), CUDA_SUCCESS);
  EXPECT_EQ(backend_->HostRegister(kContext, address + 100, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(backend_->HostUnregister(kContext, address + 100), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(backend_->HostFree(kContext, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(backend_->HostUnregister(kContext, address), CUDA_SUCCESS);
  EXPECT_EQ(backend_->HostUnregister(kContext, address), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  void* hole = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(hole, 4096);
  EXPECT_EQ(backend_->HostRegister(kContext, reinterpret_cast<uint64_t>(hole), 4096, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(backend_->HostAllocate(kContext, 100, 0, &pinned), CUDA_SUCCESS);
  EXPECT_EQ(backend_->HostUnregister(kContext, pinned), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(backend_->HostFree(kContext, pinned), CUDA_SUCCESS);
  EXPECT_EQ(backend_->HostFree(kContext, pinned), CUDA_ERROR_INVALID_VALUE);
}

class Pools : public BackendTest {
 protected:
  uint64_t Get(int attribute, uint64_t pool = 0) {
    uint64_t value = ~0ull;
    EXPECT_EQ(backend_->PoolGetAttribute(kContext, pool, attribute, &value), CUDA_SUCCESS);
    return value;
  }
  uint64_t PoolAllocate(uint64_t stream, uint64_t size, uint64_t pool = 0) {
    uint64_t address = 0;
    EXPECT_EQ(backend_->PoolAllocate(kContext, stream, pool, size, &address), CUDA_SUCCESS);
    return address;
  }
};

TEST_F(Pools, ReuseFollowsTheStream) {
  uint64_t stream = NewStream(), other = NewStream();
  Gate gate;
  HostFunction(stream, [&] { gate.Pass(); });
  uint64_t first = PoolAllocate(stream, kMiB);
  EXPECT_EQ(backend_->PoolFree(kContext, stream, first), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PoolFree(kContext, stream, first), CUDA_ERROR_INVALID_VALUE);
  // The same stream may have it back at once, another only when the free has been reached.
  uint64_t elsewhere = PoolAllocate(other, kMiB);
  EXPECT_NE(elsewhere, first);
  EXPECT_EQ(PoolAllocate(stream, kMiB), first);
  EXPECT_EQ(Get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 2 * kMiB);
  EXPECT_EQ(backend_->PoolFree(kContext, stream, first), CUDA_SUCCESS);
  gate.Open();
  EXPECT_EQ(backend_->PoolSetAttribute(kContext, 0, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull), CUDA_SUCCESS);
  EXPECT_EQ(backend_->StreamSynchronize(kContext, stream).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(PoolAllocate(other, kMiB), first);
  EXPECT_EQ(Get(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 2 * kMiB);
}

TEST_F(Pools, AWaitReleasesWhatIsAboveTheThreshold) {
  uint64_t stream = NewStream();
  uint64_t a = PoolAllocate(stream, 4 * kMiB), b = PoolAllocate(stream, 4 * kMiB);
  EXPECT_EQ(Free(), 15 * kGiB - 8 * kMiB);
  EXPECT_EQ(backend_->PoolSetAttribute(kContext, 0, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PoolFree(kContext, stream, a), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PoolFree(kContext, stream, b), CUDA_SUCCESS);
  EXPECT_EQ(backend_->StreamSynchronize(kContext, stream).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4 * kMiB);
  EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 8 * kMiB);
  EXPECT_EQ(Free(), 15 * kGiB - 4 * kMiB);
  EXPECT_EQ(backend_->PoolTrim(kContext, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(Free(), 15 * kGiB);
}

TEST_F(Pools, GiveUpWhatTheyKeepBeforeTheCardIsFull) {
  uint64_t stream = NewStream(), pool = ++next_, address = 0;
  ASSERT_EQ(backend_->PoolCreate(kContext, pool, 0, 12 * kGiB), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PoolSetAttribute(kContext, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PoolAllocate(kContext, stream, pool, 13 * kGiB, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(backend_->PoolFree(kContext, stream, PoolAllocate(stream, 10 * kGiB, pool)), CUDA_SUCCESS);
  uint64_t plain = Allocate(15 * kGiB);
  EXPECT_EQ(backend_->PoolAllocate(kContext, stream, pool, 1, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(backend_->MemoryFree(kContext, plain), CUDA_SUCCESS);
  // An allocation outlives its pool, and can be freed in both ways.
  uint64_t a = PoolAllocate(stream, kMiB, pool), b = PoolAllocate(stream, kMiB, pool);
  EXPECT_EQ(backend_->PoolDestroy(kContext, pool), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PoolDestroy(kContext, pool), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(backend_->PoolFree(kContext, stream, a), CUDA_SUCCESS);
  EXPECT_EQ(backend_->MemoryFree(kContext, b), CUDA_SUCCESS);
  EXPECT_EQ(backend_->ContextSynchronize(kContext).Wait(), CUDA_SUCCESS);
  EXPECT_EQ(Free(), 15 * kGiB);
}

TEST_F(Pools, EndWithTheirContext) {
  ASSERT_EQ(backend_->ContextCreate(2, 0, 0), CUDA_SUCCESS);
  uint64_t stream = NewStream(0, 2), pool = ++next_, a = 0, b = 0;
  ASSERT_EQ(backend_->PoolCreate(kContext, pool, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PoolAllocate(2, stream, pool, kMiB, &a), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PoolAllocate(2, stream, pool, kMiB, &b), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PoolFree(2, stream, a), CUDA_SUCCESS);
  EXPECT_EQ(backend_->ContextDestroy(2), CUDA_SUCCESS);
  EXPECT_EQ(Free(), 15 * kGiB);
  EXPECT_EQ(Get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, pool), 0u);
  EXPECT_EQ(Get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, pool), 0u);
}

class Limits : public BackendTest {};

TEST_F(Limits, AreKeptOrRefused) {
  uint64_t value = 0;
  EXPECT_EQ(backend_->ContextGetLimit(kContext, CU_LIMIT_MALLOC_HEAP_SIZE, &value), CUDA_SUCCESS);
  EXPECT_EQ(value, 8 * kMiB);
  EXPECT_EQ(backend_->ContextSetLimit(kContext, CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
  EXPECT_EQ(backend_->ContextGetLimit(kContext, CU_LIMIT_STACK_SIZE, &value), CUDA_SUCCESS);
  EXPECT_EQ(value, 4096u);
  EXPECT_EQ(backend_->ContextSetLimit(kContext, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
  EXPECT_EQ(backend_->ContextGetLimit(kContext, 999, &value), CUDA_ERROR_UNSUPPORTED_LIMIT);
}

TEST_F(Limits, Peers) {
  ASSERT_EQ(backend_->ContextCreate(2, 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PeerEnable(kContext, 2), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PeerEnable(kContext, 2), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(backend_->PeerDisable(kContext, 2), CUDA_SUCCESS);
  EXPECT_EQ(backend_->PeerDisable(kContext, 2), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(backend_->PeerEnable(kContext, 3), CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace
}  // namespace tf::simgpu
