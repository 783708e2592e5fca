#include "cuda/driver/allocations.h"

#include <mutex>

namespace tf::cuda::driver {

const Allocation* Allocations::At(uint64_t address) const {
  auto after = map_.upper_bound(address);
  if (after == map_.begin()) return nullptr;
  const Allocation& allocation = std::prev(after)->second;
  return address - allocation.base < allocation.size ? &allocation : nullptr;
}

bool Allocations::Add(const Allocation& allocation) {
  std::lock_guard lock(mutex_);
  auto after = map_.lower_bound(allocation.base);
  if (At(allocation.base) != nullptr || (after != map_.end() && after->first - allocation.base < allocation.size)) {
    return false;
  }
  map_.emplace(allocation.base, allocation);
  return true;
}

std::optional<Allocation> Allocations::Find(uint64_t address) const {
  std::shared_lock lock(mutex_);
  const Allocation* allocation = At(address);
  return allocation == nullptr ? std::nullopt : std::optional(*allocation);
}

bool Allocations::Overlaps(uint64_t address, uint64_t size) const {
  std::shared_lock lock(mutex_);
  auto after = map_.lower_bound(address);
  return At(address) != nullptr || (after != map_.end() && after->first - address < size);
}

std::optional<Allocation> Allocations::Take(uint64_t base, MemoryKind kind, MemoryKind or_kind) {
  std::lock_guard lock(mutex_);
  auto found = map_.find(base);
  if (found == map_.end() || (found->second.kind != kind && found->second.kind != or_kind)) return std::nullopt;
  Allocation allocation = found->second;
  map_.erase(found);
  return allocation;
}

void Allocations::RemoveContext(uint64_t context_id) {
  std::lock_guard lock(mutex_);
  std::erase_if(map_, [&](const auto& entry) { return entry.second.context_id == context_id; });
}

void Allocations::RemoveVariables(const std::vector<uint64_t>& bases) {
  std::lock_guard lock(mutex_);
  for (uint64_t base : bases) {
    auto found = map_.find(base);
    if (found != map_.end() && found->second.kind == MemoryKind::kVariable) map_.erase(found);
  }
}

}  // namespace tf::cuda::driver
