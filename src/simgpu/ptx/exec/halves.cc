// Arithmetic on f16, bf16 and their pairs. Each result is rounded once: sums and products of two are exact enough in
// double, a fused multiply-add goes through an odd-rounded sum.
#include <cmath>

#include "simgpu/ptx/exec/common.h"
#include "simgpu/ptx/exec/flags.h"
#include "simgpu/ptx/exec/half.h"

namespace tf::simgpu::ptx {
namespace {

struct F16 {
  static double Read(uint16_t x) { return HalfToFloat(x); }
  static uint16_t Write(double x) { return DoubleToHalf(x); }
  static constexpr uint16_t kExponent = 0x7c00;
};
struct Bf16 {
  static double Read(uint16_t x) { return Bf16ToFloat(x); }
  static uint16_t Write(double x) { return DoubleToBf16(x); }
  static constexpr uint16_t kExponent = 0x7f80;
};

template <typename H>
uint16_t Flush(uint32_t flags, uint16_t x) {
  return static_cast<uint16_t>((flags & kFtzFlag) && (x & H::kExponent) == 0 ? x & 0x8000 : x);
}
template <typename H>
bool IsNan(uint16_t x) {
  return (x & 0x7fff) > H::kExponent;
}
template <typename H>
uint16_t Finish(uint32_t flags, double value) {
  uint16_t r = Flush<H>(flags, H::Write(value));
  if ((flags & kSatFlag) && !(value > 0)) return 0;  // NaN too
  if ((flags & kSatFlag) && value > 1) return H::Write(1);
  if ((flags & kReluFlag) && !IsNan<H>(r) && (r & 0x8000)) return 0;
  return r;
}

enum class Do { kAdd, kSub, kMul, kFma, kMin, kMax, kNeg, kAbs, kEx2, kTanh };

template <typename H, Do kDo>
uint16_t One(uint32_t flags, uint16_t a, uint16_t b, uint16_t c) {
  a = Flush<H>(flags, a);
  b = Flush<H>(flags, b);
  c = Flush<H>(flags, c);
  double x = H::Read(a), y = H::Read(b), z = H::Read(c);
  switch (kDo) {
    case Do::kAdd:
      return Finish<H>(flags, AddToOdd(x, y));
    case Do::kSub:
      return Finish<H>(flags, AddToOdd(x, -y));
    case Do::kMul:
      return Finish<H>(flags, x * y);
    case Do::kFma:
      return Finish<H>(flags, AddToOdd(x * y, z));
    case Do::kNeg:
      return a ^ 0x8000;
    case Do::kAbs:
      return a & 0x7fff;
    case Do::kEx2:
      return Finish<H>(flags, std::exp2(x));
    case Do::kTanh:
      return Finish<H>(flags, std::tanh(x));
    case Do::kMin:
    case Do::kMax: {
      auto sign = static_cast<uint16_t>((a ^ b) & 0x8000);
      if (flags & kXorSignFlag) {
        a &= 0x7fff;
        b &= 0x7fff;
        x = H::Read(a);
        y = H::Read(b);
      }
      if (IsNan<H>(a) && IsNan<H>(b)) return 0x7fff;
      if (IsNan<H>(a) || IsNan<H>(b)) {
        if (flags & kNanFlag) return 0x7fff;
        a = b = IsNan<H>(a) ? b : a;
      } else if (x == y) {
        a = b = static_cast<uint16_t>(kDo == Do::kMax ? a & b : a | b);
      }
      uint16_t r = (kDo == Do::kMax) == (x > y) ? a : b;
      if (flags & kXorSignFlag) r |= sign;
      if ((flags & kReluFlag) && (r & 0x8000)) r = 0;
      return r;
    }
  }
  return 0;
}

template <typename H, Do kDo, bool kPair, int kOperands>
const Inst* Run(Warp& w, const Inst* in) {
  using T = std::conditional_t<kPair, uint32_t, uint16_t>;
  const T* a = w.At<T>(in->a);
  const T* b = kOperands > 1 ? w.At<T>(in->b) : a;
  const T* c = kOperands > 2 ? w.At<T>(in->c) : a;
  T* d = w.At<T>(in->d);
  EachLane(w.mask, [&](int i) {
    uint32_t r =
        One<H, kDo>(in->flags, static_cast<uint16_t>(a[i]), static_cast<uint16_t>(b[i]), static_cast<uint16_t>(c[i]));
    if constexpr (kPair) {
      r |= static_cast<uint32_t>(One<H, kDo>(in->flags, static_cast<uint16_t>(a[i] >> 16),
                                             static_cast<uint16_t>(b[i] >> 16), static_cast<uint16_t>(c[i] >> 16)))
           << 16;
    }
    d[i] = static_cast<T>(r);
  });
  return in + 1;
}

template <Do kDo, int kOperands>
Handler ByHalf(Type type) {
  switch (type) {
    case Type::kF16:
      return &Run<F16, kDo, false, kOperands>;
    case Type::kF16x2:
      return &Run<F16, kDo, true, kOperands>;
    case Type::kBf16:
      return &Run<Bf16, kDo, false, kOperands>;
    case Type::kBf16x2:
      return &Run<Bf16, kDo, true, kOperands>;
    default:
      return nullptr;
  }
}

}  // namespace

namespace TF_PTX_SET {

Handler FindHalf(const Key& k) {
  if (k.rounding != Rounding::kNone && k.rounding != Rounding::kRn) return nullptr;
  switch (k.op) {
    case Op::kAdd:
      return ByHalf<Do::kAdd, 2>(k.type);
    case Op::kSub:
      return ByHalf<Do::kSub, 2>(k.type);
    case Op::kMulLo:
      return ByHalf<Do::kMul, 2>(k.type);
    case Op::kFma:
      return ByHalf<Do::kFma, 3>(k.type);
    case Op::kMin:
      return ByHalf<Do::kMin, 2>(k.type);
    case Op::kMax:
      return ByHalf<Do::kMax, 2>(k.type);
    case Op::kNeg:
      return ByHalf<Do::kNeg, 1>(k.type);
    case Op::kAbs:
      return ByHalf<Do::kAbs, 1>(k.type);
    case Op::kEx2:
      return ByHalf<Do::kEx2, 1>(k.type);
    case Op::kTanh:
      return ByHalf<Do::kTanh, 1>(k.type);
    default:
      return nullptr;
  }
}

}  // namespace TF_PTX_SET
}  // namespace tf::simgpu::ptx
