// Integer arithmetic and bit operations.
#include <limits>
#include <type_traits>

#include "simgpu/ptx/exec/common.h"

namespace tf::simgpu::ptx {
namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

template <typename T>
struct Twice;
template <>
struct Twice<uint16_t> {
  using type = uint32_t;
};
template <>
struct Twice<int16_t> {
  using type = int32_t;
};
template <>
struct Twice<uint32_t> {
  using type = uint64_t;
};
template <>
struct Twice<int32_t> {
  using type = int64_t;
};
template <>
struct Twice<uint64_t> {
  using type = Uint128;
};
template <>
struct Twice<int64_t> {
  using type = Int128;
};
template <typename T>
using Wide = typename Twice<T>::type;
template <typename T>
constexpr int kBits = static_cast<int>(8 * sizeof(T));

template <typename T>
TF_INLINE T Add(T a, T b) {
  return static_cast<T>(a + b);
}
template <typename T>
TF_INLINE T Sub(T a, T b) {
  return static_cast<T>(a - b);
}
template <typename T>
TF_INLINE T MulLo(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) * b);
}
template <>
TF_INLINE uint32_t MulLo(uint32_t a, uint32_t b) {
  return a * b;
}
template <>
TF_INLINE uint64_t MulLo(uint64_t a, uint64_t b) {
  return a * b;
}
template <typename T>
TF_INLINE T MulHi(T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * b) >> kBits<T>);
}
template <typename T>
TF_INLINE Wide<T> MulWide(T a, T b) {
  return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * b);
}
template <typename T>
TF_INLINE T MadLo(T a, T b, T c) {
  return static_cast<T>(MulLo(a, b) + c);
}
template <typename T>
TF_INLINE T MadHi(T a, T b, T c) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(MulHi(a, b)) + static_cast<U>(c));
}
template <typename T>
TF_INLINE Wide<T> MadWide(T a, T b, Wide<T> c) {
  using U = std::make_unsigned_t<Wide<T>>;
  return static_cast<Wide<T>>(static_cast<U>(MulWide(a, b)) + static_cast<U>(c));
}

TF_INLINE int32_t Saturate(int64_t x) {
  return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : static_cast<int32_t>(x);
}
TF_INLINE int32_t AddSat(int32_t a, int32_t b) { return Saturate(int64_t{a} + b); }
TF_INLINE int32_t SubSat(int32_t a, int32_t b) { return Saturate(int64_t{a} - b); }
TF_INLINE int32_t MadHiSat(int32_t a, int32_t b, int32_t c) { return Saturate(int64_t{MulHi(a, b)} + c); }

template <typename T>
TF_INLINE int64_t Low24(T a) {
  if constexpr (std::is_signed_v<T>) return static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8;
  return a & 0xffffff;
}
template <typename T>
TF_INLINE T Mul24Lo(T a, T b) {
  return static_cast<T>(Low24(a) * Low24(b));
}
template <typename T>
TF_INLINE T Mul24Hi(T a, T b) {
  return static_cast<T>((Low24(a) * Low24(b)) >> 16);
}
template <typename T>
TF_INLINE T Mad24Lo(T a, T b, T c) {
  return static_cast<T>(static_cast<uint32_t>(Mul24Lo(a, b)) + static_cast<uint32_t>(c));
}
template <typename T>
TF_INLINE T Mad24Hi(T a, T b, T c) {
  return static_cast<T>(static_cast<uint32_t>(Mul24Hi(a, b)) + static_cast<uint32_t>(c));
}
TF_INLINE int32_t Mad24HiSat(int32_t a, int32_t b, int32_t c) { return Saturate(int64_t{Mul24Hi(a, b)} + c); }

template <typename T>
TF_INLINE T Sad(T a, T b, T c) {
  using U = std::make_unsigned_t<T>;
  U difference = a < b ? static_cast<U>(static_cast<U>(b) - static_cast<U>(a))
                       : static_cast<U>(static_cast<U>(a) - static_cast<U>(b));
  return static_cast<T>(static_cast<U>(c) + difference);
}

