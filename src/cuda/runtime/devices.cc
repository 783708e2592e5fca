// Errors, versions, devices, peers.
#include <cstdio>
#include <cstring>

#include "cuda/runtime/state.h"
#include "cuda/runtime_api.h"

namespace tf::cuda::runtime::api {
namespace {

// cudaDeviceMapHost: every context maps pinned memory; the driver's flag for it has no meaning any more.
constexpr unsigned kMapHost = CU_CTX_MAP_HOST;
constexpr unsigned kDeviceFlags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_SYNC_MEMOPS;

cudaError_t SetPrimaryFlags(int device, unsigned flags) {
  if (flags & ~kDeviceFlags) return cudaErrorInvalidValue;
  return Call(Driver().cuDevicePrimaryCtxSetFlags_v2, device, flags & ~kMapHost);
}

// Reads attributes of one device; keeps the first error. An attribute that the driver does not know reads as 0.
class Attributes {
 public:
  explicit Attributes(int device) : device_(device) {}
  int operator[](CUdevice_attribute attribute) {
    int value = 0;
    cudaError_t error = Call(Driver().cuDeviceGetAttribute, &value, attribute, device_);
    if (error == cudaErrorInvalidValue) return 0;
    if (error_ == cudaSuccess) error_ = error;
    return value;
  }
  cudaError_t error() const { return error_; }

