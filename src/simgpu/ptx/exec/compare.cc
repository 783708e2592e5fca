// setp and set.
#include <limits>

#include "simgpu/ptx/exec/common.h"
#include "simgpu/ptx/exec/half.h"

namespace tf::simgpu::ptx {
namespace {

template <typename T>
struct LanesOf {
  static TF_INLINE T Read(T x) { return x; }
};
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
template <>
struct LanesOf<F16> {
  static TF_INLINE float Read(F16 x) { return HalfToFloat(x.bits); }
};
template <>
struct LanesOf<Bf16> {
  static TF_INLINE float Read(Bf16 x) { return Bf16ToFloat(x.bits); }
};
struct FtzFloat {
  float value;
};
template <>
struct LanesOf<FtzFloat> {
  static TF_INLINE float Read(FtzFloat x) { return FlushToZero(x.value); }
};

template <Compare kCompare, typename V>
TF_INLINE bool Holds(V a, V b) {
  switch (kCompare) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      if constexpr (std::is_floating_point_v<V>) return a < b || a > b;
      return a != b;
    case Compare::kLt:
    case Compare::kLo:
      return a < b;
    case Compare::kLe:
    case Compare::kLs:
      return a <= b;
    case Compare::kGt:
    case Compare::kHi:
      return a > b;
    case Compare::kGe:
    case Compare::kHs:
      return a >= b;
    case Compare::kEqu:
      return !(a < b || a > b);
    case Compare::kNeu:
      return !(a == b);
    case Compare::kLtu:
      return !(a >= b);
    case Compare::kLeu:
      return !(a > b);
    case Compare::kGtu:
      return !(a <= b);
    case Compare::kGeu:
      return !(a < b);
    case Compare::kNum:
      return a == a && b == b;
    case Compare::kNan:
      return !(a == a && b == b);
  }
  return false;
}

template <Compare kCompare, typename T>
TF_INLINE uint32_t Lanes(const Warp& w, const Inst* in) {
  const T *a = w.At<T>(in->a), *b = w.At<T>(in->b);
  alignas(64) uint32_t t[kLanes];
  TF_LANES(i) t[i] = Holds<kCompare>(LanesOf<T>::Read(a[i]), LanesOf<T>::Read(b[i])) ? kAllLanes : 0;
  return PackMask(t);
}

// Flags: 1 c is negated; bits 4-5 how c comes in: 0 not, 1 and, 2 or, 3 xor. d and e (or none) are the results.
TF_INLINE const Inst* FinishSetp(Warp& w, const Inst* in, uint32_t r) {
  uint32_t other = ~r;
  if (in->flags & 0x30) {
    uint32_t c = *w.At<uint32_t>(in->c) ^ (in->flags & 1 ? kAllLanes : 0);
    switch ((in->flags >> 4) & 3) {
      case 1:
        r &= c;
        other &= c;
        break;
      case 2:
        r |= c;
        other |= c;
        break;
      default:
        r ^= c;
        other ^= c;
        break;
    }
  }
  if (in->d != kNoSlot) SetPredicate(w, in->d, r);
  if (in->e != kNoSlot) SetPredicate(w, in->e, other);
  return in + 1;
}

// set: flags bits 8-9 the destination: 0 all ones (32 bits), 1 1.0f, 2 f16 1.0, 3 bf16 1.0; 10: 16 bits of ones.
TF_INLINE const Inst* FinishSet(Warp& w, const Inst* in, uint32_t r) {
  if (in->flags & 0x30) {
    uint32_t c = *w.At<uint32_t>(in->c) ^ (in->flags & 1 ? kAllLanes : 0);
    switch ((in->flags >> 4) & 3) {
      case 1:
        r &= c;
        break;
      case 2:
        r |= c;
        break;
      default:
        r ^= c;
        break;
    }
  }
  auto kind = (in->flags >> 8) & 7;
  if (kind < 2) {
    uint32_t* d = w.At<uint32_t>(in->d);
    uint32_t yes = kind == 0 ? kAllLanes : 0x3f800000u;
    EachLane(w.mask, [&](int i) { d[i] = (r >> i) & 1 ? yes : 0; });
  } else {
    uint16_t* d = w.At<uint16_t>(in->d);
    auto yes = static_cast<uint16_t>(kind == 2 ? 0x3c00 : kind == 3 ? 0x3f80 : 0xffff);
    EachLane(w.mask, [&](int i) { d[i] = (r >> i) & 1 ? yes : uint16_t{0}; });
  }
  return in + 1;
}

template <Compare kCompare, typename T>
const Inst* Setp(Warp& w, const Inst* in) {
  return FinishSetp(w, in, Lanes<kCompare, T>(w, in));
}
template <Compare kCompare, typename T>
const Inst* Set(Warp& w, const Inst* in) {
  return FinishSet(w, in, Lanes<kCompare, T>(w, in));
}

// f16x2: d is the comparison of the low halves, e that of the high ones. set gives a pair of halves.
template <typename H>
bool HoldsHalf(Compare compare, uint16_t x, uint16_t y) {
  float a = LanesOf<H>::Read(H{x}), b = LanesOf<H>::Read(H{y});
  switch (compare) {
    case Compare::kEq:
      return Holds<Compare::kEq>(a, b);
    case Compare::kNe:
      return Holds<Compare::kNe>(a, b);
    case Compare::kLt:
      return Holds<Compare::kLt>(a, b);
    case Compare::kLe:
      return Holds<Compare::kLe>(a, b);
    case Compare::kGt:
      return Holds<Compare::kGt>(a, b);
    case Compare::kGe:
      return Holds<Compare::kGe>(a, b);
    case Compare::kEqu:
      return Holds<Compare::kEqu>(a, b);
    case Compare::kNeu:
      return Holds<Compare::kNeu>(a, b);
    case Compare::kLtu:
      return Holds<Compare::kLtu>(a, b);
    case Compare::kLeu:
      return Holds<Compare::kLeu>(a, b);
    case Compare::kGtu:
      return Holds<Compare::kGtu>(a, b);
    case Compare::kGeu:
      return Holds<Compare::kGeu>(a, b);
    case Compare::kNum:
      return Holds<Compare::kNum>(a, b);
    case Compare::kNan:
      return Holds<Compare::kNan>(a, b);
    default:
      return false;
  }
}
template <typename H, bool kSet>
const Inst* Pairs(Warp& w, const Inst* in) {
  const uint32_t *a = w.At<uint32_t>(in->a), *b = w.At<uint32_t>(in->b);
  auto compare = static_cast<Compare>(in->imm);
  uint32_t low = 0, high = 0;
  EachLane(w.mask, [&](int i) {
    low |= static_cast<uint32_t>(HoldsHalf<H>(compare, static_cast<uint16_t>(a[i]), static_cast<uint16_t>(b[i]))) << i;
    high |= static_cast<uint32_t>(
                HoldsHalf<H>(compare, static_cast<uint16_t>(a[i] >> 16), static_cast<uint16_t>(b[i] >> 16)))
            << i;
  });
  if (in->flags & 0x30) {
    uint32_t c = *w.At<uint32_t>(in->c) ^ (in->flags & 1 ? kAllLanes : 0);
    switch ((in->flags >> 4) & 3) {
      case 1:
        low &= c;
        high &= c;
        break;
      case 2:
        low |= c;
        high |= c;
        break;
      default:
        low ^= c;
        high ^= c;
        break;
    }
  }
  if (!kSet) {
    if (in->d != kNoSlot) SetPredicate(w, in->d, low);
    if (in->e != kNoSlot) SetPredicate(w, in->e, high);
    return in + 1;
  }
  uint32_t* d = w.At<uint32_t>(in->d);
  uint32_t kind = (in->flags >> 8) & 7;
  uint32_t yes = kind == 2 ? 0x3c00 : kind == 3 ? 0x3f80 : 0xffff;
  EachLane(w.mask, [&](int i) { d[i] = ((low >> i) & 1 ? yes : 0) | ((high >> i) & 1 ? yes << 16 : 0); });
  return in + 1;
}

template <typename T, bool kSet>
Handler ByCompare(Compare compare) {
#define TF_CASE(name) \
  case Compare::name: \
    return kSet ? &Set<Compare::name, T> : &Setp<Compare::name, T>;
  constexpr bool kReal = !std::numeric_limits<T>::is_integer;
  switch (compare) {
    TF_CASE(kEq)
    TF_CASE(kNe)
    TF_CASE(kLt)
    TF_CASE(kLe)
    TF_CASE(kGt)
    TF_CASE(kGe)
    default:
      break;
  }
  if constexpr (kReal) {
    switch (compare) {
      TF_CASE(kEqu)
      TF_CASE(kNeu)
      TF_CASE(kLtu)
      TF_CASE(kLeu)
      TF_CASE(kGtu)
      TF_CASE(kGeu)
      TF_CASE(kNum)
      TF_CASE(kNan)
      default:
        break;
    }
  } else if constexpr (std::is_unsigned_v<T>) {
    switch (compare) {
      TF_CASE(kLo)
      TF_CASE(kLs)
      TF_CASE(kHi)
      TF_CASE(kHs)
      default:
        break;
    }
  }
#undef TF_CASE
  return nullptr;
}

template <bool kSet>
Handler ByType(const Key& k) {
  switch (k.source) {
    case Type::kB16:
    case Type::kB32:
    case Type::kB64:
      if (k.compare != Compare::kEq && k.compare != Compare::kNe) return nullptr;
      return k.source == Type::kB16   ? ByCompare<uint16_t, kSet>(k.compare)
             : k.source == Type::kB32 ? ByCompare<uint32_t, kSet>(k.compare)
                                      : ByCompare<uint64_t, kSet>(k.compare);
    case Type::kU16:
      return ByCompare<uint16_t, kSet>(k.compare);
    case Type::kU32:
      return ByCompare<uint32_t, kSet>(k.compare);
    case Type::kU64:
      return ByCompare<uint64_t, kSet>(k.compare);
    case Type::kS16:
      return ByCompare<int16_t, kSet>(k.compare);
    case Type::kS32:
      return ByCompare<int32_t, kSet>(k.compare);
    case Type::kS64:
      return ByCompare<int64_t, kSet>(k.compare);
    case Type::kF32:
      return k.ftz ? ByCompare<FtzFloat, kSet>(k.compare) : ByCompare<float, kSet>(k.compare);
    case Type::kF64:
      return ByCompare<double, kSet>(k.compare);
    case Type::kF16:
      return ByCompare<F16, kSet>(k.compare);
    case Type::kBf16:
      return ByCompare<Bf16, kSet>(k.compare);
    case Type::kF16x2:
      return &Pairs<F16, kSet>;
    case Type::kBf16x2:
      return &Pairs<Bf16, kSet>;
    default:
      return nullptr;
  }
}

}  // namespace

namespace TF_PTX_SET {

Handler FindCompare(const Key& k) {
  if (k.op == Op::kSetp) return ByType<false>(k);
  if (k.op == Op::kSet) return ByType<true>(k);
  return nullptr;
}

}  // namespace TF_PTX_SET
}  // namespace tf::simgpu::ptx
