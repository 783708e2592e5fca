#include "link/stream_channel.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "link/spin.h"

namespace tf::link {
namespace {

constexpr Deadline kNow = Deadline();  // long past: no waiting at all
constexpr int kFdShift = 12;           // the upper four bits of flags count descriptors

absl::Status TooLarge(size_t size) {
  return absl::InvalidArgumentError(
      absl::StrCat("a frame has at most ", kMaxFrame, " bytes of payload, asked for ", size));
}

size_t TotalSize(std::span<const Bytes> pieces) {
  size_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size();
  return size;
}

FrameHeader Complete(const FrameHeader& header, size_t size, size_t fds) {
  FrameHeader full = header;
  full.size = static_cast<uint32_t>(size);
  full.flags = static_cast<uint16_t>((header.flags & kUserFlags) | (fds << kFdShift));
  return full;
}

// Drops the first `size` bytes of the pieces.
std::span<iovec> Advance(std::span<iovec> pieces, size_t size) {
  while (!pieces.empty() && size >= pieces[0].iov_len) {
    size -= pieces[0].iov_len;
    pieces = pieces.subspan(1);
  }
  if (size > 0) {
    pieces[0].iov_base = static_cast<char*>(pieces[0].iov_base) + size;
    pieces[0].iov_len -= size;
  }
  return pieces;
}

}  // namespace

void StreamChannel::Buffer::MakeRoom(size_t more) {
  if (begin == end) begin = end = 0;
  if (capacity - end >= more) return;
  if (capacity - size() >= more) {
    std::memmove(bytes.get(), bytes.get() + begin, size());
  } else {
    const size_t larger = size() + more;
    std::unique_ptr<std::byte[]> copy(new std::byte[larger]);
    if (size() > 0) std::memcpy(copy.get(), bytes.get() + begin, size());
    bytes = std::move(copy);
    capacity = larger;
  }
  end -= begin;
  begin = 0;
}

StreamChannel::StreamChannel(LinkState& state, std::unique_ptr<Stream> stream, absl::Duration spin)
    : state_(state), stream_(std::move(stream)), spin_(SpinTime(spin)) {}

absl::Status StreamChannel::Ended(const std::string& why) {
  state_.End(LinkState::kPeerGone, absl::UnavailableError(why));
  return state_.status();
}

absl::Status StreamChannel::WriteAll(std::span<iovec> pieces, std::span<const int> fds) {
  pieces = Advance(pieces, 0);
  while (!pieces.empty()) {
    if (state_.phase() != LinkState::kUp) return state_.status();
    const Stream::Result result = stream_->Write(pieces, fds);
    switch (result.outcome) {
      case Stream::Outcome::kDone:
        fds = {};
        pieces = Advance(pieces, result.size);
        break;
      case Stream::Outcome::kAgain:
        PollUntil(stream_->fd(), result.events, kForever);
        break;
      case Stream::Outcome::kClosed:
        return Ended(result.why);
    }
  }
  return absl::OkStatus();
}

absl::Status StreamChannel::Flush(Deadline deadline) {
  while (out_.size() > 0) {
    if (state_.phase() != LinkState::kUp) return state_.status();
    const iovec piece{.iov_base = out_.bytes.get() + out_.begin, .iov_len = out_.size()};
    const Stream::Result result = stream_->Write({&piece, 1});
    switch (result.outcome) {
      case Stream::Outcome::kDone:
        out_.begin += result.size;
        break;
      case Stream::Outcome::kAgain:
        if (!PollUntil(stream_->fd(), result.events, deadline)) {
          return absl::DeadlineExceededError("the other side does not take what was sent; it stays buffered");
        }
        break;
      case Stream::Outcome::kClosed:
        return Ended(result.why);
    }
  }
  return state_.phase() == LinkState::kUp ? absl::OkStatus() : state_.status();
}

absl::StatusOr<std::span<std::byte>> StreamChannel::Reserve(size_t size) {
  if (size > kMaxFrame) return TooLarge(size);
  if (state_.phase() != LinkState::kUp) return state_.status();
  const size_t need = sizeof(FrameHeader) + size;
  if (out_.size() > 0 && out_.size() + need > 2 * kFlushAt) {
    if (absl::Status status = Flush(kForever); !status.ok()) return status;
  }
  out_.MakeRoom(std::max(need, out_.capacity == 0 ? 2 * kFlushAt : 0));
  reserved_ = size;
  has_reserved_ = true;
  return std::span<std::byte>(out_.bytes.get() + out_.end + sizeof(FrameHeader), size);
}

absl::Status StreamChannel::Commit(const FrameHeader& header, size_t size) {
  if (state_.phase() != LinkState::kUp) return state_.status();
  if (!has_reserved_ || size > reserved_) {
    return absl::FailedPreconditionError(absl::StrCat("Commit of ", size, " bytes without Reserve for as many"));
  }
  has_reserved_ = false;
  const FrameHeader full = Complete(header, size, 0);
  std::memcpy(out_.bytes.get() + out_.end, &full, sizeof(full));
  out_.end += sizeof(full) + size;
  return out_.size() >= kFlushAt ? Flush(kForever) : absl::OkStatus();
}

// The frame at once, behind what is buffered, its payload from where it lies.
absl::Status StreamChannel::SendNow(const FrameHeader& header, std::span<const Bytes> pieces,
                                    std::span<const int> fds) {
  if (!fds.empty()) {  // they travel with the first byte, which must be this frame's
    if (absl::Status status = Flush(kForever); !status.ok()) return status;
  }
  std::vector<iovec> list;
  list.reserve(pieces.size() + 2);
  if (out_.size() > 0) list.push_back({out_.bytes.get() + out_.begin, out_.size()});
  list.push_back({const_cast<FrameHeader*>(&header), sizeof(header)});
  for (const Bytes& piece : pieces) {
    if (!piece.empty()) list.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  }
  constexpr size_t kMost = 512;  // the system takes 1024
  absl::Status status;
  for (size_t at = 0; status.ok() && at < list.size(); at += kMost) {
    status = WriteAll(std::span(list).subspan(at, std::min(kMost, list.size() - at)), fds);
    fds = {};
  }
  out_.begin = out_.end = 0;
  return status;
}

absl::Status StreamChannel::Send(const FrameHeader& header, std::span<const Bytes> pieces) {
  const size_t size = TotalSize(pieces);
  if (size > kMaxFrame) return TooLarge(size);
  if (size >= kFlushAt / 2) {
    has_reserved_ = false;
    return SendNow(Complete(header, size, 0), pieces, {});
  }
  absl::StatusOr<std::span<std::byte>> room = Reserve(size);
  if (!room.ok()) return room.status();
  std::byte* to = room->data();
  for (const Bytes& piece : pieces) {
    if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  return Commit(header, size);
}

absl::Status StreamChannel::SendFds(const FrameHeader& header, std::span<const Bytes> pieces,
                                    std::span<const int> fds) {
  if (stream_->kind() != Stream::Kind::kUnix) return Channel::SendFds(header, pieces, fds);
  if (fds.size() > kMaxFds) {
    return absl::InvalidArgumentError(absl::StrCat("a frame carries at most ", kMaxFds, " descriptors"));
  }
  const size_t size = TotalSize(pieces);
  if (size > kMaxFrame) return TooLarge(size);
  if (state_.phase() != LinkState::kUp) return state_.status();
  has_reserved_ = false;
  return SendNow(Complete(header, size, fds.size()), pieces, fds);
}

// At least one byte, or the reason why not.
absl::Status StreamChannel::ReadSome(std::span<std::byte> to, Deadline deadline, size_t& got) {
  std::optional<Spinner> spinner;
  for (;;) {
    const LinkState::Phase phase = state_.phase();
    if (phase != LinkState::kUp && phase != LinkState::kPeerGone) return state_.status();
    const Stream::Result result = stream_->Read(to);
    switch (result.outcome) {
      case Stream::Outcome::kDone:
        got = result.size;
        return absl::OkStatus();
      case Stream::Outcome::kClosed:
        return Ended(result.why);
      case Stream::Outcome::kAgain:
        break;
    }
    if (phase == LinkState::kPeerGone) return state_.status();
    if (deadline == kNow) return absl::DeadlineExceededError("no frame is there");
    if (spin_.count() > 0) {
      if (!spinner) spinner.emplace(spin_);
      if (spinner->Again()) continue;
    }
    if (!PollUntil(stream_->fd(), result.events, deadline)) {
      return absl::DeadlineExceededError("no frame arrived in time");
    }
  }
}

absl::StatusOr<bool> StreamChannel::PeekHeader(FrameHeader& header) {
  if (in_.size() < sizeof(header)) return false;
  std::memcpy(&header, in_.bytes.get() + in_.begin, sizeof(header));
  const size_t fds = header.flags >> kFdShift;
  if (header.size > kMaxFrame || fds > kMaxFds || fds > stream_->received_fds().size()) {
    state_.End(LinkState::kDown,
               absl::UnavailableError(absl::StrCat("the other side broke the framing: a frame of ", header.size,
                                                   " bytes with ", fds, " descriptors")));
    return state_.status();
  }
  return true;
}

Frame StreamChannel::Take(const FrameHeader& header) {
  Frame frame;
  frame.header = header;
  frame.header.flags &= kUserFlags;
  for (size_t fds = header.flags >> kFdShift; fds > 0; --fds) {
    frame.fds.push_back(std::move(stream_->received_fds().front()));
    stream_->received_fds().pop_front();
  }
  return frame;
}

absl::StatusOr<Frame> StreamChannel::Receive(Deadline deadline, const PayloadSink* sink) {
  if (const LinkState::Phase phase = state_.phase(); phase != LinkState::kUp && phase != LinkState::kPeerGone) {
    return state_.status();
  }
  FrameHeader header;
  for (;;) {
    absl::StatusOr<bool> known = PeekHeader(header);
    if (!known.ok()) return known.status();
    if (*known) break;
    in_.MakeRoom(kReadSize);
    size_t got = 0;
    absl::Status status = ReadSome({in_.bytes.get() + in_.end, kReadSize}, deadline, got);
    if (!status.ok()) return status;
    in_.end += got;
  }
  const size_t total = sizeof(header) + header.size;

  if (sink != nullptr && header.size > 0) {
    const std::span<std::byte> to = (*sink)(header);
    if (to.size() == header.size) {
      const size_t here = std::min(total, in_.size()) - sizeof(header);
      std::memcpy(to.data(), in_.bytes.get() + in_.begin + sizeof(header), here);
      in_.begin += sizeof(header) + here;
      // The rest is on its way: waiting for it is bounded by the peer's life, not by the deadline.
      for (size_t at = here; at < to.size();) {
        size_t got = 0;
        absl::Status status = ReadSome(to.subspan(at), kForever, got);
        if (!status.ok()) return status;
        at += got;
      }
      Frame frame = Take(header);
      frame.payload = to;
      return frame;
    }
  }

  while (in_.size() < total) {
    // A little more than this frame: the next header comes with it, and what has to be moved afterwards stays small.
    const size_t want = std::max(total - in_.size() + 4096, kReadSize);
    in_.MakeRoom(want);
    size_t got = 0;
    absl::Status status = ReadSome({in_.bytes.get() + in_.end, want}, deadline, got);
    if (!status.ok()) return status;
    in_.end += got;
  }
  Frame frame = Take(header);
  frame.payload = Bytes(in_.bytes.get() + in_.begin + sizeof(header), header.size);
  in_.begin += total;
  return frame;
}

absl::StatusOr<std::optional<Frame>> StreamChannel::TryReceive() {
  absl::StatusOr<Frame> frame = Receive(kNow, nullptr);
  if (frame.ok()) return std::optional<Frame>(*std::move(frame));
  if (absl::IsDeadlineExceeded(frame.status())) return std::optional<Frame>();
  return frame.status();
}

}  // namespace tf::link
