#include "operator/workload_plan.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "operator/gpunode_plan.h"

namespace tf::operators {
namespace {

bool IsServing(const api::Pod& pod) { return pod.status.phase == "Running" && api::IsReady(pod); }

// Those that are dispensed with first come first.
bool IsLessWorth(const api::Pod* a, const api::Pod* b) {
  const auto rank = [](const api::Pod* pod) {
    return std::make_tuple(IsServing(*pod), !pod->spec.nodeName.empty(), pod->status.phase == "Running");
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  const absl::Time made_a = a->metadata.creationTimestamp.at(), made_b = b->metadata.creationTimestamp.at();
  if (made_a != made_b) return made_a > made_b;
  return a->metadata.name < b->metadata.name;
}

}  // namespace

WorkloadPlan PlanWorkers(const api::TensorFusionWorkload& workload, const std::vector<api::Pod>& pods,
                         const std::string& workload_revision, absl::Duration replace_failed_in) {
  WorkloadPlan plan;
  const auto remove = [&plan](const api::Pod& pod, std::string why) {
    plan.remove.push_back({pod.metadata.Key(), pod.metadata.uid, std::move(why)});
  };
  if (!workload.spec.replicas) return plan;
  const int desired = std::max(0, *workload.spec.replicas);
  std::vector<const api::Pod*> live, ended;
  for (const api::Pod& pod : pods) {
    if (pod.metadata.deletionTimestamp) continue;
    (api::IsFinished(pod) ? ended : live).push_back(&pod);
  }
  // Those that have ended and are too many wait for nothing.
  const int places = std::max(0, desired - static_cast<int>(live.size()));
  int waiting = 0;
  for (const api::Pod* pod : ended) {
    if (replace_failed_in > absl::ZeroDuration() && waiting < places) {
      ++waiting;
      plan.look_again = replace_failed_in;
      continue;
    }
    remove(*pod, absl::StrCat("it is ", pod->status.phase));
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
    for (int i = 0; i < surplus; ++i) remove(*live[i], absl::StrCat(surplus, " more than replicas"));
    return plan;
  }
  const bool all_serve =
      waiting == 0 && std::all_of(live.begin(), live.end(), [](const api::Pod* pod) { return IsServing(*pod); });
  for (const api::Pod* pod : live) {
    if (pod->metadata.Annotation(api::kWorkloadRevisionAnnotation) == workload_revision) continue;
    if (IsServing(*pod) && !all_serve) break;  // they come after those that do not serve
    remove(*pod, "template or limits of its workload have changed");
    if (IsServing(*pod)) break;
  }
  return plan;
}

WorkloadPlan PlanDynamicWorkers(const std::vector<std::string>& connections, const std::vector<api::Pod>& pods,
                                absl::Duration replace_failed_in) {
  WorkloadPlan plan;
  const std::set<std::string, std::less<>> wanted(connections.begin(), connections.end());
  std::set<std::string, std::less<>> served;
  const auto remove = [&plan](const api::Pod& pod, std::string why) {
    plan.remove.push_back({pod.metadata.Key(), pod.metadata.uid, std::move(why)});
  };
  std::vector<const api::Pod*> ended;
  for (const api::Pod& pod : pods) {
    if (pod.metadata.deletionTimestamp) continue;
    const std::string_view connection = pod.metadata.Annotation(api::kConnectionAnnotation);
    if (!wanted.contains(connection)) {
      remove(pod, "its client is gone");
    } else if (api::IsFinished(pod)) {
      ended.push_back(&pod);
    } else if (!served.emplace(connection).second) {
      remove(pod, "its client has another one");
    }
  }
  for (const api::Pod* pod : ended) {
    const std::string_view connection = pod->metadata.Annotation(api::kConnectionAnnotation);
    if (replace_failed_in > absl::ZeroDuration() && served.emplace(connection).second) {
      plan.look_again = replace_failed_in;
      continue;
    }
    remove(*pod, absl::StrCat("it is ", pod->status.phase));
    ++plan.failed;
  }
  for (const std::string& connection : wanted) {
    if (!served.contains(connection)) plan.create_for.push_back(connection);
  }
  return plan;
}

api::TensorFusionWorkloadStatus StatusOf(const api::TensorFusionWorkload& workload, const std::vector<api::Pod>& pods,
                                         const std::string& revision, const WorkloadProblem& problem, absl::Time now) {
  api::TensorFusionWorkloadStatus status = workload.status;
  status.observedGeneration = workload.metadata.generation;
  status.selector = absl::StrCat(api::kComponentLabel, "=", api::kWorkerComponent, ",", api::kWorkloadLabel, "=",
                                 workload.metadata.name);
  if (!revision.empty()) status.podTemplateHash = revision;
  int workers = 0, ready = 0, failed = 0;
  std::string why;
  for (const api::Pod& pod : pods) {
    if (pod.metadata.deletionTimestamp) continue;
    ++workers;
    if (IsServing(pod)) {
      ++ready;
    } else if (const std::string reason = WhyNotReady(pod); why.empty() && !reason.empty()) {
      why = absl::StrCat("; ", pod.metadata.name, ": ", reason);
    }
    if (pod.status.phase == "Failed") ++failed;
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
