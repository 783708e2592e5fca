#include "simgpu/sim_backend.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

namespace tf::simgpu {
namespace {

using cuda::CopyShape;
using cuda::Pending;

enum Direction : uint32_t { kToDevice = 0, kToHost = 1, kOnDevice = 2, kOnHost = 3 };
enum CopyFlags : uint32_t { kPageable = 1, kAwaited = 2 };

// Pageable sources up to this size are staged when the stream is busy; larger ones wait for their turn.
constexpr uint64_t kStagedBytes = 4 << 20;
// Fills up to this size are made on the caller's thread when the stream is idle.
constexpr uint64_t kSmallFill = 64 << 10;
constexpr uint32_t kStackSlack = 32 << 10;

int64_t SteadyNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

uint8_t* At(uint64_t address) { return reinterpret_cast<uint8_t*>(address); }

void CopyRows(const CopyShape& shape) {
  for (uint64_t z = 0; z < shape.depth; ++z) {
    uint8_t* to = At(shape.destination + z * shape.destination_slice);
    const uint8_t* from = At(shape.source + z * shape.source_slice);
    if (shape.destination_pitch == shape.width && shape.source_pitch == shape.width) {
      std::memmove(to, from, shape.width * shape.height);
      continue;
    }
    for (uint64_t y = 0; y < shape.height; ++y) {
      std::memmove(to + y * shape.destination_pitch, from + y * shape.source_pitch, shape.width);
    }
  }
}

template <typename T>
void FillRows(uint64_t address, uint64_t pitch, T value, uint64_t width, uint64_t height) {
  for (uint64_t y = 0; y < height; ++y) {
    T* row = reinterpret_cast<T*>(address + y * pitch);
    std::fill(row, row + width / sizeof(T), value);
  }
}

void FillAll(uint64_t address, uint64_t pitch, uint32_t element, uint32_t value, uint64_t width, uint64_t height) {
  if (pitch == width || height == 1) {
    width *= height;
    height = 1;
  }
  if (element == 1) FillRows<uint8_t>(address, pitch, static_cast<uint8_t>(value), width, height);
  if (element == 2) FillRows<uint16_t>(address, pitch, static_cast<uint16_t>(value), width, height);
  if (element == 4) FillRows<uint32_t>(address, pitch, value, width, height);
}

CUresult FaultResult(ptx::Fault fault) {
  switch (fault) {
    case ptx::Fault::kNone:
      return CUDA_SUCCESS;
    case ptx::Fault::kIllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ptx::Fault::kMisalignedAddress:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ptx::Fault::kIllegalInstruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case ptx::Fault::kAssert:
      return CUDA_ERROR_ASSERT;
    case ptx::Fault::kTrap:
      return CUDA_ERROR_LAUNCH_FAILED;
    case ptx::Fault::kInvalidAddressSpace:
      return CUDA_ERROR_INVALID_ADDRESS_SPACE;
    case ptx::Fault::kInvalidPc:
      return CUDA_ERROR_INVALID_PC;
    case ptx::Fault::kStackError:
      return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case ptx::Fault::kCancelled:
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

// What a kernel may reach outside of the memory of its own context.
struct Elsewhere {
  std::shared_ptr<const HostMemory::Snapshot> host;
  std::vector<std::shared_ptr<PageMap>> peers;

  static bool Allows(void* user, uint64_t address, uint32_t bytes, bool write) {
    const auto& self = *static_cast<const Elsewhere*>(user);
    if (self.host->Allows(address, bytes, write)) return true;
    return std::any_of(self.peers.begin(), self.peers.end(),
                       [&](const auto& pages) { return pages->Allows(address, bytes, write); });
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<SimBackend>> SimBackend::Create(CardList cards) {
  auto state = CardState::Open(std::move(cards));
  if (!state.ok()) return state.status();
  return std::unique_ptr<SimBackend>(new SimBackend(*std::move(state)));
}

SimBackend::SimBackend(std::shared_ptr<CardState> state) : state_(std::move(state)) {
  for (const Card& card : state_->list().cards) devices_.push_back(std::make_unique<Device>(*state_, card));
}

SimBackend::~SimBackend() {
  std::vector<uint64_t> ids;
  for (const auto& [id, context] : contexts_) ids.push_back(id);
  for (uint64_t id : ids) ContextDestroy(id);
}

CUresult SimBackend::Describe(cuda::Snapshot* snapshot) {
  snapshot->driver_version = kDriverVersion;
  snapshot->maps_host_memory = 1;
  snapshot->devices.clear();
  for (const auto& device : devices_) snapshot->devices.push_back(DescribeCard(device->card()));
  return CUDA_SUCCESS;
}

// --- Contexts

std::shared_ptr<Context> SimBackend::Find(uint64_t id) {
  std::lock_guard lock(mutex_);
  auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : found->second;
}

std::shared_ptr<Context> SimBackend::Use(uint64_t id, CUresult* result) {
  auto context = Find(id);
  *result = context ? context->error() : CUDA_ERROR_INVALID_CONTEXT;
  return *result == CUDA_SUCCESS ? context : nullptr;
}

CUresult SimBackend::ContextCreate(uint64_t id, int32_t device, uint32_t) {
  if (device < 0 || static_cast<size_t>(device) >= devices_.size()) return CUDA_ERROR_INVALID_DEVICE;
  auto context = Context::Create(id, *devices_[device]);
  if (!context.ok()) {
    std::fprintf(stderr, "simulated GPU %d: %s\n", device, std::string(context.status().message()).c_str());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  (*context)->SetEvents(events_);
  std::lock_guard lock(mutex_);
  contexts_[id] = *std::move(context);
  return CUDA_SUCCESS;
}

CUresult SimBackend::ContextDestroy(uint64_t id) {
  std::shared_ptr<Context> context;
  std::vector<std::shared_ptr<Module>> modules;
  {
    std::lock_guard lock(mutex_);
    auto found = contexts_.find(id);
    if (found == contexts_.end()) return CUDA_ERROR_INVALID_CONTEXT;
    context = std::move(found->second);
    contexts_.erase(found);
    std::erase_if(events_by_id_, [&](const auto& entry) { return entry.second.context == id; });
    std::erase_if(modules_, [&](auto& entry) {
      if (entry.second.context != id) return false;
      modules.push_back(std::move(entry.second.module));
      return true;
    });
  }
  context->Destroy();
  host_memory_.DropContext(id);
  return CUDA_SUCCESS;
}

CUresult SimBackend::ContextAbandon(uint64_t id) {
  auto context = Find(id);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  context->Abandon();
  return CUDA_SUCCESS;
}

CUresult SimBackend::ContextSetLimit(uint64_t id, int32_t limit, uint64_t value) {
  CUresult result;
  auto context = Use(id, &result);
  return context ? context->SetLimit(limit, value) : result;
}

CUresult SimBackend::ContextGetLimit(uint64_t id, int32_t limit, uint64_t* value) {
  CUresult result;
  auto context = Use(id, &result);
  return context ? context->GetLimit(limit, value) : result;
}

Pending SimBackend::ContextSynchronize(uint64_t id) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return Pending::Now(result);
  return Pending::Later([context, points = context->AllPoints()] {
    for (const Point& point : points) point.Wait();
    context->AfterWait();
    return context->error();
  });
}

CUresult SimBackend::PeerEnable(uint64_t id, uint64_t peer_id) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  auto peer = Find(peer_id);
  return peer ? context->PeerEnable(*peer) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult SimBackend::PeerDisable(uint64_t id, uint64_t peer) {
  CUresult result;
  auto context = Use(id, &result);
  return context ? context->PeerDisable(peer) : result;
}

// --- Streams

CUresult SimBackend::StreamCreate(uint64_t id, uint64_t stream, uint32_t flags, int32_t) {
  CUresult result;
  auto context = Use(id, &result);
  return context ? context->StreamCreate(stream, !(flags & CU_STREAM_NON_BLOCKING)) : result;
}

CUresult SimBackend::StreamDestroy(uint64_t id, uint64_t stream) {
  auto context = Find(id);  // also after a fault
  return context ? context->StreamDestroy(stream) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult SimBackend::StreamQuery(uint64_t id, uint64_t stream) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  std::vector<Point> points;
  if (result = context->Points(stream, &points); result != CUDA_SUCCESS) return result;
  for (const Point& point : points) {
    if (!point.reached()) return CUDA_ERROR_NOT_READY;
  }
  context->AfterWait();
  return context->error();
}

Pending SimBackend::StreamSynchronize(uint64_t id, uint64_t stream) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return Pending::Now(result);
  std::vector<Point> points;
  if (result = context->Points(stream, &points); result != CUDA_SUCCESS) return Pending::Now(result);
  return Pending::Later([context, points = std::move(points)] {
    for (const Point& point : points) point.Wait();
    context->AfterWait();
    return context->error();
  });
}

CUresult SimBackend::StreamWaitEvent(uint64_t id, uint64_t stream, uint64_t event_id, uint32_t) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  Event event;
  if (result = FindEvent(event_id, &event); result != CUDA_SUCCESS) return result;
  std::vector<Point> after;
  if (event.record && !event.record->point.reached()) after.push_back(event.record->point);
  // Also without anything to wait for: the stream must exist.
  return context->Enqueue(stream, [] {}, std::move(after));
}

CUresult SimBackend::StreamHostFunction(uint64_t id, uint64_t stream, uint64_t token) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  return context->Enqueue(
      stream,
      [this, context = context.get(), token] {
        context->FlushOutput();
        events_->HostFunction(token, context->error());
      },
      {}, nullptr, true);
}

// --- Events

CUresult SimBackend::FindEvent(uint64_t id, Event* event) {
  std::lock_guard lock(mutex_);
  auto found = events_by_id_.find(id);
  if (found == events_by_id_.end()) return CUDA_ERROR_INVALID_HANDLE;
  *event = found->second;
  return CUDA_SUCCESS;
}

CUresult SimBackend::EventCreate(uint64_t id, uint64_t event, uint32_t flags) {
  CUresult result;
  if (!Use(id, &result)) return result;
  std::lock_guard lock(mutex_);
  events_by_id_[event] = {id, !(flags & CU_EVENT_DISABLE_TIMING), nullptr};
  return CUDA_SUCCESS;
}

CUresult SimBackend::EventDestroy(uint64_t, uint64_t event) {
  std::lock_guard lock(mutex_);
  return events_by_id_.erase(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult SimBackend::EventRecord(uint64_t id, uint64_t event_id, uint64_t stream, uint32_t) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  Event event;
  if (result = FindEvent(event_id, &event); result != CUDA_SUCCESS) return result;
  auto record = std::make_shared<Record>();
  record->context = context;
  // The operation holds the record, and the record the stream: the operation is gone once it has run.
  result = context->Enqueue(stream, [record] { record->time_ns = SteadyNs(); }, {}, &record->point);
  if (result != CUDA_SUCCESS) return result;
  std::lock_guard lock(mutex_);
  auto found = events_by_id_.find(event_id);
  if (found == events_by_id_.end()) return CUDA_ERROR_INVALID_HANDLE;
  found->second.record = std::move(record);
  return CUDA_SUCCESS;
}

CUresult SimBackend::EventQuery(uint64_t id, uint64_t event_id) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  Event event;
  if (result = FindEvent(event_id, &event); result != CUDA_SUCCESS) return result;
  if (!event.record) return CUDA_SUCCESS;
  if (!event.record->point.reached()) return CUDA_ERROR_NOT_READY;
  event.record->context->AfterWait();
  return context->error();
}

Pending SimBackend::EventSynchronize(uint64_t id, uint64_t event_id) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return Pending::Now(result);
  Event event;
  if (result = FindEvent(event_id, &event); result != CUDA_SUCCESS || !event.record) return Pending::Now(result);
  return Pending::Later([context, record = event.record] {
    record->point.Wait();
    record->context->AfterWait();
    return context->error();
  });
}

CUresult SimBackend::EventElapsed(uint64_t id, uint64_t start_id, uint64_t end_id, float* milliseconds) {
  CUresult result;
  if (!Use(id, &result)) return result;
  Event start, end;
  if (result = FindEvent(start_id, &start); result != CUDA_SUCCESS) return result;
  if (result = FindEvent(end_id, &end); result != CUDA_SUCCESS) return result;
  if (!start.record || !end.record || !start.timing || !end.timing) return CUDA_ERROR_INVALID_HANDLE;
  if (!start.record->point.reached() || !end.record->point.reached()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(end.record->time_ns - start.record->time_ns) / 1e6);
  return CUDA_SUCCESS;
}

// --- Memory

CUresult SimBackend::MemoryInfo(uint64_t id, uint64_t* free, uint64_t* total) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  context->card().Info(free, total);
  return CUDA_SUCCESS;
}

CUresult SimBackend::MemoryAllocate(uint64_t id, uint64_t size, uint64_t* address) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  result = context->Allocate(size, PageMap::kReadWrite, nullptr, address);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  // Pools give up what they keep for reuse.
  context->default_pool()->ReleaseAll();
  std::vector<std::shared_ptr<Pool>> pools;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [pool_id, pool] : pools_) pools.push_back(pool);
  }
  for (const auto& pool : pools) {
    if (pool->device() == context->device().card().index) pool->ReleaseAll();
  }
  return context->Allocate(size, PageMap::kReadWrite, nullptr, address);
}

