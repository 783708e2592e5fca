// The agent: N nodes in one process, and the pods that are bound to them.
//
// It registers the nodes and keeps their leases and statuses, watches pods, Secrets and ConfigMaps, runs a PodWorker
// for each pod, and answers the API server's calls for logs, exec, attach and port-forward. Run() blocks; everything
// else is done on its thread, in pools of a few threads for calls, and in the threads of informers and connections.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tf::process_node {

struct AgentOptions {
  std::string kubeconfig = {};
  std::string data_folder = {};
  std::vector<std::string> nodes = {};
  std::string gpus = {};  // of each node, as TF_SIM_GPUS takes them; "": none
  std::string tls_certificate = {}, tls_key = {}, client_ca = {};
  // Common names of those who may call; none: whoever has a certificate of the CA.
  std::vector<std::string> client_names = {"kube-apiserver-kubelet-client", "kube-apiserver"};
  std::vector<std::string> images = {};  // rules NAME=FOLDER
  std::string status_file = {};          // written when the nodes are registered and the server listens
  std::string shim = {};                 // "": beside this program
  uint16_t port = 0;
  int64_t pods_per_node = 110;
  int64_t cpu_millis = 0;    // of each node; 0: the machine's
  int64_t memory_bytes = 0;  // likewise
  bool stop_pods_on_exit = false;
  bool mounts = true;                             // volumes at their mount paths, where the machine permits it
  absl::Duration stop_grace = absl::Seconds(10);  // for pods, with stop_pods_on_exit
  std::string version = {};
};

class Agent {
 public:
  // Reads configuration, claims the data folder (FailedPrecondition names who holds it) and listens.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(AgentOptions options);
  virtual ~Agent() = default;
  // Until Stop.
  virtual absl::Status Run() = 0;
  // Any thread. With stop_pods_on_exit it ends the pods' processes first.
  virtual void Stop() = 0;
};

// Ends, at once, every process that pods of a data folder have left on this machine, when no agent runs on it any more.
// How many containers it ended; FailedPrecondition when an agent does run.
absl::StatusOr<int> EndPods(const std::string& data_folder);

}  // namespace tf::process_node
