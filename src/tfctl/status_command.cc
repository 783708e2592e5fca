// tfctl status: what of the cluster of a data folder runs.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kube/client.h"
#include "kube/config.h"
#include "standalone/bootstrap.h"
#include "standalone/data_folder.h"
#include "standalone/status.h"
#include "tfctl/commands.h"

namespace tf::tfctl {
namespace {

// -1: the API server does not say.
int64_t ReadyNodes(const standalone::ClusterStatus& status) {
  kube::ConfigOptions options;
  options.kubeconfig = status.kubeconfig;
  absl::StatusOr<kube::Config> config = kube::LoadConfig(options);
  if (!config.ok()) return -1;
  kube::Client client(std::make_shared<kube::Config>(*std::move(config)), "tfctl/" TF_VERSION);
  const absl::StatusOr<int> ready = standalone::CountReadyNodes(client, standalone::NodeNames(status.nodes));
  return ready.ok() ? *ready : -1;
}

std::string OrDash(int64_t number) { return number > 0 ? absl::StrCat(number) : "-"; }

std::string Table(const standalone::ClusterStatus& status) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) absl::StrAppendFormat(&text, "%-12s%s\n", name, value);
  };
  line("state", status.state);
  line("version", status.version);
  line("process", absl::StrCat(status.pid));
  line("server", status.server);
  line("kubeconfig", status.kubeconfig);
  line("nodes", absl::StrCat(status.nodes, status.nodes_ready < 0 ? std::string(", readiness unknown")
                                                                  : absl::StrCat(", ", status.nodes_ready, " ready")));
  line("gpus/node", status.gpus_per_node);
  if (status.parts.empty()) return text;
  absl::StrAppendFormat(&text, "\n%-26s%-9s%-7s%-10s%s\n", "PART", "PID", "PORT", "RESTARTS", "LAST END");
  for (const standalone::PartStatus& part : status.parts) {
    absl::StrAppendFormat(&text, "%-26s%-9s%-7s%-10d%s\n", part.name, OrDash(part.pid), OrDash(part.port),
                          part.restarts, part.last_end.empty() ? "-" : part.last_end);
  }
  return text;
}

int PrintStatus(const std::string& data_dir, bool json) {
  absl::StatusOr<standalone::ClusterStatus> status = standalone::ReadStatus(data_dir);
  if (!status.ok()) {
    PrintError(std::string(status.status().message()));
    return 1;
  }
  if (status->state == "ready") status->nodes_ready = ReadyNodes(*status);
  std::fputs((json ? standalone::FormatStatus(*status) : Table(*status)).c_str(), stdout);
  return 0;
}

}  // namespace

void AddStatusCommand(CLI::App& app, int& exit_status) {
  struct Options {
    std::string data_dir = standalone::DefaultDataFolder();
    std::string output = "table";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("status", "What of the Kubernetes that `tfctl up` started runs (1: nothing)");
  command->add_option("--data-dir", options->data_dir, "Its folder")->capture_default_str();
  command->add_option("-o,--output", options->output, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  command->callback([options, &exit_status] {
    std::error_code failed;
    exit_status = PrintStatus(std::filesystem::absolute(options->data_dir, failed).lexically_normal().string(),
                              options->output == "json");
  });
}

}  // namespace tf::tfctl
