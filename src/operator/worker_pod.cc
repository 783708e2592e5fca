#include "operator/worker_pod.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/names.h"
#include "base/encoding.h"
#include "operator/pod_parts.h"
#include "operator/strategic_merge.h"

namespace tf::operators {
namespace {

using api::Json;
using api::JsonArray;
using api::JsonObject;

constexpr char kField[] = "spec.componentConfig.worker";
constexpr char kPortName[] = "remote-vgpu";
constexpr char kRequired[] = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr char kPreferred[] = "preferredDuringSchedulingIgnoredDuringExecution";

// The keys of objects in order, as a digest needs it.
Json Sorted(const Json& value) {
  if (const JsonArray* array = value.if_array()) {
    JsonArray sorted;
    for (const Json& element : *array) sorted.push_back(Sorted(element));
    return sorted;
  }
  const JsonObject* object = value.if_object();
  if (object == nullptr) return value;
  std::vector<std::string_view> keys;
  for (const auto& member : *object) keys.emplace_back(member.key());
  std::sort(keys.begin(), keys.end());
  JsonObject sorted;
  for (std::string_view key : keys) sorted[key] = Sorted(object->at(key));
  return sorted;
}

bool IsLimited(const api::WorkloadProfileSpec& spec) {
  const std::string isolation = spec.isolation.value_or("soft");
  return spec.resources && (isolation == "soft" || isolation == "hard");
}

// Of limits.vram; 0: none.
int64_t LimitMib(const api::WorkloadProfileSpec& spec) {
  if (!IsLimited(spec)) return 0;
  const int64_t bytes = spec.resources->limits.vram.Units();
  return bytes <= 0 ? 0 : std::max<int64_t>(1, bytes >> 20);
}

// Of limits.compute; 0: none.
int64_t LimitPercent(const api::WorkloadProfileSpec& spec) {
  return IsLimited(spec) ? std::clamp<int64_t>(spec.resources->limits.compute.Units(), 0, 100) : 0;
}

// There is something to choose cards by.
bool AsksForCards(const api::WorkloadProfileSpec& spec) {
  if (spec.isolation == "shared") return true;
  if (!spec.resources) return false;
  for (const api::Resource* amount : {&spec.resources->requests, &spec.resources->limits}) {
    if (!amount->tflops.IsZero() || !amount->compute.IsZero() || !amount->vram.IsZero()) return true;
  }
  return false;
}

// Which it got is known when it is bound.
std::vector<api::EnvVar> EnvOfCards(const api::WorkloadProfileSpec& spec) {
  const auto from = [](const char* annotation) { return absl::StrCat("metadata.annotations['", annotation, "']"); };
  std::vector<api::EnvVar> env = {EnvFromField("TF_GPU_IDS", from(api::kGpuIdsAnnotation))};
  if (IsLimited(spec) && !spec.resources->limits.tflops.IsZero()) {
    env.push_back(EnvFromField("TF_CUDA_SM_PERCENT_LIMIT", from(api::kSharePercentAnnotation)));
  }
  return env;
}

// The pool's template with the workload's over it.
absl::StatusOr<api::PodTemplateSpec> Template(const WorkerPodInput& input, const api::WorkerConfig& config) {
  const std::string field = absl::StrCat(kField, ".podTemplate");
  if (config.podTemplate.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker pod template is not configured in pool ", input.pool.metadata.name, ": ", field,
                     ".template.spec.containers needs a container named ", api::kWorkerContainer));
  }
  absl::StatusOr<api::PodTemplateSpec> pools = ReadPodTemplate(config.podTemplate, field);
  if (!pools.ok()) return pools.status();
  std::vector<api::Container>& containers = pools->spec.containers;
  if (containers.size() == 1 && containers[0].name.empty()) containers[0].name = api::kWorkerContainer;
  if (api::FindContainer(containers, api::kWorkerContainer) == nullptr) {
    std::vector<std::string> names;
    for (const api::Container& container : containers) names.push_back(absl::StrCat("\"", container.name, "\""));
    return absl::InvalidArgumentError(absl::StrCat(
        "GPUPool ", input.pool.metadata.name, ": ", field, ".template.spec.containers: expected a container named \"",
        api::kWorkerContainer, "\", found ", names.empty() ? "none" : absl::StrJoin(names, ", ")));
  }
  // Below the workload's own, over the template's.
  for (api::Container& container : containers) {
    if (container.name == api::kWorkerContainer && !config.image.empty()) container.image = config.image;
  }
  if (input.workload.spec.workerPodTemplate.empty()) return pools;

