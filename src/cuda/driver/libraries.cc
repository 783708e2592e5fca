// Libraries and kernels: images that belong to no context. Each context gets a module of its own on first use.
#include <algorithm>

#include "cuda/driver/jit_options.h"
#include "cuda/driver/state.h"
#include "cuda/driver_api.h"
#include "cuda/fatbin.h"

namespace tf::cuda::driver {
namespace {

CUresult LibraryOf(CUlibrary handle, Library** library) {
  *library = g.libraries.Find(handle);
  return *library == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult KernelOf(CUkernel handle, Kernel** kernel, Library** library) {
  *kernel = g.kernels.Find(handle);
  if (*kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return LibraryOf((*kernel)->library, library);
}

// Names and attributes, from any context. The library's mutex is not held.
CUresult Facts(Library& library) {
  {
    std::lock_guard lock(library.mutex);
    if (library.facts) return CUDA_SUCCESS;
  }
  Context* context;
  if (Current(&context) == CUDA_SUCCESS) {
    Module* module;
    return LibraryModule(library, *context, &module);
  }
  // No context: look at the image in one that nobody sees.
  AnyContext any(0);
  TF_TRY(any.result());
  ModuleFacts facts;
  uint64_t module = g.Number();
  TF_TRY(g.backend->ModuleLoad(any.id(), module, library.image, &facts));
  g.backend->ModuleUnload(any.id(), module);
  std::lock_guard lock(library.mutex);
  if (!library.facts) library.facts = std::move(facts);
  return CUDA_SUCCESS;
}

// The library's mutex is held and its facts are known.
CUresult KernelAt(Library& library, uint32_t index, CUkernel* out) {
  const std::string& name = library.facts->kernels[index].name;
  auto found = library.kernels.find(name);
  if (found == library.kernels.end()) {
    auto kernel = std::make_unique<Kernel>();
    kernel->library = library.handle;
    kernel->index = index;
    kernel->name = name;
    kernel->function.reset(new std::atomic<CUfunction>[g.devices.size()] {});
    CUkernel handle = g.kernels.Add(nullptr);
    if (handle == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    kernel->handle = handle;
    g.kernels.Set(handle, kernel.release());
    found = library.kernels.emplace(name, handle).first;
  }
  *out = found->second;
  return CUDA_SUCCESS;
}

CUresult FunctionIn(Kernel& kernel, Context& context, CUfunction* out) {
  std::atomic<CUfunction>& hint = kernel.function[context.device];
  CUfunction cached = hint.load(std::memory_order_acquire);
  if (Function* function = g.functions.Find(cached); function != nullptr && function->context == &context) {
    *out = cached;
    return CUDA_SUCCESS;
  }
  Library* library;
  TF_TRY(LibraryOf(kernel.library, &library));
  Module* module;
  TF_TRY(LibraryModule(*library, context, &module));
  auto found = module->kernels.find(kernel.name);
  if (found == module->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  TF_TRY(ModuleFunction(*module, found->second, out));
  hint.store(*out, std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult Make(CUlibrary* out, std::string storage, const void* image, const JitOptions& jit) {
  auto library = std::make_unique<Library>();
  library->storage = std::move(storage);
  library->image = library->storage.empty()
                       ? *fatbin::TrustedImage(image)
                       : std::as_bytes(std::span(library->storage.data(), library->storage.size()));
  CUlibrary handle = g.libraries.Add(nullptr);
  if (handle == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  library->handle = handle;
  // Where there is a context the image is tried at once, so that its errors come out here.
  Context* context;
  CUresult result = CUDA_SUCCESS;
  std::string log;
  if (Current(&context) == CUDA_SUCCESS) {
    Module* module;
    result = LoadModule(*context, library->image, handle, &module, &log);
    if (result == CUDA_SUCCESS) {
      library->modules[context->id] = module->handle;
      library->facts = module->facts;
    }
  }
  jit.WriteLogs(result, log);
  if (result != CUDA_SUCCESS) {
    g.libraries.Remove(handle);
    return result;
  }
  g.libraries.Set(handle, library.release());
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult ReadLibraryOptions(CUlibraryOption* options, void** values, unsigned int count, bool* preserved) {
  *preserved = false;
  if (count != 0 && options == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE:
        break;
      case CU_LIBRARY_BINARY_IS_PRESERVED:
        // The value is ignored, says the manual: the option's presence decides.
        *preserved = true;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  (void)values;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult LibraryModule(Library& library, Context& context, Module** out) {
  // Held during the load: a second thread waits and finds the module.
  std::lock_guard lock(library.mutex);
  auto found = library.modules.find(context.id);
  if (found != library.modules.end()) {
    *out = g.modules.Find(found->second);
    if (*out != nullptr) return CUDA_SUCCESS;
  }
  std::string log;
  TF_TRY(LoadModule(context, library.image, library.handle, out, &log));
  Module& module = **out;
  library.modules[context.id] = module.handle;
  if (!library.facts) library.facts = module.facts;
  for (const Library::Setting& setting : library.settings) {
    if (setting.device != context.device) continue;
    CUfunction handle;
    if (ModuleFunction(module, setting.kernel, &handle) == CUDA_SUCCESS) {
      (void)SetAttribute(*g.functions.Find(handle), setting.attribute, setting.value);
    }
  }
  return CUDA_SUCCESS;
}

CUresult FunctionOf(CUfunction handle, Function** function) {
  if (KindOf(handle) == HandleKind::kKernel) {
    Kernel* kernel = g.kernels.Find(reinterpret_cast<CUkernel>(handle));
    if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Context* context;
    TF_TRY(Current(&context));
    TF_TRY(FunctionIn(*kernel, *context, &handle));
  }
  *function = g.functions.Find(handle);
  return *function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

namespace api {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
  if (code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  JitOptions jit;
  TF_TRY(jit.Read(numJitOptions, jitOptions, jitOptionsValues));
  bool preserved;
  TF_TRY(ReadLibraryOptions(libraryOptions, libraryOptionValues, numLibraryOptions, &preserved));
  absl::StatusOr<std::span<const std::byte>> image = fatbin::TrustedImage(code);
  if (!image.ok()) {
    jit.WriteLogs(CUDA_ERROR_INVALID_IMAGE, std::string(image.status().message()));
    return CUDA_ERROR_INVALID_IMAGE;
  }
  std::string storage;
  if (!preserved) storage.assign(reinterpret_cast<const char*>(image->data()), image->size());
  return Make(library, std::move(storage), code, jit);
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                               void** jitOptionsValues, unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                               void** libraryOptionValues, unsigned int numLibraryOptions) {
  JitOptions jit;
  TF_TRY(jit.Read(numJitOptions, jitOptions, jitOptionsValues));
  bool preserved;
  TF_TRY(ReadLibraryOptions(libraryOptions, libraryOptionValues, numLibraryOptions, &preserved));
  std::string storage;
  TF_TRY(ReadImageFile(fileName, &storage));
  return Make(library, std::move(storage), nullptr, jit);
}

CUresult cuLibraryUnload(CUlibrary library) {
  Library* removed = g.libraries.Remove(library);
  if (removed == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::map<uint64_t, CUmodule> modules;
  std::map<std::string, CUkernel, std::less<>> kernels;
  {
    std::lock_guard lock(removed->mutex);
    modules.swap(removed->modules);
    kernels.swap(removed->kernels);
  }
  for (auto& [name, kernel] : kernels) RetireObject(g.kernels.Remove(kernel));
  CUresult result = CUDA_SUCCESS;
  for (auto& [context, module] : modules) {
    // A module whose context went away meanwhile is no failure.
    CUresult unloaded = UnloadModule(module);
    if (unloaded != CUDA_SUCCESS && unloaded != CUDA_ERROR_INVALID_HANDLE) result = unloaded;
  }
  RetireObject(removed);
  return result;
}

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  Library* found;
  TF_TRY(LibraryOf(library, &found));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  TF_TRY(Facts(*found));
  std::lock_guard lock(found->mutex);
  auto known = found->kernels.find(std::string_view(name));
  if (known != found->kernels.end()) {
    *pKernel = known->second;
    return CUDA_SUCCESS;
  }
  for (uint32_t i = 0; i < found->facts->kernels.size(); ++i) {
    if (found->facts->kernels[i].name == name) return KernelAt(*found, i, pKernel);
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
  Library* library;
  TF_TRY(LibraryOf(lib, &library));
  TF_TRY(Facts(*library));
  std::lock_guard lock(library->mutex);
  *count = static_cast<unsigned int>(library->facts->kernels.size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
  Library* library;
  TF_TRY(LibraryOf(lib, &library));
  if (kernels == nullptr || numKernels == 0) return CUDA_ERROR_INVALID_VALUE;
  TF_TRY(Facts(*library));
  std::lock_guard lock(library->mutex);
  uint32_t count = std::min<uint32_t>(numKernels, library->facts->kernels.size());
  for (uint32_t i = 0; i < count; ++i) TF_TRY(KernelAt(*library, i, &kernels[i]));
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  Library* found;
  TF_TRY(LibraryOf(library, &found));
  Context* context;
  TF_TRY(Current(&context));
  Module* module;
  TF_TRY(LibraryModule(*found, *context, &module));
  *pMod = module->handle;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  Kernel* found;
  Library* library;
  TF_TRY(KernelOf(kernel, &found, &library));
  Context* context;
  TF_TRY(Current(&context));
  return FunctionIn(*found, *context, pFunc);
}

CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  Kernel* found;
  Library* library;
  TF_TRY(KernelOf(kernel, &found, &library));
  *pLib = found->library;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  CUmodule module;
  if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  TF_TRY(cuLibraryGetModule(&module, library));
  return cuModuleGetGlobal_v2(dptr, bytes, module, name);
}

CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  Kernel* found;
  Library* library;
  TF_TRY(KernelOf(kernel, &found, &library));
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  if (attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(library->mutex);
  for (auto setting = library->settings.rbegin(); setting != library->settings.rend(); ++setting) {
    if (setting->kernel == found->index && setting->device == dev && setting->attribute == attrib) {
      *pi = setting->value;
      return CUDA_SUCCESS;
    }
  }
  const KernelFacts& facts = library->facts->kernels[found->index];
  *pi = static_cast<size_t>(attrib) < facts.attributes.size() ? facts.attributes[attrib] : 0;
  if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && *pi == 0) {
    int used = facts.attributes.size() > CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
                   ? facts.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]
                   : 0;
    *pi = std::max(0, device->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) - used);
  }
  return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  Kernel* found;
  Library* library;
  TF_TRY(KernelOf(kernel, &found, &library));
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  std::vector<CUmodule> modules;
  {
    std::lock_guard lock(library->mutex);
    const KernelFacts& facts = library->facts->kernels[found->index];
    int used = facts.attributes.size() > CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
                   ? facts.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]
                   : 0;
    TF_TRY(CheckAttribute(attrib, val, used, *device));
    library->settings.push_back({found->index, dev, attrib, val});
    for (auto& [context, module] : library->modules) modules.push_back(module);
  }
  for (CUmodule handle : modules) {
    Module* module = g.modules.Find(handle);
    if (module == nullptr || module->context->device != dev) continue;
    CUfunction function;
    TF_TRY(ModuleFunction(*module, found->index, &function));
    if (Function* object = g.functions.Find(function)) TF_TRY(SetAttribute(*object, attrib, val));
  }
  return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  Kernel* found;
  Library* library;
  TF_TRY(KernelOf(kernel, &found, &library));
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  bool valid = config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;  // a preference, and it is the card's to follow
}

CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
  Kernel* kernel;
  Library* library;
  TF_TRY(KernelOf(hfunc, &kernel, &library));
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  Kernel* found;
  Library* library;
  TF_TRY(KernelOf(kernel, &found, &library));
  std::lock_guard lock(library->mutex);
  const std::vector<ParameterFacts>& parameters = library->facts->kernels[found->index].parameters;
  if (paramIndex >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *paramOffset = parameters[paramIndex].offset;
  if (paramSize != nullptr) *paramSize = parameters[paramIndex].size;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t* paramCount) {
  Kernel* found;
  Library* library;
  TF_TRY(KernelOf(kernel, &found, &library));
  std::lock_guard lock(library->mutex);
  *paramCount = library->facts->kernels[found->index].parameters.size();
  return CUDA_SUCCESS;
}

}  // namespace api
}  // namespace tf::cuda::driver
