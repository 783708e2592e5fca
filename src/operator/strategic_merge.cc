#include "operator/strategic_merge.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

struct Shape;

// What a member of an object is, where that matters to a merge.
struct MemberShape {
  std::string_view key;
  const Shape* shape = nullptr;                  // of the value, or of the elements of a list
  std::vector<std::string_view> merge_key = {};  // of a list: what an element is known by; empty: no such list
  bool append = false;                           // of a list: what is new is added
};

struct Shape {
  std::vector<MemberShape> members = {};
  // Only one of these may be set.
  std::vector<std::string_view> one_of = {};
  // The same, for a type that has only its name beside its alternatives.
  bool one_beside_name = false;
};

struct Shapes {
  Shape any, env, volume, handler, probe, lifecycle, container, pod_spec, metadata, pod_template;

  Shapes() {
    env.one_of = {"value", "valueFrom"};
    volume.one_beside_name = true;
    handler.one_of = {"exec", "httpGet", "tcpSocket", "sleep"};
    probe.one_of = {"exec", "httpGet", "tcpSocket", "grpc"};
    lifecycle.members = {{"postStart", &handler}, {"preStop", &handler}};
    container.members = {{"env", &env, {"name"}},
                         {"ports", &any, {"containerPort", "protocol"}},
                         {"volumeMounts", &any, {"mountPath"}},
                         {"volumeDevices", &any, {"devicePath"}},
                         {"livenessProbe", &probe},
                         {"readinessProbe", &probe},
                         {"startupProbe", &probe},
                         {"lifecycle", &lifecycle}};
    pod_spec.members = {{"containers", &container, {"name"}},
                        {"initContainers", &container, {"name"}},
                        {"ephemeralContainers", &container, {"name"}},
                        {"volumes", &volume, {"name"}},
                        {"imagePullSecrets", &any, {"name"}},
                        {"resourceClaims", &volume, {"name"}},
                        {"schedulingGates", &any, {"name"}},
                        {"hostAliases", &any, {"ip"}},
                        {"topologySpreadConstraints", &any, {"topologyKey", "whenUnsatisfiable"}},
                        {"tolerations", &any, {}, true}};
    metadata.members = {{"ownerReferences", &any, {"uid"}}, {"finalizers", &any, {}, true}};
    pod_template.members = {{"metadata", &metadata}, {"spec", &pod_spec}};
  }
};

const Shapes& AllShapes() {
  static const Shapes* shapes = new Shapes;
  return *shapes;
}

