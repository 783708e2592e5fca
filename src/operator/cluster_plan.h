// What a TensorFusionCluster asks of its GPUPools: which to make, to change and to delete. Pure functions.
//
// A pool of the cluster is called CLUSTER-POOL and is controlled by it (ownerReferences). The cluster has the say over
// the pool's spec, its label managed-by and its annotation is-default-pool; all other metadata is a person's: the
// cluster's own labels are added where the pool does not have such a label, and nothing is taken away. What the API
// server fills in by default is no difference.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/tensor_fusion_cluster.h"
#include "kube/object.h"

namespace tf::operators {

struct PoolAction {
  enum class Kind { kCreate, kPatch, kDelete };
  Kind kind = Kind::kCreate;
  std::string name = {};
  kube::Json body = {};  // kCreate: the object. kPatch: a merge patch with the resourceVersion that it is made for.
  std::string uid = {};  // kDelete: of the one that is meant
};

// Something about one pool that keeps it from being as the cluster says. It says nothing about the others.
struct PoolProblem {
  std::string name = {};
  absl::Status status = {};
};

struct ClusterPlan {
  std::vector<std::string> wanted = {};  // names of the pools that are to be there
  std::vector<PoolAction> actions = {};
  std::vector<PoolProblem> problems = {};
};

// `pools`: all that there are, of any owner. Nothing is to be done for a pool that is being deleted: it is made anew
// once it is gone.
ClusterPlan PlanPools(const kube::Json& cluster, const std::vector<kube::ObjectPtr>& pools);

// The pools that the cluster controls, whether it still wants them or not.
std::vector<kube::ObjectPtr> PoolsOf(const kube::Json& cluster, const std::vector<kube::ObjectPtr>& pools);

// The status, from the one before. `pools`: those of the cluster. `problems`: those of the plan and of carrying it out.
api::TensorFusionClusterStatus ClusterStatus(const api::TensorFusionCluster& cluster, const ClusterPlan& plan,
                                             const std::vector<kube::ObjectPtr>& pools,
                                             const std::vector<PoolProblem>& problems, absl::Time now);
// The same of a cluster that is being deleted.
api::TensorFusionClusterStatus DestroyingStatus(const api::TensorFusionCluster& cluster,
                                                const std::vector<kube::ObjectPtr>& pools, absl::Time now);

}  // namespace tf::operators
