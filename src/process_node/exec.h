// A further process in a running container: for probes, hooks and `kubectl exec`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/process.h"

namespace tf::process_node {

struct ContainerView;

// The process has the container's environment, mounts and working folder; the caller sets its descriptors. NotFound in
// the words of container runtimes when the container has no such program.
absl::StatusOr<ProcessOptions> ExecOptions(const std::string& shim, const ContainerView& container,
                                           const std::vector<std::string>& command, bool terminal);

}  // namespace tf::process_node
