// What is known of an address; peers.
#include <cstring>

#include "cuda/driver/state.h"
#include "cuda/driver_api.h"

namespace tf::cuda::driver {
namespace {

constexpr int kInvalidDevice = -2;

template <class T>
CUresult Give(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

// `lenient`: an unknown address has the values that cuPointerGetAttributes documents instead of an error.
CUresult Attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address, bool lenient) {
  std::optional<Allocation> found = g.allocations.Find(address);
  if (!found && !lenient) return CUDA_ERROR_INVALID_VALUE;
  Allocation none;
  const Allocation& memory = found ? *found : none;
  bool device = found && memory.on_device();
  bool host = found && !device;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Give(data, memory.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Give<unsigned int>(data, device ? CU_MEMORYTYPE_DEVICE : host ? CU_MEMORYTYPE_HOST : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      if (device || (host && g.maps_host_memory)) return Give<CUdeviceptr>(data, address);
      return lenient ? Give<CUdeviceptr>(data, 0) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (host) return Give(data, reinterpret_cast<void*>(address));
      return lenient ? Give<void*>(data, nullptr) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Give<unsigned int>(data, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return Give<unsigned long long>(data, memory.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return Give<unsigned int>(data, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Give<int>(data, found ? memory.device : kInvalidDevice);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Give<CUdeviceptr>(data, memory.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Give<size_t>(data, memory.size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Give<unsigned int>(data, found ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Give<unsigned long long>(data, CU_MEM_HANDLE_TYPE_NONE);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Give<int>(data, found ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Give(data, memory.pool);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Whether contexts of two devices can reach one another's memory: asked once for each pair.
CUresult CanAccess(int from, int to, bool* can) {
  static std::mutex& mutex = *new std::mutex;
  static std::map<std::pair<int, int>, bool>& known = *new std::map<std::pair<int, int>, bool>;
  *can = false;
  if (from == to) return CUDA_SUCCESS;
  std::lock_guard lock(mutex);
  auto found = known.find({from, to});
  if (found == known.end()) {
    // In contexts of their own: trying it in the program's would change what the program sees.
    uint64_t a = g.Number(), b = g.Number();
    TF_TRY(g.backend->ContextCreate(a, g.devices[from]->backend_ordinal, CU_CTX_SCHED_AUTO));
    CUresult result = g.backend->ContextCreate(b, g.devices[to]->backend_ordinal, CU_CTX_SCHED_AUTO);
    if (result == CUDA_SUCCESS) {
      bool enabled = g.backend->PeerEnable(a, b) == CUDA_SUCCESS;
      if (enabled) (void)g.backend->PeerDisable(a, b);
      g.backend->ContextDestroy(b);
      found = known.emplace(std::pair(from, to), enabled).first;
    }
    g.backend->ContextDestroy(a);
    TF_TRY(result);
  }
  *can = found->second;
  return CUDA_SUCCESS;
}

}  // namespace

namespace api {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return Attribute(data, attribute, ptr, false);
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr ptr) {
  if (numAttributes == 0 || attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < numAttributes; ++i) {
    if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    TF_TRY(Attribute(data[i], attributes[i], ptr, true));
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  std::optional<Allocation> memory = g.allocations.Find(ptr);
  if (!memory || !memory->on_device()) return CUDA_ERROR_INVALID_VALUE;
  unsigned int wanted;
  std::memcpy(&wanted, value, sizeof wanted);
  return wanted == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  Device *device, *peer;
  TF_TRY(DeviceOf(dev, &device));
  TF_TRY(DeviceOf(peerDev, &peer));
  bool can;
  TF_TRY(CanAccess(dev, peerDev, &can));
  *canAccessPeer = can ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  Context* context;
  TF_TRY(Current(&context));
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Context* peer = g.contexts.Find(peerContext);
  if (peer == nullptr || peer == context) return CUDA_ERROR_INVALID_CONTEXT;
  if (peer->device != context->device) {
    bool can;
    TF_TRY(CanAccess(context->device, peer->device, &can));
    if (!can) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  {
    std::lock_guard lock(context->mutex);
    if (!context->peers.insert(peer->id).second) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  }
  CUresult result = Checked(*context, g.backend->PeerEnable(context->id, peer->id));
  if (result != CUDA_SUCCESS) {
    std::lock_guard lock(context->mutex);
    context->peers.erase(peer->id);
  }
  return result;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
  Context* context;
  TF_TRY(Current(&context));
  Context* peer = g.contexts.Find(peerContext);
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    std::lock_guard lock(context->mutex);
    if (context->peers.erase(peer->id) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  }
  return Checked(*context, g.backend->PeerDisable(context->id, peer->id));
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice) {
  Device *source, *destination;
  TF_TRY(DeviceOf(srcDevice, &source));
  TF_TRY(DeviceOf(dstDevice, &destination));
  if (srcDevice == dstDevice) return CUDA_ERROR_INVALID_DEVICE;
  switch (attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: {
      bool can;
      TF_TRY(CanAccess(srcDevice, dstDevice, &can));
      *value = can ? 1 : 0;
      return CUDA_SUCCESS;
    }
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace api
}  // namespace tf::cuda::driver