CUresult SimBackend::MemoryFree(uint64_t id, uint64_t address) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  Context::Allocation allocation;
  if (!context->Find(address, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  // Work that was given before may still use the memory.
  context->WaitIdle();
  context->FlushOutput();
  if (!context->Take(address, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  if (allocation.pool) {
    allocation.pool->Free(*context, address, allocation, {});
  } else {
    context->GiveBack(address, allocation);
  }
  return CUDA_SUCCESS;
}

std::shared_ptr<Pool> SimBackend::FindPool(Context& context, uint64_t id) {
  if (id == 0) return context.default_pool();
  std::lock_guard lock(mutex_);
  auto found = pools_.find(id);
  return found == pools_.end() ? nullptr : found->second;
}

CUresult SimBackend::PoolCreate(uint64_t id, uint64_t pool, int32_t device, uint64_t max_size) {
  CUresult result;
  if (!Use(id, &result)) return result;
  if (device < 0 || static_cast<size_t>(device) >= devices_.size()) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(mutex_);
  pools_[pool] = std::make_shared<Pool>(device, max_size);
  return CUDA_SUCCESS;
}

CUresult SimBackend::PoolDestroy(uint64_t, uint64_t id) {
  std::shared_ptr<Pool> pool;
  {
    std::lock_guard lock(mutex_);
    auto found = pools_.find(id);
    if (found == pools_.end()) return CUDA_ERROR_INVALID_HANDLE;
    pool = std::move(found->second);
    pools_.erase(found);
  }
  // Allocations that are still out keep the pool alive; from now on it keeps nothing for reuse.
  pool->SetAttribute(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
  pool->Trim(0);
  return CUDA_SUCCESS;
}

CUresult SimBackend::PoolTrim(uint64_t id, uint64_t pool_id, uint64_t keep) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  auto pool = FindPool(*context, pool_id);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  pool->Trim(keep);
  return CUDA_SUCCESS;
}

CUresult SimBackend::PoolSetAttribute(uint64_t id, uint64_t pool_id, int32_t attribute, uint64_t value) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  auto pool = FindPool(*context, pool_id);
  return pool ? pool->SetAttribute(attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult SimBackend::PoolGetAttribute(uint64_t id, uint64_t pool_id, int32_t attribute, uint64_t* value) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  auto pool = FindPool(*context, pool_id);
  return pool ? pool->GetAttribute(attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult SimBackend::PoolAllocate(uint64_t id, uint64_t stream_id, uint64_t pool_id, uint64_t size, uint64_t* address) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  auto stream = context->FindStream(stream_id);
  auto pool = FindPool(*context, pool_id);
  return stream && pool ? pool->Allocate(*context, stream, size, address) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult SimBackend::PoolFree(uint64_t id, uint64_t stream, uint64_t address) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  Context::Allocation allocation;
  if (!context->Find(address, &allocation) || !allocation.pool) return CUDA_ERROR_INVALID_VALUE;
  Point point;
  if (result = context->Enqueue(stream, [] {}, {}, &point); result != CUDA_SUCCESS) return result;
  if (!context->Take(address, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  allocation.pool->Free(*context, address, allocation, std::move(point));
  return CUDA_SUCCESS;
}

// --- Host memory

CUresult SimBackend::HostAllocate(uint64_t id, uint64_t size, uint32_t, uint64_t* address) {
  CUresult result;
  if (!Use(id, &result)) return result;
  return host_memory_.Allocate(id, size, address);
}

CUresult SimBackend::HostFree(uint64_t id, uint64_t address) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  context->WaitIdle();
  return host_memory_.Free(address);
}

CUresult SimBackend::HostRegister(uint64_t id, uint64_t address, uint64_t size, uint32_t flags) {
  CUresult result;
  if (!Use(id, &result)) return result;
  return host_memory_.Register(id, address, size, flags & CU_MEMHOSTREGISTER_READ_ONLY);
}

CUresult SimBackend::HostUnregister(uint64_t id, uint64_t address) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  context->WaitIdle();
  return host_memory_.Unregister(address);
}

// --- Copies

Pending SimBackend::Copy(uint64_t id, uint64_t stream, uint32_t direction, const CopyShape& shape, uint32_t flags) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return Pending::Now(result);
  if (direction > kOnHost) return Pending::Now(CUDA_ERROR_INVALID_VALUE);
  bool reads_pageable = (flags & kPageable) && (direction == kToDevice || direction == kOnHost);
  bool writes_pageable = (flags & kPageable) && (direction == kToHost || direction == kOnHost);
  if ((flags & (kPageable | kAwaited)) && context->RunNow(stream, [&] { CopyRows(shape); })) {
    context->AfterWait();
    return Pending::Now(context->error());
  }

  std::function<void()> run = [shape] { CopyRows(shape); };
  bool wait_here = false;
  if (reads_pageable) {
    // The program may change the source as soon as this returns.
    uint64_t bytes = shape.width * shape.height * shape.depth;
    if (bytes <= kStagedBytes) {
      auto staged = std::make_shared<std::vector<uint8_t>>(bytes);
      CopyShape capture = shape;
      capture.destination = reinterpret_cast<uint64_t>(staged->data());
      capture.destination_pitch = shape.width;
      capture.destination_slice = shape.width * shape.height;
      CopyRows(capture);
      CopyShape store = shape;
      store.source = capture.destination;
      store.source_pitch = capture.destination_pitch;
      store.source_slice = capture.destination_slice;
      run = [store, staged] { CopyRows(store); };
    } else {
      wait_here = true;
    }
  }
  Point point;
  result = context->Enqueue(stream, std::move(run), {}, &point);
  if (result != CUDA_SUCCESS) return Pending::Now(result);
  if (wait_here) point.Wait();
  if (!writes_pageable && !(flags & kAwaited)) return Pending::Now(CUDA_SUCCESS);
  return Pending::Later([context, point] {
    point.Wait();
    context->AfterWait();
    return context->error();
  });
}

CUresult SimBackend::Fill(uint64_t id, uint64_t stream, uint64_t address, uint64_t pitch, uint32_t element,
                          uint32_t value, uint64_t width, uint64_t height) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  if (element != 1 && element != 2 && element != 4) return CUDA_ERROR_INVALID_VALUE;
  if (address % element || width % element || (height > 1 && pitch % element)) return CUDA_ERROR_INVALID_VALUE;
  auto run = [=] { FillAll(address, pitch, element, value, width, height); };
  if (width * height <= kSmallFill && context->RunNow(stream, run)) return context->error();
  return context->Enqueue(stream, run);
}

// --- Modules and launches

std::shared_ptr<Module> SimBackend::FindModule(uint64_t context, uint64_t id) {
  std::lock_guard lock(mutex_);
  auto found = modules_.find(id);
  return found == modules_.end() || found->second.context != context ? nullptr : found->second.module;
}

CUresult SimBackend::ModuleLoad(uint64_t id, uint64_t module_id, std::span<const std::byte> image,
                                cuda::ModuleFacts* facts) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  std::unique_ptr<Module> module;
  result = Module::Load(*context, image, &module, facts);
  if (result != CUDA_SUCCESS) return result;
  std::lock_guard lock(mutex_);
  modules_[module_id] = {id, std::move(module)};
  return CUDA_SUCCESS;
}

CUresult SimBackend::ModuleUnload(uint64_t id, uint64_t module_id) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  auto module = FindModule(id, module_id);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  context->WaitIdle();
  context->FlushOutput();
  {
    std::lock_guard lock(mutex_);
    if (!modules_.erase(module_id)) return CUDA_ERROR_INVALID_HANDLE;
  }
  module->Unload(*context);
  return CUDA_SUCCESS;
}

