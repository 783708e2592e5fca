// tfctl up: starts a cluster of this machine in the background (tensor-fusion-standalone, in a session of its own) and
// follows its start.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/process.h"
#include "standalone/data_folder.h"
#include "standalone/kubeconfig.h"
#include "standalone/status.h"
#include "tfctl/commands.h"

namespace tf::tfctl {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);

struct UpOptions {
  std::string data_dir = standalone::DefaultDataFolder();
  int nodes = 1;
  bool nodes_given = false;
  std::string gpus_per_node;
  std::vector<std::string> images;
  uint16_t port = 0;
  std::string scheduler_extender;
  bool foreground = false;
};

// Somebody started it before: waits until that start is done.
int Follow(const UpOptions& options) {
  while (true) {
    const absl::StatusOr<standalone::ClusterStatus> status = standalone::ReadStatus(options.data_dir);
    if (absl::IsNotFound(status.status())) {
      PrintError(absl::StrCat("the cluster in ", options.data_dir, " has ended; try again"));
      return 1;
    }
    if (!status.ok()) {
      PrintError(std::string(status.status().message()));
      return 1;
    }
    if (status->state == "ready") {
      std::fprintf(stderr, "It runs already (process %lld, %lld nodes).\n", static_cast<long long>(status->pid),
                   static_cast<long long>(status->nodes));
      if (options.nodes_given && status->nodes != options.nodes) {
        std::fprintf(stderr, "To change the number of nodes: tfctl down, then tfctl up --nodes %d\n", options.nodes);
      }
      std::printf("%s\n", standalone::ExportLine(status->kubeconfig).c_str());
      return 0;
    }
    absl::SleepFor(kPoll);
  }
}

std::vector<std::string> Command(const UpOptions& options, const std::string& program) {
  std::vector<std::string> argv = {program, "--data-dir", options.data_dir, "--nodes", absl::StrCat(options.nodes)};
  if (!options.gpus_per_node.empty()) argv.insert(argv.end(), {"--gpus-per-node", options.gpus_per_node});
  for (const std::string& image : options.images) argv.insert(argv.end(), {"--image", image});
  if (options.port != 0) argv.insert(argv.end(), {"--port", absl::StrCat(options.port)});
  if (!options.scheduler_extender.empty()) {
    argv.insert(argv.end(), {"--scheduler-extender", options.scheduler_extender});
  }
  return argv;
}

int Foreground(std::vector<std::string> argv) {
  std::vector<char*> pointers;
  for (std::string& word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  PrintError(absl::StrCat("cannot start ", argv[0], ": ", std::strerror(errno)));
  return 1;
}

// Who presses Ctrl-C does not want a cluster.
std::atomic<pid_t> starting_process = 0;
void EndStart(int) {
  if (const pid_t pid = starting_process; pid > 0) kill(pid, SIGTERM);
}

int Background(std::vector<std::string> argv, const std::string& data_dir) {
  argv.insert(argv.end(), {"--log-file", data_dir + "/logs/standalone.log"});
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    PrintError(absl::StrCat("no pipe: ", std::strerror(errno)));
    return 1;
  }
  absl::StatusOr<Process> process = Process::Start(
      {.argv = std::move(argv), .env = CurrentEnvironment(), .stdout_fd = ends[1], .stderr_fd = ends[1]});
  close(ends[1]);
  if (!process.ok()) {
    close(ends[0]);
    PrintError(std::string(process.status().message()));
    return 1;
  }
  starting_process = process->pid();
  struct sigaction action{};
  action.sa_handler = EndStart;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  // Its lines, until it is ready or has ended. The last one is shown when it is known what it is.
  FILE* lines = fdopen(ends[0], "r");
  char* line = nullptr;
  size_t size = 0;
  std::string last;
  while (getline(&line, &size, lines) >= 0) {
    if (!last.empty()) std::fputs(last.c_str(), stderr);
    last = line;
  }
  free(line);
  fclose(lines);
  if (absl::StartsWith(last, "export ")) {
    std::fputs(last.c_str(), stdout);
    return 0;
  }
  const std::optional<ExitStatus> status = process->Wait();
  if (status->code == 0) {
    PrintError("stopped before it was ready");
  } else {
    PrintError(last.empty() ? absl::StrCat("the start ended with status ", status->code)
                            : last.substr(0, last.size() - 1));
  }
  return 1;
}

int Up(UpOptions options) {
  std::error_code failed;
  options.data_dir = std::filesystem::absolute(options.data_dir, failed).lexically_normal().string();
  const absl::StatusOr<standalone::ProcessRecord> owner = standalone::OwnerOf(options.data_dir);
  // One that was killed just now looks alive for a moment.
  if (owner.ok() && !standalone::AwaitEnd(*owner, kPoll)) return Follow(options);
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  std::vector<std::string> argv = Command(options, (self.parent_path() / "tensor-fusion-standalone").string());
  return options.foreground ? Foreground(std::move(argv)) : Background(std::move(argv), options.data_dir);
}

}  // namespace

void AddUpCommand(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* command = app.add_subcommand("up", "Start a Kubernetes on this machine, whose pods run as processes");
  CLI::Option* nodes = command->add_option("--nodes", options->nodes, "How many nodes; 0: the control plane alone")
                           ->check(CLI::Range(0, 1000))
                           ->capture_default_str();
  command->add_option("--gpus-per-node", options->gpus_per_node, "Simulated cards of each node, such as A100-80G:2");
  command->add_option("--data-dir", options->data_dir, "Where everything is kept")->capture_default_str();
  command->add_option("--image", options->images,
                      "NAME=FOLDER: containers of this image run the programs of this folder; may be given again. "
                      "Images of tensor-fusion-operator, -hypervisor, -worker and -client are the programs beside "
                      "tfctl unless said otherwise");
  command->add_option("--port", options->port,
                      "Port of the API server on 127.0.0.1 (default: a free one, and then that again)");
  command->add_option("--scheduler-extender", options->scheduler_extender,
                      "http://HOST:PORT of an operator that chooses the cards of pods with a vGPU (its "
                      "--scheduler-extender-bind-address)");
  command->add_flag("--foreground", options->foreground, "Stay, and end the cluster when this ends");
  command->footer(
      "Needs neither root nor containers; listens on 127.0.0.1 alone. Data survives `tfctl down`.\n"
      "Example: eval \"$(tfctl up --nodes 3)\" && kubectl get nodes");
  command->callback([options, nodes, &exit_status] {
    options->nodes_given = nodes->count() > 0;
    exit_status = Up(*options);
  });
}

}  // namespace tf::tfctl
