// GPUPool: GPU nodes of one kind of use, with the components that run on them.
//
// Absent blocks and values have the defaults of defaults.h. A comment "ignored" marks what is accepted for the sake of
// existing manifests and has no effect.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/json.h"
#include "api/meta.h"
#include "api/quantity.h"
#include "api/values.h"

namespace tf::api {

struct PoolResources {
  JsonObject extra = {};
  Quantity tflops = {};
  Quantity vram = {};
  Quantity cpu = {};     // ignored
  Quantity memory = {};  // ignored
};
BOOST_DESCRIBE_STRUCT(PoolResources, (), (tflops, vram, cpu, memory))

struct Oversubscription {
  JsonObject extra = {};
  std::optional<int32_t> vramExpandToHostMem = {};   // percent of the node's memory
  std::optional<int32_t> vramExpandToHostDisk = {};  // percent of the node's data disk
  std::optional<int32_t> tflopsOversellRatio = {};   // percent of the cards' TFLOPS
};
BOOST_DESCRIBE_STRUCT(Oversubscription, (), (vramExpandToHostMem, vramExpandToHostDisk, tflopsOversellRatio))

struct CapacityConfig {
  JsonObject extra = {};
  std::optional<PoolResources> minResources = {};
  std::optional<PoolResources> maxResources = {};
  std::optional<PoolResources> warmResources = {};
  std::optional<Oversubscription> oversubscription = {};
};
BOOST_DESCRIBE_STRUCT(CapacityConfig, (), (minResources, maxResources, warmResources, oversubscription))

// The first rule whose selector matches the node's labels gives its isolation mode.
struct IsolationModeRule {
  JsonObject extra = {};
  std::string mode = {};  // shared, soft, hard, partitioned
  LabelSelector selector = {};

