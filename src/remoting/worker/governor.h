// Holds a worker to its share of a card's compute: TF_CUDA_SM_PERCENT_LIMIT.
//
// A token bucket in time that the card was busy for this worker. Time fills it at the worker's percentage, up to
// kBurst; what the card reports as busy (BusyClock) empties it. A launch passes while the bucket is not empty and few
// enough launches are in flight, so that work already queued cannot overshoot by more than a moment; otherwise it
// waits. The bucket starts full: a first launch never waits.
//
// Pure apart from the clock that is passed in. Not thread-safe; one owner with a lock (see Throttle in throttle.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace tf::remoting {

class Governor {
 public:
  static constexpr absl::Duration kBurst = absl::Milliseconds(60);
  // A debt beyond this is forgiven: a single long kernel delays what follows by a bounded time.
  static constexpr absl::Duration kMaxDebt = absl::Seconds(20);

  // percent: 1 to 100.
  Governor(int percent, absl::Time now) : percent_(percent), tokens_(kBurst), filled_(now) {}

  // The card was busy for `busy` more since the last call.
  void Spend(absl::Duration busy) { tokens_ = std::max(tokens_ - busy, -kMaxDebt); }
  // How long a launch has to wait: zero = it may go.
  absl::Duration Delay(absl::Time now) {
    if (now > filled_) {
      tokens_ = std::min(tokens_ + (now - filled_) * percent_ / 100, kBurst);
      filled_ = now;
    }
    if (tokens_ > absl::ZeroDuration()) return absl::ZeroDuration();
    return (absl::Microseconds(100) - tokens_) * 100 / percent_;
  }

 private:
  const int percent_;
  absl::Duration tokens_;
  absl::Time filled_;
};

}  // namespace tf::remoting
