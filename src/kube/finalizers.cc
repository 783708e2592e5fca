#include "kube/finalizers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kube/error.h"

namespace tf::kube {
namespace {

constexpr char kPath[] = "metadata.finalizers";

}  // namespace

bool HasFinalizer(const Json& object, std::string_view finalizer) {
  const Json* finalizers = Field(object, kPath);
  if (finalizers == nullptr || !finalizers->is_array()) return false;
  for (const Json& one : finalizers->get_array()) {
    if (one.is_string() && std::string_view(one.get_string()) == finalizer) return true;
  }
  return false;
}

bool AddFinalizer(Json& object, std::string_view finalizer) {
  if (HasFinalizer(object, finalizer)) return false;
  Json& finalizers = EnsureField(object, kPath);
  if (!finalizers.is_array()) finalizers = JsonArray();
  finalizers.get_array().emplace_back(finalizer);
  return true;
}

bool RemoveFinalizer(Json& object, std::string_view finalizer) {
  if (!HasFinalizer(object, finalizer)) return false;
  JsonArray left;
  for (Json& one : EnsureField(object, kPath).get_array()) {
    if (!one.is_string() || std::string_view(one.get_string()) != finalizer) left.push_back(std::move(one));
  }
  EnsureField(object, kPath) = std::move(left);
  return true;
}

absl::StatusOr<Json> AddFinalizer(Client& client, const Resource& resource, const Key& key,
                                  std::string_view finalizer) {
  return RetryOnConflict(client, resource, key, [&](Json& object) -> absl::StatusOr<bool> {
    if (HasFinalizer(object, finalizer)) return false;
    if (IsBeingDeleted(object)) {
      return absl::FailedPreconditionError(absl::StrCat(resource.kind, " ", key.ToString(),
                                                        " is being deleted: finalizer ", std::string(finalizer),
                                                        " cannot be added any more"));
    }
    return AddFinalizer(object, finalizer);
  });
}

absl::Status RemoveFinalizer(Client& client, const Resource& resource, const Key& key, std::string_view finalizer) {
  const absl::Status status = RetryOnConflict(client, resource, key, [&](Json& object) -> absl::StatusOr<bool> {
                                return RemoveFinalizer(object, finalizer);
                              }).status();
  return kube::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace tf::kube
