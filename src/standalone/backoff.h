// How long to wait before something that ended is started again: the first time briefly, then twice as long each time,
// and briefly again after it has run for a while. A pure value; not thread-safe.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace tf::standalone {

struct BackoffPolicy {
  absl::Duration first = absl::Seconds(1);
  absl::Duration longest = absl::Seconds(30);
  absl::Duration quiet = absl::Seconds(10);  // what ran so long is taken for healthy
};

class Backoff {
 public:
  explicit Backoff(BackoffPolicy policy) : policy_(policy) {}

  // It ended after it ran for `ran`: how long to wait before the next start.
  absl::Duration Next(absl::Duration ran) {
    delay_ =
        ran >= policy_.quiet || delay_ == absl::ZeroDuration() ? policy_.first : std::min(2 * delay_, policy_.longest);
    return delay_;
  }

 private:
  BackoffPolicy policy_;
  absl::Duration delay_ = absl::ZeroDuration();
};

}  // namespace tf::standalone
