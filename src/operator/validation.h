// What the schemas cannot say of the objects that people write, said when they are written: by a validating webhook at
// /validate. Each message names the field, the value, and what is allowed.
//
// Refused is what could never work (two default pools, an unknown time zone in an enforced window); said as a warning
// is what does not do what it seems to (a misspelt field in a pod template, a window that is not enforced, a template
// that is not there). Deletions, objects that are being deleted, status and finalizers pass unseen, and so does a
// mistake that was there before: whoever repairs one thing need not repair all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kube/admission.h"
#include "kube/manager.h"
#include "kube/object.h"
#include "operator/pod_template_check.h"

namespace tf::operators {

// What else there is in the cluster, as far as known.
struct Surroundings {
  std::function<bool(const std::string& name)> has_scheduling_template = {};
  std::function<bool(const std::string& name)> has_pool = {};
  // Default pools that are not of this cluster, by name.
  std::function<std::vector<std::string>(const std::string& cluster)> other_default_pools = {};
};

// Of a TensorFusionCluster, GPUPool, TensorFusionWorkload, WorkloadProfile or SchedulingConfigTemplate; of other kinds
// nothing. Pure, as far as `around` is.
Findings CheckObject(const kube::Json& object, const Surroundings& around);

kube::AdmissionResponse Validate(const kube::AdmissionRequest& request, const Surroundings& around);

// The webhook. `pools`: the cache of all GPUPools.
void AddValidation(kube::Manager& manager, kube::Informer& pools);

}  // namespace tf::operators
