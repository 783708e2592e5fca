// Error codes of the runtime API: names, descriptions, and what a driver's code becomes. Pure functions.
#pragma once

#include "cuda/runtime_types.h"

namespace tf::cuda::runtime {

// The documented name; "unrecognized error code" for a number that is none. Never null.
const char* ErrorName(cudaError_t error);

// One line for people. Never null.
const char* ErrorDescription(cudaError_t error);

// The runtime's code for a driver's. Most numbers are equal; a driver code that the runtime does not know is
// cudaErrorUnknown.
cudaError_t FromDriver(CUresult result);

// True for failures that destroy a context: every later call in it answers the same, and cudaGetLastError keeps it.
bool IsSticky(cudaError_t error);

}  // namespace tf::cuda::runtime
