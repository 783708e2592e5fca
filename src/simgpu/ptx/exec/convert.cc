// cvt. The common conversions have vector loops; all others go through one function that knows every rule.
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "simgpu/ptx/exec/common.h"
#include "simgpu/ptx/exec/half.h"

namespace tf::simgpu::ptx {
namespace {

template <typename D, typename S>
TF_INLINE D Cast(S a) {
  return static_cast<D>(a);
}

// Toward zero, clamped to the range of the destination; NaN becomes 0.
template <typename D, typename S>
TF_INLINE D ToIntegerRz(S a) {
  constexpr S kLow = static_cast<S>(std::numeric_limits<D>::min());
  // The first value above the range is a power of two, which S holds exactly.
  constexpr S kEnd = S{2} * static_cast<S>(uint64_t{1} << (8 * sizeof(D) - 1 - std::is_signed_v<D>));
  S inside = a >= kLow && a < kEnd ? a : S{0};
  D r = static_cast<D>(inside);
  r = a >= kEnd ? std::numeric_limits<D>::max() : r;
  return a < kLow ? std::numeric_limits<D>::min() : r;
}
TF_INLINE float CanonicalFloat(double a) { return a == a ? static_cast<float>(a) : std::bit_cast<float>(0x7fffffffu); }

// ---- the general conversion ----
struct Spec {
  Type to, from;
  Rounding rounding;
  bool to_integer, ftz, sat, relu;
};
Spec Decode(uint32_t f) {
  return {static_cast<Type>(f & 31),
          static_cast<Type>((f >> 5) & 31),
          static_cast<Rounding>((f >> 10) & 7),
          (f & (1 << 13)) != 0,
          (f & (1 << 14)) != 0,
          (f & (1 << 15)) != 0,
          (f & (1 << 16)) != 0};
}

double RoundToIntegral(double x, Rounding mode) {
  switch (mode) {
    case Rounding::kRz:
      return std::trunc(x);
    case Rounding::kRm:
      return std::floor(x);
    case Rounding::kRp:
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}

int NativeMode(Rounding mode) {
  switch (mode) {
    case Rounding::kRz:
      return FE_TOWARDZERO;
    case Rounding::kRm:
      return FE_DOWNWARD;
    case Rounding::kRp:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

template <typename D, typename S>
[[gnu::noinline]] D CastWith(S x, Rounding mode) {
  int native = NativeMode(mode);
  // Zero is exact; rounded downward, clang's conversion makes -0 of the unsigned one.
  if (native == FE_TONEAREST || x == S{}) return static_cast<D>(x);
  std::fesetround(native);
  volatile S in = x;
  volatile D out = static_cast<D>(in);
  std::fesetround(FE_TONEAREST);
  return out;
}

uint64_t Clamp(double x, Type to) {
  if (std::isnan(x)) return 0;
  const int bits = static_cast<int>(8 * SizeOf(to));
  if (IsSigned(to)) {
    double limit = std::ldexp(1.0, bits - 1);
    if (x >= limit) return (uint64_t{1} << (bits - 1)) - 1;
    if (x < -limit) return static_cast<uint64_t>(-(int64_t{1} << (bits - 2)) * 2);
    return static_cast<uint64_t>(static_cast<int64_t>(x));
  }
  if (x <= 0) return 0;
  if (x >= std::ldexp(1.0, bits)) return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return static_cast<uint64_t>(x);
}

// A double that rounds to any 16-bit format as the integer would.
double OddFromInteger(uint64_t magnitude, bool negative) {
  if (magnitude >> 53) {
    int shift = 11 - __builtin_clzll(magnitude);
    uint64_t low = magnitude & ((uint64_t{1} << shift) - 1);
    magnitude = (magnitude >> shift | (low != 0)) << shift;
  }
  double x = static_cast<double>(magnitude);
  return negative ? -x : x;
}

uint64_t FromDouble(double x, const Spec& s) {
  if (s.to_integer) x = std::copysign(RoundToIntegral(x, s.rounding), x);
  if (s.sat) x = x > 0 ? (x < 1 ? x : 1.0) : 0.0;
  if (s.relu && x <= 0) x = 0;
  Rounding mode = s.to_integer ? Rounding::kRn : s.rounding;
  switch (s.to) {
    case Type::kF64:
      return std::bit_cast<uint64_t>(x);
    case Type::kF32: {
      float f = std::isnan(x) ? std::bit_cast<float>(0x7fffffffu) : CastWith<float>(x, mode);
      return std::bit_cast<uint32_t>(s.ftz ? FlushToZero(f) : f);
    }
    case Type::kF16:
      return DoubleToHalf(x, mode);
    case Type::kBf16:
      return DoubleToBf16(x, mode);
    default:
      return Clamp(RoundToIntegral(x, s.rounding), s.to);
  }
}

uint64_t Convert(uint32_t flags, uint64_t bits) {
  Spec s = Decode(flags);
  switch (s.from) {
    case Type::kF16:
      return FromDouble(HalfToFloat(static_cast<uint16_t>(bits)), s);
    case Type::kBf16:
      return FromDouble(Bf16ToFloat(static_cast<uint16_t>(bits)), s);
    case Type::kF64:
      return FromDouble(std::bit_cast<double>(bits), s);
    case Type::kF32: {
      float f = std::bit_cast<float>(static_cast<uint32_t>(bits));
      return FromDouble(s.ftz ? FlushToZero(f) : f, s);
    }
    default:
      break;
  }
  const uint32_t from_bits = 8 * SizeOf(s.from);
  if (from_bits < 64) {
    bits &= (uint64_t{1} << from_bits) - 1;
    if (IsSigned(s.from) && (bits >> (from_bits - 1))) bits |= ~uint64_t{0} << from_bits;
  }
  bool negative = IsSigned(s.from) && (bits >> 63);
  if (IsFloat(s.to)) {
    if (s.sat) return FromDouble(negative || bits == 0 ? 0.0 : 1.0, s);
    if (s.to == Type::kF64) {
      return std::bit_cast<uint64_t>(IsSigned(s.from) ? CastWith<double>(static_cast<int64_t>(bits), s.rounding)
                                                      : CastWith<double>(bits, s.rounding));
    }
    if (s.to == Type::kF32) {
      return std::bit_cast<uint32_t>(IsSigned(s.from) ? CastWith<float>(static_cast<int64_t>(bits), s.rounding)
                                                      : CastWith<float>(bits, s.rounding));
    }
    return FromDouble(OddFromInteger(negative ? 0 - bits : bits, negative), s);
  }
  if (s.sat) {
    const uint32_t to_bits = 8 * SizeOf(s.to);
    if (IsSigned(s.to)) {
      uint64_t top = (uint64_t{1} << (to_bits - 1)) - 1;
      if (negative) {
        if (bits < ~top) return ~top;
      } else if (bits > top) {
        return top;
      }
    } else {
      if (negative) return 0;
      uint64_t top = to_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << to_bits) - 1;
      if (bits > top) return top;
    }
  }
  return bits;
}

template <typename D, typename S>
const Inst* General(Warp& w, const Inst* in) {
  const S* a = w.At<S>(in->a);
  D* d = w.At<D>(in->d);
  EachLane(w.mask, [&](int i) { d[i] = static_cast<D>(Convert(in->flags, a[i])); });
  return in + 1;
}

template <typename D>
Handler GeneralTo(uint32_t from) {
  switch (from) {
    case 1:
      return &General<D, uint8_t>;
    case 2:
      return &General<D, uint16_t>;
    case 4:
      return &General<D, uint32_t>;
    case 8:
      return &General<D, uint64_t>;
    default:
      return nullptr;
  }
}

// cvt.….f16x2.f32 d, a, b: a becomes the upper half.
const Inst* PackFloats(Warp& w, const Inst* in) {
  const uint32_t *a = w.At<uint32_t>(in->a), *b = w.At<uint32_t>(in->b);
  uint32_t* d = w.At<uint32_t>(in->d);
  EachLane(w.mask, [&](int i) {
    d[i] = static_cast<uint32_t>(Convert(in->flags, b[i])) | static_cast<uint32_t>(Convert(in->flags, a[i])) << 16;
  });
  return in + 1;
}

template <typename D>
Handler IntegerTo(Type from) {
  switch (from) {
    case Type::kU8:
      return &Fn<Cast<D, uint8_t>>::Run;
    case Type::kU16:
      return &Fn<Cast<D, uint16_t>>::Run;
    case Type::kU32:
      return &Fn<Cast<D, uint32_t>>::Run;
    case Type::kU64:
      return &Fn<Cast<D, uint64_t>>::Run;
    case Type::kS8:
      return &Fn<Cast<D, int8_t>>::Run;
    case Type::kS16:
      return &Fn<Cast<D, int16_t>>::Run;
    case Type::kS32:
      return &Fn<Cast<D, int32_t>>::Run;
    case Type::kS64:
      return &Fn<Cast<D, int64_t>>::Run;
    default:
      return nullptr;
  }
}

template <typename S>
Handler RealToInteger(Type to) {
  switch (to) {
    case Type::kS32:
      return &Fn<ToIntegerRz<int32_t, S>>::Run;
    case Type::kU32:
      return &Fn<ToIntegerRz<uint32_t, S>>::Run;
    case Type::kS64:
      return &Fn<ToIntegerRz<int64_t, S>>::Run;
    case Type::kU64:
      return &Fn<ToIntegerRz<uint64_t, S>>::Run;
    default:
      return nullptr;
  }
}

Handler FindFast(const Key& k) {
  const bool real_to = IsFloat(k.type), real_from = IsFloat(k.source);
  if (k.sat || k.ftz || k.relu) return nullptr;
  if (!real_to && !real_from) {
    switch (SizeOf(k.type)) {
      case 1:
        return IntegerTo<uint8_t>(k.source);
      case 2:
        return IntegerTo<uint16_t>(k.source);
      case 4:
        return IntegerTo<uint32_t>(k.source);
      default:
        return IntegerTo<uint64_t>(k.source);
    }
  }
  if (real_to && !real_from && k.rounding == Rounding::kRn) {
    if (k.type == Type::kF32) return IntegerTo<float>(k.source);
    if (k.type == Type::kF64) return IntegerTo<double>(k.source);
  }
  if (!real_to && k.to_integer && k.rounding == Rounding::kRz) {
    if (k.source == Type::kF32) return RealToInteger<float>(k.type);
    if (k.source == Type::kF64) return RealToInteger<double>(k.type);
  }
  if (k.to_integer) return nullptr;
  if (k.type == Type::kF64 && k.source == Type::kF32) return &Fn<Cast<double, float>>::Run;
  if (k.type == Type::kF32 && k.source == Type::kF64 && k.rounding == Rounding::kRn) return &Fn<CanonicalFloat>::Run;
  if (k.type == Type::kF32 && k.source == Type::kF16) return &Fn<HalfToFloat>::Run;
  if (k.type == Type::kF16 && k.source == Type::kF32 && k.rounding == Rounding::kRn) return &Fn<FloatToHalf>::Run;
  if (k.type == Type::kF32 && k.source == Type::kBf16) return &Fn<Bf16ToFloat>::Run;
  if (k.type == Type::kBf16 && k.source == Type::kF32 && k.rounding == Rounding::kRn) return &Fn<FloatToBf16>::Run;
  return nullptr;
}

}  // namespace

namespace TF_PTX_SET {

Handler FindConvert(const Key& k) {
  if (k.op == Op::kCvtPack) return &PackFloats;
  if (k.op != Op::kCvt) return nullptr;
  if (Handler fast = FindFast(k)) return fast;
  switch (SizeOf(k.type)) {
    case 1:
      return GeneralTo<uint8_t>(SizeOf(k.source));
    case 2:
      return GeneralTo<uint16_t>(SizeOf(k.source));
    case 4:
      return GeneralTo<uint32_t>(SizeOf(k.source));
    case 8:
      return GeneralTo<uint64_t>(SizeOf(k.source));
    default:
      return nullptr;
  }
}

}  // namespace TF_PTX_SET
}  // namespace tf::simgpu::ptx
