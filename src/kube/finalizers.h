// Finalizers: an object stays, marked as being deleted, until those who must clean up after it have taken their names
// off. Add before the first effect outside the cluster's objects; remove last, when all of it is undone; never add to
// an object that is being deleted (the server refuses).
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "kube/client.h"
#include "kube/object.h"

namespace tf::kube {

bool HasFinalizer(const Json& object, std::string_view finalizer);
// True: it changed.
bool AddFinalizer(Json& object, std::string_view finalizer);
bool RemoveFinalizer(Json& object, std::string_view finalizer);

// On the server, again after conflicts. Add: FailedPrecondition when the object is being deleted and does not have it.
// Gives the object as it is now.
absl::StatusOr<Json> AddFinalizer(Client& client, const Resource& resource, const Key& key, std::string_view finalizer);
// OK also when the object is gone.
absl::Status RemoveFinalizer(Client& client, const Resource& resource, const Key& key, std::string_view finalizer);

}  // namespace tf::kube