const MemberShape* MemberOf(const Shape& shape, std::string_view key) {
  for (const MemberShape& member : shape.members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

std::string At(const std::string& place, std::string_view key) {
  return place.empty() ? std::string(key) : absl::StrCat(place, ".", std::string(key));
}

absl::Status Wrong(const std::string& place, const std::string& what) {
  return absl::InvalidArgumentError(place.empty() ? what : absl::StrCat(place, ": ", what));
}

// "": no directive.
absl::StatusOr<std::string> DirectiveOf(const JsonObject& patch, const std::string& place) {
  for (const auto& item : patch) {
    const std::string key(item.key());
    if (!absl::StartsWith(key, "$") || key == "$patch") continue;
    return absl::UnimplementedError(
        absl::StrCat(place, ": the directive \"", key, "\" is not supported; those that are: \"$patch\""));
  }
  const Json* directive = patch.if_contains("$patch");
  if (directive == nullptr) return std::string();
  const std::string value = directive->is_string() ? std::string(directive->get_string()) : std::string();
  if (value == "merge") return std::string();
  if (value == "delete" || value == "replace") return value;
  return Wrong(At(place, "$patch"), "expected \"merge\", \"replace\" or \"delete\"");
}

// The protocol of a port is TCP where nothing is said.
std::optional<std::string> KeyOfElement(const JsonObject& element, const std::vector<std::string_view>& merge_key) {
  std::string text;
  for (std::string_view key : merge_key) {
    const Json* value = element.if_contains(key);
    const bool missing = value == nullptr || value->is_null() || (value->is_string() && value->get_string().empty());
    if (missing && key == merge_key.front()) return std::nullopt;
    if (missing) {
      text += key == "protocol" ? "/TCP" : "/";
    } else if (value->is_string()) {
      absl::StrAppend(&text, "/", std::string(value->get_string()));
    } else if (value->is_number()) {
      absl::StrAppend(&text, "/", value->to_number<int64_t>());
    } else {
      return std::nullopt;
    }
  }
  return text;
}

absl::StatusOr<Json> MergeValue(const Json* base, const Json& patch, const MemberShape& member,
                                const std::string& place);

// A patch that meets nothing: what it says, without directives and without what it takes away.
absl::StatusOr<Json> MergeObject(const JsonObject& base, const JsonObject& patch, const Shape& shape,
                                 const std::string& place) {
  absl::StatusOr<std::string> directive = DirectiveOf(patch, place);
  if (!directive.ok()) return directive.status();
  if (*directive == "delete") return JsonObject();
  JsonObject result = directive->empty() ? base : JsonObject();

  const auto is_alternative = [&](std::string_view key) {
    return shape.one_beside_name ? key != "name"
                                 : std::find(shape.one_of.begin(), shape.one_of.end(), key) != shape.one_of.end();
  };
  std::string_view chosen;
  for (const auto& item : patch) {
    if (!item.value().is_null() && item.key() != "$patch" && is_alternative(item.key())) chosen = item.key();
  }
  if (!chosen.empty()) {
    for (auto at = result.begin(); at != result.end();) {
      const bool displaced = is_alternative(at->key()) && !patch.contains(at->key());
      at = displaced ? result.stable_erase(at) : at + 1;
    }
  }
  static const MemberShape unknown{"", nullptr};
  for (const auto& item : patch) {
    const std::string_view key = item.key();
    if (key == "$patch") continue;
    if (item.value().is_null()) {
      if (auto at = result.find(key); at != result.end()) result.stable_erase(at);
      continue;
    }
    const MemberShape* member = MemberOf(shape, key);
    absl::StatusOr<Json> merged =
        MergeValue(result.if_contains(key), item.value(), member != nullptr ? *member : unknown, At(place, key));
    if (!merged.ok()) return merged.status();
    result[key] = *std::move(merged);
  }
  return result;
}

absl::StatusOr<Json> MergeList(const JsonArray& base, const JsonArray& patch, const MemberShape& member,
                               const std::string& place) {
  JsonArray result = base;
  if (member.append) {
    for (const Json& element : patch) {
      if (std::find(result.begin(), result.end(), element) == result.end()) result.push_back(element);
    }
    return result;
  }
  for (const Json& element : patch) {
    if (element.is_object() && element.get_object().size() == 1 && element.get_object().contains("$patch")) {
      absl::StatusOr<std::string> directive = DirectiveOf(element.get_object(), place);
      if (!directive.ok()) return directive.status();
      if (!directive->empty()) result.clear();
    }
  }
  // Keys are looked up in a list of a few elements; of two elements with one key in the base the first is meant.
  const auto find = [&](const std::string& key) {
    return std::find_if(result.begin(), result.end(), [&](const Json& known) {
      return known.is_object() && KeyOfElement(known.get_object(), member.merge_key) == key;
    });
  };
  for (size_t i = 0; i < patch.size(); ++i) {
    const std::string here = absl::StrCat(place, "[", i, "]");
    if (!patch[i].is_object()) return Wrong(here, "expected an object");
    const JsonObject& element = patch[i].get_object();
    if (element.size() == 1 && element.contains("$patch")) continue;
    absl::StatusOr<std::string> directive = DirectiveOf(element, here);
    if (!directive.ok()) return directive.status();
    const std::optional<std::string> key = KeyOfElement(element, member.merge_key);
    if (!key) {
      return Wrong(here, absl::StrCat("an element of this list needs a \"", std::string(member.merge_key.front()),
                                      "\", by which it is merged"));
    }
    const auto at = find(*key);
    if (*directive == "delete") {
      if (at != result.end()) result.erase(at);
      continue;
    }
    static const JsonObject nothing;
    const JsonObject& known = at != result.end() ? at->get_object() : nothing;
    absl::StatusOr<Json> merged = MergeObject(known, element, *member.shape, here);
    if (!merged.ok()) return merged.status();
    if (at != result.end()) {
      *at = *std::move(merged);
    } else {
      result.push_back(*std::move(merged));
    }
  }
  return result;
}

absl::StatusOr<Json> MergeValue(const Json* base, const Json& patch, const MemberShape& member,
                                const std::string& place) {
  if (patch.is_object()) {
    static const JsonObject nothing;
    const bool both = base != nullptr && base->is_object();
    return MergeObject(both ? base->get_object() : nothing, patch.get_object(),
                       member.shape != nullptr ? *member.shape : AllShapes().any, place);
  }
  if (patch.is_array() && (member.append || !member.merge_key.empty())) {
    static const JsonArray nothing;
    const bool both = base != nullptr && base->is_array();
    return MergeList(both ? base->get_array() : nothing, patch.get_array(), member, place);
  }
  return patch;
}

}  // namespace

absl::StatusOr<Json> StrategicMerge(const Json& base, const Json& patch, MergeType type, std::string_view place) {
  const std::string here(place);
  if (!base.is_object() || !patch.is_object()) return Wrong(here, "expected an object");
  const Shapes& shapes = AllShapes();
  const Shape& shape = type == MergeType::kContainer ? shapes.container
                       : type == MergeType::kPodSpec ? shapes.pod_spec
                                                     : shapes.pod_template;
  return MergeObject(base.get_object(), patch.get_object(), shape, here);
}

}  // namespace tf::operators
