// Registration, launches, kernels and their attributes, libraries, occupancy.
#include <limits>

#include "cuda/runtime/registry.h"
#include "cuda/runtime_api.h"

namespace tf::cuda::runtime::api {
namespace {

// The driver takes a kernel wherever it takes a function: the context is the stream's, or the current one.
CUfunction AsFunction(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

// Why the driver called a launch's arguments invalid: the runtime has a code of its own for the grid and the block.
cudaError_t ExplainInvalidLaunch(const dim3& grid, const dim3& block) {
  int device;
  TF_RETURN_IF_ERROR(Call(Driver().cuCtxGetDevice, &device));
  auto limit = [device](CUdevice_attribute attribute) -> uint64_t {
    int value = 0;
    if (Call(Driver().cuDeviceGetAttribute, &value, attribute, device) != cudaSuccess) return 0;
    return value;
  };
  auto outside = [&](unsigned value, CUdevice_attribute attribute) { return value == 0 || value > limit(attribute); };
  if (outside(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) || outside(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
      outside(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) || outside(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
      outside(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) || outside(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) ||
      uint64_t{block.x} * block.y * block.z > limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)) {
    return cudaErrorInvalidConfiguration;
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchSlowly(Kernel* kernel, const dim3& grid, const dim3& block, void** args, size_t shared_bytes,
                         CUstream stream) {
  TF_RETURN_IF_ERROR(Initialize());
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  TF_RETURN_IF_ERROR(NeedContext());
  CUkernel handle;
  TF_RETURN_IF_ERROR(kernel->Resolve(&handle));
  if (shared_bytes > std::numeric_limits<unsigned>::max()) return cudaErrorInvalidValue;
  cudaError_t error = Call(Driver().cuLaunchKernel, AsFunction(handle), grid.x, grid.y, grid.z, block.x, block.y,
                           block.z, static_cast<unsigned>(shared_bytes), stream, args, nullptr);
  return error == cudaErrorInvalidValue ? ExplainInvalidLaunch(grid, block) : error;
}

// The fast path costs a few loads and compares. It is taken when this thread has made a context current since the last
// reset and the kernel is loaded. Did the program take the context away meanwhile, the driver refuses without having
// done anything, and the slow path makes it right.
inline cudaError_t Launch(Thread& thread, Kernel* kernel, const dim3& grid, const dim3& block, void** args,
                          size_t shared_bytes, CUstream stream) {
  if (kernel && thread.bound_generation == state.generation.load(std::memory_order_acquire) &&
      state.ready.load(std::memory_order_acquire) && shared_bytes <= std::numeric_limits<unsigned>::max()) [[likely]] {
    if (CUkernel handle = kernel->handle.load(std::memory_order_acquire)) [[likely]] {
      const DriverFunctions& driver = thread.per_thread_stream ? state.per_thread : state.legacy;
      CUresult result = driver.cuLaunchKernel(AsFunction(handle), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                              static_cast<unsigned>(shared_bytes), stream, args, nullptr);
      if (result == CUDA_SUCCESS) [[likely]]
        return cudaSuccess;
      if (result == CUDA_ERROR_INVALID_VALUE) return ExplainInvalidLaunch(grid, block);
      if (result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_CONTEXT_IS_DESTROYED) return FromDriver(result);
    }
  }
  return LaunchSlowly(kernel, grid, block, args, shared_bytes, stream);
}

// The kernel of a host function and the device that attributes are about.
cudaError_t OnDevice(const void* function, CUkernel* kernel, CUdevice* device) {
  TF_RETURN_IF_ERROR(NeedContext());
  TF_RETURN_IF_ERROR(ResolveKernel(function, kernel));
  return Call(Driver().cuCtxGetDevice, device);
}

}  // namespace

// What compilers emit.

void** __cudaRegisterFatBinary(void* wrapper) { return reinterpret_cast<void**>(RegisterImage(wrapper)); }

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) { UnregisterImage(reinterpret_cast<Image*>(handle)); }

void __cudaRegisterFunction(void** handle, const char* hostFun, char*, const char* deviceName, int, void*, void*, void*,
                            void*, int*) {
  RegisterKernel(reinterpret_cast<Image*>(handle), hostFun, deviceName);
}

void __cudaRegisterVar(void** handle, char* hostVar, char*, const char* deviceName, int, size_t size, int, int) {
  RegisterVariable(reinterpret_cast<Image*>(handle), hostVar, deviceName, size, false);
}

void __cudaRegisterManagedVar(void** handle, void** hostVarPtrAddress, char*, const char* deviceName, int, size_t size,
                              int, int) {
  RegisterVariable(reinterpret_cast<Image*>(handle), hostVarPtrAddress, deviceName, size, true);
}

// Compilers call this before the first use of a managed variable and ignore the answer.
char __cudaInitModule(void** handle) {
  if (!HasManagedVariables(reinterpret_cast<Image*>(handle))) return 1;
  NotSupported("a __managed__ variable");
  return 0;
}

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, CUstream stream) {
  Thread& thread = ThisThread();
  if (thread.configurations == Thread::kMaxConfigurations) {
    thread.last_error = cudaErrorMissingConfiguration;
    return 1;  // the launch does not happen
  }
  thread.configuration[thread.configurations++] = {gridDim, blockDim, sharedMem, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem, void* stream) {
  Thread& thread = ThisThread();
  if (thread.configurations == 0) return cudaErrorMissingConfiguration;
  const CallConfiguration& top = thread.configuration[--thread.configurations];
  *gridDim = top.grid;
  *blockDim = top.block;
  *sharedMem = top.shared_bytes;
  *static_cast<CUstream*>(stream) = top.stream;
  return cudaSuccess;
}

// nvcc keeps the answer in a static variable and asks only once, so it must not depend on the driver being ready: it is
// the registered kernel, opaque to the program, and __cudaLaunchKernel loads what is behind it.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* entryFuncAddr) {
  Kernel* found = FindKernel(ThisThread(), entryFuncAddr);
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return found ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                               cudaStream_t stream) {
  return Launch(ThisThread(), reinterpret_cast<Kernel*>(kernel), gridDim, blockDim, args, sharedMem, stream);
}

// Launches.

cudaError_t cudaLaunchKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                             cudaStream_t stream) {
  Thread& thread = ThisThread();
  return Launch(thread, FindKernel(thread, func), gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func, void** args) {
  if (!config) return cudaErrorInvalidValue;
  TF_RETURN_IF_ERROR(NeedContext());
  CUkernel kernel;
  TF_RETURN_IF_ERROR(ResolveKernel(func, &kernel));
  if (config->dynamicSmemBytes > std::numeric_limits<unsigned>::max()) return cudaErrorInvalidValue;
  const dim3 &grid = config->gridDim, &block = config->blockDim;
  CUlaunchConfig launch{grid.x,
                        grid.y,
                        grid.z,
                        block.x,
                        block.y,
                        block.z,
                        static_cast<unsigned>(config->dynamicSmemBytes),
                        config->stream,
                        config->attrs,
                        config->numAttrs};
  cudaError_t error = Call(Driver().cuLaunchKernelEx, &launch, AsFunction(kernel), args, nullptr);
  return error == cudaErrorInvalidValue ? ExplainInvalidLaunch(grid, block) : error;
}

// Kernels.

cudaError_t cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
  TF_RETURN_IF_ERROR(NeedContext());
  Kernel* found = FindKernel(ThisThread(), entryFuncAddr);
  if (!found) return cudaErrorInvalidDeviceFunction;
  CUlibrary library;
  TF_RETURN_IF_ERROR(found->image->Library(&library));
  TF_RETURN_IF_ERROR(found->Resolve(kernelPtr));
  AdoptKernel(library, *kernelPtr);
  return cudaSuccess;
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* functionPtr, const void* symbolPtr) {
  TF_RETURN_IF_ERROR(NeedContext());
  CUkernel kernel;
  TF_RETURN_IF_ERROR(ResolveKernel(symbolPtr, &kernel));
  return Call(Driver().cuKernelGetFunction, functionPtr, kernel);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  CUkernel kernel;
  CUdevice device;
  TF_RETURN_IF_ERROR(OnDevice(func, &kernel, &device));
  cudaError_t error = cudaSuccess;
  auto read = [&](CUfunction_attribute attribute, bool optional = false) {
    int value = 0;
    cudaError_t one = Call(Driver().cuKernelGetAttribute, &value, attribute, kernel, device);
    if (optional && one == cudaErrorInvalidValue) return 0;  // the driver is older than the attribute
    if (error == cudaSuccess) error = one;
    return value;
  };
  cudaFuncAttributes result{};
  result.sharedSizeBytes = read(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  result.constSizeBytes = read(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  result.localSizeBytes = read(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  result.maxThreadsPerBlock = read(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  result.numRegs = read(CU_FUNC_ATTRIBUTE_NUM_REGS);
  result.ptxVersion = read(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  result.binaryVersion = read(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  result.cacheModeCA = read(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  result.maxDynamicSharedSizeBytes = read(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  result.preferredShmemCarveout = read(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  result.clusterDimMustBeSet = read(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, true);
  result.requiredClusterWidth = read(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, true);
  result.requiredClusterHeight = read(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, true);
  result.requiredClusterDepth = read(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, true);
  result.clusterSchedulingPolicyPreference = read(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, true);
  result.nonPortableClusterSizeAllowed = read(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, true);
  TF_RETURN_IF_ERROR(error);
  *attr = result;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  CUkernel kernel;
  CUdevice device;
  TF_RETURN_IF_ERROR(OnDevice(func, &kernel, &device));
  return Call(Driver().cuKernelSetAttribute, attr, value, kernel, device);
}

cudaError_t cudaFuncSetCacheConfig(const void* func, cudaFuncCache cacheConfig) {
  CUkernel kernel;
  CUdevice device;
  TF_RETURN_IF_ERROR(OnDevice(func, &kernel, &device));
  return Call(Driver().cuKernelSetCacheConfig, kernel, cacheConfig, device);
}

cudaError_t cudaFuncSetSharedMemConfig(const void* func, cudaSharedMemConfig config) {
  cudaFunction_t function;
  TF_RETURN_IF_ERROR(cudaGetFuncBySymbol(&function, func));
  return Call(Driver().cuFuncSetSharedMemConfig, function, config);
}

cudaError_t cudaFuncGetName(const char** name, const void* func) {
  CUkernel kernel;
  TF_RETURN_IF_ERROR(NeedContext());
  TF_RETURN_IF_ERROR(ResolveKernel(func, &kernel));
  return Call(Driver().cuKernelGetName, name, kernel);
}

cudaError_t cudaFuncGetParamInfo(const void* func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  CUkernel kernel;
  TF_RETURN_IF_ERROR(NeedContext());
  TF_RETURN_IF_ERROR(ResolveKernel(func, &kernel));
  return Call(Driver().cuKernelGetParamInfo, kernel, paramIndex, paramOffset, paramSize);
}

#if TF_CUDART_MAJOR == 13
cudaError_t cudaFuncGetParamCount(const void* func, size_t* paramCount) {
  CUkernel kernel;
  TF_RETURN_IF_ERROR(NeedContext());
  TF_RETURN_IF_ERROR(ResolveKernel(func, &kernel));
  return Call(Driver().cuKernelGetParamCount, kernel, paramCount);
}
#endif

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attr, int value, int device) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  return Call(Driver().cuKernelSetAttribute, attr, value, kernel, device);
}

// Libraries. Kernels that come from one may stand where a host function stands, so the registry learns of them.

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* jitOptions,
                                void** jitOptionsValues, unsigned int numJitOptions, cudaLibraryOption* libraryOptions,
                                void** libraryOptionValues, unsigned int numLibraryOptions) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuLibraryLoadData, library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
              libraryOptionValues, numLibraryOptions);
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* fileName, cudaJitOption* jitOptions,
                                    void** jitOptionsValues, unsigned int numJitOptions,
                                    cudaLibraryOption* libraryOptions, void** libraryOptionValues,
                                    unsigned int numLibraryOptions) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuLibraryLoadFromFile, library, fileName, jitOptions, jitOptionsValues, numJitOptions,
              libraryOptions, libraryOptionValues, numLibraryOptions);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  TF_RETURN_IF_ERROR(Call(Driver().cuLibraryUnload, library));
  ForgetLibrary(library);
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* pKernel, cudaLibrary_t library, const char* name) {
  if (!name) return cudaErrorInvalidValue;
  TF_RETURN_IF_ERROR(Call(Driver().cuLibraryGetKernel, pKernel, library, name));
  AdoptKernel(library, *pKernel);
  return cudaSuccess;
}

cudaError_t cudaLibraryGetGlobal(void** dptr, size_t* bytes, cudaLibrary_t library, const char* name) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuLibraryGetGlobal, reinterpret_cast<CUdeviceptr*>(dptr), bytes, library, name);
}

cudaError_t cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t lib) {
  return Call(Driver().cuLibraryGetKernelCount, count, lib);
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned int numKernels, cudaLibrary_t lib) {
  TF_RETURN_IF_ERROR(Call(Driver().cuLibraryEnumerateKernels, kernels, numKernels, lib));
  unsigned count = 0;
  TF_RETURN_IF_ERROR(Call(Driver().cuLibraryGetKernelCount, &count, lib));
  for (unsigned i = 0; i < numKernels && i < count; ++i) AdoptKernel(lib, kernels[i]);
  return cudaSuccess;
}

// Occupancy.

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, const void* func, int blockSize,
                                                                   size_t dynamicSMemSize, unsigned int flags) {
  TF_RETURN_IF_ERROR(NeedContext());
  CUkernel kernel;
  TF_RETURN_IF_ERROR(ResolveKernel(func, &kernel));
  return Call(Driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, numBlocks, AsFunction(kernel), blockSize,
              dynamicSMemSize, flags);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func, int blockSize,
                                                          size_t dynamicSMemSize) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                CU_OCCUPANCY_DEFAULT);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, const void* func, int numBlocks,
                                                      int blockSize) {
  TF_RETURN_IF_ERROR(NeedContext());
  CUkernel kernel;
  TF_RETURN_IF_ERROR(ResolveKernel(func, &kernel));
  return Call(Driver().cuOccupancyAvailableDynamicSMemPerBlock, dynamicSmemSize, AsFunction(kernel), numBlocks,
              blockSize);
}

}  // namespace tf::cuda::runtime::api
