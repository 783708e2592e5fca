// SchedulingConfigTemplate: how pods are placed and scaled, and how cards are shared in time. AutoScalingConfig, which
// workloads have too. GPUResourceQuota: how much a namespace may use.
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

struct AutoSetResources {
  JsonObject extra = {};
  bool enable = false;
  std::string targetResource = {};  // compute, vram, all
  // Fractions as text, "0.95".
  std::string targetComputePercentile = {};
  std::string lowerBoundComputePercentile = {};
  std::string upperBoundComputePercentile = {};
  std::string targetVRAMPercentile = {};
  std::string lowerBoundVRAMPercentile = {};
  std::string upperBoundVRAMPercentile = {};
  std::string marginFraction = {};
  std::string updateThreshold = {};
  std::string historyDataPeriod = {};
  std::string minVRAMResourcesRatio = {};
  std::string maxVRAMResourcesRatio = {};
  std::string minComputeResourcesRatio = {};
  std::string maxComputeResourcesRatio = {};
  std::string initialDelayPeriod = {};
  std::string interval = {};
};
BOOST_DESCRIBE_STRUCT(AutoSetResources, (),
                      (enable, targetResource, targetComputePercentile, lowerBoundComputePercentile,
                       upperBoundComputePercentile, targetVRAMPercentile, lowerBoundVRAMPercentile,
                       upperBoundVRAMPercentile, marginFraction, updateThreshold, historyDataPeriod,
                       minVRAMResourcesRatio, maxVRAMResourcesRatio, minComputeResourcesRatio, maxComputeResourcesRatio,
                       initialDelayPeriod, interval))

struct CronScalingRule {
  JsonObject extra = {};
  bool enable = false;
  std::string name = {};
  std::string start = {};  // cron, five fields
  std::string end = {};
  std::optional<Resources> desiredResources = {};
};
BOOST_DESCRIBE_STRUCT(CronScalingRule, (), (enable, name, start, end, desiredResources))

struct SecretReference {
  JsonObject extra = {};
  std::string name = {};
  std::string namespace_ = {};
};
BOOST_DESCRIBE_STRUCT(SecretReference, (), (name, namespace_))

struct ExternalScaler {
  JsonObject extra = {};
  bool enable = false;
  std::string url = {};
  std::optional<SecretReference> apiKeySecretRef = {};
  std::string initialDelayPeriod = {};
  std::string interval = {};
};
BOOST_DESCRIBE_STRUCT(ExternalScaler, (), (enable, url, apiKeySecretRef, initialDelayPeriod, interval))

struct AutoScalingConfig {
  JsonObject extra = {};
  std::optional<AutoSetResources> autoSetResources = {};
  std::vector<CronScalingRule> cronScalingRules = {};
  std::optional<ExternalScaler> externalScaler = {};
};
BOOST_DESCRIBE_STRUCT(AutoScalingConfig, (), (autoSetResources, cronScalingRules, externalScaler))

struct GPUFilter {
  JsonObject extra = {};
  std::string type = {};
  JsonObject params = {};
};
BOOST_DESCRIBE_STRUCT(GPUFilter, (), (type, params))

struct PlacementConfig {
  JsonObject extra = {};
  std::optional<std::string> mode = {};         // CompactFirst, LowLoadFirst, NodeCompactGPULowLoad
  std::optional<bool> allowUsingLocalGPU = {};  // ignored
  std::vector<GPUFilter> gpuFilters = {};       // ignored
};
BOOST_DESCRIBE_STRUCT(PlacementConfig, (), (mode, allowUsingLocalGPU, gpuFilters))

// The first rule whose selector matches the pod gives its scaling.
struct VerticalScalingRule {
  JsonObject extra = {};
  std::string name = {};
  LabelSelector selector = {};
  std::optional<AutoScalingConfig> autoScaling = {};
};
BOOST_DESCRIBE_STRUCT(VerticalScalingRule, (), (name, selector, autoScaling))

struct ReBalanceThreshold {
  JsonObject extra = {};
  JsonObject matchAny = {};
};
BOOST_DESCRIBE_STRUCT(ReBalanceThreshold, (), (matchAny))

// Ignored.
struct ReBalancer {
  JsonObject extra = {};
  std::optional<bool> enable = {};
  std::string interval = {};
  std::string reBalanceCoolDownTime = {};
  std::optional<ReBalanceThreshold> threshold = {};
};
BOOST_DESCRIBE_STRUCT(ReBalancer, (), (enable, interval, reBalanceCoolDownTime, threshold))

struct AutoFreeze {
  JsonObject extra = {};
  std::string qos = {};
  std::string freezeToMemTTL = {};
  std::string freezeToDiskTTL = {};
  std::optional<bool> enable = {};
};
BOOST_DESCRIBE_STRUCT(AutoFreeze, (), (qos, freezeToMemTTL, freezeToDiskTTL, enable))

struct IntelligenceWarmup {
  JsonObject extra = {};
  std::optional<bool> enable = {};
  std::string model = {};
  std::string historyDataPeriod = {};
  std::string predictionPeriod = {};
};
BOOST_DESCRIBE_STRUCT(IntelligenceWarmup, (), (enable, model, historyDataPeriod, predictionPeriod))

struct AutoFreezeAndResume {
  JsonObject extra = {};
  std::vector<AutoFreeze> autoFreeze = {};
  std::optional<IntelligenceWarmup> intelligenceWarmup = {};
};
BOOST_DESCRIBE_STRUCT(AutoFreezeAndResume, (), (autoFreeze, intelligenceWarmup))