// Division by zero has no defined result in PTX; cards give all ones, and the dividend as remainder.
template <typename T>
TF_INLINE T Div(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  }
  return static_cast<T>(a / b);
}
template <typename T>
TF_INLINE T Rem(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <typename T>
TF_INLINE T Abs(T a) {
  return a < 0 ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a)) : a;
}
template <typename T>
TF_INLINE T Neg(T a) {
  return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
}
template <typename T>
TF_INLINE T Min(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
TF_INLINE T Max(T a, T b) {
  return a > b ? a : b;
}
template <typename T>
TF_INLINE T MinRelu(T a, T b) {
  return Max<T>(Min(a, b), 0);
}
template <typename T>
TF_INLINE T MaxRelu(T a, T b) {
  return Max<T>(Max(a, b), 0);
}

// Both halves of a 32-bit register.
template <typename T, T (*F)(T, T)>
TF_INLINE uint32_t Halves(uint32_t a, uint32_t b) {
  auto low = static_cast<uint16_t>(F(static_cast<T>(a), static_cast<T>(b)));
  auto high = static_cast<uint16_t>(F(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
  return low | static_cast<uint32_t>(high) << 16;
}

template <typename T>
TF_INLINE T And(T a, T b) {
  return a & b;
}
template <typename T>
TF_INLINE T Or(T a, T b) {
  return a | b;
}
template <typename T>
TF_INLINE T Xor(T a, T b) {
  return a ^ b;
}
template <typename T>
TF_INLINE T Not(T a) {
  return static_cast<T>(~a);
}
template <typename T>
TF_INLINE T Cnot(T a) {
  return a == 0;
}

// Shift amounts are 32 bits and clamp at the width.
template <typename T>
TF_INLINE T Shl(T a, uint32_t n) {
  return n >= kBits<T> ? T{0} : static_cast<T>(a << n);
}
template <typename T>
TF_INLINE T Shr(T a, uint32_t n) {
  if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (n >= kBits<T> ? kBits<T> - 1 : static_cast<int>(n)));
  return n >= kBits<T> ? T{0} : static_cast<T>(a >> n);
}
template <bool kWrap>
TF_INLINE uint32_t ShfL(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t n = kWrap ? c & 31 : Min<uint32_t>(c, 32);
  return static_cast<uint32_t>((((static_cast<uint64_t>(b) << 32) | a) << n) >> 32);
}
template <bool kWrap>
TF_INLINE uint32_t ShfR(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t n = kWrap ? c & 31 : Min<uint32_t>(c, 32);
  return static_cast<uint32_t>(((static_cast<uint64_t>(b) << 32) | a) >> n);
}

template <typename T>
TF_INLINE T Brev(T a) {
  uint64_t x = a;
  x = ((x >> 1) & 0x5555555555555555) | ((x & 0x5555555555555555) << 1);
  x = ((x >> 2) & 0x3333333333333333) | ((x & 0x3333333333333333) << 2);
  x = ((x >> 4) & 0x0f0f0f0f0f0f0f0f) | ((x & 0x0f0f0f0f0f0f0f0f) << 4);
  return static_cast<T>(__builtin_bswap64(x) >> (64 - kBits<T>));
}
template <typename T>
TF_INLINE uint32_t Clz(T a) {
  return a == 0 ? kBits<T> : static_cast<uint32_t>(__builtin_clzll(a) - (64 - kBits<T>));
}
template <typename T>
TF_INLINE uint32_t Popc(T a) {
  return static_cast<uint32_t>(__builtin_popcountll(a));
}

template <typename T>
TF_INLINE T Bfe(T a, uint32_t position, uint32_t length) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kLast = kBits<T> - 1;
  position &= 0xff;
  length &= 0xff;
  if (length == 0) return 0;
  uint32_t top = Min(position + length - 1, kLast);
  bool sign = std::is_signed_v<T> && ((static_cast<U>(a) >> top) & 1);
  U field = position > kLast ? U{0} : static_cast<U>(static_cast<U>(a) >> position);
  uint32_t valid = position > kLast ? 0 : Min(length, kLast + 1 - position);
  U mask = valid >= static_cast<uint32_t>(kBits<T>) ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << valid) - 1);
  return static_cast<T>((field & mask) | (sign ? static_cast<U>(~mask) : U{0}));
}
template <typename T>
TF_INLINE T Bfi(T a, T b, uint32_t position, uint32_t length) {
  position &= 0xff;
  length &= 0xff;
  if (length == 0 || position >= static_cast<uint32_t>(kBits<T>)) return b;
  uint32_t valid = Min<uint32_t>(length, kBits<T> - position);
  T mask = valid >= static_cast<uint32_t>(kBits<T>) ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << valid) - 1);
  mask = static_cast<T>(mask << position);
  return static_cast<T>((b & ~mask) | ((a << position) & mask));
}
template <typename T, bool kShift>
TF_INLINE uint32_t Bfind(T a) {
  using U = std::make_unsigned_t<T>;
  U bits = static_cast<U>(std::is_signed_v<T> && a < T{0} ? ~a : a);
  if (bits == 0) return kAllLanes;
  uint32_t clz = Clz<U>(bits);
  return kShift ? clz : kBits<T> - 1 - clz;
}
template <bool kClamp>
TF_INLINE uint32_t Bmsk(uint32_t a, uint32_t b) {
  if (kClamp && a >= 32) return 0;
  uint32_t position = a & 31, width = b & 31;
  if (kClamp && b >= 32) return kAllLanes << position;
  uint32_t end = position + width;
  uint32_t above = end >= 32 ? 0 : kAllLanes << end;
  return (kAllLanes << position) & ~above;
}
template <typename T, bool kClamp>
TF_INLINE uint32_t Szext(uint32_t a, uint32_t b) {
  uint32_t width = b & 31;
  bool whole = kClamp && b >= 32;
  uint32_t above = whole ? 0 : kAllLanes << width;
  bool sign = std::is_signed_v<T> && !whole && width != 0 && ((a >> (width - 1)) & 1);
  return (a & ~above) | (sign ? above : 0);
}
// The offset-th set bit from base, upwards or (negative offset) downwards.
TF_INLINE uint32_t Fns(uint32_t mask, uint32_t base, int32_t offset) {
  if (base > 31) return kAllLanes;
  if (offset == 0) return (mask >> base) & 1 ? base : kAllLanes;
  int32_t step = offset > 0 ? 1 : -1;
  int32_t left = offset > 0 ? offset : -offset;
  for (int32_t at = static_cast<int32_t>(base); at >= 0 && at < 32; at += step) {
    if ((mask >> at) & 1 && --left == 0) return static_cast<uint32_t>(at);
  }
  return kAllLanes;
}

