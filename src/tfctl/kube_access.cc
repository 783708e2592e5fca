#include "tfctl/kube_access.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/gpu_pool.h"
#include "kube/config.h"
#include "kube/error.h"

namespace tf::tfctl {
namespace {

const kube::Resource& kPools = api::GPUPool::kResource;

}  // namespace

void AddClusterOptions(CLI::App& command, ClusterOptions& options) {
  command.add_option("--kubeconfig", options.kubeconfig, "FILE (default: KUBECONFIG, else ~/.kube/config)");
  command.add_option("--context", options.context, "A context of it (default: its current one)");
}

absl::StatusOr<std::unique_ptr<kube::Client>> Connect(const ClusterOptions& options) {
  absl::StatusOr<kube::Config> config =
      kube::LoadConfig({.kubeconfig = options.kubeconfig, .context = options.context});
  if (!config.ok()) {
    if (!absl::IsNotFound(config.status()) || !options.kubeconfig.empty()) return config.status();
    return absl::NotFoundError(
        absl::StrCat(std::string(config.status().message()), "; for a cluster of this machine: eval \"$(tfctl up)\""));
  }
  return std::make_unique<kube::Client>(std::make_shared<kube::Config>(*std::move(config)), "tfctl/" TF_VERSION);
}

absl::StatusOr<std::string> PoolName(const std::string& argument) {
  const size_t slash = argument.find('/');
  const std::string kind = slash == std::string::npos ? "pool" : argument.substr(0, slash);
  const std::string name = slash == std::string::npos ? argument : argument.substr(slash + 1);
  if ((kind != "pool" && kind != "pools" && kind != "gpupool" && kind != "gpupools") || name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", argument, "' names no pool; expected pool/NAME, such as pool/tensor-fusion-shared"));
  }
  return name;
}

absl::StatusOr<std::vector<kube::ObjectPtr>> ListPools(kube::Client& client) {
  absl::StatusOr<kube::ListPage> page = client.List(kPools, "");
  if (page.ok()) return std::move(page->items);
  // A kind that the server does not know is a path that is not there.
  if (!kube::IsNotFound(page.status())) return page.status();
  return absl::NotFoundError(
      "this cluster has no GPUPools: tensor-fusion is not installed in it (its chart brings the kinds along)");
}

absl::StatusOr<kube::Json> GetPool(kube::Client& client, const std::string& name) {
  absl::StatusOr<kube::Json> pool = client.Get(kPools, {"", name});
  if (pool.ok() || !kube::IsNotFound(pool.status())) return pool;
  const absl::StatusOr<std::vector<kube::ObjectPtr>> pools = ListPools(client);
  if (!pools.ok()) return pools.status();
  const std::string names = absl::StrJoin(*pools, ", ", [](std::string* out, const kube::ObjectPtr& one) {
    absl::StrAppend(out, std::string(kube::Name(*one)));
  });
  return absl::NotFoundError(absl::StrCat("there is no GPUPool ", name, "; ",
                                          names.empty() ? "there is none at all" : absl::StrCat("there are: ", names)));
}

}  // namespace tf::tfctl
