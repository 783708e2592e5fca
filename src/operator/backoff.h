// How long the replacement of something that fails again and again waits: not at all the first time, then twice as long
// each time, forgotten once it has been quiet for a while. By the owner's key, in memory only: a new process begins
// anew. Thread-safe.
#pragma once

#include <algorithm>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/object.h"

namespace tf::operators {

class Backoff {
 public:
  explicit Backoff(Clock& clock, absl::Duration first = absl::Seconds(5), absl::Duration longest = absl::Minutes(5))
      : clock_(clock), first_(first), longest_(longest) {}

  // Zero: now is the time.
  absl::Duration Remaining(const kube::Key& key) const {
    std::lock_guard lock(mutex_);
    const auto at = entries_.find(key);
    return at == entries_.end() ? absl::ZeroDuration()
                                : std::max(at->second.until - clock_.Monotonic(), absl::ZeroDuration());
  }

  // It was replaced, because it had failed.
  void Replaced(const kube::Key& key) {
    std::lock_guard lock(mutex_);
    const absl::Duration now = clock_.Monotonic();
    Entry& entry = entries_[key];
    const bool quiet = now > entry.until + 2 * longest_;
    entry.delay = entry.delay == absl::ZeroDuration() || quiet ? first_ : std::min(2 * entry.delay, longest_);
    entry.until = now + entry.delay;
  }

  void Forget(const kube::Key& key) {
    std::lock_guard lock(mutex_);
    entries_.erase(key);
  }

 private:
  struct Entry {
    absl::Duration delay = absl::ZeroDuration();
    absl::Duration until = absl::ZeroDuration();
  };

  Clock& clock_;
  const absl::Duration first_, longest_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<kube::Key, Entry> entries_;
};

}  // namespace tf::operators
