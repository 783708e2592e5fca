// Atomic operations on global and shared memory, relaxed and of device scope, each returning the old value. Included by
// cuda_runtime.h.
#pragma once

#include "vector_types.h"

#define TF_ATOMIC(name, type, builtin, as) \
  __device__ __forceinline__ type name(type* address, type value) { return (type)builtin((as*)address, (as)value); }

TF_ATOMIC(atomicAdd, int, __nvvm_atom_add_gen_i, int)
TF_ATOMIC(atomicAdd, unsigned int, __nvvm_atom_add_gen_i, int)
TF_ATOMIC(atomicAdd, unsigned long long, __nvvm_atom_add_gen_ll, long long)
TF_ATOMIC(atomicAdd, float, __nvvm_atom_add_gen_f, float)
TF_ATOMIC(atomicAdd, double, __nvvm_atom_add_gen_d, double)
TF_ATOMIC(atomicExch, int, __nvvm_atom_xchg_gen_i, int)
TF_ATOMIC(atomicExch, unsigned int, __nvvm_atom_xchg_gen_i, int)
TF_ATOMIC(atomicExch, unsigned long long, __nvvm_atom_xchg_gen_ll, long long)
TF_ATOMIC(atomicMin, int, __nvvm_atom_min_gen_i, int)
TF_ATOMIC(atomicMin, unsigned int, __nvvm_atom_min_gen_ui, unsigned int)
TF_ATOMIC(atomicMin, long long, __nvvm_atom_min_gen_ll, long long)
TF_ATOMIC(atomicMin, unsigned long long, __nvvm_atom_min_gen_ull, unsigned long long)
TF_ATOMIC(atomicMax, int, __nvvm_atom_max_gen_i, int)
TF_ATOMIC(atomicMax, unsigned int, __nvvm_atom_max_gen_ui, unsigned int)
TF_ATOMIC(atomicMax, long long, __nvvm_atom_max_gen_ll, long long)
TF_ATOMIC(atomicMax, unsigned long long, __nvvm_atom_max_gen_ull, unsigned long long)
TF_ATOMIC(atomicInc, unsigned int, __nvvm_atom_inc_gen_ui, unsigned int)
TF_ATOMIC(atomicDec, unsigned int, __nvvm_atom_dec_gen_ui, unsigned int)
TF_ATOMIC(atomicAnd, int, __nvvm_atom_and_gen_i, int)
TF_ATOMIC(atomicAnd, unsigned int, __nvvm_atom_and_gen_i, int)
TF_ATOMIC(atomicAnd, unsigned long long, __nvvm_atom_and_gen_ll, long long)
TF_ATOMIC(atomicOr, int, __nvvm_atom_or_gen_i, int)
TF_ATOMIC(atomicOr, unsigned int, __nvvm_atom_or_gen_i, int)
TF_ATOMIC(atomicOr, unsigned long long, __nvvm_atom_or_gen_ll, long long)
TF_ATOMIC(atomicXor, int, __nvvm_atom_xor_gen_i, int)
TF_ATOMIC(atomicXor, unsigned int, __nvvm_atom_xor_gen_i, int)
TF_ATOMIC(atomicXor, unsigned long long, __nvvm_atom_xor_gen_ll, long long)
#undef TF_ATOMIC

__device__ __forceinline__ int atomicSub(int* address, int value) { return atomicAdd(address, -value); }
__device__ __forceinline__ unsigned int atomicSub(unsigned int* address, unsigned int value) {
  return atomicAdd(address, 0u - value);
}
__device__ __forceinline__ float atomicExch(float* address, float value) {
  return __builtin_bit_cast(float, __nvvm_atom_xchg_gen_i((int*)address, __builtin_bit_cast(int, value)));
}

__device__ __forceinline__ int atomicCAS(int* address, int expected, int value) {
  return __nvvm_atom_cas_gen_i(address, expected, value);
}
__device__ __forceinline__ unsigned int atomicCAS(unsigned int* address, unsigned int expected, unsigned int value) {
  return (unsigned int)__nvvm_atom_cas_gen_i((int*)address, (int)expected, (int)value);
}
__device__ __forceinline__ unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected,
                                                        unsigned long long value) {
  return (unsigned long long)__nvvm_atom_cas_gen_ll((long long*)address, (long long)expected, (long long)value);
}
