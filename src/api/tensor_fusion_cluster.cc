#include "api/tensor_fusion_cluster.h"

#include "api/convert.h"

namespace tf::api {

template absl::StatusOr<TensorFusionCluster> FromJson(const Json&);
template Json ToJson(const TensorFusionCluster&);
template absl::StatusOr<TensorFusionClusterSpec> FromJson(const Json&);
template Json ToJson(const TensorFusionClusterSpec&);
template absl::StatusOr<TensorFusionClusterStatus> FromJson(const Json&);
template Json ToJson(const TensorFusionClusterStatus&);

}  // namespace tf::api
