// The structs and charts/tensor-fusion/crds say the same, both ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/convert.h"
#include "api/defaults.h"
#include "api/gpu.h"
#include "api/gpu_node.h"
#include "api/gpu_pool.h"
#include "api/provider_config.h"
#include "api/scheduling.h"
#include "api/tensor_fusion_cluster.h"
#include "api/testing.h"
#include "api/workload.h"

namespace tf::api {
namespace {

using convert::Member;
using convert::Type;

std::string_view Text(const Json& json) { return {json.get_string().data(), json.get_string().size()}; }

bool IsTrue(const Json& schema, std::string_view key) {
  const Json* value = schema.get_object().if_contains(boost::json::string_view(key.data(), key.size()));
  return value != nullptr && *value == true;
}

class Comparison {
 public:
  // What a schema of `type` looks like, in one word.
  std::string WordOf(const Json& schema) {
    const JsonObject& object = schema.get_object();
    if (IsTrue(schema, "x-kubernetes-int-or-string")) {
      const Json* pattern = object.if_contains("pattern");
      return pattern != nullptr && Text(*pattern).find("KMGTPE") != std::string_view::npos ? "quantity" : "intOrString";
    }
    const std::string type(Text(object.at("type")));
    if (type == "object") {
      if (object.contains("properties")) return "struct";
      return object.contains("additionalProperties") ? "map" : "free";
    }
    if (type == "integer") {
      const std::string format(object.contains("format") ? Text(object.at("format")) : "int64");
      if (format == "int32" || !object.contains("minimum") || object.at("minimum") != 0) return format;
      return object.contains("maximum") && object.at("maximum") == 4294967295 ? "uint32" : "int64+";
    }
    if (type == "string" && object.contains("format")) return std::string(Text(object.at("format")));
    return type;
  }

  bool Fits(const Type& type, const std::string& word, const Json& schema) {
    switch (type.kind) {
      case Type::Kind::kString:
        return word == "string";
      case Type::Kind::kBool:
        return word == "boolean";
      case Type::Kind::kInt32:
        return word == "int32";
      case Type::Kind::kInt64:
        return word == "int64" || word == "int64+";
      case Type::Kind::kUint32:
        // A narrower range is of its own choice.
        return word == "uint32" || (word == "int64" && schema.get_object().contains("minimum"));
      case Type::Kind::kUint64:
        return word == "int64+";
      case Type::Kind::kQuantity:
        return word == "quantity";
      case Type::Kind::kTime:
        return word == "date-time";
      case Type::Kind::kIntOrString:
        return word == "intOrString";
      case Type::Kind::kAny:
      case Type::Kind::kObject:
        return word == "free" && IsTrue(schema, "x-kubernetes-preserve-unknown-fields");
      case Type::Kind::kArray:
        return word == "array";
      case Type::Kind::kMap:
        return word == "map";
      case Type::Kind::kStruct:
        return word == "struct";
    }
    return false;
  }

  void CompareType(const Type& type, const Json& schema, const std::string& path) {
    const std::string word = WordOf(schema);
    if (!Fits(type, word, schema)) {
      found_.push_back(absl::StrCat(path, ": the schema says ", word, ", the struct something else"));
      return;
    }
    if (type.kind == Type::Kind::kArray) CompareType(*type.element, schema.at("items"), path + "[]");
    if (type.kind == Type::Kind::kMap) CompareType(*type.element, schema.at("additionalProperties"), path + "{}");
    if (type.kind == Type::Kind::kStruct) CompareStruct(type.members(), schema, path);
  }

