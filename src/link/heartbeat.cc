#include "link/heartbeat.h"

#include <algorithm>

namespace tf::link {

Heartbeat::Heartbeat(const HeartbeatOptions& options, Deadline now)
    : interval_(absl::ToChronoNanoseconds(options.interval)),
      timeout_(absl::ToChronoNanoseconds(options.timeout)),
      heard_(now),
      sent_(now - interval_),
      ticked_(now) {}

Heartbeat::Action Heartbeat::Tick(Deadline now) {
  if (now - ticked_ > std::max(timeout_ / 2, 2 * interval_)) heard_ = now;
  ticked_ = now;
  if (now - heard_ >= timeout_) return Action::kLost;
  if (now - sent_ < interval_) return Action::kNothing;
  sent_ = now;
  return Action::kSend;
}

Deadline Heartbeat::Next() const { return std::min(sent_ + interval_, heard_ + timeout_); }

}  // namespace tf::link
