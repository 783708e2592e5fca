// What is to be done about a GPUNode, and what its status says. Pure; gpunode_controller carries it out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "api/core.h"
#include "api/gpu.h"
#include "api/gpu_node.h"
#include "api/gpu_pool.h"

namespace tf::operators {

// With more restarts than this a hypervisor that is not ready is made anew, as the newest revision has it.
inline constexpr int32_t kHypervisorCrashLimit = 5;

struct GpuNodeView {
  const api::GPUNode& gpu_node;
  const api::GPUPool* pool = nullptr;    // null: not there (yet, any more)
  const api::Node* node = nullptr;       // null: not there
  const api::Pod* hypervisor = nullptr;  // null: none
  const std::vector<api::GPU>& gpus;     // that bear its name
};

enum class HypervisorAction {
  kNone,
  kCreate,
  kReplaceFinished,   // it has ended and nothing starts it again
  kReplaceCrashLoop,  // event HypervisorCrashLoopRecreate
};

struct HypervisorPlan {
  HypervisorAction action = HypervisorAction::kNone;
  // The condition HypervisorReady: what it waits for, so that a person reads the cause.
  bool ready = false;
  std::string reason = {};
  std::string message = {};
  // Not ready, and nothing is wrong: a pod goes or comes. Mostly that is over before anybody could have looked.
  bool passing = false;
};

// A hypervisor that runs an outdated revision is nothing to do here: rollouts replace it.
HypervisorPlan PlanHypervisor(const GpuNodeView& view);

// The status with what is ours in it: phase, condition HypervisorReady, capacity. What the hypervisor writes (nodeInfo,
// managedGPUDeviceIDs) and what placement writes stays.
//
// Of GPUs that are missing (annotation) nothing is counted. Virtual capacity is the real one and what the pool's
// oversubscription adds: percent of the TFLOPS, of the node's memory and data disk; without that block it is the real.
api::GPUNodeStatus StatusOf(const GpuNodeView& view, const HypervisorPlan& plan, absl::Time now);

// The plan of a hypervisor whose restart is not told (yet): it shows what the status shows now.
HypervisorPlan AsShown(const api::GPUNodeStatus& status, HypervisorPlan plan);

// The phase that a GPU is to have; "": as it is (it is missing).
std::string PhaseOf(const api::GPU& gpu, bool node_running);

// pod_view.h's Trouble in one line: "ImagePullBackOff: ...". "" when there is nothing to say.
std::string WhyNotReady(const api::Pod& pod);

}  // namespace tf::operators
