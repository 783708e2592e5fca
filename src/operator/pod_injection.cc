#include "operator/pod_injection.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/names.h"
#include "operator/pod_parts.h"
#include "operator/strategic_merge.h"

namespace tf::operators {
namespace {

using api::Json;
using api::JsonObject;

constexpr char kField[] = "spec.componentConfig.client";
// Where the client's image puts them below kLibraryPath.
constexpr char kLibraries[] = "/tensor-fusion/client:/tensor-fusion/cudart";
constexpr char kSearchPath[] = "LD_LIBRARY_PATH";
constexpr int64_t kTokenSeconds = 3600;
constexpr size_t kLongestName = 253;

absl::Status Taken(const std::string& what, const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat(what, " \"", name,
                                                 "\" of the pod is not what tensor-fusion makes under that name; "
                                                 "expected: another name, for this one is taken"));
}

// Equal as far as `ours` says something: defaults that the server fills in are no difference.
bool Covers(const Json& theirs, const Json& ours) {
  if (const JsonObject* object = ours.if_object()) {
    const JsonObject* other = theirs.if_object();
    if (other == nullptr) return false;
    return std::all_of(object->begin(), object->end(), [&](const auto& member) {
      const Json* value = other->if_contains(member.key());
      return value != nullptr && Covers(*value, member.value());
    });
  }
  if (const api::JsonArray* array = ours.if_array()) {
    const api::JsonArray* other = theirs.if_array();
    if (other == nullptr || other->size() != array->size()) return false;
    return std::equal(array->begin(), array->end(), other->begin(),
                      [](const Json& one, const Json& two) { return Covers(two, one); });
  }
  return theirs == ours;
}

absl::Status AddVolume(api::PodSpec& spec, api::Volume volume) {
  api::Pod one;
  one.spec.volumes = {volume};
  for (const api::Volume& known : spec.volumes) {
    if (known.name != volume.name) continue;
    api::Pod other;
    other.spec.volumes = {known};
    return Covers(*kube::Field(api::ToJson(other), "spec.volumes"), *kube::Field(api::ToJson(one), "spec.volumes"))
               ? absl::OkStatus()
               : Taken("volume", volume.name);
  }
  spec.volumes.push_back(std::move(volume));
  return absl::OkStatus();
}

absl::Status AddMount(api::Container& container, api::VolumeMount mount) {
  for (const api::VolumeMount& known : container.volumeMounts) {
    if (known.mountPath != mount.mountPath) continue;
    return known.name == mount.name
               ? absl::OkStatus()
               : Taken(absl::StrCat("volumeMount of container ", container.name, " at"), mount.mountPath);
  }
  container.volumeMounts.push_back(std::move(mount));
  return absl::OkStatus();
}

// Ours; where the pod says something else under that name it is refused.
absl::Status AddOwnEnv(api::Container& container, const std::string& name, const std::string& value) {
  if (const api::EnvVar* known = api::FindEnv(container, name)) {
    return known->value == value && !known->valueFrom
               ? absl::OkStatus()
               : Taken(absl::StrCat("env of container ", container.name, ":"), name);
  }
  container.env.push_back(Env(name, value));
  return absl::OkStatus();
}

absl::Status AddSearchPath(api::Container& container) {
  for (api::EnvVar& known : container.env) {
    if (known.name != kSearchPath) continue;
    if (known.valueFrom) {
      return absl::InvalidArgumentError(
          absl::StrCat("env of container ", container.name, ": ", kSearchPath,
                       " comes from valueFrom, and the client libraries cannot be put before it; expected: a value"));
    }
    if (known.value != kLibraries && !known.value.starts_with(absl::StrCat(kLibraries, ":"))) {
      known.value = known.value.empty() ? kLibraries : absl::StrCat(kLibraries, ":", known.value);
    }
    return absl::OkStatus();
  }
  container.env.push_back(Env(kSearchPath, kLibraries));
  return absl::OkStatus();
}

api::Container InitContainer(const std::string& image) {
  api::Container container;
  container.name = kInjectContainer;
  container.image = image;
  container.volumeMounts = {{.name = kLibraryVolume, .mountPath = kLibraryPath}};
  container.resources.requests = container.resources.limits = {
      {"cpu", api::Quantity::FromMilli(20)}, {"memory", api::Quantity::FromBytes(int64_t{256} << 20)}};
  container.securityContext.emplace();
  container.securityContext->allowPrivilegeEscalation = false;
  container.securityContext->capabilities = {.drop = {"ALL"}};
  return container;
}

absl::Status AddInitContainer(const InjectionInput& input, api::PodSpec& spec) {
  const std::string& image = input.client.config.client->image;
  if (image.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPUPool ", input.request.spec.poolName, ": ", kField,
                     ".image is empty; expected: the image with the client libraries"));
  }
  api::Container ours = InitContainer(image);
  for (api::Container& known : spec.initContainers) {
    if (known.name != kInjectContainer) continue;
    // One that we have put there mounts our volume; anything else is the pod's own.
    if (!std::any_of(known.volumeMounts.begin(), known.volumeMounts.end(),
                     [](const api::VolumeMount& mount) { return mount.name == kLibraryVolume; })) {
      return Taken("initContainer", kInjectContainer);
    }
    known.image = image;
    return absl::OkStatus();
  }
  spec.initContainers.insert(spec.initContainers.begin(), std::move(ours));
  return absl::OkStatus();
}

