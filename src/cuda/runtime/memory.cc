// Memory: allocation, copies, sets, symbols, pools, pointers.
#include <cstring>

#include "cuda/runtime/registry.h"
#include "cuda/runtime_api.h"

namespace tf::cuda::runtime::api {
namespace {

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

bool ValidKind(cudaMemcpyKind kind) { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

// cudaMemcpyDefault: the address decides.
CUmemorytype SourceType(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

CUmemorytype DestinationType(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

cudaError_t Copy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  if (!ValidKind(kind)) return cudaErrorInvalidMemcpyDirection;
  TF_RETURN_IF_ERROR(NeedContext());
  if (count == 0) return cudaSuccess;
  const DriverFunctions& driver = Driver();
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return Call(driver.cuMemcpyHtoD_v2, Address(dst), src, count);
    case cudaMemcpyDeviceToHost:
      return Call(driver.cuMemcpyDtoH_v2, dst, Address(src), count);
    case cudaMemcpyDeviceToDevice:
      return Call(driver.cuMemcpyDtoD_v2, Address(dst), Address(src), count);
    default:
      return Call(driver.cuMemcpy, Address(dst), Address(src), count);
  }
}

cudaError_t CopyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind, CUstream stream) {
  if (!ValidKind(kind)) return cudaErrorInvalidMemcpyDirection;
  TF_RETURN_IF_ERROR(NeedContext());
  if (count == 0) return cudaSuccess;
  const DriverFunctions& driver = Driver();
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return Call(driver.cuMemcpyHtoDAsync_v2, Address(dst), src, count, stream);
    case cudaMemcpyDeviceToHost:
      return Call(driver.cuMemcpyDtoHAsync_v2, dst, Address(src), count, stream);
    case cudaMemcpyDeviceToDevice:
      return Call(driver.cuMemcpyDtoDAsync_v2, Address(dst), Address(src), count, stream);
    default:
      return Call(driver.cuMemcpyAsync, Address(dst), Address(src), count, stream);
  }
}

// A copy of rows, checked. *empty: there is nothing to copy.
cudaError_t Describe2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       cudaMemcpyKind kind, CUDA_MEMCPY2D* copy, bool* empty) {
  if (!ValidKind(kind)) return cudaErrorInvalidMemcpyDirection;
  TF_RETURN_IF_ERROR(NeedContext());
  *empty = width == 0 || height == 0;
  if (*empty) return cudaSuccess;
  if (width > dpitch || width > spitch) return cudaErrorInvalidPitchValue;
  *copy = {};
  copy->srcMemoryType = SourceType(kind);
  copy->srcHost = src;
  copy->srcDevice = Address(src);
  copy->srcPitch = spitch;
  copy->dstMemoryType = DestinationType(kind);
  copy->dstHost = dst;
  copy->dstDevice = Address(dst);
  copy->dstPitch = dpitch;
  copy->WidthInBytes = width;
  copy->Height = height;
  return cudaSuccess;
}

// The parts that both kinds of three-dimensional copies share.
template <class Driver3D, class Parameters>
cudaError_t Describe3D(const char* function, const Parameters& p, cudaMemcpyKind kind, Driver3D* copy, bool* empty) {
  if (p.srcArray || p.dstArray) return NotSupported(function);
  if (!ValidKind(kind)) return cudaErrorInvalidMemcpyDirection;
  TF_RETURN_IF_ERROR(NeedContext());
  *empty = p.extent.width == 0 || p.extent.height == 0 || p.extent.depth == 0;
  if (*empty) return cudaSuccess;
  if (p.extent.width + p.srcPos.x > p.srcPtr.pitch || p.extent.width + p.dstPos.x > p.dstPtr.pitch) {
    return cudaErrorInvalidPitchValue;
  }
  *copy = {};
  copy->srcXInBytes = p.srcPos.x;
  copy->srcY = p.srcPos.y;
  copy->srcZ = p.srcPos.z;
  copy->srcMemoryType = SourceType(kind);
  copy->srcHost = p.srcPtr.ptr;
  copy->srcDevice = Address(p.srcPtr.ptr);
  copy->srcPitch = p.srcPtr.pitch;
  copy->srcHeight = p.srcPtr.ysize;
  copy->dstXInBytes = p.dstPos.x;
  copy->dstY = p.dstPos.y;
  copy->dstZ = p.dstPos.z;
  copy->dstMemoryType = DestinationType(kind);
  copy->dstHost = p.dstPtr.ptr;
  copy->dstDevice = Address(p.dstPtr.ptr);
  copy->dstPitch = p.dstPtr.pitch;
  copy->dstHeight = p.dstPtr.ysize;
  copy->WidthInBytes = p.extent.width;
  copy->Height = p.extent.height;
  copy->Depth = p.extent.depth;
  return cudaSuccess;
}

