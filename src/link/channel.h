// One ordered, duplex sequence of frames between a client process and a worker.
//
//   sender                                         receiver
//   channel.Send({.op = kOpLaunch}, {{args}});     auto frame = channel.Receive();
//   auto room = channel.Reserve(64);               Decode(frame->header, frame->payload);
//   ... write into *room ...
//   channel.Commit({.op = kOpCopy}, 64);
//   channel.Flush();
//
// Frames reach the peer at the latest with Flush(); before that they may wait in a buffer, or lie in shared memory
// where a peer that is awake finds them and one that sleeps does not.
//
// Threads: one sender and one receiver at a time; senders among themselves take turns under the caller's lock. Sender
// and receiver do not disturb one another.
//
// Errors: UNAVAILABLE = the link is over (message says why; every later call fails alike); DEADLINE_EXCEEDED = the time
// is over, nothing was lost; INVALID_ARGUMENT, FAILED_PRECONDITION = a mistake of the caller, the link goes on. A peer
// that breaks the framing ends the link (UNAVAILABLE). Sending waits while the peer's buffers are full; the loss of the
// peer or Connection::Shutdown() ends every wait.
#pragma once

#include <initializer_list>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "link/frame.h"

namespace tf::link {

class Channel {
 public:
  virtual ~Channel() = default;

  // Room for a payload of `size` bytes (at most kMaxFrame), to be written in place. Valid until Commit; a second
  // Reserve without Commit drops the first.
  virtual absl::StatusOr<std::span<std::byte>> Reserve(size_t size) = 0;
  // Sends the first `size` bytes of the reserved room as one frame. header.size is ignored.
  virtual absl::Status Commit(const FrameHeader& header, size_t size) = 0;

  // Sends one frame with the payload gathered from `pieces`. The pieces are free for reuse when it returns.
  virtual absl::Status Send(const FrameHeader& header, std::span<const Bytes> pieces) = 0;
  absl::Status Send(const FrameHeader& header, std::initializer_list<Bytes> pieces = {}) {
    return Send(header, std::span<const Bytes>(pieces.begin(), pieces.size()));
  }
  // Sends one frame with descriptors attached (the receiver gets duplicates) and flushes. Only on the control channel
  // over shared memory, at most kMaxFds; otherwise FAILED_PRECONDITION.
  virtual absl::Status SendFds(const FrameHeader& header, std::span<const Bytes> pieces, std::span<const int> fds);

  // Makes everything sent so far reach the peer. When the deadline passes, the rest stays buffered for the next Flush.
  virtual absl::Status Flush(Deadline deadline = kForever) = 0;

  // The next frame. Frames that had arrived when the peer closed are still handed out.
  virtual absl::StatusOr<Frame> Receive(Deadline deadline = kForever, const PayloadSink* sink = nullptr) = 0;
  // The next frame if it is there, at no waiting.
  virtual absl::StatusOr<std::optional<Frame>> TryReceive() = 0;
  // Gives the room of the last received frame back to the sender before the next Receive does.
  virtual void Release() = 0;
};

}  // namespace tf::link
