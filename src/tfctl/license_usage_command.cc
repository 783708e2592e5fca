// tfctl license usage: the cards that the pools of a cluster use under their licences.
#include <boost/json/array.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "api/typed.h"
#include "tfctl/commands.h"
#include "tfctl/kube_access.h"
#include "tfctl/output.h"
#include "tfctl/pool_view.h"

namespace tf::tfctl {
namespace {

struct UsageOptions {
  ClusterOptions cluster;
  std::string output = "table";
};

int Fail(const absl::Status& status) {
  PrintError(std::string(status.message()));
  return 1;
}

int Usage(const UsageOptions& options) {
  const auto client = Connect(options.cluster);
  if (!client.ok()) return Fail(client.status());
  const absl::StatusOr<std::vector<kube::ObjectPtr>> objects = ListPools(**client);
  if (!objects.ok()) return Fail(objects.status());
  if (options.output != "table") {
    boost::json::array all;
    for (const kube::ObjectPtr& object : *objects) all.push_back(LicenseJson(*object));
    std::fputs(Formatted(all, options.output).c_str(), stdout);
    return 0;
  }
  std::vector<api::GPUPool> pools;
  for (const kube::ObjectPtr& object : *objects) {
    absl::StatusOr<api::GPUPool> pool = api::FromObject<api::GPUPool>(object);
    if (!pool.ok()) return Fail(pool.status());
    pools.push_back(*std::move(pool));
  }
  std::fputs(LicenseTable(pools, absl::Now()).c_str(), stdout);
  return 0;
}

}  // namespace

void AddLicenseUsageCommand(CLI::App& license, int& exit_status) {
  auto options = std::make_shared<UsageOptions>();
  CLI::App* command = license.add_subcommand(
      "usage", "The licences of a cluster's pools, the cards that are in use under them, and their workers.");
  command->add_option("-o,--output", options->output, "table, json or yaml")
      ->check(CLI::IsMember({"table", "json", "yaml"}))
      ->capture_default_str();
  AddClusterOptions(*command, options->cluster);
  command->callback([options, &exit_status] { exit_status = Usage(*options); });
}

}  // namespace tf::tfctl
