#include "link/channel.h"

namespace tf::link {

absl::Status Channel::SendFds(const FrameHeader&, std::span<const Bytes>, std::span<const int>) {
  return absl::FailedPreconditionError(
      "descriptors can only be sent on the control channel of a shared-memory connection");
}

}  // namespace tf::link