// Numbers as text.
struct ElasticRateLimitParameters {
  JsonObject extra = {};
  std::string maxRefillRate = {};
  std::string minRefillRate = {};
  std::string filterAlpha = {};
  std::string ki = {};
  std::string kd = {};
  std::string kp = {};
  std::string burstWindow = {};
  std::string capacityMin = {};
  std::string capacityMax = {};
  std::string integralDecayFactor = {};
};
BOOST_DESCRIBE_STRUCT(ElasticRateLimitParameters, (),
                      (maxRefillRate, minRefillRate, filterAlpha, ki, kd, kp, burstWindow, capacityMin, capacityMax,
                       integralDecayFactor))

struct MultiProcessQueuingParameters {
  JsonObject extra = {};
  std::string computingThresholdForPreempt = {};
  std::string triggerPreemptDuration = {};
  std::string computingThresholdForResume = {};
  std::string triggerResumeDuration = {};
  std::string coefficientLow = {};
  std::string coefficientMedium = {};
  std::string coefficientHigh = {};
  std::string slowStartRatio = {};
};
BOOST_DESCRIBE_STRUCT(MultiProcessQueuingParameters, (),
                      (computingThresholdForPreempt, triggerPreemptDuration, computingThresholdForResume,
                       triggerResumeDuration, coefficientLow, coefficientMedium, coefficientHigh, slowStartRatio))

// Handed to the hypervisor as JSON.
struct HypervisorScheduling {
  JsonObject extra = {};
  std::optional<AutoFreezeAndResume> autoFreezeAndResume = {};
  std::optional<ElasticRateLimitParameters> elasticRateLimitParameters = {};
  std::optional<MultiProcessQueuingParameters> multiProcessQueuingParameters = {};
};
BOOST_DESCRIBE_STRUCT(HypervisorScheduling, (),
                      (autoFreezeAndResume, elasticRateLimitParameters, multiProcessQueuingParameters))

struct SchedulingConfigTemplateSpec {
  JsonObject extra = {};
  PlacementConfig placement = {};
  std::vector<VerticalScalingRule> verticalScalingRules = {};
  std::optional<ReBalancer> reBalancer = {};
  std::optional<HypervisorScheduling> hypervisor = {};

  static constexpr std::string_view kAlways[] = {"placement"};
};
BOOST_DESCRIBE_STRUCT(SchedulingConfigTemplateSpec, (), (placement, verticalScalingRules, reBalancer, hypervisor))

struct SchedulingConfigTemplate {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "schedulingconfigtemplates",
                                               "SchedulingConfigTemplate", false};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  SchedulingConfigTemplateSpec spec = {};
  JsonObject status = {};
};
BOOST_DESCRIBE_STRUCT(SchedulingConfigTemplate, (), (apiVersion, kind, metadata, spec, status))

struct QuotaTotal {
  JsonObject extra = {};
  std::optional<Resource> requests = {};
  std::optional<Resource> limits = {};
  std::optional<int32_t> maxWorkers = {};
  std::optional<int32_t> alertThresholdPercent = {};
};
BOOST_DESCRIBE_STRUCT(QuotaTotal, (), (requests, limits, maxWorkers, alertThresholdPercent))

// For one workload; 0 is no bound.
struct QuotaSingle {
  JsonObject extra = {};
  std::optional<Resource> maxRequests = {};
  std::optional<Resource> maxLimits = {};
  std::optional<int32_t> maxGPUCount = {};
  std::optional<Resource> defaultRequests = {};
  std::optional<Resource> defaultLimits = {};
};
BOOST_DESCRIBE_STRUCT(QuotaSingle, (), (maxRequests, maxLimits, maxGPUCount, defaultRequests, defaultLimits))

struct GPUResourceQuotaSpec {
  JsonObject extra = {};
  std::optional<QuotaTotal> total = {};
  std::optional<QuotaSingle> single = {};
};
BOOST_DESCRIBE_STRUCT(GPUResourceQuotaSpec, (), (total, single))

struct QuotaUsage {
  JsonObject extra = {};
  Resource requests = {};
  Resource limits = {};
  int32_t workers = 0;

  static constexpr std::string_view kAlways[] = {"requests", "limits", "workers"};
};
BOOST_DESCRIBE_STRUCT(QuotaUsage, (), (requests, limits, workers))

// Percent with two decimals, "99.50".
struct QuotaAvailablePercent {
  JsonObject extra = {};
  std::string requests_tflops = {};
  std::string requests_vram = {};
  std::string limits_tflops = {};
  std::string limits_vram = {};
  std::string workers = {};
};
BOOST_DESCRIBE_STRUCT(QuotaAvailablePercent, (), (requests_tflops, requests_vram, limits_tflops, limits_vram, workers))

struct GPUResourceQuotaStatus {
  JsonObject extra = {};
  QuotaUsage used = {};
  QuotaAvailablePercent availablePercent = {};
  std::vector<Condition> conditions = {};
  std::optional<Time> lastUpdateTime = {};
};
BOOST_DESCRIBE_STRUCT(GPUResourceQuotaStatus, (), (used, availablePercent, conditions, lastUpdateTime))

struct GPUResourceQuota {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"tensor-fusion.ai", "v1", "gpuresourcequotas", "GPUResourceQuota", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  GPUResourceQuotaSpec spec = {};
  GPUResourceQuotaStatus status = {};
};
BOOST_DESCRIBE_STRUCT(GPUResourceQuota, (), (apiVersion, kind, metadata, spec, status))

}  // namespace tf::api
