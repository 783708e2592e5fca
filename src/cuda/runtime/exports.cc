// The exported functions of libcudart: generated from runtime.table.
#include "cuda/runtime/state.h"
#include "cuda/runtime_api.h"

#define TF_EXPORT __attribute__((visibility("default")))
#define TF_IS_NULL(pointer) ((pointer) == nullptr)

namespace tf::cuda::runtime {
namespace {

constexpr cudaError_t kNullOutput = cudaErrorInvalidValue;

extern "C" {
#include "cuda/runtime_exports.inc"
}

}  // namespace
}  // namespace tf::cuda::runtime