cudaError_t DescribePeers(const char* function, const cudaMemcpy3DPeerParms* p, CUDA_MEMCPY3D_PEER* copy, bool* empty) {
  if (!p) return cudaErrorInvalidValue;
  TF_RETURN_IF_ERROR(Describe3D(function, *p, cudaMemcpyDefault, copy, empty));
  TF_RETURN_IF_ERROR(PrimaryContext(p->srcDevice, &copy->srcContext));
  return PrimaryContext(p->dstDevice, &copy->dstContext);
}

// Where in a variable a copy begins.
cudaError_t Inside(const void* symbol, size_t count, size_t offset, void** address) {
  TF_RETURN_IF_ERROR(NeedContext());
  CUdeviceptr start;
  size_t size;
  TF_RETURN_IF_ERROR(FindVariable(symbol, &start, &size));
  if (offset > size || count > size - offset) return cudaErrorInvalidValue;
  *address = Pointer(start + offset);
  return cudaSuccess;
}

bool ToDevice(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

bool FromDevice(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

// Calls set(address, pitch, width, rows) for a box: once when its slices touch, else for each slice.
template <class Set>
cudaError_t SetBox(const cudaPitchedPtr& p, const cudaExtent& extent, Set&& set) {
  TF_RETURN_IF_ERROR(NeedContext());
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return cudaSuccess;
  if (extent.width > p.pitch) return cudaErrorInvalidPitchValue;
  if (extent.height == p.ysize || extent.depth == 1) {
    return set(Address(p.ptr), p.pitch, extent.width, extent.height * extent.depth);
  }
  for (size_t slice = 0; slice < extent.depth; ++slice) {
    TF_RETURN_IF_ERROR(set(Address(p.ptr) + slice * p.pitch * p.ysize, p.pitch, extent.width, extent.height));
  }
  return cudaSuccess;
}

}  // namespace

// Allocation. Nothing asked for is nothing given: a null pointer and success.

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  TF_RETURN_IF_ERROR(NeedContext());
  *devPtr = nullptr;
  if (size == 0) return cudaSuccess;
  CUdeviceptr address;
  TF_RETURN_IF_ERROR(Call(Driver().cuMemAlloc_v2, &address, size));
  *devPtr = Pointer(address);
  return cudaSuccess;
}

cudaError_t cudaMallocPitch(void** devPtr, size_t* pitch, size_t width, size_t height) {
  TF_RETURN_IF_ERROR(NeedContext());
  *devPtr = nullptr;
  *pitch = 0;
  if (width == 0 || height == 0) return cudaSuccess;
  CUdeviceptr address;
  constexpr unsigned kElementBytes = 4;  // any of 4, 8, 16 gives rows that are aligned for all
  TF_RETURN_IF_ERROR(Call(Driver().cuMemAllocPitch_v2, &address, pitch, width, height, kElementBytes));
  *devPtr = Pointer(address);
  return cudaSuccess;
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pitchedDevPtr, cudaExtent extent) {
  size_t rows;
  if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return cudaErrorInvalidValue;
  cudaPitchedPtr result{nullptr, 0, extent.width, extent.height};
  TF_RETURN_IF_ERROR(cudaMallocPitch(&result.ptr, &result.pitch, extent.width, rows));
  *pitchedDevPtr = result;
  return cudaSuccess;
}

cudaError_t cudaFree(void* devPtr) {
  TF_RETURN_IF_ERROR(NeedContext());
  if (!devPtr) return cudaSuccess;
  return Call(Driver().cuMemFree_v2, Address(devPtr));
}

cudaError_t cudaMallocHost(void** ptr, size_t size) { return cudaHostAlloc(ptr, size, 0); }

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  TF_RETURN_IF_ERROR(NeedContext());
  *pHost = nullptr;
  if (flags & ~(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)) {
    return cudaErrorInvalidValue;
  }
  if (size == 0) return cudaSuccess;
  // With unified addressing all pinned memory is mapped and usable from every context.
  return Call(Driver().cuMemHostAlloc, pHost, size, flags | CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

cudaError_t cudaFreeHost(void* ptr) {
  TF_RETURN_IF_ERROR(NeedContext());
  if (!ptr) return cudaSuccess;
  return Call(Driver().cuMemFreeHost, ptr);
}

cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int flags) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuMemHostRegister_v2, ptr, size, flags);
}

cudaError_t cudaHostUnregister(void* ptr) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuMemHostUnregister, ptr);
}

cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags) {
  TF_RETURN_IF_ERROR(NeedContext());
  CUdeviceptr address;
  TF_RETURN_IF_ERROR(Call(Driver().cuMemHostGetDevicePointer_v2, &address, pHost, flags));
  *pDevice = Pointer(address);
  return cudaSuccess;
}

cudaError_t cudaHostGetFlags(unsigned int* pFlags, void* pHost) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuMemHostGetFlags, pFlags, pHost);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuMemGetInfo_v2, free, total);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  TF_RETURN_IF_ERROR(NeedContext());
  constexpr int kInvalidDevice = -2;
  int type = 0, managed = 0, device = kInvalidDevice;
  CUdeviceptr on_device = 0;
  void* on_host = nullptr;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &managed, &device, &on_device, &on_host};
  TF_RETURN_IF_ERROR(Call(Driver().cuPointerGetAttributes, 5, names, values, Address(ptr)));
  cudaPointerAttributes result{};
  if (type == 0) {
    result.type = cudaMemoryTypeUnregistered;
    result.device = kInvalidDevice;
    result.hostPointer = const_cast<void*>(ptr);
  } else {
    result.type = managed                      ? cudaMemoryTypeManaged
                  : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                               : cudaMemoryTypeDevice;
    result.device = device;
    result.devicePointer = Pointer(on_device);
    result.hostPointer = on_host;
  }
#if TF_CUDART_MAJOR == 13
  result.localityDomainOrdinal = -1;
#endif
  *attributes = result;
  return cudaSuccess;
}

// Copies.

cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return Copy(dst, src, count, kind);
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return CopyAsync(dst, src, count, kind, stream);
}

cudaError_t cudaMemcpyPeer(void* dst, int dstDevice, const void* src, int srcDevice, size_t count) {
  CUcontext to, from;
  TF_RETURN_IF_ERROR(PrimaryContext(dstDevice, &to));
  TF_RETURN_IF_ERROR(PrimaryContext(srcDevice, &from));
  TF_RETURN_IF_ERROR(NeedContext());
  if (count == 0) return cudaSuccess;
  return Call(Driver().cuMemcpyPeer, Address(dst), to, Address(src), from, count);
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int dstDevice, const void* src, int srcDevice, size_t count,
                                cudaStream_t stream) {
  CUcontext to, from;
  TF_RETURN_IF_ERROR(PrimaryContext(dstDevice, &to));
  TF_RETURN_IF_ERROR(PrimaryContext(srcDevice, &from));
  TF_RETURN_IF_ERROR(NeedContext());
  if (count == 0) return cudaSuccess;
  return Call(Driver().cuMemcpyPeerAsync, Address(dst), to, Address(src), from, count, stream);
}

cudaError_t cudaMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy;
  bool empty;
  TF_RETURN_IF_ERROR(Describe2D(dst, dpitch, src, spitch, width, height, kind, &copy, &empty));
  return empty ? cudaSuccess : Call(Driver().cuMemcpy2DUnaligned_v2, &copy);
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  CUDA_MEMCPY2D copy;
  bool empty;
  TF_RETURN_IF_ERROR(Describe2D(dst, dpitch, src, spitch, width, height, kind, &copy, &empty));
  return empty ? cudaSuccess : Call(Driver().cuMemcpy2DAsync_v2, &copy, stream);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  if (!p) return cudaErrorInvalidValue;
  CUDA_MEMCPY3D copy;
  bool empty;
  TF_RETURN_IF_ERROR(Describe3D("cudaMemcpy3D with arrays", *p, p->kind, &copy, &empty));
  return empty ? cudaSuccess : Call(Driver().cuMemcpy3D_v2, &copy);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  if (!p) return cudaErrorInvalidValue;
  CUDA_MEMCPY3D copy;
  bool empty;
  TF_RETURN_IF_ERROR(Describe3D("cudaMemcpy3DAsync with arrays", *p, p->kind, &copy, &empty));
  return empty ? cudaSuccess : Call(Driver().cuMemcpy3DAsync_v2, &copy, stream);
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
  CUDA_MEMCPY3D_PEER copy;
  bool empty;
  TF_RETURN_IF_ERROR(DescribePeers("cudaMemcpy3DPeer with arrays", p, &copy, &empty));
  return empty ? cudaSuccess : Call(Driver().cuMemcpy3DPeer, &copy);
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  CUDA_MEMCPY3D_PEER copy;
  bool empty;
  TF_RETURN_IF_ERROR(DescribePeers("cudaMemcpy3DPeerAsync with arrays", p, &copy, &empty));
  return empty ? cudaSuccess : Call(Driver().cuMemcpy3DPeerAsync, &copy, stream);
}

// Symbols.

