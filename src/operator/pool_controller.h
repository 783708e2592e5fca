// Keeps the status of each GPUPool, as its only writer, and ends a pool in order.
//
// A pass observes, lets the pure parts say what each section of the status is (capacity.h; the rollouts), writes the
// status in one patch on the condition that the pool is still the one that was looked at, and only then does what the
// rollouts ask for: the state is written before the action, so that whoever comes after a crash goes on from there.
//
// A pool that is being deleted takes its GPUNodes along and goes when they are gone; what is left over after that,
// because somebody made it meanwhile, is collected by the API server, for the pool is its owner.
#pragma once

#include "api/gpu_pool.h"
#include "kube/manager.h"
#include "operator/caches.h"
#include "operator/pool_rollouts.h"

namespace tf::operators {

class PoolController {
 public:
  // Adds itself to the manager; all outlive it.
  PoolController(kube::Manager& manager, Caches& caches, PoolRollouts& rollouts);

 private:
  absl::StatusOr<kube::Result> Reconcile(const kube::Key& key);
  absl::StatusOr<kube::Result> Destroy(const kube::Json& object, api::GPUPool pool);
  absl::Status Write(const kube::Json& object, const api::GPUPool& pool, bool always = false);

  kube::Manager& manager_;
  Caches& caches_;
  PoolRollouts& rollouts_;
};

}  // namespace tf::operators
