// CUDA C++ for programs that clang compiles without NVIDIA's toolkit (-nocudainc -nocudalib): the keywords, the
// built-in variables, the device functions and the runtime API. cmake/cuda_program.cmake has the command lines.
//
// The names and their meaning are those of the CUDA C++ Programming Guide and of the CUDA Math API, so that the same
// source compiles with nvcc; there, leave this header out:
//
//   #ifndef __NVCC__
//   #include <tensor_fusion/cuda_runtime.h>
//   #endif
#pragma once

#if defined(__clang__) && defined(__CUDA__)

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define CUDART_VERSION 12000

#include "cuda_runtime_api.h"
#include "device_atomics.h"
#include "device_math.h"
#include "device_threads.h"

#else
#error \
    "tensor_fusion/cuda_runtime.h is for clang in CUDA mode (-x cuda); a host compiler wants tensor_fusion/cuda_runtime_api.h, nvcc brings its own cuda_runtime.h"
#endif
