// What compilers register at program start: images (fatbins), kernels by the address of their host stub, variables by
// the address of their host shadow. Nothing is loaded before the first use of an image; loading goes through the
// driver's libraries (cuLibraryLoadData), which are independent of contexts, so a handle survives cudaDeviceReset.
//
// Thread-safe. A kernel or an image lives until its program or shared object unregisters it.
#pragma once

#include <atomic>
#include <mutex>

#include "cuda/runtime/state.h"

namespace tf::cuda::runtime {

class Image {
 public:
  explicit Image(const void* code) : code_(code) {}
  // An image that the program loaded itself (cudaLibraryLoadData).
  explicit Image(CUlibrary library) : code_(nullptr), library_(library) {}

  // Loads the image at the first call.
  cudaError_t Library(CUlibrary* library);
  CUlibrary loaded() const { return library_.load(std::memory_order_acquire); }

 private:
  const void* const code_;
  std::mutex mutex_;
  std::atomic<CUlibrary> library_{nullptr};
};

struct Kernel {
  Image* image;
  const char* name;  // in the image of the program
  std::atomic<CUkernel> handle{nullptr};

  // Loads the image and looks the kernel up at the first call. cudaErrorInvalidDeviceFunction: the image lacks it.
  cudaError_t Resolve(CUkernel* kernel) {
    *kernel = handle.load(std::memory_order_acquire);
    return *kernel ? cudaSuccess : ResolveSlowly(kernel);
  }
  cudaError_t ResolveSlowly(CUkernel* kernel);
};

// Registration, as the compilers call it. `image` is what RegisterImage returned.
Image* RegisterImage(const void* code);
void UnregisterImage(Image* image);
void RegisterKernel(Image* image, const void* function, const char* name);
void RegisterVariable(Image* image, const void* variable, const char* name, size_t size, bool managed);

// The kernel of a host function, or one that was handed out by GetKernel or cudaLibraryGetKernel and is used in its
// place. null: none such.
Kernel* FindKernelSlowly(const void* function);
extern constinit std::atomic<uint64_t> registry_generation;  // grows when kernels go

inline Kernel* FindKernel(Thread& thread, const void* function) {
  size_t index = (reinterpret_cast<uintptr_t>(function) >> 4) & (Thread::kCachedKernels - 1);
  auto& cached = thread.kernels[index];
  uint64_t generation = registry_generation.load(std::memory_order_acquire);
  if (thread.kernel_generation != generation) [[unlikely]] {
    for (auto& entry : thread.kernels) entry = {};
    thread.kernel_generation = generation;
  }
  if (cached.function == function && function) [[likely]]
    return cached.kernel;
  Kernel* found = FindKernelSlowly(function);
  if (found) cached = {function, found};
  return found;
}

// The driver's kernel behind a host function.
cudaError_t ResolveKernel(const void* function, CUkernel* kernel);

// Lets a driver's kernel stand for a host function from now on, until its library goes.
void AdoptKernel(CUlibrary library, CUkernel kernel);
void ForgetLibrary(CUlibrary library);

// Address and size of a registered variable in the current context.
cudaError_t FindVariable(const void* variable, CUdeviceptr* address, size_t* size);

// True when the image has managed variables.
bool HasManagedVariables(Image* image);

}  // namespace tf::cuda::runtime
