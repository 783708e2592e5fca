// tfctl: the command line of tensor-fusion.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "tfctl/commands.h"

int main(int argc, char** argv) {
  CLI::App app("Clusters, licences and virtual GPUs of tensor-fusion, from the command line.", "tfctl");
  app.set_version_flag("--version", "tfctl " TF_VERSION);
  std::string shell;
  app.add_option("--completion", shell, "Print a completion script: source <(tfctl --completion bash)")
      ->check(CLI::IsMember({"bash"}));

  int exit_status = 0;
  tf::tfctl::AddUpCommand(app, exit_status);
  tf::tfctl::AddDownCommand(app, exit_status);
  tf::tfctl::AddStatusCommand(app, exit_status);
  tf::tfctl::AddRunCommand(app, exit_status);
  tf::tfctl::AddTopCommand(app, exit_status);
  tf::tfctl::AddLicenseCommand(app, exit_status);
  tf::tfctl::AddGpusCommand(app, exit_status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!shell.empty()) {
    std::fputs(tf::tfctl::BashCompletion(app).c_str(), stdout);
  } else if (app.get_subcommands().empty()) {
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  return exit_status;
}
