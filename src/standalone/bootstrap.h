// What a new cluster is given before anybody else comes: the rights of the process nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kube/client.h"

namespace tf::standalone {

// Applies it; what is as it should be stays untouched.
absl::Status ApplyBootstrapObjects(kube::Client& client);

// node-0, node-1, …
std::vector<std::string> NodeNames(int64_t count);

// How many of the nodes that there should be are Ready.
absl::StatusOr<int> CountReadyNodes(kube::Client& client, const std::vector<std::string>& names);

}  // namespace tf::standalone
