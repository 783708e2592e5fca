// What a cluster's nodes need before they come (their rights), and which of them there are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kube/client.h"

namespace tf::standalone {

// Applies it; what is as it should be stays untouched.
absl::Status ApplyBootstrapObjects(kube::Client& client);

// Removes the process nodes of before that there shall not be any more; nodes of others stay. Returns their names.
absl::StatusOr<std::vector<std::string>> RemoveOtherProcessNodes(kube::Client& client,
                                                                 const std::vector<std::string>& names);

// node-0, node-1, …
std::vector<std::string> NodeNames(int64_t count);

// How many of the nodes that there should be are Ready.
absl::StatusOr<int> CountReadyNodes(kube::Client& client, const std::vector<std::string>& names);

}  // namespace tf::standalone
