// The phase of a GPUPool and its condition Ready. Pure functions.
#pragma once

#include "absl/time/time.h"
#include "api/gpu_pool.h"
#include "operator/capacity.h"

namespace tf::operators {

// Writes the sums, phase, observedGeneration and the condition Ready of a pool that is to stay. Running: all nodes are
// Running, and there is one unless the pool asks for no capacity at all; otherwise Pending as long as it has never been
// Running, then Updating.
void SetCapacity(const Capacity& capacity, api::GPUPool& pool, absl::Time now);

// The same of a pool that is being deleted: `nodes` are the GPUNodes that it still waits for.
void SetDestroying(const Capacity& capacity, const std::vector<std::string>& nodes, api::GPUPool& pool, absl::Time now);

}  // namespace tf::operators
