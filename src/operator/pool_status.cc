#include "operator/pool_status.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::operators {
namespace {

bool AsksForCapacity(const api::GPUPoolSpec& spec) {
  if (!spec.capacityConfig || !spec.capacityConfig->minResources) return false;
  const api::PoolResources& least = *spec.capacityConfig->minResources;
  return !least.tflops.IsZero() || !least.vram.IsZero();
}

void SetReady(api::GPUPool& pool, bool ready, const char* reason, std::string message, absl::Time now) {
  api::SetCondition(pool.status.conditions,
                    {.type = "Ready",
                     .status = ready ? "True" : "False",
                     .reason = reason,
                     .message = std::move(message),
                     .observedGeneration = pool.metadata.generation},
                    now);
}

}  // namespace

void SetCapacity(const Capacity& capacity, api::GPUPool& pool, absl::Time now) {
  Write(capacity, pool.status);
  pool.status.observedGeneration = pool.metadata.generation;
  const bool new_pool = pool.status.phase.empty() || pool.status.phase == "Pending";
  const bool empty = capacity.nodes == 0;
  const bool ready = capacity.not_ready.empty() && (!empty || !AsksForCapacity(pool.spec));
  pool.status.phase = ready ? "Running" : new_pool ? "Pending" : "Updating";
  if (!capacity.not_ready.empty()) {
    SetReady(pool, false, "NodesNotReady",
             absl::StrCat(capacity.not_ready.size(), " of ", capacity.nodes,
                          " nodes are not Running: ", Some(capacity.not_ready)),
             now);
  } else if (empty && !ready) {
    SetReady(pool, false, "NoNodes",
             "spec.capacityConfig.minResources asks for capacity, and no node of the cluster matches the selectors of "
             "spec.nodeManagerConfig",
             now);
  } else {
    SetReady(pool, true, empty ? "NoNodes" : "AllNodesReady",
             empty ? "no node matches the selectors, and no capacity is asked for"
                   : absl::StrCat("all ", capacity.nodes, " nodes are Running"),
             now);
  }
}

void SetDestroying(const Capacity& capacity, const std::vector<std::string>& nodes, api::GPUPool& pool,
                   absl::Time now) {
  Write(capacity, pool.status);
  pool.status.observedGeneration = pool.metadata.generation;
  pool.status.phase = "Destroying";
  SetReady(pool, false, "Destroying", absl::StrCat("waits for the end of GPUNodes ", Some(nodes)), now);
}

}  // namespace tf::operators
