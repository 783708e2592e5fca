#include "api/gpu.h"

#include "api/convert.h"

namespace tf::api {

template absl::StatusOr<GPU> FromJson(const Json&);
template Json ToJson(const GPU&);
template absl::StatusOr<GPUStatus> FromJson(const Json&);
template Json ToJson(const GPUStatus&);

}  // namespace tf::api
