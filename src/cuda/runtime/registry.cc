#include "cuda/runtime/registry.h"

#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace tf::cuda::runtime {
namespace {

struct Variable {
  Image* image;
  const char* name;
  size_t size;
  bool managed;
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels;
  std::unordered_map<const void*, Variable> variables;
  std::unordered_map<CUlibrary, std::unique_ptr<Image>> adopted;
};

// Programs register before main and unregister after it.
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

// With the registry's mutex held exclusively.
void EraseKernels(Registry& all, Image* image) {
  std::erase_if(all.kernels, [image](const auto& entry) { return entry.second->image == image; });
  registry_generation.fetch_add(1, std::memory_order_release);
}

}  // namespace

constinit std::atomic<uint64_t> registry_generation{1};

cudaError_t Image::Library(CUlibrary* library) {
  *library = loaded();
  if (*library) return cudaSuccess;
  std::lock_guard lock(mutex_);
  *library = loaded();
  if (*library) return cudaSuccess;
  TF_RETURN_IF_ERROR(Call(state.legacy.cuLibraryLoadData, library, code_, nullptr, nullptr, 0, nullptr, nullptr, 0));
  library_.store(*library, std::memory_order_release);
  return cudaSuccess;
}

cudaError_t Kernel::ResolveSlowly(CUkernel* kernel) {
  CUlibrary library;
  TF_RETURN_IF_ERROR(image->Library(&library));
  cudaError_t error = Call(state.legacy.cuLibraryGetKernel, kernel, library, name);
  if (error == cudaErrorSymbolNotFound) return cudaErrorInvalidDeviceFunction;
  TF_RETURN_IF_ERROR(error);
  handle.store(*kernel, std::memory_order_release);
  return cudaSuccess;
}

Image* RegisterImage(const void* code) { return new Image(code); }

void UnregisterImage(Image* image) {
  // In the child of a fork there is no driver to tell and no lock to trust.
  if (!image || state.forked.load(std::memory_order_relaxed)) return;
  {
    Registry& all = registry();
    std::lock_guard lock(all.mutex);
    EraseKernels(all, image);
    std::erase_if(all.variables, [image](const auto& entry) { return entry.second.image == image; });
  }
  // The driver may have ended before: then it says so, and that is fine.
  if (CUlibrary library = image->loaded()) (void)Call(state.legacy.cuLibraryUnload, library);
  delete image;
}

void RegisterKernel(Image* image, const void* function, const char* name) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  // Two shared objects may share the stub of one template: the first one stands.
  auto [entry, added] = all.kernels.try_emplace(function);
  if (added) entry->second.reset(new Kernel{image, name});
}

void RegisterVariable(Image* image, const void* variable, const char* name, size_t size, bool managed) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.variables.try_emplace(variable, Variable{image, name, size, managed});
}

Kernel* FindKernelSlowly(const void* function) {
  // In the child of a fork the lock may be held for ever; whoever asks finds out next that nothing works there.
  if (state.forked.load(std::memory_order_relaxed)) return nullptr;
  Registry& all = registry();
  std::shared_lock lock(all.mutex);
  auto found = all.kernels.find(function);
  return found == all.kernels.end() ? nullptr : found->second.get();
}

cudaError_t ResolveKernel(const void* function, CUkernel* kernel) {
  Kernel* found = FindKernel(ThisThread(), function);
  return found ? found->Resolve(kernel) : cudaErrorInvalidDeviceFunction;
}

void AdoptKernel(CUlibrary library, CUkernel kernel) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  auto& image = all.adopted[library];
  if (!image) image = std::make_unique<Image>(library);
  auto [entry, added] = all.kernels.try_emplace(kernel);
  if (added) entry->second.reset(new Kernel{image.get(), nullptr, kernel});
}

void ForgetLibrary(CUlibrary library) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  auto found = all.adopted.find(library);
  if (found == all.adopted.end()) return;
  EraseKernels(all, found->second.get());
  all.adopted.erase(found);
}

cudaError_t FindVariable(const void* variable, CUdeviceptr* address, size_t* size) {
  Variable found;
  {
    Registry& all = registry();
    std::shared_lock lock(all.mutex);
    auto entry = all.variables.find(variable);
    if (entry == all.variables.end()) return cudaErrorInvalidSymbol;
    found = entry->second;
  }
  if (found.managed) return NotSupported("a __managed__ variable");
  CUlibrary library;
  TF_RETURN_IF_ERROR(found.image->Library(&library));
  cudaError_t error = Call(state.legacy.cuLibraryGetGlobal, address, size, library, found.name);
  return error == cudaErrorSymbolNotFound ? cudaErrorInvalidSymbol : error;
}

bool HasManagedVariables(Image* image) {
  Registry& all = registry();
  std::shared_lock lock(all.mutex);
  for (const auto& [address, variable] : all.variables) {
    if (variable.image == image && variable.managed) return true;
  }
  return false;
}

}  // namespace tf::cuda::runtime
