#include "simgpu/context.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "simgpu/pool.h"

namespace tf::simgpu {
namespace {

// How long work that has been given may go on when its context is destroyed. Programs that end without waiting see the
// output of their last kernels; a kernel that never ends does not keep the card.
constexpr std::chrono::seconds kGrace{1};

}  // namespace

uint64_t Context::DeviceHeap::Allocate(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!region_) {
    uint64_t size = 0;
    if (context_.GetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, &size) != CUDA_SUCCESS ||
        context_.Allocate(size, PageMap::kReadWrite, nullptr, &region_) != CUDA_SUCCESS) {
      return 0;
    }
    gaps_[region_] = size;
  }
  bytes = std::max<uint64_t>(RoundUp(bytes, 16), 16);
  for (auto& [address, size] : gaps_) {
    if (size < bytes) continue;
    uint64_t result = address, rest = size - bytes;
    gaps_.erase(result);
    if (rest) gaps_[result + bytes] = rest;
    used_[result] = bytes;
    return result;
  }
  return 0;
}

void Context::DeviceHeap::Free(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = used_.find(address);
  if (found == used_.end()) return;
  uint64_t size = found->second;
  used_.erase(found);
  auto next = gaps_.lower_bound(address);
  if (next != gaps_.end() && next->first == address + size) {
    size += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin() && std::prev(next)->first + std::prev(next)->second == address) {
    std::prev(next)->second += size;
  } else {
    gaps_[address] = size;
  }
}

absl::StatusOr<std::shared_ptr<Context>> Context::Create(uint64_t id, Device& device) {
  auto card = device.Use();
  if (!card.ok()) return card.status();
  auto pages = PageMap::Create((*card)->arena());
  if (!pages.ok()) return pages.status();
  return std::shared_ptr<Context>(new Context(id, device, *std::move(card), *std::move(pages)));
}

