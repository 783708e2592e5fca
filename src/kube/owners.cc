#include "kube/owners.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tf::kube {
namespace {

absl::Status Add(Json& object, const Json& owner, bool controller) {
  const std::string_view owner_ns = Namespace(owner);
  if (!owner_ns.empty() && owner_ns != Namespace(object)) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(Text(owner, "kind")), " ", KeyOf(owner).ToString(),
                                                   " cannot own ", KeyOf(object).ToString(),
                                                   ": an owner is in the same namespace or in none"));
  }
  if (Uid(owner).empty() || Text(owner, "kind").empty() || Text(owner, "apiVersion").empty()) {
    return absl::InvalidArgumentError(absl::StrCat("owner ", KeyOf(owner).ToString(),
                                                   " needs apiVersion, kind and metadata.uid: is it from the server?"));
  }
  if (const Json* other = ControllerOf(object); controller && other != nullptr && Text(*other, "uid") != Uid(owner)) {
    return absl::AlreadyExistsError(absl::StrCat(KeyOf(object).ToString(), " is controlled by ",
                                                 std::string(Text(*other, "kind")), " ",
                                                 std::string(Text(*other, "name")), " already"));
  }
  JsonObject reference{{"apiVersion", Text(owner, "apiVersion")},
                       {"kind", Text(owner, "kind")},
                       {"name", Name(owner)},
                       {"uid", Uid(owner)}};
  if (controller) {
    reference["controller"] = true;
    reference["blockOwnerDeletion"] = true;
  }
  Json& references = EnsureField(object, "metadata.ownerReferences");
  if (!references.is_array()) references = JsonArray();
  for (Json& known : references.get_array()) {
    if (Text(known, "uid") != Uid(owner)) continue;
    if (controller || !Flag(known, "controller")) known = std::move(reference);
    return absl::OkStatus();
  }
  references.get_array().push_back(std::move(reference));
  return absl::OkStatus();
}

}  // namespace

const Json* ControllerOf(const Json& object) {
  const Json* references = Field(object, "metadata.ownerReferences");
  if (references == nullptr || !references->is_array()) return nullptr;
  for (const Json& reference : references->get_array()) {
    if (Flag(reference, "controller")) return &reference;
  }
  return nullptr;
}

bool IsControlledBy(const Json& object, const Json& owner) {
  const Json* controller = ControllerOf(object);
  return controller != nullptr && !Uid(owner).empty() && Text(*controller, "uid") == Uid(owner);
}

absl::Status SetController(Json& object, const Json& owner) { return Add(object, owner, true); }
absl::Status AddOwner(Json& object, const Json& owner) { return Add(object, owner, false); }

}  // namespace tf::kube
