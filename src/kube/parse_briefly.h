// Parsing for those who look at a text once and keep little of it: lists and events of watches.
#pragma once

#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "kube/object.h"

namespace tf::kube {

// As ParseJson, into memory of this thread that is used again and again. The value and all below it end with `use`:
// what is kept of it is kept as a Compact copy, or as `Json(part, {})`; a plain copy would lie in the same memory.
// Returns what `use` returns.
absl::Status ParseBriefly(std::string_view text, const std::function<absl::Status(Json& value)>& use);

}  // namespace tf::kube
