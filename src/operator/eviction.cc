#include "operator/eviction.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kube/error.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonObject;

constexpr absl::Duration kFirstPause = absl::Seconds(5);
constexpr absl::Duration kLongestPause = absl::Minutes(1);

}  // namespace

std::string RefusedBy(const absl::Status& status, const std::string& ns) {
  const std::string message(status.message());
  if (const std::optional<kube::ErrorDetails> details = kube::DetailsOf(status);
      details && kube::IsTooManyRequests(status)) {
    for (const kube::Cause& cause : details->causes) {
      if (cause.reason != "DisruptionBudget") continue;
      // "The disruption budget NAME needs 2 healthy pods and has 2 currently"
      constexpr std::string_view kBefore = "disruption budget ";
      const size_t begin = cause.message.find(kBefore);
      if (begin == std::string::npos) return absl::StrCat("PodDisruptionBudget: ", cause.message);
      const std::string name = cause.message.substr(begin + kBefore.size());
      return absl::StrCat("PodDisruptionBudget ", ns, "/", name.substr(0, name.find(' ')), ": ", cause.message);
    }
    if (message.find("disruption budget") != std::string::npos) return absl::StrCat("PodDisruptionBudget: ", message);
  }
  return message;
}

absl::Status Restarts::Do(const rollout::Action& action) {
  const kube::Key pod{action.ns, action.pod};
  if (action.how == rollout::Replace::kDelete) {
    kube::DeleteOptions options;
    options.uid = action.uid;
    options.resource_version = action.if_unchanged;
    return client_.Delete(kube::core::kPod, pod, options);
  }
  if (action.how != rollout::Replace::kEvict) {
    return absl::InternalError(absl::StrCat("pod ", pod.ToString(), " is not ours to restart"));
  }
  JsonObject preconditions{{"uid", action.uid}};
  if (!action.if_unchanged.empty()) preconditions["resourceVersion"] = action.if_unchanged;
  const Json eviction = JsonObject{{"apiVersion", "policy/v1"},
                                   {"kind", "Eviction"},
                                   {"metadata", {{"namespace", action.ns}, {"name", action.pod}}},
                                   {"deleteOptions", {{"preconditions", preconditions}}}};
  return client_.CreateSubresource(kube::core::kPod, pod, "eviction", eviction).status();
}

bool Restarts::Restart(const rollout::Action& action, absl::Time now) {
  const absl::Status done = Do(action);
  const std::lock_guard lock(mutex_);
  if (done.ok()) {
    known_[action.uid] = {.restarted = true};
    return true;
  }
  // Gone, or another one by now, or changed: the caches will say.
  if (kube::IsNotFound(done) || kube::IsConflict(done)) return true;
  Known& known = known_[action.uid];
  const absl::Duration pause = std::min(kLongestPause, kFirstPause * (int64_t{1} << std::min(known.refusals, 6)));
  ++known.refusals;
  known.refused_by = RefusedBy(done, action.ns);
  known.retry_after = now + pause;
  return false;
}

void Restarts::Amend(rollout::PodSeen& pod) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(pod.uid);
  if (found == known_.end()) return;
  if (found->second.restarted) {
    pod.terminating = true;
    pod.ready = false;
  }
  pod.refused_by = found->second.refused_by;
  pod.retry_after = found->second.retry_after;
}

void Restarts::Forget(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  known_.erase(uid);
}

}  // namespace tf::operators
