// Copies and sets of linear memory. Every variant becomes one CopyRequest, which is checked in one place: sizes and
// overflow, device ranges inside an allocation, which side is pinned, when the call may return.
#include <algorithm>
#include <cstring>

#include "cuda/driver/state.h"
#include "cuda/driver_api.h"

namespace tf::cuda::driver {
namespace {

// What the function's name or the descriptor says about an address.
enum class Claim { kHost, kDevice, kUnified };

struct Side {
  Claim claim = Claim::kUnified;
  uint64_t base = 0;
  uint64_t x = 0, y = 0, z = 0;
  uint64_t pitch = 0;       // 0: rows follow one another
  uint64_t slice_rows = 0;  // 0: slices follow one another
};

struct CopyRequest {
  Side destination, source;
  uint64_t width = 0, height = 1, depth = 1;
};

enum class Place { kDevice, kPinned, kPageable };

constexpr uint32_t kHostToDevice = 0, kDeviceToHost = 1, kDeviceToDevice = 2, kHostToHost = 3;
constexpr uint32_t kPageableFlag = 1, kWaitFlag = 2;

// What is at [address, address + size).
CUresult Classify(Claim claim, uint64_t address, uint64_t size, Place* place) {
  std::optional<Allocation> allocation = g.allocations.Find(address);
  if (allocation) {
    bool inside = size <= allocation->end() - address;
    if (allocation->on_device() || claim == Claim::kDevice) {
      if (!inside) return CUDA_ERROR_INVALID_VALUE;
    }
    *place = allocation->on_device() ? Place::kDevice : inside ? Place::kPinned : Place::kPageable;
    return CUDA_SUCCESS;
  }
  if (claim == Claim::kDevice || address == 0) return CUDA_ERROR_INVALID_VALUE;
  // Nothing says that this is an address at all.
  if (claim == Claim::kUnified && !IsMapped(address, size)) return CUDA_ERROR_INVALID_VALUE;
  *place = Place::kPageable;
  return CUDA_SUCCESS;
}

// Start, pitches and extent of one side.
CUresult Measure(const Side& side, const CopyRequest& request, uint64_t* start, uint64_t* pitch, uint64_t* slice,
                 uint64_t* extent) {
  uint64_t row_end, rows_end, plane, offset, part, total;
  if (__builtin_add_overflow(side.x, request.width, &row_end)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(side.y, request.height, &rows_end)) return CUDA_ERROR_INVALID_VALUE;
  bool one_row = side.y == 0 && request.height == 1;
  bool one_slice = side.z == 0 && request.depth == 1;
  *pitch = side.pitch != 0 ? side.pitch : row_end;
  uint64_t rows = side.slice_rows != 0 ? side.slice_rows : rows_end;
  if (!(one_row && one_slice) && *pitch < row_end) return CUDA_ERROR_INVALID_VALUE;
  if (!one_slice && rows < rows_end) return CUDA_ERROR_INVALID_VALUE;
  if (one_row && one_slice) *pitch = row_end;
  if (one_slice) rows = rows_end;
  if (__builtin_mul_overflow(*pitch, rows, &plane)) return CUDA_ERROR_INVALID_VALUE;
  *slice = plane;
  // base + z * slice + y * pitch + x
  if (__builtin_mul_overflow(side.z, plane, &offset)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_mul_overflow(side.y, *pitch, &part)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(offset, part, &offset)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(offset, side.x, &offset)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(side.base, offset, start)) return CUDA_ERROR_INVALID_VALUE;
  // (depth - 1) * slice + (height - 1) * pitch + width
  if (__builtin_mul_overflow(request.depth - 1, plane, extent)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_mul_overflow(request.height - 1, *pitch, &part)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(*extent, part, extent)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(*extent, request.width, extent)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(*start, *extent, &total)) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult Copy(const CopyRequest& request, const StreamRef& stream, bool asynchronous) {
  if (request.width == 0 || request.height == 0 || request.depth == 0) return CUDA_SUCCESS;
  CopyShape shape;
  uint64_t destination_extent, source_extent;
  TF_TRY(Measure(request.destination, request, &shape.destination, &shape.destination_pitch, &shape.destination_slice,
                 &destination_extent));
  TF_TRY(Measure(request.source, request, &shape.source, &shape.source_pitch, &shape.source_slice, &source_extent));
  shape.width = request.width;
  shape.height = request.height;
  shape.depth = request.depth;
  Place destination, source;
  TF_TRY(Classify(request.destination.claim, shape.destination, destination_extent, &destination));
  TF_TRY(Classify(request.source.claim, shape.source, source_extent, &source));

  bool to_device = destination == Place::kDevice, from_device = source == Place::kDevice;
  uint32_t direction =
      to_device ? (from_device ? kDeviceToDevice : kHostToDevice) : (from_device ? kDeviceToHost : kHostToHost);
  uint32_t flags = destination == Place::kPageable || source == Place::kPageable ? kPageableFlag : 0;
  // When the call returns, as "API synchronization behavior" of the manual has it.
  switch (direction) {
    case kHostToDevice:  // pageable memory has been captured; pinned memory has been read
      if (!asynchronous && source == Place::kPinned) flags |= kWaitFlag;
      break;
    case kDeviceToHost:
      if (!asynchronous) flags |= kWaitFlag;
      break;
    case kHostToHost:
      flags |= kWaitFlag;
      break;
    default:
      break;
  }
  Pending pending = g.backend->Copy(stream.context->id, stream.id, direction, shape, flags);
  return Queued(stream, pending.Wait());
}

CUresult Linear(Claim to, uint64_t destination, Claim from, uint64_t source, uint64_t size, CUstream handle,
                bool asynchronous) {
  StreamRef stream;
  TF_TRY(Resolve(handle, &stream));
  CopyRequest request;
  request.destination.claim = to;
  request.destination.base = destination;
  request.source.claim = from;
  request.source.base = source;
  request.width = size;
  return Copy(request, stream, asynchronous);
}

uint64_t Number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

CUresult ReadSide(CUmemorytype type, const void* host, CUdeviceptr device, Side* side) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      side->claim = Claim::kHost;
      side->base = Number(host);
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
      side->claim = Claim::kDevice;
      side->base = device;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
      side->claim = Claim::kUnified;
      side->base = device;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY:
      return Unsupported("copies from and to CUDA arrays");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// The rules for descriptors are stricter than what can be copied: a pitch holds its row.
bool PitchHolds(const Side& side, uint64_t width, uint64_t rows) {
  if (side.pitch == 0) return rows <= 1;
  return side.x <= side.pitch && width <= side.pitch - side.x;
}

CUresult Copy2D(const CUDA_MEMCPY2D* copy, CUstream handle, bool asynchronous, bool unaligned) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  TF_TRY(Resolve(handle, &stream));
  CopyRequest request;
  request.width = copy->WidthInBytes;
  request.height = copy->Height;
  TF_TRY(ReadSide(copy->srcMemoryType, copy->srcHost, copy->srcDevice, &request.source));
  TF_TRY(ReadSide(copy->dstMemoryType, copy->dstHost, copy->dstDevice, &request.destination));
  request.source.x = copy->srcXInBytes;
  request.source.y = copy->srcY;
  request.source.pitch = copy->srcPitch;
  request.destination.x = copy->dstXInBytes;
  request.destination.y = copy->dstY;
  request.destination.pitch = copy->dstPitch;
  uint64_t limit = static_cast<uint32_t>(g.devices[stream.context->device]->attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH));
  for (const Side* side : {&request.source, &request.destination}) {
    if (!PitchHolds(*side, request.width, std::max(request.height, side->y))) return CUDA_ERROR_INVALID_VALUE;
    if (!unaligned && side->claim == Claim::kDevice && limit != 0 && side->pitch > limit) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return Copy(request, stream, asynchronous);
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have the same members but for the contexts.
template <class Descriptor>
CUresult Copy3D(const Descriptor* copy, CUstream handle, bool asynchronous) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  TF_TRY(Resolve(handle, &stream));
  CopyRequest request;
  request.width = copy->WidthInBytes;
  request.height = copy->Height;
  request.depth = copy->Depth;
  TF_TRY(ReadSide(copy->srcMemoryType, copy->srcHost, copy->srcDevice, &request.source));
  TF_TRY(ReadSide(copy->dstMemoryType, copy->dstHost, copy->dstDevice, &request.destination));
  if (copy->srcLOD != 0 || copy->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  request.source.x = copy->srcXInBytes;
  request.source.y = copy->srcY;
  request.source.z = copy->srcZ;
  request.source.pitch = copy->srcPitch;
  request.source.slice_rows = copy->srcHeight;
  request.destination.x = copy->dstXInBytes;
  request.destination.y = copy->dstY;
  request.destination.z = copy->dstZ;
  request.destination.pitch = copy->dstPitch;
  request.destination.slice_rows = copy->dstHeight;
  return Copy(request, stream, asynchronous);
}

CUresult CheckPeer(CUcontext handle) {
  Context* context;
  return handle == nullptr ? CUDA_ERROR_INVALID_CONTEXT : ContextOf(handle, &context);
}

CUresult CheckPeers(CUcontext destination, CUcontext source) {
  TF_TRY(CheckPeer(destination));
  return CheckPeer(source);
}

// The contexts of a descriptor count for device memory only.
CUresult CheckPeers(const CUDA_MEMCPY3D_PEER* copy) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (copy->dstMemoryType == CU_MEMORYTYPE_DEVICE) TF_TRY(CheckPeer(copy->dstContext));
  if (copy->srcMemoryType == CU_MEMORYTYPE_DEVICE) TF_TRY(CheckPeer(copy->srcContext));
  return CUDA_SUCCESS;
}

CUresult Set(uint64_t address, uint64_t pitch, uint32_t element, uint32_t value, uint64_t count, uint64_t height,
             CUstream handle) {
  StreamRef stream;
  TF_TRY(Resolve(handle, &stream));
  uint64_t width;
  if (__builtin_mul_overflow(count, uint64_t{element}, &width)) return CUDA_ERROR_INVALID_VALUE;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  if (address % element != 0) return CUDA_ERROR_INVALID_VALUE;
  CopyRequest request;
  request.width = width;
  request.height = height;
  Side side;
  side.claim = Claim::kDevice;
  side.base = address;
  side.pitch = pitch;
  uint64_t start, row, slice, extent;
  if (height > 1 && (pitch < width || pitch % element != 0)) return CUDA_ERROR_INVALID_VALUE;
  TF_TRY(Measure(side, request, &start, &row, &slice, &extent));
  Place place;
  TF_TRY(Classify(Claim::kDevice, address, extent, &place));
  if (place != Place::kDevice && !g.maps_host_memory) {
    // Pinned memory that the card cannot reach: after what the stream has to do before, here.
    TF_TRY(Checked(*stream.context, g.backend->StreamSynchronize(stream.context->id, stream.id).Wait()));
    for (uint64_t y = 0; y < height; ++y) {
      char* out = reinterpret_cast<char*>(address + y * row);
      for (uint64_t i = 0; i < width; i += element) std::memcpy(out + i, &value, element);
    }
    return CUDA_SUCCESS;
  }
  TF_TRY(Queued(stream, g.backend->Fill(stream.context->id, stream.id, address, row, element, value, width, height)));
  if (place == Place::kDevice) return CUDA_SUCCESS;
  // On pinned host memory a set is over when it returns.
  return Checked(*stream.context, g.backend->StreamSynchronize(stream.context->id, stream.id).Wait());
}

}  // namespace

namespace api {

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return Linear(Claim::kUnified, dst, Claim::kUnified, src, ByteCount, nullptr, false);
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return Linear(Claim::kUnified, dst, Claim::kUnified, src, ByteCount, hStream, true);
}
CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                      size_t ByteCount) {
  TF_TRY(CheckPeers(dstContext, srcContext));
  return Linear(Claim::kDevice, dstDevice, Claim::kDevice, srcDevice, ByteCount, nullptr, false);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                           size_t ByteCount, CUstream hStream) {
  TF_TRY(CheckPeers(dstContext, srcContext));
  return Linear(Claim::kDevice, dstDevice, Claim::kDevice, srcDevice, ByteCount, hStream, true);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  return Linear(Claim::kDevice, dstDevice, Claim::kHost, Number(srcHost), ByteCount, nullptr, false);
}
CUresult cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return Linear(Claim::kHost, Number(dstHost), Claim::kDevice, srcDevice, ByteCount, nullptr, false);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return Linear(Claim::kDevice, dstDevice, Claim::kDevice, srcDevice, ByteCount, nullptr, false);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount, CUstream hStream) {
  return Linear(Claim::kDevice, dstDevice, Claim::kHost, Number(srcHost), ByteCount, hStream, true);
}
CUresult cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  return Linear(Claim::kHost, Number(dstHost), Claim::kDevice, srcDevice, ByteCount, hStream, true);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  return Linear(Claim::kDevice, dstDevice, Claim::kDevice, srcDevice, ByteCount, hStream, true);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) { return Copy2D(pCopy, nullptr, false, false); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) { return Copy2D(pCopy, nullptr, false, true); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return Copy2D(pCopy, hStream, true, false);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) { return Copy3D(pCopy, nullptr, false); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) { return Copy3D(pCopy, hStream, true); }
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
  TF_TRY(CheckPeers(pCopy));
  return Copy3D(pCopy, nullptr, false);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  TF_TRY(CheckPeers(pCopy));
  return Copy3D(pCopy, hStream, true);
}

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return Set(dstDevice, 0, 1, uc, N, 1, nullptr);
}
CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return Set(dstDevice, 0, 2, us, N, 1, nullptr);
}
CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return Set(dstDevice, 0, 4, ui, N, 1, nullptr);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height) {
  return Set(dstDevice, dstPitch, 1, uc, Width, Height, nullptr);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height) {
  return Set(dstDevice, dstPitch, 2, us, Width, Height, nullptr);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height) {
  return Set(dstDevice, dstPitch, 4, ui, Width, Height, nullptr);
}
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return Set(dstDevice, 0, 1, uc, N, 1, hStream);
}
CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return Set(dstDevice, 0, 2, us, N, 1, hStream);
}
CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return Set(dstDevice, 0, 4, ui, N, 1, hStream);
}
CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
                           CUstream hStream) {
  return Set(dstDevice, dstPitch, 1, uc, Width, Height, hStream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
                            CUstream hStream) {
  return Set(dstDevice, dstPitch, 2, us, Width, Height, hStream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
                            CUstream hStream) {
  return Set(dstDevice, dstPitch, 4, ui, Width, Height, hStream);
}

}  // namespace api
}  // namespace tf::cuda::driver