  void CompareStruct(const std::vector<Member>& members, const Json& schema, const std::string& path) {
    const JsonObject& properties = schema.at("properties").get_object();
    std::set<std::string> required;
    if (const Json* names = schema.get_object().if_contains("required")) {
      for (const Json& name : names->get_array()) required.emplace(Text(name));
    }
    std::set<std::string> known;
    for (const Member& member : members) {
      const std::string place = path.empty() ? member.key : absl::StrCat(path, ".", member.key);
      known.insert(member.key);
      ++compared_;
      const Json* property = properties.if_contains(member.key);
      if (property == nullptr) {
        found_.push_back(absl::StrCat(place, ": in the struct, not in the schema"));
        continue;
      }
      // metadata is the API server's business.
      if (place == "metadata") continue;
      if (required.contains(member.key) && member.optional) {
        found_.push_back(absl::StrCat(place, ": the schema requires it, so it is not optional in the struct"));
      }
      // What controllers write must be complete, whatever the values are. A name is never blank.
      const bool can_be_zero = member.type->kind != Type::Kind::kString && member.type->kind != Type::Kind::kTime;
      if (place.starts_with("status") && required.contains(member.key) && can_be_zero && !member.always) {
        found_.push_back(absl::StrCat(place, ": the schema requires it, so the struct names it in kAlways"));
      }
      const bool has_default = property->get_object().contains("default");
      if (has_default && !member.optional && !place.starts_with("status") && !IsZero(property->at("default"))) {
        found_.push_back(absl::StrCat(place, ": the schema has a default, so absence is not zero: optional"));
      }
      CompareType(*member.type, *property, place);
    }
    for (const auto& [key, property] : properties) {
      const std::string name(key.data(), key.size());
      if (!known.contains(name)) found_.push_back(absl::StrCat(path, ".", name, ": in the schema, not in the struct"));
    }
  }

  static bool IsZero(const Json& json) { return json == 0 || json == false || json == ""; }

