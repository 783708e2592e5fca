// What a pod asks for with its annotations and labels, as upstream TensorFusion names them (docs/vgpu-pods.md). Pure.
//
// The annotations go before the WorkloadProfile that they may name, which goes before the pool's defaults. An amount
// that has only a request or only a limit has the same of both. What makes no sense is refused here, with
// the annotation, its value and what is allowed; what is not supported yet, here or by Inject. Nothing is left out in
// silence.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/core.h"
#include "api/gpu_pool.h"
#include "api/workload.h"

namespace tf::operators {

enum class VgpuMode {
  kRemote,       // a worker in a pod of its own, over the network
  kLocalHard,    // a worker beside the application, over shared memory
  kLocalShared,  // whole cards, no worker and no limits
};

struct PodRequest {
  VgpuMode mode = VgpuMode::kRemote;
  // As a TensorFusionWorkload has it: pool, resources, isolation, cards. `resources` is absent for whole cards without
  // amounts; `gpuCount` is always there.
  api::WorkloadProfileSpec spec = {};
  std::vector<std::string> containers = {};  // that are to see the vGPU; never empty
};

struct PodRequestInput {
  const api::Pod& pod;
  const api::GPUPool& pool;
  const api::WorkloadProfile* profile = nullptr;  // the one that the pod names
  // Of the ProviderConfigs: resources of other device plugins, such as nvidia.com/gpu.
  std::vector<std::string> native_resources = {};
};

// InvalidArgument: all that is wrong, for the user.
absl::StatusOr<PodRequest> ReadPodRequest(const PodRequestInput& input);

// Label kEnabledLabel is "true".
bool WantsVgpu(const api::Pod& pod);

// The TensorFusionWorkload that a pod uses: of all pods of a Deployment the same one, and so of whatever else controls
// pods. A pod that nothing controls has one of its own, under `own_name`.
std::string WorkloadNameOf(const api::Pod& pod, const std::string& own_name);

}  // namespace tf::operators
