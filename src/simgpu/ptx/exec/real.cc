// Floating-point arithmetic on f32 and f64. A NaN that f32 arithmetic makes is the canonical 0x7fffffff, as the PTX ISA
// asks. The approximate instructions give better results than their error bounds demand.
#include <cfenv>
#include <cmath>
#include <limits>

#include "simgpu/ptx/exec/common.h"
#include "simgpu/ptx/exec/half.h"

namespace tf::simgpu::ptx {
namespace {

template <typename T>
TF_INLINE T Add(T a, T b) {
  return a + b;
}
template <typename T>
TF_INLINE T Sub(T a, T b) {
  return a - b;
}
template <typename T>
TF_INLINE T Mul(T a, T b) {
  return a * b;
}
template <typename T>
TF_INLINE T Div(T a, T b) {
  return a / b;
}
template <typename T>
TF_INLINE T Rcp(T a) {
  return T{1} / a;
}
template <typename T>
TF_INLINE T Sqrt(T a) {
  if constexpr (sizeof(T) == 4) return __builtin_sqrtf(a);
  return static_cast<T>(__builtin_sqrt(a));
}
template <typename T>
TF_INLINE T Rsqrt(T a) {
  return T{1} / Sqrt(a);
}
template <typename T>
TF_INLINE T Fma(T a, T b, T c) {
  if constexpr (sizeof(T) == 4) return __builtin_fmaf(a, b, c);
  return static_cast<T>(__builtin_fma(a, b, c));
}
TF_INLINE float Sin(float a) { return __builtin_sinf(a); }
TF_INLINE float Cos(float a) { return __builtin_cosf(a); }
TF_INLINE float Ex2(float a) { return __builtin_exp2f(a); }
TF_INLINE float Lg2(float a) { return __builtin_log2f(a); }
TF_INLINE float Tanh(float a) { return __builtin_tanhf(a); }

TF_INLINE float Canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7fffffffu); }
// NaN becomes +0.
TF_INLINE float Clamp01(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }

template <bool kFtz, bool kSat>
TF_INLINE float Finish(float r) {
  r = Canonical(r);
  if (kFtz) r = FlushToZero(r);
  return kSat ? Clamp01(r) : r;
}
template <bool kFtz>
TF_INLINE float In(float x) {
  return kFtz ? FlushToZero(x) : x;
}

template <auto F, bool kFtz, bool kSat>
struct Single;
template <float (*F)(float), bool kFtz, bool kSat>
struct Single<F, kFtz, kSat> {
  static TF_INLINE float Apply(float a) { return Finish<kFtz, kSat>(F(In<kFtz>(a))); }
};
template <float (*F)(float, float), bool kFtz, bool kSat>
struct Single<F, kFtz, kSat> {
  static TF_INLINE float Apply(float a, float b) { return Finish<kFtz, kSat>(F(In<kFtz>(a), In<kFtz>(b))); }
};
template <float (*F)(float, float, float), bool kFtz, bool kSat>
struct Single<F, kFtz, kSat> {
  static TF_INLINE float Apply(float a, float b, float c) {
    return Finish<kFtz, kSat>(F(In<kFtz>(a), In<kFtz>(b), In<kFtz>(c)));
  }
};

// Runs another handler with the processor's rounding mode changed.
template <Handler kInner, int kMode>
const Inst* Directed(Warp& w, const Inst* in) {
  std::fesetround(kMode);
  const Inst* next = kInner(w, in);
  std::fesetround(FE_TONEAREST);
  return next;
}
template <Handler kInner>
Handler WithRounding(Rounding rounding) {
  switch (rounding) {
    case Rounding::kRz:
      return &Directed<kInner, FE_TOWARDZERO>;
    case Rounding::kRm:
      return &Directed<kInner, FE_DOWNWARD>;
    case Rounding::kRp:
      return &Directed<kInner, FE_UPWARD>;
    case Rounding::kRna:
      return nullptr;
    default:
      return kInner;
  }
}

