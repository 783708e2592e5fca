// ComponentRevisions from what the API server has.
//
// A revision is a digest over what reaches a pod of the component and needs a restart when it changes: the component's
// block of the pool and the time of the last restart that somebody asked for. Thread-safe.
#pragma once

#include <string>

#include "kube/manager.h"
#include "operator/component_revision.h"

namespace tf::operators {

class ServerRevisions final : public ComponentRevisions {
 public:
  // Before the manager runs.
  explicit ServerRevisions(kube::Manager& manager);

  absl::StatusOr<PodRevision> ForNewPod(const api::GPUPool& pool, Component component, const std::string& vendor,
                                        const std::string& ns) override;
};

}  // namespace tf::operators
