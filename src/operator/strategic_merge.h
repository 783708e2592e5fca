// Strategic merge of pod templates: a patch that says only what differs, laid over a template.
//
// Objects are merged key by key; null takes a key away. Lists of Kubernetes' pod types are merged by the key that their
// elements have: containers, volumes, env, imagePullSecrets and the like by name, volumeMounts by mountPath, ports by
// containerPort and protocol, ownerReferences by uid. An element of the patch changes its namesake where that stands,
// or is appended. Every other list is replaced. Directives: `$patch: delete` in an element removes its namesake, in an
// object empties it; `$patch: replace` in an object or as an element of a list puts the patch in the place of what was
// there. Follows "strategic merge patch" of the Kubernetes documentation, but:
//  - tolerations are appended, without repetition: a workload's own must not take away the pool's;
//  - where only one of several keys may be set (a volume's source, a probe's or a hook's handler, value or valueFrom of
//    a variable), the one in the patch takes the place of the other, for the server would refuse both;
//  - the directives that kubectl computes ($setElementOrder, $deleteFromPrimitiveList, $retainKeys) are Unimplemented.
//
// Errors name the place: "spec.containers[1]: an element of this list needs a \"name\"". Pure.
#pragma once

#include "absl/status/statusor.h"
#include "kube/object.h"

namespace tf::operators {

// What is merged: names of members mean different things in each.
enum class MergeType { kPodTemplateSpec, kPodSpec, kContainer };

// `place` begins the places in messages, e.g. "spec.workerPodTemplate".
absl::StatusOr<kube::Json> StrategicMerge(const kube::Json& base, const kube::Json& patch,
                                          MergeType type = MergeType::kPodTemplateSpec, std::string_view place = "");

}  // namespace tf::operators
