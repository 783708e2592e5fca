#include "operator/workload_plan.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "operator/pod_view.h"

namespace tf::operators {
namespace {

using kube::ObjectPtr;

bool IsServing(const ObjectPtr& pod) { return kube::Text(*pod, "status.phase") == "Running" && IsReady(*pod); }

// Those that are dispensed with first come first.
bool IsLessWorth(const ObjectPtr& a, const ObjectPtr& b) {
  const auto rank = [](const ObjectPtr& pod) {
    return std::make_tuple(IsServing(pod), !kube::Text(*pod, "spec.nodeName").empty(),
                           kube::Text(*pod, "status.phase") == "Running");
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  // As text, for the server writes all of them alike.
  const std::string_view made_a = kube::Text(*a, "metadata.creationTimestamp");
  const std::string_view made_b = kube::Text(*b, "metadata.creationTimestamp");
  if (made_a != made_b) return made_a > made_b;
  return kube::Name(*a) < kube::Name(*b);
}

// "; NAME: ImagePullBackOff: ...", "" when there is nothing to say.
std::string Why(const ObjectPtr& pod) {
  const Trouble trouble = TroubleOf(*pod);
  if (trouble.reason.empty()) return "";
  return absl::StrCat("; ", std::string(kube::Name(*pod)), ": ", trouble.reason,
                      trouble.message.empty() ? "" : absl::StrCat(": ", trouble.message));
}

}  // namespace

WorkloadPlan PlanWorkers(const api::TensorFusionWorkload& workload, const std::vector<kube::ObjectPtr>& pods,
                         const std::string& workload_revision, absl::Duration replace_failed_in) {
  WorkloadPlan plan;
  const auto remove = [&plan](const ObjectPtr& pod, std::string why) {
    plan.remove.push_back({kube::KeyOf(*pod), std::string(kube::Uid(*pod)), std::move(why)});
  };
  if (!workload.spec.replicas) return plan;
  const int desired = std::max(0, *workload.spec.replicas);
  std::vector<ObjectPtr> live, ended;
  for (const ObjectPtr& pod : pods) {
    if (kube::IsBeingDeleted(*pod)) continue;
    (IsFinished(*pod) ? ended : live).push_back(pod);
  }
  // Those that have ended and are too many wait for nothing.
  const int places = std::max(0, desired - static_cast<int>(live.size()));
  int waiting = 0;
  for (const ObjectPtr& pod : ended) {
    if (replace_failed_in > absl::ZeroDuration() && waiting < places) {
      ++waiting;
      plan.look_again = replace_failed_in;
      continue;
    }
    remove(pod, absl::StrCat("it is ", std::string(kube::Text(*pod, "status.phase"))));
    ++plan.failed;
  }
  const int missing = places - waiting;
  if (missing > 0) {
    plan.create = missing;
    return plan;
  }
  std::sort(live.begin(), live.end(), IsLessWorth);
  const int surplus = static_cast<int>(live.size()) - desired;
  if (surplus > 0) {
    for (int i = 0; i < surplus; ++i) remove(live[i], absl::StrCat(surplus, " more than replicas"));
    return plan;
  }
  const bool all_serve =
      waiting == 0 && std::all_of(live.begin(), live.end(), [](const ObjectPtr& pod) { return IsServing(pod); });
  for (const ObjectPtr& pod : live) {
    if (kube::Annotation(*pod, api::kWorkloadRevisionAnnotation) == workload_revision) continue;
    if (IsServing(pod) && !all_serve) break;  // they come after those that do not serve
    remove(pod, "template or limits of its workload have changed");
    if (IsServing(pod)) break;
  }
  return plan;
}

WorkloadPlan PlanDynamicWorkers(const std::vector<std::string>& connections, const std::vector<kube::ObjectPtr>& pods,
                                absl::Duration replace_failed_in) {
  WorkloadPlan plan;
  const std::set<std::string, std::less<>> wanted(connections.begin(), connections.end());
  std::set<std::string, std::less<>> served;
  const auto remove = [&plan](const ObjectPtr& pod, std::string why) {
    plan.remove.push_back({kube::KeyOf(*pod), std::string(kube::Uid(*pod)), std::move(why)});
  };
  std::vector<ObjectPtr> ended;
  for (const ObjectPtr& pod : pods) {
    if (kube::IsBeingDeleted(*pod)) continue;
    const std::string_view connection = kube::Annotation(*pod, api::kConnectionAnnotation);
    if (!wanted.contains(connection)) {
      remove(pod, "its client is gone");
    } else if (IsFinished(*pod)) {
      ended.push_back(pod);
    } else if (!served.emplace(connection).second) {
      remove(pod, "its client has another one");
    }
  }
  for (const ObjectPtr& pod : ended) {
    const std::string_view connection = kube::Annotation(*pod, api::kConnectionAnnotation);
    if (replace_failed_in > absl::ZeroDuration() && served.emplace(connection).second) {
      plan.look_again = replace_failed_in;
      continue;
    }
    remove(pod, absl::StrCat("it is ", std::string(kube::Text(*pod, "status.phase"))));
    ++plan.failed;
  }
  for (const std::string& connection : wanted) {
    if (!served.contains(connection)) plan.create_for.push_back(connection);
  }
  return plan;
}

api::TensorFusionWorkloadStatus StatusOf(const api::TensorFusionWorkload& workload,
                                         const std::vector<kube::ObjectPtr>& pods, const std::string& revision,
                                         const WorkloadProblem& problem, absl::Time now) {
  api::TensorFusionWorkloadStatus status = workload.status;
  status.observedGeneration = workload.metadata.generation;
  status.selector = absl::StrCat(api::kComponentLabel, "=", api::kWorkerComponent, ",", api::kWorkloadLabel, "=",
                                 workload.metadata.name);
  if (!revision.empty()) status.podTemplateHash = revision;
  int workers = 0, ready = 0, failed = 0;
  std::string why;
  for (const ObjectPtr& pod : pods) {
    if (kube::IsBeingDeleted(*pod)) continue;
    ++workers;
    if (IsServing(pod)) {
      ++ready;
    } else if (why.empty()) {
      why = Why(pod);
    }
    if (kube::Text(*pod, "status.phase") == "Failed") ++failed;
  }
  status.workerCount = workers;
  status.readyWorkers = ready;

  api::Condition condition{.type = "Ready", .status = "False", .observedGeneration = workload.metadata.generation};
  const auto say = [&](const char* phase, std::string reason, std::string message) {
    status.phase = phase;
    condition.status = std::string_view(phase) == "Running" ? "True" : "False";
    condition.reason = std::move(reason);
    condition.message = std::move(message);
  };
  const int desired = std::max(0, workload.spec.replicas.value_or(0));
  if (failed > 0) {
    say("Failed", "WorkerFailed", absl::StrCat("Failed workers num: ", failed, why));
  } else if (!problem.reason.empty() && (!workload.spec.replicas || ready < desired)) {
    say("Pending", problem.reason, problem.message);
  } else if (!workload.spec.replicas) {
    say("Running", "WorkloadReady", "Workers come and go with the clients");
  } else if (desired == 0) {
    say("Pending", "ScaledToZero", "replicas is 0");
  } else if (ready == desired) {
    say("Running", "WorkloadReady", "All workers are running");
  } else {
    say("Pending", "WaitingForWorkers", absl::StrCat("Ready replicas: ", ready, "/", desired, why));
  }
  api::SetCondition(status.conditions, std::move(condition), now);
  return status;
}

}  // namespace tf::operators
