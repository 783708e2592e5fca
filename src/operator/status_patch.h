// Writing the status of an object that somebody else may change meanwhile.
#pragma once

#include "absl/status/statusor.h"
#include "kube/client.h"
#include "kube/controller.h"
#include "kube/object.h"

namespace tf::operators {

// Makes `status` the status of `object` (as read) by a merge patch of what differs, on the condition that nobody has
// changed the object since it was read. False: nothing differed, nothing was sent. Aborted (kube::IsConflict): somebody
// has; the newer object is on its way to the caches. `always`: it is sent even if nothing differs, to learn whether the
// object is still the one that was read.
absl::StatusOr<bool> PatchStatus(kube::Client& client, const kube::Resource& resource, const kube::Json& object,
                                 const kube::Json& status, bool always = false);

// How a reconcile ends whose writes did so. Somebody was faster (a conflict): again in a moment, when the caches have
// the newer object. The object is gone: nothing is left to do.
absl::StatusOr<kube::Result> EndWith(const absl::Status& status);

// Of a deletion or a patch of something that may be gone, or another one, by now: that is as good.
absl::Status UnlessGone(absl::Status status);

}  // namespace tf::operators