const Inst* RunLop3(Warp& w, const Inst* in) {
  const uint32_t *a = w.At<uint32_t>(in->a), *b = w.At<uint32_t>(in->b), *c = w.At<uint32_t>(in->c);
  uint32_t* d = w.At<uint32_t>(in->d);
  alignas(64) uint32_t r[kLanes] = {};
  for (uint32_t k = 0; k < 8; ++k) {
    if (!((in->flags >> k) & 1)) continue;
    uint32_t x = k & 4 ? 0 : kAllLanes, y = k & 2 ? 0 : kAllLanes, z = k & 1 ? 0 : kAllLanes;
    TF_LANES(i) r[i] |= (a[i] ^ x) & (b[i] ^ y) & (c[i] ^ z);
  }
  Blend(d, r, w.mask);
  return in + 1;
}

// Flags: the mode, 0 for the plain form.
uint32_t Prmt(uint32_t flags, uint32_t a, uint32_t b, uint32_t c) {
  uint64_t bytes = (static_cast<uint64_t>(b) << 32) | a;
  auto byte = [&](uint32_t i) { return static_cast<uint32_t>(bytes >> (8 * (i & 7))) & 0xff; };
  uint32_t r = 0, n = c & 3;
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t value = 0;
    switch (flags) {
      case 0: {
        uint32_t select = (c >> (4 * i)) & 15;
        value = byte(select);
        if (select & 8) value = value & 0x80 ? 0xff : 0;
        break;
      }
      case 1:
        value = byte(n + i);
        break;  // f4e
      case 2:
        value = byte(8 + n - i);
        break;  // b4e
      case 3:
        value = byte(n);
        break;  // rc8
      case 4:
        value = byte(i > n ? i : n);
        break;  // ecl
      case 5:
        value = byte(i < n ? i : n);
        break;  // ecr
      case 6:
        value = byte(2 * (c & 1) + (i & 1));
        break;  // rc16
      default:
        break;
    }
    r |= value << (8 * i);
  }
  return r;
}

