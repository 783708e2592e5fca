// Keeps the hypervisor's pod of each GPUNode, the GPUNode's status and the phase of its GPUs, and ends a GPUNode in
// order: its hypervisor first, which would make GPUs anew, then its GPUs, then the GPUNode. What is to be done is
// decided in gpunode_plan.h. A pod of an outdated revision is left to rollouts.
//
// A hypervisor that is restarted and back within seconds leaves the GPUNode and its GPUs as they are; one that takes
// longer, or of which something is wrong, is told.
//
// A node that is gone or not Ready is not waited for: its pods end when the server gives them up.
#pragma once

#include <string>

#include "kube/manager.h"
#include "operator/away.h"
#include "operator/backoff.h"
#include "operator/caches.h"
#include "operator/component_revision.h"
#include "operator/gpunode_plan.h"
#include "operator/pod_cache.h"

namespace tf::operators {

class GpuNodeController {
 public:
  // Adds itself to the manager; all outlive it. `ns`: of the hypervisors' pods.
  GpuNodeController(kube::Manager& manager, Caches& caches, PodCaches& pods, ComponentRevisions& revisions,
                    std::string ns);

 private:
  absl::StatusOr<kube::Result> Reconcile(const kube::Key& key);
  absl::StatusOr<kube::Result> Destroy(const kube::Json& object, const api::GPUNode& gpu_node, const api::Pod* pod,
                                       const GpuNodeView& view);
  absl::Status Create(const GpuNodeView& view, HypervisorPlan& plan);
  absl::Status Delete(const kube::Resource& resource, const api::ObjectMeta& meta);
  absl::Status WritePhases(const std::vector<api::GPU>& gpus, bool running);

  kube::Manager& manager_;
  Caches& caches_;
  ComponentRevisions& revisions_;
  kube::Informer& pods_;
  kube::Informer& gpus_;
  kube::Informer& providers_;
  const std::string ns_;
  Backoff backoff_;
  Away away_;
};

}  // namespace tf::operators
