// Modules and their functions; the loading that libraries use too.
#include <algorithm>
#include <fstream>

#include "cuda/driver/jit_options.h"
#include "cuda/driver/state.h"
#include "cuda/driver_api.h"
#include "cuda/fatbin.h"

namespace tf::cuda::driver {
namespace {

CUresult ModuleOf(CUmodule handle, Module** module) {
  *module = g.modules.Find(handle);
  if (*module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return static_cast<CUresult>((*module)->context->error.load());
}

// Address and size of a variable. Once asked for it is memory of the program like any other.
CUresult GlobalOf(Module& module, std::string_view name, std::pair<uint64_t, uint64_t>* global) {
  std::lock_guard lock(module.mutex);
  auto found = module.globals.find(name);
  if (found == module.globals.end()) {
    Context& context = *module.context;
    uint64_t address = 0, size = 0;
    TF_TRY(Checked(context, g.backend->ModuleGlobal(context.id, module.id, name, &address, &size)));
    found = module.globals.emplace(name, std::pair(address, size)).first;
    if (size != 0) {
      Allocation allocation;
      allocation.base = address;
      allocation.size = size;
      allocation.kind = MemoryKind::kVariable;
      allocation.device = context.device;
      allocation.context = context.handle;
      allocation.context_id = context.id;
      allocation.id = g.Number();
      g.allocations.Add(allocation);
    }
  }
  *global = found->second;
  return CUDA_SUCCESS;
}

// Loads an image of this process into the current context.
CUresult Load(CUmodule* out, const void* image, const JitOptions& options) {
  Context* context;
  TF_TRY(Current(&context));
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  absl::StatusOr<std::span<const std::byte>> bytes = fatbin::TrustedImage(image);
  if (!bytes.ok()) {
    options.WriteLogs(CUDA_ERROR_INVALID_IMAGE, std::string(bytes.status().message()));
    return CUDA_ERROR_INVALID_IMAGE;
  }
  Module* module;
  std::string log;
  CUresult result = LoadModule(*context, *bytes, nullptr, &module, &log);
  options.WriteLogs(result, log);
  if (result == CUDA_SUCCESS) *out = module->handle;
  return result;
}

}  // namespace

CUresult LoadModule(Context& context, std::span<const std::byte> image, CUlibrary library, Module** out,
                    std::string* log) {
  auto module = std::make_unique<Module>();
  module->context = &context;
  module->id = g.Number();
  module->library = library;
  CUresult result = Checked(context, g.backend->ModuleLoad(context.id, module->id, image, &module->facts));
  *log = std::move(module->facts.log);
  if (result != CUDA_SUCCESS) {
    if (log->empty() && result == CUDA_ERROR_NO_BINARY_FOR_GPU) *log = "the image has no code for this GPU";
    return result;
  }
  ModuleFacts& facts = module->facts;
  for (uint32_t i = 0; i < facts.kernels.size(); ++i) module->kernels.emplace(facts.kernels[i].name, i);
  module->functions.resize(facts.kernels.size());
  CUmodule handle = g.modules.Add(nullptr);
  if (handle == nullptr) {
    g.backend->ModuleUnload(context.id, module->id);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  module->handle = handle;
  {
    std::lock_guard lock(context.mutex);
    if (context.destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    context.modules.insert(handle);
  }
  *out = module.release();
  g.modules.Set(handle, *out);
  return CUDA_SUCCESS;
}

CUresult UnloadModule(CUmodule handle) {
  Module* module = g.modules.Remove(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Context& context = *module->context;
  {
    std::lock_guard lock(context.mutex);
    context.modules.erase(module->handle);
  }
  std::vector<CUfunction> functions;
  std::vector<uint64_t> variables;
  {
    std::lock_guard lock(module->mutex);
    functions.swap(module->functions);
    for (const auto& [name, global] : module->globals) variables.push_back(global.first);
  }
  for (CUfunction function : functions) {
    if (function != nullptr) RetireObject(g.functions.Remove(function));
  }
  g.allocations.RemoveVariables(variables);
  CUresult result = Checked(context, g.backend->ModuleUnload(context.id, module->id));
  RetireObject(module);
  return result;
}

CUresult ModuleFunction(Module& module, uint32_t index, CUfunction* out) {
  std::lock_guard lock(module.mutex);
  if (module.functions.size() != module.facts.kernels.size()) return CUDA_ERROR_INVALID_HANDLE;  // being unloaded
  if (module.functions[index] == nullptr) {
    auto function = std::make_unique<Function>();
    const KernelFacts& facts = module.facts.kernels[index];
    auto attribute = [&](CUfunction_attribute which) {
      return static_cast<size_t>(which) < facts.attributes.size() ? facts.attributes[which] : 0;
    };
    function->module = module.handle;
    function->context = module.context;
    function->module_id = module.id;
    function->index = index;
    function->facts = &facts;
    for (const ParameterFacts& parameter : facts.parameters) {
      function->parameter_bytes = std::max(function->parameter_bytes, parameter.offset + parameter.size);
    }
    function->max_threads = attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    function->static_shared = attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    function->registers = attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
    function->max_dynamic_shared.store(attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
    if (function->max_dynamic_shared.load() == 0) {
      // What a launch may ask for without having set the attribute.
      int block = g.devices[module.context->device]->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
      function->max_dynamic_shared.store(std::max(0, block - function->static_shared));
    }
    CUfunction handle = g.functions.Add(function.get());
    if (handle == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    function.release();
    module.functions[index] = handle;
  }
  *out = module.functions[index];
  return CUDA_SUCCESS;
}

CUresult ReadImageFile(const char* name, std::string* bytes) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(name, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) return CUDA_ERROR_FILE_NOT_FOUND;
  // A file that ends early must not make its own headers lead beyond the bytes that are there.
  auto span = std::as_bytes(std::span(bytes->data(), bytes->size()));
  switch (fatbin::Sniff(span)) {
    case fatbin::ImageKind::kPtx:
    case fatbin::ImageKind::kElf:
      return CUDA_SUCCESS;
    case fatbin::ImageKind::kFatbin:
      return fatbin::List(span).ok() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
    default:
      return CUDA_ERROR_INVALID_IMAGE;
  }
}

namespace api {

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
  Context* context;
  TF_TRY(Current(&context));
  std::string bytes;
  TF_TRY(ReadImageFile(fname, &bytes));
  Module* made;
  std::string log;
  TF_TRY(LoadModule(*context, std::as_bytes(std::span(bytes.data(), bytes.size())), nullptr, &made, &log));
  *module = made->handle;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) { return Load(module, image, JitOptions()); }

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions, CUjit_option* options,
                            void** optionValues) {
  JitOptions jit;
  TF_TRY(jit.Read(numOptions, options, optionValues));
  return Load(module, image, jit);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) { return Load(module, fatCubin, JitOptions()); }

CUresult cuModuleUnload(CUmodule hmod) {
  Module* module;
  TF_TRY(ModuleOf(hmod, &module));
  if (module->library != nullptr) return CUDA_ERROR_NOT_PERMITTED;
  return UnloadModule(hmod);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  Module* module;
  TF_TRY(ModuleOf(hmod, &module));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto found = module->kernels.find(name);
  if (found == module->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  return ModuleFunction(*module, found->second, hfunc);
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
  Module* module;
  TF_TRY(ModuleOf(mod, &module));
  *count = static_cast<unsigned int>(module->facts.kernels.size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
  Module* module;
  TF_TRY(ModuleOf(mod, &module));
  if (functions == nullptr || numFunctions == 0) return CUDA_ERROR_INVALID_VALUE;
  uint32_t count = std::min<uint32_t>(numFunctions, module->facts.kernels.size());
  for (uint32_t i = 0; i < count; ++i) TF_TRY(ModuleFunction(*module, i, &functions[i]));
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  Module* module;
  TF_TRY(ModuleOf(hmod, &module));
  if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::pair<uint64_t, uint64_t> global;
  TF_TRY(GlobalOf(*module, name, &global));
  if (dptr != nullptr) *dptr = global.first;
  if (bytes != nullptr) *bytes = global.second;
  return CUDA_SUCCESS;
}

}  // namespace api
}  // namespace tf::cuda::driver
