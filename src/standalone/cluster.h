// A whole Kubernetes on this machine: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as children of
// this process, and nodes whose pods are processes. No root, no container runtime, nothing beyond 127.0.0.1.
//
// All state lies in one data folder and survives the end of everything, however it comes; a part that dies is started
// again. Several clusters, each with a folder of its own, run side by side in one process. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "standalone/backoff.h"
#include "standalone/status.h"

namespace tf::standalone {

// The names of the parts, in the order in which they start.
inline constexpr char kEtcd[] = "etcd";
inline constexpr char kApiServer[] = "kube-apiserver";
inline constexpr char kControllerManager[] = "kube-controller-manager";
inline constexpr char kScheduler[] = "kube-scheduler";
inline constexpr char kProcessNode[] = "process-node";

struct ClusterOptions {
  std::string data_dir = {};
  std::string controlplane = {};  // the program tensor-fusion-controlplane

  int nodes = 0;                   // they are named node-0, node-1, …; 0: the control plane alone
  std::string process_node = {};   // the program tensor-fusion-process-node
  std::string gpus_per_node = {};  // simulated cards, such as "A100-80G:2"; "": none
  std::vector<std::pair<std::string, std::string>> images = {};  // image names and the folders that stand for them

  uint16_t port = 0;                               // of the API server; 0: the one of last time, else a free one
  std::vector<std::string> api_server_flags = {};  // more of them, such as "--audit-log-path=FILE"
  std::string scheduler_extender = {};             // http://HOST:PORT that is asked for the cards of pods; "": nobody
  bool fsync = true;  // false: what etcd acknowledged may not survive the machine. For tests.
  absl::Duration start_limit = absl::Seconds(120);  // for each part, until it is ready
  BackoffPolicy backoff = {};

  std::string version = {};                               // of our programs, for the status
  std::function<void(const std::string&)> progress = {};  // a line for people; on the thread of Start
};

class Cluster {
 public:
  explicit Cluster(ClusterOptions options, Clock& clock = RealClock());
  ~Cluster();  // stops it
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Once. Returns when everything is ready; when that fails everything has ended again, and the message says what to
  // do. Cancelled: Stop came first.
  absl::Status Start();

  // Ends everything; also while Start runs. The data stays.
  void Stop();

  // With the rights of an administrator. Valid from the beginning; the file exists once the API server is ready.
  std::string kubeconfig() const;
  std::string server() const;  // "https://127.0.0.1:PORT"; "" before Start
  ClusterStatus status() const;
  int64_t PidOf(const std::string& part) const;  // 0: it does not run at the moment

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tf::standalone
