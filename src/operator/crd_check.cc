#include "operator/crd_check.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/crds.h"
#include "kube/error.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

using kube::Json;

// All elements of `ours` that `theirs` lacks, as text.
std::string FirstAbsent(const Json* theirs, const Json& ours) {
  if (!ours.is_array()) return "";
  for (const Json& wanted : ours.get_array()) {
    if (theirs == nullptr || !theirs->is_array() ||
        std::find(theirs->get_array().begin(), theirs->get_array().end(), wanted) == theirs->get_array().end()) {
      return boost::json::serialize(wanted);
    }
  }
  return "";
}

double AsNumber(const Json& value) { return value.is_number() ? value.to_number<double>() : 0; }

// Where `theirs` refuses or drops what `ours` takes; "" nowhere.
std::string Narrower(const Json& theirs, const Json& ours, const std::string& path) {
  if (!theirs.is_object() || !ours.is_object()) return theirs == ours ? "" : path;
  const kube::JsonObject& their = theirs.get_object();
  const kube::JsonObject& our = ours.get_object();
  const auto free = [](const kube::JsonObject& schema) {
    const Json* value = schema.if_contains("x-kubernetes-preserve-unknown-fields");
    return value != nullptr && value->is_bool() && value->get_bool();
  };
  if (free(our) && !free(their)) return absl::StrCat(path, " (free-form)");
  if (const Json* type = our.if_contains("type")) {
    const Json* other = their.if_contains("type");
    if (other == nullptr || *other != *type) return absl::StrCat(path, " (type)");
  }
  if (const Json* properties = our.if_contains("properties"); properties != nullptr && properties->is_object()) {
    const Json* others = their.if_contains("properties");
    for (const auto& property : properties->get_object()) {
      const std::string where = absl::StrCat(path, ".", std::string(property.key()));
      const Json* other =
          others != nullptr && others->is_object() ? others->get_object().if_contains(property.key()) : nullptr;
      if (other == nullptr) {
        if (free(their)) continue;
        return where;
      }
      if (std::string found = Narrower(*other, property.value(), where); !found.empty()) return found;
    }
  }
  for (const char* nested : {"items", "additionalProperties"}) {
    const Json* mine = our.if_contains(nested);
    if (mine == nullptr || !mine->is_object()) continue;
    const Json* other = their.if_contains(nested);
    const std::string where = path + (std::string_view(nested) == "items" ? "[]" : "{}");
    if (other == nullptr) return where;
    if (std::string found = Narrower(*other, *mine, where); !found.empty()) return found;
  }
  // Values that are allowed: more is wider. What must be there: less is.
  if (const Json* values = their.if_contains("enum"); values != nullptr) {
    const Json* mine = our.if_contains("enum");
    if (mine == nullptr) return absl::StrCat(path, " (values)");
    if (const std::string absent = FirstAbsent(values, *mine); !absent.empty()) {
      return absl::StrCat(path, " (value ", absent, ")");
    }
  }
  if (const Json* required = their.if_contains("required"); required != nullptr) {
    if (const std::string more = FirstAbsent(our.if_contains("required"), *required); !more.empty()) {
      return absl::StrCat(path, " (", more, " not required)");
    }
  }
  for (const char* bound : {"maximum", "maxLength", "maxItems"}) {
    const Json* other = their.if_contains(bound);
    const Json* mine = our.if_contains(bound);
    if (other != nullptr && (mine == nullptr || AsNumber(*mine) > AsNumber(*other))) {
      return absl::StrCat(path, " (", bound, ")");
    }
  }
  for (const char* bound : {"minimum", "minLength"}) {
    const Json* other = their.if_contains(bound);
    const Json* mine = our.if_contains(bound);
    if (other != nullptr && (mine == nullptr || AsNumber(*mine) < AsNumber(*other))) {
      return absl::StrCat(path, " (", bound, ")");
    }
  }
  for (const char* exact : {"pattern", "format"}) {
    const Json* other = their.if_contains(exact);
    const Json* mine = our.if_contains(exact);
    if (other != nullptr && (mine == nullptr || *mine != *other)) return absl::StrCat(path, " (", exact, ")");
  }
  // A default that is missing there is one that programs of ours do not see.
  if (our.if_contains("default") != nullptr && their.if_contains("default") == nullptr) {
    return absl::StrCat(path, " (default)");
  }
  return "";
}

