#include "operator/capacity.h"

#include <algorithm>
#include <boost/json/value.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace tf::operators {
namespace {

api::Quantity Amount(const kube::Json& object, std::string_view path) {
  const kube::Json* field = kube::Field(object, path);
  if (field == nullptr) return {};
  if (field->is_string()) return api::Quantity::Parse(field->get_string()).value_or(api::Quantity());
  if (field->is_number()) return api::Quantity(kube::Number(object, path));
  return {};
}

int32_t Count(const kube::Json& object, std::string_view path) {
  return static_cast<int32_t>(kube::Number(object, path));
}

void AddAmounts(const kube::Json& object, Capacity& sum) {
  sum.gpus += Count(object, "status.totalGPUs");
  sum.total_tflops += Amount(object, "status.totalTFlops");
  sum.total_vram += Amount(object, "status.totalVRAM");
  sum.virtual_tflops += Amount(object, "status.virtualTFlops");
  sum.virtual_vram += Amount(object, "status.virtualVRAM");
  sum.available_tflops += Amount(object, "status.availableTFlops");
  sum.available_vram += Amount(object, "status.availableVRAM");
  sum.virtual_available_tflops += Amount(object, "status.virtualAvailableTFlops");
  sum.virtual_available_vram += Amount(object, "status.virtualAvailableVRAM");
}

template <typename Status>
void WriteAmounts(const Capacity& capacity, Status& status) {
  status.totalNodes = capacity.nodes;
  status.totalGPUs = capacity.gpus;
  status.totalTFlops = capacity.total_tflops;
  status.totalVRAM = capacity.total_vram;
  status.virtualTFlops = capacity.virtual_tflops;
  status.virtualVRAM = capacity.virtual_vram;
  status.availableTFlops = capacity.available_tflops;
  status.availableVRAM = capacity.available_vram;
  status.virtualAvailableTFlops = capacity.virtual_available_tflops;
  status.virtualAvailableVRAM = capacity.virtual_available_vram;
}

}  // namespace

Capacity SumOfNodes(const std::vector<kube::ObjectPtr>& gpu_nodes) {
  Capacity sum;
  for (const kube::ObjectPtr& node : gpu_nodes) {
    if (kube::IsBeingDeleted(*node)) continue;
    ++sum.nodes;
    if (kube::Text(*node, "status.phase") == "Running") {
      ++sum.ready_nodes;
    } else {
      sum.not_ready.emplace_back(kube::Name(*node));
    }
    sum.apps += Count(*node, "status.totalGPUPods");
    AddAmounts(*node, sum);
  }
  std::sort(sum.not_ready.begin(), sum.not_ready.end());
  return sum;
}

Capacity SumOfPools(const std::vector<kube::ObjectPtr>& pools) {
  Capacity sum;
  for (const kube::ObjectPtr& pool : pools) {
    sum.nodes += Count(*pool, "status.totalNodes");
    sum.ready_nodes += Count(*pool, "status.readyNodes");
    sum.apps += Count(*pool, "status.runningAppsCnt");
    AddAmounts(*pool, sum);
  }
  return sum;
}

void Write(const Capacity& capacity, api::GPUPoolStatus& status) {
  WriteAmounts(capacity, status);
  status.readyNodes = capacity.ready_nodes;
  status.notReadyNodes = capacity.nodes - capacity.ready_nodes;
  status.runningAppsCnt = capacity.apps;
}

void Write(const Capacity& capacity, api::TensorFusionClusterStatus& status) { WriteAmounts(capacity, status); }

std::string Some(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", names[i]);
  if (names.size() > most) absl::StrAppend(&text, " and ", names.size() - most, " more");
  return text;
}

}  // namespace tf::operators
