// Cards by the names of their GPU objects, which are their UUIDs in lower case (Kubernetes permits no other), as CUDA
// and NVML name them.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tf::gpu {

// "gpu-6d0e…,gpu-11f2…" as CUDA_VISIBLE_DEVICES takes it: "GPU-6d0e…,GPU-11f2…". InvalidArgument names what is no UUID.
absl::StatusOr<std::string> VisibleDevices(std::string_view gpu_objects);

}  // namespace tf::gpu