  absl::StatusOr<Json> merged = StrategicMerge(api::ToJson(*pools), input.workload.spec.workerPodTemplate,
                                               MergeType::kPodTemplateSpec, "spec.workerPodTemplate");
  if (!merged.ok()) return merged.status();
  absl::StatusOr<api::PodTemplateSpec> read = api::FromJson<api::PodTemplateSpec>(*merged);
  if (!read.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("spec.workerPodTemplate, merged over that of pool ",
                                                   input.pool.metadata.name, ": ", read.status().message()));
  }
  if (api::FindContainer(read->spec.containers, api::kWorkerContainer) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec.workerPodTemplate: it takes the container \"", api::kWorkerContainer, "\" away"));
  }
  return read;
}

// Both must hold: each term of the one with each of the other.
JsonArray BothTerms(const JsonArray* one, const JsonArray& other) {
  if (one == nullptr) return other;
  JsonArray terms;
  for (const Json& a : *one) {
    for (const Json& b : other) {
      JsonObject term;
      for (const char* list : {"matchExpressions", "matchFields"}) {
        JsonArray all;
        for (const Json* part : {&a, &b}) {
          const Json* requirements = kube::Field(*part, list);
          if (requirements == nullptr || !requirements->is_array()) continue;
          for (const Json& requirement : requirements->get_array()) all.push_back(requirement);
        }
        if (!all.empty()) term[list] = std::move(all);
      }
      terms.push_back(std::move(term));
    }
  }
  return terms;
}

void RequireNodes(JsonObject& affinity, const JsonArray& terms) {
  Json value = affinity;
  const std::string place = absl::StrCat("nodeAffinity.", kRequired, ".nodeSelectorTerms");
  const Json* known = kube::Field(value, place);
  JsonArray both = BothTerms(known != nullptr ? known->if_array() : nullptr, terms);
  kube::EnsureField(value, place) = std::move(both);
  affinity = value.get_object();
}

void AddNodeAffinity(JsonObject& affinity, const JsonObject& added) {
  const Json source = added;
  if (const Json* terms = kube::Field(source, absl::StrCat(kRequired, ".nodeSelectorTerms"));
      terms != nullptr && terms->is_array()) {
    RequireNodes(affinity, terms->get_array());
  }
  if (const Json* preferred = kube::Field(source, kPreferred); preferred != nullptr && preferred->is_array()) {
    Json value = affinity;
    Json& list = kube::EnsureField(value, absl::StrCat("nodeAffinity.", kPreferred));
    if (!list.is_array()) list = JsonArray();
    for (const Json& one : preferred->get_array()) list.get_array().push_back(one);
    affinity = value.get_object();
  }
}

// The pool's nodes as terms; none: any node.
absl::StatusOr<std::optional<JsonArray>> NodesOfPool(const WorkerPodInput& input) {
  const api::NodeManagerConfig& manager = input.pool.spec.nodeManagerConfig;
  JsonArray terms;
  const auto add = [&](const api::NodeSelector& selector) {
    const Json json = api::ToJson(selector);
    if (const Json* list = kube::Field(json, "nodeSelectorTerms"); list != nullptr && list->is_array()) {
      for (const Json& term : list->get_array()) terms.push_back(term);
    }
  };
  if (!manager.multiVendorNodeSelector.empty()) {
    const std::string& vendor = input.workload.spec.vendor;
    if (!vendor.empty() && !manager.multiVendorNodeSelector.contains(vendor)) {
      std::vector<std::string> known;
      for (const auto& [name, selector] : manager.multiVendorNodeSelector) known.push_back(name);
      return absl::InvalidArgumentError(absl::StrCat("spec.vendor: pool ", input.pool.metadata.name,
                                                     " has no nodes of ", vendor, ", only of ",
                                                     absl::StrJoin(known, ", ")));
    }
    for (const auto& [name, selector] : manager.multiVendorNodeSelector) {
      if (vendor.empty() || name == vendor) add(selector);
    }
    return std::optional<JsonArray>(std::move(terms));
  }
  if (!manager.nodeSelector) return std::optional<JsonArray>();
  add(*manager.nodeSelector);
  return std::optional<JsonArray>(std::move(terms));
}

