// Contexts: primary and created ones, the stack of each thread, limits.
#include "cuda/driver/state.h"
#include "cuda/driver_api.h"

namespace tf::cuda::driver {
namespace {

constexpr unsigned int kSchedulingFlags[] = {CU_CTX_SCHED_AUTO, CU_CTX_SCHED_SPIN, CU_CTX_SCHED_YIELD,
                                             CU_CTX_SCHED_BLOCKING_SYNC};

bool ValidFlags(unsigned int flags) {
  if ((flags & ~static_cast<unsigned int>(CU_CTX_FLAGS_MASK)) != 0) return false;
  for (unsigned int scheduling : kSchedulingFlags) {
    if ((flags & CU_CTX_SCHED_MASK) == scheduling) return true;
  }
  return false;
}

// A context of the backend, without a handle.
CUresult MakeContext(int ordinal, unsigned int flags, Context** made) {
  auto context = std::make_unique<Context>();
  context->id = g.Number();
  context->device = ordinal;
  context->flags.store(flags);
  TF_TRY(Checked(*context, g.backend->ContextCreate(context->id, g.devices[ordinal]->backend_ordinal, flags)));
  *made = context.release();
  return CUDA_SUCCESS;
}

void Name(Context& context) {
  std::lock_guard lock(g.context_names_mutex);
  g.context_names[context.id] = context.handle;
}

// Ends the primary context of a device. Its mutex is held.
void Deactivate(Device& device) {
  if (!device.active) return;
  device.active = false;
  Context* context = g.contexts.Find(device.primary_handle);
  g.contexts.Set(device.primary_handle, nullptr);
  EndContext(context);
}

CUresult Create(CUcontext* out, unsigned int flags, CUdevice dev, unsigned int api_version) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  if (!ValidFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  Context* context;
  TF_TRY(MakeContext(dev, flags, &context));
  context->api_version = api_version;
  CUcontext handle = g.contexts.Add(nullptr);
  if (handle == nullptr) {
    g.backend->ContextDestroy(context->id);
    delete context;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->handle = handle;
  Name(*context);
  g.contexts.Set(handle, context);
  Thread().contexts.push_back(handle);
  *out = handle;
  return CUDA_SUCCESS;
}

}  // namespace

void AbandonContext(CUcontext handle) {
  Context* context = g.contexts.Find(handle);
  if (context == nullptr) return;
  context->abandoned = true;
  (void)g.backend->ContextAbandon(context->id);
}

void EndContext(Context* context) {
  // Everything that was queued is over before its context goes; what goes wrong there is of no interest any more.
  if (!context->abandoned) (void)g.backend->ContextSynchronize(context->id).Wait();
  std::unordered_set<CUstream> streams;
  std::unordered_set<CUevent> events;
  std::unordered_set<CUmodule> modules;
  {
    std::lock_guard lock(context->mutex);
    context->destroyed = true;
    streams.swap(context->streams);
    events.swap(context->events);
    modules.swap(context->modules);
  }
  for (CUstream stream : streams) RetireObject(g.streams.Remove(stream));
  for (CUevent event : events) RetireObject(g.event_table.Remove(event));
  for (CUmodule handle : modules) {
    Module* module = g.modules.Remove(handle);
    if (module == nullptr) continue;
    std::vector<CUfunction> functions;
    {
      std::lock_guard lock(module->mutex);
      functions.swap(module->functions);
    }
    for (CUfunction function : functions) {
      if (function != nullptr) RetireObject(g.functions.Remove(function));
    }
    if (Library* library = g.libraries.Find(module->library)) {
      std::lock_guard lock(library->mutex);
      library->modules.erase(context->id);
    }
    RetireObject(module);
  }
  g.allocations.RemoveContext(context->id);
  g.backend->ContextDestroy(context->id);
  {
    std::lock_guard lock(g.context_names_mutex);
    g.context_names.erase(context->id);
  }
  RetireObject(context);
}

AnyContext::AnyContext(int ordinal) {
  Context* current;
  if (CurrentEvenIfBroken(&current) == CUDA_SUCCESS && current->device == ordinal) {
    id_ = current->id;
    result_ = static_cast<CUresult>(current->error.load());
    return;
  }
  Device& device = *g.devices[ordinal];
  if (Context* primary = g.contexts.Find(device.primary_handle)) {
    id_ = primary->id;
    result_ = static_cast<CUresult>(primary->error.load());
    return;
  }
  hidden_ = true;
  id_ = g.Number();
  result_ = g.backend->ContextCreate(id_, device.backend_ordinal, CU_CTX_SCHED_AUTO);
}

AnyContext::~AnyContext() {
  if (hidden_ && result_ == CUDA_SUCCESS) g.backend->ContextDestroy(id_);
}

namespace api {

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  std::lock_guard lock(device->mutex);
  if (!device->active) {
    Context* context;
    TF_TRY(MakeContext(dev, device->flags, &context));
    context->primary = true;
    context->handle = device->primary_handle;
    Name(*context);
    g.contexts.Set(device->primary_handle, context);
    device->active = true;
  }
  ++device->references;
  *pctx = device->primary_handle;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) { return cuDevicePrimaryCtxRelease_v2(dev); }

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  std::lock_guard lock(device->mutex);
  if (device->references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->references == 0) Deactivate(*device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  {
    std::lock_guard lock(device->mutex);
    if (device->active && flags != device->flags) return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
  }
  return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  if (!ValidFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device->mutex);
  device->flags = flags;
  if (Context* context = g.contexts.Find(device->primary_handle)) context->flags.store(flags);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  std::lock_guard lock(device->mutex);
  *flags = device->flags;
  *active = device->active ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) { return cuDevicePrimaryCtxReset_v2(dev); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  std::lock_guard lock(device->mutex);
  Deactivate(*device);
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) { return Create(pctx, flags, dev, 3020); }

CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam*, int numParams, unsigned int flags, CUdevice dev) {
  if (numParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return Create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev) {
  if (ctxCreateParams != nullptr) {
    if (ctxCreateParams->numExecAffinityParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (ctxCreateParams->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return Create(pctx, flags, dev, 3020);
}

CUresult cuCtxDestroy(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }

CUresult cuCtxDestroy_v2(CUcontext ctx) {
  Context* found = g.contexts.Find(ctx);
  if (found == nullptr || found->primary) return CUDA_ERROR_INVALID_CONTEXT;
  Context* context = g.contexts.Remove(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;  // another thread was first
  ThreadState& thread = Thread();
  if (!thread.contexts.empty() && thread.contexts.back() == ctx) thread.contexts.pop_back();
  EndContext(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext ctx) { return cuCtxPushCurrent_v2(ctx); }

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
  if (!g.contexts.Exists(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (g.contexts.Find(ctx) == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  Thread().contexts.push_back(ctx);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* pctx) { return cuCtxPopCurrent_v2(pctx); }

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
  ThreadState& thread = Thread();
  if (thread.contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *pctx = thread.contexts.back();
  thread.contexts.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  ThreadState& thread = Thread();
  if (ctx == nullptr) {
    if (!thread.contexts.empty()) thread.contexts.pop_back();
    return CUDA_SUCCESS;
  }
  if (!thread.contexts.empty() && thread.contexts.back() == ctx && g.contexts.Find(ctx) != nullptr) return CUDA_SUCCESS;
  if (!g.contexts.Exists(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (g.contexts.Find(ctx) == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (thread.contexts.empty()) {
    thread.contexts.push_back(ctx);
  } else {
    thread.contexts.back() = ctx;
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
  ThreadState& thread = Thread();
  *pctx = thread.contexts.empty() ? nullptr : thread.contexts.back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  Context* context;
  TF_TRY(CurrentEvenIfBroken(&context));
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  if (ctx == nullptr) return cuCtxGetDevice(device);
  Context* context = g.contexts.Find(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  Context* context;
  TF_TRY(CurrentEvenIfBroken(&context));
  *flags = context->flags.load();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  Context* context;
  TF_TRY(Current(&context));
  if (!ValidFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  context->flags.store(flags);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  Context* context;
  if (ctx == nullptr) {
    TF_TRY(CurrentEvenIfBroken(&context));
  } else {
    context = g.contexts.Find(ctx);
    if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() { return cuCtxSynchronize_v2(nullptr); }

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
  Context* context;
  TF_TRY(ContextOf(ctx, &context));
  return Checked(*context, g.backend->ContextSynchronize(context->id).Wait());
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  Context* context;
  TF_TRY(Current(&context));
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  return Checked(*context, g.backend->ContextSetLimit(context->id, limit, value));
}

CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  Context* context;
  TF_TRY(Current(&context));
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  uint64_t value = 0;
  TF_TRY(Checked(*context, g.backend->ContextGetLimit(context->id, limit, &value)));
  *pvalue = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  Context* context;
  TF_TRY(Current(&context));
  *pconfig = context->cache_config.load();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  Context* context;
  TF_TRY(Current(&context));
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  context->cache_config.store(config);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
  Context* context;
  TF_TRY(Current(&context));
  // Cards since Maxwell have banks of four bytes and ignore the setting.
  *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  Context* context;
  TF_TRY(Current(&context));
  if (config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  Context* context;
  TF_TRY(ContextOf(ctx, &context));
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  Context* context;
  TF_TRY(Current(&context));
  bool supported = g.devices[context->device]->attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED) != 0;
  if (leastPriority != nullptr) *leastPriority = 0;
  if (greatestPriority != nullptr) *greatestPriority = supported ? -5 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache() {
  Context* context;
  return Current(&context);  // there are no persisting lines to reset: no access policy can be set
}

}  // namespace api
}  // namespace tf::cuda::driver