 private:
  int device_;
  cudaError_t error_ = cudaSuccess;
};

cudaError_t ReadProperties(int device, cudaDeviceProp* result) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  const DriverFunctions& driver = Driver();
  cudaDeviceProp p{};
  TF_RETURN_IF_ERROR(Call(driver.cuDeviceGetName, p.name, static_cast<int>(sizeof(p.name)), device));
  if (driver.cuDeviceGetUuid_v2) {
    TF_RETURN_IF_ERROR(Call(driver.cuDeviceGetUuid_v2, &p.uuid, device));
  } else {
    TF_RETURN_IF_ERROR(Call(driver.cuDeviceGetUuid, &p.uuid, device));
  }
  TF_RETURN_IF_ERROR(Call(driver.cuDeviceTotalMem_v2, &p.totalGlobalMem, device));
  Attributes a(device);
  p.sharedMemPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK];
  p.regsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK];
  p.warpSize = a[CU_DEVICE_ATTRIBUTE_WARP_SIZE];
  p.memPitch = a[CU_DEVICE_ATTRIBUTE_MAX_PITCH];
  p.maxThreadsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
  p.maxThreadsDim[0] = a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X];
  p.maxThreadsDim[1] = a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y];
  p.maxThreadsDim[2] = a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z];
  p.maxGridSize[0] = a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X];
  p.maxGridSize[1] = a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y];
  p.maxGridSize[2] = a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z];
  p.totalConstMem = a[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY];
  p.major = a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
  p.minor = a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
  p.textureAlignment = a[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT];
  p.texturePitchAlignment = a[CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT];
  p.multiProcessorCount = a[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
  p.integrated = a[CU_DEVICE_ATTRIBUTE_INTEGRATED];
  p.canMapHostMemory = a[CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY];
  p.maxTexture1D = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH];
  p.maxTexture1DMipmap = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH];
  p.maxTexture2D[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH];
  p.maxTexture2D[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT];
  p.maxTexture2DMipmap[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH];
  p.maxTexture2DMipmap[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT];
  p.maxTexture2DLinear[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH];
  p.maxTexture2DLinear[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT];
  p.maxTexture2DLinear[2] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH];
  p.maxTexture2DGather[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH];
  p.maxTexture2DGather[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT];
  p.maxTexture3D[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH];
  p.maxTexture3D[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT];
  p.maxTexture3D[2] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH];
  p.maxTexture3DAlt[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE];
  p.maxTexture3DAlt[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE];
  p.maxTexture3DAlt[2] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE];
  p.maxTextureCubemap = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH];
  p.maxTexture1DLayered[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH];
  p.maxTexture1DLayered[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS];
  p.maxTexture2DLayered[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH];
  p.maxTexture2DLayered[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT];
  p.maxTexture2DLayered[2] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS];
  p.maxTextureCubemapLayered[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH];
  p.maxTextureCubemapLayered[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS];
  p.maxSurface1D = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH];
  p.maxSurface2D[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH];
  p.maxSurface2D[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT];
  p.maxSurface3D[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH];
  p.maxSurface3D[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT];
  p.maxSurface3D[2] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH];
  p.maxSurface1DLayered[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH];
  p.maxSurface1DLayered[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS];
  p.maxSurface2DLayered[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH];
  p.maxSurface2DLayered[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT];
  p.maxSurface2DLayered[2] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS];
  p.maxSurfaceCubemap = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH];
  p.maxSurfaceCubemapLayered[0] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH];
  p.maxSurfaceCubemapLayered[1] = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS];
  p.surfaceAlignment = a[CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT];
  p.concurrentKernels = a[CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS];
  p.ECCEnabled = a[CU_DEVICE_ATTRIBUTE_ECC_ENABLED];
  p.pciBusID = a[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID];
  p.pciDeviceID = a[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID];
  p.pciDomainID = a[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID];
  p.tccDriver = a[CU_DEVICE_ATTRIBUTE_TCC_DRIVER];
  p.asyncEngineCount = a[CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT];
  p.unifiedAddressing = a[CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING];
  p.memoryBusWidth = a[CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH];
  p.l2CacheSize = a[CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE];
  p.persistingL2CacheMaxSize = a[CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE];
  p.maxThreadsPerMultiProcessor = a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR];
  p.streamPrioritiesSupported = a[CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED];
  p.globalL1CacheSupported = a[CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED];
  p.localL1CacheSupported = a[CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED];
  p.sharedMemPerMultiprocessor = a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR];
  p.regsPerMultiprocessor = a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR];
  p.managedMemory = a[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY];
  p.isMultiGpuBoard = a[CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD];
  p.multiGpuBoardGroupID = a[CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID];
  p.hostNativeAtomicSupported = a[CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED];
  p.pageableMemoryAccess = a[CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS];
  p.concurrentManagedAccess = a[CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS];
  p.computePreemptionSupported = a[CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED];
  p.canUseHostPointerForRegisteredMem = a[CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM];
  p.cooperativeLaunch = a[CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH];
  p.sharedMemPerBlockOptin = a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN];
  p.pageableMemoryAccessUsesHostPageTables = a[CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES];
  p.directManagedMemAccessFromHost = a[CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST];
  p.maxBlocksPerMultiProcessor = a[CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR];
  p.accessPolicyMaxWindowSize = a[CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE];
  p.reservedSharedMemPerBlock = a[CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK];
  p.hostRegisterSupported = a[CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED];
  p.sparseCudaArraySupported = a[CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED];
  p.hostRegisterReadOnlySupported = a[CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED];
  p.timelineSemaphoreInteropSupported = a[CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED];
  p.memoryPoolsSupported = a[CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED];
  p.gpuDirectRDMASupported = a[CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED];
  p.gpuDirectRDMAFlushWritesOptions = a[CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS];
  p.gpuDirectRDMAWritesOrdering = a[CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING];
  p.memoryPoolSupportedHandleTypes = a[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES];
  p.deferredMappingCudaArraySupported = a[CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED];
  p.ipcEventSupported = a[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED];
  p.clusterLaunch = a[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH];
  p.unifiedFunctionPointers = a[CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS];
#if TF_CUDART_MAJOR == 12
  p.clockRate = a[CU_DEVICE_ATTRIBUTE_CLOCK_RATE];
  p.deviceOverlap = a[CU_DEVICE_ATTRIBUTE_GPU_OVERLAP];
  p.kernelExecTimeoutEnabled = a[CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT];
  p.computeMode = a[CU_DEVICE_ATTRIBUTE_COMPUTE_MODE];
  p.maxTexture1DLinear = a[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH];
  p.memoryClockRate = a[CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE];
  p.singleToDoublePrecisionPerfRatio = a[CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO];
  p.cooperativeMultiDeviceLaunch = a[CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH];
