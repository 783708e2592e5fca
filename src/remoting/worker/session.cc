#include "remoting/worker/session.h"

#include <pthread.h>

#include "absl/strings/str_cat.h"

namespace tf::remoting {

namespace {

// More operations of one session cannot wait at once; then its next operation waits.
constexpr size_t kMaxWaiters = 256;

}  // namespace

Session::Session(std::unique_ptr<link::Connection> connection, Card* card)
    : connection_(std::move(connection)),
      backend_(std::make_unique<DriverBackend>(card, &events_, connection_->same_machine())) {
  control_ = std::make_unique<link::ControlLoop>(
      *connection_, link::HeartbeatOptions{}, [this](link::Frame& frame) { OnControl(frame); },
      [this](const absl::Status&) { backend_->Abandon(); });
}

Session::~Session() {
  Stop();
  backend_->Abandon();
  // Destroying contexts ends what the waiters wait for.
  backend_->EndContexts();
  {
    std::lock_guard lock(waiters_lock_);
    stopping_ = true;
    jobs_.clear();
    waiters_wake_.notify_all();
  }
  for (std::thread& waiter : waiters_) waiter.join();
  control_.reset();
  backend_.reset();
}

void Session::Stop() { connection_->Shutdown(absl::CancelledError("the worker ends this session")); }

absl::Status Session::Run() {
  std::vector<std::byte> parts;  // of a message that comes in several frames
  while (true) {
    absl::StatusOr<std::optional<link::Frame>> ready = connection_->data().TryReceive();
    if (!ready.ok()) return ready.status();
    if (!ready->has_value()) {
      FlushReplies();
      absl::StatusOr<link::Frame> frame = connection_->data().Receive();
      if (!frame.ok()) return frame.status();
      *ready = *std::move(frame);
    }
    const link::Frame& frame = **ready;
    std::span<const std::byte> message = frame.payload;
    bool more = (frame.header.flags & kMore) != 0;
    if (more || !parts.empty()) {
      if (parts.size() + message.size() > kMaxMessage) {
        return absl::InvalidArgumentError(absl::StrCat("a message of more than ", kMaxMessage, " bytes"));
      }
      parts.insert(parts.end(), message.begin(), message.end());
      if (more) continue;
      message = parts;
    }
    calls_.fetch_add(1, std::memory_order_relaxed);
    Answer answer{this, static_cast<cuda::Op>(frame.header.op), frame.header.call};
    bool valid = cuda::Dispatch(*backend_, frame.header.op, message, answer);
    parts.clear();
    if (!valid) {
      return absl::InvalidArgumentError(
          absl::StrCat("a message that is not valid (operation ", frame.header.op, " of ", cuda::kOpCount - 1, ")"));
    }
  }
}

void Session::Answer::Queued(cuda::Op, uint64_t context, CUresult result) {
  if (result != CUDA_SUCCESS) session->backend_->Latch(context, result);
}

void Session::SendLongReply(cuda::Op op, uint64_t call, std::span<const std::byte> bytes) {
  std::lock_guard lock(reply_lock_);
  while (!bytes.empty()) {
    std::span<const std::byte> part = bytes.first(std::min(bytes.size(), link::kMaxFrame));
    bytes = bytes.subspan(part.size());
    uint16_t flags = bytes.empty() ? 0 : kMore;
    if (!connection_->data().Send({.op = static_cast<uint16_t>(op), .flags = flags, .call = call}, {part}).ok()) return;
  }
  unflushed_ = true;
}

void Session::FlushReplies() {
  std::lock_guard lock(reply_lock_);
  if (!unflushed_) return;
  unflushed_ = false;
  (void)connection_->data().Flush();
}

void Session::SendEvent(cuda::Op op, std::span<const std::byte> bytes) {
  std::lock_guard lock(events_lock_);
  (void)control_->Send({.op = static_cast<uint16_t>(op)}, {bytes});
  if (op == cuda::Op::kOutput || op == cuda::Op::kFetch || op == cuda::Op::kStore) {
    events_sent_.fetch_add(1, std::memory_order_release);
  }
}

void Session::Wait(std::function<void()> job) {
  std::unique_lock lock(waiters_lock_);
  waiters_room_.wait(lock, [&] { return busy_waiters_ + jobs_.size() < kMaxWaiters; });
  jobs_.push_back(std::move(job));
  if (idle_waiters_ >= jobs_.size()) {
    waiters_wake_.notify_one();
    return;
  }
  waiters_.emplace_back([this] {
    pthread_setname_np(pthread_self(), "tf-waiter");
    RunWaiter();
  });
}

void Session::RunWaiter() {
  std::unique_lock lock(waiters_lock_);
  while (true) {
    ++idle_waiters_;
    waiters_wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    --idle_waiters_;
    if (stopping_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++busy_waiters_;
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    --busy_waiters_;
    waiters_room_.notify_one();
  }
}

void Session::OnControl(link::Frame& frame) {
  if (frame.header.op == kOpRegionFd) {
    if (frame.fds.size() == 1) backend_->AddRegionFd(frame.header.call, std::move(frame.fds[0]));
    return;
  }
  if (!cuda::DispatchNotice(*backend_, frame.header.op, frame.payload)) {
    connection_->Shutdown(absl::InvalidArgumentError("a notice that is not valid"));
  }
}

}  // namespace tf::remoting