// All forms of an operation that rounds.
template <float (*F)(float, float), double (*G)(double, double)>
Handler Rounded(const Key& k) {
  if (k.type == Type::kF64) return k.ftz || k.sat ? nullptr : WithRounding<&Fn<G>::Run>(k.rounding);
  if (k.type != Type::kF32) return nullptr;
  if (k.sat) {
    return k.ftz ? WithRounding<&Fn<Single<F, true, true>::Apply>::Run>(k.rounding)
                 : WithRounding<&Fn<Single<F, false, true>::Apply>::Run>(k.rounding);
  }
  return k.ftz ? WithRounding<&Fn<Single<F, true, false>::Apply>::Run>(k.rounding)
               : WithRounding<&Fn<Single<F, false, false>::Apply>::Run>(k.rounding);
}
template <float (*F)(float, float, float), double (*G)(double, double, double)>
Handler Rounded(const Key& k) {
  if (k.type == Type::kF64) return k.ftz || k.sat ? nullptr : WithRounding<&Fn<G>::Run>(k.rounding);
  if (k.type != Type::kF32) return nullptr;
  if (k.sat) {
    return k.ftz ? WithRounding<&Fn<Single<F, true, true>::Apply>::Run>(k.rounding)
                 : WithRounding<&Fn<Single<F, false, true>::Apply>::Run>(k.rounding);
  }
  return k.ftz ? WithRounding<&Fn<Single<F, true, false>::Apply>::Run>(k.rounding)
               : WithRounding<&Fn<Single<F, false, false>::Apply>::Run>(k.rounding);
}
template <float (*F)(float), double (*G)(double)>
Handler Rounded(const Key& k) {
  if (k.sat) return nullptr;
  if (k.type == Type::kF64) return k.ftz && !k.approx ? nullptr : WithRounding<&Fn<G>::Run>(k.rounding);
  if (k.type != Type::kF32) return nullptr;
  return k.ftz ? WithRounding<&Fn<Single<F, true, false>::Apply>::Run>(k.rounding)
               : WithRounding<&Fn<Single<F, false, false>::Apply>::Run>(k.rounding);
}
template <float (*F)(float)>
Handler Approximate(const Key& k) {
  if (k.type != Type::kF32 || k.sat) return nullptr;
  return k.ftz ? &Fn<Single<F, true, false>::Apply>::Run : &Fn<Single<F, false, false>::Apply>::Run;
}

template <typename T>
struct BitsOf;
template <>
struct BitsOf<float> {
  using type = uint32_t;
};
template <>
struct BitsOf<double> {
  using type = uint64_t;
};
template <typename T>
using Bits = typename BitsOf<T>::type;
template <typename T>
constexpr Bits<T> kSign = Bits<T>{1} << (8 * sizeof(T) - 1);

template <typename T, bool kFtz>
TF_INLINE T Abs(T a) {
  if constexpr (kFtz) a = FlushToZero(a);
  return std::bit_cast<T>(std::bit_cast<Bits<T>>(a) & ~kSign<T>);
}
template <typename T, bool kFtz>
TF_INLINE T Neg(T a) {
  if constexpr (kFtz) a = FlushToZero(a);
  return std::bit_cast<T>(std::bit_cast<Bits<T>>(a) ^ kSign<T>);
}
template <typename T>
TF_INLINE T Copysign(T a, T b) {
  return std::bit_cast<T>((std::bit_cast<Bits<T>>(a) & kSign<T>) | (std::bit_cast<Bits<T>>(b) & ~kSign<T>));
}

// A NaN gives way to a number; -0 is less than +0.
template <typename T, bool kMax>
TF_INLINE T Pick(T a, T b) {
  auto x = std::bit_cast<Bits<T>>(a), y = std::bit_cast<Bits<T>>(b);
  T equal = std::bit_cast<T>(kMax ? x & y : x | y);  // of two zeros; of two equal numbers it is that number
  T ordered = (kMax ? a > b : a < b) ? a : (kMax ? b > a : b < a) ? b : equal;
  T canonical;
  if constexpr (sizeof(T) == 4) {
    canonical = std::bit_cast<T>(0x7fffffffu);
  } else {
    canonical = std::bit_cast<T>(0x7fffffffffffffffull);
  }
  return a != a ? (b != b ? canonical : b) : b != b ? a : ordered;
}
template <bool kMax, bool kFtz, bool kNan, bool kXorSign>
TF_INLINE float PickSingle(float a, float b) {
  a = In<kFtz>(a);
  b = In<kFtz>(b);
  uint32_t sign = (std::bit_cast<uint32_t>(a) ^ std::bit_cast<uint32_t>(b)) & 0x80000000u;
  float r = kXorSign ? Pick<float, kMax>(Abs<float, false>(a), Abs<float, false>(b)) : Pick<float, kMax>(a, b);
  if (kXorSign && r == r) r = std::bit_cast<float>(std::bit_cast<uint32_t>(r) | sign);
  return kNan && (a != a || b != b) ? std::bit_cast<float>(0x7fffffffu) : r;
}
template <bool kMax>
Handler FindPick(const Key& k) {
  if (k.type == Type::kF64) return k.ftz || k.nan || k.xorsign ? nullptr : &Fn<Pick<double, kMax>>::Run;
  if (k.type != Type::kF32 || k.relu) return nullptr;
  if (k.xorsign) {
    if (k.ftz)
      return k.nan ? &Fn<PickSingle<kMax, true, true, true>>::Run : &Fn<PickSingle<kMax, true, false, true>>::Run;
    return k.nan ? &Fn<PickSingle<kMax, false, true, true>>::Run : &Fn<PickSingle<kMax, false, false, true>>::Run;
  }
  if (k.ftz)
    return k.nan ? &Fn<PickSingle<kMax, true, true, false>>::Run : &Fn<PickSingle<kMax, true, false, false>>::Run;
  return k.nan ? &Fn<PickSingle<kMax, false, true, false>>::Run : &Fn<PickSingle<kMax, false, false, false>>::Run;
}

