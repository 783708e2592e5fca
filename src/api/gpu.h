// GPU: one card, made by the hypervisor of its node. It has a status and no spec; its name is the device's UUID.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/meta.h"
#include "api/resource.h"
#include "api/values.h"

namespace tf::api {

struct RunningApp {
  JsonObject extra = {};
  std::string name = {};
  std::string namespace_ = {};
  int64_t count = 0;
  std::vector<PodGPUInfo> pods = {};

  static constexpr std::string_view kAlways[] = {"count"};
};
BOOST_DESCRIBE_STRUCT(RunningApp, (), (name, namespace_, count, pods))

struct NvLinkPeer {
  JsonObject extra = {};
  std::string peerUUID = {};
  int32_t linkCount = 0;
  int32_t linkVersion = 0;
  int64_t bandwidthMBps = 0;
};
BOOST_DESCRIBE_STRUCT(NvLinkPeer, (), (peerUUID, linkCount, linkVersion, bandwidthMBps))

struct NvLinkStatus {
  JsonObject extra = {};
  int32_t peerCount = 0;
  int32_t totalLinkCount = 0;
  int64_t totalBandwidthMBps = 0;
  std::vector<NvLinkPeer> peers = {};
};
BOOST_DESCRIBE_STRUCT(NvLinkStatus, (), (peerCount, totalLinkCount, totalBandwidthMBps, peers))

struct TopologyPeer {
  JsonObject extra = {};
  std::string peerGPUUUID = {};
  int32_t tier = 0;  // 0 the same interconnect, 1 the same NUMA node, 2 across, 3 unknown
  std::string linkType = {};
  int64_t bandwidth = 0;

  static constexpr std::string_view kAlways[] = {"tier"};
};
BOOST_DESCRIBE_STRUCT(TopologyPeer, (), (peerGPUUUID, tier, linkType, bandwidth))

struct GPUTopology {
  JsonObject extra = {};
  std::vector<TopologyPeer> peers = {};
};
BOOST_DESCRIBE_STRUCT(GPUTopology, (), (peers))

struct AllocatedPartition {
  JsonObject extra = {};
  std::string templateId = {};
  std::string podUid = {};
  std::string podName = {};
  std::string namespace_ = {};
  Time allocatedAt = {};
  std::optional<uint32_t> allocatedSlotStart = {};
  std::optional<uint32_t> allocatedSlotEnd = {};
  std::optional<uint32_t> isolationGroupId = {};
};
BOOST_DESCRIBE_STRUCT(AllocatedPartition, (),
                      (templateId, podUid, podName, namespace_, allocatedAt, allocatedSlotStart, allocatedSlotEnd,
                       isolationGroupId))

struct GPUStatus {
  JsonObject extra = {};
  std::string phase = {};  // Pending, Provisioning, Running, Unknown, Destroying, Migrating
  std::string vendor = {};
  std::string model = {};
  Resource capacity = {};
  Resource available = {};
  std::string uuid = {};
  std::optional<std::string> isolationMode = {};  // shared, soft, hard, partitioned
  std::string isolationPolicy = {};               // Static, Dynamic
  std::string activeIsolationMode = {};
  bool dynamicIsolationConflict = false;
  std::optional<int32_t> index = {};
  std::optional<int32_t> numaNode = {};
  std::map<std::string, std::string> nodeSelector = {};
  std::string gpuModel = {};
  std::string usedBy = {};  // tensor-fusion, nvidia-device-plugin
  std::string message = {};
  std::vector<RunningApp> runningApps = {};
  std::optional<NvLinkStatus> nvLink = {};
  std::map<std::string, AllocatedPartition> allocatedPartitions = {};  // by partition UUID
  std::optional<GPUTopology> topology = {};
  std::vector<JsonObject> devices = {};  // ignored

  static constexpr std::string_view kAlways[] = {"phase", "vendor",       "capacity", "available",
                                                 "uuid",  "nodeSelector", "gpuModel", "message"};
};
BOOST_DESCRIBE_STRUCT(GPUStatus, (),
                      (phase, vendor, model, capacity, available, uuid, isolationMode, isolationPolicy,
                       activeIsolationMode, dynamicIsolationConflict, index, numaNode, nodeSelector, gpuModel, usedBy,
                       message, runningApps, nvLink, allocatedPartitions, topology, devices))

struct GPU {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "gpus", "GPU", false};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  GPUStatus status = {};
};
BOOST_DESCRIBE_STRUCT(GPU, (), (apiVersion, kind, metadata, status))

}  // namespace tf::api
