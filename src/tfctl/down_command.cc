// tfctl down: ends the cluster of a data folder and whatever is left of one that was killed. The data stays.
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "standalone/data_folder.h"
#include "standalone/left_pods.h"
#include "tfctl/commands.h"

namespace tf::tfctl {
namespace {

// Pods get their grace period, etcd the time to write.
constexpr absl::Duration kPatience = absl::Seconds(90);

int Down(const std::string& data_dir) {
  const absl::StatusOr<standalone::ProcessRecord> owner = standalone::OwnerOf(data_dir);
  if (owner.ok()) {
    if (absl::Status status = standalone::SignalRecord(*owner, SIGTERM); !status.ok()) {
      PrintError(absl::StrCat("process ", owner->pid, " of ", data_dir, " cannot be ended: ", status.message()));
      return 1;
    }
    if (!standalone::AwaitEnd(*owner, kPatience)) {
      std::fprintf(stderr, "Process %d does not end: killing it.\n", static_cast<int>(owner->pid));
      standalone::SignalRecord(*owner, SIGKILL).IgnoreError();
      standalone::AwaitEnd(*owner, kPatience);
    }
  }
  std::error_code failed;
  if (!std::filesystem::exists(data_dir + "/lock", failed)) {
    std::fprintf(stderr, "Nothing runs in %s.\n", data_dir.c_str());
    return 0;
  }
  // Opening ends what one that was killed has left.
  const absl::StatusOr<standalone::DataFolder> folder = standalone::DataFolder::Open(data_dir);
  if (!folder.ok()) {
    PrintError(std::string(folder.status().message()));
    return 1;
  }
  const int left = folder->left_behind() + standalone::EndLeftPods(folder->Path("nodes"));
  folder->ClearRun();
  if (owner.ok()) {
    std::fprintf(stderr, "Stopped. The data stays in %s.\n", data_dir.c_str());
  } else {
    std::fprintf(stderr, "Nothing ran in %s%s.\n", data_dir.c_str(),
                 left > 0 ? absl::StrCat("; ended ", left, " leftover process(es)").c_str() : "");
  }
  return 0;
}

}  // namespace

void AddDownCommand(CLI::App& app, int& exit_status) {
  auto data_dir = std::make_shared<std::string>(standalone::DefaultDataFolder());
  CLI::App* command = app.add_subcommand("down", "End the Kubernetes that `tfctl up` started; its data stays");
  command->add_option("--data-dir", *data_dir, "Its folder")->capture_default_str();
  command->callback([data_dir, &exit_status] {
    std::error_code failed;
    exit_status = Down(std::filesystem::absolute(*data_dir, failed).lexically_normal().string());
  });
}

}  // namespace tf::tfctl
