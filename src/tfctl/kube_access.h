// The cluster that a command of tfctl speaks to: as kubectl chooses it, and with errors that say what to do.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kube/client.h"

namespace tf::tfctl {

struct ClusterOptions {
  std::string kubeconfig = {};  // "": KUBECONFIG, the service account, ~/.kube/config
  std::string context = {};
};
void AddClusterOptions(CLI::App& command, ClusterOptions& options);

absl::StatusOr<std::unique_ptr<kube::Client>> Connect(const ClusterOptions& options);

// "pool/NAME", "gpupool/NAME" or "NAME". InvalidArgument: something else before the slash.
absl::StatusOr<std::string> PoolName(const std::string& argument);

// NotFound names the pools that there are, or says that tensor-fusion is not installed.
absl::StatusOr<kube::Json> GetPool(kube::Client& client, const std::string& name);
absl::StatusOr<std::vector<kube::ObjectPtr>> ListPools(kube::Client& client);

}  // namespace tf::tfctl
