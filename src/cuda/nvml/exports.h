// The exported functions of libnvidia-ml.so.1, generated from nvml.table. Included by exactly one source of each
// library that offers them, outside of any namespace.
#pragma once

#include "cuda/nvml/front.h"
#include "cuda/nvml_api.h"

#define TF_EXPORT extern "C" __attribute__((visibility("default")))
#define TF_IS_NULL(pointer) ((pointer) == nullptr)

namespace tf::cuda::nvml::exports {

constexpr nvmlReturn_t kNullOutput = NVML_ERROR_INVALID_ARGUMENT;

#include "cuda/nvml_exports.inc"

}  // namespace tf::cuda::nvml::exports

#undef TF_EXPORT
#undef TF_IS_NULL
