// What the runtime keeps between calls: the loaded driver, the primary contexts, and one record for each thread.
//
// The driver is libcuda.so.1, loaded by the first call that needs it and used through documented functions only, so any
// driver serves: the simulated one, the remote one, a genuine one. Nothing here is ever destroyed: programs call the
// runtime after static destructors ran. In the child of a fork that happened after the first use every call answers
// cudaErrorInitializationError, as the driver's state does not survive a fork.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "cuda/driver_functions.h"
#include "cuda/runtime/errors.h"

namespace tf::cuda::runtime {

struct Kernel;

// A launch as <<<>>> configures it, between __cudaPushCallConfiguration and __cudaPopCallConfiguration.
struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  CUstream stream;
};

// One for each thread that calls the runtime, freed when the thread ends.
struct Thread {
  // Arguments of one launch may launch themselves, hence a small stack.
  static constexpr int kMaxConfigurations = 16;
  static constexpr int kCachedKernels = 64;  // a power of two

  cudaError_t last_error = cudaSuccess;
  bool per_thread_stream = false;  // inside a function with the suffix _ptds or _ptsz
  int device = 0;                  // what cudaSetDevice chose
  // The primary context that the runtime made current, and the generation (see State) at which it did. 0: never.
  CUcontext bound_context = nullptr;
  uint64_t bound_generation = 0;

  int configurations = 0;
  CallConfiguration configuration[kMaxConfigurations];

  // Host function to kernel, direct-mapped; valid while the registry's generation is this one.
  uint64_t kernel_generation = 0;
  struct {
    const void* function;
    Kernel* kernel;
  } kernels[kCachedKernels] = {};
};

// What cudaRuntimeGetVersion says: the version whose functions runtime.table has.
inline constexpr int kRuntimeVersion = TF_CUDART_MAJOR == 12 ? 12090 : 13050;

struct State {
  std::atomic<bool> ready{false};
  std::atomic<bool> forked{false};  // this is the child of a process that had used the driver
  std::atomic<int> version{0};      // the driver's, when it is known
  // Contexts that threads made current before the last cudaDeviceReset are to be looked up again.
  std::atomic<uint64_t> generation{1};
  DriverFunctions legacy;      // default stream: the legacy one
  DriverFunctions per_thread;  // default stream: the calling thread's own
};

extern constinit State state;  // trivially destructible: usable at any time
extern constinit thread_local Thread* current_thread;

Thread& NewThread();
inline Thread& ThisThread() {
  Thread* thread = current_thread;
  return thread ? *thread : NewThread();
}

// The driver's functions. Only after Initialize succeeded; may lack functions that are newer than the driver.
inline const DriverFunctions& Driver() { return ThisThread().per_thread_stream ? state.per_thread : state.legacy; }

// Calls one of them.
template <class... Arguments>
cudaError_t Call(CUresult (*function)(Arguments...), std::type_identity_t<Arguments>... arguments) {
  if (!function) return cudaErrorCallRequiresNewerDriver;
  CUresult result = function(arguments...);
  return result == CUDA_SUCCESS ? cudaSuccess : FromDriver(result);
}

#define TF_RETURN_IF_ERROR(expression)                                                 \
  do {                                                                                 \
    if (cudaError_t tf_error = (expression); tf_error != cudaSuccess) return tf_error; \
  } while (false)

// Loads and initialises the driver; cheap when that is done. cudaErrorInsufficientDriver: there is none, or it is older
// than this runtime; cudaErrorNoDevice and others: what the driver says.
cudaError_t InitializeSlowly();
inline cudaError_t Initialize() {
  return state.ready.load(std::memory_order_acquire) ? cudaSuccess : InitializeSlowly();
}

// The driver's version without initialising it; 0 when there is no driver.
int DriverVersion();

// Makes sure that a context is current: the one that the program set through the driver, else the primary context of
// the thread's device.
cudaError_t NeedContextSlowly();
inline cudaError_t NeedContext() {
  Thread& thread = ThisThread();
  if (thread.bound_generation == state.generation.load(std::memory_order_relaxed)) {
    CUcontext context = nullptr;
    if (state.legacy.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context) return cudaSuccess;
  }
  return NeedContextSlowly();
}

// The device of the context that is current or would be made so.
cudaError_t CurrentDevice(int* device);

// The primary context of a device, retained by the runtime until the device is reset. Checks the number.
cudaError_t PrimaryContext(int device, CUcontext* context);

// Makes a device the thread's own, its primary context current.
cudaError_t UseDevice(int device);

// Destroys the primary context of a device.
cudaError_t ResetDevice(int device);

// cudaErrorInvalidDevice unless the driver has a device of that number.
cudaError_t CheckDevice(int device);

// cudaErrorNotSupported, kept as the thread's last error; logs one line for each name.
cudaError_t NotSupported(const char* function);

// While it lives, the thread's default stream is its own. For the functions with the suffixes _ptds and _ptsz.
class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream() : thread_(ThisThread()) { thread_.per_thread_stream = true; }
  ~PerThreadDefaultStream() { thread_.per_thread_stream = false; }
  PerThreadDefaultStream(const PerThreadDefaultStream&) = delete;

 private:
  Thread& thread_;
};

// Every exported function runs inside one of these: they keep the thread's last error. Early: the driver is not needed.
template <class Body>
cudaError_t Early(const char*, Body&& body) {
  cudaError_t error = body();
  if (error != cudaSuccess) [[unlikely]]
    ThisThread().last_error = error;
  return error;
}

template <class Body>
cudaError_t Enter(const char* name, Body&& body) {
  return Early(name, [&] {
    cudaError_t error = Initialize();
    return error == cudaSuccess ? body() : error;
  });
}

}  // namespace tf::cuda::runtime
