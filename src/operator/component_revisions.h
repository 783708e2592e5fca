// ComponentRevisions from what the API server has.
//
// A revision covers what reaches a pod of the component and needs a restart when it changes: the component's block of
// the pool, the provider settings of the vendor, the content of every Secret and ConfigMap that the block references,
// in the namespace of the pod, and the time of the last restart that a person asked for (revision_text.h says how it is
// written).
//
// New pods get the newest revision, except where the pool's status says that it was rolled back, or the licence in it
// would be refused: then the last good one, whose block the history has. Without a last good one they get the newest
// all the same and say themselves what is wrong with it: a pod that fails can be looked at, one that is not made
// cannot. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kube/manager.h"
#include "operator/component_revision.h"
#include "operator/license_status.h"
#include "operator/referenced_objects.h"
#include "operator/revision_history.h"
#include "operator/revision_text.h"

namespace tf::operators {

class ServerRevisions final : public ComponentRevisions {
 public:
  // Before the manager runs. `ns`: the operator's, where the history is kept.
  ServerRevisions(kube::Manager& manager, std::string ns);

  absl::StatusOr<PodRevision> ForNewPod(const api::GPUPool& pool, Component component, const std::string& vendor,
                                        const std::string& ns) override;

  void OnChange(std::function<void()> changed) override;

  // The parts, for rollouts. -----------------------------------------------------------------------------------------

  // The component's block of the pool; null: it has none.
  static kube::Json Block(const api::ComponentConfig& config, Component component);
  static void SetBlock(api::ComponentConfig& config, Component component, const kube::Json& block);

  // What reaches a pod beside the block. Unavailable: see ComponentRevisions.
  absl::StatusOr<std::string> Extra(const api::GPUPool& pool, Component component, const kube::Json& block,
                                    const std::string& vendor, const std::string& ns);

  // The licence that a worker of `ns` would find. `gpus`: see CheckLicense.
  NamespaceLicense License(const std::string& pool, const kube::Json& block, const std::string& ns, absl::Time now,
                           const std::vector<std::string>& gpus);

  // The block with this CONFIG: the pool's own, or one of the history.
  std::optional<kube::Json> BlockOf(const api::GPUPool& pool, Component component, const std::string& config);

  const std::string& ns() const { return ns_; }
  absl::Status WaitForSync(absl::Duration limit);
  RevisionHistory& history() { return history_; }
  ReferencedObjects& objects() { return *objects_; }

 private:
  void Changed();
  kube::JsonObject ProviderSettings(Component component, const kube::Json& block, const std::string& vendor) const;

  kube::Manager& manager_;
  const std::string ns_;
  RevisionHistory history_;
  kube::Informer& providers_;
  std::vector<std::function<void()>> changed_;
  std::unique_ptr<ReferencedObjects> objects_;
};

}  // namespace tf::operators
