#include "api/defaults.h"

#include <utility>

namespace tf::api {
namespace {

template <typename T, typename U>
void Default(std::optional<T>& member, U value) {
  if (!member.has_value()) member = T(value);
}

template <typename T>
T& Made(std::optional<T>& block) {
  if (!block.has_value()) block.emplace();
  return *block;
}

void Fill(NodeDefragConfig& defrag) {
  Default(defrag.enabled, false);
  Default(defrag.schedule, "0 3 * * *");
  Default(defrag.maxDuration, "2h");
  Default(defrag.utilizationThresholdPercent, 40);
  Default(defrag.evictedPodMarkerTTL, "never");
  Default(defrag.sourceNodeMarkerTTL, "30m");
}

void Fill(NodeProvisioner& provisioner) {
  for (auto* requirements : {&provisioner.gpuRequirements, &provisioner.cpuRequirements}) {
    for (NodeRequirement& requirement : *requirements) Default(requirement.operator_, "In");
  }
  for (auto* taints : {&provisioner.gpuTaints, &provisioner.cpuTaints}) {
    for (NodeTaint& taint : *taints) Default(taint.effect, "NoSchedule");
  }
  if (provisioner.budget) {
    Default(provisioner.budget->budgetPerDay, "100");
    Default(provisioner.budget->budgetPerMonth, "1000");
    Default(provisioner.budget->budgetPerQuarter, "3000");
    Default(provisioner.budget->budgetExceedStrategy, "AlertOnly");
  }
}

void Fill(NodeManagerConfig& manager) {
  Default(manager.provisioningMode, "AutoSelect");
  Default(manager.defaultIsolationMode, "soft");
  Default(manager.defaultVendor, "NVIDIA");
  if (manager.nodeProvisioner) Fill(*manager.nodeProvisioner);
  NodeCompaction& compaction = Made(manager.nodeCompaction);
  Default(compaction.period, "5m");
  if (compaction.defrag) Fill(*compaction.defrag);
  manager.nodePoolRollingUpdatePolicy = WithDefaults(std::move(Made(manager.nodePoolRollingUpdatePolicy)));
}

void Fill(QosConfig& qos) {
  Default(qos.evictionProtectionPriceRatio, "1.2");
  for (QosPricing& pricing : qos.pricing) {
    Default(pricing.limitsOverRequests, "1");
    ResourcePricing& requests = Made(pricing.requests);
    Default(requests.perFP16TFlopsPerHour, "$0.0069228");
    Default(requests.perGBOfVRAMPerHour, "$0.01548");
  }
}

}  // namespace

RollingUpdatePolicy WithDefaults(RollingUpdatePolicy policy) {
  Default(policy.autoUpdateHypervisor, false);
  Default(policy.autoUpdateWorker, false);
  Default(policy.autoUpdateClient, false);
  Default(policy.batchPercentage, 100);
  Default(policy.batchInterval, "1s");
  Default(policy.maxDuration, "1h");
  Default(policy.paused, false);
  Default(policy.minReadySeconds, 0);
  Default(policy.progressDeadlineSeconds, 600);
  Default(policy.onFailure, "Pause");
  Default(policy.maxFailures, 0);
  MaintenanceWindow& window = Made(policy.maintenanceWindow);
  Default(window.enforced, false);
  Default(window.timeZone, "UTC");
  return policy;
}

GPUPoolSpec WithDefaults(GPUPoolSpec spec) {
  Default(spec.defaultUsingLocalGPU, true);
  Oversubscription& oversubscription = Made(Made(spec.capacityConfig).oversubscription);
  Default(oversubscription.vramExpandToHostMem, 50);
  Default(oversubscription.vramExpandToHostDisk, 70);
  Default(oversubscription.tflopsOversellRatio, 500);
  Fill(spec.nodeManagerConfig);
  Fill(Made(spec.qosConfig));
  ComponentConfig& components = Made(spec.componentConfig);
  if (components.hypervisor) Default(components.hypervisor->portNumber, 8000);
  return spec;
}

TensorFusionClusterSpec WithDefaults(TensorFusionClusterSpec spec) {
  for (GPUPoolDefinition& pool : spec.gpuPools) pool.specTemplate = WithDefaults(std::move(pool.specTemplate));
  if (spec.computingVendor) Default(spec.computingVendor->enable, true);
  return spec;
}

WorkloadProfileSpec WithDefaults(WorkloadProfileSpec spec) {
  Default(spec.isolation, "soft");
  Default(spec.gpuCount, 1u);
  if (spec.gangScheduling) Default(spec.gangScheduling->mode, "Strict");
  return spec;
}

SchedulingConfigTemplateSpec WithDefaults(SchedulingConfigTemplateSpec spec) {
  Default(spec.placement.mode, "NodeCompactGPULowLoad");
  Default(spec.placement.allowUsingLocalGPU, true);
  return spec;
}

GPUResourceQuotaSpec WithDefaults(GPUResourceQuotaSpec spec) {
  QuotaTotal& total = Made(spec.total);
  Default(total.maxWorkers, 32768);
  Default(total.alertThresholdPercent, 95);
  return spec;
}

}  // namespace tf::api
