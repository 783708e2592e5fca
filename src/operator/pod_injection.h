// An application's pod as it is to be to see its vGPU. Pure: computed once, on one object.
//
// Remote mode: an init container brings the client libraries into a volume; the containers that ask for the vGPU find
// them by LD_LIBRARY_PATH, and learn from the operator where their worker is, with a token of the pod that is good for
// nothing else. There is no other mode yet, and where nobody chooses cards (scheduler_extender.h) no choice of them:
// what asks for these is refused.
//
// The client's patchToPod and patchToContainer are laid over the pod first (strategic_merge.h), ours comes after: what
// the pod says of its own environment stays. Doing it again changes nothing. What nobody asked about is not touched.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/core.h"
#include "operator/component_revision.h"
#include "operator/pod_request.h"

namespace tf::operators {

// What is put into pods, by name; the names belong to it.
inline constexpr char kInjectContainer[] = "inject-lib";
inline constexpr char kLibraryVolume[] = "tf-libs";
inline constexpr char kTokenVolume[] = "tf-token";
inline constexpr char kLibraryPath[] = "/tensor-fusion";
inline constexpr char kTokenFolder[] = "/var/run/secrets/tensor-fusion.ai";
// Of the token: it opens the operator's endpoint and nothing else.
inline constexpr char kTokenAudience[] = "tensor-fusion.ai";

struct InjectionInput {
  const api::Pod& pod;  // with its namespace
  const PodRequest& request;
  const PodRevision& client;
  std::string workload = {};    // name of the TensorFusionWorkload
  std::string connection = {};  // name of the TensorFusionConnection
  std::string endpoint = {};    // of the operator, where the client's configuration names none: "http://10.0.0.1:8080"
  std::vector<std::string> native_resources = {};
  bool choose_cards = false;  // there is somebody who chooses them
};

// InvalidArgument: the pod has something under a name that is ours; it is named. Unimplemented: what it asks for.
absl::StatusOr<api::Pod> Inject(const InjectionInput& input);

// The name for a pod's connection: that which it has, where it fits the pod, else one made with `id`.
std::string ConnectionNameOf(const api::Pod& pod, const std::string& id);

}  // namespace tf::operators
