#include "operator/references.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using Kind = Reference::Kind;

// `source` names an object under `name_key`, of which only some keys may be meant: `key` of one, or `items` of a
// volume.
void Take(Kind kind, const Json& source, std::string_view name_key, std::vector<Reference>& found) {
  Reference reference;
  reference.kind = kind;
  reference.name = std::string(kube::Text(source, name_key));
  if (reference.name.empty()) return;
  reference.optional = kube::Flag(source, "optional");
  if (const std::string_view key = kube::Text(source, "key"); !key.empty()) reference.keys.emplace(key);
  if (const Json* items = kube::Field(source, "items"); items != nullptr && items->is_array()) {
    for (const Json& item : items->get_array()) {
      if (const std::string_view key = kube::Text(item, "key"); !key.empty()) reference.keys.emplace(key);
    }
  }
  found.push_back(std::move(reference));
}

void Walk(const Json& value, std::vector<Reference>& found) {
  if (const JsonArray* array = value.if_array()) {
    for (const Json& element : *array) Walk(element, found);
    return;
  }
  const JsonObject* object = value.if_object();
  if (object == nullptr) return;
  for (const auto& member : *object) {
    const std::string_view key(member.key().data(), member.key().size());
    const Json& inner = member.value();
    if (inner.is_object()) {
      if (key == "secretKeyRef" || key == "secretRef") Take(Kind::kSecret, inner, "name", found);
      if (key == "configMapKeyRef" || key == "configMapRef") Take(Kind::kConfigMap, inner, "name", found);
      if (key == "secret") {  // of a volume, and of a source of a projected one
        Take(Kind::kSecret, inner, "secretName", found);
        Take(Kind::kSecret, inner, "name", found);
      }
      if (key == "configMap") Take(Kind::kConfigMap, inner, "name", found);
    }
    if (key != "imagePullSecrets") Walk(inner, found);
  }
}

}  // namespace

const char* KindName(Kind kind) { return kind == Kind::kSecret ? "Secret" : "ConfigMap"; }

std::vector<Reference> ReferencesOf(const Json& block) {
  std::vector<Reference> found;
  Walk(block, found);
  const auto order = [](const Reference& one) { return std::tie(one.kind, one.name, one.optional, one.keys); };
  std::sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace tf::operators
