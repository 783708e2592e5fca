// How backend operations (cuda/backend.table) travel as frames of a link.
//
//   data channel     command: header.op, header.call (0 for queued ones), payload = the inputs
//                    reply:   same op and call, payload = ReplyHead and the outputs
//   control channel  events and notices: header.op, payload = the inputs; and kOpRegionFd
//
// A message longer than a frame is cut; all frames but its last carry kMore.
#pragma once

#include <cstddef>
#include <cstdint>

#include "link/frame.h"

namespace tf::remoting {

inline constexpr uint16_t kMore = 1;

// Longest message, all its frames together: a module image is the longest that honest programs send.
inline constexpr size_t kMaxMessage = size_t{512} << 20;

// Bytes of one Upload, Download, FetchCopy or StoreCopy.
inline constexpr size_t kMaxRowsBytes = size_t{1} << 20;

// Carries the descriptor of shared host memory ahead of RegionMap; header.call is the region.
inline constexpr uint16_t kOpRegionFd = 0xfe00;

// In front of the outputs of every reply.
struct ReplyHead {
  int32_t result;
  // How many Output, Fetch and Store events were sent before this reply. The caller goes on when they have been handled,
  // so that when a waiting call returns printed text is out and host memory is final and no longer read.
  uint64_t events;
};
inline constexpr size_t kReplyHeadBytes = 12;

}  // namespace tf::remoting
