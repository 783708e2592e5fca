// What travels on a link: a frame, that is a 16-byte header and up to kMaxFrame bytes of payload. Larger transfers are
// cut into frames by the layer above. Both ends are little-endian machines; the header is sent as it lies in memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "link/fd.h"

namespace tf::link {

using Bytes = std::span<const std::byte>;

struct FrameHeader {
  uint32_t size = 0;   // bytes of payload; senders leave it 0, the channel fills it in
  uint16_t op = 0;     // what the frame means; kFirstLinkOp and above belong to the link itself
  uint16_t flags = 0;  // low 12 bits for the user; the upper four count attached descriptors
  uint64_t call = 0;   // ties a reply to its command; the link does not look at it
};
static_assert(sizeof(FrameHeader) == 16);

inline constexpr size_t kMaxFrame = (size_t{1} << 20) + 4096;  // bytes of payload
inline constexpr uint16_t kFirstLinkOp = 0xff00;
inline constexpr uint16_t kOpHello = 0xff00;
inline constexpr uint16_t kOpHeartbeat = 0xff01;
inline constexpr uint16_t kUserFlags = 0x0fff;
inline constexpr size_t kMaxFds = 8;  // descriptors in one frame

// A received frame. `payload` is a view into the channel: it stays valid until the next Receive, TryReceive or Release
// on the channel, and has no particular alignment. Over shared memory a hostile peer can change these bytes while they
// are read: a decoder copies each scalar once and checks the copy. The header was copied and checked before.
struct Frame {
  FrameHeader header;
  Bytes payload;
  std::vector<Fd> fds;  // only on a control channel over shared memory
};

// Asked by Receive for a place for the payload of this frame. A span of exactly header.size bytes means "put it there"
// (over TCP it then comes without a copy in between); an empty span means "as usual".
using PayloadSink = std::function<std::span<std::byte>(const FrameHeader&)>;

// Limits in time are instants of the monotonic clock.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kForever = Deadline::max();
inline Deadline After(absl::Duration wait) {
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(wait);
}

}  // namespace tf::link
