// Functions, their attributes, and launches.
#include <algorithm>
#include <cstring>

#include "cuda/driver/state.h"
#include "cuda/driver_api.h"

namespace tf::cuda::driver {
namespace {

// Of the bytes that a launch carries: what fits here needs no allocation.
constexpr uint32_t kInlineParameters = 4096;

uint64_t Product(uint32_t x, uint32_t y, uint32_t z) { return uint64_t{x} * y * z; }

CUresult CheckShape(const Function& function, const Device& device, const LaunchShape& shape) {
  const Dim3 &grid = shape.grid, &block = shape.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto over = [&](uint32_t value, CUdevice_attribute limit) {
    return value > static_cast<uint32_t>(device.attribute(limit));
  };
  if (over(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) || over(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
      over(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) || over(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
      over(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) || over(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t threads = Product(block.x, block.y, block.z);
  if (threads > static_cast<uint64_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (function.max_threads != 0 && threads > static_cast<uint64_t>(function.max_threads)) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  int registers = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  if (registers != 0 && threads * static_cast<uint64_t>(function.registers) > static_cast<uint64_t>(registers)) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  if (shape.dynamic_shared > static_cast<uint32_t>(function.max_dynamic_shared.load(std::memory_order_relaxed))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// The one buffer of the `extra` form.
CUresult ReadExtra(void** extra, const void** buffer, size_t* size) {
  *buffer = nullptr;
  size_t* given = nullptr;
  for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (i >= 8) return CUDA_ERROR_INVALID_VALUE;
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      *buffer = extra[i + 1];
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      given = static_cast<size_t*>(extra[i + 1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (*buffer == nullptr || given == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *size = *given;
  return CUDA_SUCCESS;
}

CUresult Gather(const Function& function, void** arguments, void** extra, std::byte* out) {
  if (function.parameter_bytes == 0) return CUDA_SUCCESS;
  if (extra != nullptr) {
    const void* buffer;
    size_t size;
    TF_TRY(ReadExtra(extra, &buffer, &size));
    if (size < function.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(out, buffer, function.parameter_bytes);
    return CUDA_SUCCESS;
  }
  if (arguments == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint32_t written = 0;
  const std::vector<ParameterFacts>& parameters = function.facts->parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (arguments[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const ParameterFacts& parameter = parameters[i];
    if (parameter.offset > written) std::memset(out + written, 0, parameter.offset - written);
    std::memcpy(out + parameter.offset, arguments[i], parameter.size);
    written = std::max(written, parameter.offset + parameter.size);
  }
  return CUDA_SUCCESS;
}

CUresult Launch(CUfunction handle, const LaunchShape& shape, CUstream stream_handle, void** arguments, void** extra) {
  Function* function;
  TF_TRY(FunctionOf(handle, &function));
  StreamRef stream;
  TF_TRY(Resolve(stream_handle, &stream));
  if (function->context != stream.context) return CUDA_ERROR_INVALID_HANDLE;
  if (arguments != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  TF_TRY(CheckShape(*function, *g.devices[stream.context->device], shape));
  alignas(16) std::byte inline_bytes[kInlineParameters];
  std::unique_ptr<std::byte[]> large;
  std::byte* bytes = inline_bytes;
  if (function->parameter_bytes > kInlineParameters) {
    large.reset(new std::byte[function->parameter_bytes]);
    bytes = large.get();
  }
  TF_TRY(Gather(*function, arguments, extra, bytes));
  return Queued(stream, g.backend->Launch(stream.context->id, stream.id, function->module_id, function->index, shape,
                                          std::span<const std::byte>(bytes, function->parameter_bytes)));
}

// A function's context may be any.
CUresult UsableFunction(CUfunction handle, Function** function) {
  TF_TRY(FunctionOf(handle, function));
  return static_cast<CUresult>((*function)->context->error.load());
}

}  // namespace

CUresult CheckAttribute(CUfunction_attribute attribute, int value, int static_shared, const Device& device) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      int limit = std::max(device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                           device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
      return value < 0 || value > limit - static_shared ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return value < -1 || value > 100 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return value != 0 && value != 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SetAttribute(Function& function, CUfunction_attribute attribute, int value) {
  Context& context = *function.context;
  TF_TRY(CheckAttribute(attribute, value, function.static_shared, *g.devices[context.device]));
  TF_TRY(Checked(context,
                 g.backend->KernelSetAttribute(context.id, function.module_id, function.index, attribute, value)));
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      function.max_dynamic_shared.store(value);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      function.carveout.store(value);
      break;
    default:
      function.non_portable_cluster.store(value);
      break;
  }
  return CUDA_SUCCESS;
}

namespace api {

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  Function* function;
  TF_TRY(UsableFunction(hfunc, &function));
  if (attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  switch (attrib) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *pi = function->max_dynamic_shared.load();
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *pi = function->carveout.load();
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *pi = function->non_portable_cluster.load();
      break;
    default: {
      const std::vector<int32_t>& attributes = function->facts->attributes;
      *pi = static_cast<size_t>(attrib) < attributes.size() ? attributes[attrib] : 0;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  Function* function;
  TF_TRY(UsableFunction(hfunc, &function));
  return SetAttribute(*function, attrib, value);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  Function* function;
  TF_TRY(UsableFunction(hfunc, &function));
  bool valid = config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;  // a preference, and it is the card's to follow
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  Function* function;
  TF_TRY(UsableFunction(hfunc, &function));
  bool valid = config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE && config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  Function* function;
  TF_TRY(UsableFunction(hfunc, &function));
  *hmod = function->module;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
  Function* function;
  TF_TRY(UsableFunction(hfunc, &function));
  *name = function->facts->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  Function* function;
  TF_TRY(UsableFunction(func, &function));
  const std::vector<ParameterFacts>& parameters = function->facts->parameters;
  if (paramIndex >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *paramOffset = parameters[paramIndex].offset;
  if (paramSize != nullptr) *paramSize = parameters[paramIndex].size;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamCount(CUfunction func, size_t* paramCount) {
  Function* function;
  TF_TRY(UsableFunction(func, &function));
  *paramCount = function->facts->parameters.size();
  return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction func) {
  Function* function;
  TF_TRY(UsableFunction(func, &function));
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction func) {
  Function* function;
  return UsableFunction(func, &function);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
  LaunchShape shape;
  shape.grid = {gridDimX, gridDimY, gridDimZ};
  shape.block = {blockDimX, blockDimY, blockDimZ};
  shape.dynamic_shared = sharedMemBytes;
  return Launch(f, shape, hStream, kernelParams, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  LaunchShape shape;
  shape.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  shape.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  shape.dynamic_shared = config->sharedMemBytes;
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttributeValue& value = config->attrs[i].value;
    switch (config->attrs[i].id) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
        break;
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        shape.priority = static_cast<uint32_t>(value.priority);
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        if (value.cooperative != 0) return Unsupported("cuLaunchKernelEx with a cooperative launch");
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        // 0 means unset, and clusters of one block are no clusters.
        if (Product(std::max(1u, value.clusterDim.x), std::max(1u, value.clusterDim.y),
                    std::max(1u, value.clusterDim.z)) != 1) {
          return Unsupported("cuLaunchKernelEx with clusters");
        }
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        if (value.programmaticStreamSerializationAllowed != 0) {
          return Unsupported("cuLaunchKernelEx with programmatic stream serialization");
        }
        break;
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        if (value.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT) {
          return Unsupported("cuLaunchKernelEx with a memory synchronization domain");
        }
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        break;  // preferences
      default:
        return Unsupported("a launch attribute of cuLaunchKernelEx");
    }
  }
  return Launch(f, shape, config->hStream, kernelParams, extra);
}

}  // namespace api
}  // namespace tf::cuda::driver
