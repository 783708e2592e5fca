#include "cuda/runtime/errors.h"

#include <algorithm>
#include <iterator>

namespace tf::cuda::runtime {
namespace {

struct Entry {
  cudaError_t code;
  const char* name;
  const char* description;
};

#define TF_ERROR(code, description) {code, #code, description}

// Sorted by number.
constexpr Entry kErrors[] = {
    TF_ERROR(cudaSuccess, "no error"),
    TF_ERROR(cudaErrorInvalidValue, "invalid argument"),
    TF_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    TF_ERROR(cudaErrorInitializationError, "the CUDA driver or runtime could not be initialised"),
    TF_ERROR(cudaErrorCudartUnloading, "the driver is shutting down"),
    TF_ERROR(cudaErrorProfilerDisabled, "profiling is disabled while another profiler runs"),
    TF_ERROR(cudaErrorProfilerNotInitialized, "the profiler is not initialised (deprecated code)"),
    TF_ERROR(cudaErrorProfilerAlreadyStarted, "the profiler is already started (deprecated code)"),
    TF_ERROR(cudaErrorProfilerAlreadyStopped, "the profiler is already stopped (deprecated code)"),
    TF_ERROR(cudaErrorInvalidConfiguration, "invalid launch configuration: grid or block exceeds the device's limits"),
    TF_ERROR(cudaErrorVersionTranslation, "a structure cannot be translated to the version that the driver speaks"),
    TF_ERROR(cudaErrorInvalidPitchValue, "invalid pitch: a row is longer than the pitch, or the pitch is too large"),
    TF_ERROR(cudaErrorInvalidSymbol, "the address is no registered device variable"),
    TF_ERROR(cudaErrorInvalidHostPointer, "invalid host pointer (deprecated code)"),
    TF_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer (deprecated code)"),
    TF_ERROR(cudaErrorInvalidTexture, "invalid texture"),
    TF_ERROR(cudaErrorInvalidTextureBinding, "the texture is not bound validly"),
    TF_ERROR(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    TF_ERROR(cudaErrorInvalidMemcpyDirection, "invalid direction of a copy"),
    TF_ERROR(cudaErrorAddressOfConstant, "address of a constant variable (deprecated code)"),
    TF_ERROR(cudaErrorTextureFetchFailed, "a texture could not be fetched (deprecated code)"),
    TF_ERROR(cudaErrorTextureNotBound, "the texture is not bound (deprecated code)"),
    TF_ERROR(cudaErrorSynchronizationError, "a synchronisation failed (deprecated code)"),
    TF_ERROR(cudaErrorInvalidFilterSetting, "linear filtering needs a floating-point texture"),
    TF_ERROR(cudaErrorInvalidNormSetting, "this texture cannot be read as normalised floating point"),
    TF_ERROR(cudaErrorMixedDeviceExecution, "device and device emulation code are mixed (deprecated code)"),
    TF_ERROR(cudaErrorNotYetImplemented, "not yet implemented (deprecated code)"),
    TF_ERROR(cudaErrorMemoryValueTooLarge, "an emulated device pointer exceeds 32 bits (deprecated code)"),
    TF_ERROR(cudaErrorStubLibrary, "the loaded CUDA driver is a stub library: it cannot run anything"),
    TF_ERROR(cudaErrorInsufficientDriver, "no CUDA driver, or one that is older than this runtime needs"),
    TF_ERROR(cudaErrorCallRequiresNewerDriver, "this call needs a newer CUDA driver"),
    TF_ERROR(cudaErrorInvalidSurface, "invalid surface"),
    TF_ERROR(cudaErrorDuplicateVariableName, "two device variables of the program have the same name"),
    TF_ERROR(cudaErrorDuplicateTextureName, "two textures of the program have the same name"),
    TF_ERROR(cudaErrorDuplicateSurfaceName, "two surfaces of the program have the same name"),
    TF_ERROR(cudaErrorDevicesUnavailable, "all CUDA devices are busy or unavailable"),
    TF_ERROR(cudaErrorIncompatibleDriverContext, "the thread's current driver context does not suit the runtime"),
    TF_ERROR(cudaErrorMissingConfiguration, "a kernel was called without a launch configuration"),
    TF_ERROR(cudaErrorPriorLaunchFailure, "an earlier kernel failed (deprecated code)"),
    TF_ERROR(cudaErrorLaunchMaxDepthExceeded, "nested launches are too deep"),
    TF_ERROR(cudaErrorLaunchFileScopedTex, "a nested kernel uses file-scope textures"),
    TF_ERROR(cudaErrorLaunchFileScopedSurf, "a nested kernel uses file-scope surfaces"),
    TF_ERROR(cudaErrorSyncDepthExceeded, "nested synchronisation is deeper than the limit"),
    TF_ERROR(cudaErrorLaunchPendingCountExceeded, "more nested launches are pending than the limit allows"),
    TF_ERROR(cudaErrorInvalidDeviceFunction, "the function is no kernel of this program, or not built for this device"),
    TF_ERROR(cudaErrorNoDevice, "no CUDA device found"),
    TF_ERROR(cudaErrorInvalidDevice, "invalid device number"),
    TF_ERROR(cudaErrorDeviceNotLicensed, "the device has no valid GRID licence"),
    TF_ERROR(cudaErrorSoftwareValidityNotEstablished, "the validity of the software could not be established"),
    TF_ERROR(cudaErrorStartupFailure, "the CUDA runtime failed to start"),
    TF_ERROR(cudaErrorInvalidKernelImage, "invalid device kernel image"),
    TF_ERROR(cudaErrorDeviceUninitialized, "no valid context is current"),
    TF_ERROR(cudaErrorMapBufferObjectFailed, "a buffer object could not be mapped"),
    TF_ERROR(cudaErrorUnmapBufferObjectFailed, "a buffer object could not be unmapped"),
    TF_ERROR(cudaErrorArrayIsMapped, "the array is mapped and cannot be destroyed"),
    TF_ERROR(cudaErrorAlreadyMapped, "the resource is already mapped"),
    TF_ERROR(cudaErrorNoKernelImageForDevice, "the program has no kernel image that runs on this device"),
    TF_ERROR(cudaErrorAlreadyAcquired, "the resource is already acquired"),
    TF_ERROR(cudaErrorNotMapped, "the resource is not mapped"),
    TF_ERROR(cudaErrorNotMappedAsArray, "the resource is not mapped as an array"),
    TF_ERROR(cudaErrorNotMappedAsPointer, "the resource is not mapped as a pointer"),
    TF_ERROR(cudaErrorECCUncorrectable, "an uncorrectable ECC error occurred"),
    TF_ERROR(cudaErrorUnsupportedLimit, "the device does not support this limit"),
    TF_ERROR(cudaErrorDeviceAlreadyInUse, "another thread uses the device exclusively"),
    TF_ERROR(cudaErrorPeerAccessUnsupported, "the devices have no peer access to each other"),
    TF_ERROR(cudaErrorInvalidPtx, "PTX could not be compiled"),
    TF_ERROR(cudaErrorInvalidGraphicsContext, "invalid graphics context"),
    TF_ERROR(cudaErrorNvlinkUncorrectable, "an uncorrectable NVLink error occurred"),
    TF_ERROR(cudaErrorJitCompilerNotFound, "the PTX compiler library was not found"),
    TF_ERROR(cudaErrorUnsupportedPtxVersion, "the PTX is of a newer version than the driver knows"),
    TF_ERROR(cudaErrorJitCompilationDisabled, "compiling PTX at run time is disabled"),
    TF_ERROR(cudaErrorUnsupportedExecAffinity, "the device does not support this execution affinity"),
    TF_ERROR(cudaErrorUnsupportedDevSideSync, "device code calls cudaDeviceSynchronize, which is not supported"),
    TF_ERROR(cudaErrorContained, "an error on the device was contained; the process must end to recover"),
    TF_ERROR(cudaErrorInsufficientLoaderVersion, "the loader is too old for this code"),
    TF_ERROR(cudaErrorInvalidSource, "invalid device kernel source"),
    TF_ERROR(cudaErrorFileNotFound, "file not found"),
    TF_ERROR(cudaErrorSharedObjectSymbolNotFound, "a symbol of a shared object was not found"),
    TF_ERROR(cudaErrorSharedObjectInitFailed, "a shared object could not be initialised"),
    TF_ERROR(cudaErrorOperatingSystem, "a call to the operating system failed"),
    TF_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    TF_ERROR(cudaErrorIllegalState, "a resource is not in the state that the call needs"),
    TF_ERROR(cudaErrorLossyQuery, "an object cannot be described without losing information"),
    TF_ERROR(cudaErrorSymbolNotFound, "the named symbol was not found"),
    TF_ERROR(cudaErrorNotReady, "the device is not ready: earlier work has not finished"),
    TF_ERROR(cudaErrorIllegalAddress, "a kernel accessed an illegal memory address"),
    TF_ERROR(cudaErrorLaunchOutOfResources, "the launch asks for more resources (registers, threads) than there are"),
    TF_ERROR(cudaErrorLaunchTimeout, "a kernel ran for too long and was stopped"),
    TF_ERROR(cudaErrorLaunchIncompatibleTexturing, "the launch uses an incompatible texturing mode"),
    TF_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    TF_ERROR(cudaErrorPeerAccessNotEnabled, "peer access is not enabled"),
    TF_ERROR(cudaErrorSetOnActiveProcess, "the device is already in use: this cannot be set any more"),
    TF_ERROR(cudaErrorContextIsDestroyed, "the context is destroyed"),
    TF_ERROR(cudaErrorAssert, "an assertion in device code failed"),
    TF_ERROR(cudaErrorTooManyPeers, "no more peers can be connected"),
    TF_ERROR(cudaErrorHostMemoryAlreadyRegistered, "the host memory is already registered, in whole or in part"),
    TF_ERROR(cudaErrorHostMemoryNotRegistered, "the host memory is not registered"),
    TF_ERROR(cudaErrorHardwareStackError, "the call stack of a kernel is corrupted or too small"),
    TF_ERROR(cudaErrorIllegalInstruction, "a kernel met an illegal instruction"),
    TF_ERROR(cudaErrorMisalignedAddress, "a kernel accessed a misaligned address"),
    TF_ERROR(cudaErrorInvalidAddressSpace, "an instruction got an address of a space that it cannot access"),
    TF_ERROR(cudaErrorInvalidPc, "a kernel's program counter left its address space"),
    TF_ERROR(cudaErrorLaunchFailure, "a kernel failed with an exception"),
    TF_ERROR(cudaErrorCooperativeLaunchTooLarge, "a cooperative launch has more blocks than fit the device at once"),
    TF_ERROR(cudaErrorTensorMemoryLeak, "a kernel ended without freeing its tensor memory"),
    TF_ERROR(cudaErrorNotPermitted, "the operation is not permitted"),
    TF_ERROR(cudaErrorNotSupported, "the operation is not supported"),
    TF_ERROR(cudaErrorSystemNotReady, "the system is not ready for CUDA work"),
    TF_ERROR(cudaErrorSystemDriverMismatch, "the versions of the display driver and the CUDA driver do not match"),
    TF_ERROR(cudaErrorCompatNotSupportedOnDevice, "forward compatibility is not possible on this device"),
    TF_ERROR(cudaErrorMpsConnectionFailed, "the MPS client could not connect to the server"),
    TF_ERROR(cudaErrorMpsRpcFailure, "a call between MPS client and server failed"),
    TF_ERROR(cudaErrorMpsServerNotReady, "the MPS server is not ready for new clients"),
    TF_ERROR(cudaErrorMpsMaxClientsReached, "the MPS server has no room for more clients"),
    TF_ERROR(cudaErrorMpsMaxConnectionsReached, "the MPS server has no room for more device connections"),
    TF_ERROR(cudaErrorMpsClientTerminated, "the MPS client was ended by the server"),
    TF_ERROR(cudaErrorCdpNotSupported, "nested launches are not supported"),
    TF_ERROR(cudaErrorCdpVersionMismatch, "the versions of the device runtime do not match"),
    TF_ERROR(cudaErrorStreamCaptureUnsupported, "the operation is not possible while a stream is captured"),
    TF_ERROR(cudaErrorStreamCaptureInvalidated, "an earlier error made the capture invalid"),
    TF_ERROR(cudaErrorStreamCaptureMerge, "the operation would merge two captures"),
    TF_ERROR(cudaErrorStreamCaptureUnmatched, "the capture began in another stream"),
    TF_ERROR(cudaErrorStreamCaptureUnjoined, "captured work was not joined to the stream that began the capture"),
    TF_ERROR(cudaErrorStreamCaptureIsolation, "a dependency would cross the capture's boundary"),
    TF_ERROR(cudaErrorStreamCaptureImplicit, "the operation would wait on the legacy default stream during a capture"),
    TF_ERROR(cudaErrorCapturedEvent, "the event was last recorded in a captured stream"),
    TF_ERROR(cudaErrorStreamCaptureWrongThread, "the capture was begun by another thread"),
    TF_ERROR(cudaErrorTimeout, "the wait timed out"),
    TF_ERROR(cudaErrorGraphExecUpdateFailure, "the graph differs too much for the update"),
    TF_ERROR(cudaErrorExternalDevice, "an error occurred in a device outside of the GPU"),
    TF_ERROR(cudaErrorInvalidClusterSize, "invalid cluster size"),
    TF_ERROR(cudaErrorFunctionNotLoaded, "the function is not loaded"),
    TF_ERROR(cudaErrorInvalidResourceType, "invalid resource type"),
    TF_ERROR(cudaErrorInvalidResourceConfiguration, "the resources are too few or not configured for the operation"),
    TF_ERROR(cudaErrorStreamDetached, "the stream is detached from its context"),
    TF_ERROR(cudaErrorGraphRecaptureFailure, "the graph could not be captured again"),
    TF_ERROR(cudaErrorFabricNotReady, "the fabric is not ready"),
    TF_ERROR(cudaErrorUnknown, "unknown error"),
    TF_ERROR(cudaErrorApiFailureBase, "an error of the API itself (deprecated code)"),
};

#undef TF_ERROR

constexpr char kUnrecognized[] = "unrecognized error code";

const Entry* Find(cudaError_t error) {
  const Entry* found = std::lower_bound(std::begin(kErrors), std::end(kErrors), error,
                                        [](const Entry& entry, cudaError_t code) { return entry.code < code; });
  return found != std::end(kErrors) && found->code == error ? found : nullptr;
}

}  // namespace

const char* ErrorName(cudaError_t error) {
  const Entry* entry = Find(error);
  return entry ? entry->name : kUnrecognized;
}

const char* ErrorDescription(cudaError_t error) {
  const Entry* entry = Find(error);
  return entry ? entry->description : kUnrecognized;
}

cudaError_t FromDriver(CUresult result) {
  auto code = static_cast<cudaError_t>(result);
  return Find(code) ? code : cudaErrorUnknown;
}

bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
      return true;
    default:
      return false;
  }
}

}  // namespace tf::cuda::runtime
