// ProviderConfig: what is peculiar to the cards of one vendor: images, mounts, card models, partition templates.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/meta.h"
#include "api/quantity.h"

namespace tf::api {

struct ProviderImages {
  JsonObject extra = {};
  std::string middleware = {};
  std::string remoteClient = {};
  std::string remoteWorker = {};
};
BOOST_DESCRIBE_STRUCT(ProviderImages, (), (middleware, remoteClient, remoteWorker))

struct ProviderEnvVar {
  JsonObject extra = {};
  std::string name = {};
  std::string value = {};
};
BOOST_DESCRIBE_STRUCT(ProviderEnvVar, (), (name, value))

struct ProviderHostPathMount {
  JsonObject extra = {};
  std::string name = {};
  std::string hostPath = {};
  std::string mountPath = {};
  bool readOnly = false;
};
BOOST_DESCRIBE_STRUCT(ProviderHostPathMount, (), (name, hostPath, mountPath, readOnly))

// The rules are CEL expressions over a device, with the paths to mount as result.
struct ProviderDeviceMount {
  JsonObject extra = {};
  std::string deviceMountRule = {};
  std::string partitionedDeviceMountRule = {};
  std::vector<std::string> sharedDevices = {};
};
BOOST_DESCRIBE_STRUCT(ProviderDeviceMount, (), (deviceMountRule, partitionedDeviceMountRule, sharedDevices))

struct ProviderHypervisor {
  JsonObject extra = {};
  bool privilegedHypervisor = false;
  std::string ldLibraryPath = {};
  std::vector<ProviderEnvVar> extraEnv = {};
  std::vector<ProviderHostPathMount> hostPathMounts = {};
  std::optional<ProviderDeviceMount> deviceMount = {};
};
BOOST_DESCRIBE_STRUCT(ProviderHypervisor, (),
                      (privilegedHypervisor, ldLibraryPath, extraEnv, hostPathMounts, deviceMount))

struct HardwareModel {
  JsonObject extra = {};
  std::string model = {};
  std::string fullModelName = {};
  std::string costPerHour = {};
  Quantity fp16TFlops = {};
  uint32_t maxPartitions = 0;
  uint32_t maxPlacementSlots = 0;
  uint32_t maxIsolationGroups = 0;
  std::map<std::string, uint32_t> totalExtendedResources = {};
  std::vector<std::string> partitionTemplateRefs = {};
  std::optional<ProviderDeviceMount> deviceMount = {};

  static constexpr std::string_view kAlways[] = {"fp16TFlops"};
};
BOOST_DESCRIBE_STRUCT(HardwareModel, (),
                      (model, fullModelName, costPerHour, fp16TFlops, maxPartitions, maxPlacementSlots,
                       maxIsolationGroups, totalExtendedResources, partitionTemplateRefs, deviceMount))

struct VirtualizationTemplate {
  JsonObject extra = {};
  std::string id = {};
  std::optional<uint32_t> nvmlProfileId = {};
  std::string name = {};
  uint64_t memoryGigabytes = 0;
  std::string computePercent = {};
  std::string description = {};
  uint32_t maxInstances = 0;
  std::vector<uint32_t> placementLimit = {};
  uint32_t placementOffset = 0;
  std::map<std::string, uint32_t> extendedResources = {};
  std::optional<std::string> isolationGroupSharing = {};  // exclusive, shared
  uint32_t maxPartitionsPerIsolationGroup = 0;
  uint32_t isolationGroupSlots = 0;

  static constexpr std::string_view kAlways[] = {"memoryGigabytes", "computePercent"};
};
BOOST_DESCRIBE_STRUCT(VirtualizationTemplate, (),
                      (id, nvmlProfileId, name, memoryGigabytes, computePercent, description, maxInstances,
                       placementLimit, placementOffset, extendedResources, isolationGroupSharing,
                       maxPartitionsPerIsolationGroup, isolationGroupSlots))

struct DevicePluginDetection {
  JsonObject extra = {};
  std::vector<std::string> resourceNamePrefixes = {};
  std::string usedBySystemName = {};
};
BOOST_DESCRIBE_STRUCT(DevicePluginDetection, (), (resourceNamePrefixes, usedBySystemName))

struct ProviderConfigSpec {
  JsonObject extra = {};
  std::string vendor = {};
  ProviderImages images = {};
  std::optional<ProviderHypervisor> hypervisor = {};
  std::vector<HardwareModel> hardwareMetadata = {};
  std::vector<VirtualizationTemplate> virtualizationTemplates = {};
  std::vector<std::string> inUseResourceNames = {};
  std::optional<DevicePluginDetection> devicePluginDetection = {};
};
BOOST_DESCRIBE_STRUCT(ProviderConfigSpec, (),
                      (vendor, images, hypervisor, hardwareMetadata, virtualizationTemplates, inUseResourceNames,
                       devicePluginDetection))

struct ProviderConfig {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "providerconfigs", "ProviderConfig", false};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  ProviderConfigSpec spec = {};
  JsonObject status = {};
};
BOOST_DESCRIBE_STRUCT(ProviderConfig, (), (apiVersion, kind, metadata, spec, status))

}  // namespace tf::api
