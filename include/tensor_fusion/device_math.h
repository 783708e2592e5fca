// Math functions for device code, without NVIDIA's device library: square roots, rounding and fused operations are
// single instructions and exact; the transcendental functions reduce the argument and sum a short series.
//
// Accuracy: float functions within 4 units in the last place; double exp, log, sin, cos within 4, pow within 1e-13
// relative. sin and cos lose digits beyond |x| = 1e8. The __-prefixed ones (__expf, __sinf …) are the fast
// approximations of the hardware. Included by cuda_runtime.h.
#pragma once

#include <cmath>
#include <cstdlib>

#include "vector_types.h"

#define TF_MATH1(type, name, expression) \
  __device__ __forceinline__ type name(type x) { return expression; }
#define TF_MATH2(type, name, expression) \
  __device__ __forceinline__ type name(type x, type y) { return expression; }

TF_MATH1(float, fabsf, __builtin_fabsf(x))
TF_MATH1(float, floorf, __builtin_floorf(x))
TF_MATH1(float, ceilf, __builtin_ceilf(x))
TF_MATH1(float, truncf, __builtin_truncf(x))
TF_MATH1(float, rintf, __builtin_rintf(x))
TF_MATH1(float, roundf, __builtin_roundf(x))
TF_MATH1(float, sqrtf, __nvvm_sqrt_rn_f(x))
TF_MATH1(float, rsqrtf, __nvvm_rsqrt_approx_f(x))
TF_MATH1(float, __fsqrt_rn, __nvvm_sqrt_rn_f(x))
TF_MATH1(float, __frcp_rn, __nvvm_rcp_rn_f(x))
TF_MATH2(float, fminf, __builtin_fminf(x, y))
TF_MATH2(float, fmaxf, __builtin_fmaxf(x, y))
TF_MATH2(float, fmodf, __builtin_fmodf(x, y))
TF_MATH2(float, copysignf, __builtin_copysignf(x, y))
TF_MATH2(float, __fadd_rn, __nvvm_add_rn_f(x, y))
TF_MATH2(float, __fmul_rn, __nvvm_mul_rn_f(x, y))
TF_MATH2(float, __fdiv_rn, __nvvm_div_rn_f(x, y))
TF_MATH2(float, __fdividef, __nvvm_div_approx_f(x, y))
TF_MATH1(float, __sinf, __nvvm_sin_approx_f(x))
TF_MATH1(float, __cosf, __nvvm_cos_approx_f(x))
TF_MATH1(float, __expf, __nvvm_ex2_approx_f(x * 1.44269504f))
TF_MATH1(float, __exp10f, __nvvm_ex2_approx_f(x * 3.32192809f))
TF_MATH1(float, __log2f, __nvvm_lg2_approx_f(x))
TF_MATH1(float, __logf, __nvvm_lg2_approx_f(x) * 0.69314718f)
TF_MATH1(float, __log10f, __nvvm_lg2_approx_f(x) * 0.30103000f)
TF_MATH2(float, __powf, __nvvm_ex2_approx_f(y* __nvvm_lg2_approx_f(x)))
TF_MATH1(float, exp2f, __nvvm_ex2_approx_f(x))
TF_MATH1(float, __saturatef, __nvvm_saturate_f(x))

TF_MATH1(double, fabs, __builtin_fabs(x))
TF_MATH1(double, floor, __builtin_floor(x))
TF_MATH1(double, ceil, __builtin_ceil(x))
TF_MATH1(double, trunc, __builtin_trunc(x))
TF_MATH1(double, rint, __builtin_rint(x))
TF_MATH1(double, round, __builtin_round(x))
TF_MATH1(double, sqrt, __nvvm_sqrt_rn_d(x))
TF_MATH1(double, rsqrt, 1.0 / __nvvm_sqrt_rn_d(x))
TF_MATH2(double, fmin, __builtin_fmin(x, y))
TF_MATH2(double, fmax, __builtin_fmax(x, y))
TF_MATH2(double, fmod, __builtin_fmod(x, y))
TF_MATH2(double, copysign, __builtin_copysign(x, y))

__device__ __forceinline__ float fmaf(float x, float y, float z) { return __nvvm_fma_rn_f(x, y, z); }
__device__ __forceinline__ double fma(double x, double y, double z) { return __nvvm_fma_rn_d(x, y, z); }
__device__ __forceinline__ int abs(int x) { return x < 0 ? -x : x; }
__device__ __forceinline__ long labs(long x) { return x < 0 ? -x : x; }
__device__ __forceinline__ long long llabs(long long x) { return x < 0 ? -x : x; }
__device__ __forceinline__ int __mulhi(int x, int y) { return __nvvm_mulhi_i(x, y); }
__device__ __forceinline__ unsigned int __umulhi(unsigned int x, unsigned int y) { return __nvvm_mulhi_ui(x, y); }
__device__ __forceinline__ unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return __nvvm_mulhi_ull(x, y);
}

