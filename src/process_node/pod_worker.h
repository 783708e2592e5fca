// One pod on this machine: the shell around its PodMachine. It carries out the machine's actions with processes, files
// and calls to the API server, and reports the pod's status.
//
// Everything runs on the loop's thread; calls to the API server run in the pool and come back to the loop. Its folder:
//
//   pods/UID/address                     the pod's loopback address
//   pods/UID/volumes/NAME/               what is mounted
//   pods/UID/containers/NAME/work        the container's home and, without workingDir, where it starts
//   pods/UID/containers/NAME/termination-log
//   pods/UID/containers/NAME/ATTEMPT/    one run: see shim/main.cc; `backoff`: seconds to wait after its end
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/cancel.h"
#include "kube/client.h"
#include "process_node/addresses.h"
#include "process_node/cgroups.h"
#include "process_node/container.h"
#include "process_node/environment.h"
#include "process_node/image_table.h"
#include "process_node/loop.h"
#include "process_node/pod_machine.h"
#include "process_node/prober.h"
#include "process_node/worker_pool.h"

namespace tf::process_node {

// What pods need of the agent that they live in.
struct PodHost {
  Loop* loop = nullptr;
  WorkerPool* pool = nullptr;
  kube::Client* client = nullptr;
  http::Cancel* cancel = nullptr;  // of calls in the pool
  AddressPool* addresses = nullptr;
  const Cgroups* cgroups = nullptr;
  const ImageTable* images = nullptr;
  std::string folder = {};     // "DATA/pods"
  std::string shim = {};       // the program
  bool mounts = false;         // volumes can be bound at their mount paths
  std::string path = {};       // PATH of containers, after the image's folder
  Variables environment = {};  // of every container: KUBERNETES_SERVICE_HOST and the like
  std::function<kube::ObjectPtr(std::string_view kind, const kube::Key& key)> lookup = {};
  std::function<void(const kube::Json& pod, bool warning, const std::string& reason, const std::string& message)>
      event = {};
};

// The node that a pod is bound to.
struct PodNode {
  int index = 0;  // for addresses
  NodeFacts facts = {};
  std::string gpus = {};
};

// Where a container is and how to run something in it.
struct ContainerView {
  std::string name;
  std::string folder;  // pods/UID/containers/NAME
  int attempt = -1;    // of the latest run
  bool running = false;
  pid_t pid = 0;
  std::string image_folder;
  std::string image;
  std::string working_folder;
  std::string pod_ip;
  bool terminal = false;
  bool input = false;
};

class PodWorker {
 public:
  // `done` is called once nothing of the pod is left on this machine, its folder included.
  PodWorker(PodHost& host, PodNode node, kube::ObjectPtr pod, std::function<void(const std::string& uid)> done);
  ~PodWorker();
  PodWorker(const PodWorker&) = delete;
  PodWorker& operator=(const PodWorker&) = delete;

  void Start();  // adopts what an earlier agent left, or begins
  void Updated(kube::ObjectPtr pod);
  void Gone();  // the object has been deleted
  void DependencyChanged(std::string_view kind, const std::string& name);
  // Ends its processes, without a word to the API server: for an agent that is told to leave nothing behind.
  void EndProcesses(absl::Duration grace);
  bool processes_left() const;

  const std::string& uid() const { return uid_; }
  const kube::ObjectPtr& pod() const { return pod_; }
  std::optional<ContainerView> View(std::string_view container) const;
  // Where its servers listen; nullopt when it does not run.
  std::optional<std::string> Address() const;

 private:
  struct Live {
    std::unique_ptr<ContainerRun> run;
    bool started = false;  // the program runs
  };
  struct Token {
    std::string text;
    absl::Time renew_at;
    bool asked = false;
  };

  Now Time() const;
  void Act();
  void Perform(const Action& action);
  void Prepare();
  void AskForToken(const TokenNeed& need);
  absl::Status WriteVolumes();
  void StartContainer(size_t i, int attempt);
  void WatchRun(size_t i, int attempt);
  void ReportReady(size_t i, int attempt);
  void RunEnded(size_t i, int attempt);
  Termination HowItEnded(size_t i, int attempt) const;
  void RunHandler(size_t i, const Handler& handler, absl::Duration timeout, ProbeDone done);
  void RunExec(size_t i, const std::vector<std::string>& command, absl::Duration timeout, ProbeDone done);
  void Release();
  void ScheduleSync();
  void Sync();
  void DeleteObject();
  void Finish();
  void RefreshVolumes();
  void Adopt();
  Lookup PodLookup() const;
  std::string ContainerFolder(size_t i) const;
  std::string RunFolder(size_t i, int attempt) const;
  std::string Marker(size_t i, int attempt) const;
  std::string WorkingFolder(const kube::Json& container, size_t i) const;
  // Runs `work` on the loop unless this worker is gone by then.
  std::function<void()> Guarded(std::function<void()> work);

  PodHost& host_;
  const PodNode node_;
  kube::ObjectPtr pod_;
  const std::string uid_;
  const std::string folder_;
  std::function<void(const std::string&)> done_;
  PodMachine machine_;
  std::vector<std::map<int, Live>> live_;  // per container, by attempt
  std::string address_;                    // "": none of its own
  std::map<std::string, std::string> volume_folders_;
  std::map<TokenNeed, Token> tokens_;
  bool preparing_ = false;
  uint64_t prepare_timer_ = 0;
  bool terminal_ = false;  // had ended before this agent came: only its logs are left
  bool gone_ = false;      // the object is deleted
  bool ending_ = false;    // EndProcesses
  bool delete_wanted_ = false;
  bool deleting_ = false;
  bool finished_ = false;

  uint64_t wake_timer_ = 0;
  uint64_t sync_timer_ = 0;
  uint64_t token_timer_ = 0;
  bool syncing_ = false;
  absl::Duration sync_backoff_ = absl::ZeroDuration();
  std::string last_status_;  // as written last
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace tf::process_node
