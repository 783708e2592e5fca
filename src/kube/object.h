// Kubernetes objects as JSON values, and the few names that every object has.
//
// An object in a cache is shared and never changes: ObjectPtr is const. To change one, copy it first; a plain copy
// (`Json mine = *cached`) is independent of it.
#pragma once

#include <boost/json/value.hpp>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tf::kube {

using Json = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;
using ObjectPtr = std::shared_ptr<const Json>;

// A kind as the API server serves it.
struct Resource {
  std::string group;  // "": core
  std::string version = "v1";
  std::string plural;
  std::string kind;
  bool namespaced = true;

  std::string ApiVersion() const { return group.empty() ? version : group + "/" + version; }
  bool operator==(const Resource&) const = default;
};

// The name of an object among its kind; `ns` is "" for cluster-scoped kinds.
struct Key {
  std::string ns;
  std::string name;

  std::string ToString() const { return ns.empty() ? name : ns + "/" + name; }
  auto operator<=>(const Key&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const Key& key) {
    return H::combine(std::move(state), key.ns, key.name);
  }
};

// The value at a path of object keys ("spec.nodeName"); null pointer when a part is missing or not an object. Keys with
// dots in them are not reachable so: use FieldAt.
const Json* Field(const Json& object, std::string_view path);
const Json* FieldAt(const Json& object, std::initializer_list<std::string_view> keys);
// The same as text, "" when missing or no string; as number, `otherwise` when missing or no number.
std::string_view Text(const Json& object, std::string_view path);
int64_t Number(const Json& object, std::string_view path, int64_t otherwise = 0);
bool Flag(const Json& object, std::string_view path, bool otherwise = false);

// Makes what is missing on the way. The value that was there is replaced by an object where it is none.
Json& EnsureField(Json& object, std::string_view path);

std::string_view Name(const Json& object);
std::string_view Namespace(const Json& object);
std::string_view Uid(const Json& object);
std::string_view ResourceVersion(const Json& object);
std::string_view Label(const Json& object, std::string_view name);       // "" when there is none
std::string_view Annotation(const Json& object, std::string_view name);  // "" when there is none
Key KeyOf(const Json& object);
bool IsBeingDeleted(const Json& object);  // metadata.deletionTimestamp is set

// Parses with the limits that a hostile or broken peer deserves: depth 128. InvalidArgument says where it fails.
absl::StatusOr<Json> ParseJson(std::string_view text);
// The same, in one compact block of its own that is released with the last pointer: for objects that live in caches.
absl::StatusOr<ObjectPtr> ParseShared(std::string_view text);
// A copy in such a block: for what is kept of an object that was trimmed.
ObjectPtr Compact(const Json& object);

}  // namespace tf::kube