// Values and their bits; conversions with a given rounding.
__device__ __forceinline__ int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
__device__ __forceinline__ unsigned int __float_as_uint(float x) { return __builtin_bit_cast(unsigned int, x); }
__device__ __forceinline__ float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
__device__ __forceinline__ float __uint_as_float(unsigned int x) { return __builtin_bit_cast(float, x); }
__device__ __forceinline__ long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
__device__ __forceinline__ double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
__device__ __forceinline__ int __float2int_rn(float x) { return __nvvm_f2i_rn(x); }
__device__ __forceinline__ int __float2int_rz(float x) { return __nvvm_f2i_rz(x); }
__device__ __forceinline__ int __float2int_rd(float x) { return __nvvm_f2i_rm(x); }
__device__ __forceinline__ float __int2float_rn(int x) { return __nvvm_i2f_rn(x); }
__device__ __forceinline__ float __double2float_rn(double x) { return __nvvm_d2f_rn(x); }

namespace tf_math {

// 2^k for -1074 <= k <= 1023, exactly; 0 or infinity beyond.
__device__ inline double PowerOfTwo(int k) {
  if (k > 1023) return __builtin_inf();
  if (k >= -1022) return __longlong_as_double((long long)(k + 1023) << 52);
  if (k < -1074) return 0.0;
  return __longlong_as_double(1ll << (k + 1074));
}

// exp(r) for |r| <= ln(2)/2, by the power series.
__device__ inline double ExpNearZero(double r) {
  double sum = 1.0;
  for (int n = 13; n >= 1; --n) sum = fma(sum * r, 1.0 / n, 1.0);
  return sum;
}

// sin and cos of r for |r| <= pi/4, by the power series: terms r^3/3! … r^17/17! and r^2/2! … r^18/18!.
__device__ inline double SinNearZero(double r) {
  const double square = r * r;
  double sum = 1.0;
  for (int n = 16; n >= 2; n -= 2) sum = fma(sum * square, -1.0 / (n * (n + 1)), 1.0);
  return r * sum;
}
__device__ inline double CosNearZero(double r) {
  const double square = r * r;
  double sum = 1.0;
  for (int n = 17; n >= 1; n -= 2) sum = fma(sum * square, -1.0 / (n * (n + 1)), 1.0);
  return sum;
}
__device__ inline float SinNearZero(float r) {
  const float square = r * r;
  float sum = fmaf(square, 2.7557319e-6f, -1.9841270e-4f);
  sum = fmaf(sum, square, 8.3333333e-3f);
  sum = fmaf(sum, square, -1.6666667e-1f);
  return fmaf(sum * square, r, r);
}
__device__ inline float CosNearZero(float r) {
  const float square = r * r;
  float sum = fmaf(square, -2.7557319e-7f, 2.4801587e-5f);
  sum = fmaf(sum, square, -1.3888889e-3f);
  sum = fmaf(sum, square, 4.1666667e-2f);
  sum = fmaf(sum, square, -0.5f);
  return fmaf(sum, square, 1.0f);
}

// Subtracts the nearest multiple of pi/2 from x, in three parts so that little is lost; returns the multiple.
__device__ inline int ReduceByHalfPi(double x, double* rest) {
  const double multiple = rint(x * 0.63661977236758134);
  double r = fma(-multiple, 1.5707963267948966, x);
  r = fma(-multiple, 6.1232339957367660e-17, r);
  *rest = r;
  return (int)(long long)multiple;
}
__device__ inline int ReduceByHalfPi(float x, float* rest) {
  if (fabsf(x) > 8192.0f) {
    double r;
    const int quadrant = ReduceByHalfPi((double)x, &r);
    *rest = (float)r;
    return quadrant;
  }
  const float multiple = rintf(x * 0.636619772f);
  float r = fmaf(-multiple, 1.57079637f, x);
  r = fmaf(-multiple, -4.37113883e-8f, r);
  r = fmaf(-multiple, -1.71512451e-15f, r);
  *rest = r;
  return (int)multiple;
}

// sin(x + shift * pi/2): shift 0 is sin, shift 1 is cos.
template <class T>
__device__ inline T SinShifted(T x, int shift) {
  if (!(x - x == (T)0)) return x - x;  // not finite
  T r;
  const int quadrant = ReduceByHalfPi(x, &r) + shift;
  const T value = (quadrant & 1) ? CosNearZero(r) : SinNearZero(r);
  return (quadrant & 2) ? -value : value;
}

}  // namespace tf_math

