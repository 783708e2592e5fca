#include "simgpu/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tf::simgpu {
namespace {

// Freed memory from this size on goes back to the operating system; less is cleared in place.
constexpr uint64_t kReturnBytes = 256 << 10;
// Addresses are twice the memory, so that gaps between allocations never make a card seem full.
constexpr uint64_t kAddressesPerByte = 2;
constexpr uint64_t kAlignment = 2 << 20;

absl::StatusOr<void*> Map(uint64_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot reserve ", bytes >> 20,
                                                     " MiB of addresses for a simulated card: ", std::strerror(errno),
                                                     "; raise the address space limit (ulimit -v) or use fewer cards"));
  }
  return address;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(uint64_t card_memory) {
  uint64_t size = RoundUp(card_memory * kAddressesPerByte, kAlignment);
  auto address = Map(size);
  if (!address.ok()) return address.status();
  return std::unique_ptr<Arena>(new Arena(reinterpret_cast<uint64_t>(*address), size));
}

Arena::Arena(uint64_t base, uint64_t size) : base_(base), size_(size) {
  // The first page stays unused: running over the front of the first allocation is noticed as well.
  AddGap(base + kPageBytes, size - kPageBytes);
}

Arena::~Arena() { munmap(reinterpret_cast<void*>(base_), size_); }

void Arena::AddGap(uint64_t address, uint64_t bytes) {
  gaps_.emplace(address, bytes);
  gaps_by_size_.emplace(bytes, address);
}

void Arena::RemoveGap(std::map<uint64_t, uint64_t>::iterator gap) {
  gaps_by_size_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

uint64_t Arena::Allocate(uint64_t bytes) {
  if (bytes > size_) return 0;
  uint64_t need = bytes + kPageBytes;
  std::lock_guard lock(mutex_);
  auto best = gaps_by_size_.lower_bound({need, 0});
  if (best == gaps_by_size_.end()) return 0;
  auto [gap_bytes, address] = *best;
  RemoveGap(gaps_.find(address));
  if (gap_bytes > need) AddGap(address + need, gap_bytes - need);
  return address;
}

void Arena::Free(uint64_t address, uint64_t bytes) {
  void* memory = reinterpret_cast<void*>(address);
  if (bytes < kReturnBytes || madvise(memory, bytes, MADV_DONTNEED) != 0) std::memset(memory, 0, bytes);
  bytes += kPageBytes;
  std::lock_guard lock(mutex_);
  auto next = gaps_.lower_bound(address);
  if (next != gaps_.end() && next->first == address + bytes) {
    bytes += next->second;
    RemoveGap(next++);
  }
  if (next != gaps_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      address = previous->first;
      bytes += previous->second;
      RemoveGap(previous);
    }
  }
  AddGap(address, bytes);
}

absl::StatusOr<std::unique_ptr<PageMap>> PageMap::Create(const Arena& arena) {
  auto pages = Map(arena.size() >> kPageShift);
  if (!pages.ok()) return pages.status();
  return std::unique_ptr<PageMap>(new PageMap(arena, static_cast<uint8_t*>(*pages)));
}

PageMap::~PageMap() { munmap(pages_, size_ >> kPageShift); }

void PageMap::Set(uint64_t address, uint64_t bytes, Access access) {
  std::memset(pages_ + ((address - base_) >> kPageShift), access, bytes >> kPageShift);
}

bool PageMap::Allows(uint64_t address, uint32_t bytes, bool write) const {
  if (address < base_ || bytes > size_ || address - base_ > size_ - bytes) return false;
  uint8_t wanted = write ? 2 : 1;
  return (pages_[(address - base_) >> kPageShift] & wanted) &&
         (pages_[(address - base_ + bytes - 1) >> kPageShift] & wanted);
}

}  // namespace tf::simgpu
