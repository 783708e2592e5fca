// From a client's pod to its worker.
//
// The client part makes, for each pod that admission has prepared for remote mode, the TensorFusionWorkload that it
// selects (where there is none) and its TensorFusionConnection; a pod that has ended loses its connection, for it holds
// nothing. The connection part writes into each connection which worker it has: that of its own where the workload has
// one for each client, else the one of its workload with the fewest clients, always in the connection's namespace. A
// worker that goes is replaced by workload_controller, and the connection gets the next one that is ready.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "kube/manager.h"
#include "operator/caches.h"
#include "operator/pod_cache.h"

namespace tf::operators {

class ConnectionController {
 public:
  // Adds itself to the manager; all outlive it.
  ConnectionController(kube::Manager& manager, Caches& caches, PodCaches& pods);

 private:
  absl::StatusOr<kube::Result> ReconcileClient(const kube::Key& key);
  absl::Status EnsureWorkload(const kube::Json& pod);
  absl::Status EnsureConnection(const kube::Json& pod);
  absl::StatusOr<kube::Result> ReconcileConnection(const kube::Key& key);
  const kube::Json* Choose(const kube::Key& key, const kube::Json& connection, const kube::Json& workload,
                           const std::vector<kube::ObjectPtr>& workers);

  kube::Manager& manager_;
  Caches& caches_;
  PodCaches& pods_;
  kube::Informer& workloads_;
  kube::Informer& profiles_;
  // What was chosen, by connection: the cache shows it later than the next choice is made.
  std::mutex mutex_;
  std::map<kube::Key, std::string> chosen_;
};

}  // namespace tf::operators
