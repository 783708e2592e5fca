#include "operator/caches.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "api/gpu.h"
#include "api/gpu_node.h"
#include "api/gpu_pool.h"
#include "api/names.h"
#include "api/tensor_fusion_cluster.h"
#include "api/workload.h"

namespace tf::operators {
namespace {

kube::InformerOptions Whole() { return {.keep = AllOfIt()}; }

kube::InformerOptions GpuNodes() {
  kube::InformerOptions options = Whole();
  options.indexes = {{kByPool, [](const kube::Json& node) {
                        return std::vector<std::string>{std::string(kube::Label(node, api::kManagedByLabel))};
                      }}};
  return options;
}

kube::InformerOptions Gpus() {
  kube::InformerOptions options = Whole();
  options.indexes = {
      {kByPool,
       [](const kube::Json& gpu) { return std::vector<std::string>{std::string(kube::Label(gpu, api::kPoolLabel))}; }},
      {kGpusByNode, [](const kube::Json& gpu) {
         return std::vector<std::string>{std::string(kube::Label(gpu, api::kManagedByLabel))};
       }}};
  return options;
}

kube::InformerOptions Workloads() {
  kube::InformerOptions options = Whole();
  options.indexes = {{kByPool, [](const kube::Json& workload) {
                        return std::vector<std::string>{std::string(kube::Text(workload, "spec.poolName"))};
                      }}};
  return options;
}

kube::InformerOptions Connections() {
  kube::InformerOptions options = Whole();
  options.indexes = {{kConnectionsByWorkload, [](const kube::Json& connection) {
                        return std::vector<std::string>{
                            absl::StrCat(std::string(kube::Namespace(connection)), "/",
                                         std::string(kube::Text(connection, "spec.workloadName")))};
                      }}};
  return options;
}

// INITIAL_GPU_NODE_LABEL_SELECTOR, as upstream has it: in a large cluster, which nodes are looked at.
kube::InformerOptions Nodes() {
  const char* selector = std::getenv("INITIAL_GPU_NODE_LABEL_SELECTOR");
  return {.label_selector = selector == nullptr ? "" : selector,
          .keep = {"apiVersion", "kind", "metadata.labels", "metadata.annotations", "metadata.creationTimestamp",
                   "metadata.deletionTimestamp", "spec.unschedulable", "spec.taints", "status.conditions.type",
                   "status.conditions.status", "status.conditions.reason", "status.conditions.lastTransitionTime",
                   "status.addresses"}};
}

}  // namespace

Caches::Caches(kube::Manager& manager)
    : clusters(manager.Cache(api::TensorFusionCluster::kResource, Whole())),
      pools(manager.Cache(api::GPUPool::kResource, Whole())),
      gpu_nodes(manager.Cache(api::GPUNode::kResource, GpuNodes())),
      gpus(manager.Cache(api::GPU::kResource, Gpus())),
      workloads(manager.Cache(api::TensorFusionWorkload::kResource, Workloads())),
      profiles(manager.Cache(api::WorkloadProfile::kResource, Whole())),
      connections(manager.Cache(api::TensorFusionConnection::kResource, Connections())),
      nodes(manager.Cache(kube::core::kNode, Nodes())) {}

std::vector<std::string> AllOfIt() {
  return {"apiVersion",
          "kind",
          "metadata.generation",
          "metadata.creationTimestamp",
          "metadata.deletionTimestamp",
          "metadata.labels",
          "metadata.annotations",
          "metadata.ownerReferences",
          "metadata.finalizers",
          "spec",
          "status"};
}

kube::Predicate ChangedBySomebody() {
  return [](const kube::ChangeView& change) {
    if (change.before == nullptr) return true;
    for (const char* path : {"metadata.generation", "metadata.deletionTimestamp", "metadata.labels",
                             "metadata.annotations", "metadata.ownerReferences", "metadata.finalizers"}) {
      const kube::Json* before = kube::Field(*change.before, path);
      const kube::Json* now = kube::Field(change.object, path);
      if ((before == nullptr) != (now == nullptr) || (before != nullptr && *before != *now)) return true;
    }
    return false;
  };
}

}  // namespace tf::operators
