#include "api/workload.h"

#include "api/convert.h"

namespace tf::api {

template absl::StatusOr<WorkloadProfile> FromJson(const Json&);
template Json ToJson(const WorkloadProfile&);
template absl::StatusOr<WorkloadProfileSpec> FromJson(const Json&);
template Json ToJson(const WorkloadProfileSpec&);
template absl::StatusOr<TensorFusionWorkload> FromJson(const Json&);
template Json ToJson(const TensorFusionWorkload&);
template absl::StatusOr<TensorFusionWorkloadStatus> FromJson(const Json&);
template Json ToJson(const TensorFusionWorkloadStatus&);
template absl::StatusOr<TensorFusionConnection> FromJson(const Json&);
template Json ToJson(const TensorFusionConnection&);
template absl::StatusOr<TensorFusionConnectionStatus> FromJson(const Json&);
template Json ToJson(const TensorFusionConnectionStatus&);

}  // namespace tf::api
