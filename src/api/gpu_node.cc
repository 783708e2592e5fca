#include "api/gpu_node.h"

#include "api/convert.h"

namespace tf::api {

template absl::StatusOr<GPUNode> FromJson(const Json&);
template Json ToJson(const GPUNode&);
template absl::StatusOr<GPUNodeStatus> FromJson(const Json&);
template Json ToJson(const GPUNodeStatus&);
template absl::StatusOr<GPUNodeClaim> FromJson(const Json&);
template Json ToJson(const GPUNodeClaim&);
template absl::StatusOr<GPUNodeClass> FromJson(const Json&);
template Json ToJson(const GPUNodeClass&);

}  // namespace tf::api
