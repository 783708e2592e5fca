// Helpers of this room's tests: cards of their own per test process, a backend with what it tells recorded.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "simgpu/sim_backend.h"

namespace tf::simgpu {

// Cards that no other process uses, gone from /dev/shm at the end.
class TestCards {
 public:
  explicit TestCards(const std::string& specification)
      : list_(*ParseCards(specification, absl::StrCat("test ", getpid(), " ", reinterpret_cast<uintptr_t>(this)))) {}
  ~TestCards() { unlink(absl::StrCat("/dev/shm/tensor-fusion-sim-", geteuid(), "-", list_.identity).c_str()); }
  const CardList& list() const { return list_; }

 private:
  CardList list_;
};

// A gate that a host function waits at until the test opens it.
class Gate {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void AwaitArrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int arrived_ = 0;
};

class RecordedEvents : public cuda::BackendEvents {
 public:
  // Host functions by token - 1.
  uint64_t Add(std::function<void(int32_t)> function) {
    std::lock_guard lock(mutex_);
    functions_.push_back(std::move(function));
    return functions_.size();
  }
  void HostFunction(uint64_t token, int32_t status) override {
    std::function<void(int32_t)> function;
    {
      std::lock_guard lock(mutex_);
      function = functions_[token - 1];
    }
    function(status);
  }
  void Output(uint64_t, std::string_view text) override {
    std::lock_guard lock(mutex_);
    output_.append(text);
  }
  std::string output() {
    std::lock_guard lock(mutex_);
    return output_;
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void(int32_t)>> functions_;
  std::string output_;
};

// A backend on cards of its own with context 1 on card 0.
class BackendTest : public testing::Test {
 protected:
  static constexpr uint64_t kContext = 1;

  explicit BackendTest(const std::string& specification = "T4:2") : cards_(specification), backend_(Make()) {
    backend_->SetEvents(&events_);
    EXPECT_EQ(backend_->ContextCreate(kContext, 0, 0), CUDA_SUCCESS);
  }
  std::unique_ptr<SimBackend> Make() {
    auto backend = SimBackend::Create(cards_.list());
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }

  uint64_t NewStream(uint32_t flags = 0, uint64_t context = kContext) {
    EXPECT_EQ(backend_->StreamCreate(context, ++next_, flags, 0), CUDA_SUCCESS);
    return next_;
  }
  uint64_t NewEvent(uint64_t context = kContext) {
    EXPECT_EQ(backend_->EventCreate(context, ++next_, 0), CUDA_SUCCESS);
    return next_;
  }
  uint64_t Allocate(uint64_t bytes, uint64_t context = kContext) {
    uint64_t address = 0;
    EXPECT_EQ(backend_->MemoryAllocate(context, bytes, &address), CUDA_SUCCESS);
    return address;
  }
  void HostFunction(uint64_t stream, std::function<void()> function, uint64_t context = kContext) {
    uint64_t token = events_.Add([function = std::move(function)](int32_t) { function(); });
    EXPECT_EQ(backend_->StreamHostFunction(context, stream, token), CUDA_SUCCESS);
  }
  uint64_t Free(uint64_t context = kContext) {
    uint64_t free = 0, total = 0;
    EXPECT_EQ(backend_->MemoryInfo(context, &free, &total), CUDA_SUCCESS);
    return free;
  }
  static cuda::CopyShape Linear(uint64_t destination, uint64_t source, uint64_t bytes) {
    return {destination, bytes, bytes, source, bytes, bytes, bytes, 1, 1};
  }
  // Pageable and awaited, as cuMemcpyHtoD and cuMemcpyDtoH are.
  template <typename T>
  void Upload(uint64_t address, const std::vector<T>& data, uint64_t stream = 0) {
    EXPECT_EQ(backend_
                  ->Copy(kContext, stream, 0,
                         Linear(address, reinterpret_cast<uint64_t>(data.data()), data.size() * sizeof(T)), 3)
                  .Wait(),
              CUDA_SUCCESS);
  }
  template <typename T>
  std::vector<T> Download(uint64_t address, size_t count, uint64_t stream = 0, uint64_t context = kContext) {
    std::vector<T> data(count);
    EXPECT_EQ(
        backend_
            ->Copy(context, stream, 1, Linear(reinterpret_cast<uint64_t>(data.data()), address, count * sizeof(T)), 3)
            .Wait(),
        CUDA_SUCCESS);
    return data;
  }

  TestCards cards_;
  RecordedEvents events_;
  std::unique_ptr<SimBackend> backend_;
  uint64_t next_ = 100;
};

}  // namespace tf::simgpu
