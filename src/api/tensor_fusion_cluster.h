// TensorFusionCluster: the pools of a cluster, the source of truth that people edit.
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

namespace tf::api {

struct GPUPoolDefinition {
  JsonObject extra = {};
  std::string name = {};  // the pool's object is CLUSTER-NAME
  bool isDefault = false;
  GPUPoolSpec specTemplate = {};

  static constexpr std::string_view kAlways[] = {"specTemplate"};
};
BOOST_DESCRIBE_STRUCT(GPUPoolDefinition, (), (name, isDefault, specTemplate))

struct ComputingVendorParams {
  JsonObject extra = {};
  std::string defaultRegion = {};
  std::string accessKeyPath = {};
  std::string secretKeyPath = {};
  std::string iamRole = {};
  std::string configFile = {};
  std::map<std::string, std::string> extraParams = {};
};
BOOST_DESCRIBE_STRUCT(ComputingVendorParams, (),
                      (defaultRegion, accessKeyPath, secretKeyPath, iamRole, configFile, extraParams))

struct ComputingVendorConfig {
  JsonObject extra = {};
  std::string name = {};  // ignored
  std::string type = {};
  std::string authType = {};  // accessKey, serviceAccountRole
  std::optional<bool> enable = {};
  std::optional<ComputingVendorParams> params = {};
};
BOOST_DESCRIBE_STRUCT(ComputingVendorConfig, (), (name, type, authType, enable, params))

struct TensorFusionClusterSpec {
  JsonObject extra = {};
  std::vector<GPUPoolDefinition> gpuPools = {};
  std::optional<ComputingVendorConfig> computingVendor = {};
};
BOOST_DESCRIBE_STRUCT(TensorFusionClusterSpec, (), (gpuPools, computingVendor))

struct TensorFusionClusterStatus {
  JsonObject extra = {};
  std::string phase = {};  // Pending, Running, Updating, Destroying, Unknown
  int64_t observedGeneration = 0;
  std::vector<Condition> conditions = {};
  int32_t totalPools = 0;
  int32_t totalNodes = 0;
  int32_t totalGPUs = 0;
  Quantity totalTFlops = {};
  Quantity totalVRAM = {};
  Quantity virtualTFlops = {};
  Quantity virtualVRAM = {};
  Quantity availableTFlops = {};
  Quantity availableVRAM = {};
  std::optional<Quantity> virtualAvailableTFlops = {};
  std::optional<Quantity> virtualAvailableVRAM = {};
  std::vector<std::string> readyGPUPools = {};
  std::vector<std::string> notReadyGPUPools = {};
  int64_t retryCount = 0;
  std::string utilizedTFlopsPercent = {};  // these six are written by nobody
  std::string utilizedVRAMPercent = {};
  std::string allocatedTFlopsPercent = {};
  std::string allocatedVRAMPercent = {};
  std::string savedCostsPerMonth = {};
  std::string potentialSavingsPerMonth = {};
  std::string cloudVendorConfigHash = {};

  static constexpr std::string_view kAlways[] = {"totalPools",    "totalNodes",    "totalGPUs",   "totalTFlops",
                                                 "totalVRAM",     "virtualTFlops", "virtualVRAM", "availableTFlops",
                                                 "availableVRAM", "retryCount"};
};
BOOST_DESCRIBE_STRUCT(TensorFusionClusterStatus, (),
                      (phase, observedGeneration, conditions, totalPools, totalNodes, totalGPUs, totalTFlops, totalVRAM,
                       virtualTFlops, virtualVRAM, availableTFlops, availableVRAM, virtualAvailableTFlops,
                       virtualAvailableVRAM, readyGPUPools, notReadyGPUPools, retryCount, utilizedTFlopsPercent,
                       utilizedVRAMPercent, allocatedTFlopsPercent, allocatedVRAMPercent, savedCostsPerMonth,
                       potentialSavingsPerMonth, cloudVendorConfigHash))

struct TensorFusionCluster {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "tensorfusionclusters", "TensorFusionCluster",
                                               false};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  TensorFusionClusterSpec spec = {};
  TensorFusionClusterStatus status = {};
};
BOOST_DESCRIBE_STRUCT(TensorFusionCluster, (), (apiVersion, kind, metadata, spec, status))

}  // namespace tf::api
