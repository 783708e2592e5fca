// What is to be done about the worker pods of a TensorFusionWorkload, and what its status says. Pure;
// workload_controller carries it out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "api/workload.h"
#include "kube/object.h"

namespace tf::operators {

struct WorkloadPlan {
  int create = 0;
  std::vector<std::string> create_for = {};  // connections without a worker of their own, where each has one
  // By UID and name; `why` is for the log.
  struct Deletion {
    kube::Key key;
    std::string uid;
    std::string why;
  };
  std::vector<Deletion> remove = {};
  int failed = 0;  // of `remove`: these had failed and are replaced
  absl::Duration look_again = absl::ZeroDuration();
};

// `pods`: all that the workload controls, as the cache has them: there may be thousands. `replace_failed_in`: how long
// pods that have ended must still wait for their replacement. `workload_revision`: WorkloadRevision of the spec.
//
//  - Pods that have ended (Failed, Succeeded) are deleted when they may be replaced; until then they hold their place.
//  - Missing ones are made; surplus ones deleted: those that are not ready first, then the youngest.
//  - When the number is right, pods that were made from another template or other limits of the workload are replaced:
//    those that are not ready at once, the others one at a time, each when all are ready.
//  - The component's revision plays no part: rollouts see to it.
//  - Without `replicas` nothing is done: that is PlanDynamicWorkers' part.
WorkloadPlan PlanWorkers(const api::TensorFusionWorkload& workload, const std::vector<kube::ObjectPtr>& pods,
                         const std::string& workload_revision, absl::Duration replace_failed_in);

// Of a workload without `replicas`: each of `connections`, by name, has a worker of its own (kConnectionAnnotation),
// for as long as it is there. Changes of the workload reach the workers of later clients: a worker that was taken from
// under its client would end the client's program. Otherwise as above.
WorkloadPlan PlanDynamicWorkers(const std::vector<std::string>& connections, const std::vector<kube::ObjectPtr>& pods,
                                absl::Duration replace_failed_in);

// What stands in the way of making workers at all.
struct WorkloadProblem {
  std::string reason = {};  // "": nothing
  std::string message = {};
};

// `revision`: of the component, as new pods have it; "": not known at the moment, it stays.
api::TensorFusionWorkloadStatus StatusOf(const api::TensorFusionWorkload& workload,
                                         const std::vector<kube::ObjectPtr>& pods, const std::string& revision,
                                         const WorkloadProblem& problem, absl::Time now);

}  // namespace tf::operators
