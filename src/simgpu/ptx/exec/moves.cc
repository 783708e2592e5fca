// Moves between registers, predicate logic, and address-space tests.
#include <chrono>

#include "simgpu/ptx/exec/common.h"

namespace tf::simgpu::ptx {
namespace {

template <typename T>
TF_INLINE T Mov(T a) {
  return a;
}

struct Quad {
  uint64_t low, high;
};

template <typename T>
const Inst* Selp(Warp& w, const Inst* in) {
  const T *a = w.At<T>(in->a), *b = w.At<T>(in->b);
  T* d = w.At<T>(in->d);
  uint32_t p = *w.At<uint32_t>(in->c) ^ (in->flags & 1 ? kAllLanes : 0);
  alignas(64) T r[kLanes];
  TF_LANES(i) r[i] = (p >> i) & 1 ? a[i] : b[i];
  if (w.mask == kAllLanes) {
    std::memcpy(d, r, sizeof r);
  } else {
    Blend(d, r, w.mask);
  }
  return in + 1;
}

template <typename T, typename C>
TF_INLINE T Slct(T a, T b, C c) {
  return c >= 0 ? a : b;
}
template <typename T>
TF_INLINE T SlctFtz(T a, T b, float c) {
  return c >= 0 || (c > -1.17549435e-38f && c < 0) ? a : b;
}

// d = {parts…}: the slots of the parts are a list; imm is their number.
template <typename D, typename P>
const Inst* Pack(Warp& w, const Inst* in) {
  const uint32_t* parts = w.module->lists.data() + in->aux;
  D* d = w.At<D>(in->d);
  alignas(64) D r[kLanes];
  for (int64_t k = 0; k < in->imm; ++k) {
    const P* p = w.At<P>(parts[k]);
    for (int i = 0; i < kLanes; ++i) reinterpret_cast<P*>(r + i)[k] = p[i];
  }
  EachLane(w.mask, [&](int i) { d[i] = r[i]; });
  return in + 1;
}
template <typename D, typename P>
const Inst* Unpack(Warp& w, const Inst* in) {
  const uint32_t* parts = w.module->lists.data() + in->aux;
  alignas(64) D a[kLanes];
  std::memcpy(a, w.At<D>(in->a), sizeof a);
  for (int64_t k = 0; k < in->imm; ++k) {
    if (parts[k] == kNoSlot) continue;
    P* p = w.At<P>(parts[k]);
    EachLane(w.mask, [&](int i) { p[i] = reinterpret_cast<const P*>(a + i)[k]; });
  }
  return in + 1;
}

// Flags of predicate operands: 1 a is negated, 2 b is negated.
TF_INLINE uint32_t PredicateA(Warp& w, const Inst* in) {
  return *w.At<uint32_t>(in->a) ^ (in->flags & 1 ? kAllLanes : 0);
}
TF_INLINE uint32_t PredicateB(Warp& w, const Inst* in) {
  return *w.At<uint32_t>(in->b) ^ (in->flags & 2 ? kAllLanes : 0);
}
const Inst* PredAnd(Warp& w, const Inst* in) {
  SetPredicate(w, in->d, PredicateA(w, in) & PredicateB(w, in));
  return in + 1;
}
const Inst* PredOr(Warp& w, const Inst* in) {
  SetPredicate(w, in->d, PredicateA(w, in) | PredicateB(w, in));
  return in + 1;
}
const Inst* PredXor(Warp& w, const Inst* in) {
  SetPredicate(w, in->d, PredicateA(w, in) ^ PredicateB(w, in));
  return in + 1;
}
const Inst* PredNot(Warp& w, const Inst* in) {
  SetPredicate(w, in->d, ~PredicateA(w, in));
  return in + 1;
}
const Inst* PredMov(Warp& w, const Inst* in) {
  SetPredicate(w, in->d, PredicateA(w, in));
  return in + 1;
}

// d = a + imm
template <typename T>
const Inst* Offset(Warp& w, const Inst* in) {
  const T* a = w.At<T>(in->a);
  T* d = w.At<T>(in->d);
  EachLane(w.mask, [&](int i) { d[i] = static_cast<T>(a[i] + static_cast<T>(in->imm)); });
  return in + 1;
}

// A register that is wider than the type of the instruction that reads it: its low part.
template <typename D, typename A>
TF_INLINE D Narrow(A a) {
  return static_cast<D>(a);
}

const Inst* IsSpace(Warp& w, const Inst* in) {
  const uint64_t* a = w.At<uint64_t>(in->a);
  uint32_t r = 0;
  auto space = static_cast<Space>(in->flags);
  for (int i = 0; i < kLanes; ++i) {
    uint64_t window = a[i] & kWindowMask;
    bool is = false;
    switch (space) {
      case Space::kShared:
        is = window == kSharedWindow;
        break;
      case Space::kLocal:
        is = window == kLocalWindow;
        break;
      case Space::kParam:
        is = window == kParamWindow;
        break;
      default:
        is = window != kSharedWindow && window != kLocalWindow && window != kParamWindow;
        break;
    }
    r |= static_cast<uint32_t>(is) << i;
  }
  SetPredicate(w, in->d, r);
  return in + 1;
}

// cvta: imm is the window, or 0 for spaces whose addresses are generic ones.
template <typename D, typename A>
const Inst* ToGeneric(Warp& w, const Inst* in) {
  const A* a = w.At<A>(in->a);
  D* d = w.At<D>(in->d);
  EachLane(w.mask, [&](int i) { d[i] = static_cast<D>(static_cast<uint64_t>(a[i]) | static_cast<uint64_t>(in->imm)); });
  return in + 1;
}
// cvta.to: an address of another space has no meaning; it stays what it is and faults when used.
template <typename D, typename A>
const Inst* FromGeneric(Warp& w, const Inst* in) {
  const A* a = w.At<A>(in->a);
  D* d = w.At<D>(in->d);
  auto window = static_cast<uint64_t>(in->imm);
  EachLane(w.mask, [&](int i) {
    uint64_t x = static_cast<uint64_t>(a[i]);
    d[i] = static_cast<D>(window != 0 && (x & kWindowMask) == window ? x & ~kWindowMask : x);
  });
  return in + 1;
}

// flags: 0 clock, 1 clock_hi, 2 clock64, 3 globaltimer, 4 globaltimer_lo, 5 globaltimer_hi. imm: MHz is in the warp's
// launch.
const Inst* Clock(Warp& w, const Inst* in) {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  uint64_t value;
  if (in->flags >= 3) {
    value =
        static_cast<uint64_t>(duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  } else {
    auto ns =
        static_cast<uint64_t>(duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
    value = ns / 1000 * w.clock_mhz + ns % 1000 * w.clock_mhz / 1000;
  }
  if (in->flags == 2 || in->flags == 3) {
    uint64_t* d = w.At<uint64_t>(in->d);
    EachLane(w.mask, [&](int i) { d[i] = value; });
  } else {
    auto half = static_cast<uint32_t>(in->flags == 1 || in->flags == 5 ? value >> 32 : value);
    uint32_t* d = w.At<uint32_t>(in->d);
    EachLane(w.mask, [&](int i) { d[i] = half; });
  }
  w.touched = true;
  return in + 1;
}

Handler FindPack(bool unpack, uint32_t whole, uint32_t part) {
  auto pick = [unpack](auto d, auto p) -> Handler {
    using D = decltype(d);
    using P = decltype(p);
    return unpack ? &Unpack<D, P> : &Pack<D, P>;
  };
  if (whole == 2 && part == 1) return pick(uint16_t{}, uint8_t{});
  if (whole == 4 && part == 2) return pick(uint32_t{}, uint16_t{});
  if (whole == 4 && part == 1) return pick(uint32_t{}, uint8_t{});
  if (whole == 8 && part == 4) return pick(uint64_t{}, uint32_t{});
  if (whole == 8 && part == 2) return pick(uint64_t{}, uint16_t{});
  if (whole == 8 && part == 1) return pick(uint64_t{}, uint8_t{});
  if (whole == 16 && part == 8) return pick(Quad{}, uint64_t{});
  if (whole == 16 && part == 4) return pick(Quad{}, uint32_t{});
  return nullptr;
}

template <typename D>
Handler FindNarrow(uint32_t from) {
  switch (from) {
    case 2:
      return &Fn<Narrow<D, uint16_t>>::Run;
    case 4:
      return &Fn<Narrow<D, uint32_t>>::Run;
    case 8:
      return &Fn<Narrow<D, uint64_t>>::Run;
    default:
      return nullptr;
  }
}

}  // namespace

namespace TF_PTX_SET {

Handler FindMove(const Key& k) {
  const uint32_t size = SizeOf(k.type);
  switch (k.op) {
    case Op::kMov:
      if (size == 1) return &Fn<Mov<uint8_t>>::Run;
      if (size == 16) return &Fn<Mov<Quad>>::Run;
      return ByUnsigned(k.type, [](auto t) -> Handler { return &Fn<Mov<decltype(t)>>::Run; });
    case Op::kSelp:
      return ByUnsigned(k.type, [](auto t) -> Handler { return &Selp<decltype(t)>; });
    case Op::kSlct:
      if (k.source == Type::kS32)
        return ByUnsigned(k.type, [](auto t) -> Handler { return &Fn<Slct<decltype(t), int32_t>>::Run; });
      if (k.source != Type::kF32) return nullptr;
      return k.ftz ? ByUnsigned(k.type, [](auto t) -> Handler { return &Fn<SlctFtz<decltype(t)>>::Run; })
                   : ByUnsigned(k.type, [](auto t) -> Handler { return &Fn<Slct<decltype(t), float>>::Run; });
    case Op::kPack:
      return FindPack(false, size, SizeOf(k.source));
    case Op::kUnpack:
      return FindPack(true, size, SizeOf(k.source));
    case Op::kPredAnd:
      return &PredAnd;
    case Op::kPredOr:
      return &PredOr;
    case Op::kPredXor:
      return &PredXor;
    case Op::kPredNot:
      return &PredNot;
    case Op::kPredMov:
      return &PredMov;
    case Op::kOffset:
      return size == 8 ? &Offset<uint64_t> : size == 4 ? &Offset<uint32_t> : nullptr;
    case Op::kNarrow:
      switch (size) {
        case 1:
          return FindNarrow<uint8_t>(k.width);
        case 2:
          return FindNarrow<uint16_t>(k.width);
        case 4:
          return FindNarrow<uint32_t>(k.width);
        default:
          return nullptr;
      }
    case Op::kIsSpace:
      return &IsSpace;
    case Op::kToGeneric:
      return size == 8 ? (k.width == 4 ? &ToGeneric<uint64_t, uint32_t> : &ToGeneric<uint64_t, uint64_t>) : nullptr;
    case Op::kFromGeneric:
      return size == 8 ? &FromGeneric<uint64_t, uint64_t> : nullptr;
    case Op::kClock:
      return &Clock;
    default:
      return nullptr;
  }
}

}  // namespace TF_PTX_SET
}  // namespace tf::simgpu::ptx