  int64_t compared_ = 0;
  std::vector<std::string> found_ = {};
};

struct Definition {
  Json crd;
  const Json& version() const { return crd.at("spec").at("versions").at(0); }
  const Json& schema() const { return version().at("schema").at("openAPIV3Schema"); }
};

std::map<std::string, Definition> Definitions() {
  std::map<std::string, Definition> definitions;
  for (const std::string& file : testing::YamlFilesIn("charts/tensor-fusion/crds")) {
    for (Json& crd : testing::YamlFile(file)) {
      const std::string kind(Text(crd.at("spec").at("names").at("kind")));
      definitions.emplace(kind, Definition{std::move(crd)});
    }
  }
  return definitions;
}

struct Kind {
  const kube::Resource* resource;
  const std::vector<Member>& (*members)();
};

template <typename T>
Kind KindOf() {
  return {&T::kResource, &convert::MembersOf<T>};
}

std::vector<Kind> Kinds() {
  return {KindOf<TensorFusionCluster>(),
          KindOf<GPUPool>(),
          KindOf<GPUNode>(),
          KindOf<GPU>(),
          KindOf<GPUNodeClaim>(),
          KindOf<GPUNodeClass>(),
          KindOf<ProviderConfig>(),
          KindOf<SchedulingConfigTemplate>(),
          KindOf<GPUResourceQuota>(),
          KindOf<TensorFusionWorkload>(),
          KindOf<TensorFusionConnection>(),
          KindOf<WorkloadProfile>()};
}

TEST(Schema, SaysWhatTheStructsSay) {
  const auto definitions = Definitions();
  ASSERT_EQ(definitions.size(), Kinds().size());
  for (const Kind& kind : Kinds()) {
    const auto it = definitions.find(kind.resource->kind);
    ASSERT_NE(it, definitions.end()) << kind.resource->kind;
    Comparison comparison;
    comparison.CompareStruct(kind.members(), it->second.schema(), "");
    EXPECT_THAT(comparison.found_, ::testing::IsEmpty()) << kind.resource->kind;
    EXPECT_GT(comparison.compared_, 5) << kind.resource->kind;
  }
}

TEST(Schema, NamesAndSubresources) {
  const auto definitions = Definitions();
  std::set<std::string> short_names;
  for (const Kind& kind : Kinds()) {
    const kube::Resource& resource = *kind.resource;
    const Json& crd = definitions.at(resource.kind).crd;
    EXPECT_EQ(Text(crd.at("metadata").at("name")), absl::StrCat(resource.plural, ".", resource.group));
    const Json& spec = crd.at("spec");
    EXPECT_EQ(Text(spec.at("names").at("plural")), resource.plural);
    EXPECT_EQ(Text(spec.at("scope")), resource.namespaced ? "Namespaced" : "Cluster") << resource.kind;
    EXPECT_EQ(spec.at("names").at("categories"), JsonArray({"tensor-fusion"}));
    EXPECT_TRUE(spec.at("versions").at(0).at("subresources").get_object().contains("status")) << resource.kind;
    if (const Json* names = spec.at("names").get_object().if_contains("shortNames")) {
      for (const Json& name : names->get_array()) EXPECT_TRUE(short_names.emplace(Text(name)).second) << Text(name);
    }
  }
}

// A path such as .status.nodeSelector.kubernetes\.io/hostname leads to something that the schema knows.
TEST(Schema, ColumnsAreThere) {
  for (const auto& [kind, definition] : Definitions()) {
    ASSERT_TRUE(definition.version().get_object().contains("additionalPrinterColumns")) << kind;
    for (const Json& column : definition.version().at("additionalPrinterColumns").get_array()) {
      const std::string path(Text(column.at("jsonPath")));
      if (path == ".metadata.creationTimestamp") continue;
      const Json* schema = &definition.schema();
      for (size_t at = 1; at < path.size();) {
        std::string key;
        for (; at < path.size() && path[at] != '.' && path[at] != '['; ++at) {
          if (path[at] == '\\') ++at;
          key.push_back(path[at]);
        }
        const JsonObject& object = schema->get_object();
        if (object.contains("properties")) {
          schema = object.at("properties").get_object().if_contains(key);
        } else {
          schema = object.if_contains("additionalProperties");
        }
        ASSERT_NE(schema, nullptr) << kind << " " << path;
        if (at < path.size() && path[at] == '[') {
          at = path.find(']', at) + 1;
          schema = &schema->at("items");
        }
        ++at;
      }
      const std::string_view type = Text(column.at("type"));
      if (schema->get_object().contains("type") && type != "string") {
        EXPECT_EQ(type, Text(schema->at("type"))) << kind << " " << path;
      }
      EXPECT_FALSE(schema->get_object().contains("properties")) << kind << " " << path << " leads to a block";
    }
  }
}

TEST(Schema, EveryFieldIsExplained) {
  const auto check = [](const Json& schema, const std::string& path, auto&& self) -> void {
    const JsonObject& object = schema.get_object();
    if (const Json* properties = object.if_contains("properties")) {
      for (const auto& [key, property] : properties->get_object()) {
        const std::string place = absl::StrCat(path, ".", std::string(key.data(), key.size()));
        if (place.ends_with(".metadata")) continue;
        EXPECT_TRUE(property.get_object().contains("description")) << place;
        self(property, place, self);
      }
    }
    if (const Json* items = object.if_contains("items")) self(*items, path + "[]", self);
    if (const Json* values = object.if_contains("additionalProperties")) self(*values, path + "{}", self);
  };
  for (const auto& [kind, definition] : Definitions()) check(definition.schema(), kind, check);
}

// Every block of a schema, empty; lists with one element.
Json Skeleton(const Json& schema) {
  JsonObject object;
  for (const auto& [key, property] : schema.at("properties").get_object()) {
    const JsonObject& child = property.get_object();
    if (child.contains("properties")) object[key] = Skeleton(property);
    if (const Json* items = child.if_contains("items");
        items != nullptr && items->get_object().contains("properties")) {
      object[key] = JsonArray({Skeleton(*items)});
    }
  }
  return object;
}

// The scalars of an object by their place.
void Scalars(const Json& json, const std::string& path, std::map<std::string, Json>& found) {
  if (const JsonObject* object = json.if_object()) {
    for (const auto& [key, value] : *object) Scalars(value, absl::StrCat(path, ".", std::string(key)), found);
  } else if (const JsonArray* array = json.if_array()) {
    for (const Json& one : *array) Scalars(one, path + "[]", found);
  } else {
    found[path] = json;
  }
}

// What a schema says for the values of a skeleton.
void Defaults(const Json& schema, const std::string& path, std::map<std::string, Json>& found) {
  for (const auto& [key, property] : schema.at("properties").get_object()) {
    const std::string place = absl::StrCat(path, ".", std::string(key));
    const JsonObject& child = property.get_object();
    if (const Json* value = child.if_contains("default")) found[place] = *value;
    if (child.contains("properties")) Defaults(property, place, found);
    if (const Json* items = child.if_contains("items");
        items != nullptr && items->get_object().contains("properties")) {
      Defaults(*items, place + "[]", found);
    }
  }
}

template <typename T, typename Spec>
void CompareDefaults(const std::map<std::string, Definition>& definitions, Spec T::* spec,
                     const std::map<std::string, Json>& only_in_code) {
  const Json& schema = definitions.at(T::kResource.kind).schema().at("properties").at("spec");
  JsonObject object;
  object["spec"] = Skeleton(schema);
  auto value = FromJson<T>(object);
  ASSERT_TRUE(value.ok()) << value.status();
  Spec& said = (*value).*spec;
  said = WithDefaults(std::move(said));
  std::map<std::string, Json> expected = only_in_code;
  Defaults(schema, "", expected);
  std::map<std::string, Json> found;
  Scalars(ToJson(*value).at("spec"), "", found);
  // Members that are always written.
  std::erase_if(found, [&](const auto& one) { return !expected.contains(one.first) && one.second == "0"; });
  for (const auto& [place, json] : expected) {
    ASSERT_TRUE(found.contains(place)) << T::kResource.kind << place;
    EXPECT_EQ(found[place], json) << T::kResource.kind << place;
    found.erase(place);
  }
  for (const auto& [place, json] : found) {
    ADD_FAILURE() << T::kResource.kind << place << ": a default in the code alone, " << boost::json::serialize(json);
  }
}

TEST(Defaults, AreThoseOfTheSchemas) {
  const auto definitions = Definitions();
  const std::string policy = ".nodeManagerConfig.nodePoolRollingUpdatePolicy";
  // What a manifest need not be shown: absence means the same.
  std::map<std::string, Json> pool = {{".defaultUsingLocalGPU", true},
                                      {policy + ".autoUpdateHypervisor", false},
                                      {policy + ".autoUpdateWorker", false},
                                      {policy + ".autoUpdateClient", false},
                                      {policy + ".paused", false},
                                      {policy + ".minReadySeconds", 0},
                                      {policy + ".maintenanceWindow.enforced", false}};
  CompareDefaults(definitions, &GPUPool::spec, pool);
  std::map<std::string, Json> cluster;
  for (const auto& [place, json] : pool) cluster[".gpuPools[].specTemplate" + place] = json;
  CompareDefaults(definitions, &TensorFusionCluster::spec, cluster);
  CompareDefaults(definitions, &TensorFusionWorkload::spec, {{".gpuCount", 1}});
  CompareDefaults(definitions, &WorkloadProfile::spec, {{".gpuCount", 1}});
  CompareDefaults(definitions, &SchedulingConfigTemplate::spec, {});
  CompareDefaults(definitions, &GPUResourceQuota::spec, {});
}

TEST(Defaults, AMissingBlockIsTheDefault) {
  const GPUPoolSpec spec = WithDefaults(GPUPoolSpec{});
  EXPECT_EQ(spec.capacityConfig->oversubscription->tflopsOversellRatio, 500);
  EXPECT_EQ(spec.nodeManagerConfig.nodePoolRollingUpdatePolicy->batchPercentage, 100);
  EXPECT_EQ(spec.nodeManagerConfig.nodePoolRollingUpdatePolicy->maintenanceWindow->timeZone, "UTC");
  EXPECT_EQ(spec.nodeManagerConfig.nodeCompaction->period, "5m");
  EXPECT_EQ(spec.qosConfig->evictionProtectionPriceRatio, "1.2");
  EXPECT_FALSE(spec.componentConfig->worker.has_value());
  EXPECT_FALSE(spec.nodeManagerConfig.nodeSelector.has_value());
  EXPECT_EQ(WithDefaults(GPUResourceQuotaSpec{}).total->maxWorkers, 32768);
}

TEST(Defaults, KeepWhatIsSaid) {
  RollingUpdatePolicy policy;
  policy.batchPercentage = 20;
  policy.maxFailures = 3;
  policy.maintenanceWindow.emplace().timeZone = "Europe/Berlin";
  const RollingUpdatePolicy full = WithDefaults(policy);
  EXPECT_EQ(full.batchPercentage, 20);
  EXPECT_EQ(full.maxFailures, 3);
  EXPECT_EQ(full.maintenanceWindow->timeZone, "Europe/Berlin");
  // Twice is as good as once.
  const GPUPoolSpec once = WithDefaults(GPUPoolSpec{});
  EXPECT_EQ(ToJson(WithDefaults(once)), ToJson(once));
}

// kubectl apply keeps a copy in an annotation, and all annotations together may have 256 KiB.
TEST(Schema, FitsIntoAnAnnotation) {
  for (const auto& [kind, definition] : Definitions()) {
    EXPECT_LT(boost::json::serialize(definition.crd).size(), 200u << 10) << kind;
  }
}

}  // namespace
}  // namespace tf::api
