#include "cuda/driver/state.h"

#include <cstdio>
#include <set>

#include "cuda/driver/output_sink.h"

namespace tf::cuda::driver {

Driver& g = *new Driver;

namespace {

std::atomic<OutputSink> sink{nullptr};

bool Lasting(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
      return true;
    default:
      return false;
  }
}

}  // namespace

void SetOutputSink(OutputSink function) { sink.store(function); }

void Say(std::string_view line) {
  // One write, so that lines of several threads and processes do not mix.
  std::string text = "tensor-fusion: " + std::string(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

CUresult Unsupported(const char* what) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string, std::less<>>& said = *new std::set<std::string, std::less<>>;
  std::lock_guard lock(mutex);
  if (said.emplace(what).second) Say(std::string("not supported: ") + what);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Checked(Context& context, CUresult result) {
  if (result == CUDA_SUCCESS) [[likely]] {
    return result;
  }
  if (result == CUDA_ERROR_DEVICE_UNAVAILABLE) {
    if (!g.lost.exchange(true)) Say("the connection to the GPU is lost; every CUDA call fails from now on");
  } else if (Lasting(result)) {
    int none = 0;
    context.error.compare_exchange_strong(none, result);
  }
  return result;
}

CUresult CurrentEvenIfBroken(Context** context) {
  ThreadState& thread = Thread();
  if (thread.contexts.empty() || thread.contexts.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *context = g.contexts.Find(thread.contexts.back());
  return *context == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult Current(Context** context) {
  TF_TRY(CurrentEvenIfBroken(context));
  return static_cast<CUresult>((*context)->error.load(std::memory_order_relaxed));
}

CUresult ContextOf(CUcontext handle, Context** context) {
  if (handle == nullptr) return Current(context);
  *context = g.contexts.Find(handle);
  if (*context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return static_cast<CUresult>((*context)->error.load(std::memory_order_relaxed));
}

CUresult DeviceOf(CUdevice ordinal, Device** device) {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= g.devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  *device = g.devices[ordinal].get();
  return CUDA_SUCCESS;
}

namespace {

// The default stream of this thread in a context: a blocking stream, made when it is first used.
CUresult ThreadStream(ThreadState& thread, Context& context, uint64_t* id) {
  for (const ThreadState::DefaultStream& entry : thread.default_streams) {
    if (entry.context == context.id) {
      *id = entry.stream;
      return CUDA_SUCCESS;
    }
  }
  uint64_t made = g.Number();
  TF_TRY(Checked(context, g.backend->StreamCreate(context.id, made, CU_STREAM_DEFAULT, 0)));
  {
    std::lock_guard lock(g.context_names_mutex);
    std::erase_if(thread.default_streams, [](const auto& entry) { return !g.context_names.contains(entry.context); });
  }
  thread.default_streams.push_back({context.id, made});
  *id = made;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Resolve(CUstream handle, StreamRef* ref) {
  if (reinterpret_cast<uint64_t>(handle) <= 2) {
    TF_TRY(Current(&ref->context));
    ThreadState& thread = Thread();
    bool per_thread = handle == CU_STREAM_PER_THREAD || (handle == nullptr && thread.per_thread_default_stream);
    ref->id = 0;
    ref->stream = nullptr;
    return per_thread ? ThreadStream(thread, *ref->context, &ref->id) : CUDA_SUCCESS;
  }
  ref->stream = g.streams.Find(handle);
  if (ref->stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  ref->context = ref->stream->context;
  ref->id = ref->stream->id;
  return static_cast<CUresult>(ref->context->error.load(std::memory_order_relaxed));
}

CUresult Queued(const StreamRef& stream, CUresult result) {
  TF_TRY(Checked(*stream.context, result));
  if (!g.launch_blocking) [[likely]] {
    return CUDA_SUCCESS;
  }
  return Checked(*stream.context, g.backend->StreamSynchronize(stream.context->id, stream.id).Wait());
}

void Events::HostFunction(uint64_t token, int32_t status) {
  HostCall call;
  {
    std::lock_guard lock(g.host_calls_mutex);
    auto found = g.host_calls.find(token);
    if (found == g.host_calls.end()) return;
    call = std::move(found->second);
    g.host_calls.erase(found);
  }
  if (status != CUDA_SUCCESS && !call.even_after_errors) return;
  ThreadState& thread = Thread();
  thread.in_callback = true;
  call.run(static_cast<CUresult>(status));
  thread.in_callback = false;
}

void Events::Output(uint64_t context, std::string_view text) {
  if (OutputSink function = sink.load()) {
    CUcontext handle = nullptr;
    {
      std::lock_guard lock(g.context_names_mutex);
      auto found = g.context_names.find(context);
      if (found != g.context_names.end()) handle = found->second;
    }
    function(handle, text.data(), text.size());
    return;
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace tf::cuda::driver
