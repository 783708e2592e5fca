// From the addresses that lanes use to host memory, with every check that a card makes.
#pragma once

#include "simgpu/ptx/exec/common.h"
#include "simgpu/ptx/exec/flags.h"

namespace tf::simgpu::ptx {
namespace {

TF_INLINE Space SpaceOf(const Inst* in) { return static_cast<Space>(in->flags & kSpaceMask); }

TF_INLINE bool PageAllows(const AddressMap& map, uint64_t page, bool write) {
  return __atomic_load_n(map.pages + page, __ATOMIC_RELAXED) & (write ? 2 : 1);
}

// Global memory, all bytes of [address, address + bytes).
inline bool GlobalAllows(const AddressMap& map, uint64_t address, uint64_t bytes, bool write) {
  uint64_t offset = address - map.base;
  if (offset < map.size && bytes <= map.size - offset) {
    for (uint64_t page = offset >> map.page_shift; page <= (offset + bytes - 1) >> map.page_shift; ++page) {
      if (!PageAllows(map, page, write)) return false;
    }
    return true;
  }
  return (address & kWindowMask) == 0 && map.slow != nullptr &&
         map.slow(map.user, address, static_cast<uint32_t>(bytes), write);
}

// The host address of one lane's access, or nullptr with the reason in `fault`.
inline uint8_t* Translate(const Memory& m, Space space, uint64_t address, uint64_t bytes, bool write, int lane,
                          Fault& fault) {
  if (space == Space::kGeneric) {
    uint64_t window = address & kWindowMask;
    if (window == kSharedWindow) {
      space = Space::kShared;
      address &= ~kWindowMask;
    } else if (window == kLocalWindow) {
      space = Space::kLocal;
      address &= ~kWindowMask;
    } else if (window == kParamWindow) {
      space = Space::kParam;
      address &= ~kWindowMask;
    }
  }
  fault = Fault::kIllegalAddress;
  switch (space) {
    case Space::kShared:
      if (bytes > m.shared_bytes || address > m.shared_bytes - bytes) return nullptr;
      return m.shared + address;
    case Space::kLocal:
      if (bytes > m.local_bytes || address > m.local_bytes - bytes) return nullptr;
      return m.local + static_cast<uint64_t>(lane) * m.local_stride + address;
    case Space::kParam:
      if (write || bytes > m.parameter_bytes || address > m.parameter_bytes - bytes) return nullptr;
      return const_cast<uint8_t*>(m.parameters) + address;
    default:
      if (!GlobalAllows(m.map, address, bytes, write)) return nullptr;
      return reinterpret_cast<uint8_t*>(address);
  }
}

struct Places {
  alignas(64) uint64_t address[kLanes];
  uint8_t* at[kLanes];
  bool is_shared = false;  // all of them
};

template <typename F>
TF_INLINE void ForLanes(uint32_t mask, F f) {
  if (mask == kAllLanes) {
    for (int i = 0; i < kLanes; ++i) f(i);
  } else {
    EachLane(mask, f);
  }
}

TF_INLINE void ReadAddresses(Warp& w, const Inst* in, Slot slot, Places& p) {
  auto offset = static_cast<uint64_t>(in->imm);
  if (in->flags & kNarrowAddress) {
    const uint32_t* a = w.At<uint32_t>(slot);
    TF_LANES(i) p.address[i] = static_cast<uint32_t>(a[i] + static_cast<uint32_t>(offset));
  } else {
    const uint64_t* a = w.At<uint64_t>(slot);
    TF_LANES(i) p.address[i] = a[i] + offset;
  }
}

// Checks the lanes one by one: some are not allowed, or the addresses lie too far apart for the quick check.
[[gnu::noinline]] inline bool PlaceEach(Warp& w, const Inst* in, Space space, uint32_t bytes, bool write, Places& p) {
  bool good = true;
  p.is_shared = space == Space::kShared || space == Space::kGeneric;
  EachLane(w.mask, [&](int i) {
    if (!good) return;
    if (p.address[i] & (bytes - 1)) {
      FaultAt(w, in, Fault::kMisalignedAddress, write ? "misaligned store" : "misaligned load",
              static_cast<uint32_t>(i), p.address[i]);
      good = false;
      return;
    }
    if (space == Space::kGeneric && (p.address[i] & kWindowMask) != kSharedWindow) p.is_shared = false;
    Fault fault;
    p.at[i] = Translate(w.memory, space, p.address[i], bytes, write, i, fault);
    if (p.at[i] == nullptr) {
      FaultAt(w, in, fault, write ? "store to memory that is not there" : "load from memory that is not there",
              static_cast<uint32_t>(i), p.address[i]);
      good = false;
    }
  });
  return good;
}

// Fills p.at for the active lanes from p.address. False: the fault is in the warp.
TF_INLINE bool Place(Warp& w, const Inst* in, Space space, uint32_t bytes, bool write, Places& p) {
  const Memory& m = w.memory;
  uint64_t low = ~uint64_t{0}, high = 0, bits = 0;
  if (w.mask == kAllLanes) {
    TF_LANES(i) low = p.address[i] < low ? p.address[i] : low;
    TF_LANES(i) high = p.address[i] > high ? p.address[i] : high;
    TF_LANES(i) bits |= p.address[i];
  } else {
    EachLane(w.mask, [&](int i) {
      low = p.address[i] < low ? p.address[i] : low;
      high = p.address[i] > high ? p.address[i] : high;
      bits |= p.address[i];
    });
  }
  if (bits & (bytes - 1)) return PlaceEach(w, in, space, bytes, write, p);
  switch (space) {
    case Space::kShared:
      if (bytes > m.shared_bytes || high > m.shared_bytes - bytes) return PlaceEach(w, in, space, bytes, write, p);
      TF_LANES(i) p.at[i] = m.shared + p.address[i];
      p.is_shared = true;
      return true;
    case Space::kLocal:
      if (bytes > m.local_bytes || high > m.local_bytes - bytes) return PlaceEach(w, in, space, bytes, write, p);
      TF_LANES(i) p.at[i] = m.local + static_cast<uint64_t>(i) * m.local_stride + p.address[i];
      return true;
    case Space::kParam:
      return PlaceEach(w, in, space, bytes, write, p);
    default:
      break;
  }
  uint64_t offset = low - m.map.base, end = high - m.map.base;
  if (offset >= m.map.size || end >= m.map.size || m.map.size - end < bytes ||
      end - offset > (uint64_t{32} << m.map.page_shift)) {
    return PlaceEach(w, in, space, bytes, write, p);
  }
  // Aligned accesses never straddle pages.
  for (uint64_t page = offset >> m.map.page_shift; page <= end >> m.map.page_shift; ++page) {
    if (!PageAllows(m.map, page, write)) return PlaceEach(w, in, space, bytes, write, p);
  }
  TF_LANES(i) p.at[i] = reinterpret_cast<uint8_t*>(p.address[i]);
  return true;
}

// True if the full warp accesses consecutive elements in lane order.
TF_INLINE bool Consecutive(const Places& p, uint32_t bytes) {
  uint64_t differs = 0, first = p.address[0];
  TF_LANES(i) differs |= p.address[i] ^ (first + static_cast<uint64_t>(i) * bytes);
  return differs == 0;
}

}  // namespace
}  // namespace tf::simgpu::ptx
