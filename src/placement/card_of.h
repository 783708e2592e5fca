// Reads a Card from a GPU object and its pool's configuration.
//
// The oversubscribed capacity, which limits share, is as the pool's capacityConfig.oversubscription has it: TFLOPS
// times tflopsOversellRatio percent; memory plus the card's part of vramExpandToHostMem percent of its node's memory
// and vramExpandToHostDisk percent of its data disk. Pure functions.
#pragma once

#include <cstdint>

#include "api/gpu.h"
#include "api/gpu_pool.h"
#include "placement/card.h"

namespace tf::placement {

struct HostFacts {
  int64_t memory = 0;  // bytes
  int64_t disk = 0;
  int cards = 0;
};

// The name of the node is label managed-by, the pool's label gpupool.
Card CardOf(const api::GPU& gpu, const api::Oversubscription& oversubscription, const HostFacts& host);

}  // namespace tf::placement
