// Loads, stores, kernel parameters, and asynchronous copies (which are made at once).
#include "simgpu/ptx/exec/access.h"
#include "simgpu/ptx/exec/common.h"

namespace tf::simgpu::ptx {
namespace {

struct Quad {
  uint64_t low, high;
};

// M is what lies in memory, R what the register holds.
template <typename R, typename M>
TF_INLINE R Widen(M m) {
  if constexpr (sizeof(R) == 16) {
    return m;
  } else {
    return static_cast<R>(m);
  }
}

template <typename M, typename R>
const Inst* Load(Warp& w, const Inst* in) {
  Places p;
  ReadAddresses(w, in, in->a, p);
  const Space space = SpaceOf(in);
  if (w.mask == kAllLanes && Consecutive(p, sizeof(M)) && (p.address[0] & (sizeof(M) - 1)) == 0) {
    constexpr uint32_t kBytes = kLanes * sizeof(M);
    const uint8_t* from = nullptr;
    if (space == Space::kShared) {
      if (kBytes <= w.memory.shared_bytes && p.address[0] <= w.memory.shared_bytes - kBytes)
        from = w.memory.shared + p.address[0];
    } else if (space != Space::kLocal && space != Space::kParam &&
               p.address[0] - w.memory.map.base < w.memory.map.size) {
      if (GlobalAllows(w.memory.map, p.address[0], kBytes, false))
        from = reinterpret_cast<const uint8_t*>(p.address[0]);
    }
    if (from != nullptr) {
      R* d = w.At<R>(in->d);
      const M* m = reinterpret_cast<const M*>(from);
      TF_LANES(i) d[i] = Widen<R>(m[i]);
      if (in->flags & kTouch) {
        w.touched = true;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
      }
      return in + 1;
    }
  }
  if (!Place(w, in, space, sizeof(M), false, p)) return kStop;
  R* d = w.At<R>(in->d);
  ForLanes(w.mask, [&](int i) {
    M m;
    std::memcpy(&m, p.at[i], sizeof m);
    d[i] = Widen<R>(m);
  });
  if (in->flags & kTouch) {
    w.touched = true;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
  }
  return in + 1;
}

template <typename M, typename R>
const Inst* LoadVector(Warp& w, const Inst* in) {
  Places p;
  ReadAddresses(w, in, in->a, p);
  const uint32_t n = (in->flags >> kVectorShift) & 7;
  if (!Place(w, in, SpaceOf(in), n * static_cast<uint32_t>(sizeof(M)), false, p)) return kStop;
  const uint32_t* slots = w.module->lists.data() + in->aux;
  for (uint32_t k = 0; k < n; ++k) {
    if (slots[k] == kNoSlot) continue;
    R* d = w.At<R>(slots[k]);
    ForLanes(w.mask, [&](int i) {
      M m;
      std::memcpy(&m, p.at[i] + k * sizeof m, sizeof m);
      d[i] = Widen<R>(m);
    });
  }
  if (in->flags & kTouch) w.touched = true;
  return in + 1;
}

template <typename M, typename R>
const Inst* Store(Warp& w, const Inst* in) {
  Places p;
  ReadAddresses(w, in, in->a, p);
  const Space space = SpaceOf(in);
  const R* b = w.At<R>(in->b);
  if (in->flags & kTouch) {
    w.touched = true;
    __atomic_thread_fence(__ATOMIC_RELEASE);
  }
  if (w.mask == kAllLanes && Consecutive(p, sizeof(M)) && (p.address[0] & (sizeof(M) - 1)) == 0) {
    constexpr uint32_t kBytes = kLanes * sizeof(M);
    uint8_t* to = nullptr;
    if (space == Space::kShared) {
      if (kBytes <= w.memory.shared_bytes && p.address[0] <= w.memory.shared_bytes - kBytes)
        to = w.memory.shared + p.address[0];
    } else if (space != Space::kLocal && space != Space::kParam &&
               p.address[0] - w.memory.map.base < w.memory.map.size) {
      if (GlobalAllows(w.memory.map, p.address[0], kBytes, true)) to = reinterpret_cast<uint8_t*>(p.address[0]);
    }
    if (to != nullptr) {
      M* m = reinterpret_cast<M*>(to);
      TF_LANES(i) m[i] = Widen<M>(b[i]);
      return in + 1;
    }
  }
  if (!Place(w, in, space, sizeof(M), true, p)) return kStop;
  ForLanes(w.mask, [&](int i) {
    M m = Widen<M>(b[i]);
    std::memcpy(p.at[i], &m, sizeof m);
  });
  return in + 1;
}

template <typename M, typename R>
const Inst* StoreVector(Warp& w, const Inst* in) {
  Places p;
  ReadAddresses(w, in, in->a, p);
  const uint32_t n = (in->flags >> kVectorShift) & 7;
  if (!Place(w, in, SpaceOf(in), n * static_cast<uint32_t>(sizeof(M)), true, p)) return kStop;
  if (in->flags & kTouch) w.touched = true;
  const uint32_t* slots = w.module->lists.data() + in->aux;
  for (uint32_t k = 0; k < n; ++k) {
    const R* b = w.At<R>(slots[k]);
    ForLanes(w.mask, [&](int i) {
      M m = Widen<M>(b[i]);
      std::memcpy(p.at[i] + k * sizeof m, &m, sizeof m);
    });
  }
  return in + 1;
}

// Kernel parameters are the same for all lanes; the offset imm was checked when the program was decoded.
template <typename M, typename R>
const Inst* LoadParam(Warp& w, const Inst* in) {
  M m;
  std::memcpy(&m, w.memory.parameters + in->imm, sizeof m);
  R r = Widen<R>(m);
  R* d = w.At<R>(in->d);
  if (w.mask == kAllLanes) {
    TF_LANES(i) d[i] = r;
  } else {
    EachLane(w.mask, [&](int i) { d[i] = r; });
  }
  return in + 1;
}

// cp.async: a is the place in shared memory, b that in global memory (offset in e as an index into the lists), aux the
// bytes; c, if there, how many bytes are read, the rest is zeros.
const Inst* CopyAsync(Warp& w, const Inst* in) {
  Places to, from;
  ReadAddresses(w, in, in->a, to);
  const uint64_t* b = w.At<uint64_t>(in->b);
  auto offset = static_cast<uint64_t>(static_cast<int32_t>(in->e));
  TF_LANES(i) from.address[i] = b[i] + offset;
  const uint32_t bytes = in->aux;
  if (!PlaceEach(w, in, Space::kShared, bytes, true, to)) return kStop;
  bool good = true;
  EachLane(w.mask, [&](int i) {
    if (!good) return;
    uint32_t read = bytes;
    if (in->c != kNoSlot) {
      read = in->flags & kIgnorePredicate ? ((*w.At<uint32_t>(in->c) >> i) & 1 ? 0 : bytes) : w.At<uint32_t>(in->c)[i];
      if (read > bytes) read = bytes;
    }
    if (read > 0) {
      Fault fault = Fault::kMisalignedAddress;
      uint8_t* source = from.address[i] & (bytes - 1)
                            ? nullptr
                            : Translate(w.memory, Space::kGlobal, from.address[i], read, false, i, fault);
      if (source == nullptr) {
        FaultAt(w, in, fault, "asynchronous copy", static_cast<uint32_t>(i), from.address[i]);
        good = false;
        return;
      }
      std::memcpy(to.at[i], source, read);
    }
    std::memset(to.at[i] + read, 0, bytes - read);
  });
  return good ? in + 1 : kStop;
}

enum class What { kLoad, kLoadVector, kStore, kStoreVector, kLoadParam };

template <typename M, typename R>
Handler Choose(What what) {
  switch (what) {
    case What::kLoad:
      return &Load<M, R>;
    case What::kLoadVector:
      return &LoadVector<M, R>;
    case What::kLoadParam:
      return &LoadParam<M, R>;
    case What::kStore:
      return nullptr;
    case What::kStoreVector:
      return nullptr;
  }
  return nullptr;
}
template <typename M, typename R>
Handler ChooseStore(What what) {
  return what == What::kStore ? &Store<M, R> : &StoreVector<M, R>;
}

Handler FindLoad(Type type, uint32_t width, What what) {
  const bool is_signed = IsSigned(type);
  switch (SizeOf(type)) {
    case 1:
      switch (width) {
        case 1:
          return Choose<uint8_t, uint8_t>(what);
        case 2:
          return is_signed ? Choose<int8_t, uint16_t>(what) : Choose<uint8_t, uint16_t>(what);
        case 4:
          return is_signed ? Choose<int8_t, uint32_t>(what) : Choose<uint8_t, uint32_t>(what);
        case 8:
          return is_signed ? Choose<int8_t, uint64_t>(what) : Choose<uint8_t, uint64_t>(what);
        default:
          return nullptr;
      }
    case 2:
      switch (width) {
        case 2:
          return Choose<uint16_t, uint16_t>(what);
        case 4:
          return is_signed ? Choose<int16_t, uint32_t>(what) : Choose<uint16_t, uint32_t>(what);
        case 8:
          return is_signed ? Choose<int16_t, uint64_t>(what) : Choose<uint16_t, uint64_t>(what);
        default:
          return nullptr;
      }
    case 4:
      switch (width) {
        case 4:
          return Choose<uint32_t, uint32_t>(what);
        case 8:
          return is_signed ? Choose<int32_t, uint64_t>(what) : Choose<uint32_t, uint64_t>(what);
        default:
          return nullptr;
      }
    case 8:
      return width == 8 ? Choose<uint64_t, uint64_t>(what) : nullptr;
    case 16:
      return width == 16 ? Choose<Quad, Quad>(what) : nullptr;
    default:
      return nullptr;
  }
}

Handler FindStore(Type type, uint32_t width, What what) {
  switch (SizeOf(type)) {
    case 1:
      return width == 1   ? ChooseStore<uint8_t, uint8_t>(what)
             : width == 2 ? ChooseStore<uint8_t, uint16_t>(what)
             : width == 4 ? ChooseStore<uint8_t, uint32_t>(what)
             : width == 8 ? ChooseStore<uint8_t, uint64_t>(what)
                          : nullptr;
    case 2:
      return width == 2   ? ChooseStore<uint16_t, uint16_t>(what)
             : width == 4 ? ChooseStore<uint16_t, uint32_t>(what)
             : width == 8 ? ChooseStore<uint16_t, uint64_t>(what)
                          : nullptr;
    case 4:
      return width == 4   ? ChooseStore<uint32_t, uint32_t>(what)
             : width == 8 ? ChooseStore<uint32_t, uint64_t>(what)
                          : nullptr;
    case 8:
      return width == 8 ? ChooseStore<uint64_t, uint64_t>(what) : nullptr;
    case 16:
      return width == 16 ? ChooseStore<Quad, Quad>(what) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

namespace TF_PTX_SET {

Handler FindMemory(const Key& k) {
  switch (k.op) {
    case Op::kLoad:
      return FindLoad(k.type, k.width, k.vector > 1 ? What::kLoadVector : What::kLoad);
    case Op::kLoadParam:
      return FindLoad(k.type, k.width, What::kLoadParam);
    case Op::kStore:
      return FindStore(k.type, k.width, k.vector > 1 ? What::kStoreVector : What::kStore);
    case Op::kCopyAsync:
      return &CopyAsync;
    default:
      return nullptr;
  }
}

}  // namespace TF_PTX_SET
}  // namespace tf::simgpu::ptx