__device__ inline float sinf(float x) { return tf_math::SinShifted(x, 0); }
__device__ inline float cosf(float x) { return tf_math::SinShifted(x, 1); }
__device__ inline float tanf(float x) { return sinf(x) / cosf(x); }
__device__ inline double sin(double x) { return tf_math::SinShifted(x, 0); }
__device__ inline double cos(double x) { return tf_math::SinShifted(x, 1); }
__device__ inline double tan(double x) { return sin(x) / cos(x); }
__device__ inline void sincosf(float x, float* sine, float* cosine) {
  *sine = sinf(x);
  *cosine = cosf(x);
}

__device__ inline double exp(double x) {
  if (x > 709.79) return x * __builtin_inf();
  if (x < -745.2) return 0.0;
  if (x != x) return x;
  const double k = rint(x * 1.4426950408889634);
  double r = fma(-k, 0.69314718055994529, x);
  r = fma(-k, 2.3190468138462996e-17, r);
  // Halves of the exponent, so that neither factor leaves the range before the product does.
  const int half = (int)k / 2;
  return tf_math::ExpNearZero(r) * tf_math::PowerOfTwo(half) * tf_math::PowerOfTwo((int)k - half);
}

__device__ inline double log(double x) {
  if (!(x > 0.0)) return x == 0.0 ? -__builtin_inf() : __builtin_nan("");
  if (x == __builtin_inf()) return x;
  int exponent = 0;
  if (x < 2.2250738585072014e-308) {
    x *= 18014398509481984.0;  // 2^54: out of the subnormal range
    exponent = -54;
  }
  const long long bits = __double_as_longlong(x);
  exponent += (int)(bits >> 52) - 1023;
  double mantissa = __longlong_as_double((bits & 0xfffffffffffffll) | 0x3ff0000000000000ll);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log(m) = 2 (s + s^3/3 + s^5/5 + …) with s = (m - 1) / (m + 1), |s| < 0.172.
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = s * s;
  double sum = 1.0 / 23;
  for (int n = 21; n >= 3; n -= 2) sum = fma(sum, square, 1.0 / n);
  const double series = fma(2.0 * s * square, sum, 2.0 * s);
  return fma((double)exponent, 0.69314718055994529, fma((double)exponent, 2.3190468138462996e-17, series));
}

__device__ inline double log2(double x) { return log(x) * 1.4426950408889634; }
__device__ inline double log10(double x) { return log(x) * 0.43429448190325182; }
__device__ inline double exp2(double x) { return exp(x * 0.69314718055994529); }

__device__ inline double pow(double x, double y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (x != x || y != y) return x + y;
  if (x < 0.0) {
    if (trunc(y) != y) return __builtin_nan("");
    const double magnitude = pow(-x, y);
    return fmod(y, 2.0) == 0.0 ? magnitude : -magnitude;
  }
  return exp(y * log(x));
}

__device__ inline float expf(float x) {
  const float k = rintf(x * 1.44269504f);
  if (!(fabsf(k) < 150.0f)) return __nvvm_ex2_approx_f(x * 1.44269504f);
  const float r = fmaf(-k, -1.90465421e-9f, fmaf(-k, 0.693147182f, x));
  const int half = (int)k / 2;
  return __nvvm_ex2_approx_f(r * 1.44269504f) * __int_as_float((half + 127) << 23) *
         __int_as_float(((int)k - half + 127) << 23);
}
__device__ inline float logf(float x) { return (float)log((double)x); }
__device__ inline float log2f(float x) { return (float)log2((double)x); }
__device__ inline float log10f(float x) { return (float)log10((double)x); }
__device__ inline float powf(float x, float y) { return (float)pow((double)x, (double)y); }
__device__ inline float tanhf(float x) {
  const float magnitude = fabsf(x);
  if (magnitude < 0.02f) return fmaf(x * x, x * -0.333333333f, x);
  if (magnitude < 1.0f) {
    const double doubled = exp(2.0 * (double)x);
    return (float)((doubled - 1.0) / (doubled + 1.0));
  }
  if (magnitude > 10.0f) return copysignf(1.0f, x);
  return copysignf(1.0f - 2.0f / (expf(2.0f * magnitude) + 1.0f), x);
}

#define TF_MIN_MAX(type)                                            \
  TF_HOST_DEVICE type min(type x, type y) { return x < y ? x : y; } \
  TF_HOST_DEVICE type max(type x, type y) { return x < y ? y : x; }
TF_MIN_MAX(int)
TF_MIN_MAX(unsigned int)
TF_MIN_MAX(long)
TF_MIN_MAX(unsigned long)
TF_MIN_MAX(long long)
TF_MIN_MAX(unsigned long long)
#undef TF_MIN_MAX

__device__ __forceinline__ float min(float x, float y) { return fminf(x, y); }
__device__ __forceinline__ float max(float x, float y) { return fmaxf(x, y); }
__device__ __forceinline__ double min(double x, double y) { return fmin(x, y); }
__device__ __forceinline__ double max(double x, double y) { return fmax(x, y); }

#undef TF_MATH1
#undef TF_MATH2
