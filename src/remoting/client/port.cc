#include "remoting/client/port.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace tf::remoting {

namespace {

constexpr auto kFlushAfter = std::chrono::microseconds(100);
constexpr int kIdleFlushes = 20;  // then the flusher sleeps until it is woken

}  // namespace

Port::Port(std::unique_ptr<link::Connection> connection, cuda::WireEvents* events)
    : connection_(std::move(connection)), events_(events), flush_each_(connection_->same_machine()) {
  control_ = std::make_unique<link::ControlLoop>(
      *connection_, link::HeartbeatOptions{}, [this](link::Frame& frame) { OnControl(frame); },
      [this](const absl::Status& why) {
        Lost(why);
        std::lock_guard lock(events_lock_);
        events_moved_.notify_all();
      });
  loop_.store(control_.get(), std::memory_order_release);
  callbacks_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "tf-callbacks");
    RunCallbacks();
  });
  if (!flush_each_) {
    flusher_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "tf-flush");
      RunFlusher();
    });
  }
}

Port::~Port() {
  lost_ = true;  // said first: this end is no loss to tell of
  connection_->Shutdown(absl::CancelledError("the program closed the link"));
  stop_ = true;
  {
    std::lock_guard lock(callbacks_lock_);
    callbacks_wake_.notify_all();
  }
  {
    std::lock_guard lock(flusher_lock_);
    flusher_wake_.notify_all();
  }
  callbacks_.join();
  if (flusher_.joinable()) flusher_.join();
}

CUresult Port::SendLong(cuda::Op op, uint64_t call, std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxMessage) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(send_lock_);
  while (true) {
    std::span<const std::byte> part = bytes.first(std::min(bytes.size(), link::kMaxFrame));
    bytes = bytes.subspan(part.size());
    uint16_t flags = bytes.empty() ? 0 : kMore;
    absl::Status status =
        connection_->data().Send({.op = static_cast<uint16_t>(op), .flags = flags, .call = call}, {part});
    if (!status.ok()) return Lost(status);
    if (bytes.empty()) return Flush();
  }
}

CUresult Port::Flush() {
  unflushed_.store(false, std::memory_order_relaxed);
  absl::Status status = connection_->data().Flush();
  return status.ok() ? CUDA_SUCCESS : Lost(status);
}

void Port::WakeFlusher() {
  unflushed_.store(true, std::memory_order_seq_cst);
  if (!flusher_sleeps_.load(std::memory_order_seq_cst)) return;
  std::lock_guard lock(flusher_lock_);
  flusher_sleeps_.store(false, std::memory_order_seq_cst);
  flusher_wake_.notify_one();
}

void Port::RunFlusher() {
  std::unique_lock lock(flusher_lock_);
  int idle = 0;
  while (!stop_) {
    if (idle >= kIdleFlushes) {
      flusher_sleeps_.store(true, std::memory_order_seq_cst);
      if (!unflushed_.load(std::memory_order_seq_cst)) {
        flusher_wake_.wait(lock, [&] { return stop_ || !flusher_sleeps_.load(std::memory_order_seq_cst); });
      }
      flusher_sleeps_.store(false, std::memory_order_seq_cst);
      idle = 0;
    }
    flusher_wake_.wait_for(lock, kFlushAfter, [&] { return stop_.load(); });
    lock.unlock();
    if (unflushed_.load(std::memory_order_seq_cst)) {
      std::lock_guard send_lock(send_lock_);
      (void)Flush();
      idle = 0;
    } else {
      ++idle;
    }
    lock.lock();
  }
}

void Port::AddWaiter(Waiter* waiter) {
  std::lock_guard lock(receive_lock_);
  waiter->next = waiters_;
  waiters_ = waiter;
}

void Port::Unlink(Waiter* waiter) {
  for (Waiter** at = &waiters_; *at != nullptr; at = &(*at)->next) {
    if (*at == waiter) {
      *at = waiter->next;
      return;
    }
  }
}

