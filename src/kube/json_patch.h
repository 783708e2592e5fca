// JSON Patch (RFC 6902): the difference of two values, and applying it.
//
// For any two values, ApplyPatch(before, DiffPatch(before, after)) == after. The difference is small for what people
// and webhooks do to objects (fields added, changed, removed; elements appended or changed in lists), not the smallest
// possible. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kube/object.h"

namespace tf::kube {

// An array of add, remove and replace operations; empty when nothing differs.
JsonArray DiffPatch(const Json& before, const Json& after);

// add, remove, replace, test, copy and move. InvalidArgument names the operation that cannot be applied;
// FailedPrecondition the test that does not hold.
absl::StatusOr<Json> ApplyPatch(Json value, const Json& patch);

// One token of a JSON Pointer (RFC 6901): "~" and "/" written as "~0" and "~1".
std::string EscapePointer(std::string_view token);

}  // namespace tf::kube
