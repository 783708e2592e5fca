// Owner references: whose child an object is, so that it goes when its owner goes. Pure helpers on objects.
#pragma once

#include "absl/status/status.h"
#include "kube/object.h"

namespace tf::kube {

// The one reference with controller: true; null pointer when there is none. Points into `object`.
const Json* ControllerOf(const Json& object);

// Is `owner` (by UID) its controller?
bool IsControlledBy(const Json& object, const Json& owner);

// Makes `owner` the controller of `object`; an earlier reference to the same UID is replaced. `owner` is an object of
// the server's, with apiVersion, kind and UID. InvalidArgument: it lives in another namespace, or has one while
// `object` has none (such children would be collected at once); AlreadyExists: something else controls `object`. The
// server asks for the permission to update `finalizers` of the owner, for deletion waits for the child.
absl::Status SetController(Json& object, const Json& owner);

// The same, without being its controller; any number of owners.
absl::Status AddOwner(Json& object, const Json& owner);

}  // namespace tf::kube
