// libcudart as programs see it: the built library, loaded by name, on a driver that writes down what it is asked.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "cuda/runtime/errors.h"
#include "cuda/runtime/testing/fake_cuda.h"
#include "cuda/runtime_functions.h"

namespace tf::cuda::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void* Library() {
  static void* library = dlopen(TF_CUDART_LIBRARY, RTLD_NOW);
  return library;
}

RuntimeFunctions& Cuda() {
  static RuntimeFunctions& functions = *[] {
    auto* loaded = new RuntimeFunctions;
    loaded->Load([](const char* symbol) { return dlsym(Library(), symbol); });
    return loaded;
  }();
  return functions;
}

// The runtime looks for libcuda.so.1; the fake driver has that name and is loaded already.
Fake& Driver() {
  static Fake& fake = *[] {
    void* library = dlopen(TF_FAKE_CUDA_LIBRARY, RTLD_NOW);
    if (!library) {
      ADD_FAILURE() << dlerror();
      abort();
    }
    return reinterpret_cast<Fake* (*)()>(dlsym(library, "tf_fake"))();
  }();
  return fake;
}

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Driver();
    ASSERT_NE(Library(), nullptr) << dlerror();
    ASSERT_EQ(Cuda().cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(Cuda().cudaDeviceReset(), cudaSuccess);
    ASSERT_EQ(Cuda().cudaSetDevice(0), cudaSuccess);
    Driver().TakeCalls();
  }
};

