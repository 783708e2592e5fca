// Names and descriptions of errors.
#include "cuda/driver_api.h"

namespace tf::cuda::driver {
namespace {

struct ErrorText {
  const char* name = nullptr;
  const char* description = nullptr;
};

ErrorText TextOf(CUresult error) {
#define TF_ERROR(name, description) \
  case name:                        \
    return {#name, description};
  switch (error) {
    TF_ERROR(CUDA_SUCCESS, "no error")
    TF_ERROR(CUDA_ERROR_INVALID_VALUE, "an argument is out of its range")
    TF_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "not enough memory")
    TF_ERROR(CUDA_ERROR_NOT_INITIALIZED, "the driver is not initialised")
    TF_ERROR(CUDA_ERROR_DEINITIALIZED, "the driver is shutting down")
    TF_ERROR(CUDA_ERROR_PROFILER_DISABLED, "profiling is disabled for this run")
    TF_ERROR(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "the profiler is not initialised")
    TF_ERROR(CUDA_ERROR_PROFILER_ALREADY_STARTED, "the profiler has been started already")
    TF_ERROR(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "the profiler has been stopped already")
    TF_ERROR(CUDA_ERROR_STUB_LIBRARY, "the driver library is a stub")
    TF_ERROR(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "the call needs a newer driver")
    TF_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device cannot be used now")
    TF_ERROR(CUDA_ERROR_MULTICAST_RESOURCE_FULL, "no multicast resources are left")
    TF_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA device was found")
    TF_ERROR(CUDA_ERROR_INVALID_DEVICE, "there is no device with this ordinal")
    TF_ERROR(CUDA_ERROR_DEVICE_NOT_LICENSED, "the device has no valid licence")
    TF_ERROR(CUDA_ERROR_INVALID_IMAGE, "the device code image is not valid")
    TF_ERROR(CUDA_ERROR_INVALID_CONTEXT, "there is no valid context")
    TF_ERROR(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "the context is current already")
    TF_ERROR(CUDA_ERROR_MAP_FAILED, "mapping failed")
    TF_ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping failed")
    TF_ERROR(CUDA_ERROR_ARRAY_IS_MAPPED, "the array is mapped")
    TF_ERROR(CUDA_ERROR_ALREADY_MAPPED, "the resource is mapped already")
    TF_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image has no code for this device")
    TF_ERROR(CUDA_ERROR_ALREADY_ACQUIRED, "the resource is acquired already")
    TF_ERROR(CUDA_ERROR_NOT_MAPPED, "the resource is not mapped")
    TF_ERROR(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "the resource is not mapped as an array")
    TF_ERROR(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "the resource is not mapped as a pointer")
    TF_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "an uncorrectable memory error occurred")
    TF_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "the device does not support this limit")
    TF_ERROR(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "the context is in use by another thread")
    TF_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the devices cannot reach one another")
    TF_ERROR(CUDA_ERROR_INVALID_PTX, "the PTX code did not compile")
    TF_ERROR(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "the graphics context is not valid")
    TF_ERROR(CUDA_ERROR_NVLINK_UNCORRECTABLE, "an uncorrectable NVLink error occurred")
    TF_ERROR(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "the PTX compiler was not found")
    TF_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the PTX code has an unsupported version")
    TF_ERROR(CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX compilation is disabled")
    TF_ERROR(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the device does not support this execution affinity")
    TF_ERROR(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, "the code synchronises on the device in an unsupported way")
    TF_ERROR(CUDA_ERROR_CONTAINED, "an error was contained to this process")
    TF_ERROR(CUDA_ERROR_INSUFFICIENT_LOADER_VERSION, "the loader is too old for the device code")
    TF_ERROR(CUDA_ERROR_INVALID_SOURCE, "the device code source is not valid")
    TF_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "the file was not found")
    TF_ERROR(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "a symbol of a shared object was not found")
    TF_ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "a shared object did not initialise")
    TF_ERROR(CUDA_ERROR_OPERATING_SYSTEM, "a call of the operating system failed")
    TF_ERROR(CUDA_ERROR_INVALID_HANDLE, "the handle is not valid")
    TF_ERROR(CUDA_ERROR_ILLEGAL_STATE, "a resource is not in the state that the call needs")
    TF_ERROR(CUDA_ERROR_LOSSY_QUERY, "the query would lose information")
    TF_ERROR(CUDA_ERROR_NOT_FOUND, "the name was not found")
    TF_ERROR(CUDA_ERROR_NOT_READY, "the work is not finished yet")
    TF_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel accessed an illegal address")
    TF_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the launch asks for more resources than there are")
    TF_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel ran too long and was ended")
    TF_ERROR(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "the launch uses an incompatible texturing mode")
    TF_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already")
    TF_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not enabled")
    TF_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active")
    TF_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context has been destroyed")
    TF_ERROR(CUDA_ERROR_ASSERT, "an assertion failed in a kernel")
    TF_ERROR(CUDA_ERROR_TOO_MANY_PEERS, "no resources for another peer are left")
    TF_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the host memory is registered already")
    TF_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host memory is not registered")
    TF_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "a kernel overran its call stack")
    TF_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel met an illegal instruction")
    TF_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel accessed a misaligned address")
    TF_ERROR(CUDA_ERROR_INVALID_ADDRESS_SPACE, "a kernel used an address of the wrong space")
    TF_ERROR(CUDA_ERROR_INVALID_PC, "a kernel jumped to an invalid address")
    TF_ERROR(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed")
    TF_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the cooperative launch has more blocks than fit at once")
    TF_ERROR(CUDA_ERROR_TENSOR_MEMORY_LEAK, "a kernel ended without freeing its tensor memory")
    TF_ERROR(CUDA_ERROR_NOT_PERMITTED, "the operation is not permitted here")
    TF_ERROR(CUDA_ERROR_NOT_SUPPORTED, "the operation is not supported")
    TF_ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready for CUDA work yet")
    TF_ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "the versions of the parts of the driver do not match")
    TF_ERROR(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "the device does not support forward compatibility")
    TF_ERROR(CUDA_ERROR_MPS_CONNECTION_FAILED, "there is no connection to the MPS server")
    TF_ERROR(CUDA_ERROR_MPS_RPC_FAILURE, "a call to the MPS server failed")
    TF_ERROR(CUDA_ERROR_MPS_SERVER_NOT_READY, "the MPS server is not ready")
    TF_ERROR(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "the MPS server has no room for another client")
    TF_ERROR(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "the MPS server has no room for another connection")
    TF_ERROR(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS server ended this client")
    TF_ERROR(CUDA_ERROR_CDP_NOT_SUPPORTED, "the device does not support launches from kernels")
    TF_ERROR(CUDA_ERROR_CDP_VERSION_MISMATCH, "modules use different versions of launches from kernels")
    TF_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a capturing stream does not allow the operation")
    TF_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier error made the capture invalid")
    TF_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "the operation would merge two captures")
    TF_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was not begun in this stream")
    TF_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "the capture forked into streams that were not joined")
    TF_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "the operation would make the capture depend on work outside")
    TF_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy default stream would depend on a capture")
    TF_ERROR(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture")
    TF_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture was begun in another thread")
    TF_ERROR(CUDA_ERROR_TIMEOUT, "the wait took too long")
    TF_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph differs too much for an update")
    TF_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, "a device outside CUDA failed")
    TF_ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the cluster size is not valid")
    TF_ERROR(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded")
    TF_ERROR(CUDA_ERROR_INVALID_RESOURCE_TYPE, "the resource has the wrong type")
    TF_ERROR(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "the resource is configured in a way that cannot work")
    TF_ERROR(CUDA_ERROR_KEY_ROTATION, "keys were exchanged while the operation ran")
    TF_ERROR(CUDA_ERROR_STREAM_DETACHED, "the stream is detached from its context")
    TF_ERROR(CUDA_ERROR_GRAPH_RECAPTURE_FAILURE, "the graph could not be captured again")
    TF_ERROR(CUDA_ERROR_FABRIC_NOT_READY, "the fabric is not ready")
    TF_ERROR(CUDA_ERROR_UNKNOWN, "an unknown error occurred")
  }
#undef TF_ERROR
  return {};
}

}  // namespace

namespace api {

CUresult cuGetErrorString(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = TextOf(error).description;
  return *pStr == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = TextOf(error).name;
  return *pStr == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace api
}  // namespace tf::cuda::driver
