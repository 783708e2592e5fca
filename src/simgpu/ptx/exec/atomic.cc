// atom and red. Blocks run on several threads, so operations on global memory are atomic instructions of the processor;
// a block's shared memory belongs to one thread.
#include "simgpu/ptx/exec/access.h"
#include "simgpu/ptx/exec/common.h"
#include "simgpu/ptx/exec/half.h"

namespace tf::simgpu::ptx {
namespace {

template <typename T>
T Add(T old, T b, T, bool) {
  return static_cast<T>(old + b);
}
template <typename T>
T Exchange(T, T b, T, bool) {
  return b;
}
template <typename T>
T CompareSwap(T old, T b, T c, bool) {
  return old == b ? c : old;
}
template <typename T>
T And(T old, T b, T, bool) {
  return old & b;
}
template <typename T>
T Or(T old, T b, T, bool) {
  return old | b;
}
template <typename T>
T Xor(T old, T b, T, bool) {
  return old ^ b;
}
uint32_t Inc(uint32_t old, uint32_t b, uint32_t, bool) { return old >= b ? 0 : old + 1; }
uint32_t Dec(uint32_t old, uint32_t b, uint32_t, bool) { return old == 0 || old > b ? b : old - 1; }
template <typename T, typename U>
U Min(U old, U b, U, bool) {
  return static_cast<T>(old) < static_cast<T>(b) ? old : b;
}
template <typename T, typename U>
U Max(U old, U b, U, bool) {
  return static_cast<T>(old) > static_cast<T>(b) ? old : b;
}

// In global memory f32 addition flushes subnormal numbers, as the PTX ISA says.
uint32_t AddF32(uint32_t old, uint32_t b, uint32_t, bool shared) {
  float x = std::bit_cast<float>(old), y = std::bit_cast<float>(b);
  float r = shared ? x + y : FlushToZero(FlushToZero(x) + FlushToZero(y));
  return r == r ? std::bit_cast<uint32_t>(r) : 0x7fffffffu;
}
uint64_t AddF64(uint64_t old, uint64_t b, uint64_t, bool) {
  return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
}
uint16_t AddF16(uint16_t old, uint16_t b, uint16_t, bool) {
  return DoubleToHalf(AddToOdd(HalfToFloat(old), HalfToFloat(b)));
}
uint16_t AddBf16(uint16_t old, uint16_t b, uint16_t, bool) {
  return DoubleToBf16(AddToOdd(Bf16ToFloat(old), Bf16ToFloat(b)));
}
template <uint16_t (*F)(uint16_t, uint16_t, uint16_t, bool)>
uint32_t Pair(uint32_t old, uint32_t b, uint32_t, bool shared) {
  uint32_t low = F(static_cast<uint16_t>(old), static_cast<uint16_t>(b), 0, shared);
  uint32_t high = F(static_cast<uint16_t>(old >> 16), static_cast<uint16_t>(b >> 16), 0, shared);
  return low | high << 16;
}

template <typename T, T (*F)(T, T, T, bool)>
const Inst* Atom(Warp& w, const Inst* in) {
  Places p;
  ReadAddresses(w, in, in->a, p);
  if (!Place(w, in, SpaceOf(in), sizeof(T), true, p)) return kStop;
  w.touched = true;
  const T* b = w.At<T>(in->b);
  const T* c = in->c != kNoSlot ? w.At<T>(in->c) : b;
  T* d = in->d != kNoSlot ? w.At<T>(in->d) : nullptr;
  EachLane(w.mask, [&](int i) {
    T* place = reinterpret_cast<T*>(p.at[i]);
    T old;
    if (p.is_shared) {
      old = *place;
      *place = F(old, b[i], c[i], true);
    } else {
      old = __atomic_load_n(place, __ATOMIC_RELAXED);
      while (!__atomic_compare_exchange_n(place, &old, F(old, b[i], c[i], false), true, __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED)) {
      }
    }
    if (d != nullptr) d[i] = old;
  });
  return in + 1;
}

template <typename T>
Handler Integers(Op op) {
  switch (op) {
    case Op::kAtomAdd:
      return &Atom<T, Add<T>>;
    case Op::kAtomExch:
      return &Atom<T, Exchange<T>>;
    case Op::kAtomCas:
      return &Atom<T, CompareSwap<T>>;
    case Op::kAtomAnd:
      return &Atom<T, And<T>>;
    case Op::kAtomOr:
      return &Atom<T, Or<T>>;
    case Op::kAtomXor:
      return &Atom<T, Xor<T>>;
    default:
      return nullptr;
  }
}

}  // namespace

namespace TF_PTX_SET {

Handler FindAtomic(const Key& k) {
  switch (k.op) {
    case Op::kAtomAdd:
      switch (k.type) {
        case Type::kU32:
        case Type::kS32:
          return Integers<uint32_t>(k.op);
        case Type::kU64:
        case Type::kS64:
          return Integers<uint64_t>(k.op);
        case Type::kF32:
          return &Atom<uint32_t, AddF32>;
        case Type::kF64:
          return &Atom<uint64_t, AddF64>;
        case Type::kF16:
          return &Atom<uint16_t, AddF16>;
        case Type::kBf16:
          return &Atom<uint16_t, AddBf16>;
        case Type::kF16x2:
          return &Atom<uint32_t, Pair<AddF16>>;
        case Type::kBf16x2:
          return &Atom<uint32_t, Pair<AddBf16>>;
        default:
          return nullptr;
      }
    case Op::kAtomExch:
    case Op::kAtomCas:
      if (IsFloat(k.type)) return nullptr;
      if (SizeOf(k.type) == 2) return Integers<uint16_t>(k.op);
      [[fallthrough]];
    case Op::kAtomAnd:
    case Op::kAtomOr:
    case Op::kAtomXor:
      if (IsFloat(k.type)) return nullptr;
      return SizeOf(k.type) == 4 ? Integers<uint32_t>(k.op) : SizeOf(k.type) == 8 ? Integers<uint64_t>(k.op) : nullptr;
    case Op::kAtomInc:
      return k.type == Type::kU32 ? &Atom<uint32_t, Inc> : nullptr;
    case Op::kAtomDec:
      return k.type == Type::kU32 ? &Atom<uint32_t, Dec> : nullptr;
    case Op::kAtomMin:
      switch (k.type) {
        case Type::kU32:
          return &Atom<uint32_t, Min<uint32_t, uint32_t>>;
        case Type::kS32:
          return &Atom<uint32_t, Min<int32_t, uint32_t>>;
        case Type::kU64:
          return &Atom<uint64_t, Min<uint64_t, uint64_t>>;
        case Type::kS64:
          return &Atom<uint64_t, Min<int64_t, uint64_t>>;
        default:
          return nullptr;
      }
    case Op::kAtomMax:
      switch (k.type) {
        case Type::kU32:
          return &Atom<uint32_t, Max<uint32_t, uint32_t>>;
        case Type::kS32:
          return &Atom<uint32_t, Max<int32_t, uint32_t>>;
        case Type::kU64:
          return &Atom<uint64_t, Max<uint64_t, uint64_t>>;
        case Type::kS64:
          return &Atom<uint64_t, Max<int64_t, uint64_t>>;
        default:
          return nullptr;
      }
    default:
      return nullptr;
  }
}

}  // namespace TF_PTX_SET
}  // namespace tf::simgpu::ptx
