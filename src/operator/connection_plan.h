// Which worker a client uses, and what a client's pod makes of its TensorFusionWorkload. Pure;
// connection_controller carries it out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/workload.h"
#include "kube/object.h"

namespace tf::operators {

// A worker's pod can serve: it runs, is ready, has an address, and is not on its way out.
bool CanServe(const kube::Json& worker);

// Where its clients find it: native+IP+8000+NAME-UID, the last part so that the text is another one for another worker.
std::string ConnectionUrl(const kube::Json& worker);

// `workers`: of one workload and its namespace. `clients`: how many connections each has, by name, the one that is
// asked about left out. The present one stays as long as it can serve; else the one with the fewest clients, of equals
// the first by name. Null: none can serve at the moment.
const kube::Json* ChooseWorker(std::string_view present, const std::vector<kube::ObjectPtr>& workers,
                               const std::map<std::string, int, std::less<>>& clients);

api::TensorFusionConnectionStatus ConnectionStatusOf(const kube::Json* worker);

// The connection of a client's pod; the pod owns it.
api::TensorFusionConnection ConnectionOf(const kube::Json& pod);

// What there is to do about the workload that `pod` selects. `known`: it as it is, null: there is none. Where it was
// made for pods (kWorkloadModeAnnotation), the youngest pod says what it is; every pod's controller, or the pod itself
// where it has none, is an owner of it, and it goes with the last of them. A workload of people is only used.
struct WorkloadChange {
  enum class Kind { kNone, kCreate, kPatch };
  Kind kind = Kind::kNone;
  kube::Json body = nullptr;  // the object, or a merge patch that holds for the version of `known`
};
WorkloadChange ChangeOfWorkload(const kube::Json& pod, const api::WorkloadProfileSpec& spec, bool youngest,
                                const kube::Json* known);

// Of two pods the younger one, by name where both were made in one second.
bool IsYounger(const kube::Json& pod, const kube::Json& other);

}  // namespace tf::operators
