// The memory that the program has from the driver: device memory, module variables, pinned and registered host memory,
// in one ordered map of addresses (unified addressing: an address means the same in every context). Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "cuda/driver_types.h"

namespace tf::cuda::driver {

enum class MemoryKind : uint8_t {
  kDevice,      // cuMemAlloc
  kPool,        // cuMemAllocAsync
  kVariable,    // of a module
  kPinned,      // cuMemHostAlloc
  kRegistered,  // cuMemHostRegister
};

struct Allocation {
  uint64_t base = 0;
  uint64_t size = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  uint32_t flags = 0;  // of cuMemHostAlloc and cuMemHostRegister
  CUcontext context = nullptr;
  uint64_t context_id = 0;  // the backend's number
  CUmemoryPool pool = nullptr;
  uint64_t id = 0;  // unique in the process

  bool on_device() const { return kind < MemoryKind::kPinned; }
  uint64_t end() const { return base + size; }
};

class Allocations {
 public:
  // False: it overlaps one that is there.
  bool Add(const Allocation& allocation);
  // The allocation that contains the address.
  std::optional<Allocation> Find(uint64_t address) const;
  // Whether any byte of the range belongs to one.
  bool Overlaps(uint64_t address, uint64_t size) const;
  // Takes out the allocation that begins at `base` and is of one of the two kinds. Empty: there is none.
  std::optional<Allocation> Take(uint64_t base, MemoryKind kind, MemoryKind or_kind);
  void RemoveContext(uint64_t context_id);
  void RemoveVariables(const std::vector<uint64_t>& bases);

 private:
  const Allocation* At(uint64_t address) const;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Allocation> map_;
};

}  // namespace tf::cuda::driver