  static constexpr std::string_view kAlways[] = {"selector"};
};
BOOST_DESCRIBE_STRUCT(IsolationModeRule, (), (mode, selector))

struct GroupKindName {
  JsonObject extra = {};
  std::string group = {};
  std::string kind = {};
  std::string version = {};
  std::string name = {};
};
BOOST_DESCRIBE_STRUCT(GroupKindName, (), (group, kind, version, name))

struct NodeRequirement {
  JsonObject extra = {};
  std::string key = {};
  std::optional<std::string> operator_ = {};  // In, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values = {};
};
BOOST_DESCRIBE_STRUCT(NodeRequirement, (), (key, operator_, values))

struct NodeTaint {
  JsonObject extra = {};
  std::string key = {};
  std::string value = {};
  std::optional<std::string> effect = {};  // NoSchedule, NoExecute, PreferNoSchedule
};
BOOST_DESCRIBE_STRUCT(NodeTaint, (), (key, value, effect))

struct PeriodicalBudget {
  JsonObject extra = {};
  std::optional<std::string> budgetPerDay = {};
  std::optional<std::string> budgetPerMonth = {};
  std::optional<std::string> budgetPerQuarter = {};
  std::optional<std::string> budgetExceedStrategy = {};
};
BOOST_DESCRIBE_STRUCT(PeriodicalBudget, (), (budgetPerDay, budgetPerMonth, budgetPerQuarter, budgetExceedStrategy))

struct NodeProvisioner {
  JsonObject extra = {};
  std::string nodeClass = {};  // a GPUNodeClass
  std::optional<GroupKindName> karpenterNodeClassRef = {};
  std::vector<NodeRequirement> gpuRequirements = {};
  std::vector<NodeTaint> gpuTaints = {};
  std::map<std::string, std::string> gpuNodeLabels = {};
  std::map<std::string, std::string> gpuNodeAnnotations = {};
  std::vector<NodeRequirement> cpuRequirements = {};      // ignored
  std::vector<NodeTaint> cpuTaints = {};                  // ignored
  std::map<std::string, std::string> cpuNodeLabels = {};  // ignored
  std::optional<PeriodicalBudget> budget = {};            // ignored
};
BOOST_DESCRIBE_STRUCT(NodeProvisioner, (),
                      (nodeClass, karpenterNodeClassRef, gpuRequirements, gpuTaints, gpuNodeLabels, gpuNodeAnnotations,
                       cpuRequirements, cpuTaints, cpuNodeLabels, budget))

struct NodeDefragConfig {
  JsonObject extra = {};
  std::optional<bool> enabled = {};
  std::optional<std::string> schedule = {};  // cron, five fields
  std::string timezone = {};                 // IANA
  std::optional<std::string> maxDuration = {};
  std::optional<int32_t> utilizationThresholdPercent = {};
  std::optional<std::string> evictedPodMarkerTTL = {};  // a duration or "never"
  std::optional<std::string> sourceNodeMarkerTTL = {};  // a duration or "never"
};
BOOST_DESCRIBE_STRUCT(NodeDefragConfig, (),
                      (enabled, schedule, timezone, maxDuration, utilizationThresholdPercent, evictedPodMarkerTTL,
                       sourceNodeMarkerTTL))

struct NodeCompaction {
  JsonObject extra = {};
  std::optional<std::string> period = {};
  std::optional<NodeDefragConfig> defrag = {};
};
BOOST_DESCRIBE_STRUCT(NodeCompaction, (), (period, defrag))

struct MaintenanceWindow {
  JsonObject extra = {};
  std::vector<std::string> includes = {};    // cron, five fields: when a window opens
  std::optional<bool> enforced = {};         // false: accepted and ignored
  std::optional<std::string> timeZone = {};  // IANA
};
BOOST_DESCRIBE_STRUCT(MaintenanceWindow, (), (includes, enforced, timeZone))

// How a change of a component reaches the nodes of the pool.
struct RollingUpdatePolicy {
  JsonObject extra = {};
  std::optional<bool> autoUpdateHypervisor = {};
  std::optional<bool> autoUpdateWorker = {};
  std::optional<bool> autoUpdateClient = {};
  std::optional<int32_t> batchPercentage = {};    // of the nodes, rounded up
  std::optional<std::string> batchInterval = {};  // after a batch is healthy
  std::optional<std::string> maxDuration = {};    // how long a maintenance window lasts
  std::optional<MaintenanceWindow> maintenanceWindow = {};
  std::optional<bool> paused = {};                 // stops after the open batch
  std::optional<IntOrString> maxUnavailable = {};  // nodes, or percent of them; absent: no limit beside the batch
  std::optional<int32_t> minReadySeconds = {};
  std::optional<int32_t> progressDeadlineSeconds = {};
  std::optional<std::string> onFailure = {};  // Pause, Rollback
  std::optional<int32_t> maxFailures = {};
};
BOOST_DESCRIBE_STRUCT(RollingUpdatePolicy, (),
                      (autoUpdateHypervisor, autoUpdateWorker, autoUpdateClient, batchPercentage, batchInterval,
                       maxDuration, maintenanceWindow, paused, maxUnavailable, minReadySeconds, progressDeadlineSeconds,
                       onFailure, maxFailures))

struct NodeManagerConfig {
  JsonObject extra = {};
  std::optional<std::string> provisioningMode = {};      // Provisioned, AutoSelect, Karpenter
  std::optional<std::string> defaultIsolationMode = {};  // shared, soft, hard, partitioned
  std::vector<IsolationModeRule> isolationModeRules = {};
  std::optional<std::string> defaultVendor = {};
  std::optional<NodeSelector> nodeSelector = {};
  std::map<std::string, NodeSelector> multiVendorNodeSelector = {};  // by vendor; goes before nodeSelector
  std::optional<NodeProvisioner> nodeProvisioner = {};
  std::optional<NodeCompaction> nodeCompaction = {};
  std::optional<RollingUpdatePolicy> nodePoolRollingUpdatePolicy = {};
};
BOOST_DESCRIBE_STRUCT(NodeManagerConfig, (),
                      (provisioningMode, defaultIsolationMode, isolationModeRules, defaultVendor, nodeSelector,
                       multiVendorNodeSelector, nodeProvisioner, nodeCompaction, nodePoolRollingUpdatePolicy))

struct QosDefinition {
  JsonObject extra = {};
  std::string name = {};
  std::string description = {};
  int64_t priority = 0;
};
BOOST_DESCRIBE_STRUCT(QosDefinition, (), (name, description, priority))

struct ResourcePricing {
  JsonObject extra = {};
  std::optional<std::string> perFP16TFlopsPerHour = {};  // "$0.0069228"
  std::optional<std::string> perGBOfVRAMPerHour = {};
};
BOOST_DESCRIBE_STRUCT(ResourcePricing, (), (perFP16TFlopsPerHour, perGBOfVRAMPerHour))

struct QosPricing {
  JsonObject extra = {};
  std::string qos = {};
  std::optional<ResourcePricing> requests = {};
  std::optional<std::string> limitsOverRequests = {};  // factor on what the limits exceed the requests by
};
BOOST_DESCRIBE_STRUCT(QosPricing, (), (qos, requests, limitsOverRequests))

struct QosConfig {
  JsonObject extra = {};
  std::vector<QosDefinition> definitions = {};  // ignored
  std::string defaultQoS = {};
  std::vector<QosPricing> pricing = {};
  std::optional<std::string> evictionProtectionPriceRatio = {};
};
BOOST_DESCRIBE_STRUCT(QosConfig, (), (definitions, defaultQoS, pricing, evictionProtectionPriceRatio))

// podTemplate: a core/v1 PodTemplate, {template: {metadata, spec}}; FromJson<PodTemplate> reads it.
struct WorkerConfig {
  JsonObject extra = {};
  std::string image = {};
  JsonObject podTemplate = {};
};
BOOST_DESCRIBE_STRUCT(WorkerConfig, (), (image, podTemplate))

struct HypervisorConfig {
  JsonObject extra = {};
  std::string image = {};
  std::string vectorImage = {};
  std::optional<int32_t> portNumber = {};
  JsonObject podTemplate = {};
  bool enableVector = false;
};
BOOST_DESCRIBE_STRUCT(HypervisorConfig, (), (image, vectorImage, portNumber, podTemplate, enableVector))

// Ignored: the hypervisor discovers.
struct NodeDiscoveryConfig {
  JsonObject extra = {};
  std::string image = {};
  JsonObject podTemplate = {};
};
BOOST_DESCRIBE_STRUCT(NodeDiscoveryConfig, (), (image, podTemplate))

struct ClientConfig {
  JsonObject extra = {};
  std::string image = {};
  std::string remoteModeImage = {};    // ignored
  std::string embeddedModeImage = {};  // ignored
  std::string operatorEndpoint = {};
  JsonObject patchToPod = {};  // strategic merge patches
  JsonObject patchToContainer = {};
  JsonObject patchToEmbeddedWorkerContainer = {};  // ignored
  JsonObject patchEmbeddedWorkerToPod = {};        // ignored
};
BOOST_DESCRIBE_STRUCT(ClientConfig, (),
                      (image, remoteModeImage, embeddedModeImage, operatorEndpoint, patchToPod, patchToContainer,
                       patchToEmbeddedWorkerContainer, patchEmbeddedWorkerToPod))

struct ComponentConfig {
  JsonObject extra = {};
  std::optional<WorkerConfig> worker = {};
  std::optional<HypervisorConfig> hypervisor = {};
  std::optional<NodeDiscoveryConfig> nodeDiscovery = {};
  std::optional<ClientConfig> client = {};
};
BOOST_DESCRIBE_STRUCT(ComponentConfig, (), (worker, hypervisor, nodeDiscovery, client))

struct GPUPoolSpec {
  JsonObject extra = {};
  std::optional<bool> defaultUsingLocalGPU = {};
  std::optional<CapacityConfig> capacityConfig = {};
  NodeManagerConfig nodeManagerConfig = {};
  std::optional<QosConfig> qosConfig = {};
  std::optional<ComponentConfig> componentConfig = {};
  std::string schedulingConfigTemplate = {};

