// tensor-fusion-standalone: a Kubernetes on this machine, in the foreground, until SIGTERM or SIGINT. `tfctl up` starts
// it in the background.
//
// Standard output: a line for each step, at last the `export` line for kubectl. Exit status: 0 ended as asked, 1 failed
// (the last line of standard error says why), 2 wrong usage.
#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/log.h"
#include "standalone/cluster.h"
#include "standalone/kubeconfig.h"

namespace tf::standalone {
namespace {

void Print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Who started us reads until here; from now on there is nobody to read.
void RedirectOutput(const std::string& file) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) {
    spdlog::warn("cannot open {}: output goes nowhere", file);
    return;
  }
  std::fflush(stdout);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  close(fd);
}

int Run(ClusterOptions options, const std::string& log_file) {
  // Every thread inherits the mask: only the wait below sees these.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);

  options.progress = Print;
  Cluster cluster(std::move(options));
  std::thread waiter([&] {
    int got = 0;
    sigwait(&ends, &got);
    cluster.Stop();
  });
  const absl::Status status = cluster.Start();
  if (status.ok()) {
    Print(ExportLine(cluster.kubeconfig()));
    if (!log_file.empty()) RedirectOutput(log_file);
  } else {
    kill(getpid(), SIGTERM);  // for the waiter
  }
  waiter.join();
  if (status.ok() || absl::IsCancelled(status)) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace tf::standalone

int main(int argc, char** argv) {
  tf::InitLog("tensor-fusion-standalone");
  std::error_code failed;
  const std::filesystem::path beside = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();

  tf::standalone::ClusterOptions options;
  options.version = TF_VERSION;
  options.controlplane = (beside / "tensor-fusion-controlplane").string();
  options.process_node = (beside / "tensor-fusion-process-node").string();
  options.nodes = 1;
  std::string log_file;
  std::vector<std::string> images;
  bool no_fsync = false;

  CLI::App app("A Kubernetes on this machine: control plane, and nodes whose pods are processes.",
               "tensor-fusion-standalone");
  app.set_version_flag("--version", "tensor-fusion-standalone " TF_VERSION);
  app.add_option("--data-dir", options.data_dir, "Where everything is kept")->required();
  app.add_option("--nodes", options.nodes, "How many nodes; 0: the control plane alone")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--gpus-per-node", options.gpus_per_node, "Simulated cards of each node, such as A100-80G:2");
  app.add_option("--image", images, "NAME=FOLDER: containers of this image run the programs of this folder");
  app.add_option("--port", options.port,
                 "Port of the API server on 127.0.0.1 (default: a free one, and then that again)");
  app.add_option("--controlplane", options.controlplane, "The program of the control plane")->capture_default_str();
  app.add_option("--process-node", options.process_node, "The program of the nodes")->capture_default_str();
  app.add_option("--log-file", log_file, "Once everything is ready, output goes there");
  app.add_option("--api-server-flag", options.api_server_flags, "One more argument for kube-apiserver");
  app.add_option(
      "--scheduler-extender", options.scheduler_extender,
      "http://HOST:PORT of an operator that chooses the cards of pods (its --scheduler-extender-bind-address)");
  app.add_flag("--unsafe-no-fsync", no_fsync, "For tests: what is acknowledged may not survive a crash of the machine");
  try {
    app.parse(argc, argv);
    for (const std::string& image : images) {
      const std::pair<std::string, std::string> entry = absl::StrSplit(image, absl::MaxSplits('=', 1));
      if (entry.first.empty() || entry.second.empty()) {
        throw CLI::ValidationError("--image", "expected NAME=FOLDER, found '" + image + "'");
      }
      options.images.push_back(entry);
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // Our own images are the programs beside this one, whatever registry and tag; of equal names the first rule counts.
  for (const char* name :
       {"tensor-fusion-operator", "tensor-fusion-hypervisor", "tensor-fusion-worker", "tensor-fusion-client"}) {
    options.images.emplace_back(name, beside.string());
  }
  options.fsync = !no_fsync;
  return tf::standalone::Run(std::move(options), log_file);
}