api::Volume TokenVolume() {
  api::Volume volume;
  volume.name = kTokenVolume;
  volume.projected.emplace();
  api::ProjectedSource source;
  source.serviceAccountToken.emplace();
  source.serviceAccountToken->audience = kTokenAudience;
  source.serviceAccountToken->expirationSeconds = kTokenSeconds;
  source.serviceAccountToken->path = "token";
  volume.projected->sources.push_back(std::move(source));
  return volume;
}

absl::Status InjectRemote(const InjectionInput& input, api::Pod& pod) {
  const api::ClientConfig& client = *input.client.config.client;
  std::string endpoint = client.operatorEndpoint.empty() ? input.endpoint : client.operatorEndpoint;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (endpoint.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPUPool ", input.request.spec.poolName, ": ", kField,
                     ".operatorEndpoint is empty, and the operator knows no address of its own; expected: "
                     "http://HOST:PORT of the operator"));
  }
  api::Volume libraries;
  libraries.name = kLibraryVolume;
  libraries.emptyDir.emplace();
  absl::Status status = AddVolume(pod.spec, std::move(libraries));
  status.Update(AddVolume(pod.spec, TokenVolume()));
  status.Update(AddInitContainer(input, pod.spec));
  const std::string& ns = pod.metadata.namespace_;
  for (api::Container& container : pod.spec.containers) {
    if (std::find(input.request.containers.begin(), input.request.containers.end(), container.name) ==
        input.request.containers.end()) {
      continue;
    }
    if (api::FindEnv(container, "TENSOR_FUSION_OPERATOR_CONNECTION_INFO") != nullptr) {
      status.Update(
          Taken(absl::StrCat("env of container ", container.name, ":"), "TENSOR_FUSION_OPERATOR_CONNECTION_INFO"));
    }
    status.Update(AddMount(container, {.name = kLibraryVolume, .readOnly = true, .mountPath = kLibraryPath}));
    status.Update(AddMount(container, {.name = kTokenVolume, .readOnly = true, .mountPath = kTokenFolder}));
    status.Update(AddSearchPath(container));
    AddEnv(container, {EnvFromField("POD_NAME", "metadata.name"), EnvFromField("POD_NAMESPACE", "metadata.namespace"),
                       Env("CONTAINER_NAME", container.name)});
    status.Update(AddOwnEnv(container, "TENSOR_FUSION_CONNECTION_NAME", input.connection));
    status.Update(AddOwnEnv(container, "TENSOR_FUSION_CONNECTION_NAMESPACE", ns));
    status.Update(AddOwnEnv(container, "TENSOR_FUSION_OPERATOR_GET_CONNECTION_URL",
                            absl::StrCat(endpoint, "/api/connection?name=", input.connection, "&namespace=", ns)));
  }
  pod.metadata.annotations[api::kSelectedWorkloadAnnotation] = input.workload;
  pod.metadata.annotations[api::kConnectionAnnotation] = input.connection;
  return status;
}

// A strategic merge patch over a part of the pod; `read` makes the part of its JSON.
template <typename T>
absl::Status Merge(T& part, const JsonObject& patch, MergeType type, const std::string& field) {
  if (patch.empty()) return absl::OkStatus();
  absl::StatusOr<Json> merged = StrategicMerge(api::ToJson(part), patch, type, field);
  if (!merged.ok()) return merged.status();
  absl::StatusOr<T> read = api::FromJson<T>(*merged);
  if (!read.ok()) return absl::InvalidArgumentError(absl::StrCat(field, ": ", read.status().message()));
  part = *std::move(read);
  return absl::OkStatus();
}

// A mistake of the pool, not of who makes the pod.
absl::Status OfPool(const InjectionInput& input, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::FailedPreconditionError(absl::StrCat("GPUPool ", input.request.spec.poolName, ": ", status.message()));
}

