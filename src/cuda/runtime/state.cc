#include "cuda/runtime/state.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace tf::cuda::runtime {
namespace {

// Parts of the state that only slow paths touch.
struct Slow {
  std::mutex mutex;
  void* library = nullptr;
  std::map<int, CUcontext> primary_contexts;
  std::mutex log_mutex;
  std::set<std::string> logged;
};

Slow& slow = *new Slow;

static_assert(std::is_trivially_destructible_v<State>);

void EndThread(void* thread) {
  delete static_cast<Thread*>(thread);
  current_thread = nullptr;
}

pthread_key_t ThreadKey() {
  static const pthread_key_t key = [] {
    pthread_key_t created;
    pthread_key_create(&created, EndThread);
    return created;
  }();
  return key;
}

void AfterForkInChild() {
  state.ready.store(false, std::memory_order_relaxed);
  state.forked.store(true, std::memory_order_relaxed);
}

// With slow.mutex held.
cudaError_t LoadDriver() {
  if (slow.library) return cudaSuccess;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return cudaErrorInsufficientDriver;
  auto find = [library](const std::string& symbol) { return dlsym(library, symbol.c_str()); };
  state.legacy.Load(find);
  state.per_thread.Load([&find](const std::string& symbol) {
    for (const char* suffix : {"_ptsz", "_ptds"}) {
      if (void* found = find(symbol + suffix)) return found;
    }
    return find(symbol);
  });
  const DriverFunctions& driver = state.legacy;
  // What the runtime calls without looking.
  if (!driver.cuInit || !driver.cuDriverGetVersion || !driver.cuCtxGetCurrent || !driver.cuLaunchKernel) {
    dlclose(library);
    return cudaErrorInsufficientDriver;
  }
  slow.library = library;
  return cudaSuccess;
}

}  // namespace

constinit State state;
constinit thread_local Thread* current_thread = nullptr;

Thread& NewThread() {
  current_thread = new Thread;
  pthread_setspecific(ThreadKey(), current_thread);
  return *current_thread;
}

cudaError_t InitializeSlowly() {
  // Before the lock: a thread that the fork left behind may hold it.
  if (state.forked.load(std::memory_order_relaxed)) return cudaErrorInitializationError;
  std::lock_guard lock(slow.mutex);
  if (state.ready.load(std::memory_order_relaxed)) return cudaSuccess;
  TF_RETURN_IF_ERROR(LoadDriver());
  TF_RETURN_IF_ERROR(Call(state.legacy.cuInit, 0));
  int version = 0;
  TF_RETURN_IF_ERROR(Call(state.legacy.cuDriverGetVersion, &version));
  state.version.store(version, std::memory_order_relaxed);
  if (version < TF_CUDART_MAJOR * 1000) return cudaErrorInsufficientDriver;
  pthread_atfork(nullptr, nullptr, AfterForkInChild);
  state.ready.store(true, std::memory_order_release);
  return cudaSuccess;
}

int DriverVersion() {
  int version = state.version.load(std::memory_order_relaxed);
  if (version != 0 || state.forked.load(std::memory_order_relaxed)) return version;
  std::lock_guard lock(slow.mutex);
  if (LoadDriver() != cudaSuccess || state.legacy.cuDriverGetVersion(&version) != CUDA_SUCCESS) return 0;
  return version;
}

cudaError_t CheckDevice(int device) {
  int count = 0;
  TF_RETURN_IF_ERROR(Call(state.legacy.cuDeviceGetCount, &count));
  return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t PrimaryContext(int device, CUcontext* context) {
  TF_RETURN_IF_ERROR(CheckDevice(device));
  std::lock_guard lock(slow.mutex);
  CUcontext& known = slow.primary_contexts[device];
  if (!known) TF_RETURN_IF_ERROR(Call(state.legacy.cuDevicePrimaryCtxRetain, &known, device));
  *context = known;
  return cudaSuccess;
}

cudaError_t UseDevice(int device) {
  Thread& thread = ThisThread();
  uint64_t generation = state.generation.load(std::memory_order_acquire);
  CUcontext context;
  // Programs say it before nearly every call.
  if (thread.device == device && thread.bound_generation == generation &&
      state.legacy.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == thread.bound_context) {
    return cudaSuccess;
  }
  TF_RETURN_IF_ERROR(PrimaryContext(device, &context));
  TF_RETURN_IF_ERROR(Call(state.legacy.cuCtxSetCurrent, context));
  thread.device = device;
  thread.bound_context = context;
  thread.bound_generation = generation;
  return cudaSuccess;
}

cudaError_t NeedContextSlowly() {
  Thread& thread = ThisThread();
  CUcontext context = nullptr;
  bool known = state.legacy.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context;
  // A context that is not the runtime's own choice is the program's: it stays.
  if (known && context != thread.bound_context) return cudaSuccess;
  return UseDevice(thread.device);
}

cudaError_t CurrentDevice(int* device) {
  Thread& thread = ThisThread();
  CUcontext context = nullptr;
  if (state.legacy.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context && context != thread.bound_context) {
    return Call(state.legacy.cuCtxGetDevice, device);
  }
  *device = thread.device;
  return cudaSuccess;
}

cudaError_t ResetDevice(int device) {
  std::lock_guard lock(slow.mutex);
  TF_RETURN_IF_ERROR(Call(state.legacy.cuDevicePrimaryCtxReset_v2, device));
  auto found = slow.primary_contexts.find(device);
  if (found != slow.primary_contexts.end() && found->second) {
    // The reset leaves the runtime's reference in place.
    TF_RETURN_IF_ERROR(Call(state.legacy.cuDevicePrimaryCtxRelease_v2, device));
    slow.primary_contexts.erase(found);
  }
  state.generation.fetch_add(1, std::memory_order_release);
  return cudaSuccess;
}

cudaError_t NotSupported(const char* function) {
  ThisThread().last_error = cudaErrorNotSupported;
  std::lock_guard lock(slow.log_mutex);
  if (slow.logged.insert(function).second) {
    std::fprintf(stderr, "libcudart: %s is not supported: it answers cudaErrorNotSupported\n", function);
  }
  return cudaErrorNotSupported;
}

}  // namespace tf::cuda::runtime
