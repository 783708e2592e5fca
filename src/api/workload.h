// TensorFusionWorkload: workers that serve pods. WorkloadProfile: a template of one, with the same spec.
// TensorFusionConnection: which worker a pod uses.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/meta.h"
#include "api/resource.h"
#include "api/scheduling.h"
#include "api/values.h"

namespace tf::api {

struct GangScheduling {
  JsonObject extra = {};
  int32_t minMembers = 0;                // 0: all replicas
  std::string timeout = {};              // a duration; empty: wait for ever
  std::optional<std::string> mode = {};  // Strict

  static constexpr std::string_view kAlways[] = {"minMembers"};
};
BOOST_DESCRIBE_STRUCT(GangScheduling, (), (minMembers, timeout, mode))

struct WorkloadProfileSpec {
  JsonObject extra = {};
  std::optional<int32_t> replicas = {};  // absent: as many as there are clients
  std::string poolName = {};
  std::optional<Resources> resources = {};
  std::string qos = {};  // low, medium, high, critical
  bool isLocalGPU = false;
  bool sidecarWorker = false;
  std::optional<std::string> isolation = {};  // shared, soft, hard, partitioned
  std::string partitionTemplateId = {};
  std::string gpuModel = {};
  std::optional<uint32_t> gpuCount = {};
  std::vector<int32_t> gpuIndices = {};
  std::string vendor = {};
  std::optional<AutoScalingConfig> autoScalingConfig = {};
  JsonObject nodeAffinity = {};       // core/v1 NodeAffinity
  JsonObject workerPodTemplate = {};  // core/v1 PodTemplateSpec, merged over the pool's; remote mode only
  std::optional<GangScheduling> gangScheduling = {};
};
BOOST_DESCRIBE_STRUCT(WorkloadProfileSpec, (),
                      (replicas, poolName, resources, qos, isLocalGPU, sidecarWorker, isolation, partitionTemplateId,
                       gpuModel, gpuCount, gpuIndices, vendor, autoScalingConfig, nodeAffinity, workerPodTemplate,
                       gangScheduling))

struct WorkloadProfile {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "workloadprofiles", "WorkloadProfile", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  WorkloadProfileSpec spec = {};
  JsonObject status = {};
};
BOOST_DESCRIBE_STRUCT(WorkloadProfile, (), (apiVersion, kind, metadata, spec, status))

struct GangStatus {
  JsonObject extra = {};
  std::string phase = {};  // Pending, Waiting, Scheduling, Running, TimedOut, Failed
  std::string groupKey = {};
  int32_t desiredMembers = 0;
  int32_t waitingMembers = 0;
  int32_t scheduledMembers = 0;
  int32_t readyMembers = 0;
  std::optional<Time> lastTransitionTime = {};
  std::string reason = {};
  std::string message = {};
  std::string backoffUntil = {};
};
BOOST_DESCRIBE_STRUCT(GangStatus, (),
                      (phase, groupKey, desiredMembers, waitingMembers, scheduledMembers, readyMembers,
                       lastTransitionTime, reason, message, backoffUntil))

struct TensorFusionWorkloadStatus {
  JsonObject extra = {};
  std::string phase = {};  // Pending, Running, Failed, Unknown
  int64_t observedGeneration = 0;
  std::vector<Condition> conditions = {};
  int32_t workerCount = 0;
  int32_t readyWorkers = 0;
  std::string selector = {};  // of the workers' pods, for the scale subresource
  std::string podTemplateHash = {};
  std::optional<Resources> recommendation = {};
  int32_t appliedRecommendedReplicas = 0;
  std::optional<CronScalingRule> activeCronScalingRule = {};
  std::optional<GangStatus> gang = {};

  static constexpr std::string_view kAlways[] = {"workerCount", "readyWorkers"};
};
BOOST_DESCRIBE_STRUCT(TensorFusionWorkloadStatus, (),
                      (phase, observedGeneration, conditions, workerCount, readyWorkers, selector, podTemplateHash,
                       recommendation, appliedRecommendedReplicas, activeCronScalingRule, gang))

struct TensorFusionWorkload {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "tensorfusionworkloads",
                                               "TensorFusionWorkload", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  WorkloadProfileSpec spec = {};
  TensorFusionWorkloadStatus status = {};
};
BOOST_DESCRIBE_STRUCT(TensorFusionWorkload, (), (apiVersion, kind, metadata, spec, status))

struct TensorFusionConnectionSpec {
  JsonObject extra = {};
  std::string workloadName = {};
  std::string clientPod = {};
};
BOOST_DESCRIBE_STRUCT(TensorFusionConnectionSpec, (), (workloadName, clientPod))

struct TensorFusionConnectionStatus {
  JsonObject extra = {};
  std::string phase = {};  // Pending, Running, Failed
  std::string connectionURL = {};
  std::string workerName = {};

  static constexpr std::string_view kAlways[] = {"phase", "connectionURL", "workerName"};
};
BOOST_DESCRIBE_STRUCT(TensorFusionConnectionStatus, (), (phase, connectionURL, workerName))

struct TensorFusionConnection {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "tensorfusionconnections",
                                               "TensorFusionConnection", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  TensorFusionConnectionSpec spec = {};
  TensorFusionConnectionStatus status = {};
};
BOOST_DESCRIBE_STRUCT(TensorFusionConnection, (), (apiVersion, kind, metadata, spec, status))

}  // namespace tf::api
