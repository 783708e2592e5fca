// The types that programs are compiled with (include/tensor_fusion) against those that libcudart.so.12 is compiled with
// (src/cuda): every layout and every number that both declare.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

namespace library {
#define TF_CUDART_MAJOR 12
#include "cuda/runtime_types.h"
}  // namespace library

namespace program {
#include "tensor_fusion/runtime_types.h"
}  // namespace program

namespace {

#define SAME_SIZE(type) static_assert(sizeof(program::type) == sizeof(library::type), #type)
#define SAME_PLACE(type, member) \
  static_assert(offsetof(program::type, member) == offsetof(library::type, member), #type "." #member)

SAME_SIZE(dim3);
SAME_SIZE(cudaDeviceProp);
SAME_PLACE(cudaDeviceProp, totalGlobalMem);
SAME_PLACE(cudaDeviceProp, clockRate);
SAME_PLACE(cudaDeviceProp, major);
SAME_PLACE(cudaDeviceProp, multiProcessorCount);
SAME_PLACE(cudaDeviceProp, maxTexture3DAlt);
SAME_PLACE(cudaDeviceProp, surfaceAlignment);
SAME_PLACE(cudaDeviceProp, pciBusID);
SAME_PLACE(cudaDeviceProp, memoryClockRate);
SAME_PLACE(cudaDeviceProp, sharedMemPerMultiprocessor);
SAME_PLACE(cudaDeviceProp, cooperativeLaunch);
SAME_PLACE(cudaDeviceProp, sharedMemPerBlockOptin);
SAME_PLACE(cudaDeviceProp, reservedSharedMemPerBlock);
SAME_PLACE(cudaDeviceProp, unifiedFunctionPointers);
SAME_SIZE(cudaFuncAttributes);
SAME_PLACE(cudaFuncAttributes, maxDynamicSharedSizeBytes);
SAME_SIZE(cudaPointerAttributes);
SAME_PLACE(cudaPointerAttributes, hostPointer);
SAME_SIZE(cudaMemcpy3DParms);
SAME_PLACE(cudaMemcpy3DParms, kind);
SAME_SIZE(cudaMemPoolProps);
SAME_PLACE(cudaMemPoolProps, maxSize);
SAME_SIZE(cudaMemAccessDesc);
SAME_SIZE(cudaLaunchAttribute);
SAME_SIZE(cudaLaunchConfig_t);
SAME_PLACE(cudaLaunchConfig_t, numAttrs);

// The enumerators of a header: name to number, as they are written.
std::map<std::string, long> Enumerators(const std::string& path) {
  std::ifstream file(TF_SOURCE_DIR "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  const std::regex enumerator(R"(\b(cuda\w+|CU_\w+) = (-?\d+|0x[0-9a-fA-F]+)\b)");
  std::map<std::string, long> found;
  for (std::sregex_iterator it(content.begin(), content.end(), enumerator), end; it != end; ++it) {
    found[(*it)[1]] = std::stol((*it)[2], nullptr, 0);
  }
  return found;
}

TEST(PublicTypes, NumbersAreThoseOfTheLibrary) {
  const std::map<std::string, long> program = Enumerators("include/tensor_fusion/runtime_types.h");
  const std::map<std::string, long> library = Enumerators("src/cuda/runtime_types.h");
  int compared = 0;
  for (const auto& [name, number] : program) {
    const auto found = library.find(name);
    if (found == library.end()) continue;
    EXPECT_EQ(number, found->second) << name;
    ++compared;
  }
  EXPECT_GT(compared, 130) << "the headers have no longer the form that this test reads";
}

// The runtime's attributes have the driver's numbers; a few of each kind, by both names.
TEST(PublicTypes, AttributesAreThoseOfTheDriver) {
  EXPECT_EQ(int{program::cudaDevAttrMultiProcessorCount}, int{library::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT});
  EXPECT_EQ(int{program::cudaDevAttrMemoryPoolsSupported}, int{library::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED});
  EXPECT_EQ(int{program::cudaFuncAttributeMaxDynamicSharedMemorySize},
            int{library::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES});
  EXPECT_EQ(int{program::cudaLimitMallocHeapSize}, int{library::CU_LIMIT_MALLOC_HEAP_SIZE});
  EXPECT_EQ(int{program::cudaMemPoolAttrUsedMemHigh}, int{library::CU_MEMPOOL_ATTR_USED_MEM_HIGH});
}

}  // namespace
