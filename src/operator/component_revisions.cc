#include "operator/component_revisions.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "base/encoding.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

// With the keys of objects in order.
Json Sorted(const Json& value) {
  if (const JsonObject* object = value.if_object()) {
    std::vector<std::string_view> keys;
    for (const auto& member : *object) keys.emplace_back(member.key().data(), member.key().size());
    std::sort(keys.begin(), keys.end());
    JsonObject sorted;
    for (std::string_view key : keys) sorted.emplace(key, Sorted(object->at(key)));
    return sorted;
  }
  if (const JsonArray* array = value.if_array()) {
    JsonArray sorted;
    for (const Json& element : *array) sorted.push_back(Sorted(element));
    return sorted;
  }
  return value;
}

std::string Digest(const Json& value) {
  const std::string text = boost::json::serialize(Sorted(value));
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return HexEncode({reinterpret_cast<const char*>(hash.data()), 8});
}

}  // namespace

ServerRevisions::ServerRevisions(kube::Manager&) {}

absl::StatusOr<PodRevision> ServerRevisions::ForNewPod(const api::GPUPool& pool, Component component,
                                                       const std::string& vendor, const std::string& ns) {
  (void)vendor;
  (void)ns;
  api::GPUPoolSpec only_components;
  only_components.componentConfig = pool.spec.componentConfig;
  const Json spec = api::ToJson(only_components);
  const Json* block = kube::FieldAt(spec, {"componentConfig", Name(component)});
  if (block == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("GPUPool ", pool.metadata.name, " has no spec.componentConfig.",
                                                      Name(component), ": expected image and podTemplate of the ",
                                                      Name(component)));
  }
  const std::string restart(pool.metadata.Annotation(absl::StrCat(api::kRestartAnnotationPrefix, Name(component))));
  return PodRevision{Digest(JsonObject{{"config", *block}, {"restart", restart}}), *pool.spec.componentConfig};
}

}  // namespace tf::operators
