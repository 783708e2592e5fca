// Keeps the GPUPools of each TensorFusionCluster as it says, and its status as they are. What is to be done is decided
// in cluster_plan.h; this observes, carries it out, and waits for deletion in order: a cluster goes when its pools
// have.
#pragma once

#include "kube/manager.h"
#include "operator/caches.h"
#include "operator/cluster_plan.h"

namespace tf::operators {

class ClusterController {
 public:
  // Adds itself to the manager; both outlive it.
  ClusterController(kube::Manager& manager, Caches& caches);

 private:
  absl::StatusOr<kube::Result> Reconcile(const kube::Key& key);
  absl::StatusOr<kube::Result> Destroy(const kube::Json& object, api::TensorFusionCluster cluster);
  absl::Status Carry(const PoolAction& action);
  absl::Status Write(const kube::Json& object, const api::TensorFusionCluster& cluster);

  kube::Manager& manager_;
  Caches& caches_;
};

}  // namespace tf::operators
