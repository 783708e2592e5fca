// Device memory of this process on one simulated card: a range of addresses that are host addresses too, and who may
// touch which part of it.
//
// The range is reserved once and costs nothing until it is touched, so that a whole card can be allocated on a small
// machine. All contexts of the process share it; a PageMap per context keeps them apart. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "absl/status/statusor.h"

namespace tf::simgpu {

constexpr uint32_t kPageShift = 12;
constexpr uint64_t kPageBytes = 1 << kPageShift;

constexpr uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Free memory of the arena holds zeros, so that what one context leaves is never seen by another.
class Arena {
 public:
  static absl::StatusOr<std::unique_ptr<Arena>> Create(uint64_t card_memory);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint64_t base() const { return base_; }
  uint64_t size() const { return size_; }

  // `bytes` is a multiple of kPageBytes. The page behind each allocation stays unused, so that running over the end is
  // noticed. Returns 0 when no gap is large enough.
  uint64_t Allocate(uint64_t bytes);
  void Free(uint64_t address, uint64_t bytes);

 private:
  Arena(uint64_t base, uint64_t size);
  void AddGap(uint64_t address, uint64_t bytes);
  void RemoveGap(std::map<uint64_t, uint64_t>::iterator gap);

  const uint64_t base_, size_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> gaps_;                     // address -> bytes
  std::set<std::pair<uint64_t, uint64_t>> gaps_by_size_;  // (bytes, address)
};

// One byte per page of an arena, as ptx::AddressMap wants it: bit 0 readable, bit 1 writable.
class PageMap {
 public:
  enum Access : uint8_t { kNone = 0, kRead = 1, kReadWrite = 3 };

  static absl::StatusOr<std::unique_ptr<PageMap>> Create(const Arena& arena);
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  const uint8_t* pages() const { return pages_; }
  void Set(uint64_t address, uint64_t bytes, Access access);
  bool Allows(uint64_t address, uint32_t bytes, bool write) const;

 private:
  PageMap(const Arena& arena, uint8_t* pages) : base_(arena.base()), size_(arena.size()), pages_(pages) {}

  const uint64_t base_, size_;
  uint8_t* const pages_;
};

}  // namespace tf::simgpu
