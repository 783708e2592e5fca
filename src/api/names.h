// Labels, annotations and names that several programs write or read. They are the public interface, as upstream
// TensorFusion has them; those that are ours alone say so.
#pragma once

namespace tf::api {

// Labels.
inline constexpr char kComponentLabel[] = "tensor-fusion.ai/component";     // the values are below
inline constexpr char kManagedByLabel[] = "tensor-fusion.ai/managed-by";    // of a pool: its cluster; of a GPUNode: its
                                                                            // pool; of a GPU: its GPUNode
inline constexpr char kPoolLabel[] = "tensor-fusion.ai/gpupool";            // the pool's name
inline constexpr char kPoolLabelPrefix[] = "tensor-fusion.ai/pool-";        // + the pool's name, "true"
inline constexpr char kVendorLabel[] = "tensor-fusion.ai/hardware-vendor";  // of nodes and GPUNodes
inline constexpr char kWorkloadLabel[] = "tensor-fusion.ai/workload";       // of a worker pod: the TensorFusionWorkload
inline constexpr char kRevisionLabel[] = "tensor-fusion.ai/pod-template-hash";  // the revision that a pod runs
inline constexpr char kEnabledLabel[] = "tensor-fusion.ai/enabled";             // "true": a pod that wants a vGPU
// Ours. Of an application pod with a worker in it: the revision of that worker; kRevisionLabel is then the client's.
inline constexpr char kWorkerRevisionLabel[] = "tensor-fusion.ai/worker-template-hash";

// Annotations.
inline constexpr char kDefaultPoolAnnotation[] = "tensor-fusion.ai/is-default-pool";   // "true" or "false"
inline constexpr char kGpuMissingAnnotation[] = "tensor-fusion.ai/gpu-missing-since";  // of a GPU, RFC 3339

// Of application pods: what they ask for. docs/vgpu-pods.md says what each means.
inline constexpr char kProfileAnnotation[] = "tensor-fusion.ai/workload-profile";
inline constexpr char kLocalAnnotation[] = "tensor-fusion.ai/is-local-gpu";           // "true" or "false"
inline constexpr char kSidecarAnnotation[] = "tensor-fusion.ai/sidecar-worker";       // "true" or "false"
inline constexpr char kContainersAnnotation[] = "tensor-fusion.ai/inject-container";  // names, with commas
// Written by admission. The TensorFusionWorkload of a client; a client's TensorFusionConnection is ours alone.
inline constexpr char kSelectedWorkloadAnnotation[] = "tensor-fusion.ai/selected-workload";
inline constexpr char kConnectionAnnotation[] = "tensor-fusion.ai/connection";
// Of a TensorFusionWorkload that the operator made for pods: "dynamic". Others are people's, and only used.
inline constexpr char kWorkloadModeAnnotation[] = "tensor-fusion.ai/workload-mode";

// Ours. Of a worker's pod: what of its workload (template, limits) it was made from; another value there replaces it.
inline constexpr char kWorkloadRevisionAnnotation[] = "tensor-fusion.ai/workload-revision";

// Ours. + "hypervisor", "worker" or "client", of a pool: when a person asked for a restart, RFC 3339. A part of the
// revision: another value is another revision.
inline constexpr char kRestartAnnotationPrefix[] = "tensor-fusion.ai/restart-";

// What a pod wants of GPUs, as annotations: amounts for each of its cards, as Quantities.
inline constexpr char kTflopsRequestAnnotation[] = "tensor-fusion.ai/tflops-request";
inline constexpr char kTflopsLimitAnnotation[] = "tensor-fusion.ai/tflops-limit";
inline constexpr char kVramRequestAnnotation[] = "tensor-fusion.ai/vram-request";
inline constexpr char kVramLimitAnnotation[] = "tensor-fusion.ai/vram-limit";
inline constexpr char kComputeRequestAnnotation[] = "tensor-fusion.ai/compute-percent-request";  // instead of TFLOPS
inline constexpr char kComputeLimitAnnotation[] = "tensor-fusion.ai/compute-percent-limit";
inline constexpr char kGpuCountAnnotation[] = "tensor-fusion.ai/gpu-count";      // 1 to 128, of one node
inline constexpr char kGpuIndicesAnnotation[] = "tensor-fusion.ai/gpu-indices";  // "0,3": these cards of a node
inline constexpr char kGpuModelAnnotation[] = "tensor-fusion.ai/gpu-model";
inline constexpr char kVendorAnnotation[] = "tensor-fusion.ai/vendor";
inline constexpr char kPoolAnnotation[] = "tensor-fusion.ai/gpupool";
inline constexpr char kIsolationAnnotation[] = "tensor-fusion.ai/isolation";  // shared, soft, hard, partitioned
inline constexpr char kQosAnnotation[] = "tensor-fusion.ai/qos";              // low, medium, high, critical
// What it got: names of GPU objects, comma-separated. Written with the binding to a node, by the operator alone; with
// the requests above it is all that the books of the cards are made from.
inline constexpr char kGpuIdsAnnotation[] = "tensor-fusion.ai/gpu-ids";
// With it, where its limit is in TFLOPS: the share of each of these cards that this is, 1 to 100.
inline constexpr char kSharePercentAnnotation[] = "tensor-fusion.ai/effective-hard-sm-percent";

// Pods that request this resource are placed on cards, by the scheduler of this name, which asks the operator. No node
// offers it; how much a pod requests means nothing.
inline constexpr char kVgpuResource[] = "tensor-fusion.ai/vgpu";
inline constexpr char kVgpuScheduler[] = "tensor-fusion-scheduler";

// Ours, no name of its own: the history of a component's configuration are ControllerRevisions in kSystemNamespace,
// named POOL-COMPONENT-DIGEST, owned by the GPUPool, with kPoolLabel and kComponentLabel. `data` is the component's
// block of componentConfig ({"image": ..., "podTemplate": ...}); `revision` counts up, newest last.

inline constexpr char kFinalizer[] = "tensor-fusion.ai/finalizer";

// Values of kComponentLabel.
inline constexpr char kHypervisorComponent[] = "hypervisor";
inline constexpr char kWorkerComponent[] = "worker";
inline constexpr char kClientComponent[] = "client";
inline constexpr char kOperatorComponent[] = "operator";

inline constexpr char kWorkerContainer[] = "tensorfusion-worker";
inline constexpr char kHypervisorContainer[] = "tensorfusion-hypervisor";
inline constexpr char kSystemNamespace[] = "tensor-fusion-sys";  // unless OPERATOR_NAMESPACE says otherwise

}  // namespace tf::api
