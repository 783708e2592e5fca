// The local copies of the API server's objects that the operator's controllers share: each kind once, with its indexes,
// and without what nobody reads (managedFields above all). Made before Manager::Run; the manager starts, stops and owns
// them.
#pragma once

#include <string>
#include <vector>

#include "kube/informer.h"
#include "kube/manager.h"

namespace tf::operators {

// Indexes.
inline constexpr char kByPool[] = "pool";                     // of GPUNodes, GPUs and workloads: the pool's name
inline constexpr char kGpusByNode[] = "node";                 // the name of their GPUNode
inline constexpr char kConnectionsByWorkload[] = "workload";  // "NAMESPACE/NAME" of spec.workloadName

struct Caches {
  explicit Caches(kube::Manager& manager);

  kube::Informer& clusters;
  kube::Informer& pools;
  kube::Informer& gpu_nodes;  // kByPool
  kube::Informer& gpus;       // kByPool, kGpusByNode
  kube::Informer& workloads;  // kByPool: spec.poolName
  kube::Informer& profiles;
  kube::Informer& connections;  // kConnectionsByWorkload
  kube::Informer& nodes;        // labels, taints, spec.unschedulable, the status of conditions
};

// All of an object but what only the server needs: for `keep`.
std::vector<std::string> AllOfIt();

// Of updates, those of anything but the status: for controllers that themselves write the status.
kube::Predicate ChangedBySomebody();

}  // namespace tf::operators
