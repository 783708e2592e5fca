#include "link/control_loop.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::link {

ControlLoop::ControlLoop(Connection& connection, const HeartbeatOptions& options, std::function<void(Frame&)> on_frame,
                         std::function<void(const absl::Status&)> on_lost)
    : connection_(connection), on_frame_(std::move(on_frame)), on_lost_(std::move(on_lost)) {
  thread_ = std::thread([this, options] { Run(options); });
}

ControlLoop::~ControlLoop() {
  if (connection_.InForkedChild()) {
    thread_.detach();  // the thread exists in the parent only
    return;
  }
  stop_.store(true);
  connection_.Shutdown(absl::CancelledError("the link was closed on this side"));
  thread_.join();
}

absl::Status ControlLoop::Send(const FrameHeader& header, std::initializer_list<Bytes> pieces) {
  // In a forked child the lock may be held by a thread that does not exist.
  if (connection_.InForkedChild()) return connection_.status();
  std::lock_guard lock(send_lock_);
  absl::Status status = connection_.control().Send(header, pieces);
  return status.ok() ? connection_.control().Flush() : status;
}

absl::Status ControlLoop::SendFds(const FrameHeader& header, std::initializer_list<Bytes> pieces,
                                  std::span<const int> fds) {
  if (connection_.InForkedChild()) return connection_.status();
  std::lock_guard lock(send_lock_);
  return connection_.control().SendFds(header, std::span<const Bytes>(pieces.begin(), pieces.size()), fds);
}

// Never waits: when somebody is sending, the peer hears from us anyway, and when its buffer is full, the heartbeat
// stays in ours until the peer takes it or is lost.
void ControlLoop::SendHeartbeat() {
  if (!send_lock_.try_lock()) return;
  if (connection_.control().Send({.op = kOpHeartbeat}).ok()) {
    connection_.control().Flush(Deadline()).IgnoreError();
  }
  send_lock_.unlock();
}

void ControlLoop::Run(const HeartbeatOptions& options) {
  pthread_setname_np(pthread_self(), "tf-control");
  Heartbeat heartbeat(options, std::chrono::steady_clock::now());
  absl::Status lost;
  while (lost.ok()) {
    absl::StatusOr<Frame> frame = connection_.control().Receive(heartbeat.Next());
    if (frame.ok()) {
      heartbeat.Heard(std::chrono::steady_clock::now());
      if (frame->header.op < kFirstLinkOp) on_frame_(*frame);
    } else if (!absl::IsDeadlineExceeded(frame.status())) {
      lost = frame.status();
      break;
    }
    switch (heartbeat.Tick(std::chrono::steady_clock::now())) {
      case Heartbeat::Action::kNothing:
        break;
      case Heartbeat::Action::kSend:
        SendHeartbeat();
        break;
      case Heartbeat::Action::kLost:
        connection_.Shutdown(absl::UnavailableError(
            absl::StrCat("no sign of life from the other side for ", absl::FormatDuration(options.timeout))));
        lost = connection_.status();
        break;
    }
  }
  if (!stop_.load() && on_lost_) on_lost_(lost);
}

}  // namespace tf::link
