// GPUNode: a node of the cluster that a pool has taken. GPUNodeClaim and GPUNodeClass: nodes to be made at a cloud.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/gpu_pool.h"
#include "api/json.h"
#include "api/meta.h"
#include "api/quantity.h"
#include "api/resource.h"
#include "api/values.h"

namespace tf::api {

struct GPUNodeSpec {
  JsonObject extra = {};
  std::optional<std::string> manageMode = {};  // Manual, AutoSelect, Provisioned
  std::string costPerHour = {};                // ignored
  std::vector<int64_t> gpuCardIndices = {};    // ignored
  std::string cloudVendorParam = {};           // ignored
};
BOOST_DESCRIBE_STRUCT(GPUNodeSpec, (), (manageMode, costPerHour, gpuCardIndices, cloudVendorParam))

// Written by the hypervisor.
struct GPUNodeInfo {
  JsonObject extra = {};
  Quantity ramSize = {};
  Quantity dataDiskSize = {};
};
BOOST_DESCRIBE_STRUCT(GPUNodeInfo, (), (ramSize, dataDiskSize))

struct HypervisorStatus {
  JsonObject extra = {};
  std::string hypervisorState = {};
  std::string hypervisorVersion = {};
  std::optional<Time> lastHeartbeatTime = {};
};
BOOST_DESCRIBE_STRUCT(HypervisorStatus, (), (hypervisorState, hypervisorVersion, lastHeartbeatTime))

struct GPUNodeStatus {
  JsonObject extra = {};
  std::string phase = {};  // Pending, Provisioning, Migrating, Running, Succeeded, Failed, Unknown, Destroying
  int64_t observedGeneration = 0;
  std::vector<Condition> conditions = {};
  Quantity totalTFlops = {};
  Quantity totalVRAM = {};
  Quantity virtualTFlops = {};
  Quantity virtualVRAM = {};
  Quantity availableTFlops = {};
  Quantity availableVRAM = {};
  std::optional<Quantity> virtualAvailableTFlops = {};
  std::optional<Quantity> virtualAvailableVRAM = {};
  HypervisorStatus hypervisorStatus = {};
  GPUNodeInfo nodeInfo = {};
  std::vector<std::string> loadedModels = {};
  int32_t totalGPUs = 0;
  int32_t managedGPUs = 0;
  std::vector<std::string> managedGPUDeviceIDs = {};
  int32_t totalGPUPods = 0;
  std::map<std::string, std::vector<PodGPUInfo>> allocatedPods = {};  // by GPU

  static constexpr std::string_view kAlways[] = {"phase", "totalTFlops", "totalVRAM", "totalGPUs", "managedGPUs"};
};
BOOST_DESCRIBE_STRUCT(GPUNodeStatus, (),
                      (phase, observedGeneration, conditions, totalTFlops, totalVRAM, virtualTFlops, virtualVRAM,
                       availableTFlops, availableVRAM, virtualAvailableTFlops, virtualAvailableVRAM, hypervisorStatus,
                       nodeInfo, loadedModels, totalGPUs, managedGPUs, managedGPUDeviceIDs, totalGPUPods,
                       allocatedPods))

struct GPUNode {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "gpunodes", "GPUNode", false};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  GPUNodeSpec spec = {};
  GPUNodeStatus status = {};
};
BOOST_DESCRIBE_STRUCT(GPUNode, (), (apiVersion, kind, metadata, spec, status))

struct GPUNodeClaimSpec {
  JsonObject extra = {};
  std::string nodeName = {};
  std::string region = {};
  std::string zone = {};
  std::string instanceType = {};
  std::optional<GroupKindName> nodeClassRef = {};
  std::string capacityType = {};  // OnDemand, Reserved, Spot
  Quantity tflopsOffered = {};
  Quantity vramOffered = {};
  int32_t gpuDeviceOffered = 0;
  std::map<std::string, std::string> extraParams = {};

  static constexpr std::string_view kAlways[] = {"tflopsOffered", "vramOffered", "gpuDeviceOffered"};
};
BOOST_DESCRIBE_STRUCT(GPUNodeClaimSpec, (),
                      (nodeName, region, zone, instanceType, nodeClassRef, capacityType, tflopsOffered, vramOffered,
                       gpuDeviceOffered, extraParams))

struct GPUNodeClaimStatus {
  JsonObject extra = {};
  std::string phase = {};  // Pending, Creating, Bound
  std::string instanceID = {};

  static constexpr std::string_view kAlways[] = {"phase"};
};
BOOST_DESCRIBE_STRUCT(GPUNodeClaimStatus, (), (phase, instanceID))

struct GPUNodeClaim {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "gpunodeclaims", "GPUNodeClaim", false};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  GPUNodeClaimSpec spec = {};
  GPUNodeClaimStatus status = {};
};
BOOST_DESCRIBE_STRUCT(GPUNodeClaim, (), (apiVersion, kind, metadata, spec, status))

// All that are given must match.
struct CloudItemSelector {
  JsonObject extra = {};
  std::string id = {};
  std::string name = {};
  std::map<std::string, std::string> tags = {};
};
BOOST_DESCRIBE_STRUCT(CloudItemSelector, (), (id, name, tags))

struct MetadataOptions {
  JsonObject extra = {};
  std::optional<bool> httpEndpoint = {};
  std::optional<bool> httpProtocolIPv6 = {};
  std::optional<int64_t> httpPutResponseHopLimit = {};
  std::optional<std::string> httpTokens = {};
};
BOOST_DESCRIBE_STRUCT(MetadataOptions, (), (httpEndpoint, httpProtocolIPv6, httpPutResponseHopLimit, httpTokens))

struct BlockDevice {
  JsonObject extra = {};
  std::string volumeSize = {};
  std::string volumeType = {};
  std::optional<bool> deleteOnTermination = {};
  std::optional<bool> encrypted = {};
};
BOOST_DESCRIBE_STRUCT(BlockDevice, (), (volumeSize, volumeType, deleteOnTermination, encrypted))

struct BlockDeviceMapping {
  JsonObject extra = {};
  std::string deviceName = {};
  std::optional<BlockDevice> ebs = {};
};
BOOST_DESCRIBE_STRUCT(BlockDeviceMapping, (), (deviceName, ebs))

struct GPUNodeClassSpec {
  JsonObject extra = {};
  std::optional<CloudItemSelector> launchTemplate = {};
  std::optional<std::string> osImageType = {};  // Private, Public, System
  std::vector<CloudItemSelector> osImageSelectorTerms = {};
  std::string instanceProfile = {};
  std::optional<MetadataOptions> metadataOptions = {};
  std::vector<CloudItemSelector> securityGroupSelectorTerms = {};
  std::vector<CloudItemSelector> subnetSelectorTerms = {};
  std::vector<BlockDeviceMapping> blockDeviceMappings = {};
  std::map<std::string, std::string> tags = {};
  std::string userData = {};
};
BOOST_DESCRIBE_STRUCT(GPUNodeClassSpec, (),
                      (launchTemplate, osImageType, osImageSelectorTerms, instanceProfile, metadataOptions,
                       securityGroupSelectorTerms, subnetSelectorTerms, blockDeviceMappings, tags, userData))

struct GPUNodeClass {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "gpunodeclasses", "GPUNodeClass", false};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  GPUNodeClassSpec spec = {};
  JsonObject status = {};
};
BOOST_DESCRIBE_STRUCT(GPUNodeClass, (), (apiVersion, kind, metadata, spec, status))

}  // namespace tf::api