const Json* Named(const Json* list, std::string_view name) {
  if (list == nullptr || !list->is_array()) return nullptr;
  for (const Json& element : list->get_array()) {
    if (kube::Text(element, "name") == name) return &element;
  }
  return nullptr;
}

}  // namespace

std::string MissingFrom(const Json& installed, const Json& ours) {
  const Json* versions = kube::Field(ours, "spec.versions");
  if (versions == nullptr || !versions->is_array()) return "";
  for (const Json& version : versions->get_array()) {
    const std::string name(kube::Text(version, "name"));
    const Json* theirs = Named(kube::Field(installed, "spec.versions"), name);
    if (theirs == nullptr) return absl::StrCat("version ", name);
    if (kube::Field(version, "subresources.status") != nullptr &&
        kube::Field(*theirs, "subresources.status") == nullptr) {
      return absl::StrCat("the status subresource of version ", name);
    }
    if (const Json* columns = kube::Field(version, "additionalPrinterColumns");
        columns != nullptr && columns->is_array()) {
      for (const Json& column : columns->get_array()) {
        const Json* other = Named(kube::Field(*theirs, "additionalPrinterColumns"), kube::Text(column, "name"));
        if (other == nullptr) return absl::StrCat("the column \"", std::string(kube::Text(column, "name")), "\"");
      }
    }
    const Json* our_schema = kube::Field(version, "schema.openAPIV3Schema");
    const Json* their_schema = kube::Field(*theirs, "schema.openAPIV3Schema");
    if (our_schema == nullptr) continue;
    if (their_schema == nullptr) return absl::StrCat("the schema of version ", name);
    if (std::string found = Narrower(*their_schema, *our_schema, ""); !found.empty()) return found;
  }
  return "";
}

absl::Status BringCrdsUpToDate(kube::Client& client, CrdPolicy policy) {
  std::vector<std::string> old;
  for (const std::string_view text : api::CustomResourceDefinitions()) {
    const auto ours = kube::ParseJson(text);
    if (!ours.ok()) return ours.status();
    const std::string name(kube::Name(*ours));
    const auto installed = client.Get(kube::core::kCustomResourceDefinition, {"", name});
    std::string missing;
    if (kube::IsNotFound(installed.status())) {
      missing = "all of it";
    } else if (!installed.ok()) {
      old.push_back(absl::StrCat(name, " (cannot be read: ", installed.status().message(), ")"));
      continue;
    } else {
      missing = MissingFrom(*installed, *ours);
    }
    if (missing.empty()) continue;
    if (policy == CrdPolicy::kApply) {
      kube::PatchOptions apply;
      apply.type = kube::PatchType::kApply;
      apply.field_manager = "tensor-fusion-operator";
      apply.force = true;
      const auto applied = client.Patch(kube::core::kCustomResourceDefinition, {"", name}, *ours, apply);
      if (applied.ok()) {
        spdlog::info("CustomResourceDefinition {} is up to date now; it lacked {}", name, missing);
        continue;
      }
      missing = absl::StrCat(missing, "; ", applied.status().message());
    }
    old.push_back(absl::StrCat(name, " (it lacks ", missing, ")"));
  }
  if (old.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "CustomResourceDefinitions are too old, and fields are lost with them: ", absl::StrJoin(old, ", "),
      ". Apply those of the chart: helm show crds tensor-fusion | kubectl apply --server-side --force-conflicts -f -"));
}

void AddCrdCheck(kube::Manager& manager, CrdPolicy policy) {
  kube::Config config = manager.config();
  config.admit_write = {};
  auto client = std::make_shared<kube::Client>(std::make_shared<const kube::Config>(std::move(config)),
                                               "tensor-fusion-operator (definitions)");
  prometheus::Gauge& outdated =
      manager.metrics().Gauge("tensor_fusion_crds_outdated",
                              "1: CustomResourceDefinitions are too old and could not be brought up to date", {});
  manager.Add({.name = "CustomResourceDefinitions",
               .start =
                   [client, policy, &outdated] {
                     const absl::Status status = BringCrdsUpToDate(*client, policy);
                     outdated.Set(status.ok() ? 0 : 1);
                     if (!status.ok()) spdlog::error("{}", std::string(status.message()));
                     return absl::OkStatus();
                   },
               .stop = [] {},
               .needs_lease = false});
}

}  // namespace tf::operators
