// The gate that every write of a leader passes: shut when the lease is not surely ours.
//
// A process that was stopped, a machine that slept, a request that hung: on waking, the next write meets the gate,
// whose time went on meanwhile (Clock::Monotonic()), and is refused before anything is sent. A write that is let
// through gets a time limit that ends before anybody else may lead. Thread-safe.
#pragma once

#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace tf::kube {

class Fence {
 public:
  // Shut. `clock` outlives it.
  explicit Fence(Clock& clock);

  // Writes may begin before `until` and must be over by `over_by`.
  void Open(absl::Duration until, absl::Duration over_by);
  // For good reason; `why` is in what writers are told.
  void Shut(std::string why);

  // How long a write that begins now may take. FailedPrecondition: we do not lead; nothing was sent, and trying again
  // in this process is of no use.
  absl::StatusOr<absl::Duration> Admit() const;

 private:
  Clock& clock_;
  mutable std::mutex mutex_;
  absl::Duration until_ = -absl::InfiniteDuration();
  absl::Duration over_by_ = -absl::InfiniteDuration();
  std::string why_ = "the lease has not been acquired";
};

}  // namespace tf::kube