  static constexpr std::string_view kAlways[] = {"nodeManagerConfig"};
};
BOOST_DESCRIBE_STRUCT(GPUPoolSpec, (),
                      (defaultUsingLocalGPU, capacityConfig, nodeManagerConfig, qosConfig, componentConfig,
                       schedulingConfigTemplate))

// What each component runs and how far it is: revision, whether every node has it, and percent. All nine are always
// written.
struct ComponentStatus {
  JsonObject extra = {};
  std::string worker = {};
  bool workerConfigSynced = false;
  int32_t workerUpdateProgress = 0;
  std::string hypervisor = {};
  bool hypervisorConfigSynced = false;
  int32_t hypervisorUpdateProgress = 0;
  std::string client = {};
  bool clientConfigSynced = false;
  int32_t clientUpdateProgress = 0;

  static constexpr std::string_view kAlways[] = {"worker",     "workerConfigSynced",     "workerUpdateProgress",
                                                 "hypervisor", "hypervisorConfigSynced", "hypervisorUpdateProgress",
                                                 "client",     "clientConfigSynced",     "clientUpdateProgress"};
};
BOOST_DESCRIBE_STRUCT(ComponentStatus, (),
                      (worker, workerConfigSynced, workerUpdateProgress, hypervisor, hypervisorConfigSynced,
                       hypervisorUpdateProgress, client, clientConfigSynced, clientUpdateProgress))

struct RolloutNodes {
  JsonObject extra = {};
  int32_t total = 0;
  int32_t updated = 0;
  int32_t ready = 0;
  int32_t failed = 0;
  int32_t skipped = 0;

