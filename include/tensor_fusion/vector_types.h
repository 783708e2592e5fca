// The short vector types of CUDA C++ (int2, float4, uint3, dim3 …) and their make_ functions.
//
// A type named <scalar><n> has the members x, y, z, w in this order. Pairs and quadruples are aligned to their size (at
// most 16 bytes), so that a kernel moves them with one load; triples are aligned as their scalar.
// Plain C++ as far as the types go: a host compiler that knows nothing of CUDA takes this header too.
#pragma once

#ifdef __CUDA__
#define TF_HOST_DEVICE __attribute__((host)) __attribute__((device)) inline
#else
#define TF_HOST_DEVICE inline
#endif

#define TF_VECTOR_TYPES(scalar, name, align2, align4)                                       \
  struct name##1 { scalar x; };                                                             \
  struct alignas(align2) name##2 { scalar x, y; };                                          \
  struct name##3 { scalar x, y, z; };                                                       \
  struct alignas(align4) name##4 { scalar x, y, z, w; };                                    \
  TF_HOST_DEVICE name##1 make_##name##1(scalar x) { return {x}; }                           \
  TF_HOST_DEVICE name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }              \
  TF_HOST_DEVICE name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; } \
  TF_HOST_DEVICE name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

TF_VECTOR_TYPES(signed char, char, 2, 4)
TF_VECTOR_TYPES(unsigned char, uchar, 2, 4)
TF_VECTOR_TYPES(short, short, 4, 8)
TF_VECTOR_TYPES(unsigned short, ushort, 4, 8)
TF_VECTOR_TYPES(int, int, 8, 16)
TF_VECTOR_TYPES(unsigned int, uint, 8, 16)
TF_VECTOR_TYPES(long, long, 16, 16)
TF_VECTOR_TYPES(unsigned long, ulong, 16, 16)
TF_VECTOR_TYPES(long long, longlong, 16, 16)
TF_VECTOR_TYPES(unsigned long long, ulonglong, 16, 16)
TF_VECTOR_TYPES(float, float, 8, 16)
TF_VECTOR_TYPES(double, double, 16, 16)

#undef TF_VECTOR_TYPES

// A size in up to three dimensions; what is left out is 1.
struct dim3 {
  unsigned int x, y, z;
#ifdef __CUDA__
  __attribute__((host)) __attribute__((device))
#endif
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1)
      : x(x), y(y), z(z) {
  }
#ifdef __CUDA__
  __attribute__((host)) __attribute__((device))
#endif
  constexpr dim3(uint3 v)
      : x(v.x), y(v.y), z(v.z) {
  }
#ifdef __CUDA__
  __attribute__((host)) __attribute__((device))
#endif
  constexpr
  operator uint3() const {
    return {x, y, z};
  }
};
