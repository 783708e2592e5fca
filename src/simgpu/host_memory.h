// Pinned host memory: what kernels may reach outside of their card. One registry per process; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver_types.h"

namespace tf::simgpu {

class HostMemory {
 public:
  // Pages of ours, or a range of the program that it registered (then it is not unmapped).
  struct Range {
    Range(uint64_t address, uint64_t bytes, uint64_t context, bool ours, bool read_only)
        : address(address), bytes(bytes), context(context), ours(ours), read_only(read_only) {}
    ~Range();
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
    const uint64_t address, bytes, context;
    const bool ours, read_only;
  };

  // All ranges at one moment, by address. Holding it keeps our own pages mapped.
  class Snapshot {
   public:
    bool Allows(uint64_t address, uint32_t bytes, bool write) const;

   private:
    friend class HostMemory;
    std::vector<std::shared_ptr<const Range>> ranges_;
  };

  // Zeroed pages of its own. OUT_OF_MEMORY when the system has none.
  CUresult Allocate(uint64_t context, uint64_t bytes, uint64_t* address);
  // INVALID_VALUE for what Allocate did not return.
  CUresult Free(uint64_t address);
  CUresult Register(uint64_t context, uint64_t address, uint64_t bytes, bool read_only);
  CUresult Unregister(uint64_t address);
  void DropContext(uint64_t context);

  std::shared_ptr<const Snapshot> snapshot() const;

 private:
  CUresult Add(std::shared_ptr<const Range> range);
  CUresult Remove(uint64_t address, bool ours);
  void Publish();

  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const Range>> ranges_;
  std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<Snapshot>();
};

}  // namespace tf::simgpu