// Flags: 1 a is signed, 2 b is signed, 4 the upper half of b (dp2a).
uint32_t Dp4a(uint32_t flags, uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; ++i) {
    auto x = static_cast<uint8_t>(a >> (8 * i)), y = static_cast<uint8_t>(b >> (8 * i));
    int32_t p = flags & 1 ? static_cast<int8_t>(x) : x, q = flags & 2 ? static_cast<int8_t>(y) : y;
    c += static_cast<uint32_t>(p * q);
  }
  return c;
}
uint32_t Dp2a(uint32_t flags, uint32_t a, uint32_t b, uint32_t c) {
  if (flags & 4) b >>= 16;
  for (int i = 0; i < 2; ++i) {
    auto x = static_cast<uint16_t>(a >> (16 * i));
    auto y = static_cast<uint8_t>(b >> (8 * i));
    int32_t p = flags & 1 ? static_cast<int16_t>(x) : x, q = flags & 2 ? static_cast<int8_t>(y) : y;
    c += static_cast<uint32_t>(p) * static_cast<uint32_t>(q);
  }
  return c;
}

// Flags: bits 0-3 the operation (0 add, 1 sub, 2 absdiff, 3 min, 4 max, 5 avrg), 16 a signed, 32 b signed, 64 d signed,
// 128 saturate, 256 add the parts to c. kParts of 8 or 16 bits, or one of 32.
template <int kParts>
uint32_t Video(uint32_t flags, uint32_t a, uint32_t b, uint32_t c) {
  constexpr int kWidth = 32 / kParts;
  constexpr uint64_t kMask = (uint64_t{1} << kWidth) - 1;
  auto part = [](uint32_t x, int i, bool sign) {
    uint64_t bits = (static_cast<uint64_t>(x) >> (kWidth * i)) & kMask;
    return sign && (bits >> (kWidth - 1)) ? static_cast<int64_t>(bits | ~kMask) : static_cast<int64_t>(bits);
  };
  uint32_t r = flags & 256 ? c : 0;
  for (int i = 0; i < kParts; ++i) {
    int64_t x = part(a, i, flags & 16), y = part(b, i, flags & 32), v = 0;
    switch (flags & 15) {
      case 0:
        v = x + y;
        break;
      case 1:
        v = x - y;
        break;
      case 2:
        v = x < y ? y - x : x - y;
        break;
      case 3:
        v = x < y ? x : y;
        break;
      case 4:
        v = x > y ? x : y;
        break;
      case 5:
        v = (x + y + ((x + y) >= 0 ? 1 : 0)) >> 1;
        break;
      default:
        break;
    }
    if (flags & 128) {
      int64_t low = flags & 64 ? -(int64_t{1} << (kWidth - 1)) : 0;
      int64_t high = flags & 64 ? (int64_t{1} << (kWidth - 1)) - 1 : static_cast<int64_t>(kMask);
      v = v < low ? low : v > high ? high : v;
    }
    if (flags & 256) {
      r += static_cast<uint32_t>(v);
    } else {
      r |= static_cast<uint32_t>(static_cast<uint64_t>(v) & kMask) << (kWidth * i);
    }
  }
  return r;
}

