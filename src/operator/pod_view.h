// A pod as rollouts see it. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "kube/object.h"
#include "rollout/engine.h"

namespace tf::operators {

// Why a pod is not ready: a word that people can look up and a sentence that names the cause (the image that cannot be
// pulled, the exit code, what the scheduler says). Both empty: nothing is known to be wrong.
struct Trouble {
  std::string reason = {};
  std::string message = {};
};
Trouble TroubleOf(const kube::Json& pod);

bool IsReady(const kube::Json& pod);
bool IsFinished(const kube::Json& pod);  // Succeeded or Failed
bool HasContainer(const kube::Json& pod, std::string_view name);
// The exit status of the last end of a container; -1: it has not ended.
int64_t LastExit(const kube::Json& pod, std::string_view container);

// By its controller: nobody makes a bare pod or one of a Job again.
rollout::Replace ReplaceOf(const kube::Json& pod);

// All of it but `revisions`, `refused_by` and `retry_after`. `node_up`: the node is there to say that the pod is ready.
rollout::PodSeen Seen(const kube::Json& pod, bool node_up);

}  // namespace tf::operators
