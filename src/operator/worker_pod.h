// The pod of a worker of a TensorFusionWorkload. Pure.
//
// From the pool's worker.podTemplate, with the workload's workerPodTemplate laid over it (strategic_merge.h); all of
// both is kept. The worker is the container named tensorfusion-worker (or the only one, where it has no name). What is
// added to it:
//  - image, the first that is set: workerPodTemplate's, worker.image, the podTemplate's, the provider's
//    images.remoteWorker;
//  - command, where there is none: `tensor-fusion-worker` on the pod's address and port 8000. It is open to clients
//    there while that address is loopback, as on process nodes; elsewhere it admits nobody before it has a link key.
//    A template that gives `args` alone gives all of them;
//  - port 8000 `remote-vgpu`, a TCP readiness probe, requests, where there are none;
//  - env: what names the pod is ours whatever the templates say, and so are the workload's limits (a quota that a
//    template lifts would be none): TF_GPU_MEMORY_LIMIT and TF_CUDA_MEMORY_LIMIT in MiB from limits.vram,
//    TF_CUDA_SM_PERCENT_LIMIT from limits.compute, for soft and hard isolation. TF_ENABLE_LOG is 1 where no template
//    says otherwise, and an NVIDIA runtime shows it the cards of its node (NVIDIA_VISIBLE_DEVICES=all);
//  - labels, owner, toleration of what keeps others off GPU nodes, a grace period of 5 s.
//
// Where it runs is kube-scheduler's decision, among the nodes that the pool's selectors match (and the templates' and
// the workload's own affinity permits); what the workload asks of cards is written down in annotations, for placement.
// Where cards are chosen (scheduler_extender.h) it requests kVgpuResource of kVgpuScheduler, and sees in TF_GPU_IDS
// which it got; a limit in TFLOPS is then the share that it is of these. A workload that asks for nothing of a card
// gets none chosen.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "api/core.h"
#include "api/gpu_pool.h"
#include "api/provider_config.h"
#include "api/workload.h"
#include "operator/component_revision.h"

namespace tf::operators {

// Where clients find a worker that says nothing else.
inline constexpr int32_t kWorkerPort = 8000;

struct WorkerPodInput {
  const api::TensorFusionWorkload& workload;
  const api::GPUPool& pool;
  const PodRevision& revision;
  const api::ProviderConfig* provider = nullptr;  // of WorkerVendor; null: there is none
  std::string name = {};
  std::string connection = {};  // whose worker it is alone; "": all clients of the workload share it
  bool choose_cards = false;    // there is somebody who chooses them
};

// InvalidArgument names the field of the pool or of the workload.
absl::StatusOr<api::Pod> WorkerPod(const WorkerPodInput& input);

// spec.vendor, else the pool's default.
std::string WorkerVendor(const api::TensorFusionWorkload& workload, const api::GPUPool& pool);

// Over what of the workload itself reaches its workers' pods: its template, limits, isolation, vendor, affinity, pool.
// Where cards are chosen, what it asks of them too. Replicas, QoS, scaling and gangs are not in it. Written to the pods
// as kWorkloadRevisionAnnotation.
std::string WorkloadRevision(const api::WorkloadProfileSpec& spec, bool choose_cards = false);

}  // namespace tf::operators
