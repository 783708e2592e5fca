#include "simgpu/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "simgpu/arena.h"

namespace tf::simgpu {

HostMemory::Range::~Range() {
  if (ours) munmap(reinterpret_cast<void*>(address), bytes);
}

bool HostMemory::Snapshot::Allows(uint64_t address, uint32_t bytes, bool write) const {
  auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), address,
                       [](uint64_t a, const std::shared_ptr<const Range>& range) { return a < range->address; });
  if (after == ranges_.begin()) return false;
  const Range& range = **std::prev(after);
  return address - range.address < range.bytes && bytes <= range.bytes - (address - range.address) &&
         !(write && range.read_only);
}

CUresult HostMemory::Allocate(uint64_t context, uint64_t bytes, uint64_t* address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > uint64_t{1} << 46) return CUDA_ERROR_OUT_OF_MEMORY;
  bytes = RoundUp(bytes, kPageBytes);
  // Accounted by the system (no MAP_NORESERVE): host memory must really be there.
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<uint64_t>(memory);
  return Add(std::make_shared<Range>(*address, bytes, context, true, false));
}

CUresult HostMemory::Free(uint64_t address) { return Remove(address, true); }

CUresult HostMemory::Register(uint64_t context, uint64_t address, uint64_t bytes, bool read_only) {
  if (address == 0 || bytes == 0 || address + bytes < address) return CUDA_ERROR_INVALID_VALUE;
  // Asks the system whether all pages exist; nothing is written back.
  uint64_t first = address / kPageBytes * kPageBytes;
  if (msync(reinterpret_cast<void*>(first), address + bytes - first, MS_ASYNC) != 0) return CUDA_ERROR_INVALID_VALUE;
  return Add(std::make_shared<Range>(address, bytes, context, false, read_only));
}

CUresult HostMemory::Unregister(uint64_t address) {
  return Remove(address, false) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult HostMemory::Add(std::shared_ptr<const Range> range) {
  std::lock_guard lock(mutex_);
  auto next = ranges_.lower_bound(range->address);
  if (next != ranges_.end() && next->first < range->address + range->bytes) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  if (next != ranges_.begin() && std::prev(next)->first + std::prev(next)->second->bytes > range->address) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  ranges_.emplace(range->address, range);
  Publish();
  return CUDA_SUCCESS;
}

CUresult HostMemory::Remove(uint64_t address, bool ours) {
  std::lock_guard lock(mutex_);
  auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second->ours != ours) return CUDA_ERROR_INVALID_VALUE;
  ranges_.erase(found);
  Publish();
  return CUDA_SUCCESS;
}

void HostMemory::DropContext(uint64_t context) {
  std::lock_guard lock(mutex_);
  std::erase_if(ranges_, [&](const auto& entry) { return entry.second->context == context; });
  Publish();
}

std::shared_ptr<const HostMemory::Snapshot> HostMemory::snapshot() const {
  std::lock_guard lock(mutex_);
  return snapshot_;
}

void HostMemory::Publish() {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->ranges_.reserve(ranges_.size());
  for (const auto& [address, range] : ranges_) snapshot->ranges_.push_back(range);
  snapshot_ = std::move(snapshot);
}

}  // namespace tf::simgpu
