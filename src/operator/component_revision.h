// What a pod of a component is to be made from, and the revision that it then runs (label kRevisionLabel).
//
// Whoever makes pods of a component (hypervisor, worker, client) asks here and nowhere else. The answer is that of the
// revision that new pods are to have: the newest one, unless it must not be used (a licence that is refused, a rollout
// that was rolled back). It differs by vendor, whose provider settings reach the pod, and by namespace, whose Secrets
// and ConfigMaps do.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "api/gpu_pool.h"
#include "rollout/component.h"

namespace tf::operators {

using rollout::Component;

struct PodRevision {
  std::string revision = {};
  api::ComponentConfig config = {};  // of the pool; the block of this component is the one to render
};

class ComponentRevisions {
 public:
  virtual ~ComponentRevisions() = default;
  // FailedPrecondition: the pool says nothing about the component; the message names the field that is missing.
  // Unavailable: a Secret or ConfigMap that is not optional cannot be read at the moment; it is named.
  virtual absl::StatusOr<PodRevision> ForNewPod(const api::GPUPool& pool, Component component,
                                                const std::string& vendor, const std::string& ns) = 0;
  // Before the manager runs: `changed` is called, on some thread and without a lock, when something outside the pools
  // has changed that answers depend on: a Secret, a ConfigMap, a ProviderConfig. It must not block.
  virtual void OnChange(std::function<void()> changed) = 0;
};

}  // namespace tf::operators
