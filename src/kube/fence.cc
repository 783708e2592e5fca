#include "kube/fence.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::kube {

Fence::Fence(Clock& clock) : clock_(clock) {}

void Fence::Open(absl::Duration until, absl::Duration over_by) {
  std::lock_guard lock(mutex_);
  until_ = until;
  over_by_ = over_by;
}

void Fence::Shut(std::string why) {
  std::lock_guard lock(mutex_);
  until_ = over_by_ = -absl::InfiniteDuration();
  why_ = std::move(why);
}

absl::StatusOr<absl::Duration> Fence::Admit() const {
  std::lock_guard lock(mutex_);
  const absl::Duration now = clock_.Monotonic();
  if (now < until_) return over_by_ - now;
  return absl::FailedPreconditionError(absl::StrCat(
      "not written, for this process does not lead: ",
      until_ == -absl::InfiniteDuration()
          ? why_
          : absl::StrCat("its lease was not renewed in time (", absl::FormatDuration(now - until_), " ago)")));
}

}  // namespace tf::kube
