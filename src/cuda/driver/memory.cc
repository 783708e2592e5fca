// Device memory, stream-ordered memory and its pools, pinned and registered host memory.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "cuda/driver/state.h"
#include "cuda/driver_api.h"

namespace tf::cuda::driver {
namespace {

constexpr uint64_t kPitchAlignment = 512;
constexpr unsigned int kHostAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned int kHostRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                            CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

Allocation Entry(const Context& context, uint64_t base, uint64_t size, MemoryKind kind) {
  Allocation allocation;
  allocation.base = base;
  allocation.size = size;
  allocation.kind = kind;
  allocation.device = context.device;
  allocation.context = context.handle;
  allocation.context_id = context.id;
  allocation.id = g.Number();
  return allocation;
}

CUresult Allocate(uint64_t size, CUdeviceptr* out) {
  Context* context;
  TF_TRY(Current(&context));
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address = 0;
  TF_TRY(Checked(*context, g.backend->MemoryAllocate(context->id, size, &address)));
  if (!g.allocations.Add(Entry(*context, address, size, MemoryKind::kDevice))) {
    g.backend->MemoryFree(context->id, address);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = address;
  return CUDA_SUCCESS;
}

CUresult AllocateHost(void** out, size_t size, unsigned int flags) {
  Context* context;
  TF_TRY(Current(&context));
  if (size == 0 || (flags & ~kHostAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address = 0;
  TF_TRY(Checked(*context, g.backend->HostAllocate(context->id, size, flags, &address)));
  Allocation entry = Entry(*context, address, size, MemoryKind::kPinned);
  entry.flags = flags;
  if (!g.allocations.Add(entry)) {
    g.backend->HostFree(context->id, address);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = reinterpret_cast<void*>(address);
  return CUDA_SUCCESS;
}

// Frees in the context that allocated: another one may be current.
CUresult OwnerOf(const Allocation& allocation, Context** owner) {
  *owner = g.contexts.Find(allocation.context);
  return *owner != nullptr && (*owner)->id == allocation.context_id ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult PoolOf(CUmemoryPool handle, Pool** pool) {
  *pool = g.pools.Find(handle);
  return *pool == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult AllocateFrom(Pool& pool, const StreamRef& stream, size_t size, CUdeviceptr* out) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (pool.device != stream.context->device) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address = 0;
  TF_TRY(Checked(*stream.context, g.backend->PoolAllocate(stream.context->id, stream.id, pool.id, size, &address)));
  Allocation entry = Entry(*stream.context, address, size, MemoryKind::kPool);
  entry.pool = pool.handle;
  if (!g.allocations.Add(entry)) {
    g.backend->PoolFree(stream.context->id, stream.id, address);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = address;
  return Queued(stream, CUDA_SUCCESS);
}

// The attributes that are numbers of 64 bits; the others are int.
bool Wide(CUmemPool_attribute attribute) {
  return (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH) ||
         attribute == CU_MEMPOOL_ATTR_MAX_POOL_SIZE;
}

bool Settable(CUmemPool_attribute attribute) {
  return (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
          attribute <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) ||
         attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

}  // namespace

namespace api {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  Context* context;
  TF_TRY(Current(&context));
  uint64_t free_bytes = 0, total_bytes = 0;
  TF_TRY(Checked(*context, g.backend->MemoryInfo(context->id, &free_bytes, &total_bytes)));
  if (free != nullptr) *free = std::min(free_bytes, total_bytes);
  if (total != nullptr) *total = total_bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) { return Allocate(bytesize, dptr); }

CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
  if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) return CUDA_ERROR_INVALID_VALUE;
  if (WidthInBytes == 0 || Height == 0 || WidthInBytes > UINT64_MAX - kPitchAlignment) return CUDA_ERROR_INVALID_VALUE;
  uint64_t pitch = (WidthInBytes + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  uint64_t size;
  if (__builtin_mul_overflow(pitch, uint64_t{Height}, &size)) return CUDA_ERROR_OUT_OF_MEMORY;
  TF_TRY(Allocate(size, dptr));
  *pPitch = pitch;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
  Context* context;
  TF_TRY(Current(&context));
  std::optional<Allocation> allocation = g.allocations.Take(dptr, MemoryKind::kDevice, MemoryKind::kPool);
  if (!allocation) return CUDA_ERROR_INVALID_VALUE;
  Context* owner;
  TF_TRY(OwnerOf(*allocation, &owner));
  if (allocation->kind == MemoryKind::kDevice) {
    return Checked(*owner, g.backend->MemoryFree(owner->id, dptr));
  }
  // Without a stream to order it by, the memory goes when all work is over.
  CUresult result = Checked(*owner, g.backend->ContextSynchronize(owner->id).Wait());
  CUresult freed = Checked(*owner, g.backend->PoolFree(owner->id, 0, dptr));
  return result != CUDA_SUCCESS ? result : freed;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  Context* context;
  TF_TRY(Current(&context));
  std::optional<Allocation> allocation = g.allocations.Find(dptr);
  if (!allocation || !allocation->on_device()) return CUDA_ERROR_NOT_FOUND;
  if (pbase != nullptr) *pbase = allocation->base;
  if (psize != nullptr) *psize = allocation->size;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) { return AllocateHost(pp, bytesize, 0); }

CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) { return AllocateHost(pp, bytesize, Flags); }

CUresult cuMemFreeHost(void* p) {
  Context* context;
  TF_TRY(Current(&context));
  std::optional<Allocation> allocation =
      g.allocations.Take(reinterpret_cast<uint64_t>(p), MemoryKind::kPinned, MemoryKind::kPinned);
  if (!allocation) return CUDA_ERROR_INVALID_VALUE;
  Context* owner;
  TF_TRY(OwnerOf(*allocation, &owner));
  return Checked(*owner, g.backend->HostFree(owner->id, allocation->base));
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  Context* context;
  TF_TRY(Current(&context));
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::optional<Allocation> allocation = g.allocations.Find(reinterpret_cast<uint64_t>(p));
  if (!allocation || allocation->on_device()) return CUDA_ERROR_INVALID_VALUE;
  if (!g.maps_host_memory) return CUDA_ERROR_NOT_SUPPORTED;
  *pdptr = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  Context* context;
  TF_TRY(Current(&context));
  std::optional<Allocation> allocation = g.allocations.Find(reinterpret_cast<uint64_t>(p));
  if (!allocation || allocation->kind != MemoryKind::kPinned) return CUDA_ERROR_INVALID_VALUE;
  // With unified addressing all pinned memory is mapped.
  *pFlags = allocation->flags | (g.maps_host_memory ? CU_MEMHOSTALLOC_DEVICEMAP : 0);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  Context* context;
  TF_TRY(Current(&context));
  uint64_t address = reinterpret_cast<uint64_t>(p);
  uint64_t end;
  if (p == nullptr || bytesize == 0 || (Flags & ~kHostRegisterFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(address, uint64_t{bytesize}, &end)) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (!IsMapped(address, bytesize)) return CUDA_ERROR_INVALID_VALUE;
  // The place is taken first, so that of two threads one gets ALREADY_REGISTERED.
  Allocation entry = Entry(*context, address, bytesize, MemoryKind::kRegistered);
  entry.flags = Flags;
  if (!g.allocations.Add(entry)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  CUresult result = Checked(*context, g.backend->HostRegister(context->id, address, bytesize, Flags));
  if (result != CUDA_SUCCESS) (void)g.allocations.Take(address, MemoryKind::kRegistered, MemoryKind::kRegistered);
  return result;
}

CUresult cuMemHostUnregister(void* p) {
  Context* context;
  TF_TRY(Current(&context));
  uint64_t address = reinterpret_cast<uint64_t>(p);
  std::optional<Allocation> allocation = g.allocations.Take(address, MemoryKind::kRegistered, MemoryKind::kRegistered);
  if (!allocation) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  Context* owner;
  TF_TRY(OwnerOf(*allocation, &owner));
  return Checked(*owner, g.backend->HostUnregister(owner->id, address));
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  *pool_out = device->default_pool;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  *pool = device->pool.load();
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  Pool* found;
  TF_TRY(PoolOf(pool, &found));
  if (found->device != dev) return CUDA_ERROR_INVALID_VALUE;
  device->pool.store(pool);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  if (poolProps == nullptr || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE || poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Device* device;
  if (DeviceOf(poolProps->location.id, &device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<Pool>();
  made->device = poolProps->location.id;
  made->id = g.Number();
  made->max_size = poolProps->maxSize;
  AnyContext any(made->device);
  TF_TRY(any.result());
  TF_TRY(g.backend->PoolCreate(any.id(), made->id, device->backend_ordinal, made->max_size));
  CUmemoryPool handle = g.pools.Add(nullptr);
  if (handle == nullptr) {
    g.backend->PoolDestroy(any.id(), made->id);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made->handle = handle;
  g.pools.Set(handle, made.release());
  *pool = handle;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  Pool* found;
  TF_TRY(PoolOf(pool, &found));
  if (found->id == 0) return CUDA_ERROR_INVALID_VALUE;
  Pool* removed = g.pools.Remove(pool);
  if (removed == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device& device = *g.devices[removed->device];
  CUmemoryPool current = pool;
  device.pool.compare_exchange_strong(current, device.default_pool);
  CUresult result;
  {
    AnyContext any(removed->device);
    result = any.result() != CUDA_SUCCESS ? any.result() : g.backend->PoolDestroy(any.id(), removed->id);
  }
  RetireObject(removed);
  return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  Pool* found;
  TF_TRY(PoolOf(pool, &found));
  AnyContext any(found->device);
  TF_TRY(any.result());
  return g.backend->PoolTrim(any.id(), found->id, minBytesToKeep);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  Pool* found;
  TF_TRY(PoolOf(pool, &found));
  if (!Settable(attr)) return CUDA_ERROR_INVALID_VALUE;
  uint64_t number = Wide(attr) ? *static_cast<cuuint64_t*>(value) : static_cast<uint64_t>(*static_cast<int*>(value));
  // The high marks can be set back only.
  bool high = attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
  if (high && number != 0) return CUDA_ERROR_INVALID_VALUE;
  AnyContext any(found->device);
  TF_TRY(any.result());
  return g.backend->PoolSetAttribute(any.id(), found->id, attr, number);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  Pool* found;
  TF_TRY(PoolOf(pool, &found));
  uint64_t number = 0;
  switch (attr) {
    case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
      number = CU_MEM_ALLOCATION_TYPE_PINNED;
      break;
    case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
    case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED:
      break;
    case CU_MEMPOOL_ATTR_LOCATION_ID:
      number = static_cast<uint64_t>(found->device);
      break;
    case CU_MEMPOOL_ATTR_LOCATION_TYPE:
      number = CU_MEM_LOCATION_TYPE_DEVICE;
      break;
    case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
      number = found->max_size;
      break;
    default: {
      if (attr < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES || attr > CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      AnyContext any(found->device);
      TF_TRY(any.result());
      TF_TRY(g.backend->PoolGetAttribute(any.id(), found->id, attr, &number));
    }
  }
  if (Wide(attr)) {
    *static_cast<cuuint64_t*>(value) = number;
  } else {
    *static_cast<int*>(value) = static_cast<int>(number);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  Pool* found;
  TF_TRY(PoolOf(pool, &found));
  if (map == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    Device* device;
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (DeviceOf(map[i].location.id, &device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
    CUmemAccess_flags flags = map[i].flags;
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (map[i].location.id == found->device) {
      if (flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
    } else if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
      int can = 0;
      TF_TRY(cuDeviceCanAccessPeer(&can, map[i].location.id, found->device));
      if (can == 0) return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  std::lock_guard lock(found->mutex);
  for (size_t i = 0; i < count; ++i) found->access[map[i].location.id] = map[i].flags;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
  Pool* found;
  TF_TRY(PoolOf(memPool, &found));
  if (location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  Device* device;
  if (DeviceOf(location->id, &device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(found->mutex);
  auto access = found->access.find(location->id);
  *flags = location->id == found->device   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : access != found->access.end() ? access->second
                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  Pool* pool;
  TF_TRY(PoolOf(g.devices[stream.context->device]->pool.load(), &pool));
  return AllocateFrom(*pool, stream, bytesize, dptr);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  Pool* found;
  TF_TRY(PoolOf(pool, &found));
  return AllocateFrom(*found, stream, bytesize, dptr);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  std::optional<Allocation> allocation = g.allocations.Take(dptr, MemoryKind::kPool, MemoryKind::kDevice);
  if (!allocation) return CUDA_ERROR_INVALID_VALUE;
  if (allocation->kind == MemoryKind::kPool) {
    return Queued(stream, g.backend->PoolFree(stream.context->id, stream.id, dptr));
  }
  // Plain memory knows no streams: it goes when the stream has got here.
  Context* owner;
  TF_TRY(OwnerOf(*allocation, &owner));
  CUresult result = Checked(*stream.context, g.backend->StreamSynchronize(stream.context->id, stream.id).Wait());
  CUresult freed = Checked(*owner, g.backend->MemoryFree(owner->id, dptr));
  return result != CUDA_SUCCESS ? result : freed;
}

}  // namespace api

bool IsMapped(uint64_t address, uint64_t size) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t end;
  if (size == 0 || __builtin_add_overflow(address, size, &end) || end > (uint64_t{1} << 47)) return false;
  uint64_t first = address / page * page;
  // Asks for nothing to be done, and fails with ENOMEM where nothing is mapped.
  return msync(reinterpret_cast<void*>(first), end - first, MS_ASYNC) == 0;
}

}  // namespace tf::cuda::driver