// Extended precision. Flags: 1 reads the carry, 2 writes it. The carry register is a predicate in slot e.
template <typename T, bool kSub>
const Inst* Carry(Warp& w, const Inst* in) {
  const T *a = w.At<T>(in->a), *b = w.At<T>(in->b);
  T* d = w.At<T>(in->d);
  uint32_t carry = in->flags & 1 ? *w.At<uint32_t>(in->e) : 0, out = 0;
  EachLane(w.mask, [&](int i) {
    T x = a[i], y = b[i], c = (carry >> i) & 1;
    T r = kSub ? x - y - c : x + y + c;
    bool over = kSub ? (x < y || (x == y && c)) : (r < x || (r == x && c && y != 0));
    d[i] = r;
    out |= static_cast<uint32_t>(over) << i;
  });
  if (in->flags & 2) SetPredicate(w, in->e, out);
  return in + 1;
}
template <typename T, bool kHigh>
const Inst* MadCarry(Warp& w, const Inst* in) {
  using U = std::make_unsigned_t<T>;
  const T *a = w.At<T>(in->a), *b = w.At<T>(in->b), *addend = w.At<T>(in->c);
  T* d = w.At<T>(in->d);
  uint32_t carry = in->flags & 1 ? *w.At<uint32_t>(in->e) : 0, out = 0;
  EachLane(w.mask, [&](int i) {
    U product =
        static_cast<U>(kHigh ? MulHi(a[i], b[i]) : static_cast<T>(MulLo(static_cast<U>(a[i]), static_cast<U>(b[i]))));
    U y = static_cast<U>(addend[i]), c = (carry >> i) & 1;
    U r = product + y + c;
    d[i] = static_cast<T>(r);
    out |= static_cast<uint32_t>(r < product || (r == product && c && y != 0)) << i;
  });
  if (in->flags & 2) SetPredicate(w, in->e, out);
  return in + 1;
}

template <auto F>
constexpr Handler kRun = &Fn<F>::Run;

}  // namespace

