#include "simgpu/pool.h"

#include <algorithm>
#include <utility>

namespace tf::simgpu {

CUresult Pool::Allocate(Context& context, const std::shared_ptr<Stream>& stream, uint64_t bytes, uint64_t* address) {
  if (bytes == 0 || context.device().card().index != device_) return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock lock(mutex_);
  for (int attempt = 0;; ++attempt) {
    // The smallest block that fits, of which at most half is wasted.
    Block* best = nullptr;
    for (Block& block : free_) {
      bool fits =
          block.owner == &context && block.reserved >= bytes && block.reserved / 2 <= RoundUp(bytes, kPageBytes);
      if (!fits || (best && best->reserved <= block.reserved)) continue;
      if (block.point.stream == stream || block.point.reached()) best = &block;
    }
    if (best) {
      *address = best->address;
      context.Restore(best->address, {bytes, best->reserved, shared_from_this()});
      used_ += best->reserved;
      std::swap(*best, free_.back());
      free_.pop_back();
      break;
    }
    uint64_t reserved = RoundUp(bytes, kPageBytes);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (reserved >= bytes && (!max_size_ || reserved_ + reserved <= max_size_)) {
      result = context.Allocate(bytes, PageMap::kReadWrite, shared_from_this(), address);
    }
    if (result == CUDA_SUCCESS) {
      reserved_ += reserved;
      used_ += reserved;
      reserved_high_ = std::max(reserved_high_, reserved_);
      break;
    }
    if (result != CUDA_ERROR_OUT_OF_MEMORY || attempt > 0) return result;
    // What is kept for reuse, or about to be freed in some stream, makes room.
    lock.unlock();
    ReleaseAll();
    lock.lock();
  }
  used_high_ = std::max(used_high_, used_);
  return CUDA_SUCCESS;
}

void Pool::Free(Context& context, uint64_t address, const Context::Allocation& allocation, Point point) {
  std::lock_guard lock(mutex_);
  used_ -= allocation.reserved;
  free_.push_back({address, allocation.reserved, context.weak_from_this(), &context, std::move(point)});
}

void Pool::Release(size_t index) {
  Block block = std::move(free_[index]);
  free_.erase(free_.begin() + index);
  reserved_ -= block.reserved;
  if (auto context = block.context.lock()) context->GiveBack(block.address, {0, block.reserved, nullptr});
}

void Pool::Trim(uint64_t keep) {
  std::lock_guard lock(mutex_);
  for (size_t i = free_.size(); i-- > 0 && reserved_ > keep;) {
    if (free_[i].point.reached()) Release(i);
  }
}

void Pool::TrimToThreshold() {
  std::unique_lock lock(mutex_);
  uint64_t keep = threshold_;
  lock.unlock();
  Trim(keep);
}

void Pool::ReleaseAll() {
  std::vector<Point> points;
  {
    std::lock_guard lock(mutex_);
    for (const Block& block : free_) points.push_back(block.point);
  }
  for (const Point& point : points) point.Wait();
  Trim(0);
}

void Pool::DropContext(const Context& context) {
  std::lock_guard lock(mutex_);
  for (size_t i = free_.size(); i-- > 0;) {
    if (free_[i].owner == &context) Release(i);
  }
}

CUresult Pool::SetAttribute(int attribute, uint64_t value) {
  std::lock_guard lock(mutex_);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      switches_[attribute] = value;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      threshold_ = value;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (value != 0) return CUDA_ERROR_INVALID_VALUE;
      reserved_high_ = reserved_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (value != 0) return CUDA_ERROR_INVALID_VALUE;
      used_high_ = used_;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Pool::GetAttribute(int attribute, uint64_t* value) {
  std::lock_guard lock(mutex_);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *value = switches_.contains(attribute) ? switches_[attribute] : 1;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *value = threshold_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *value = reserved_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *value = reserved_high_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *value = used_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *value = used_high_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
      *value = CU_MEM_ALLOCATION_TYPE_PINNED;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
      *value = CU_MEM_HANDLE_TYPE_NONE;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_LOCATION_ID:
      *value = device_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_LOCATION_TYPE:
      *value = CU_MEM_LOCATION_TYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
      *value = max_size_;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace tf::simgpu
