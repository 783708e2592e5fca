#include "link/shm_channel.h"

#include <poll.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "link/spin.h"

namespace tf::link {
namespace {

constexpr std::chrono::milliseconds kSlice{100};

absl::Status TooLarge(size_t size) {
  return absl::InvalidArgumentError(
      absl::StrCat("a frame has at most ", kMaxFrame, " bytes of payload, asked for ", size));
}

}  // namespace

ShmChannel::ShmChannel(LinkState& state, const RingMemory& out, const RingMemory& in, int liveness_fd,
                       absl::Duration spin)
    : state_(state), liveness_fd_(liveness_fd), spin_(SpinTime(spin)), writer_(out), reader_(in) {}

// Waits until `ready` holds (true), or the deadline passes or the link ends (false).
template <class Ready>
bool ShmChannel::Wait(Ready ready, Doorbell& bell, Deadline deadline) {
  using Clock = std::chrono::steady_clock;
  if (ready()) return true;
  if (spin_.count() > 0 && deadline > Clock::now()) {
    for (Spinner spinner(std::min<std::chrono::nanoseconds>(spin_, deadline - Clock::now())); spinner.Again();) {
      if (ready()) return true;
    }
  }
  for (;;) {
    const uint32_t seen = bell.bell.load(std::memory_order_acquire);
    bell.parked.exchange(1, std::memory_order_acq_rel);
    const LinkState::Phase phase = state_.phase();
    if (ready()) {
      bell.parked.store(0, std::memory_order_relaxed);
      return true;
    }
    if (phase != LinkState::kUp) return false;
    const Deadline now = Clock::now();
    if (now >= deadline) {
      bell.parked.store(0, std::memory_order_relaxed);
      return false;
    }
    FutexWait(bell.bell, seen, std::min<std::chrono::nanoseconds>(kSlice, deadline - now));
    if (ready()) {
      bell.parked.store(0, std::memory_order_relaxed);
      return true;
    }
    if (Clock::now() - now >= kSlice) {
      pollfd poll_fd{.fd = liveness_fd_, .events = POLLRDHUP, .revents = 0};
      if (poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
        state_.End(LinkState::kPeerGone, absl::UnavailableError("the other side closed the link or died"));
      }
    }
  }
}

absl::Status ShmChannel::Broken() {
  state_.End(LinkState::kDown, absl::UnavailableError("the other side broke the framing in shared memory"));
  return state_.status();
}

absl::Status ShmChannel::ReserveSlow(size_t size) {
  writer_.WakeReader();  // it may sleep in front of a full ring that was never flushed
  RingState ring = RingState::kWait;
  Wait([&] { return (ring = writer_.TryReserve(size)) != RingState::kWait; }, writer_.space_bell(), kForever);
  if (ring == RingState::kBroken) return Broken();
  return state_.phase() == LinkState::kUp ? absl::OkStatus() : state_.status();
}

absl::StatusOr<std::span<std::byte>> ShmChannel::Reserve(size_t size) {
  if (size > kMaxFrame) return TooLarge(size);
  if (state_.phase() != LinkState::kUp) return state_.status();
  if (const RingState ring = writer_.TryReserve(size); ring != RingState::kReady) {
    if (ring == RingState::kBroken) return Broken();
    if (absl::Status status = ReserveSlow(size); !status.ok()) return status;
  }
  reserved_ = size;
  has_reserved_ = true;
  return std::span<std::byte>(writer_.room(), size);
}

absl::Status ShmChannel::Commit(const FrameHeader& header, size_t size) {
  if (state_.phase() != LinkState::kUp) return state_.status();
  if (!has_reserved_ || size > reserved_) {
    return absl::FailedPreconditionError(absl::StrCat("Commit of ", size, " bytes without Reserve for as many"));
  }
  has_reserved_ = false;
  FrameHeader full = header;
  full.size = static_cast<uint32_t>(size);
  full.flags &= kUserFlags;
  writer_.Commit(full);
  return absl::OkStatus();
}

absl::Status ShmChannel::Send(const FrameHeader& header, std::span<const Bytes> pieces) {
  size_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size();
  absl::StatusOr<std::span<std::byte>> room = Reserve(size);
  if (!room.ok()) return room.status();
  std::byte* to = room->data();
  for (const Bytes& piece : pieces) {
    if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  return Commit(header, size);
}

absl::Status ShmChannel::Flush(Deadline) {
  if (state_.phase() != LinkState::kUp) return state_.status();
  writer_.WakeReader();
  return absl::OkStatus();
}

// One look: true = a frame or an error is there. `phase` was read before the look, so that what arrived before the
// peer went is seen.
bool ShmChannel::Next(LinkState::Phase phase, Frame& frame, absl::Status& error) {
  if (phase == LinkState::kUp || phase == LinkState::kPeerGone) {
    switch (reader_.Next(frame.header, frame.payload)) {
      case RingState::kReady:
        frame.header.flags &= kUserFlags;
        return true;
      case RingState::kBroken:
        error = Broken();
        return true;
      case RingState::kWait:
        break;
    }
  }
  if (phase == LinkState::kUp) return false;
  error = state_.status();
  return true;
}

absl::StatusOr<Frame> ShmChannel::Receive(Deadline deadline, const PayloadSink* sink) {
  Frame frame;
  absl::Status error;
  const auto look = [&] { return Next(state_.phase(), frame, error); };
  while (!look()) {
    if (Wait(look, reader_.data_bell(), deadline)) break;
    if (state_.phase() == LinkState::kUp) {
      return absl::DeadlineExceededError("no frame arrived in time");
    }
  }
  if (!error.ok()) return error;
  if (sink != nullptr && !frame.payload.empty()) {
    const std::span<std::byte> to = (*sink)(frame.header);
    if (to.size() == frame.payload.size()) {
      std::memcpy(to.data(), frame.payload.data(), to.size());
      frame.payload = to;
    }
  }
  return frame;
}

absl::StatusOr<std::optional<Frame>> ShmChannel::TryReceive() {
  Frame frame;
  absl::Status error;
  if (!Next(state_.phase(), frame, error)) return std::optional<Frame>();
  if (!error.ok()) return error;
  return std::optional<Frame>(std::move(frame));
}

void ShmChannel::Release() {
  const LinkState::Phase phase = state_.phase();
  if (phase == LinkState::kUp || phase == LinkState::kPeerGone) reader_.Release();
}

void ShmChannel::Wake() {
  reader_.data_bell().RingAlways();
  writer_.space_bell().RingAlways();
}

}  // namespace tf::link
