#include "operator/gpunode_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "operator/pod_view.h"

namespace tf::operators {
namespace {

constexpr char kCondition[] = "HypervisorReady";

int32_t Restarts(const api::Pod& pod) {
  int32_t most = 0;
  for (const auto* statuses : {&pod.status.initContainerStatuses, &pod.status.containerStatuses}) {
    for (const api::ContainerStatus& status : *statuses) most = std::max(most, status.restartCount);
  }
  return most;
}

// What every pod is before it is Ready, and nothing that somebody would have to look after.
bool IsOnItsWay(const api::Pod& pod) {
  const std::string reason = TroubleOf(api::ToJson(pod)).reason;
  return reason.empty() || reason == "NotReady" || reason == "ContainersNotReady" ||
         reason == "ContainersNotInitialized";
}

bool IsMissing(const api::GPU& gpu) { return !gpu.metadata.Annotation(api::kGpuMissingAnnotation).empty(); }

std::string Because(std::string what, const std::string& why) {
  return why.empty() ? what : absl::StrCat(what, ": ", why);
}

}  // namespace

std::string WhyNotReady(const api::Pod& pod) {
  const Trouble trouble = TroubleOf(api::ToJson(pod));
  return trouble.reason.empty() ? "" : Because(trouble.reason, trouble.message);
}

HypervisorPlan PlanHypervisor(const GpuNodeView& view) {
  HypervisorPlan plan;
  const auto waits = [&](std::string reason, std::string message, HypervisorAction action = HypervisorAction::kNone) {
    plan.reason = std::move(reason);
    plan.message = std::move(message);
    plan.action = action;
    return plan;
  };
  if (view.pool == nullptr || view.pool->metadata.deletionTimestamp) {
    return waits("NoPool", "the pool is gone or is being deleted");
  }
  if (view.node == nullptr || view.node->metadata.deletionTimestamp) {
    return waits("NoNode", "the node is gone or is being deleted");
  }
  const bool node_ready = api::IsReady(*view.node);
  const api::Pod* pod = view.hypervisor;
  if (pod == nullptr) {
    if (!node_ready) return waits("NodeNotReady", "the node is not Ready; the hypervisor starts when it is");
    plan.passing = true;
    return waits("Starting", "the hypervisor's pod is made", HypervisorAction::kCreate);
  }
  if (pod->metadata.deletionTimestamp) {
    plan.passing = node_ready;
    return waits("Restarting", "the hypervisor's last pod is ending");
  }
  const api::OwnerReference* owner = pod->metadata.Controller();
  if (owner == nullptr || owner->uid != view.gpu_node.metadata.uid) {
    return waits("NameTaken", absl::StrCat("pod ", pod->metadata.Key().ToString(),
                                           " bears the hypervisor's name and belongs to something else"));
  }
  if (api::IsFinished(*pod)) {
    return waits("Finished", Because(absl::StrCat("the hypervisor's pod is ", pod->status.phase), WhyNotReady(*pod)),
                 HypervisorAction::kReplaceFinished);
  }
  if (pod->status.phase == "Running" && api::IsReady(*pod)) {
    if (!node_ready) return waits("NodeNotReady", "the node is not Ready");
    plan.ready = true;
    plan.reason = "Ready";
    return plan;
  }
  if (const int32_t restarts = Restarts(*pod); restarts > kHypervisorCrashLimit) {
    return waits("CrashLoop", Because(absl::StrCat("restarted ", restarts, " times"), WhyNotReady(*pod)),
                 HypervisorAction::kReplaceCrashLoop);
  }
  if (!node_ready) return waits("NodeNotReady", "the node is not Ready");
  plan.passing = IsOnItsWay(*pod);
  return waits("NotReady", Because("the hypervisor's pod is not ready", WhyNotReady(*pod)));
}

api::GPUNodeStatus StatusOf(const GpuNodeView& view, const HypervisorPlan& plan, absl::Time now) {
  api::GPUNodeStatus status = view.gpu_node.status;
  api::Quantity tflops, vram, free_tflops, free_vram;
  int32_t count = 0;
  for (const api::GPU& gpu : view.gpus) {
    if (IsMissing(gpu) || gpu.metadata.deletionTimestamp) continue;
    ++count;
    tflops += gpu.status.capacity.tflops;
    vram += gpu.status.capacity.vram;
    free_tflops += gpu.status.available.tflops;
    free_vram += gpu.status.available.vram;
  }
  status.totalGPUs = status.managedGPUs = count;
  status.totalTFlops = tflops;
  status.totalVRAM = vram;
  status.availableTFlops = free_tflops;
  status.availableVRAM = free_vram;
  status.virtualTFlops = tflops;
  status.virtualVRAM = vram;
  if (count > 0 && view.pool != nullptr && view.pool->spec.capacityConfig &&
      view.pool->spec.capacityConfig->oversubscription) {
    const api::Oversubscription& over = *view.pool->spec.capacityConfig->oversubscription;
    status.virtualTFlops = tflops.Percent(over.tflopsOversellRatio.value_or(500));
    status.virtualVRAM += status.nodeInfo.ramSize.Percent(over.vramExpandToHostMem.value_or(50));
    status.virtualVRAM += status.nodeInfo.dataDiskSize.Percent(over.vramExpandToHostDisk.value_or(70));
  }
  status.virtualAvailableTFlops = status.virtualTFlops - (tflops - free_tflops);
  status.virtualAvailableVRAM = status.virtualVRAM - (vram - free_vram);

  if (view.gpu_node.metadata.deletionTimestamp) {
    status.phase = "Destroying";
  } else {
    status.phase = plan.ready && count > 0 ? "Running" : "Pending";
  }
  api::Condition condition{.type = kCondition,
                           .status = plan.ready ? "True" : "False",
                           .reason = plan.reason,
                           .message = plan.message,
                           .observedGeneration = view.gpu_node.metadata.generation};
  if (plan.ready && count == 0) condition.message = "it has found no GPU on this node";
  api::SetCondition(status.conditions, std::move(condition), now);
  return status;
}

HypervisorPlan AsShown(const api::GPUNodeStatus& status, HypervisorPlan plan) {
  for (const api::Condition& condition : status.conditions) {
    if (condition.type != kCondition) continue;
    plan.ready = condition.status == "True";
    plan.reason = condition.reason;
    plan.message = condition.message;
  }
  return plan;
}

std::string PhaseOf(const api::GPU& gpu, bool node_running) {
  if (IsMissing(gpu)) return "";
  return node_running ? "Running" : "Pending";
}

}  // namespace tf::operators