CUresult Port::Await(Waiter* waiter, CUresult sent) {
  std::unique_lock lock(receive_lock_);
  if (sent != CUDA_SUCCESS) {
    Unlink(waiter);
    return sent;
  }
  while (!waiter->done) {
    if (reading_) {
      receive_turn_.wait(lock);
      continue;
    }
    reading_ = true;
    lock.unlock();
    absl::StatusOr<link::Frame> frame = connection_->data().Receive();
    lock.lock();
    reading_ = false;
    if (!frame.ok()) {
      Lost(frame.status());
      receive_turn_.notify_all();
      // What arrived before the loss has been delivered; the rest never comes.
      if (!waiter->done) {
        Unlink(waiter);
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
      }
      break;
    }
    Deliver(*frame);
    if (waiters_ != nullptr) receive_turn_.notify_all();
  }
  return waiter->result;
}

void Port::Deliver(const link::Frame& frame) {
  Waiter* waiter = waiters_;
  while (waiter != nullptr && waiter->call != frame.header.call) waiter = waiter->next;
  if (waiter == nullptr) return;  // its caller gave up
  if ((frame.header.flags & kMore) != 0 || !waiter->parts.empty()) {
    waiter->parts.insert(waiter->parts.end(), frame.payload.begin(), frame.payload.end());
    if ((frame.header.flags & kMore) != 0) return;
    std::vector<std::byte> message = std::move(waiter->parts);
    Finish(waiter, message);
  } else {
    Finish(waiter, frame.payload);
  }
}

void Port::Finish(Waiter* waiter, std::span<const std::byte> message) {
  cuda::Reader reader(message);
  int32_t result;
  uint64_t events;
  reader.Get(&result);
  reader.Get(&events);
  if (events > events_seen_.load(std::memory_order_acquire)) {
    std::unique_lock lock(events_lock_);
    events_moved_.wait(lock, [&] { return events_handled_ >= events || lost(); });
  }
  if (result == CUDA_SUCCESS) {
    waiter->get(reader);
    if (!reader.done()) {
      Lost(absl::InternalError("the worker sent a reply that does not fit its operation"));
      result = CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
  }
  waiter->result = static_cast<CUresult>(result);
  waiter->done = true;
  Unlink(waiter);
}

CUresult Port::Lost(const absl::Status& why) {
  if (!lost_.exchange(true, std::memory_order_acq_rel)) {
    std::fprintf(stderr, "tensor-fusion: the link to the worker is lost: %s\n", std::string(why.message()).c_str());
    connection_->Shutdown(why);
  }
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult Port::SendRegionFd(uint64_t region, int fd) {
  int fds[] = {fd};
  absl::Status status = control_->SendFds({.op = kOpRegionFd, .call = region}, {}, fds);
  return status.ok() ? CUDA_SUCCESS : Lost(status);
}

void Port::OnControl(link::Frame& frame) {
  cuda::Op op = static_cast<cuda::Op>(frame.header.op);
  if (op == cuda::Op::kHostFunction) {
    // The program's function may take its time; the control thread may not.
    cuda::Reader reader(frame.payload);
    uint64_t token;
    int32_t status;
    reader.Get(&token);
    reader.Get(&status);
    if (!reader.done()) {
      Lost(absl::InternalError("the worker sent a broken event"));
      return;
    }
    std::lock_guard lock(callbacks_lock_);
    callbacks_queue_.emplace_back(token, status);
    callbacks_wake_.notify_one();
    return;
  }
  if (!cuda::DispatchEvent(*events_, frame.header.op, frame.payload)) {
    Lost(absl::InternalError("the worker sent an unknown event"));
    return;
  }
  if (op == cuda::Op::kOutput || op == cuda::Op::kFetch || op == cuda::Op::kStore) {
    std::lock_guard lock(events_lock_);
    events_seen_.store(++events_handled_, std::memory_order_release);
    events_moved_.notify_all();
  }
}

void Port::RunCallbacks() {
  std::unique_lock lock(callbacks_lock_);
  while (true) {
    callbacks_wake_.wait(lock, [&] { return stop_ || !callbacks_queue_.empty(); });
    if (stop_) return;
    auto [token, status] = callbacks_queue_.front();
    callbacks_queue_.pop_front();
    lock.unlock();
    events_->HostFunction(token, status);
    lock.lock();
  }
}

}  // namespace tf::remoting
