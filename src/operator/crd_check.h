// Brings CustomResourceDefinitions that are too old up to date, or says which they are.
//
// Helm installs what is in a chart's crds/ and never upgrades it, and `helm template | kubectl apply` leaves it out. So
// the operator carries its definitions with it and compares at its start. An installed definition is recent enough when
// it permits all that ours does: every field, every value, every column. A newer one does, for new schemas are
// supersets: after a rollback the older operator leaves it alone.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "kube/client.h"
#include "kube/manager.h"
#include "kube/object.h"

namespace tf::operators {

// The first thing that `ours` has and `installed` lacks, such as ".spec.licence"; "" when it lacks nothing. Pure.
std::string MissingFrom(const kube::Json& installed, const kube::Json& ours);

enum class CrdPolicy { kCheck, kApply };

// FailedPrecondition names the definitions that stay too old, what they lack, and what to do.
absl::Status BringCrdsUpToDate(kube::Client& client, CrdPolicy policy);

// At the start of the program, in every replica and without leadership: applying is the same for all, and caches of
// kinds that are not there could not fill. What stays too old is logged, and counted in tensor_fusion_crds_outdated;
// the program goes on with what the server takes.
void AddCrdCheck(kube::Manager& manager, CrdPolicy policy);

}  // namespace tf::operators
