// tensor-fusion-process-node: nodes whose pods run as processes of this machine.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_split.h"
#include "base/log.h"
#include "process_node/agent.h"
#include "process_node/environment.h"

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "tensor-fusion-process-node: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Kubernetes nodes on one machine whose pods run as processes, without root and without containers.",
               "tensor-fusion-process-node");
  app.set_version_flag("--version", "tensor-fusion-process-node " TF_VERSION);
  tf::process_node::AgentOptions options;
  options.version = TF_VERSION;
  std::string nodes, cpu, memory;
  double grace = 10;
  bool no_mounts = false, end_pods = false;
  app.add_option("--data-dir", options.data_folder, "Folder for pods; one process at a time")->required();
  CLI::Option* only_end = app.add_flag(
      "--end-pods", end_pods, "Only end what an agent that was killed has left of its pods in this data folder");
  std::vector<CLI::Option*> needed;
  needed.push_back(app.add_option("--kubeconfig", options.kubeconfig, "How the API server is reached"));
  needed.push_back(app.add_option("--nodes", nodes, "Names of the nodes, separated by commas"));
  app.add_option("--gpus-per-node", options.gpus, "Simulated cards of each node, such as A100-80G:2,T4");
  app.add_option(
      "--image", options.images,
      "NAME=FOLDER: what stands for an image; FOLDER / means the programs of this machine, NAME * any image");
  needed.push_back(app.add_option("--tls-cert", options.tls_certificate, "Certificate of the node, PEM"));
  needed.push_back(app.add_option("--tls-key", options.tls_key, "Its key, PEM"));
  needed.push_back(
      app.add_option("--client-ca", options.client_ca, "CA of the certificate with which the API server calls"));
  app.add_option("--client-name", options.client_names, "Common name in that certificate; may be given several times")
      ->capture_default_str();
  app.add_option("--port", options.port, "Port on 127.0.0.1 that the API server calls; 0: a free one")
      ->capture_default_str();
  app.add_option("--status-file", options.status_file,
                 "Written once the nodes are registered and their pods are known");
  app.add_option("--pods-per-node", options.pods_per_node, "Pods that each node takes")
      ->check(CLI::Range(1, 250))
      ->capture_default_str();
  app.add_option("--cpu-per-node", cpu, "Capacity of each node, such as 4 or 500m (default: the machine's)");
  app.add_option("--memory-per-node", memory, "Capacity of each node, such as 8Gi (default: the machine's)");
  app.add_flag("--stop-pods-on-exit", options.stop_pods_on_exit,
               "End all pods' processes on SIGTERM; otherwise they run on and the next start finds them");
  app.add_option("--stop-grace", grace, "Seconds that pods have then")->capture_default_str();
  app.add_flag("--no-mounts", no_mounts, "Do not put volumes at their mount paths");
  app.add_option("--shim", options.shim, "tensor-fusion-process-shim (default: beside this program)");
  app.footer(
      "A container's command is looked up in its image's folder first, then in PATH. Each pod has an address of its "
      "own\n"
      "(127.x.y.z, also POD_IP by fieldRef): its servers bind to that one. See docs/process-node.md.");
  try {
    app.parse(argc, argv);
    for (const CLI::Option* option : needed) {
      if (option->count() == 0 && only_end->count() == 0) throw CLI::RequiredError(option->get_name());
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  tf::InitLog("process-node");
  if (end_pods) {
    const absl::StatusOr<int> ended = tf::process_node::EndPods(options.data_folder);
    if (!ended.ok()) return Fail(ended.status());
    std::printf("ended %d containers\n", *ended);
    return 0;
  }
  options.nodes = absl::StrSplit(nodes, ',', absl::SkipEmpty());
  options.stop_grace = absl::Seconds(grace);
  options.mounts = !no_mounts;
  for (const auto& [text, name, into, unit] : {std::tuple(&cpu, "--cpu-per-node", &options.cpu_millis, 1000.0),
                                               std::tuple(&memory, "--memory-per-node", &options.memory_bytes, 1.0)}) {
    if (text->empty()) continue;
    const std::optional<double> value = tf::process_node::ParseQuantity(*text);
    if (!value || *value <= 0)
      return Fail(absl::InvalidArgumentError(std::string(name) + ": \"" + *text + "\" is no quantity"));
    *into = static_cast<int64_t>(*value * unit);
  }

  // Every thread inherits the mask; only the one below takes the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  absl::StatusOr<std::unique_ptr<tf::process_node::Agent>> agent = tf::process_node::Agent::Create(std::move(options));
  if (!agent.ok()) return Fail(agent.status());
  tf::process_node::Agent* running = agent->get();
  std::thread waiter([running, &signals] {
    int number = 0;
    sigwait(&signals, &number);
    running->Stop();
  });
  const absl::Status status = running->Run();
  // Run ends by Stop only, which the waiter called.
  waiter.join();
  if (!status.ok()) return Fail(status);
  return 0;
}
