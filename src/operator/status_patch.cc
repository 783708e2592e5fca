#include "operator/status_patch.h"

#include <boost/json/object.hpp>

#include "absl/time/time.h"
#include "kube/error.h"
#include "kube/merge_patch.h"

namespace tf::operators {

absl::StatusOr<bool> PatchStatus(kube::Client& client, const kube::Resource& resource, const kube::Json& object,
                                 const kube::Json& status, bool always) {
  const kube::Json* before = kube::Field(object, "status");
  const kube::Json change = kube::MergePatch(before == nullptr ? kube::Json(kube::JsonObject()) : *before, status);
  const bool same = kube::IsEmptyPatch(change);
  if (same && !always) return false;
  const kube::Json patch =
      kube::JsonObject{{"metadata", {{"resourceVersion", kube::ResourceVersion(object)}}}, {"status", change}};
  const auto written = client.Patch(resource, kube::KeyOf(object), patch, {}, "status");
  if (!written.ok()) return written.status();
  return !same;
}

absl::StatusOr<kube::Result> EndWith(const absl::Status& status) {
  if (status.ok() || kube::IsNotFound(status)) return kube::Result{};
  if (kube::IsConflict(status)) return kube::Result{.requeue_after = absl::Milliseconds(100)};
  return status;
}

absl::Status UnlessGone(absl::Status status) {
  return kube::IsNotFound(status) || kube::IsConflict(status) ? absl::OkStatus() : status;
}

}  // namespace tf::operators
