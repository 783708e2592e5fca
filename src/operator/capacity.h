// What a pool, and a cluster of pools, has: sums over GPUNodes, and over pools. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/gpu_pool.h"
#include "api/quantity.h"
#include "api/tensor_fusion_cluster.h"
#include "kube/object.h"

namespace tf::operators {

struct Capacity {
  int32_t nodes = 0;
  int32_t ready_nodes = 0;
  int32_t gpus = 0;
  int32_t apps = 0;  // pods that use GPUs
  api::Quantity total_tflops = {};
  api::Quantity total_vram = {};
  api::Quantity virtual_tflops = {};
  api::Quantity virtual_vram = {};
  api::Quantity available_tflops = {};
  api::Quantity available_vram = {};
  api::Quantity virtual_available_tflops = {};
  api::Quantity virtual_available_vram = {};
  std::vector<std::string> not_ready = {};  // names of nodes, sorted
};

// Of the pool's GPUNodes, those that are being deleted left out. An amount that cannot be read counts as none.
Capacity SumOfNodes(const std::vector<kube::ObjectPtr>& gpu_nodes);
// Of pools, by what their statuses say. `not_ready` stays empty: it is the pools' business.
Capacity SumOfPools(const std::vector<kube::ObjectPtr>& pools);

// Into the fields of a status that are such sums.
void Write(const Capacity& capacity, api::GPUPoolStatus& status);
void Write(const Capacity& capacity, api::TensorFusionClusterStatus& status);

// At most `most` of the names, and how many more there are: "a, b and 7 more".
std::string Some(const std::vector<std::string>& names, size_t most = 10);

}  // namespace tf::operators