TEST_F(RuntimeTest, ExportsEverySymbolOfTheTableWithItsVersion) {
  const char* version = TF_CUDART_MAJOR == 12 ? "libcudart.so.12" : "libcudart.so.13";
#define TF_ENTRY(name, symbol, since, per_thread, supported) \
  EXPECT_NE(dlvsym(Library(), #symbol, version), nullptr) << #symbol;
#include "cuda/runtime_entries.inc"
#undef TF_ENTRY
}

TEST_F(RuntimeTest, EveryDriverErrorHasARuntimeError) {
  for (int code = 1; code < 1000; ++code) {
    Driver().answers["cuMemAlloc"] = static_cast<CUresult>(code);
    void* pointer;
    cudaError_t error = Cuda().cudaMalloc(&pointer, 8);
    bool same = std::string(Cuda().cudaGetErrorName(static_cast<cudaError_t>(code))) != "unrecognized error code";
    EXPECT_EQ(error, same ? static_cast<cudaError_t>(code) : cudaErrorUnknown);
    EXPECT_EQ(Cuda().cudaPeekAtLastError(), error);
    EXPECT_EQ(Cuda().cudaGetLastError(), error);
    EXPECT_EQ(Cuda().cudaGetLastError(), IsSticky(error) ? error : cudaSuccess);
    if (IsSticky(error)) {
      EXPECT_EQ(Cuda().cudaDeviceReset(), cudaSuccess);
    }
    EXPECT_EQ(Cuda().cudaGetLastError(), cudaSuccess);
  }
}

TEST(Errors, NamesAndNumbers) {
  EXPECT_STREQ(ErrorName(cudaSuccess), "cudaSuccess");
  EXPECT_STREQ(ErrorName(static_cast<cudaError_t>(2)), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(ErrorName(static_cast<cudaError_t>(9)), "cudaErrorInvalidConfiguration");
  EXPECT_STREQ(ErrorName(static_cast<cudaError_t>(98)), "cudaErrorInvalidDeviceFunction");
  EXPECT_STREQ(ErrorName(static_cast<cudaError_t>(700)), "cudaErrorIllegalAddress");
  EXPECT_STREQ(ErrorName(static_cast<cudaError_t>(719)), "cudaErrorLaunchFailure");
  EXPECT_STREQ(ErrorName(static_cast<cudaError_t>(999)), "cudaErrorUnknown");
  EXPECT_STREQ(ErrorName(static_cast<cudaError_t>(10000)), "cudaErrorApiFailureBase");
  EXPECT_STREQ(ErrorName(static_cast<cudaError_t>(11)), "unrecognized error code");
  EXPECT_STREQ(ErrorDescription(cudaSuccess), "no error");
  EXPECT_STREQ(ErrorDescription(static_cast<cudaError_t>(-1)), "unrecognized error code");
  EXPECT_EQ(FromDriver(CUDA_ERROR_CONTEXT_ALREADY_CURRENT), cudaErrorUnknown);
  EXPECT_EQ(FromDriver(CUDA_ERROR_NOT_FOUND), cudaErrorSymbolNotFound);
}

TEST_F(RuntimeTest, LastErrorBelongsToTheThreadAndSurvivesSuccess) {
  EXPECT_EQ(Cuda().cudaSetDevice(7), cudaErrorInvalidDevice);
  EXPECT_EQ(Cuda().cudaFree(nullptr), cudaSuccess);
  std::thread([] { EXPECT_EQ(Cuda().cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(Cuda().cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(Cuda().cudaGetLastError(), cudaSuccess);
}

TEST_F(RuntimeTest, NullOutputsAreInvalidValues) {
  EXPECT_EQ(Cuda().cudaMalloc(nullptr, 8), cudaErrorInvalidValue);
  EXPECT_EQ(Cuda().cudaGetDeviceCount(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(Cuda().cudaStreamCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(Cuda().cudaMemcpy3D(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(Cuda().cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_THAT(Driver().TakeCalls(), IsEmpty());
}

TEST_F(RuntimeTest, UnsupportedFunctionsSaySo) {
  auto managed = reinterpret_cast<cudaError_t (*)(void**, size_t, unsigned)>(dlsym(Library(), "cudaMallocManaged"));
  void* pointer = nullptr;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(managed(&pointer, 64, 1), cudaErrorNotSupported);
  EXPECT_EQ(managed(&pointer, 64, 1), cudaErrorNotSupported);
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::HasSubstr("cudaMallocManaged"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(Cuda().cudaGetLastError(), cudaErrorNotSupported);
}

TEST_F(RuntimeTest, EveryThreadHasItsOwnDevice) {
  EXPECT_EQ(Cuda().cudaSetDevice(1), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuDevicePrimaryCtxRetain(1)", "cuCtxSetCurrent(1)"));
  std::thread([] {
    int device = -1;
    EXPECT_EQ(Cuda().cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(Cuda().cudaFree(nullptr), cudaSuccess);  // the documented way to initialise
  }).join();
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuCtxSetCurrent(0)"));
  int device = -1;
  EXPECT_EQ(Cuda().cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(Cuda().cudaDeviceReset(), cudaSuccess);
}

TEST_F(RuntimeTest, ResetReleasesTheContextAndTheNextUseTakesItAgain) {
  EXPECT_EQ(Cuda().cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(Driver().retained[0], 0);
  void* pointer;
  EXPECT_EQ(Cuda().cudaMalloc(&pointer, 16), cudaSuccess);
  EXPECT_EQ(Driver().retained[0], 1);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuDevicePrimaryCtxReset(0)", "cuDevicePrimaryCtxRelease(0)",
                                                "cuDevicePrimaryCtxRetain(0)", "cuCtxSetCurrent(0)", "cuMemAlloc(16)"));
}

TEST_F(RuntimeTest, AllocationOfNothingIsANullPointer) {
  void* pointer = &pointer;
  EXPECT_EQ(Cuda().cudaMalloc(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(Cuda().cudaFree(pointer), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(), IsEmpty());
}

TEST_F(RuntimeTest, CopiesGoTheWayTheirKindSays) {
  int host;
  void* device = reinterpret_cast<void*>(0x7000);
  EXPECT_EQ(Cuda().cudaMemcpy(device, &host, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(Cuda().cudaMemcpy(&host, device, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(Cuda().cudaMemcpy(device, device, 4, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(Cuda().cudaMemcpy(device, &host, 4, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(Cuda().cudaMemcpy(device, &host, 0, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(Cuda().cudaMemcpy(device, &host, 4, static_cast<cudaMemcpyKind>(5)), cudaErrorInvalidMemcpyDirection);
  EXPECT_THAT(Driver().TakeCalls(),
              ElementsAre("cuMemcpyHtoD(0x7000,4)", "cuMemcpyDtoH(0x7000,4)", "cuMemcpyDtoD(4)", "cuMemcpy(4)"));
  auto per_thread = reinterpret_cast<decltype(Cuda().cudaMemcpy)>(dlsym(Library(), "cudaMemcpy_ptds"));
  EXPECT_EQ(per_thread(device, &host, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(Cuda().cudaMemcpy(device, &host, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuMemcpyHtoD_ptds(4)", "cuMemcpyHtoD(0x7000,4)"));
  EXPECT_EQ(Cuda().cudaMemcpy2D(device, 8, &host, 4, 4, 3, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(Cuda().cudaMemcpy2D(device, 8, &host, 4, 6, 3, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuMemcpy2DUnaligned(1>2 4x3)"));
}

TEST_F(RuntimeTest, BoxesAreSetSliceBySliceUnlessTheyTouch) {
  cudaPitchedPtr box{reinterpret_cast<void*>(0x1000), 32, 20, 4};
  EXPECT_EQ(Cuda().cudaMemset3D(box, 0x107, {20, 4, 3}), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuMemsetD2D8(0x1000,32,7,20,12)"));
  EXPECT_EQ(Cuda().cudaMemset3D(box, 7, {20, 2, 2}), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuMemsetD2D8(0x1000,32,7,20,2)", "cuMemsetD2D8(0x1080,32,7,20,2)"));
}

TEST_F(RuntimeTest, PointersAreDescribed) {
  cudaPointerAttributes attributes;
  int host;
  EXPECT_EQ(Cuda().cudaPointerGetAttributes(&attributes, &host), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes.device, -2);
  EXPECT_EQ(attributes.devicePointer, nullptr);
  EXPECT_EQ(Cuda().cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(0x5000)), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(attributes.devicePointer, reinterpret_cast<void*>(0x5000));
}

TEST_F(RuntimeTest, PropertiesFillTheLayoutOfTheirSymbol) {
  struct {
    cudaDeviceProp properties;
    char behind[64];
  } room;
  std::memset(&room, 0x5a, sizeof(room));
#if TF_CUDART_MAJOR == 12
  EXPECT_EQ(Cuda().cudaGetDeviceProperties_v2(&room.properties, 1), cudaSuccess);
#else
  EXPECT_EQ(Cuda().cudaGetDeviceProperties(&room.properties, 1), cudaSuccess);
#endif
  EXPECT_STREQ(room.properties.name, "Fake 1");
  EXPECT_EQ(room.properties.totalGlobalMem, size_t{1} << 35);
  EXPECT_EQ(room.properties.uuid.bytes[15], 0x41);
  EXPECT_EQ(room.properties.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(room.properties.multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(room.properties.warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  EXPECT_EQ(room.properties.clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
  EXPECT_EQ(room.behind[0], 0x5a);
#if TF_CUDART_MAJOR == 12
  // Programs from before CUDA 12 reserve 728 bytes.
  std::memset(&room, 0x5a, sizeof(room));
  EXPECT_EQ(Cuda().cudaGetDeviceProperties(&room.properties, 0), cudaSuccess);
  EXPECT_EQ(room.properties.reservedSharedMemPerBlock, size_t{CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK});
  EXPECT_EQ(reinterpret_cast<char*>(&room)[728], 0x5a);
#endif
}

// What a compiler puts into a program: a wrapper, a host stub, a shadow variable.
struct Wrapper {
  uint32_t magic = 0x466243B1, version = 1;
  const void* data = "not read by the runtime";
  const void* other = nullptr;
};
Wrapper wrapper;
char stub, stub_of_missing, variable;

class RegistrationTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    handle_ = Cuda().__cudaRegisterFatBinary(&wrapper);
    Cuda().__cudaRegisterFunction(handle_, &stub, nullptr, "kernel", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    Cuda().__cudaRegisterFunction(handle_, &stub_of_missing, nullptr, "missing", -1, nullptr, nullptr, nullptr, nullptr,
                                  nullptr);
    Cuda().__cudaRegisterVar(handle_, &variable, nullptr, "variable", 0, 64, 0, 0);
    Cuda().__cudaRegisterFatBinaryEnd(handle_);
    EXPECT_THAT(Driver().TakeCalls(), IsEmpty());
  }
  void TearDown() override {
    if (handle_) Cuda().__cudaUnregisterFatBinary(handle_);
  }

  cudaError_t Launch(const void* function, dim3 grid, dim3 block) {
    int value = 42;
    void* arguments[] = {&value};
    return Cuda().cudaLaunchKernel(function, grid, block, arguments, 128, nullptr);
  }

  void** handle_ = nullptr;
};

TEST_F(RegistrationTest, TheFirstLaunchLoadsTheImageOnce) {
  EXPECT_EQ(Launch(&stub, {2, 3, 4}, {32, 1, 1}), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuLibraryLoadData", "cuLibraryGetKernel(kernel)",
                                                "cuLaunchKernel(2,3,4 32,1,1 128 (nil) 42)"));
  EXPECT_EQ(Driver().images.back(), &wrapper);
  EXPECT_EQ(Launch(&stub, {1, 1, 1}, {1, 1, 1}), cudaSuccess);
  std::thread([this] { EXPECT_EQ(Launch(&stub, {1, 1, 1}, {2, 1, 1}), cudaSuccess); }).join();
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuLaunchKernel(1,1,1 1,1,1 128 (nil) 42)", "cuCtxSetCurrent(0)",
                                                "cuLaunchKernel(1,1,1 2,1,1 128 (nil) 42)"));
  auto per_thread = reinterpret_cast<decltype(Cuda().cudaLaunchKernel)>(dlsym(Library(), "cudaLaunchKernel_ptsz"));
  EXPECT_EQ(per_thread(&stub, {}, {}, nullptr, 0, nullptr), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuLaunchKernel_ptsz"));
}

TEST_F(RegistrationTest, LaunchesSurviveAResetAndAContextTakenAway) {
  EXPECT_EQ(Launch(&stub, {}, {}), cudaSuccess);
  EXPECT_EQ(Cuda().cudaDeviceReset(), cudaSuccess);
  Driver().TakeCalls();
  EXPECT_EQ(Launch(&stub, {}, {}), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuDevicePrimaryCtxRetain(0)", "cuCtxSetCurrent(0)",
                                                "cuLaunchKernel(1,1,1 1,1,1 128 (nil) 42)"));
  void* driver = dlopen(TF_FAKE_CUDA_LIBRARY, RTLD_NOW);
  auto set_current = reinterpret_cast<CUresult (*)(CUcontext)>(dlsym(driver, "cuCtxSetCurrent"));
  set_current(nullptr);
  Driver().TakeCalls();
  EXPECT_EQ(Launch(&stub, {}, {}), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuCtxSetCurrent(0)", "cuLaunchKernel(1,1,1 1,1,1 128 (nil) 42)"));
}

TEST_F(RegistrationTest, FailedLaunchesAreExplained) {
  EXPECT_EQ(Launch("no kernel", {}, {}), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(Launch(&stub_of_missing, {}, {}), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(Launch(&stub, {}, {}), cudaSuccess);
  Driver().answers["cuLaunchKernel"] = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(Launch(&stub, {1, 1, 1}, {2000, 1, 1}), cudaErrorInvalidConfiguration);
  Driver().answers["cuLaunchKernel"] = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(Launch(&stub, {0, 1, 1}, {1, 1, 1}), cudaErrorInvalidConfiguration);
  Driver().answers["cuLaunchKernel"] = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(Launch(&stub, {1, 1, 1}, {1, 1, 1}), cudaErrorInvalidValue);
  Driver().answers["cuLaunchKernel"] = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  EXPECT_EQ(Launch(&stub, {1, 1, 1}, {1, 1, 1}), cudaErrorLaunchOutOfResources);
  EXPECT_EQ(Cuda().cudaGetLastError(), cudaErrorLaunchOutOfResources);
}

TEST_F(RegistrationTest, ImagesThatDoNotLoadAreTriedAgain) {
  Driver().answers["cuLibraryLoadData"] = CUDA_ERROR_NO_BINARY_FOR_GPU;
  cudaKernel_t kernel = nullptr;
  EXPECT_EQ(Cuda().__cudaGetKernel(&kernel, &stub), cudaSuccess);
  EXPECT_EQ(Cuda().__cudaLaunchKernel(kernel, {}, {}, nullptr, 0, nullptr), cudaErrorNoKernelImageForDevice);
  EXPECT_EQ(Cuda().__cudaLaunchKernel(kernel, {}, {}, nullptr, 0, nullptr), cudaSuccess);
  EXPECT_EQ(Cuda().__cudaGetKernel(&kernel, "no kernel"), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(Cuda().__cudaLaunchKernel(kernel, {}, {}, nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
}

TEST_F(RegistrationTest, UnregisteringUnloadsAndForgets) {
  EXPECT_EQ(Launch(&stub, {}, {}), cudaSuccess);
  Driver().TakeCalls();
  Cuda().__cudaUnregisterFatBinary(handle_);
  handle_ = nullptr;
  EXPECT_THAT(Driver().TakeCalls(), ElementsAre("cuLibraryUnload"));
  EXPECT_EQ(Launch(&stub, {}, {}), cudaErrorInvalidDeviceFunction);
}

TEST_F(RegistrationTest, VariablesAreCopiedWithinTheirBounds) {
  char bytes[64] = {};
  EXPECT_EQ(Cuda().cudaMemcpyToSymbol(&variable, bytes, 16, 8, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_THAT(Driver().TakeCalls(),
              ElementsAre("cuLibraryLoadData", "cuLibraryGetGlobal(variable)", "cuMemcpyHtoD(0x1008,16)"));
  EXPECT_EQ(Cuda().cudaMemcpyToSymbol(&variable, bytes, 60, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(Cuda().cudaMemcpyToSymbol(&variable, bytes, SIZE_MAX, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(Cuda().cudaMemcpyToSymbol(bytes, bytes, 1, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
  EXPECT_EQ(Cuda().cudaMemcpyToSymbol(&variable, bytes, 1, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidMemcpyDirection);
  size_t size = 0;
  EXPECT_EQ(Cuda().cudaGetSymbolSize(&size, &variable), cudaSuccess);
  EXPECT_EQ(size, 64u);
}

TEST_F(RegistrationTest, ManagedVariablesAreRefusedAtTheirUse) {
  void* managed = nullptr;
  Cuda().__cudaRegisterManagedVar(handle_, &managed, nullptr, "managed", 0, 4, 0, 0);
  ::testing::internal::CaptureStderr();
  Cuda().__cudaInitModule(handle_);
  EXPECT_EQ(Cuda().cudaGetLastError(), cudaErrorNotSupported);
  size_t size;
  EXPECT_EQ(Cuda().cudaGetSymbolSize(&size, &managed), cudaErrorNotSupported);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("__managed__"));
}

TEST_F(RuntimeTest, LaunchConfigurationsNest) {
  dim3 grid, block;
  size_t shared;
  CUstream stream;
  EXPECT_EQ(Cuda().__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
  EXPECT_EQ(Cuda().__cudaPushCallConfiguration({1, 2, 3}, {4, 5, 6}, 7, nullptr), 0u);
  EXPECT_EQ(Cuda().__cudaPushCallConfiguration({9, 1, 1}, {}, 0, CU_STREAM_LEGACY), 0u);
  EXPECT_EQ(Cuda().__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  EXPECT_EQ(grid.x, 9u);
  EXPECT_EQ(stream, CU_STREAM_LEGACY);
  EXPECT_EQ(Cuda().__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  EXPECT_EQ(block.y, 5u);
  EXPECT_EQ(shared, 7u);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(Cuda().__cudaPushCallConfiguration({}, {}, 0, nullptr), 0u);
  EXPECT_NE(Cuda().__cudaPushCallConfiguration({}, {}, 0, nullptr), 0u);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(Cuda().__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  }
}

TEST_F(RuntimeTest, TheChildOfAForkFailsFast) {
  pid_t child = fork();
  if (child == 0) {
    void* pointer = nullptr;
    bool right = Cuda().cudaMalloc(&pointer, 8) == cudaErrorInitializationError &&
                 Cuda().cudaDeviceSynchronize() == cudaErrorInitializationError;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Cuda().cudaDeviceSynchronize(), cudaSuccess);
}

// In a process of its own: before any driver is loaded.
TEST(NoDriverDeathTest, SaysThatThereIsNone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        if (dlopen("libcuda.so.1", RTLD_NOW)) _exit(0);  // this machine has one
        int count = 7;
        int version = 7;
        bool right = Cuda().cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver && count == 0 &&
                     Cuda().cudaDriverGetVersion(&version) == cudaSuccess && version == 0 &&
                     Cuda().cudaGetLastError() == cudaErrorInsufficientDriver;
        _exit(right ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(OldDriverDeathTest, IsInsufficient) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Driver().version = (TF_CUDART_MAJOR - 1) * 1000 + 80;
        _exit(Cuda().cudaFree(nullptr) == cudaErrorInsufficientDriver ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        Driver().answers["cuInit"] = CUDA_ERROR_NO_DEVICE;
        int count = 7;
        _exit(Cuda().cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tf::cuda::runtime
