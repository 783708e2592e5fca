#include "operator/pod_view.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "api/values.h"
#include "kube/owners.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonArray;

constexpr size_t kMaxMessage = 200;  // of what others say

std::string Cut(std::string_view text) {
  if (text.size() <= kMaxMessage) return std::string(text);
  return absl::StrCat(std::string(text.substr(0, kMaxMessage)), "…");
}

const JsonArray* Array(const Json& value, std::string_view path) {
  const Json* found = kube::Field(value, path);
  return found == nullptr ? nullptr : found->if_array();
}

absl::Time TimeAt(const Json& value, std::string_view path, absl::Time otherwise) {
  const absl::StatusOr<api::Time> time = api::Time::Parse(kube::Text(value, path));
  return time.ok() ? time->at() : otherwise;
}

const Json* Condition(const Json& pod, std::string_view type) {
  const JsonArray* conditions = Array(pod, "status.conditions");
  if (conditions == nullptr) return nullptr;
  for (const Json& condition : *conditions) {
    if (kube::Text(condition, "type") == type) return &condition;
  }
  return nullptr;
}

// "exit code 78", "exit code 137 (OOMKilled)".
std::string Exit(const Json& terminated) {
  const std::string reason(kube::Text(terminated, "reason"));
  return absl::StrCat(
      "exit code ", kube::Number(terminated, "exitCode"),
      reason.empty() || reason == "Error" || reason == "Completed" ? "" : absl::StrCat(" (", reason, ")"));
}

Trouble OfContainer(const Json& container, bool is_init) {
  const std::string name(kube::Text(container, "name"));
  const std::string title = absl::StrCat(is_init ? "init container " : "container ", name);
  const Json* last = kube::Field(container, "lastState.terminated");
  if (const Json* waiting = kube::Field(container, "state.waiting")) {
    const std::string reason(kube::Text(*waiting, "reason"));
    const std::string said = Cut(kube::Text(*waiting, "message"));
    if (reason == "ImagePullBackOff" || reason == "ErrImagePull" || reason == "InvalidImageName" ||
        reason == "ErrImageNeverPull") {
      return {reason, absl::StrCat("image ", std::string(kube::Text(container, "image")), " of ", title,
                                   " cannot be pulled", said.empty() ? "" : ": ", said)};
    }
    if (reason == "CrashLoopBackOff") {
      return {reason, absl::StrCat(title, " ends again and again",
                                   last == nullptr ? "" : absl::StrCat(", last with ", Exit(*last)))};
    }
    if (!reason.empty() && reason != "ContainerCreating" && reason != "PodInitializing") {
      return {reason, absl::StrCat(title, ": ", said.empty() ? reason : said)};
    }
  }
  if (const Json* ended = kube::Field(container, "state.terminated"); ended != nullptr) {
    if (!is_init || kube::Number(*ended, "exitCode") != 0) {
      return {"ContainerEnded", absl::StrCat(title, " ended with ", Exit(*ended))};
    }
  }
  // It runs again, and nobody knows how long.
  if (!kube::Flag(container, "ready") && last != nullptr && !is_init) {
    return {"ContainerRestarted", absl::StrCat(title, " was restarted ", kube::Number(container, "restartCount"),
                                               " times, last after ", Exit(*last))};
  }
  return {};
}

}  // namespace

Trouble TroubleOf(const Json& pod) {
  if (const Json* scheduled = Condition(pod, "PodScheduled");
      scheduled != nullptr && kube::Text(*scheduled, "status") == "False") {
    const std::string reason(kube::Text(*scheduled, "reason"));
    return {reason.empty() ? "Unschedulable" : reason, Cut(kube::Text(*scheduled, "message"))};
  }
  for (const char* list : {"status.initContainerStatuses", "status.containerStatuses"}) {
    const JsonArray* containers = Array(pod, list);
    if (containers == nullptr) continue;
    for (const Json& container : *containers) {
      Trouble trouble = OfContainer(container, list == std::string_view("status.initContainerStatuses"));
      if (!trouble.reason.empty()) return trouble;
    }
  }
  if (const Json* ready = Condition(pod, "Ready"); ready != nullptr && kube::Text(*ready, "status") != "True") {
    const std::string reason(kube::Text(*ready, "reason"));
    return {reason.empty() ? "NotReady" : reason, Cut(kube::Text(*ready, "message"))};
  }
  return {};
}

bool IsReady(const Json& pod) {
  const Json* ready = Condition(pod, "Ready");
  return ready != nullptr && kube::Text(*ready, "status") == "True";
}

bool IsFinished(const Json& pod) {
  const std::string_view phase = kube::Text(pod, "status.phase");
  return phase == "Succeeded" || phase == "Failed";
}

bool HasContainer(const Json& pod, std::string_view name) {
  for (const char* list : {"spec.containers", "spec.initContainers"}) {
    const JsonArray* containers = Array(pod, list);
    if (containers == nullptr) continue;
    for (const Json& container : *containers) {
      if (kube::Text(container, "name") == name) return true;
    }
  }
  return false;
}

int64_t LastExit(const Json& pod, std::string_view name) {
  const JsonArray* containers = Array(pod, "status.containerStatuses");
  if (containers == nullptr) return -1;
  for (const Json& container : *containers) {
    if (kube::Text(container, "name") != name) continue;
    for (const char* state : {"state.terminated", "lastState.terminated"}) {
      if (const Json* ended = kube::Field(container, state)) return kube::Number(*ended, "exitCode", -1);
    }
  }
  return -1;
}

rollout::Replace ReplaceOf(const Json& pod) {
  const Json* controller = kube::ControllerOf(pod);
  if (controller == nullptr) return rollout::Replace::kManual;
  const std::string_view kind = kube::Text(*controller, "kind");
  const bool ours = kube::Text(*controller, "apiVersion").starts_with("tensor-fusion.ai/");
  if (ours && (kind == "TensorFusionWorkload" || kind == "GPUNode")) return rollout::Replace::kDelete;
  if (kind == "Job" || kind == "Node") return rollout::Replace::kManual;
  return rollout::Replace::kEvict;
}

rollout::PodSeen Seen(const Json& pod, bool node_up) {
  rollout::PodSeen seen;
  seen.ns = std::string(kube::Namespace(pod));
  seen.name = std::string(kube::Name(pod));
  seen.uid = std::string(kube::Uid(pod));
  seen.resource_version = std::string(kube::ResourceVersion(pod));
  seen.replace = ReplaceOf(pod);
  seen.terminating = kube::IsBeingDeleted(pod);
  seen.created = TimeAt(pod, "metadata.creationTimestamp", absl::InfiniteFuture());
  const Json* ready = Condition(pod, "Ready");
  seen.ready = node_up && IsReady(pod);
  seen.since = ready == nullptr ? seen.created : TimeAt(*ready, "lastTransitionTime", absl::InfiniteFuture());
  if (const Json* controller = kube::ControllerOf(pod)) {
    seen.owner = absl::StrCat(seen.ns, "/", std::string(kube::Text(*controller, "kind")), "/",
                              std::string(kube::Text(*controller, "name")));
  }
  if (!seen.ready) {
    const Trouble trouble = TroubleOf(pod);
    seen.trouble = trouble.reason;
    seen.trouble_message = trouble.message;
  }
  return seen;
}

}  // namespace tf::operators