CUresult SimBackend::ModuleGlobal(uint64_t id, uint64_t module_id, std::string_view name, uint64_t* address,
                                  uint64_t* size) {
  CUresult result;
  if (!Use(id, &result)) return result;
  auto module = FindModule(id, module_id);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  return module->FindVariable(name, address, size) ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult SimBackend::KernelSetAttribute(uint64_t id, uint64_t module_id, uint32_t kernel, int32_t attribute,
                                        int32_t value) {
  CUresult result;
  if (!Use(id, &result)) return result;
  auto module = FindModule(id, module_id);
  return module ? module->SetAttribute(kernel, attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult SimBackend::Launch(uint64_t id, uint64_t stream, uint64_t module_id, uint32_t kernel,
                            const cuda::LaunchShape& shape, std::span<const std::byte> parameters) {
  CUresult result;
  auto context = Use(id, &result);
  if (!context) return result;
  auto module = FindModule(id, module_id);
  if (!module || kernel >= module->program().kernels().size()) return CUDA_ERROR_INVALID_HANDLE;
  const ptx::KernelInfo& info = module->program().kernels()[kernel];
  uint64_t threads = uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  if (shape.block.x == 0 || shape.block.y == 0 || shape.block.z == 0 || shape.block.x > 1024 || shape.block.y > 1024 ||
      shape.block.z > 64 || threads > 1024 || shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0 ||
      shape.grid.x > 0x7fffffff || shape.grid.y > 0xffff || shape.grid.z > 0xffff ||
      !module->AllowsShared(kernel, shape.dynamic_shared) || parameters.size() < info.parameter_bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (threads > info.max_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  std::vector<std::byte> captured(parameters.begin(), parameters.end());
  return context->Enqueue(stream,
                          [this, context = context.get(), module, kernel, shape, captured = std::move(captured)] {
                            Run(*context, *module, kernel, shape, captured);
                          });
}

void SimBackend::Run(Context& context, const Module& module, uint32_t kernel, const cuda::LaunchShape& shape,
                     std::span<const std::byte> parameters) {
  const CardModel& model = *context.device().card().model;
  Elsewhere elsewhere{host_memory_.snapshot(), context.peers()};
  uint64_t stack_limit = 0;
  context.GetLimit(CU_LIMIT_STACK_SIZE, &stack_limit);
  const ptx::KernelInfo& info = module.program().kernels()[kernel];

  ptx::LaunchConfig config;
  config.grid = {shape.grid.x, shape.grid.y, shape.grid.z};
  config.block = {shape.block.x, shape.block.y, shape.block.z};
  config.dynamic_shared_bytes = shape.dynamic_shared;
  config.parameters = parameters;
  config.memory = {.base = context.card().arena().base(),
                   .size = context.card().arena().size(),
                   .pages = context.pages()->pages(),
                   .page_shift = kPageShift,
                   .slow = Elsewhere::Allows,
                   .user = &elsewhere};
  config.print = [&](std::string_view text) { context.Print(text); };
  config.print_error = config.print;
  config.heap = &context.heap();
  config.cancel = &context.stop();
  config.stack_bytes = static_cast<uint32_t>(stack_limit) + info.local_bytes + kStackSlack;
  config.clock_mhz = model.clock_mhz;
  config.multiprocessors = model.multiprocessors;
  config.grid_id = ++launches_;

  CardGate& gate = context.card().gate();
  config.pause = [&] { return gate.Overdue(); };
  uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  ptx::LaunchResult result;
  do {
    if (!gate.Enter(context.stop())) return;
    result = executor_.Run(module.program(), kernel, config);
    gate.Leave();
    config.first_block = result.next_block;
  } while (result.fault == ptx::Fault::kNone && result.next_block < blocks);

  if (result.fault == ptx::Fault::kNone || result.fault == ptx::Fault::kCancelled) return;
  context.Poison(FaultResult(result.fault));
  std::fprintf(stderr, "simulated GPU %d: %s (error %d) at address 0x%llx: %s\n", context.device().card().index,
               std::string(ptx::FaultName(result.fault)).c_str(), FaultResult(result.fault),
               static_cast<unsigned long long>(result.fault_address), result.message.c_str());
}

}  // namespace tf::simgpu
