// What holds where a spec says nothing. The one place for it, beside the schemas' defaults, with which a test compares
// it.
//
// The API server fills in a default only inside a block that is there. These functions make the missing blocks too:
// after them every std::optional with a default has a value, at every level that they go through, so that code can read
// *spec.nodeManagerConfig.nodePoolRollingUpdatePolicy->batchPercentage without a check. Blocks whose absence says
// something stay absent: a selector, a schedule, bounds, a component. Pure functions.
#pragma once

#include "api/gpu_pool.h"
#include "api/scheduling.h"
#include "api/tensor_fusion_cluster.h"
#include "api/workload.h"

namespace tf::api {

GPUPoolSpec WithDefaults(GPUPoolSpec spec);
RollingUpdatePolicy WithDefaults(RollingUpdatePolicy policy);
TensorFusionClusterSpec WithDefaults(TensorFusionClusterSpec spec);  // its pools too
WorkloadProfileSpec WithDefaults(WorkloadProfileSpec spec);
SchedulingConfigTemplateSpec WithDefaults(SchedulingConfigTemplateSpec spec);
GPUResourceQuotaSpec WithDefaults(GPUResourceQuotaSpec spec);

}  // namespace tf::api