// flags: 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal
template <typename T>
const Inst* Testp(Warp& w, const Inst* in) {
  const T* a = w.At<T>(in->a);
  uint32_t r = 0;
  for (int i = 0; i < kLanes; ++i) {
    int c = std::fpclassify(a[i]);
    bool is = false;
    switch (in->flags) {
      case 0:
        is = c != FP_NAN && c != FP_INFINITE;
        break;
      case 1:
        is = c == FP_INFINITE;
        break;
      case 2:
        is = c != FP_NAN;
        break;
      case 3:
        is = c == FP_NAN;
        break;
      case 4:
        is = c == FP_NORMAL;
        break;
      default:
        is = c == FP_SUBNORMAL;
        break;
    }
    r |= static_cast<uint32_t>(is) << i;
  }
  SetPredicate(w, in->d, r);
  return in + 1;
}

}  // namespace

namespace TF_PTX_SET {

Handler FindReal(const Key& k) {
  if (k.type != Type::kF32 && k.type != Type::kF64) return nullptr;
  const bool wide = k.type == Type::kF64;
  if (k.relu) return nullptr;
  switch (k.op) {
    case Op::kAdd:
      return Rounded<Add<float>, Add<double>>(k);
    case Op::kSub:
      return Rounded<Sub<float>, Sub<double>>(k);
    case Op::kMulLo:
      return Rounded<Mul<float>, Mul<double>>(k);
    case Op::kFma:
      return Rounded<Fma<float>, Fma<double>>(k);
    case Op::kDiv:
      return Rounded<Div<float>, Div<double>>(k);
    case Op::kRcp:
      return Rounded<Rcp<float>, Rcp<double>>(k);
    case Op::kSqrt:
      return Rounded<Sqrt<float>, Sqrt<double>>(k);
    case Op::kRsqrt:
      return Rounded<Rsqrt<float>, Rsqrt<double>>(k);
    case Op::kSin:
      return Approximate<Sin>(k);
    case Op::kCos:
      return Approximate<Cos>(k);
    case Op::kEx2:
      return Approximate<Ex2>(k);
    case Op::kLg2:
      return Approximate<Lg2>(k);
    case Op::kTanh:
      return Approximate<Tanh>(k);
    case Op::kAbs:
      return wide    ? (k.ftz ? nullptr : &Fn<Abs<double, false>>::Run)
             : k.ftz ? &Fn<Abs<float, true>>::Run
                     : &Fn<Abs<float, false>>::Run;
    case Op::kNeg:
      return wide    ? (k.ftz ? nullptr : &Fn<Neg<double, false>>::Run)
             : k.ftz ? &Fn<Neg<float, true>>::Run
                     : &Fn<Neg<float, false>>::Run;
    case Op::kMin:
      return FindPick<false>(k);
    case Op::kMax:
      return FindPick<true>(k);
    case Op::kCopysign:
      return wide ? &Fn<Copysign<double>>::Run : &Fn<Copysign<float>>::Run;
    case Op::kTestp:
      return wide ? &Testp<double> : &Testp<float>;
    default:
      return nullptr;
  }
}

}  // namespace TF_PTX_SET
}  // namespace tf::simgpu::ptx