absl::Status Complete(const WorkerPodInput& input, api::Container& container) {
  if (container.image.empty() && input.provider != nullptr) {
    container.image = input.provider->spec.images.remoteWorker;
  }
  if (container.image.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GPUPool ", input.pool.metadata.name, ": ", kField, ".image is empty, so is the image of container ",
        api::kWorkerContainer, " in ", kField, ".podTemplate, and no ProviderConfig of vendor ",
        WorkerVendor(input.workload, input.pool), " has images.remoteWorker; one of them is needed"));
  }
  if (container.command.empty() && container.args.empty()) {
    container.command = {"tensor-fusion-worker", "-p", absl::StrCat(kWorkerPort), "--address", "$(POD_IP)",
                         "--refuse-without-key"};
  } else if (container.command.empty()) {
    container.command = {"tensor-fusion-worker"};
  }
  std::string port_name;
  for (const api::ContainerPort& known : container.ports) {
    if (known.containerPort == kWorkerPort && !known.name.empty()) port_name = known.name;
  }
  if (port_name.empty()) {
    std::erase_if(container.ports, [](const api::ContainerPort& known) { return known.containerPort == kWorkerPort; });
    container.ports.push_back({.name = kPortName, .containerPort = kWorkerPort, .protocol = "TCP"});
    port_name = kPortName;
  }
  if (!container.readinessProbe) {
    container.readinessProbe = TcpProbe(port_name);
    container.readinessProbe->periodSeconds = 2;
  }
  if (container.resources.requests.empty() && container.resources.limits.empty()) {
    container.resources.requests = {{"cpu", api::Quantity::FromMilli(50)},
                                    {"memory", api::Quantity::FromBytes(int64_t{128} << 20)}};
  }
  DropRepeatedEnv(container);
  AddEnv(container, {Env("TF_ENABLE_LOG", "1")});
  if (WorkerVendor(input.workload, input.pool) == "NVIDIA") AddEnv(container, {Env("NVIDIA_VISIBLE_DEVICES", "all")});
  std::vector<api::EnvVar> ours = {
      EnvFromField("POD_NAME", "metadata.name"), EnvFromField("POD_NAMESPACE", "metadata.namespace"),
      EnvFromField("POD_IP", "status.podIP"), Env("CONTAINER_NAME", api::kWorkerContainer)};
  if (const int64_t mib = LimitMib(input.workload.spec); mib > 0) {
    ours.push_back(Env("TF_GPU_MEMORY_LIMIT", absl::StrCat(mib)));
    ours.push_back(Env("TF_CUDA_MEMORY_LIMIT", absl::StrCat(mib)));
  }
  if (const int64_t percent = LimitPercent(input.workload.spec); percent > 0) {
    ours.push_back(Env("TF_CUDA_SM_PERCENT_LIMIT", absl::StrCat(percent)));
  }
  if (input.choose_cards && AsksForCards(input.workload.spec)) {
    for (api::EnvVar& variable : EnvOfCards(input.workload.spec)) ours.push_back(std::move(variable));
    container.resources.requests[api::kVgpuResource] = container.resources.limits[api::kVgpuResource] =
        api::Quantity(1);
  }
  SetEnv(container, ours);
  return absl::OkStatus();
}

}  // namespace

std::string WorkerVendor(const api::TensorFusionWorkload& workload, const api::GPUPool& pool) {
  if (!workload.spec.vendor.empty()) return workload.spec.vendor;
  return pool.spec.nodeManagerConfig.defaultVendor.value_or("NVIDIA");
}

