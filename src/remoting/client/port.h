// The program's end of a link: sends operations, matches replies to their callers, delivers events.
//
// Queue, Call and Start may be used by any thread; what one call has returned before another began is executed first. A
// thread that waits for its reply reads the data channel itself (no hand-over between threads); when several wait, one
// reads for all. When the link is lost, every pending and later operation answers CUDA_ERROR_DEVICE_UNAVAILABLE.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cuda/wire.h"
#include "cuda/wire_dispatch.h"
#include "cuda/wire_ops.h"
#include "link/connection.h"
#include "link/control_loop.h"
#include "remoting/message.h"

namespace tf::remoting {

class Port {
 public:
  // `events` outlives the port. Its Output, Fetch and Store are called on the control thread and must be quick;
  // HostFunction is called on a thread of its own, one after the other.
  Port(std::unique_ptr<link::Connection> connection, cuda::WireEvents* events);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  bool same_machine() const { return connection_->same_machine(); }
  bool lost() const { return lost_.load(std::memory_order_acquire); }

  template <class Put>
  CUresult Queue(cuda::Op op, size_t size, Put&& put) {
    return Send(op, 0, size, std::forward<Put>(put), /*flush=*/flush_each_);
  }
  template <class Put, class Get>
  CUresult Call(cuda::Op op, size_t size, Put&& put, Get&& get) {
    Waiter waiter;
    waiter.get = std::forward<Get>(get);
    waiter.call = next_call_.fetch_add(1, std::memory_order_relaxed);
    AddWaiter(&waiter);
    CUresult sent = Send(op, waiter.call, size, std::forward<Put>(put), true);
    return Await(&waiter, sent);
  }
  template <class Put, class Get>
  cuda::Pending Start(cuda::Op op, size_t size, Put&& put, Get&& get) {
    auto waiter = std::make_shared<Waiter>();
    waiter->get = std::forward<Get>(get);
    waiter->call = next_call_.fetch_add(1, std::memory_order_relaxed);
    AddWaiter(waiter.get());
    CUresult sent = Send(op, waiter->call, size, std::forward<Put>(put), true);
    return cuda::Pending::Later([this, waiter, sent] { return Await(waiter.get(), sent); });
  }
  // On the control channel, at once.
  template <class Put>
  void Tell(cuda::Op op, size_t size, Put&& put) {
    std::vector<std::byte> bytes(size);
    cuda::Writer writer(bytes.data());
    put(writer);
    if (link::ControlLoop* loop = loop_.load(std::memory_order_acquire)) {
      (void)loop->Send({.op = static_cast<uint16_t>(op)}, {bytes});
    }
  }
  CUresult SendRegionFd(uint64_t region, int fd);

 private:
  struct Waiter {
    uint64_t call = 0;
    std::function<void(cuda::Reader&)> get;
    std::vector<std::byte> parts;  // of a reply that came in several frames
    bool done = false;
    CUresult result = CUDA_ERROR_DEVICE_UNAVAILABLE;
    Waiter* next = nullptr;
  };

  template <class Put>
  CUresult Send(cuda::Op op, uint64_t call, size_t size, Put&& put, bool flush) {
    if (lost()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (size > link::kMaxFrame) {
      std::vector<std::byte> bytes(size);
      cuda::Writer writer(bytes.data());
      put(writer);
      return SendLong(op, call, bytes);
    }
    std::lock_guard lock(send_lock_);
    auto room = connection_->data().Reserve(size);
    if (!room.ok()) return Lost(room.status());
    cuda::Writer writer(room->data());
    put(writer);
    absl::Status status = connection_->data().Commit({.op = static_cast<uint16_t>(op), .call = call}, size);
    if (!status.ok()) return Lost(status);
    if (flush) return Flush();
    WakeFlusher();
    return CUDA_SUCCESS;
  }
  CUresult SendLong(cuda::Op op, uint64_t call, std::span<const std::byte> bytes);
  CUresult Flush();  // send_lock_ held
  void WakeFlusher();
  void RunFlusher();
  void AddWaiter(Waiter* waiter);
  CUresult Await(Waiter* waiter, CUresult sent);
  void Deliver(const link::Frame& frame);                           // receive_lock_ held
  void Finish(Waiter* waiter, std::span<const std::byte> message);  // receive_lock_ held
  void Unlink(Waiter* waiter);                                      // receive_lock_ held
  CUresult Lost(const absl::Status& why);
  void OnControl(link::Frame& frame);
  void RunCallbacks();

  std::unique_ptr<link::Connection> connection_;
  cuda::WireEvents* const events_;
  const bool flush_each_;  // shared memory: a flush costs nothing while the worker is awake
  std::atomic<bool> lost_ = false;
  std::atomic<bool> stop_ = false;

  std::mutex send_lock_;
  std::atomic<uint64_t> next_call_ = 1;

  // Queued operations over TCP wait for company, but not long.
  std::thread flusher_;
  std::mutex flusher_lock_;
  std::condition_variable flusher_wake_;
  std::atomic<bool> flusher_sleeps_ = true;
  std::atomic<bool> unflushed_ = false;

  std::mutex receive_lock_;
  std::condition_variable receive_turn_;
  bool reading_ = false;
  Waiter* waiters_ = nullptr;

  // Output, Fetch and Store events handled so far.
  std::mutex events_lock_;
  std::condition_variable events_moved_;
  uint64_t events_handled_ = 0;
  std::atomic<uint64_t> events_seen_ = 0;

  std::thread callbacks_;
  std::mutex callbacks_lock_;
  std::condition_variable callbacks_wake_;
  std::deque<std::pair<uint64_t, int32_t>> callbacks_queue_;

  // Last member, so that its thread, which uses all of the above, ends first. The thread itself finds it by loop_.
  std::atomic<link::ControlLoop*> loop_ = nullptr;
  std::unique_ptr<link::ControlLoop> control_;
};

}  // namespace tf::remoting
