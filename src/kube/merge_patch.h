// JSON merge patches (RFC 7386): what a PATCH says of the fields that are to change, and of nothing else. Pure.
#pragma once

#include "kube/object.h"

namespace tf::kube {

// The patch that makes `after` of `before`: members that are gone are null, arrays and plain values come whole. {} when
// nothing differs. `after` has no nulls, which such a patch cannot say. Numbers are equal by value.
Json MergePatch(const Json& before, const Json& after);

// Whether a merge patch says nothing.
bool IsEmptyPatch(const Json& patch);

}  // namespace tf::kube