namespace TF_PTX_SET {

Handler FindInteger(const Key& k) {
  if (IsFloat(k.type)) return nullptr;
  const bool halves = k.type == Type::kU16x2 || k.type == Type::kS16x2;
  if (halves) {
    bool s = k.type == Type::kS16x2;
    switch (k.op) {
      case Op::kAdd:
        return kRun<Halves<uint16_t, Add<uint16_t>>>;
      case Op::kMin:
        if (k.relu) return s ? kRun<Halves<int16_t, MinRelu<int16_t>>> : nullptr;
        return s ? kRun<Halves<int16_t, Min<int16_t>>> : kRun<Halves<uint16_t, Min<uint16_t>>>;
      case Op::kMax:
        if (k.relu) return s ? kRun<Halves<int16_t, MaxRelu<int16_t>>> : nullptr;
        return s ? kRun<Halves<int16_t, Max<int16_t>>> : kRun<Halves<uint16_t, Max<uint16_t>>>;
      default:
        return nullptr;
    }
  }
  const bool sat_allowed =
      k.type == Type::kS32 && (k.op == Op::kAdd || k.op == Op::kSub || k.op == Op::kMadHi || k.op == Op::kMad24Hi);
  if (k.sat && !sat_allowed && k.op != Op::kVideo && k.op != Op::kVideo2 && k.op != Op::kVideo4) return nullptr;
  switch (k.op) {
    case Op::kAdd:
      return k.sat ? kRun<AddSat> : ByUnsigned(k.type, [](auto t) { return kRun<Add<decltype(t)>>; });
    case Op::kSub:
      return k.sat ? kRun<SubSat> : ByUnsigned(k.type, [](auto t) { return kRun<Sub<decltype(t)>>; });
    case Op::kMulLo:
      return ByUnsigned(k.type, [](auto t) { return kRun<MulLo<decltype(t)>>; });
    case Op::kMulHi:
      return ByInteger(k.type, [](auto t) { return kRun<MulHi<decltype(t)>>; });
    case Op::kMulWide:
      switch (k.type) {
        case Type::kU16:
          return kRun<MulWide<uint16_t>>;
        case Type::kS16:
          return kRun<MulWide<int16_t>>;
        case Type::kU32:
          return kRun<MulWide<uint32_t>>;
        case Type::kS32:
          return kRun<MulWide<int32_t>>;
        default:
          return nullptr;
      }
    case Op::kMadLo:
      return ByUnsigned(k.type, [](auto t) { return kRun<MadLo<decltype(t)>>; });
    case Op::kMadHi:
      return k.sat ? kRun<MadHiSat> : ByInteger(k.type, [](auto t) { return kRun<MadHi<decltype(t)>>; });
    case Op::kMadWide:
      switch (k.type) {
        case Type::kU16:
          return kRun<MadWide<uint16_t>>;
        case Type::kS16:
          return kRun<MadWide<int16_t>>;
        case Type::kU32:
          return kRun<MadWide<uint32_t>>;
        case Type::kS32:
          return kRun<MadWide<int32_t>>;
        default:
          return nullptr;
      }
    case Op::kMul24Lo:
      return k.type == Type::kU32 ? kRun<Mul24Lo<uint32_t>> : k.type == Type::kS32 ? kRun<Mul24Lo<int32_t>> : nullptr;
    case Op::kMul24Hi:
      return k.type == Type::kU32 ? kRun<Mul24Hi<uint32_t>> : k.type == Type::kS32 ? kRun<Mul24Hi<int32_t>> : nullptr;
    case Op::kMad24Lo:
      return k.type == Type::kU32 ? kRun<Mad24Lo<uint32_t>> : k.type == Type::kS32 ? kRun<Mad24Lo<int32_t>> : nullptr;
    case Op::kMad24Hi:
      if (k.sat) return kRun<Mad24HiSat>;
      return k.type == Type::kU32 ? kRun<Mad24Hi<uint32_t>> : k.type == Type::kS32 ? kRun<Mad24Hi<int32_t>> : nullptr;
    case Op::kSad:
      return ByInteger(k.type, [](auto t) { return kRun<Sad<decltype(t)>>; });
    case Op::kDiv:
      return ByInteger(k.type, [](auto t) { return kRun<Div<decltype(t)>>; });
    case Op::kRem:
      return ByInteger(k.type, [](auto t) { return kRun<Rem<decltype(t)>>; });
    case Op::kAbs:
      return !IsSigned(k.type)      ? nullptr
             : k.type == Type::kS16 ? kRun<Abs<int16_t>>
             : k.type == Type::kS32 ? kRun<Abs<int32_t>>
                                    : kRun<Abs<int64_t>>;
    case Op::kNeg:
      return IsSigned(k.type) ? ByUnsigned(k.type, [](auto t) { return kRun<Neg<decltype(t)>>; }) : nullptr;
    case Op::kMin:
      if (k.relu) return k.type == Type::kS32 ? kRun<MinRelu<int32_t>> : nullptr;
      return ByInteger(k.type, [](auto t) { return kRun<Min<decltype(t)>>; });
    case Op::kMax:
      if (k.relu) return k.type == Type::kS32 ? kRun<MaxRelu<int32_t>> : nullptr;
      return ByInteger(k.type, [](auto t) { return kRun<Max<decltype(t)>>; });
    case Op::kAnd:
      return ByUnsigned(k.type, [](auto t) { return kRun<And<decltype(t)>>; });
    case Op::kOr:
      return ByUnsigned(k.type, [](auto t) { return kRun<Or<decltype(t)>>; });
    case Op::kXor:
      return ByUnsigned(k.type, [](auto t) { return kRun<Xor<decltype(t)>>; });
    case Op::kNot:
      return ByUnsigned(k.type, [](auto t) { return kRun<Not<decltype(t)>>; });
    case Op::kCnot:
      return ByUnsigned(k.type, [](auto t) { return kRun<Cnot<decltype(t)>>; });
    case Op::kShl:
      return ByUnsigned(k.type, [](auto t) { return kRun<Shl<decltype(t)>>; });
    case Op::kShr:
      return IsSigned(k.type) ? ByInteger(k.type, [](auto t) { return kRun<Shr<decltype(t)>>; })
                              : ByUnsigned(k.type, [](auto t) { return kRun<Shr<decltype(t)>>; });
    case Op::kShfL:
      return k.type == Type::kB32 ? (k.mode ? kRun<ShfL<true>> : kRun<ShfL<false>>) : nullptr;
    case Op::kShfR:
      return k.type == Type::kB32 ? (k.mode ? kRun<ShfR<true>> : kRun<ShfR<false>>) : nullptr;
    case Op::kBrev:
      return k.type == Type::kB32 ? kRun<Brev<uint32_t>> : k.type == Type::kB64 ? kRun<Brev<uint64_t>> : nullptr;
    case Op::kClz:
      return k.type == Type::kB32 ? kRun<Clz<uint32_t>> : k.type == Type::kB64 ? kRun<Clz<uint64_t>> : nullptr;
    case Op::kPopc:
      return k.type == Type::kB32 ? kRun<Popc<uint32_t>> : k.type == Type::kB64 ? kRun<Popc<uint64_t>> : nullptr;
    case Op::kBfe:
      return ByInteger3264(k.type, [](auto t) { return kRun<Bfe<decltype(t)>>; });
    case Op::kBfi:
      return k.type == Type::kB32 ? kRun<Bfi<uint32_t>> : k.type == Type::kB64 ? kRun<Bfi<uint64_t>> : nullptr;
    case Op::kBfind:
      return k.mode ? ByInteger3264(k.type, [](auto t) { return kRun<Bfind<decltype(t), true>>; })
                    : ByInteger3264(k.type, [](auto t) { return kRun<Bfind<decltype(t), false>>; });
    case Op::kBmsk:
      return k.type == Type::kB32 ? (k.mode ? kRun<Bmsk<false>> : kRun<Bmsk<true>>) : nullptr;
    case Op::kSzext:
      if (k.type == Type::kU32) return k.mode ? kRun<Szext<uint32_t, false>> : kRun<Szext<uint32_t, true>>;
      if (k.type == Type::kS32) return k.mode ? kRun<Szext<int32_t, false>> : kRun<Szext<int32_t, true>>;
      return nullptr;
    case Op::kFns:
      return k.type == Type::kB32 ? kRun<Fns> : nullptr;
    case Op::kLop3:
      return k.type == Type::kB32 ? &RunLop3 : nullptr;
    case Op::kPrmt:
      return k.type == Type::kB32 ? &FnFlags<Prmt>::Run : nullptr;
    case Op::kDp4a:
      return &FnFlags<Dp4a>::Run;
    case Op::kDp2a:
      return &FnFlags<Dp2a>::Run;
    case Op::kVideo4:
      return &FnFlags<Video<4>>::Run;
    case Op::kVideo2:
      return &FnFlags<Video<2>>::Run;
    case Op::kVideo:
      return &FnFlags<Video<1>>::Run;
    case Op::kAddCc:
      return SizeOf(k.type) == 4 ? &Carry<uint32_t, false> : SizeOf(k.type) == 8 ? &Carry<uint64_t, false> : nullptr;
    case Op::kSubCc:
      return SizeOf(k.type) == 4 ? &Carry<uint32_t, true> : SizeOf(k.type) == 8 ? &Carry<uint64_t, true> : nullptr;
    case Op::kMadLoCc:
      return ByInteger3264(k.type, [](auto t) -> Handler { return &MadCarry<decltype(t), false>; });
    case Op::kMadHiCc:
      return ByInteger3264(k.type, [](auto t) -> Handler { return &MadCarry<decltype(t), true>; });
    default:
      return nullptr;
  }
}

}  // namespace TF_PTX_SET
}  // namespace tf::simgpu::ptx
