#include "process_node/environment.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tf::process_node {
namespace {

using kube::Field;
using kube::Json;
using kube::JsonObject;
using kube::Text;

const kube::JsonArray* Items(const Json& object, std::string_view path) {
  const Json* list = Field(object, path);
  return list != nullptr && list->is_array() ? &list->get_array() : nullptr;
}

void Set(Variables& variables, const std::string& name, std::string value) {
  for (auto& [known, old] : variables) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

bool IsVariableName(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c < 127 && c != '='; });
}

// labels and annotations as the downward API writes them into a file: NAME="VALUE", sorted, escaped.
std::string Listing(const Json* map) {
  std::vector<std::string> lines;
  if (map != nullptr && map->is_object()) {
    for (const auto& item : map->get_object()) {
      if (!item.value().is_string()) continue;
      std::string value;
      for (const char c : item.value().get_string()) {
        if (c == '"' || c == '\\') value += '\\';
        if (c == '\n') {
          value += "\\n";
        } else {
          value += c;
        }
      }
      lines.push_back(absl::StrCat(std::string(item.key()), "=\"", value, "\""));
    }
  }
  std::sort(lines.begin(), lines.end());
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<std::optional<std::string>> FromReference(const Json& reference, std::string_view kind,
                                                         const std::string& ns, const Lookup& lookup) {
  const std::string name(Text(reference, "name")), key(Text(reference, "key"));
  const bool optional = kube::Flag(reference, "optional");
  const char* lower = kind == "Secret" ? "secret" : "configmap";
  const kube::ObjectPtr object = lookup(kind, name);
  if (object == nullptr) {
    if (optional) return std::nullopt;
    return absl::FailedPreconditionError(absl::StrCat(lower, " \"", name, "\" not found"));
  }
  std::optional<std::string> value = DataOf(*object, key);
  if (!value && !optional) {
    return absl::FailedPreconditionError(
        absl::StrCat("couldn't find key ", key, " in ", std::string(kind), " ", ns, "/", name));
  }
  return value;
}

}  // namespace

std::optional<std::string> DataOf(const Json& object, std::string_view key) {
  const bool secret = Text(object, "kind") == "Secret";
  if (const Json* value = kube::FieldAt(object, {"data", key}); value != nullptr && value->is_string()) {
    const std::string text(value->get_string());
    if (!secret) return text;
    std::string bytes;
    if (absl::Base64Unescape(text, &bytes)) return bytes;
    return std::nullopt;
  }
  if (const Json* value = kube::FieldAt(object, {"binaryData", key}); value != nullptr && value->is_string()) {
    std::string bytes;
    if (absl::Base64Unescape(std::string(value->get_string()), &bytes)) return bytes;
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> AllData(const Json& object) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const char* field : {"data", "binaryData"}) {
    const Json* map = Field(object, field);
    if (map == nullptr || !map->is_object()) continue;
    for (const auto& item : map->get_object()) {
      std::string key(item.key());
      std::optional<std::string> value = DataOf(object, key);
      if (value) all.emplace_back(std::move(key), std::move(*value));
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::optional<double> ParseQuantity(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const std::string copy(text);
  char* end = nullptr;
  const double number = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !std::isfinite(number)) return std::nullopt;
  const std::string suffix(end);
  static constexpr std::pair<const char*, double> kSuffixes[] = {{"", 1},
                                                                 {"n", 1e-9},
                                                                 {"u", 1e-6},
                                                                 {"m", 1e-3},
                                                                 {"k", 1e3},
                                                                 {"M", 1e6},
                                                                 {"G", 1e9},
                                                                 {"T", 1e12},
                                                                 {"P", 1e15},
                                                                 {"E", 1e18},
                                                                 {"Ki", 1024.0},
                                                                 {"Mi", 1048576.0},
                                                                 {"Gi", 1073741824.0},
                                                                 {"Ti", 1099511627776.0},
                                                                 {"Pi", 1125899906842624.0},
                                                                 {"Ei", 1152921504606846976.0}};
  for (const auto& [name, factor] : kSuffixes) {
    if (suffix == name) return number * factor;
  }
  return std::nullopt;
}

std::string Expand(std::string_view text, const Variables& variables) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '$' || at + 1 >= text.size()) {
      out += text[at++];
    } else if (text[at + 1] == '$') {
      out += '$';
      at += 2;
    } else if (text[at + 1] == '(') {
      const size_t close = text.find(')', at + 2);
      if (close == std::string_view::npos) {
        out += "$(";
        at += 2;
        continue;
      }
      const std::string_view name = text.substr(at + 2, close - at - 2);
      const auto known =
          std::find_if(variables.begin(), variables.end(), [&](const auto& one) { return one.first == name; });
      if (known != variables.end()) {
        out += known->second;
      } else {
        out += text.substr(at, close + 1 - at);
      }
      at = close + 1;
    } else {
      out += '$';
      out += text[at + 1];
      at += 2;
    }
  }
  return out;
}