  static constexpr std::string_view kAlways[] = {"total", "updated", "ready", "failed", "skipped"};
};
BOOST_DESCRIBE_STRUCT(RolloutNodes, (), (total, updated, ready, failed, skipped))

// A node or pod that a rollout waits for or has set aside, and why.
struct RolloutUnit {
  JsonObject extra = {};
  std::string name = {};
  std::string reason = {};
  std::string message = {};
};
BOOST_DESCRIBE_STRUCT(RolloutUnit, (), (name, reason, message))

// A node, as a rollout remembers it; or a pod that has no node, by namespace and name.
struct RolloutNode {
  JsonObject extra = {};
  std::string name = {};
  std::optional<Time> since = {};
  std::string reason = {};
  std::string message = {};
};
BOOST_DESCRIBE_STRUCT(RolloutNode, (), (name, since, reason, message))

// What a rollout goes on from: the part of rollout::ComponentState that nobody looks at.
struct RolloutMemory {
  JsonObject extra = {};
  std::string rejectedRevision = {};  // that was rolled back
  bool complete = false;
  bool announced = false;
  std::string haltedFor = {};  // the reason for which it has said that it stands still
  bool batchOpen = false;
  int32_t batchOpened = 0;  // nodes of the batch that had their turn
  std::optional<Time> batchHealthyAt = {};
  std::vector<RolloutNode> openNodes = {};
  std::vector<RolloutNode> awaitedNodes = {};
  std::vector<RolloutNode> failedNodes = {};
  std::map<std::string, int32_t> excused = {};  // pods that were not ready before their turn, by owner
};
BOOST_DESCRIBE_STRUCT(RolloutMemory, (),
                      (rejectedRevision, complete, announced, haltedFor, batchOpen, batchOpened, batchHealthyAt,
                       openNodes, awaitedNodes, failedNodes, excused))

struct RolloutStatus {
  JsonObject extra = {};
  std::string component = {};  // hypervisor, worker, client
  std::string phase = {};
  std::string reason = {};
  std::string message = {};
  std::string fromRevision = {};
  std::string toRevision = {};
  std::string lastGoodRevision = {};
  RolloutNodes nodes = {};
  int32_t batch = 0;  // the open or last one, from 1
  int32_t batches = 0;
  int32_t batchSize = 0;       // nodes: the percentage in force
  int32_t maxUnavailable = 0;  // nodes: the limit in force
  std::optional<Time> startedAt = {};
  std::optional<Time> lastBatchAt = {};
  std::optional<Time> nextActionAt = {};
  std::optional<Time> nextWindowAt = {};     // of an enforced maintenance window
  std::string nextWindowLocalTime = {};      // the same in the window's zone
  std::vector<RolloutUnit> stuckUnits = {};  // at most ten
  std::optional<RolloutMemory> memory = {};

