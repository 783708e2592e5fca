// Streams, host functions, events.
#include <algorithm>

#include "cuda/driver/state.h"
#include "cuda/driver_api.h"

namespace tf::cuda::driver {
namespace {

constexpr int kGreatestPriority = -5;

CUresult CreateStream(CUstream* out, unsigned int flags, int priority) {
  Context* context;
  TF_TRY(Current(&context));
  if ((flags & ~static_cast<unsigned int>(CU_STREAM_NON_BLOCKING)) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_unique<Stream>();
  stream->context = context;
  stream->context_handle = context->handle;
  stream->id = g.Number();
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, 0);
  TF_TRY(Checked(*context, g.backend->StreamCreate(context->id, stream->id, flags, stream->priority)));
  CUstream handle = g.streams.Add(nullptr);
  if (handle == nullptr) {
    g.backend->StreamDestroy(context->id, stream->id);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  stream->handle = handle;
  {
    std::lock_guard lock(context->mutex);
    if (context->destroyed) {
      g.streams.Remove(handle);
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    context->streams.insert(handle);
  }
  g.streams.Set(handle, stream.release());
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult CallHost(const StreamRef& stream, HostCall call) {
  uint64_t token = g.Number();
  {
    std::lock_guard lock(g.host_calls_mutex);
    g.host_calls.emplace(token, std::move(call));
  }
  CUresult result = g.backend->StreamHostFunction(stream.context->id, stream.id, token);
  if (result != CUDA_SUCCESS) {
    std::lock_guard lock(g.host_calls_mutex);
    g.host_calls.erase(token);
  }
  return Queued(stream, result);
}

CUresult EventOf(CUevent handle, Event** event) {
  *event = g.event_table.Find(handle);
  if (*event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return static_cast<CUresult>((*event)->context->error.load());
}

CUresult Record(CUevent handle, CUstream stream_handle, unsigned int flags) {
  Event* event;
  TF_TRY(EventOf(handle, &event));
  StreamRef stream;
  TF_TRY(Resolve(stream_handle, &stream));
  if (event->context != stream.context) return CUDA_ERROR_INVALID_HANDLE;
  event->recorded.store(true);
  return Queued(stream, g.backend->EventRecord(stream.context->id, event->id, stream.id, flags));
}

// Capture comes later: no stream is ever capturing.
CUresult NotCapturing(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  StreamRef stream;
  TF_TRY(Resolve(handle, &stream));
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (id != nullptr) *id = 0;
  return CUDA_SUCCESS;
}

}  // namespace

namespace api {

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) { return CreateStream(phStream, Flags, 0); }

CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  return CreateStream(phStream, flags, priority);
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  *priority = stream.stream != nullptr ? stream.stream->priority : 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  *device = stream.context->device;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  *flags = stream.stream != nullptr ? stream.stream->flags : static_cast<unsigned int>(CU_STREAM_DEFAULT);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  // The legacy stream shares the number of its context: numbers are unique in the process.
  *streamId = stream.id != 0 ? stream.id : stream.context->id;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  *pctx = stream.context->handle;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  if (pGreenCtx != nullptr) *pGreenCtx = nullptr;
  return cuStreamGetCtx(hStream, pCtx);
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  Event* event;
  TF_TRY(EventOf(hEvent, &event));
  if (Flags == CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_NOT_SUPPORTED;  // for captures only
  if (Flags != CU_EVENT_WAIT_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  if (!event->recorded.load()) return CUDA_SUCCESS;  // there is nothing to wait for
  return Queued(stream, g.backend->StreamWaitEvent(stream.context->id, stream.id, event->id, 0));
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  HostCall call;
  call.run = [=](CUresult status) { callback(hStream, status, userData); };
  call.even_after_errors = true;
  return CallHost(stream, std::move(call));
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  if (fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostCall call;
  call.run = [=](CUresult) { fn(userData); };
  return CallHost(stream, std::move(call));
}

// The mode says how the thread that calls the function waits for work: a preference.
CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode) {
  return syncMode > 1 ? CUDA_ERROR_INVALID_VALUE : cuLaunchHostFunc(hStream, fn, userData);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  ThreadState& thread = Thread();
  std::swap(*mode, thread.capture_mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return NotCapturing(hStream, captureStatus, nullptr);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out) {
  return NotCapturing(hStream, captureStatus_out, id_out);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out,
                                   CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                   size_t* numDependencies_out) {
  if (graph_out != nullptr) *graph_out = nullptr;
  if (dependencies_out != nullptr) *dependencies_out = nullptr;
  if (numDependencies_out != nullptr) *numDependencies_out = 0;
  return NotCapturing(hStream, captureStatus_out, id_out);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out,
                                   CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                   const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  if (edgeData_out != nullptr) *edgeData_out = nullptr;
  return cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                                   numDependencies_out);
}

CUresult cuStreamQuery(CUstream hStream) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  return Checked(*stream.context, g.backend->StreamQuery(stream.context->id, stream.id));
}

CUresult cuStreamSynchronize(CUstream hStream) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  return Checked(*stream.context, g.backend->StreamSynchronize(stream.context->id, stream.id).Wait());
}

CUresult cuStreamDestroy(CUstream hStream) { return cuStreamDestroy_v2(hStream); }

CUresult cuStreamDestroy_v2(CUstream hStream) {
  Stream* stream = g.streams.Remove(hStream);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Context& context = *stream->context;
  {
    std::lock_guard lock(context.mutex);
    context.streams.erase(hStream);
  }
  CUresult result = Checked(context, g.backend->StreamDestroy(context.id, stream->id));
  RetireObject(stream);
  return result;
}

CUresult cuStreamCopyAttributes(CUstream dstStream, CUstream srcStream) {
  StreamRef destination, source;
  TF_TRY(Resolve(dstStream, &destination));
  TF_TRY(Resolve(srcStream, &source));
  if (destination.context != source.context) return CUDA_ERROR_INVALID_VALUE;
  if (destination.stream == nullptr || source.stream == nullptr) return CUDA_SUCCESS;
  destination.stream->sync_policy.store(source.stream->sync_policy.load());
  return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      value->syncPolicy = stream.stream != nullptr
                              ? static_cast<CUsynchronizationPolicy>(stream.stream->sync_policy.load())
                              : CU_SYNC_POLICY_AUTO;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      value->priority = stream.stream != nullptr ? stream.stream->priority : 0;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      value->memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* param) {
  StreamRef stream;
  TF_TRY(Resolve(hStream, &stream));
  if (param == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      if (param->syncPolicy < CU_SYNC_POLICY_AUTO || param->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      if (stream.stream != nullptr) stream.stream->sync_policy.store(param->syncPolicy);
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  Context* context;
  TF_TRY(Current(&context));
  constexpr unsigned int kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if ((Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_EVENT_INTERPROCESS) != 0) {
    return (Flags & CU_EVENT_DISABLE_TIMING) != 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  }
  auto event = std::make_unique<Event>();
  event->context = context;
  event->id = g.Number();
  event->flags = Flags;
  TF_TRY(Checked(*context, g.backend->EventCreate(context->id, event->id, Flags)));
  CUevent handle = g.event_table.Add(nullptr);
  if (handle == nullptr) {
    g.backend->EventDestroy(context->id, event->id);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  event->handle = handle;
  {
    std::lock_guard lock(context->mutex);
    if (context->destroyed) {
      g.event_table.Remove(handle);
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    context->events.insert(handle);
  }
  g.event_table.Set(handle, event.release());
  *phEvent = handle;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) { return Record(hEvent, hStream, 0); }

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  if (flags == CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_NOT_SUPPORTED;  // for captures only
  if (flags != CU_EVENT_RECORD_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  return Record(hEvent, hStream, flags);
}

CUresult cuEventQuery(CUevent hEvent) {
  Event* event;
  TF_TRY(EventOf(hEvent, &event));
  if (!event->recorded.load()) return CUDA_SUCCESS;
  return Checked(*event->context, g.backend->EventQuery(event->context->id, event->id));
}

CUresult cuEventSynchronize(CUevent hEvent) {
  Event* event;
  TF_TRY(EventOf(hEvent, &event));
  if (!event->recorded.load()) return CUDA_SUCCESS;
  return Checked(*event->context, g.backend->EventSynchronize(event->context->id, event->id).Wait());
}

CUresult cuEventDestroy(CUevent hEvent) { return cuEventDestroy_v2(hEvent); }

CUresult cuEventDestroy_v2(CUevent hEvent) {
  Event* event = g.event_table.Remove(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Context& context = *event->context;
  {
    std::lock_guard lock(context.mutex);
    context.events.erase(hEvent);
  }
  CUresult result = Checked(context, g.backend->EventDestroy(context.id, event->id));
  RetireObject(event);
  return result;
}

CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  Event *start, *end;
  TF_TRY(EventOf(hStart, &start));
  TF_TRY(EventOf(hEnd, &end));
  if (start->context->device != end->context->device) return CUDA_ERROR_INVALID_HANDLE;
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->recorded.load() || !end->recorded.load()) return CUDA_ERROR_INVALID_HANDLE;
  float milliseconds = 0;
  TF_TRY(Checked(*start->context, g.backend->EventElapsed(start->context->id, start->id, end->id, &milliseconds)));
  *pMilliseconds = milliseconds;
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}

}  // namespace api
}  // namespace tf::cuda::driver
