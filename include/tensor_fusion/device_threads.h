// What a kernel knows and does about its threads: built-in variables, barriers, fences, shuffles, votes, bit counting,
// clocks, printf and assert. Meanings: CUDA C++ Programming Guide. Included by cuda_runtime.h.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdio>

#include "vector_types.h"

// threadIdx.x and its like are read from special registers each time they are named: properties without storage.
#define TF_BUILTIN_VARIABLE(name, type, reg)                                                           \
  struct tf_##name {                                                                                   \
    __declspec(property(get = tf_x)) unsigned int x;                                                   \
    __declspec(property(get = tf_y)) unsigned int y;                                                   \
    __declspec(property(get = tf_z)) unsigned int z;                                                   \
    static __device__ __forceinline__ unsigned int tf_x() { return __nvvm_read_ptx_sreg_##reg##_x(); } \
    static __device__ __forceinline__ unsigned int tf_y() { return __nvvm_read_ptx_sreg_##reg##_y(); } \
    static __device__ __forceinline__ unsigned int tf_z() { return __nvvm_read_ptx_sreg_##reg##_z(); } \
    __device__ __forceinline__ operator type() const { return type{tf_x(), tf_y(), tf_z()}; }          \
                                                                                                       \
    tf_##name() = delete;                                                                              \
    tf_##name(const tf_##name&) = delete;                                                              \
  };                                                                                                   \
  extern const __device__ __attribute__((weak)) tf_##name name;

TF_BUILTIN_VARIABLE(threadIdx, uint3, tid)
TF_BUILTIN_VARIABLE(blockIdx, uint3, ctaid)
TF_BUILTIN_VARIABLE(blockDim, dim3, ntid)
TF_BUILTIN_VARIABLE(gridDim, dim3, nctaid)
#undef TF_BUILTIN_VARIABLE

__device__ const int warpSize = 32;

// Barriers and fences. __syncthreads() is known to the compiler.
__device__ __forceinline__ int __syncthreads_count(int predicate) { return __nvvm_bar0_popc(predicate); }
__device__ __forceinline__ int __syncthreads_and(int predicate) { return __nvvm_bar0_and(predicate); }
__device__ __forceinline__ int __syncthreads_or(int predicate) { return __nvvm_bar0_or(predicate); }
__device__ __forceinline__ void __syncwarp(unsigned int mask = 0xffffffff) { __nvvm_bar_warp_sync(mask); }
__device__ __forceinline__ void __threadfence_block() { __nvvm_membar_cta(); }
__device__ __forceinline__ void __threadfence() { __nvvm_membar_gl(); }
__device__ __forceinline__ void __threadfence_system() { __nvvm_membar_sys(); }

// Votes.
__device__ __forceinline__ int __all_sync(unsigned int mask, int predicate) {
  return __nvvm_vote_all_sync(mask, predicate);
}
__device__ __forceinline__ int __any_sync(unsigned int mask, int predicate) {
  return __nvvm_vote_any_sync(mask, predicate);
}
__device__ __forceinline__ unsigned int __ballot_sync(unsigned int mask, int predicate) {
  return __nvvm_vote_ballot_sync(mask, predicate);
}
__device__ __forceinline__ unsigned int __activemask() {
  unsigned int mask;
  asm volatile("activemask.b32 %0;" : "=r"(mask));
  return mask;
}
__device__ __forceinline__ unsigned int __match_any_sync(unsigned int mask, unsigned int value) {
  return __nvvm_match_any_sync_i32(mask, value);
}
__device__ __forceinline__ unsigned int __match_any_sync(unsigned int mask, int value) {
  return __nvvm_match_any_sync_i32(mask, value);
}
__device__ __forceinline__ unsigned int __match_any_sync(unsigned int mask, unsigned long long value) {
  return __nvvm_match_any_sync_i64(mask, value);
}

// Shuffles: values of 4 or 8 bytes travel as one or two 32-bit words. The last operand of shfl.sync holds the segment
// mask in bits 8-12 and the lane clamp in bits 0-4.
#define TF_SHUFFLE(name, builtin, clamp)                                                          \
  template <class T>                                                                              \
  __device__ __forceinline__ T name(unsigned int mask, T value, int lane, int width = 32) {       \
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, #name " takes values of 4 or 8 bytes");       \
    const int control = ((32 - width) << 8) | clamp;                                              \
    int words[sizeof(T) / 4];                                                                     \
    __builtin_memcpy(words, &value, sizeof(T));                                                   \
    for (size_t i = 0; i < sizeof(T) / 4; ++i) words[i] = builtin(mask, words[i], lane, control); \
    __builtin_memcpy(&value, words, sizeof(T));                                                   \
    return value;                                                                                 \
  }

TF_SHUFFLE(__shfl_sync, __nvvm_shfl_sync_idx_i32, 0x1f)
TF_SHUFFLE(__shfl_down_sync, __nvvm_shfl_sync_down_i32, 0x1f)
TF_SHUFFLE(__shfl_up_sync, __nvvm_shfl_sync_up_i32, 0)
TF_SHUFFLE(__shfl_xor_sync, __nvvm_shfl_sync_bfly_i32, 0x1f)
#undef TF_SHUFFLE

// Bits.
__device__ __forceinline__ int __popc(unsigned int value) { return __builtin_popcount(value); }
__device__ __forceinline__ int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
__device__ __forceinline__ int __clz(int value) { return value == 0 ? 32 : __builtin_clz(value); }
__device__ __forceinline__ int __clzll(long long value) { return value == 0 ? 64 : __builtin_clzll(value); }
__device__ __forceinline__ int __ffs(int value) { return __builtin_ffs(value); }
__device__ __forceinline__ int __ffsll(long long value) { return __builtin_ffsll(value); }
__device__ __forceinline__ unsigned int __brev(unsigned int value) { return __builtin_bitreverse32(value); }
__device__ __forceinline__ unsigned long long __brevll(unsigned long long value) {
  return __builtin_bitreverse64(value);
}
__device__ __forceinline__ unsigned int __byte_perm(unsigned int a, unsigned int b, unsigned int selector) {
  unsigned int result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
  return result;
}
__device__ __forceinline__ unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
  return shift &= 31, shift == 0 ? high : (high << shift) | (low >> (32 - shift));
}
__device__ __forceinline__ unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
  return shift &= 31, shift == 0 ? low : (low >> shift) | (high << (32 - shift));
}

