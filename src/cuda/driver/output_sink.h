// Where the output of kernels (printf, assert) goes: the program's standard output, or a sink. libcuda.so.1 exports
// `tf_set_output_sink(OutputSink)` for a process that runs kernels on behalf of others.
#pragma once

#include <cstddef>

#include "cuda/driver_types.h"

namespace tf::cuda::driver {

// Called from any thread, in the order of the text within a context. The text ends after `size` bytes; copy it.
using OutputSink = void (*)(CUcontext context, const char* text, size_t size);

// nullptr: standard output.
void SetOutputSink(OutputSink function);

}  // namespace tf::cuda::driver
