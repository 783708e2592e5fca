// Which Secrets and ConfigMaps reach the containers of a pod template. Pure.
//
// Found wherever they stand: env, envFrom and volumes (projected ones too) of containers, init containers and of the
// patches of a client block, which have no fixed shape. Not imagePullSecrets: they reach the node, not the pod.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "kube/object.h"

namespace tf::operators {

struct Reference {
  enum class Kind { kSecret, kConfigMap };
  Kind kind = Kind::kSecret;
  std::string name = {};
  // Of its keys, those that reach the pod and must be there; none: all of them do.
  std::set<std::string> keys = {};
  bool optional = false;  // the pod starts without it

  bool operator==(const Reference&) const = default;
};

// "Secret" or "ConfigMap".
const char* KindName(Reference::Kind kind);

// In order of kind and name; what is the same is there once. `block` is any part of a pod template.
std::vector<Reference> ReferencesOf(const kube::Json& block);

}  // namespace tf::operators