std::string WorkloadRevision(const api::WorkloadProfileSpec& spec, bool choose_cards) {
  // What is not set is left out: what a later version of this program covers too then changes nothing.
  JsonObject covered;
  if (!spec.workerPodTemplate.empty()) covered["template"] = spec.workerPodTemplate;
  if (const int64_t mib = LimitMib(spec); mib > 0) covered["memory"] = mib;
  if (const int64_t percent = LimitPercent(spec); percent > 0) covered["percent"] = percent;
  if (!spec.vendor.empty()) covered["vendor"] = spec.vendor;
  if (!spec.poolName.empty()) covered["pool"] = spec.poolName;
  if (!spec.nodeAffinity.empty()) covered["affinity"] = spec.nodeAffinity;
  if (choose_cards && AsksForCards(spec)) {
    std::map<std::string, std::string> asked;
    WriteRequest(spec, asked);
    asked.erase(api::kQosAnnotation);
    JsonObject cards;
    for (const auto& [name, value] : asked) cards[name] = value;
    covered["cards"] = std::move(cards);
  }
  const std::string text = boost::json::serialize(Sorted(covered));
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return HexEncode({reinterpret_cast<const char*>(hash.data()), 8});
}

absl::StatusOr<api::Pod> WorkerPod(const WorkerPodInput& input) {
  const api::WorkerConfig config = input.revision.config.worker.value_or(api::WorkerConfig());
  absl::StatusOr<api::PodTemplateSpec> read = Template(input, config);
  if (!read.ok()) return read.status();
  absl::StatusOr<std::optional<JsonArray>> nodes = NodesOfPool(input);
  if (!nodes.ok()) return nodes.status();
  const api::TensorFusionWorkload& workload = input.workload;

  api::Pod pod;
  pod.metadata.name = input.name;
  pod.metadata.namespace_ = workload.metadata.namespace_;
  pod.metadata.labels = read->metadata.labels;
  pod.metadata.annotations = read->metadata.annotations;
  pod.metadata.labels[api::kComponentLabel] = api::kWorkerComponent;
  pod.metadata.labels[api::kWorkloadLabel] = workload.metadata.name;
  pod.metadata.labels[api::kPoolLabel] = input.pool.metadata.name;
  pod.metadata.labels[api::kRevisionLabel] = input.revision.revision;
  pod.metadata.annotations[api::kWorkloadRevisionAnnotation] = WorkloadRevision(workload.spec, input.choose_cards);
  WriteRequest(workload.spec, pod.metadata.annotations);
  pod.metadata.annotations[api::kPoolAnnotation] = input.pool.metadata.name;
  pod.metadata.annotations[api::kContainersAnnotation] = api::kWorkerContainer;
  if (!input.connection.empty()) pod.metadata.annotations[api::kConnectionAnnotation] = input.connection;
  pod.metadata.ownerReferences = {{.apiVersion = api::TensorFusionWorkload::kResource.ApiVersion(),
                                   .kind = api::TensorFusionWorkload::kResource.kind,
                                   .name = workload.metadata.name,
                                   .uid = workload.metadata.uid,
                                   .controller = true,
                                   .blockOwnerDeletion = true}};

  pod.spec = std::move(read->spec);
  if (!pod.spec.terminationGracePeriodSeconds) pod.spec.terminationGracePeriodSeconds = 5;
  if (!pod.spec.enableServiceLinks) pod.spec.enableServiceLinks = false;
  // The default one is nobody's choice: the server writes it where nothing is said.
  if (input.choose_cards && AsksForCards(workload.spec) &&
      (pod.spec.schedulerName.empty() || pod.spec.schedulerName == "default-scheduler")) {
    pod.spec.schedulerName = api::kVgpuScheduler;
  }
  AddToleration(pod.spec, {.key = "tensor-fusion.ai/used-by", .operator_ = "Exists"});
  if (nodes->has_value()) RequireNodes(pod.spec.affinity, **nodes);
  AddNodeAffinity(pod.spec.affinity, workload.spec.nodeAffinity);
  for (api::Container& container : pod.spec.containers) {
    if (container.name != api::kWorkerContainer) continue;
    if (absl::Status status = Complete(input, container); !status.ok()) return status;
  }
  return pod;
}

}  // namespace tf::operators