std::optional<std::string> PodField(const Json& pod, std::string_view path, const std::string& pod_ip,
                                    const NodeFacts& node) {
  for (const char* map : {"metadata.labels", "metadata.annotations"}) {
    if (path == map) return Listing(Field(pod, map));
    const std::string open = absl::StrCat(map, "['");
    if (path.starts_with(open) && path.ends_with("']")) {
      const std::string_view key = path.substr(open.size(), path.size() - open.size() - 2);
      const Json* values = Field(pod, map);
      const Json* value = values != nullptr ? kube::FieldAt(*values, {key}) : nullptr;
      return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
    }
  }
  if (path == "status.podIP" || path == "status.podIPs") return pod_ip;
  if (path == "status.hostIP" || path == "status.hostIPs") return node.ip;
  if (path == "spec.serviceAccountName") {
    const std::string_view name = Text(pod, path);
    return std::string(name.empty() ? "default" : name);
  }
  if (path == "metadata.name" || path == "metadata.namespace" || path == "metadata.uid" || path == "spec.nodeName") {
    return std::string(Text(pod, path));
  }
  return std::nullopt;
}

std::string ContainerResource(const Json& container, std::string_view resource, std::string_view divisor,
                              const NodeFacts& node) {
  const size_t dot = resource.find('.');
  const std::string_view side = resource.substr(0, dot);
  const std::string_view name = dot == std::string_view::npos ? "" : resource.substr(dot + 1);
  std::optional<double> value;
  // A request that is not made follows from the limit.
  for (const std::string_view from : {side, std::string_view("limits")}) {
    const Json* set = kube::FieldAt(container, {"resources", from, name});
    if (set == nullptr || value) continue;
    value = set->is_string()  ? ParseQuantity(set->get_string())
            : set->is_int64() ? std::optional<double>(set->get_int64())
                              : std::nullopt;
  }
  if (!value) {
    value = side != "limits"   ? 0
            : name == "cpu"    ? static_cast<double>(node.cpu_millis) / 1000
            : name == "memory" ? static_cast<double>(node.memory_bytes)
                               : 0;
  }
  double unit = ParseQuantity(divisor).value_or(1);
  if (unit <= 0) unit = 1;
  return absl::StrCat(static_cast<int64_t>(std::ceil(*value / unit - 1e-9)));
}

absl::StatusOr<Variables> ContainerEnvironment(const Json& pod, const Json& container, const std::string& pod_ip,
                                               const NodeFacts& node, const Lookup& lookup, Variables first) {
  Variables all = std::move(first);
  const std::string ns(kube::Namespace(pod));
  if (const kube::JsonArray* sources = Items(container, "envFrom")) {
    for (const Json& source : *sources) {
      const std::string prefix(Text(source, "prefix"));
      for (const auto& [field, kind] : {std::pair("configMapRef", "ConfigMap"), std::pair("secretRef", "Secret")}) {
        const Json* reference = Field(source, field);
        if (reference == nullptr) continue;
        const std::string name(Text(*reference, "name"));
        const kube::ObjectPtr object = lookup(kind, name);
        if (object == nullptr) {
          if (kube::Flag(*reference, "optional")) continue;
          return absl::FailedPreconditionError(
              absl::StrCat(kind == std::string_view("Secret") ? "secret" : "configmap", " \"", name, "\" not found"));
        }
        for (auto& [key, value] : AllData(*object)) {
          if (IsVariableName(prefix + key)) Set(all, prefix + key, std::move(value));
        }
      }
    }
  }
  if (const kube::JsonArray* list = Items(container, "env")) {
    for (const Json& one : *list) {
      const std::string name(Text(one, "name"));
      const Json* from = Field(one, "valueFrom");
      if (from == nullptr || !from->is_object()) {
        Set(all, name, Expand(Text(one, "value"), all));
        continue;
      }
      if (const Json* field = Field(*from, "fieldRef")) {
        std::optional<std::string> value = PodField(pod, Text(*field, "fieldPath"), pod_ip, node);
        if (!value) {
          return absl::FailedPreconditionError(
              absl::StrCat("unsupported fieldPath: ", std::string(Text(*field, "fieldPath"))));
        }
        Set(all, name, std::move(*value));
      } else if (const Json* resource = Field(*from, "resourceFieldRef")) {
        const std::string of(Text(*resource, "containerName"));
        const Json* holder = &container;
        if (!of.empty()) {
          for (const char* lists : {"spec.containers", "spec.initContainers"}) {
            const kube::JsonArray* containers = Items(pod, lists);
            if (containers == nullptr) continue;
            for (const Json& candidate : *containers) {
              if (Text(candidate, "name") == of) holder = &candidate;
            }
          }
        }
        Set(all, name, ContainerResource(*holder, Text(*resource, "resource"), Text(*resource, "divisor"), node));
      } else {
        for (const auto& [ref, kind] :
             {std::pair("secretKeyRef", "Secret"), std::pair("configMapKeyRef", "ConfigMap")}) {
          const Json* reference = Field(*from, ref);
          if (reference == nullptr) continue;
          absl::StatusOr<std::optional<std::string>> value = FromReference(*reference, kind, ns, lookup);
          if (!value.ok()) return value.status();
          if (*value) Set(all, name, std::move(**value));
        }
      }
    }
  }
  return all;
}

}  // namespace tf::process_node