  static constexpr std::string_view kAlways[] = {"nodes"};
};
BOOST_DESCRIBE_STRUCT(RolloutStatus, (),
                      (component, phase, reason, message, fromRevision, toRevision, lastGoodRevision, nodes, batch,
                       batches, batchSize, maxUnavailable, startedAt, lastBatchAt, nextActionAt, nextWindowAt,
                       nextWindowLocalTime, stuckUnits, memory))

// The licence that the pool's workers run with; never its text or signature.
struct LicenseStatus {
  JsonObject extra = {};
  std::string id = {};
  std::string edition = {};
  std::string customer = {};
  std::optional<Time> expires = {};
  std::string state = {};   // valid, expiring, grace, expired, rejected, missing
  std::string reason = {};  // the code of a refusal
  std::string message = {};
  std::optional<int32_t> licensedGPUs = {};     // cards in use under it
  std::optional<int32_t> maxGPUs = {};          // absent: any number
  std::map<std::string, int32_t> workers = {};  // by state
};
BOOST_DESCRIBE_STRUCT(LicenseStatus, (),
                      (id, edition, customer, expires, state, reason, message, licensedGPUs, maxGPUs, workers))

struct GPUPoolStatus {
  JsonObject extra = {};
  std::string cluster = {};  // written by nobody
  std::string phase = {};    // Pending, Running, Updating, Destroying, Unknown
  int64_t observedGeneration = 0;
  std::vector<Condition> conditions = {};
  int32_t totalNodes = 0;
  int32_t totalGPUs = 0;
  int32_t readyNodes = 0;
  int32_t notReadyNodes = 0;
  Quantity totalTFlops = {};
  Quantity totalVRAM = {};
  Quantity virtualTFlops = {};
  Quantity virtualVRAM = {};
  Quantity availableTFlops = {};
  Quantity availableVRAM = {};
  std::optional<Quantity> virtualAvailableTFlops = {};
  std::optional<Quantity> virtualAvailableVRAM = {};
  int32_t runningAppsCnt = 0;
  ComponentStatus componentStatus = {};
  std::vector<RolloutStatus> rollouts = {};
  std::optional<LicenseStatus> license = {};
  std::string savedCostsPerMonth = {};        // written by nobody
  std::string potentialSavingsPerMonth = {};  // written by nobody
  std::string budgetExceeded = {};            // written by nobody
  std::optional<std::string> provisioningPhase = {};
  std::optional<Time> lastCompactionTime = {};
  std::optional<Time> lastDefragTime = {};

  static constexpr std::string_view kAlways[] = {
      "phase",     "totalNodes",    "totalGPUs",   "readyNodes",      "notReadyNodes", "totalTFlops",
      "totalVRAM", "virtualTFlops", "virtualVRAM", "availableTFlops", "availableVRAM", "componentStatus"};
};
BOOST_DESCRIBE_STRUCT(GPUPoolStatus, (),
                      (cluster, phase, observedGeneration, conditions, totalNodes, totalGPUs, readyNodes, notReadyNodes,
                       totalTFlops, totalVRAM, virtualTFlops, virtualVRAM, availableTFlops, availableVRAM,
                       virtualAvailableTFlops, virtualAvailableVRAM, runningAppsCnt, componentStatus, rollouts, license,
                       savedCostsPerMonth, potentialSavingsPerMonth, budgetExceeded, provisioningPhase,
                       lastCompactionTime, lastDefragTime))

struct GPUPool {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "gpupools", "GPUPool", false};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  GPUPoolSpec spec = {};
  GPUPoolStatus status = {};
};
BOOST_DESCRIBE_STRUCT(GPUPool, (), (apiVersion, kind, metadata, spec, status))

}  // namespace tf::api
