// tfctl pool [list | describe]
#include <boost/json/array.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/gpu_node.h"
#include "api/names.h"
#include "api/typed.h"
#include "tfctl/commands.h"
#include "tfctl/kube_access.h"
#include "tfctl/output.h"
#include "tfctl/pool_view.h"

namespace tf::tfctl {
namespace {

using api::GPUPool;

struct PoolOptions {
  ClusterOptions cluster;
  std::string pool;
  std::string output = "table";
};

int Fail(const absl::Status& status) {
  PrintError(std::string(status.message()));
  return 1;
}

int List(const PoolOptions& options) {
  const auto client = Connect(options.cluster);
  if (!client.ok()) return Fail(client.status());
  const absl::StatusOr<std::vector<kube::ObjectPtr>> objects = ListPools(**client);
  if (!objects.ok()) return Fail(objects.status());
  if (options.output == "name") {
    for (const kube::ObjectPtr& object : *objects) std::printf("pool/%s\n", std::string(kube::Name(*object)).c_str());
    return 0;
  }
  if (options.output != "table") {
    boost::json::array all;
    for (const kube::ObjectPtr& object : *objects) all.push_back(*object);
    std::fputs(Formatted(all, options.output).c_str(), stdout);
    return 0;
  }
  // One that cannot be read hides no other.
  std::vector<GPUPool> pools;
  int exit_status = 0;
  for (const kube::ObjectPtr& object : *objects) {
    absl::StatusOr<GPUPool> pool = api::FromObject<GPUPool>(object);
    if (pool.ok()) {
      pools.push_back(*std::move(pool));
    } else {
      exit_status = Fail(pool.status());
    }
  }
  std::fputs(PoolTable(pools, absl::Now()).c_str(), stdout);
  return exit_status;
}

int Describe(const PoolOptions& options) {
  const absl::StatusOr<std::string> name = PoolName(options.pool);
  if (!name.ok()) return Fail(name.status());
  const auto client = Connect(options.cluster);
  if (!client.ok()) return Fail(client.status());
  const absl::StatusOr<kube::Json> object = GetPool(**client, *name);
  if (!object.ok()) return Fail(object.status());
  if (options.output != "table") {
    std::fputs(Formatted(*object, options.output).c_str(), stdout);
    return 0;
  }
  const absl::StatusOr<GPUPool> pool = api::FromObject<GPUPool>(*object);
  if (!pool.ok()) return Fail(pool.status());
  kube::ListOptions of_pool;
  of_pool.label_selector = absl::StrCat(api::kPoolLabelPrefix, *name, "=true");
  const absl::StatusOr<kube::ListPage> page = (*client)->List(api::GPUNode::kResource, "", of_pool);
  if (!page.ok()) return Fail(page.status());
  std::vector<std::pair<std::string, std::string>> nodes;
  for (const kube::ObjectPtr& node : page->items) {
    nodes.emplace_back(kube::Name(*node), kube::Text(*node, "status.phase"));
  }
  std::fputs(PoolText(*pool, nodes, absl::Now()).c_str(), stdout);
  return 0;
}

void AddOutput(CLI::App& command, PoolOptions& options, std::vector<std::string> forms) {
  command.add_option("-o,--output", options.output, "Form of the output")
      ->check(CLI::IsMember(std::move(forms)))
      ->capture_default_str();
  AddClusterOptions(command, options.cluster);
}

}  // namespace

void AddPoolCommand(CLI::App& app, int& exit_status) {
  CLI::App* group = app.add_subcommand("pool", "The GPU pools of a cluster");
  group->require_subcommand(0, 1);
  auto options = std::make_shared<PoolOptions>();
  AddOutput(*group, *options, {"table", "json", "yaml", "name"});
  group->callback([group, options, &exit_status] {
    if (group->get_subcommands().empty()) exit_status = List(*options);
  });
  {
    auto own = std::make_shared<PoolOptions>();
    CLI::App* command = group->add_subcommand("list", "All of them, a line each (also: tfctl pool)");
    AddOutput(*command, *own, {"table", "json", "yaml", "name"});
    command->callback([own, &exit_status] { exit_status = List(*own); });
  }
  {
    auto own = std::make_shared<PoolOptions>();
    CLI::App* command =
        group->add_subcommand("describe", "One of them: capacity, licence, rollouts, conditions, nodes");
    command->add_option("pool", own->pool, "pool/NAME")->required()->type_name("POOL");
    AddOutput(*command, *own, {"table", "json", "yaml"});
    command->callback([own, &exit_status] { exit_status = Describe(*own); });
  }
}

}  // namespace tf::tfctl
