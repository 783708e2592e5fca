#include "api/gpu_pool.h"

#include "api/convert.h"

namespace tf::api {

template absl::StatusOr<GPUPool> FromJson(const Json&);
template Json ToJson(const GPUPool&);
template absl::StatusOr<GPUPoolSpec> FromJson(const Json&);
template Json ToJson(const GPUPoolSpec&);
template absl::StatusOr<GPUPoolStatus> FromJson(const Json&);
template Json ToJson(const GPUPoolStatus&);

}  // namespace tf::api
