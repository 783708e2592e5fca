// The GPU objects of a node: what is to be written so that they say what the driver says. Pure.
//
// Of a GPU the hypervisor writes what the card is (vendor, model, UUID, index, NUMA node, capacity, where it is) and
// whether it has vanished (annotation kGpuMissingAnnotation). `phase` and `usedBy` are the operator's, `available` and
// what belongs to it placement's; they get a first value where there is none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "api/gpu.h"
#include "api/gpu_node.h"
#include "cuda/backend.h"
#include "hypervisor/hardware.h"

namespace tf::hypervisor {

struct Card {
  std::string uuid = {};  // as NVML prints it
  std::string name = {};
  int32_t index = 0;    // NVML's
  uint64_t memory = 0;  // bytes
  std::optional<int32_t> numa_node = {};
};

struct Place {
  std::string node = {};
  std::string pool = {};
  std::string vendor = {};
};

// Cards without a UUID (they fell off the bus) are left out. `numa_node` says where one is.
std::vector<Card> CardsOf(const cuda::MonitorReport& report,
                          const std::function<std::optional<int32_t>(const cuda::DeviceFacts&)>& numa_node);

// Lower case, for names of objects are.
std::string GpuName(const std::string& uuid);

// The object to create; its status is written after that.
api::GPU NewGpu(const Card& card, const Place& place, const api::GPUNode& owner);

// Members of metadata to be merged into it; empty: it is right. Also of a GPU that was another node's.
api::JsonObject MetadataPatch(const api::GPU& gpu, const Place& place, const api::GPUNode& owner);
// Marks it, keeping the time of an earlier mark.
api::JsonObject MissingPatch(const api::GPU& gpu, absl::Time now);

// Members of status to be merged into it; empty: it is right.
api::JsonObject StatusPatch(const api::GPU& gpu, const Card& card, const Place& place, const HardwareTable& hardware);

// Of the GPUNode's status.
struct NodeFacts {
  uint64_t memory = 0;  // bytes
  uint64_t disk = 0;    // bytes
};
api::JsonObject NodeStatusPatch(const api::GPUNode& gpu_node, const NodeFacts& facts, const std::vector<Card>& cards);

}  // namespace tf::hypervisor
