#include "api/scheduling.h"

#include "api/convert.h"

namespace tf::api {

template absl::StatusOr<AutoScalingConfig> FromJson(const Json&);
template Json ToJson(const AutoScalingConfig&);
template absl::StatusOr<HypervisorScheduling> FromJson(const Json&);
template Json ToJson(const HypervisorScheduling&);
template absl::StatusOr<SchedulingConfigTemplate> FromJson(const Json&);
template Json ToJson(const SchedulingConfigTemplate&);
template absl::StatusOr<GPUResourceQuota> FromJson(const Json&);
template Json ToJson(const GPUResourceQuota&);
template absl::StatusOr<GPUResourceQuotaStatus> FromJson(const Json&);
template Json ToJson(const GPUResourceQuotaStatus&);

}  // namespace tf::api
