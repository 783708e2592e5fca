// Keeps the worker pods of each TensorFusionWorkload with fixed replicas, and the workload's status. What is to be done
// is decided in workload_plan.h. A pod of an outdated revision of the component is left to rollouts; one that is
// deleted, by them or by anybody, is made anew, as the newest revision has it.
//
// A workload that is deleted takes its pods along as their owner; it has no finalizer, which would hold its namespace
// where no operator runs any more.
//
// A workload without `replicas` has a worker for each of its TensorFusionConnections (connection_controller.h).
#pragma once

#include <string>

#include "kube/expectations.h"
#include "kube/manager.h"
#include "operator/backoff.h"
#include "operator/caches.h"
#include "operator/component_revision.h"
#include "operator/pod_cache.h"
#include "operator/workload_plan.h"

namespace tf::operators {

class WorkloadController {
 public:
  // Adds itself to the manager; all outlive it.
  // `choose_cards`: a scheduler asks us for the cards of pods (scheduler_extender.h).
  WorkloadController(kube::Manager& manager, Caches& caches, PodCaches& pods, ComponentRevisions& revisions,
                     bool choose_cards);

 private:
  absl::StatusOr<kube::Result> Reconcile(const kube::Key& key);
  std::vector<kube::ObjectPtr> PodsOf(const api::TensorFusionWorkload& workload) const;
  std::vector<std::string> ConnectionsOf(const kube::Key& workload) const;
  kube::ObjectPtr PoolOf(const api::TensorFusionWorkload& workload, WorkloadProblem& problem) const;
  absl::Status Create(const api::TensorFusionWorkload& workload, const api::GPUPool& pool, const PodRevision& revision,
                      const std::vector<std::string>& connections, WorkloadProblem& problem);
  absl::Status Delete(const kube::Key& workload, const std::vector<WorkloadPlan::Deletion>& deletions);
  static std::string NewName(const std::string& workload);

  kube::Manager& manager_;
  Caches& caches_;
  ComponentRevisions& revisions_;
  kube::Informer& workloads_;
  kube::Informer& pods_;
  kube::Informer& connections_;
  kube::Informer& providers_;
  kube::Expectations expectations_;
  Backoff backoff_;
  const bool choose_cards_;
};

}  // namespace tf::operators
