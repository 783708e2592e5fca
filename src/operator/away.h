// How long something may be away before it is told: by the owner's key, counted from the first time that it was found
// away, in memory only: a new process counts anew. Thread-safe.
#pragma once

#include <algorithm>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/object.h"

namespace tf::operators {

class Away {
 public:
  Away(Clock& clock, absl::Duration most) : clock_(clock), most_(most) {}

  // It is away. Zero: for too long.
  absl::Duration Left(const kube::Key& key) {
    const std::lock_guard lock(mutex_);
    const absl::Duration now = clock_.Monotonic();
    const absl::Duration since = since_.try_emplace(key, now).first->second;
    return std::max(since + most_ - now, absl::ZeroDuration());
  }

  // It is back, or something else is to be told of it.
  void Forget(const kube::Key& key) {
    const std::lock_guard lock(mutex_);
    since_.erase(key);
  }

 private:
  Clock& clock_;
  const absl::Duration most_;
  std::mutex mutex_;
  absl::flat_hash_map<kube::Key, absl::Duration> since_;
};

}  // namespace tf::operators