Context::Context(uint64_t id, Device& device, std::shared_ptr<CardUser> card, std::shared_ptr<PageMap> pages)
    : id_(id),
      device_(device),
      card_(std::move(card)),
      pages_(std::move(pages)),
      default_pool_(std::make_shared<Pool>(device.card().index, 0)),
      legacy_(std::make_shared<Stream>(0, true, stop_)) {
  limits_[CU_LIMIT_STACK_SIZE] = 1024;
  limits_[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
  limits_[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  limits_[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  limits_[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

void Context::Poison(CUresult error) {
  // Calls that find the error do not get as far as waiting, and what the kernel printed before it failed is the
  // program's.
  FlushOutput();
  CUresult none = CUDA_SUCCESS;
  error_.compare_exchange_strong(none, error);
}

CUresult Context::StreamCreate(uint64_t id, bool blocking) {
  std::lock_guard lock(order_mutex_);
  if (destroyed_) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  ReapStreams();
  streams_.emplace(id, std::make_shared<Stream>(id, blocking, stop_));
  return CUDA_SUCCESS;
}

CUresult Context::StreamDestroy(uint64_t id) {
  std::lock_guard lock(order_mutex_);
  auto found = streams_.find(id);
  if (found == streams_.end()) return CUDA_ERROR_INVALID_HANDLE;
  // Its operations still run, in order with those of other streams.
  found->second->Finish();
  closing_.push_back(std::move(found->second));
  streams_.erase(found);
  ReapStreams();
  return CUDA_SUCCESS;
}

void Context::ReapStreams() {
  std::erase_if(closing_, [](const std::shared_ptr<Stream>& stream) {
    if (!stream->finished()) return false;
    stream->Close();
    return true;
  });
}

std::shared_ptr<Stream> Context::Lookup(uint64_t id) {
  if (id == 0) return legacy_;
  auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second;
}

// What the rules of the default stream put before the next operation of `stream`.
std::vector<Point> Context::Before(const std::shared_ptr<Stream>& stream) {
  std::vector<Point> points;
  auto add = [&](const std::shared_ptr<Stream>& other) {
    Point point{other, other->last()};
    if (!point.reached()) points.push_back(std::move(point));
  };
  if (stream == legacy_) {
    for (const auto& [id, other] : streams_) {
      if (other->blocking()) add(other);
    }
    for (const auto& other : closing_) {
      if (other->blocking()) add(other);
    }
  } else if (stream->blocking()) {
    add(legacy_);
  }
  return points;
}

CUresult Context::Enqueue(uint64_t id, std::function<void()> run, std::vector<Point> after, Point* point, bool always) {
  std::lock_guard lock(order_mutex_);
  if (destroyed_) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  auto stream = Lookup(id);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<Point> before = Before(stream);
  before.insert(before.end(), std::make_move_iterator(after.begin()), std::make_move_iterator(after.end()));
  uint64_t number = stream->Push(
      [this, run = std::move(run), always] {
        if (!stop_ && (always || error() == CUDA_SUCCESS)) run();
      },
      std::move(before));
  if (point) *point = {stream, number};
  return CUDA_SUCCESS;
}

bool Context::RunNow(uint64_t id, const std::function<void()>& run) {
  std::shared_ptr<Stream> stream;
  uint64_t number;
  {
    std::lock_guard lock(order_mutex_);
    if (destroyed_) return false;
    stream = Lookup(id);
    if (!stream || !Before(stream).empty()) return false;
    number = stream->Begin();
    if (!number) return false;
  }
  if (error() == CUDA_SUCCESS) run();
  stream->End(number);
  return true;
}

CUresult Context::Points(uint64_t id, std::vector<Point>* points) {
  std::lock_guard lock(order_mutex_);
  if (destroyed_) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  auto stream = Lookup(id);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == legacy_) *points = Before(stream);
  points->push_back({stream, stream->last()});
  return CUDA_SUCCESS;
}

std::vector<Point> Context::AllPoints() {
  std::lock_guard lock(order_mutex_);
  std::vector<Point> points{{legacy_, legacy_->last()}};
  for (const auto& [id, stream] : streams_) points.push_back({stream, stream->last()});
  for (const auto& stream : closing_) points.push_back({stream, stream->last()});
  return points;
}

std::shared_ptr<Stream> Context::FindStream(uint64_t id) {
  std::lock_guard lock(order_mutex_);
  return Lookup(id);
}

void Context::AfterWait() {
  FlushOutput();
  std::vector<std::shared_ptr<Pool>> pools;
  {
    std::lock_guard lock(memory_mutex_);
    pools.assign(pools_.begin(), pools_.end());
  }
  for (const auto& pool : pools) pool->TrimToThreshold();
}

void Context::WaitIdle() {
  for (const Point& point : AllPoints()) point.Wait();
}

CUresult Context::Allocate(uint64_t bytes, PageMap::Access access, std::shared_ptr<Pool> pool, uint64_t* address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t reserved = RoundUp(bytes, kPageBytes);
  if (reserved < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t result = card_->Allocate(reserved);
  if (!result) return CUDA_ERROR_OUT_OF_MEMORY;
  {
    std::lock_guard lock(memory_mutex_);
    if (pool) pools_.insert(pool);
    allocations_[result] = {bytes, reserved, std::move(pool)};
  }
  pages_->Set(result, reserved, access);
  *address = result;
  return CUDA_SUCCESS;
}

bool Context::Take(uint64_t address, Allocation* allocation) {
  std::lock_guard lock(memory_mutex_);
  auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  *allocation = std::move(found->second);
  allocations_.erase(found);
  return true;
}

bool Context::Find(uint64_t address, Allocation* allocation) {
  std::lock_guard lock(memory_mutex_);
  auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  *allocation = found->second;
  return true;
}

void Context::GiveBack(uint64_t address, const Allocation& allocation) {
  pages_->Set(address, allocation.reserved, PageMap::kNone);
  card_->Free(address, allocation.reserved);
}

void Context::Restore(uint64_t address, Allocation allocation) {
  std::lock_guard lock(memory_mutex_);
  allocations_[address] = std::move(allocation);
}

CUresult Context::PeerEnable(Context& peer) {
  if (&peer.device_ == &device_) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard lock(memory_mutex_);
  return peers_.emplace(peer.id_, peer.pages_).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult Context::PeerDisable(uint64_t peer) {
  std::lock_guard lock(memory_mutex_);
  return peers_.erase(peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

std::vector<std::shared_ptr<PageMap>> Context::peers() {
  std::lock_guard lock(memory_mutex_);
  std::vector<std::shared_ptr<PageMap>> peers;
  for (const auto& [id, pages] : peers_) peers.push_back(pages);
  return peers;
}

void Context::Print(std::string_view text) {
  uint64_t limit = 0;
  GetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, &limit);
  bool full;
  {
    std::lock_guard lock(output_mutex_);
    output_.append(text);
    full = output_.size() > limit;
  }
  // A real card would drop the oldest lines; nobody misses that.
  if (full) FlushOutput();
}

void Context::FlushOutput() {
  std::lock_guard order(flush_mutex_);
  std::string text;
  {
    std::lock_guard lock(output_mutex_);
    text.swap(output_);
  }
  if (!text.empty() && events_) events_->Output(id_, text);
}

CUresult Context::SetLimit(int limit, uint64_t value) {
  std::lock_guard lock(memory_mutex_);
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      if (value > 512 << 10) return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      value = std::max<uint64_t>(value, kPageBytes);
      break;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      break;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      if (value > 128) return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      return value == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  limits_[limit] = value;
  return CUDA_SUCCESS;
}

CUresult Context::GetLimit(int limit, uint64_t* value) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_MALLOC_HEAP_SIZE:
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: {
      std::lock_guard lock(memory_mutex_);
      *value = limits_[limit];
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
}

void Context::Abandon() {
  stop_ = true;
  Poison(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

void Context::Destroy() {
  {
    std::lock_guard lock(order_mutex_);
    if (destroyed_) return;
    destroyed_ = true;
  }
  auto deadline = std::chrono::steady_clock::now() + kGrace;
  for (const Point& point : AllPoints()) {
    if (!point.WaitUntil(deadline)) break;
  }
  stop_ = true;
  Poison(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  // Nothing is added any more: destroyed_ is set.
  legacy_->Close();
  for (const auto& [id, stream] : streams_) stream->Close();
  for (const auto& stream : closing_) stream->Close();
  streams_.clear();
  closing_.clear();
  FlushOutput();
  std::map<uint64_t, Allocation> allocations;
  std::set<std::shared_ptr<Pool>> pools;
  {
    std::lock_guard lock(memory_mutex_);
    allocations.swap(allocations_);
    pools.swap(pools_);
    peers_.clear();
  }
  for (const auto& [address, allocation] : allocations) {
    if (allocation.pool) {
      allocation.pool->Free(*this, address, allocation, {});
    } else {
      GiveBack(address, allocation);
    }
  }
  for (const auto& pool : pools) pool->DropContext(*this);
}

}  // namespace tf::simgpu