cudaError_t cudaGetSymbolAddress(void** devPtr, const void* symbol) {
  TF_RETURN_IF_ERROR(NeedContext());
  CUdeviceptr address;
  size_t size;
  TF_RETURN_IF_ERROR(FindVariable(symbol, &address, &size));
  *devPtr = Pointer(address);
  return cudaSuccess;
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  TF_RETURN_IF_ERROR(NeedContext());
  CUdeviceptr address;
  return FindVariable(symbol, &address, size);
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* src, size_t count, size_t offset, cudaMemcpyKind kind) {
  if (!ToDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* dst;
  TF_RETURN_IF_ERROR(Inside(symbol, count, offset, &dst));
  return Copy(dst, src, count, kind);
}

cudaError_t cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind) {
  if (!FromDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* src;
  TF_RETURN_IF_ERROR(Inside(symbol, count, offset, &src));
  return Copy(dst, src, count, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t count, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  if (!ToDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* dst;
  TF_RETURN_IF_ERROR(Inside(symbol, count, offset, &dst));
  return CopyAsync(dst, src, count, kind, stream);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  if (!FromDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* src;
  TF_RETURN_IF_ERROR(Inside(symbol, count, offset, &src));
  return CopyAsync(dst, src, count, kind, stream);
}

// Sets. Only the low byte of `value` counts.

cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
  TF_RETURN_IF_ERROR(NeedContext());
  if (count == 0) return cudaSuccess;
  return Call(Driver().cuMemsetD8_v2, Address(devPtr), static_cast<unsigned char>(value), count);
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  TF_RETURN_IF_ERROR(NeedContext());
  if (count == 0) return cudaSuccess;
  return Call(Driver().cuMemsetD8Async, Address(devPtr), static_cast<unsigned char>(value), count, stream);
}

cudaError_t cudaMemset3D(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent) {
  return SetBox(pitchedDevPtr, extent, [value](CUdeviceptr address, size_t pitch, size_t width, size_t rows) {
    return Call(Driver().cuMemsetD2D8_v2, address, pitch, static_cast<unsigned char>(value), width, rows);
  });
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent, cudaStream_t stream) {
  return SetBox(pitchedDevPtr, extent, [=](CUdeviceptr address, size_t pitch, size_t width, size_t rows) {
    return Call(Driver().cuMemsetD2D8Async, address, pitch, static_cast<unsigned char>(value), width, rows, stream);
  });
}

cudaError_t cudaMemset2D(void* devPtr, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset3D({devPtr, pitch, width, height}, value, {width, height, 1});
}

cudaError_t cudaMemset2DAsync(void* devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  return cudaMemset3DAsync({devPtr, pitch, width, height}, value, {width, height, 1}, stream);
}

// Stream-ordered memory.

cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t hStream) {
  TF_RETURN_IF_ERROR(NeedContext());
  *devPtr = nullptr;
  if (size == 0) return cudaSuccess;
  CUdeviceptr address;
  TF_RETURN_IF_ERROR(Call(Driver().cuMemAllocAsync, &address, size, hStream));
  *devPtr = Pointer(address);
  return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void** ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream) {
  TF_RETURN_IF_ERROR(NeedContext());
  *ptr = nullptr;
  if (size == 0) return cudaSuccess;
  CUdeviceptr address;
  TF_RETURN_IF_ERROR(Call(Driver().cuMemAllocFromPoolAsync, &address, size, memPool, stream));
  *ptr = Pointer(address);
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  TF_RETURN_IF_ERROR(NeedContext());
  if (!devPtr) return cudaSuccess;
  return Call(Driver().cuMemFreeAsync, Address(devPtr), hStream);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* memPool, int device) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  return Call(Driver().cuDeviceGetDefaultMemPool, memPool, device);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* memPool, int device) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  return Call(Driver().cuDeviceGetMemPool, memPool, device);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  return Call(Driver().cuDeviceSetMemPool, device, memPool);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* memPool, const cudaMemPoolProps* poolProps) {
  if (!poolProps) return cudaErrorInvalidValue;
  return Call(Driver().cuMemPoolCreate, memPool, poolProps);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool) { return Call(Driver().cuMemPoolDestroy, memPool); }

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep) {
  return Call(Driver().cuMemPoolTrimTo, memPool, minBytesToKeep);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return Call(Driver().cuMemPoolSetAttribute, memPool, attr, value);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return Call(Driver().cuMemPoolGetAttribute, memPool, attr, value);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const cudaMemAccessDesc* descList, size_t count) {
  return Call(Driver().cuMemPoolSetAccess, memPool, descList, count);
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t memPool, cudaMemLocation* location) {
  return Call(Driver().cuMemPoolGetAccess, flags, memPool, location);
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

}  // namespace tf::cuda::runtime::api
