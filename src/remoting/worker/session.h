// One client of a worker: reads operations from its link, executes them, answers. A session ends when its link does, or
// with the first message that is not valid; whatever it held is given back, and no other session notices.
//
// Threads: Run on one thread of its own; a control loop; and waiters, as many as operations wait at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda/wire_client.h"
#include "cuda/wire_dispatch.h"
#include "link/connection.h"
#include "link/control_loop.h"
#include "remoting/message.h"
#include "remoting/worker/driver_backend.h"

namespace tf::remoting {

class Session {
 public:
  Session(std::unique_ptr<link::Connection> connection, Card* card);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns when the session is over: why.
  absl::Status Run();
  // From any thread: makes Run return.
  void Stop();
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  const link::Peer& peer() const { return connection_->peer(); }

 private:
  // How Dispatch answers; see cuda/wire_dispatch.h.
  struct Answer {
    Session* session;
    cuda::Op op;
    uint64_t call;
    void Queued(cuda::Op op, uint64_t context, CUresult result);
    template <class Put>
    void Now(CUresult result, size_t size, Put put) {
      session->Reply(op, call, result, size, put);
    }
    template <class Size, class Put>
    void Later(cuda::Pending pending, Size size, Put put) {
      if (pending.over()) {
        session->Reply(op, call, pending.Wait(), size(), put);
        return;
      }
      session->Wait([session = session, op = op, call = call,
                     pending = std::make_shared<cuda::Pending>(std::move(pending)), size, put] {
        CUresult result = pending->Wait();
        session->Reply(op, call, result, size(), put);
        session->FlushReplies();
      });
    }
  };
  // Events to the client, on the control channel.
  struct EventPort {
    Session* session;
    template <class Put>
    void Tell(cuda::Op op, size_t size, Put&& put) {
      std::vector<std::byte> bytes(size);
      cuda::Writer writer(bytes.data());
      put(writer);
      session->SendEvent(op, bytes);
    }
  };

  template <class Put>
  void Reply(cuda::Op op, uint64_t call, CUresult result, size_t size, Put& put) {
    if (result != CUDA_SUCCESS) size = 0;
    size_t whole = kReplyHeadBytes + size;
    auto encode = [&](std::byte* at) {
      cuda::Writer writer(at);
      writer.Put(static_cast<int32_t>(result));
      writer.Put(events_sent_.load(std::memory_order_acquire));
      if (result == CUDA_SUCCESS) put(writer);
    };
    if (whole > link::kMaxFrame) {
      std::vector<std::byte> bytes(whole);
      encode(bytes.data());
      SendLongReply(op, call, bytes);
      return;
    }
    std::lock_guard lock(reply_lock_);
    auto room = connection_->data().Reserve(whole);
    if (!room.ok()) return;  // the receiving side ends the session
    encode(room->data());
    (void)connection_->data().Commit({.op = static_cast<uint16_t>(op), .call = call}, whole);
    unflushed_ = true;
  }
  void SendLongReply(cuda::Op op, uint64_t call, std::span<const std::byte> bytes);
  void FlushReplies();
  void SendEvent(cuda::Op op, std::span<const std::byte> bytes);
  void Wait(std::function<void()> job);
  void RunWaiter();
  void OnControl(link::Frame& frame);

  std::unique_ptr<link::Connection> connection_;
  std::atomic<uint64_t> calls_ = 0;
  std::mutex reply_lock_;
  bool unflushed_ = false;

  std::mutex events_lock_;
  std::atomic<uint64_t> events_sent_ = 0;  // Output, Fetch and Store
  EventPort event_port_{this};
  cuda::WireEventSender<EventPort> events_{&event_port_};

  std::mutex waiters_lock_;
  std::condition_variable waiters_wake_;
  std::condition_variable waiters_room_;
  std::deque<std::function<void()>> jobs_;
  size_t idle_waiters_ = 0;
  size_t busy_waiters_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> waiters_;

  std::unique_ptr<DriverBackend> backend_;
  std::unique_ptr<link::ControlLoop> control_;
};

}  // namespace tf::remoting