// Reads through the cache for data that no thread writes during the kernel. A plain load is always right.
template <class T>
__device__ __forceinline__ T __ldg(const T* pointer) {
  return *pointer;
}

// Clocks: cycles of the multiprocessor.
__device__ __forceinline__ long long clock64() { return __nvvm_read_ptx_sreg_clock64(); }
__device__ __forceinline__ int clock() { return __nvvm_read_ptx_sreg_clock(); }
__device__ __forceinline__ void __nanosleep(unsigned int nanoseconds) {
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}
__device__ __forceinline__ void __trap() { __builtin_trap(); }

// printf, malloc and assert come from the driver; the compiler turns printf into vprintf with packed arguments.
extern "C" {
__device__ int vprintf(const char* format, const char* arguments);
__device__ int printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
__device__ void* malloc(size_t bytes);
__device__ void free(void* pointer);
__device__ __attribute__((noreturn)) void __assertfail(const char* message, const char* file, unsigned int line,
                                                       const char* function, size_t char_size);
// The name that the C library's assert() calls.
__device__ __attribute__((noreturn)) static __forceinline__ void __assert_fail(const char* message, const char* file,
                                                                               unsigned int line,
                                                                               const char* function) noexcept {
  __assertfail(message, file, line, function, sizeof(char));
}
}
