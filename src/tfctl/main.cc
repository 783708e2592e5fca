// tfctl: the command line of tensor-fusion. The same program is the kubectl plugin `kubectl tf` (as kubectl-tf), and
// what kubectl asks for its completion (as kubectl_complete-tf).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/log.h"
#include "tfctl/commands.h"
#include "tfctl/completion.h"
#include "tfctl/kube_access.h"

namespace {

// Those of the cluster that the environment names; none where it cannot be asked.
std::vector<std::string> PoolNames() {
  std::vector<std::string> names;
  const auto client = tf::tfctl::Connect({});
  if (!client.ok()) return names;
  const auto pools = tf::tfctl::ListPools(**client);
  if (!pools.ok()) return names;
  for (const tf::kube::ObjectPtr& pool : *pools) names.push_back("pool/" + std::string(tf::kube::Name(*pool)));
  return names;
}

int PrintCompletions(const CLI::App& app, char** words, int count, bool for_kubectl) {
  for (const std::string& one : tf::tfctl::Completions(app, {words, words + count}, &PoolNames)) {
    std::printf("%s\n", one.c_str());
  }
  if (for_kubectl) std::puts(":4");  // kubectl: and no files
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tf::InitLog("tfctl");
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "tfctl";
  CLI::App app("Clusters, pools, rollouts, licences and virtual GPUs of tensor-fusion, from the command line.",
               name == "kubectl-tf" ? "kubectl tf" : "tfctl");
  app.set_version_flag("--version", "tfctl " TF_VERSION);
  std::string shell;
  app.add_option("--completion", shell, "Print a completion script: source <(tfctl --completion bash)")
      ->check(CLI::IsMember({"bash"}));

  int exit_status = 0;
  tf::tfctl::AddUpCommand(app, exit_status);
  tf::tfctl::AddDownCommand(app, exit_status);
  tf::tfctl::AddStatusCommand(app, exit_status);
  tf::tfctl::AddPoolCommand(app, exit_status);
  tf::tfctl::AddRolloutCommand(app, exit_status);
  tf::tfctl::AddRunCommand(app, exit_status);
  tf::tfctl::AddTopCommand(app, exit_status);
  tf::tfctl::AddLicenseCommand(app, exit_status);
  tf::tfctl::AddGpusCommand(app, exit_status);

  if (name == "kubectl_complete-tf") return PrintCompletions(app, argv + 1, argc - 1, true);
  if (argc > 1 && std::string(argv[1]) == "__complete") return PrintCompletions(app, argv + 2, argc - 2, false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!shell.empty()) {
    std::fputs(tf::tfctl::BashCompletion().c_str(), stdout);
  } else if (app.get_subcommands().empty()) {
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  return exit_status;
}