#else
  p.deviceNumaConfig = a[CU_DEVICE_ATTRIBUTE_NUMA_CONFIG];
  p.deviceNumaId = a[CU_DEVICE_ATTRIBUTE_NUMA_ID];
  p.mpsEnabled = a[CU_DEVICE_ATTRIBUTE_MPS_ENABLED];
  p.hostNumaId = a[CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID];
  p.gpuPciDeviceID = a[CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID];
  p.gpuPciSubsystemID = a[CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID];
  p.hostNumaMultinodeIpcSupported = a[CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED];
#endif
  TF_RETURN_IF_ERROR(a.error());
  *result = p;
  return cudaSuccess;
}

}  // namespace

// Errors and versions.

cudaError_t cudaGetLastError() {
  Thread& thread = ThisThread();
  cudaError_t error = thread.last_error;
  if (!IsSticky(error)) thread.last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return ThisThread().last_error; }

const char* cudaGetErrorName(cudaError_t error) { return ErrorName(error); }

const char* cudaGetErrorString(cudaError_t error) { return ErrorDescription(error); }

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  *runtimeVersion = kRuntimeVersion;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  *driverVersion = DriverVersion();  // no driver: 0 and success, as documented
  return cudaSuccess;
}

// Devices.

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  TF_RETURN_IF_ERROR(Initialize());
  TF_RETURN_IF_ERROR(Call(Driver().cuDeviceGetCount, count));
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDevice(int* device) { return CurrentDevice(device); }

cudaError_t cudaSetDevice(int device) { return UseDevice(device); }

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
  constexpr unsigned kFlagsAreValid = 1;
  if (flags & ~kFlagsAreValid) return cudaErrorInvalidValue;
  TF_RETURN_IF_ERROR(CheckDevice(device));
  if (flags & kFlagsAreValid) TF_RETURN_IF_ERROR(SetPrimaryFlags(device, deviceFlags));
  CUcontext context;
  return PrimaryContext(device, &context);
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* prop) {
  if (!prop) return cudaErrorInvalidValue;
  int count = 0;
  TF_RETURN_IF_ERROR(Call(Driver().cuDeviceGetCount, &count));
  int best = -1;
  for (int candidate = 0; candidate < count; ++candidate) {
    cudaDeviceProp has;
    TF_RETURN_IF_ERROR(ReadProperties(candidate, &has));
    // A wish that is 0 or empty is always met. The first device that meets most wishes is chosen.
    int met = (has.name[0] && std::strncmp(prop->name, has.name, sizeof(has.name)) == 0) +
              (has.major > prop->major || (has.major == prop->major && has.minor >= prop->minor)) +
              (has.totalGlobalMem >= prop->totalGlobalMem) + (has.sharedMemPerBlock >= prop->sharedMemPerBlock) +
              (has.regsPerBlock >= prop->regsPerBlock) + (has.totalConstMem >= prop->totalConstMem) +
              (has.maxThreadsPerBlock >= prop->maxThreadsPerBlock) +
              (has.multiProcessorCount >= prop->multiProcessorCount) +
              (has.canMapHostMemory >= prop->canMapHostMemory) + (has.concurrentKernels >= prop->concurrentKernels) +
              (has.ECCEnabled >= prop->ECCEnabled);
    if (met > best) {
      best = met;
      *device = candidate;
    }
  }
  return best < 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  int device;
  TF_RETURN_IF_ERROR(CurrentDevice(&device));
  return SetPrimaryFlags(device, flags);
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  CUcontext context = nullptr;
  if (Call(Driver().cuCtxGetCurrent, &context) == cudaSuccess && context) {
    TF_RETURN_IF_ERROR(Call(Driver().cuCtxGetFlags, flags));
  } else {
    int active;
    TF_RETURN_IF_ERROR(Call(Driver().cuDevicePrimaryCtxGetState, ThisThread().device, flags, &active));
  }
  *flags |= kMapHost;
  return cudaSuccess;
}

#if TF_CUDART_MAJOR == 12
// The symbol of programs built before CUDA 12: their structure ends after reservedSharedMemPerBlock.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  cudaDeviceProp p;
  TF_RETURN_IF_ERROR(ReadProperties(device, &p));
  std::memcpy(prop, &p, offsetof(cudaDeviceProp, hostRegisterSupported));
  return cudaSuccess;
}
static_assert(offsetof(cudaDeviceProp, hostRegisterSupported) == 728);

cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* prop, int device) { return ReadProperties(device, prop); }
#else
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) { return ReadProperties(device, prop); }
#endif

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  return Call(Driver().cuDeviceGetAttribute, value, attr, device);
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  return Call(Driver().cuDeviceGetPCIBusId, pciBusId, len, device);
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* pciBusId) {
  if (!pciBusId) return cudaErrorInvalidValue;
  return Call(Driver().cuDeviceGetByPCIBusId, device, pciBusId);
}

cudaError_t cudaDeviceSynchronize() {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxSynchronize);
}

cudaError_t cudaDeviceReset() {
  int device;
  TF_RETURN_IF_ERROR(CurrentDevice(&device));
  TF_RETURN_IF_ERROR(ResetDevice(device));
  ThisThread().last_error = cudaSuccess;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxSetLimit, limit, value);
}

cudaError_t cudaDeviceGetLimit(size_t* pValue, cudaLimit limit) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxGetLimit, pValue, limit);
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* pCacheConfig) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxGetCacheConfig, pCacheConfig);
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache cacheConfig) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxSetCacheConfig, cacheConfig);
}

cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* pConfig) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxGetSharedMemConfig, pConfig);
}

cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxSetSharedMemConfig, config);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxGetStreamPriorityRange, leastPriority, greatestPriority);
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                               cudaFlushGPUDirectRDMAWritesScope scope) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuFlushGPUDirectRDMAWrites, target, scope);
}

cudaError_t cudaCtxResetPersistingL2Cache() {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxResetPersistingL2Cache);
}

#if TF_CUDART_MAJOR == 12
cudaError_t cudaThreadExit() { return cudaDeviceReset(); }
cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
cudaError_t cudaThreadSetLimit(cudaLimit limit, size_t value) { return cudaDeviceSetLimit(limit, value); }
cudaError_t cudaThreadGetLimit(size_t* pValue, cudaLimit limit) { return cudaDeviceGetLimit(pValue, limit); }
cudaError_t cudaThreadGetCacheConfig(cudaFuncCache* pCacheConfig) { return cudaDeviceGetCacheConfig(pCacheConfig); }
cudaError_t cudaThreadSetCacheConfig(cudaFuncCache cacheConfig) { return cudaDeviceSetCacheConfig(cacheConfig); }
// Every device computes in double precision: there is nothing to convert.
cudaError_t cudaSetDoubleForDevice(double*) { return cudaSuccess; }
cudaError_t cudaSetDoubleForHost(double*) { return cudaSuccess; }
#else
cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned int* capabilities, const cudaAtomicOperation* operations,
                                                unsigned int count, int device) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  return Call(Driver().cuDeviceGetHostAtomicCapabilities, capabilities, operations, count, device);
}
#endif

// Peers.

cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  TF_RETURN_IF_ERROR(CheckDevice(peerDevice));
  *canAccessPeer = 0;
  if (device == peerDevice) return cudaSuccess;
  return Call(Driver().cuDeviceCanAccessPeer, canAccessPeer, device, peerDevice);
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  CUcontext peer;
  TF_RETURN_IF_ERROR(PrimaryContext(peerDevice, &peer));
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxEnablePeerAccess, peer, flags);
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice) {
  CUcontext peer;
  TF_RETURN_IF_ERROR(PrimaryContext(peerDevice, &peer));
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuCtxDisablePeerAccess, peer);
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attr, int srcDevice, int dstDevice) {
  TF_RETURN_IF_ERROR(CheckDevice(srcDevice));
  TF_RETURN_IF_ERROR(CheckDevice(dstDevice));
  return Call(Driver().cuDeviceGetP2PAttribute, value, attr, srcDevice, dstDevice);
}

// Profiler.

cudaError_t cudaProfilerStart() {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuProfilerStart);
}

cudaError_t cudaProfilerStop() {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuProfilerStop);
}

}  // namespace tf::cuda::runtime::api
