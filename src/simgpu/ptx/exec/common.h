// What all handlers share: loops over lanes that the compiler turns into vector code, and the choice of a handler by
// type. Everything here has internal linkage, since these sources are built for two instruction sets.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "simgpu/ptx/exec/find.h"
#include "simgpu/ptx/warp.h"

#if defined(TF_PTX_V3)
#define TF_PTX_SET v3
#else
#define TF_PTX_SET plain
#endif

// Lanes never depend on one another: an operand is the same array as the destination or apart from it.
#if defined(__clang__)
#define TF_LANES(i) _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < kLanes; ++i)
#else
#define TF_LANES(i) _Pragma("GCC ivdep") for (int i = 0; i < kLanes; ++i)
#endif
#define TF_INLINE __attribute__((always_inline)) inline

namespace tf::simgpu::ptx {
namespace {

// Lanes of the mask only.
template <typename T>
TF_INLINE void Blend(T* d, const T* from, uint32_t mask) {
  TF_LANES(i) d[i] = (mask >> i) & 1 ? from[i] : d[i];
}

template <typename F>
TF_INLINE void EachLane(uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(__builtin_ctz(mask));
}

// t[i] is 0 or all ones.
TF_INLINE uint32_t PackMask(const uint32_t* t) {
#if defined(__AVX2__)
  uint32_t m = 0;
  for (int i = 0; i < 4; ++i) {
    m |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_loadu_ps(reinterpret_cast<const float*>(t + 8 * i))))
         << (8 * i);
  }
  return m;
#elif defined(__SSE2__)
  uint32_t m = 0;
  for (int i = 0; i < 8; ++i) {
    m |= static_cast<uint32_t>(_mm_movemask_ps(_mm_loadu_ps(reinterpret_cast<const float*>(t + 4 * i)))) << (4 * i);
  }
  return m;
#else
  uint32_t m = 0;
  for (int i = 0; i < kLanes; ++i) m |= (t[i] & 1) << i;
  return m;
#endif
}

TF_INLINE void SetPredicate(Warp& w, Slot slot, uint32_t value) {
  uint32_t* d = w.At<uint32_t>(slot);
  *d = (*d & ~w.mask) | (value & w.mask);
}

// Fn<F>::Run is the handler that applies F to each lane: d = F(a, b, c, e).
template <auto F>
struct Fn;

template <typename D, typename A, D (*F)(A)>
struct Fn<F> {
  static const Inst* Run(Warp& w, const Inst* in) {
    const A* a = w.At<A>(in->a);
    D* d = w.At<D>(in->d);
    alignas(64) D partial[kLanes];
    D* out = w.mask == kAllLanes ? d : partial;
    TF_LANES(i) out[i] = F(a[i]);
    if (out == partial) Blend(d, partial, w.mask);
    return in + 1;
  }
};

template <typename D, typename A, typename B, D (*F)(A, B)>
struct Fn<F> {
  static const Inst* Run(Warp& w, const Inst* in) {
    const A* a = w.At<A>(in->a);
    const B* b = w.At<B>(in->b);
    D* d = w.At<D>(in->d);
    alignas(64) D partial[kLanes];
    D* out = w.mask == kAllLanes ? d : partial;
    TF_LANES(i) out[i] = F(a[i], b[i]);
    if (out == partial) Blend(d, partial, w.mask);
    return in + 1;
  }
};

template <typename D, typename A, typename B, typename C, D (*F)(A, B, C)>
struct Fn<F> {
  static const Inst* Run(Warp& w, const Inst* in) {
    const A* a = w.At<A>(in->a);
    const B* b = w.At<B>(in->b);
    const C* c = w.At<C>(in->c);
    D* d = w.At<D>(in->d);
    alignas(64) D partial[kLanes];
    D* out = w.mask == kAllLanes ? d : partial;
    TF_LANES(i) out[i] = F(a[i], b[i], c[i]);
    if (out == partial) Blend(d, partial, w.mask);
    return in + 1;
  }
};

template <typename D, typename A, typename B, typename C, typename E, D (*F)(A, B, C, E)>
struct Fn<F> {
  static const Inst* Run(Warp& w, const Inst* in) {
    const A* a = w.At<A>(in->a);
    const B* b = w.At<B>(in->b);
    const C* c = w.At<C>(in->c);
    const E* e = w.At<E>(in->e);
    D* d = w.At<D>(in->d);
    alignas(64) D partial[kLanes];
    D* out = w.mask == kAllLanes ? d : partial;
    TF_LANES(i) out[i] = F(a[i], b[i], c[i], e[i]);
    if (out == partial) Blend(d, partial, w.mask);
    return in + 1;
  }
};

// The same with the instruction's flags as first argument, for rare operations with many modes.
template <auto F>
struct FnFlags;

template <typename D, typename... A, D (*F)(uint32_t, A...)>
struct FnFlags<F> {
  static const Inst* Run(Warp& w, const Inst* in) {
    const Slot slots[] = {in->a, in->b, in->c, in->e};
    return Apply(w, in, slots, std::make_index_sequence<sizeof...(A)>());
  }
  template <size_t... I>
  static const Inst* Apply(Warp& w, const Inst* in, const Slot* slots, std::index_sequence<I...>) {
    D* d = w.At<D>(in->d);
    EachLane(w.mask, [&](int lane) { d[lane] = F(in->flags, w.At<A>(slots[I])[lane]...); });
    return in + 1;
  }
};

template <typename P>
Handler ByUnsigned(Type type, P pick) {
  switch (SizeOf(type)) {
    case 2:
      return pick(uint16_t{});
    case 4:
      return pick(uint32_t{});
    case 8:
      return pick(uint64_t{});
    default:
      return nullptr;
  }
}

template <typename P>
Handler ByInteger(Type type, P pick) {
  switch (type) {
    case Type::kU16:
      return pick(uint16_t{});
    case Type::kU32:
      return pick(uint32_t{});
    case Type::kU64:
      return pick(uint64_t{});
    case Type::kS16:
      return pick(int16_t{});
    case Type::kS32:
      return pick(int32_t{});
    case Type::kS64:
      return pick(int64_t{});
    default:
      return nullptr;
  }
}

template <typename P>
Handler ByInteger3264(Type type, P pick) {
  return SizeOf(type) >= 4 ? ByInteger(type, pick) : nullptr;
}

}  // namespace
}  // namespace tf::simgpu::ptx
