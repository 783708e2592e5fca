#include "api/testing.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "api/core.h"
#include "api/gpu.h"
#include "api/gpu_node.h"
#include "api/gpu_pool.h"
#include "api/provider_config.h"
#include "api/scheduling.h"
#include "api/tensor_fusion_cluster.h"
#include "api/workload.h"

namespace tf::api::testing {
namespace {

Json Convert(const YAML::Node& node) {
  if (node.IsNull() || !node.IsDefined()) return nullptr;
  if (node.IsSequence()) {
    JsonArray array;
    for (const YAML::Node& one : node) array.push_back(Convert(one));
    return array;
  }
  if (node.IsMap()) {
    JsonObject object;
    for (const auto& one : node) object[one.first.as<std::string>()] = Convert(one.second);
    return object;
  }
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return boost::json::string(text);  // quoted
  if (text == "true" || text == "false") return text == "true";
  const char* end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, whole); error == std::errc() && stop == end) {
    return whole;
  }
  double real = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, real); error == std::errc() && stop == end) {
    return real;
  }
  return boost::json::string(text);
}

template <typename T>
absl::StatusOr<Json> Through(const Json& json) {
  auto value = FromJson<T>(json);
  if (!value.ok()) return value.status();
  return ToJson(*value);
}

}  // namespace

std::vector<Json> YamlFile(const std::string& path) {
  std::vector<Json> documents;
  for (const YAML::Node& node : YAML::LoadAllFromFile(absl::StrCat(TF_SOURCE_DIR "/", path))) {
    documents.push_back(Convert(node));
  }
  return documents;
}

std::vector<std::string> YamlFilesIn(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(absl::StrCat(TF_SOURCE_DIR "/", folder))) {
    if (entry.path().extension() == ".yaml")
      files.push_back(absl::StrCat(folder, "/", entry.path().filename().string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Sample> Samples() {
  std::vector<Sample> samples;
  for (const std::string& file : YamlFilesIn("src/api/testdata")) {
    for (Json& json : YamlFile(file)) {
      std::string name =
          absl::StrCat(json.at("kind").get_string().c_str(), " ", json.at("metadata").at("name").get_string().c_str());
      samples.push_back({std::move(name), std::move(json)});
    }
  }
  return samples;
}

absl::StatusOr<Json> ThroughStruct(const Json& json) {
  static constexpr std::pair<std::string_view, absl::StatusOr<Json> (*)(const Json&)> kKinds[] = {
      {"TensorFusionCluster", Through<TensorFusionCluster>},
      {"GPUPool", Through<GPUPool>},
      {"GPUNode", Through<GPUNode>},
      {"GPU", Through<GPU>},
      {"GPUNodeClaim", Through<GPUNodeClaim>},
      {"GPUNodeClass", Through<GPUNodeClass>},
      {"ProviderConfig", Through<ProviderConfig>},
      {"SchedulingConfigTemplate", Through<SchedulingConfigTemplate>},
      {"GPUResourceQuota", Through<GPUResourceQuota>},
      {"TensorFusionWorkload", Through<TensorFusionWorkload>},
      {"TensorFusionConnection", Through<TensorFusionConnection>},
      {"WorkloadProfile", Through<WorkloadProfile>},
      {"Pod", Through<Pod>},
      {"Node", Through<Node>},
      {"Secret", Through<Secret>},
      {"ConfigMap", Through<ConfigMap>},
      {"Lease", Through<Lease>},
      {"Event", Through<Event>},
      {"ControllerRevision", Through<ControllerRevision>},
  };
  const auto& kind = json.at("kind").get_string();
  for (const auto& [name, through] : kKinds) {
    if (name == std::string_view(kind.data(), kind.size())) return through(json);
  }
  return absl::UnimplementedError(absl::StrCat("no struct for ", kind.c_str()));
}

}  // namespace tf::api::testing