absl::Status ApplyPatches(const InjectionInput& input, api::Pod& pod) {
  const api::ClientConfig& client = *input.client.config.client;
  for (api::Container& container : pod.spec.containers) {
    if (std::find(input.request.containers.begin(), input.request.containers.end(), container.name) ==
        input.request.containers.end()) {
      continue;
    }
    const std::vector<api::EnvVar> own = container.env;
    const std::string name = container.name;
    absl::Status merged =
        Merge(container, client.patchToContainer, MergeType::kContainer, absl::StrCat(kField, ".patchToContainer"));
    if (!merged.ok()) return OfPool(input, merged);
    container.name = name;
    for (api::EnvVar& variable : container.env) {
      const auto known =
          std::find_if(own.begin(), own.end(), [&](const api::EnvVar& one) { return one.name == variable.name; });
      if (known != own.end()) variable = *known;
    }
  }
  if (client.patchToPod.empty()) return absl::OkStatus();
  api::PodTemplateSpec whole{.metadata = pod.metadata, .spec = pod.spec};
  absl::Status merged =
      Merge(whole, client.patchToPod, MergeType::kPodTemplateSpec, absl::StrCat(kField, ".patchToPod"));
  if (!merged.ok()) return OfPool(input, merged);
  whole.metadata.name = pod.metadata.name;
  whole.metadata.namespace_ = pod.metadata.namespace_;
  pod.metadata = std::move(whole.metadata);
  pod.spec = std::move(whole.spec);
  return absl::OkStatus();
}

void RemoveNativeGpus(const InjectionInput& input, api::PodSpec& spec) {
  for (api::Container& container : spec.containers) {
    if (std::find(input.request.containers.begin(), input.request.containers.end(), container.name) ==
        input.request.containers.end()) {
      continue;
    }
    for (const std::string& resource : input.native_resources) {
      container.resources.requests.erase(resource);
      container.resources.limits.erase(resource);
    }
  }
}

// What the request asks for and nothing carries out: a pod that got something else would not know.
absl::Status CheckSupported(const PodRequest& request, bool choose_cards) {
  std::vector<std::string> errors;
  const auto refuse = [&](const char* annotation, const std::string& value, const std::string& allowed) {
    errors.push_back(
        absl::StrCat("annotation ", annotation, ": \"", value,
                     "\" (or the same from a WorkloadProfile or the pool) is not supported yet; allowed: ", allowed));
  };
  const api::WorkloadProfileSpec& spec = request.spec;
  if (request.mode != VgpuMode::kRemote) refuse(api::kLocalAnnotation, "true", "false");
  if (choose_cards) return errors.empty() ? absl::OkStatus() : absl::UnimplementedError(errors.front());
  if (spec.isolation == "shared") refuse(api::kIsolationAnnotation, "shared", "hard");
  if (spec.resources && !spec.resources->limits.tflops.IsZero()) {
    refuse(api::kTflopsLimitAnnotation, spec.resources->limits.tflops.Text(),
           absl::StrCat(api::kComputeLimitAnnotation, " in its place"));
  }
  if (!spec.gpuIndices.empty()) refuse(api::kGpuIndicesAnnotation, absl::StrJoin(spec.gpuIndices, ","), "none");
  if (spec.gpuIndices.empty() && spec.gpuCount.value_or(1) != 1) {
    refuse(api::kGpuCountAnnotation, absl::StrCat(*spec.gpuCount), "1");
  }
  if (!spec.gpuModel.empty()) refuse(api::kGpuModelAnnotation, spec.gpuModel, "none");
  return errors.empty() ? absl::OkStatus() : absl::UnimplementedError(absl::StrJoin(errors, "; "));
}

}  // namespace

absl::StatusOr<api::Pod> Inject(const InjectionInput& input) {
  api::Pod pod = input.pod;
  if (!input.client.config.client) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPUPool ", input.request.spec.poolName, ": ", kField, " is missing"));
  }
  if (absl::Status status = CheckSupported(input.request, input.choose_cards); !status.ok()) return status;
  if (absl::Status status = ApplyPatches(input, pod); !status.ok()) return status;
  RemoveNativeGpus(input, pod.spec);
  auto& annotations = pod.metadata.annotations;
  annotations.erase(api::kGpuIdsAnnotation);  // where it comes from another pod, it is not of this one
  WriteRequest(input.request.spec, annotations);
  annotations[api::kLocalAnnotation] = input.request.spec.isLocalGPU ? "true" : "false";
  annotations[api::kSidecarAnnotation] = input.request.spec.sidecarWorker ? "true" : "false";
  annotations[api::kContainersAnnotation] = absl::StrJoin(input.request.containers, ",");
  pod.metadata.labels[api::kPoolLabel] = input.request.spec.poolName;
  pod.metadata.labels[api::kComponentLabel] = api::kClientComponent;
  pod.metadata.labels[api::kRevisionLabel] = input.client.revision;
  if (absl::Status status = InjectRemote(input, pod); !status.ok()) return status;
  return pod;
}

std::string ConnectionNameOf(const api::Pod& pod, const std::string& id) {
  const std::string base =
      pod.metadata.generateName.empty() ? absl::StrCat(pod.metadata.name, "-") : pod.metadata.generateName;
  const std::string prefix = absl::StrCat(base.substr(0, kLongestName - id.size() - 8), "tf-vgpu-");
  const std::string_view known = pod.metadata.Annotation(api::kConnectionAnnotation);
  const bool fits = known.size() == prefix.size() + id.size() && known.starts_with(prefix);
  return fits ? std::string(known) : absl::StrCat(prefix, id);
}

}  // namespace tf::operators
