#include "operator/pod_parts.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/names.h"

namespace tf::operators {

api::EnvVar Env(std::string name, std::string value) { return {.name = std::move(name), .value = std::move(value)}; }

api::EnvVar EnvFromField(std::string name, std::string field_path) {
  api::EnvVarSource source;
  source.fieldRef = {.fieldPath = std::move(field_path)};
  return {.name = std::move(name), .valueFrom = std::move(source)};
}

void AddEnv(api::Container& container, const std::vector<api::EnvVar>& variables) {
  std::vector<api::EnvVar> added;
  for (const api::EnvVar& variable : variables) {
    if (api::FindEnv(container, variable.name) == nullptr) added.push_back(variable);
  }
  container.env.insert(container.env.begin(), added.begin(), added.end());
}

void SetEnv(api::Container& container, const std::vector<api::EnvVar>& variables) {
  for (const api::EnvVar& variable : variables) {
    std::erase_if(container.env, [&](const api::EnvVar& known) { return known.name == variable.name; });
  }
  container.env.insert(container.env.begin(), variables.begin(), variables.end());
}

void DropRepeatedEnv(api::Container& container) {
  absl::flat_hash_set<std::string> seen;
  std::vector<api::EnvVar> kept;
  for (auto at = container.env.rbegin(); at != container.env.rend(); ++at) {
    if (seen.insert(at->name).second) kept.push_back(std::move(*at));
  }
  std::reverse(kept.begin(), kept.end());
  container.env = std::move(kept);
}

void AddToleration(api::PodSpec& spec, api::Toleration toleration) {
  for (const api::Toleration& known : spec.tolerations) {
    if (known.key == toleration.key && known.operator_ == toleration.operator_ && known.value == toleration.value &&
        known.effect == toleration.effect) {
      return;
    }
  }
  spec.tolerations.push_back(std::move(toleration));
}

absl::StatusOr<api::PodTemplateSpec> ReadPodTemplate(const api::Json& pod_template, std::string_view field) {
  const api::JsonObject* object = pod_template.if_object();
  if (object != nullptr && !object->empty() && !object->contains("template")) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(field), ": expected {\"template\": {\"metadata\": ..., \"spec\": ...}}, found \"",
                     std::string(object->begin()->key()), "\""));
  }
  absl::StatusOr<api::PodTemplate> read = api::FromJson<api::PodTemplate>(pod_template);
  if (!read.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(field), ".", read.status().message()));
  }
  return std::move(read->template_);
}

api::Probe TcpProbe(std::string port) {
  api::Probe probe;
  probe.tcpSocket.emplace();
  probe.tcpSocket->port.value = std::move(port);
  return probe;
}

api::Probe HttpProbe(std::string path, std::string port) {
  api::Probe probe;
  probe.httpGet.emplace();
  probe.httpGet->path = std::move(path);
  probe.httpGet->port.value = std::move(port);
  return probe;
}

void WriteRequest(const api::WorkloadProfileSpec& spec, std::map<std::string, std::string>& annotations) {
  const auto amount = [&](const char* name, const api::Quantity& quantity) {
    if (!quantity.IsZero()) annotations[name] = quantity.Text();
  };
  if (spec.resources) {
    amount(api::kTflopsRequestAnnotation, spec.resources->requests.tflops);
    amount(api::kTflopsLimitAnnotation, spec.resources->limits.tflops);
    amount(api::kVramRequestAnnotation, spec.resources->requests.vram);
    amount(api::kVramLimitAnnotation, spec.resources->limits.vram);
    amount(api::kComputeRequestAnnotation, spec.resources->requests.compute);
    amount(api::kComputeLimitAnnotation, spec.resources->limits.compute);
  }
  annotations[api::kPoolAnnotation] = spec.poolName;
  annotations[api::kQosAnnotation] = spec.qos.empty() ? "medium" : spec.qos;
  annotations[api::kIsolationAnnotation] = spec.isolation.value_or("soft");
  annotations[api::kGpuCountAnnotation] = absl::StrCat(spec.gpuCount.value_or(1));
  if (!spec.gpuIndices.empty()) annotations[api::kGpuIndicesAnnotation] = absl::StrJoin(spec.gpuIndices, ",");
  if (!spec.gpuModel.empty()) annotations[api::kGpuModelAnnotation] = spec.gpuModel;
  if (!spec.vendor.empty()) annotations[api::kVendorAnnotation] = spec.vendor;
}

}  // namespace tf::operators
