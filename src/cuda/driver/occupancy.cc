// How many blocks of a function fit on a multiprocessor, from the card's limits and the function's needs.
#include <algorithm>
#include <climits>

#include "cuda/driver/state.h"
#include "cuda/driver_api.h"

namespace tf::cuda::driver {
namespace {

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// What is allocated at a time, as NVIDIA's occupancy calculator has it for compute capability 7.0 and later.
constexpr int64_t kWarp = 32, kRegistersUnit = 256, kSchedulers = 4;

struct Limits {
  int64_t threads, blocks, registers, registers_per_block, shared, reserved_shared, shared_unit;

  explicit Limits(const Device& device) {
    threads = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    blocks = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    registers = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    registers_per_block = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    shared = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    reserved_shared = device.attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    shared_unit = device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 8 ? 128 : 256;
  }
};

int64_t ActiveBlocks(const Function& function, const Device& device, int64_t block, uint64_t dynamic_shared) {
  Limits limits(device);
  if (block > device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)) return 0;
  if (function.max_threads != 0 && block > function.max_threads) return 0;
  if (dynamic_shared > static_cast<uint64_t>(std::max(0, function.max_dynamic_shared.load()))) return 0;
  int64_t warps = (block + kWarp - 1) / kWarp;
  int64_t result = limits.blocks != 0 ? limits.blocks : INT_MAX;
  result = std::min(result, limits.threads / kWarp / warps);
  if (function.registers > 0 && limits.registers > 0) {
    int64_t per_warp = RoundUp(function.registers * kWarp, kRegistersUnit);
    if (limits.registers_per_block != 0 && per_warp * RoundUp(warps, kSchedulers) > limits.registers_per_block) {
      return 0;
    }
    // Registers belong to the schedulers, which take turns with the warps.
    int64_t warps_that_fit = limits.registers / kSchedulers / per_warp * kSchedulers;
    result = std::min(result, warps_that_fit / warps);
  }
  int64_t shared = function.static_shared + static_cast<int64_t>(dynamic_shared);
  int64_t needed = shared == 0 ? 0 : RoundUp(shared + limits.reserved_shared, limits.shared_unit);
  if (needed == 0) needed = limits.reserved_shared;
  if (needed > 0 && limits.shared > 0) result = std::min(result, limits.shared / needed);
  return std::max<int64_t>(result, 0);
}

CUresult Prepare(CUfunction handle, unsigned int flags, Function** function, Device** device) {
  if ((flags & ~static_cast<unsigned int>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) != 0) return CUDA_ERROR_INVALID_VALUE;
  TF_TRY(FunctionOf(handle, function));
  *device = g.devices[(*function)->context->device].get();
  return static_cast<CUresult>((*function)->context->error.load());
}

}  // namespace

namespace api {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
  Function* function;
  Device* device;
  TF_TRY(Prepare(func, flags, &function, &device));
  if (blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
  *numBlocks = static_cast<int>(ActiveBlocks(*function, *device, blockSize, dynamicSMemSize));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                          int blockSizeLimit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                                                   dynamicSMemSize, blockSizeLimit, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags) {
  Function* function;
  Device* device;
  TF_TRY(Prepare(func, flags, &function, &device));
  int largest = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (function->max_threads != 0) largest = std::min(largest, function->max_threads);
  if (blockSizeLimit > 0) largest = std::min(largest, blockSizeLimit);
  int64_t best_threads = 0, best_blocks = 0;
  int best = 0;
  // From large to small: of equal occupancies the largest block.
  for (int64_t size = RoundUp(largest, kWarp); size > 0; size -= kWarp) {
    int block = static_cast<int>(std::min<int64_t>(size, largest));
    size_t shared = blockSizeToDynamicSMemSize != nullptr ? blockSizeToDynamicSMemSize(block) : dynamicSMemSize;
    int64_t blocks = ActiveBlocks(*function, *device, block, shared);
    if (blocks * block > best_threads) {
      best_threads = blocks * block;
      best_blocks = blocks;
      best = block;
    }
    if (best_threads == device->attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)) break;
  }
  *blockSize = best;
  *minGridSize = static_cast<int>(best_blocks * device->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                 int blockSize) {
  Function* function;
  Device* device;
  TF_TRY(Prepare(func, 0, &function, &device));
  if (numBlocks <= 0 || blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (ActiveBlocks(*function, *device, blockSize, 0) < numBlocks) return CUDA_ERROR_INVALID_VALUE;
  Limits limits(*device);
  int64_t each = limits.shared / numBlocks / limits.shared_unit * limits.shared_unit - limits.reserved_shared;
  int64_t opt_in = std::max(device->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                            device->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  *dynamicSmemSize = static_cast<size_t>(std::max<int64_t>(0, std::min(each, opt_in) - function->static_shared));
  return CUDA_SUCCESS;
}

}  // namespace api
}  // namespace tf::cuda::driver
