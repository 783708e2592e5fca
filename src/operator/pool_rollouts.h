// The shell around the rollout engine (src/rollout): observes a pool, asks the engine, shows what it says, does what it
// asks for.
//
//   RolloutPlan plan = rollouts.Plan(object, pool, now);   // writes into pool.status
//   ...                                                    // the whole status is written, on condition of its version
//   rollouts.Act(object, plan);                            // only then
//
// Plan reads caches alone and changes nothing but pool.status: rollouts, componentStatus, license and the conditions
// HypervisorSynced, WorkerSynced, ClientSynced and LicenseValid. One call at a time for a pool; otherwise thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "api/gpu_pool.h"
#include "kube/controller.h"
#include "kube/manager.h"
#include "operator/caches.h"
#include "operator/component_revisions.h"
#include "operator/eviction.h"
#include "operator/license_status.h"
#include "operator/pod_cache.h"
#include "rollout/engine.h"

namespace tf::operators {

struct RolloutPlan {
  struct HistoryRecord {
    Component component = Component::kHypervisor;
    std::string digest = {};
    kube::Json block = {};
    std::set<std::string> in_use = {};
  };
  std::vector<rollout::Action> actions = {};
  std::vector<rollout::Event> events = {};
  std::vector<HistoryRecord> history = {};
  LicenseReport license = {};
  absl::Time next_look = absl::InfiniteFuture();

  // The status must be written even if it says what it said before: only so is it certain that the actions follow from
  // the newest state.
  bool must_write() const { return !actions.empty(); }
};

class PoolRollouts {
 public:
  // Before the manager runs; all of these outlive it.
  PoolRollouts(kube::Manager& manager, Caches& caches, PodCaches& pods, ServerRevisions& revisions);

  // Wakes the controller of pools when something changes that a plan depends on.
  void Watch(kube::Controller& pools);

  RolloutPlan Plan(const kube::Json& object, api::GPUPool& pool, absl::Time now);
  // True: something was refused, which the status does not say yet: plan again now.
  bool Act(const kube::Json& object, const RolloutPlan& plan);
  // The pool is gone.
  void Forget(const std::string& pool);

 private:
  // A pod of a component, before it is known which revisions it counts as.
  struct Unit;
  struct Gathered;
  // What of a component is wanted, and what reaches its pods where.
  class Wanted;

  Gathered Gather(const kube::Json& object, const api::GPUPool& pool) const;
  void AddWorkloads(const kube::Json& object, const api::GPUPool& pool, Gathered& gathered) const;
  std::vector<NamespaceLicense> Licenses(const api::GPUPool& pool, const Gathered& gathered,
                                         const std::vector<std::string>& cards, absl::Time now);
  std::optional<LicenseObjection> Objection(const api::GPUPool& pool, const std::vector<NamespaceLicense>& licenses,
                                            const rollout::State& state);
  std::vector<std::string> CardsOf(const std::set<std::string>& nodes) const;
  void ShowLicense(const std::vector<NamespaceLicense>& licenses, const Gathered& gathered, int cards,
                   api::GPUPool& pool, absl::Time now, RolloutPlan& plan);
  void Count(const std::string& pool, const rollout::Decision& decision, absl::Time now);
  void CountLicense(const std::string& pool, const std::vector<NamespaceLicense>& licenses,
                    const LicenseReport& report);

  kube::Manager& manager_;
  Caches& caches_;
  PodCaches& pods_;
  ServerRevisions& revisions_;
  kube::Informer& workloads_;
  kube::Informer& gpus_;
  Restarts restarts_;

  std::mutex mutex_;
  std::map<std::string, std::string> checked_;  // "pool/ns" -> the last check of a licence that was counted
};

}  // namespace tf::operators
