// Streams, events, host functions, capture queries, entry points of the driver.
#include <algorithm>
#include <memory>

#include "cuda/runtime/state.h"
#include "cuda/runtime_api.h"

namespace tf::cuda::runtime::api {
namespace {

// A callback of the runtime takes the runtime's error codes, the driver's takes its own.
struct Callback {
  cudaStreamCallback_t function;
  void* user_data;
};

void RunCallback(CUstream stream, CUresult status, void* user_data) {
  std::unique_ptr<Callback> callback(static_cast<Callback*>(user_data));
  callback->function(stream, FromDriver(status), callback->user_data);
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* pStream) { return cudaStreamCreateWithFlags(pStream, CU_STREAM_DEFAULT); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamCreate, pStream, flags);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamCreateWithPriority, pStream, flags, priority);
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int* priority) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamGetPriority, hStream, priority);
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int* flags) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamGetFlags, hStream, flags);
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long* streamId) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamGetId, hStream, streamId);
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int* device) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamGetDevice, hStream, device);
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamCopyAttributes, dst, src);
}

cudaError_t cudaStreamGetAttribute(cudaStream_t hStream, cudaLaunchAttributeID attr,
                                   cudaLaunchAttributeValue* value_out) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamGetAttribute, hStream, attr, value_out);
}

cudaError_t cudaStreamSetAttribute(cudaStream_t hStream, cudaLaunchAttributeID attr,
                                   const cudaLaunchAttributeValue* value) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamSetAttribute, hStream, attr, value);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamDestroy_v2, stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamWaitEvent, stream, event, flags);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* userData,
                                  unsigned int flags) {
  if (!callback) return cudaErrorInvalidValue;
  TF_RETURN_IF_ERROR(NeedContext());
  auto wrapped = std::make_unique<Callback>(Callback{callback, userData});
  TF_RETURN_IF_ERROR(Call(Driver().cuStreamAddCallback, stream, RunCallback, wrapped.get(), flags));
  wrapped.release();  // RunCallback owns it now
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamSynchronize, stream);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamQuery, stream);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuLaunchHostFunc, stream, fn, userData);
}

// Events.

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, CU_EVENT_DEFAULT); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuEventCreate, event, flags);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuEventRecord, event, stream);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuEventRecordWithFlags, event, stream, flags);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuEventQuery, event);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuEventSynchronize, event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuEventDestroy_v2, event);
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuEventElapsedTime, ms, start, end);
}

// Capture: nothing is ever captured here, which is what the driver answers.

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Call(Driver().cuThreadExchangeStreamCaptureMode, mode);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuStreamIsCapturing, stream, pCaptureStatus);
}

#if TF_CUDART_MAJOR == 12
cudaError_t cudaEventElapsedTime_v2(float* ms, cudaEvent_t start, cudaEvent_t end) {
  TF_RETURN_IF_ERROR(NeedContext());
  return Call(Driver().cuEventElapsedTime_v2, ms, start, end);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out,
                                     unsigned long long* id_out) {
  TF_RETURN_IF_ERROR(NeedContext());
  cuuint64_t id = 0;
  TF_RETURN_IF_ERROR(Call(Driver().cuStreamGetCaptureInfo, stream, captureStatus_out, &id));
  if (id_out) *id_out = id;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out,
                                        unsigned long long* id_out, cudaGraph_t* graph_out,
                                        const cudaGraphNode_t** dependencies_out, size_t* numDependencies_out) {
  TF_RETURN_IF_ERROR(NeedContext());
  cuuint64_t id = 0;
  TF_RETURN_IF_ERROR(Call(Driver().cuStreamGetCaptureInfo_v2, stream, captureStatus_out, &id, graph_out,
                          dependencies_out, numDependencies_out));
  if (id_out) *id_out = id;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo_v3(
#else
cudaError_t cudaStreamGetCaptureInfo(
#endif
    cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out, cudaGraph_t* graph_out,
    const cudaGraphNode_t** dependencies_out, const cudaGraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  TF_RETURN_IF_ERROR(NeedContext());
  cuuint64_t id = 0;
  TF_RETURN_IF_ERROR(Call(Driver().cuStreamGetCaptureInfo_v3, stream, captureStatus_out, &id, graph_out,
                          dependencies_out, edgeData_out, numDependencies_out));
  if (id_out) *id_out = id;
  return cudaSuccess;
}

// Entry points.

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** funcPtr, unsigned int cudaVersion,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* driverStatus) {
  if (!symbol) return cudaErrorInvalidValue;
  if (flags == CU_GET_PROC_ADDRESS_DEFAULT && ThisThread().per_thread_stream) {
    flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  }
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *funcPtr = nullptr;
  cudaError_t error =
      Call(Driver().cuGetProcAddress_v2, symbol, funcPtr, static_cast<int>(cudaVersion), flags, &status);
  if (driverStatus) *driverStatus = status;
  // A missing symbol is an answer (a null pointer), not a failure.
  return error == cudaErrorSymbolNotFound ? cudaSuccess : error;
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** funcPtr, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* driverStatus) {
  // A driver of the same major version may be older than the runtime; it refuses versions above its own.
  int version = std::min(kRuntimeVersion, state.version.load(std::memory_order_relaxed));
  return cudaGetDriverEntryPointByVersion(symbol, funcPtr, version, flags, driverStatus);
}

}  // namespace tf::cuda::runtime::api
