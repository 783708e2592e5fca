// The driver API over a fake card: what a program sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "cuda/driver/exports.h"
#include "cuda/driver/fake_backend.h"
#include "cuda/driver/output_sink.h"
#include "cuda/driver/visible_devices.h"
#include "cuda/driver_functions.h"

namespace tf::cuda::driver {
namespace {

using ::testing::ElementsAre;

const DriverFunctions& Cu() {
  static const DriverFunctions& functions = *[] {
    auto made = new DriverFunctions;
    made->Load([](const char* symbol) { return FindExport(symbol); });
    return made;
  }();
  return functions;
}
const DriverFunctions& cu = Cu();

#define OK(call) ASSERT_EQ(call, CUDA_SUCCESS)

// Each test has a context of its own, current.
class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OK(cu.cuInit(0));
    Fake().Forget();
    OK(cu.cuCtxCreate_v2(&context_, 0, 0));
  }
  void TearDown() override {
    Fake().Forget();
    CUcontext current;
    while (cu.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) cu.cuCtxPopCurrent_v2(&current);
    cu.cuCtxDestroy_v2(context_);
  }
  CUdeviceptr Memory(size_t size) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cu.cuMemAlloc_v2(&address, size), CUDA_SUCCESS);
    return address;
  }
  CUfunction Kernel(const char* name) {
    CUmodule module;
    CUfunction function = nullptr;
    EXPECT_EQ(cu.cuModuleLoadData(&module, FakeBackend::kImage), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    return function;
  }
  CUcontext context_ = nullptr;
};

TEST_F(DriverTest, AddsVectors) {
  constexpr int n = 1000;
  std::vector<int> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) a[i] = i, b[i] = 3 * i;
  CUdeviceptr da = Memory(4 * n), db = Memory(4 * n), dc = Memory(4 * n);
  OK(cu.cuMemcpyHtoD_v2(da, a.data(), 4 * n));
  OK(cu.cuMemcpyHtoD_v2(db, b.data(), 4 * n));
  int count = n;
  void* arguments[] = {&da, &db, &dc, &count};
  CUfunction add = Kernel("add");
  OK(cu.cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
  OK(cu.cuMemcpyDtoH_v2(c.data(), dc, 4 * n));
  for (int i = 0; i < n; ++i) ASSERT_EQ(c[i], 4 * i);
  // The other form of arguments.
  struct {
    CUdeviceptr a, b, c;
    int n;
  } packed{dc, db, da, n};
  size_t size = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  OK(cu.cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra));
  OK(cu.cuMemcpyDtoH_v2(c.data(), da, 4 * n));
  for (int i = 0; i < n; ++i) ASSERT_EQ(c[i], 7 * i);
}

TEST_F(DriverTest, ArgumentsKeepTheirLayout) {
  CUfunction big = Kernel("big");
  char first = 7;
  uint64_t second = 0x1122334455667788;
  std::vector<char> third(8000, 'z');
  void* arguments[] = {&first, &second, third.data()};
  OK(cu.cuLaunchKernel(big, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  std::vector<std::byte>& bytes = Fake().parameters;
  ASSERT_EQ(bytes.size(), 8016u);
  EXPECT_EQ(bytes[0], std::byte{7});
  for (int i = 1; i < 8; ++i) EXPECT_EQ(bytes[i], std::byte{0});
  EXPECT_EQ(std::memcmp(&bytes[8], &second, 8), 0);
  EXPECT_EQ(std::memcmp(&bytes[16], third.data(), 8000), 0);
  size_t count, offset, size;
  OK(cu.cuFuncGetParamCount(big, &count));
  EXPECT_EQ(count, 3u);
  OK(cu.cuFuncGetParamInfo(big, 2, &offset, &size));
  EXPECT_EQ(offset, 16u);
  EXPECT_EQ(size, 8000u);
  EXPECT_EQ(cu.cuFuncGetParamInfo(big, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, LaunchesAreCheckedAtTheCall) {
  CUfunction none = Kernel("none"), big = Kernel("big"), shared = Kernel("shared"), add = Kernel("add");
  int before = Fake().launches;
  auto launch = [&](CUfunction f, uint32_t gx, uint32_t gy, uint32_t bx, uint32_t bz, uint32_t bytes) {
    return cu.cuLaunchKernel(f, gx, gy, 1, bx, 1, bz, bytes, nullptr, nullptr, nullptr);
  };
  EXPECT_EQ(launch(none, 0, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(none, 1, 1, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(none, 0x80000000u, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(none, 1, 65536, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(none, 1, 1, 1025, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(none, 1, 1, 512, 4, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(none, 1, 1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(big, 1, 1, 512, 1, 0), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(launch(none, 1, 1, 1, 1, 49153), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(shared, 1, 1, 1, 1, 49152 - 8192 + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(add, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);  // no arguments
  void* hole[] = {nullptr, nullptr, nullptr, nullptr};
  EXPECT_EQ(cu.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, hole, nullptr), CUDA_ERROR_INVALID_VALUE);
  size_t small = 8;
  char buffer[8];
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &small, CU_LAUNCH_PARAM_END};
  EXPECT_EQ(cu.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, hole, extra), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Fake().launches, before);
  // Nothing of this lasts.
  OK(launch(none, 1, 1, 1024, 1, 49152));
  EXPECT_EQ(cu.cuFuncSetAttribute(none, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 166913),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuFuncSetAttribute(none, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
  OK(launch(none, 1, 1, 1, 1, 100000));
  int value;
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, none));
  EXPECT_EQ(value, 100000);
}

TEST_F(DriverTest, LaunchAttributes) {
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[1].value.priority = -3;
  CUlaunchConfig config = {2, 1, 1, 64, 1, 1, 16, nullptr, attributes, 2};
  CUfunction none = Kernel("none");
  OK(cu.cuLaunchKernelEx(&config, none, nullptr, nullptr));
  EXPECT_EQ(static_cast<int>(Fake().launch.priority), -3);
  EXPECT_EQ(Fake().launch.dynamic_shared, 16u);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[0].value.cooperative = 1;
  EXPECT_EQ(cu.cuLaunchKernelEx(&config, none, nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim = {2, 1, 1};
  EXPECT_EQ(cu.cuLaunchKernelEx(&config, none, nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  attributes[0].value.clusterDim = {1, 1, 1};
  OK(cu.cuLaunchKernelEx(&config, none, nullptr, nullptr));
  EXPECT_EQ(cu.cuLaunchKernelEx(nullptr, none, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, LibrariesLoadInEachContextAndKernelsLaunch) {
  CUlibrary library;
  OK(cu.cuLibraryLoadData(&library, FakeBackend::kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel, again;
  OK(cu.cuLibraryGetKernel(&kernel, library, "none"));
  OK(cu.cuLibraryGetKernel(&again, library, "none"));
  EXPECT_EQ(kernel, again);
  EXPECT_EQ(cu.cuLibraryGetKernel(&again, library, "missing"), CUDA_ERROR_NOT_FOUND);
  unsigned int count;
  OK(cu.cuLibraryGetKernelCount(&count, library));
  EXPECT_EQ(count, 4u);
  auto launch = [&] {
    return cu.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  };
  OK(launch());
  OK(cu.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, kernel, 1));
  CUcontext other;
  OK(cu.cuCtxCreate_v2(&other, 0, 1));
  int loads = Fake().Count("ModuleLoad");
  OK(launch());
  OK(launch());
  EXPECT_EQ(Fake().Count("ModuleLoad"), loads + 1);
  CUfunction function;
  OK(cu.cuKernelGetFunction(&function, kernel));
  int value;
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  EXPECT_EQ(value, 60000);
  OK(cu.cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0));
  EXPECT_EQ(value, 49152);
  CUmodule module;
  OK(cu.cuLibraryGetModule(&module, library));
  EXPECT_EQ(cu.cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
  const char* name;
  OK(cu.cuKernelGetName(&name, kernel));
  EXPECT_STREQ(name, "none");
  OK(cu.cuCtxDestroy_v2(other));
  OK(launch());
  OK(cu.cuLibraryUnload(library));
  EXPECT_EQ(launch(), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DriverTest, LibrariesNeedNoContext) {
  CUcontext context;
  OK(cu.cuCtxPopCurrent_v2(&context));
  CUlibrary library;
  std::string image = FakeBackend::kImage;
  OK(cu.cuLibraryLoadData(&library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  image.assign(image.size(), '#');  // the driver has a copy
  CUkernel kernels[8] = {};
  size_t before = Fake().contexts.size();
  OK(cu.cuLibraryEnumerateKernels(kernels, 8, library));
  EXPECT_NE(kernels[3], nullptr);
  EXPECT_EQ(kernels[4], nullptr);
  EXPECT_EQ(Fake().contexts.size(), before);
  CUfunction function;
  EXPECT_EQ(cu.cuKernelGetFunction(&function, kernels[0]), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.cuCtxPushCurrent_v2(context));
  OK(cu.cuKernelGetFunction(&function, kernels[0]));
  OK(cu.cuLibraryUnload(library));
}

TEST_F(DriverTest, JitLogs) {
  char info[64] = "x", error[12] = "x";
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
  auto size = [](size_t n) { return reinterpret_cast<void*>(n); };
  void* values[] = {info, size(sizeof info), error, size(sizeof error), size(1)};
  CUmodule module;
  OK(cu.cuModuleLoadDataEx(&module, FakeBackend::kImage, 5, options, values));
  EXPECT_STREQ(info, "all well");
  EXPECT_STREQ(error, "");
  EXPECT_EQ(values[1], size(8));
  EXPECT_EQ(values[3], size(0));
  void* more[] = {info, size(sizeof info), error, size(sizeof error), size(1)};
  EXPECT_EQ(cu.cuModuleLoadDataEx(&module, ".version 8\n// bad", 5, options, more), CUDA_ERROR_INVALID_PTX);
  EXPECT_STREQ(error, "line 3: unk");
  options[4] = static_cast<CUjit_option>(1000);
  EXPECT_EQ(cu.cuModuleLoadDataEx(&module, FakeBackend::kImage, 5, options, more), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuModuleLoadData(&module, "garbage"), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cu.cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuModuleLoad(&module, "/nonexistent/x.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
  std::string path = ::testing::TempDir() + "/driver_test.ptx";
  std::ofstream(path) << FakeBackend::kImage;
  OK(cu.cuModuleLoad(&module, path.c_str()));
  unlink(path.c_str());
}

TEST_F(DriverTest, ModulesHaveFunctionsAndVariables) {
  CUmodule module;
  OK(cu.cuModuleLoadData(&module, FakeBackend::kImage));
  CUfunction a, b;
  OK(cu.cuModuleGetFunction(&a, module, "none"));
  OK(cu.cuModuleGetFunction(&b, module, "none"));
  EXPECT_EQ(a, b);
  EXPECT_EQ(cu.cuModuleGetFunction(&b, module, "missing"), CUDA_ERROR_NOT_FOUND);
  CUdeviceptr address;
  size_t size;
  OK(cu.cuModuleGetGlobal_v2(&address, &size, module, "variable"));
  EXPECT_EQ(size, 4u);
  OK(cu.cuModuleGetGlobal_v2(&address, nullptr, module, "variable"));
  EXPECT_EQ(cu.cuModuleGetGlobal_v2(&address, &size, module, "missing"), CUDA_ERROR_NOT_FOUND);
  int value = 42;
  OK(cu.cuMemcpyHtoD_v2(address, &value, 4));
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(address, &value, 5), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  CUmodule owner;
  OK(cu.cuFuncGetModule(&owner, a));
  EXPECT_EQ(owner, module);
  OK(cu.cuModuleUnload(module));
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(address, &value, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.cuLaunchKernel(a, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DriverTest, AllocationsAreChecked) {
  CUdeviceptr p;
  EXPECT_EQ(cu.cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
  p = Memory(1000);
  EXPECT_EQ(cu.cuMemFree_v2(p + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemFree_v2(0xdead000), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base;
  size_t size;
  OK(cu.cuMemGetAddressRange_v2(&base, &size, p + 999));
  EXPECT_EQ(base, p);
  EXPECT_EQ(size, 1000u);
  EXPECT_EQ(cu.cuMemGetAddressRange_v2(&base, &size, p + 1000), CUDA_ERROR_NOT_FOUND);
  char host[2000] = {};
  OK(cu.cuMemcpyHtoD_v2(p + 500, host, 500));
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(p + 500, host, 501), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(p, host, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(p - 1, host, 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(p, nullptr, 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemsetD8_v2(p, 1, 1001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemsetD32_v2(p, 1, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemsetD32_v2(p + 2, 1, 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemsetD2D8_v2(p, 100, 1, 101, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemsetD2D8_v2(p, 1000, 1, 1000, SIZE_MAX / 8), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemsetD16_v2(p, 0x1234, 500));
  OK(cu.cuMemcpyDtoH_v2(host, p, 1000));
  EXPECT_EQ(host[998], 0x34);
  EXPECT_EQ(host[999], 0x12);
  OK(cu.cuMemsetD2D32_v2(p, 100, 7, 2, 3));
  OK(cu.cuMemFree_v2(p));
  EXPECT_EQ(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
  size_t pitch;
  OK(cu.cuMemAllocPitch_v2(&p, &pitch, 1000, 3, 4));
  EXPECT_EQ(pitch, 1024u);
  OK(cu.cuMemFree_v2(p));
  EXPECT_EQ(cu.cuMemAllocPitch_v2(&p, &pitch, 1000, 3, 5), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemAllocPitch_v2(&p, &pitch, SIZE_MAX, 3, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, OutOfMemoryDoesNotLast) {
  {
    std::lock_guard lock(Fake().mutex);
    Fake().memory_limit = Fake().memory_used + 1000;
  }
  CUdeviceptr p;
  EXPECT_EQ(cu.cuMemAlloc_v2(&p, 1001), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cu.cuMemAlloc_v2(&p, 1000));
  EXPECT_EQ(cu.cuMemAllocAsync(&p, 1, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cu.cuCtxSynchronize());
  Fake().memory_limit = UINT64_MAX;
  size_t free, total;
  OK(cu.cuMemGetInfo_v2(&free, &total));
  EXPECT_LE(free, total);
  OK(cu.cuMemGetInfo_v2(nullptr, &total));
}

TEST_F(DriverTest, CopiesSayWhenTheyMayReturn) {
  CUdeviceptr device = Memory(100);
  void* pinned;
  OK(cu.cuMemHostAlloc(&pinned, 100, 0));
  char pageable[100] = {};
  CUdeviceptr host = reinterpret_cast<CUdeviceptr>(pageable), locked = reinterpret_cast<CUdeviceptr>(pinned);
  FakeBackend& fake = Fake();
  auto expect = [&](CUresult result, uint32_t direction, uint32_t flags) {
    EXPECT_EQ(result, CUDA_SUCCESS);
    EXPECT_EQ(fake.copy_direction, direction);
    EXPECT_EQ(fake.copy_flags, flags);
  };
  // Flags: 1 pageable, 2 over when it returns.
  expect(cu.cuMemcpyHtoD_v2(device, pageable, 100), 0, 1);
  expect(cu.cuMemcpyHtoD_v2(device, pinned, 100), 0, 2);
  expect(cu.cuMemcpyDtoH_v2(pageable, device, 100), 1, 3);
  expect(cu.cuMemcpyDtoH_v2(pinned, device, 100), 1, 2);
  expect(cu.cuMemcpyDtoD_v2(device, device + 50, 50), 2, 0);
  expect(cu.cuMemcpyHtoDAsync_v2(device, pageable, 100, nullptr), 0, 1);
  expect(cu.cuMemcpyHtoDAsync_v2(device, pinned, 100, nullptr), 0, 0);
  expect(cu.cuMemcpyDtoHAsync_v2(pageable, device, 100, nullptr), 1, 1);
  expect(cu.cuMemcpyDtoHAsync_v2(pinned, device, 100, nullptr), 1, 0);
  // By address.
  expect(cu.cuMemcpy(device, host, 100), 0, 1);
  expect(cu.cuMemcpy(locked, device, 100), 1, 2);
  expect(cu.cuMemcpy(host, locked, 100), 3, 3);
  expect(cu.cuMemcpyAsync(device, locked, 100, nullptr), 0, 0);
  expect(cu.cuMemcpyAsync(device, device + 50, 50, nullptr), 2, 0);
  // An address that is nothing.
  void* nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(nothing, 4096);
  EXPECT_EQ(cu.cuMemcpy(device, reinterpret_cast<CUdeviceptr>(nothing), 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemcpy(0, device, 10), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemcpy(device, host, 0));
  OK(cu.cuMemFreeHost(pinned));
  EXPECT_EQ(cu.cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemFreeHost(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, Copies2D) {
  CUdeviceptr device;
  size_t pitch;
  OK(cu.cuMemAllocPitch_v2(&device, &pitch, 64, 8, 4));
  std::vector<char> in(10 * 100), out(10 * 100);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(i * 7);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = 100;
  copy.srcXInBytes = 3;
  copy.srcY = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = device;
  copy.dstPitch = pitch;
  copy.WidthInBytes = 64;
  copy.Height = 8;
  OK(cu.cuMemcpy2D_v2(&copy));
  CUDA_MEMCPY2D back = {};
  back.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  back.srcDevice = device;
  back.srcPitch = pitch;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = out.data();
  back.dstPitch = 100;
  back.dstXInBytes = 3;
  back.dstY = 2;
  back.WidthInBytes = 64;
  back.Height = 8;
  OK(cu.cuMemcpy2DUnaligned_v2(&back));
  for (int y = 2; y < 10; ++y) EXPECT_EQ(std::memcmp(&in[100 * y + 3], &out[100 * y + 3], 64), 0) << y;
  EXPECT_EQ(out[2], 0);
  copy.Height = 9;  // one row more than there is
  EXPECT_EQ(cu.cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.Height = 8;
  copy.srcPitch = 66;  // less than a row
  EXPECT_EQ(cu.cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.srcPitch = 100;
  copy.dstY = SIZE_MAX;
  EXPECT_EQ(cu.cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.dstY = 0;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_EQ(cu.cuMemcpy2D_v2(&copy), CUDA_ERROR_NOT_SUPPORTED);
  copy.dstMemoryType = static_cast<CUmemorytype>(9);
  EXPECT_EQ(cu.cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemcpy2D_v2(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, Copies3DAndPeers) {
  CUdeviceptr device = Memory(4 * 3 * 16);
  std::vector<char> in(4 * 3 * 16), out(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(i);
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = 16;
  copy.srcHeight = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = device;
  copy.dstPitch = 16;
  copy.dstHeight = 3;
  copy.WidthInBytes = 16;
  copy.Height = 3;
  copy.Depth = 4;
  OK(cu.cuMemcpy3D_v2(&copy));
  copy.dstZ = 1;
  EXPECT_EQ(cu.cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.dstZ = 0;
  copy.srcHeight = 2;
  EXPECT_EQ(cu.cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemcpyDtoH_v2(out.data(), device, out.size()));
  EXPECT_EQ(in, out);
  CUcontext other;
  OK(cu.cuCtxCreate_v2(&other, 0, 1));
  CUdeviceptr peer = Memory(16);
  OK(cu.cuMemcpyPeer(peer, other, device + 16, context_, 16));
  OK(cu.cuMemcpyDtoH_v2(out.data(), peer, 16));
  EXPECT_EQ(out[0], 16);
  EXPECT_EQ(cu.cuMemcpyPeer(peer, nullptr, device, context_, 16), CUDA_ERROR_INVALID_CONTEXT);
  int can = 0;
  OK(cu.cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  OK(cu.cuDeviceCanAccessPeer(&can, 1, 1));
  EXPECT_EQ(can, 0);
  OK(cu.cuCtxEnablePeerAccess(context_, 0));
  EXPECT_EQ(cu.cuCtxEnablePeerAccess(context_, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  OK(cu.cuCtxDisablePeerAccess(context_));
  EXPECT_EQ(cu.cuCtxDisablePeerAccess(context_), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(cu.cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.cuCtxDestroy_v2(other));
}

TEST_F(DriverTest, HostMemoryIsRegisteredOnce) {
  std::vector<char> memory(8192);
  OK(cu.cuMemHostRegister_v2(memory.data(), memory.size(), 0));
  EXPECT_EQ(cu.cuMemHostRegister_v2(memory.data(), memory.size(), 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cu.cuMemHostRegister_v2(memory.data() + 4096, 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CUdeviceptr device = Memory(8192);
  OK(cu.cuMemcpyHtoDAsync_v2(device, memory.data(), 8192, nullptr));
  EXPECT_EQ(Fake().copy_flags, 0u);
  CUdeviceptr mapped;
  OK(cu.cuMemHostGetDevicePointer_v2(&mapped, memory.data() + 5, 0));
  EXPECT_EQ(mapped, reinterpret_cast<CUdeviceptr>(memory.data() + 5));
  EXPECT_EQ(cu.cuMemHostUnregister(memory.data() + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  OK(cu.cuMemHostUnregister(memory.data()));
  EXPECT_EQ(cu.cuMemHostUnregister(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cu.cuMemHostRegister_v2(nullptr, 10, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemHostRegister_v2(memory.data(), 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemHostRegister_v2(memory.data(), SIZE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemHostRegister_v2(memory.data(), 10, 0x100), CUDA_ERROR_INVALID_VALUE);
  // What the backend refuses leaves nothing behind.
  Fake().fails["HostRegister"] = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(cu.cuMemHostRegister_v2(memory.data(), 10, 0), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cu.cuMemHostRegister_v2(memory.data(), 10, 0));
  OK(cu.cuMemHostUnregister(memory.data()));
}

TEST_F(DriverTest, PointersAreKnown) {
  CUdeviceptr device = Memory(100);
  unsigned int type = 0;
  OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 99));
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  CUcontext owner;
  OK(cu.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, device));
  EXPECT_EQ(owner, context_);
  int local = 0;
  CUdeviceptr unknown = reinterpret_cast<CUdeviceptr>(&local);
  EXPECT_EQ(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unknown), CUDA_ERROR_INVALID_VALUE);
  int ordinal = 0;
  void* host = &local;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* data[] = {&type, &ordinal, &host};
  OK(cu.cuPointerGetAttributes(3, which, data, unknown));
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(ordinal, -2);
  EXPECT_EQ(host, nullptr);
}

TEST_F(DriverTest, Pools) {
  CUmemoryPool standard, current, made;
  OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
  OK(cu.cuDeviceGetMemPool(&current, 0));
  EXPECT_EQ(standard, current);
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  OK(cu.cuMemPoolCreate(&made, &props));
  OK(cu.cuDeviceSetMemPool(0, made));
  EXPECT_EQ(cu.cuDeviceSetMemPool(1, made), CUDA_ERROR_INVALID_VALUE);
  cuuint64_t threshold = 12345, read = 0;
  OK(cu.cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  OK(cu.cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &read));
  EXPECT_EQ(read, threshold);
  EXPECT_EQ(cu.cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &threshold), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &threshold), CUDA_ERROR_INVALID_VALUE);
  CUstream stream;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr a, b, plain = Memory(10);
  OK(cu.cuMemAllocAsync(&a, 100, stream));
  OK(cu.cuMemAllocFromPoolAsync(&b, 100, standard, stream));
  CUmemoryPool pool;
  OK(cu.cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
  EXPECT_EQ(pool, made);
  OK(cu.cuMemFreeAsync(a, stream));
  EXPECT_EQ(cu.cuMemFreeAsync(a, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemFree_v2(b));
  OK(cu.cuMemFreeAsync(plain, stream));
  OK(cu.cuMemPoolTrimTo(made, 0));
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemAccess_flags access;
  OK(cu.cuMemPoolGetAccess(&access, made, &location));
  EXPECT_EQ(access, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUmemAccessDesc grant = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cu.cuMemPoolSetAccess(made, &grant, 1));
  OK(cu.cuMemPoolGetAccess(&access, made, &location));
  EXPECT_EQ(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  OK(cu.cuMemPoolDestroy(made));
  OK(cu.cuDeviceGetMemPool(&current, 0));
  EXPECT_EQ(current, standard);
  EXPECT_EQ(cu.cuMemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemPoolDestroy(made), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, Streams) {
  CUstream stream;
  OK(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100));
  EXPECT_EQ(Fake().created_priority, -5);
  int priority;
  unsigned int flags;
  CUcontext context;
  unsigned long long id, legacy;
  OK(cu.cuStreamGetPriority(stream, &priority));
  EXPECT_EQ(priority, -5);
  OK(cu.cuStreamGetFlags(stream, &flags));
  EXPECT_EQ(flags, 1u);
  OK(cu.cuStreamGetCtx(stream, &context));
  EXPECT_EQ(context, context_);
  OK(cu.cuStreamGetId(stream, &id));
  OK(cu.cuStreamGetId(nullptr, &legacy));
  EXPECT_NE(id, legacy);
  Fake().fails["StreamQuery"] = CUDA_ERROR_NOT_READY;
  EXPECT_EQ(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  OK(cu.cuStreamQuery(stream));
  CUstreamCaptureStatus status;
  OK(cu.cuStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(cu.cuStreamCreate(&stream, 8), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuStreamDestroy_v2(stream));
  EXPECT_EQ(cu.cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.cuStreamDestroy_v2(CU_STREAM_LEGACY), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DriverTest, PerThreadDefaultStreams) {
  auto per_thread = reinterpret_cast<CUresult (*)(CUstream)>(FindExport("cuStreamSynchronize_ptsz"));
  auto stream_of = [&](CUresult result) {
    EXPECT_EQ(result, CUDA_SUCCESS);
    return Fake().last_stream;
  };
  EXPECT_EQ(stream_of(cu.cuStreamSynchronize(nullptr)), 0u);
  EXPECT_EQ(stream_of(per_thread(CU_STREAM_LEGACY)), 0u);
  uint64_t mine = stream_of(per_thread(nullptr));
  EXPECT_NE(mine, 0u);
  EXPECT_EQ(stream_of(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD)), mine);
  EXPECT_EQ(stream_of(cu.cuStreamSynchronize(nullptr)), 0u);
  std::thread([&] {
    OK(cu.cuCtxSetCurrent(context_));
    EXPECT_NE(stream_of(per_thread(nullptr)), mine);
  }).join();
  CUcontext other;
  OK(cu.cuCtxCreate_v2(&other, 0, 1));
  EXPECT_NE(stream_of(per_thread(nullptr)), mine);
  OK(cu.cuCtxDestroy_v2(other));
  EXPECT_EQ(stream_of(per_thread(nullptr)), mine);
}

TEST_F(DriverTest, HostFunctionsRunOnceAndMayNotCallCuda) {
  struct State {
    std::atomic<int> runs{0};
    std::atomic<int> result{-1};
  } state;
  OK(cu.cuLaunchHostFunc(
      nullptr,
      [](void* user) {
        auto state = static_cast<State*>(user);
        CUdeviceptr p;
        state->result = cu.cuMemAlloc_v2(&p, 10);
        ++state->runs;
      },
      &state));
  Fake().DrainHostFunctions();
  EXPECT_EQ(state.runs, 1);
  EXPECT_EQ(state.result, CUDA_ERROR_NOT_PERMITTED);
  Fake().events_sink()->HostFunction(999999, 0);  // an unknown token is ignored
  CUstream stream;
  OK(cu.cuStreamCreate(&stream, 0));
  OK(cu.cuStreamAddCallback(
      stream, [](CUstream, CUresult status, void* user) { static_cast<State*>(user)->result = status; }, &state, 0));
  Fake().DrainHostFunctions();
  EXPECT_EQ(state.result, CUDA_SUCCESS);
  // After an error callbacks hear of it, host functions do not run.
  {
    std::lock_guard lock(Fake().mutex);
    Fake().always["HostFunction"] = CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  OK(cu.cuStreamAddCallback(
      stream, [](CUstream, CUresult status, void* user) { static_cast<State*>(user)->result = status; }, &state, 0));
  OK(cu.cuLaunchHostFunc(stream, [](void* user) { ++static_cast<State*>(user)->runs; }, &state));
  Fake().DrainHostFunctions();
  EXPECT_EQ(state.result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(state.runs, 1);
  EXPECT_EQ(cu.cuLaunchHostFunc(stream, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuStreamAddCallback(stream, nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, Events) {
  CUevent start, end, untimed;
  OK(cu.cuEventCreate(&start, 0));
  OK(cu.cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
  OK(cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(cu.cuEventCreate(&untimed, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuEventCreate(&untimed, 0x40), CUDA_ERROR_INVALID_VALUE);
  float ms;
  OK(cu.cuEventQuery(start));  // never recorded: nothing is outstanding
  OK(cu.cuEventSynchronize(start));
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
  OK(cu.cuEventRecord(start, nullptr));
  OK(cu.cuEventRecord(end, nullptr));
  OK(cu.cuEventRecord(untimed, nullptr));
  OK(cu.cuEventElapsedTime(&ms, start, end));
  EXPECT_EQ(ms, 1.5f);
  Fake().event_ready = false;
  EXPECT_EQ(cu.cuEventQuery(end), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
  Fake().event_ready = true;
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
  CUstream stream;
  OK(cu.cuStreamCreate(&stream, 0));
  OK(cu.cuStreamWaitEvent(stream, end, 0));
  EXPECT_EQ(Fake().Count("StreamWaitEvent"), 1);
  // Of another context: recorded there it cannot be, waited for it can.
  CUcontext other;
  OK(cu.cuCtxCreate_v2(&other, 0, 1));
  EXPECT_EQ(cu.cuEventRecord(end, nullptr), CUDA_ERROR_INVALID_HANDLE);
  OK(cu.cuStreamWaitEvent(nullptr, end, 0));
  OK(cu.cuCtxDestroy_v2(other));
  OK(cu.cuEventDestroy_v2(end));
  EXPECT_EQ(cu.cuEventQuery(end), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.cuEventDestroy_v2(end), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DriverTest, ContextStacks) {
  CUcontext second, current;
  OK(cu.cuCtxCreate_v2(&second, CU_CTX_SCHED_BLOCKING_SYNC, 1));
  OK(cu.cuCtxGetCurrent(&current));
  EXPECT_EQ(current, second);
  CUdevice device;
  OK(cu.cuCtxGetDevice(&device));
  EXPECT_EQ(device, 1);
  OK(cu.cuCtxPushCurrent_v2(context_));
  OK(cu.cuCtxPopCurrent_v2(&current));
  EXPECT_EQ(current, context_);
  OK(cu.cuCtxSetCurrent(context_));  // replaces the top
  OK(cu.cuCtxPopCurrent_v2(&current));
  OK(cu.cuCtxPopCurrent_v2(&current));
  EXPECT_EQ(current, context_);
  EXPECT_EQ(cu.cuCtxPopCurrent_v2(&current), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.cuCtxGetCurrent(&current));
  EXPECT_EQ(current, nullptr);
  CUdeviceptr p;
  EXPECT_EQ(cu.cuMemAlloc_v2(&p, 10), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.cuCtxSetCurrent(second));
  // Current in several threads at once; ended by one of them.
  std::thread([&] {
    CUcontext mine;
    OK(cu.cuCtxGetCurrent(&mine));
    EXPECT_EQ(mine, nullptr);
    OK(cu.cuCtxSetCurrent(second));
    OK(cu.cuMemAlloc_v2(&p, 10));
    OK(cu.cuCtxDestroy_v2(second));
    OK(cu.cuCtxGetCurrent(&mine));
    EXPECT_EQ(mine, nullptr);
  }).join();
  EXPECT_EQ(cu.cuMemAlloc_v2(&p, 10), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cu.cuCtxPushCurrent_v2(second), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cu.cuCtxDestroy_v2(second), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.cuCtxSetCurrent(context_));
  unsigned int flags;
  OK(cu.cuCtxGetFlags(&flags));
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(cu.cuCtxCreate_v2(&second, 3, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuCtxCreate_v2(&second, 0, 2), CUDA_ERROR_INVALID_DEVICE);
  size_t value;
  OK(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  OK(cu.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT_EQ(cu.cuCtxSetLimit(static_cast<CUlimit>(77), 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuCtxSetLimit(CU_LIMIT_SHMEM_SIZE, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
}

TEST_F(DriverTest, PrimaryContexts) {
  unsigned int flags;
  int active;
  OK(cu.cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cu.cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.cuDevicePrimaryCtxSetFlags_v2(1, CU_CTX_SCHED_YIELD));
  CUcontext primary, again;
  OK(cu.cuDevicePrimaryCtxRetain(&primary, 1));
  OK(cu.cuDevicePrimaryCtxRetain(&again, 1));
  EXPECT_EQ(primary, again);
  EXPECT_EQ(cu.cuCtxDestroy_v2(primary), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.cuCtxSetCurrent(primary));
  OK(cu.cuCtxGetFlags(&flags));
  EXPECT_EQ(flags, static_cast<unsigned int>(CU_CTX_SCHED_YIELD));
  CUdeviceptr p = Memory(100);
  CUevent event;
  OK(cu.cuEventCreate(&event, 0));
  OK(cu.cuDevicePrimaryCtxRelease_v2(1));
  OK(cu.cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 1);
  OK(cu.cuCtxSynchronize());
  // Reset ends what is in it; retained again it works under the same handle.
  OK(cu.cuDevicePrimaryCtxReset_v2(1));
  EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cu.cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  OK(cu.cuDevicePrimaryCtxRetain(&again, 1));
  EXPECT_EQ(primary, again);
  OK(cu.cuCtxSynchronize());
  EXPECT_EQ(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
  p = Memory(100);
  OK(cu.cuMemFree_v2(p));
  OK(cu.cuDevicePrimaryCtxRelease_v2(1));
  OK(cu.cuDevicePrimaryCtxRelease_v2(1));
  OK(cu.cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 0);
  OK(cu.cuDevicePrimaryCtxSetFlags_v2(1, 0));
  OK(cu.cuCtxSetCurrent(context_));
}

TEST_F(DriverTest, DestroyingAContextEndsEverythingInIt) {
  CUcontext other;
  OK(cu.cuCtxCreate_v2(&other, 0, 0));
  CUstream stream;
  CUevent event;
  OK(cu.cuStreamCreate(&stream, 0));
  OK(cu.cuEventCreate(&event, 0));
  CUfunction none = Kernel("none");
  CUdeviceptr p = Memory(64);
  OK(cu.cuCtxDestroy_v2(other));
  CUcontext current;
  OK(cu.cuCtxGetCurrent(&current));
  EXPECT_EQ(current, context_);
  EXPECT_EQ(cu.cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, ErrorsOfKernelsLast) {
  CUcontext broken;
  OK(cu.cuCtxCreate_v2(&broken, 0, 0));
  CUevent event;
  OK(cu.cuEventCreate(&event, 0));
  Fake().fails["StreamSynchronize"] = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(cu.cuStreamSynchronize(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr p;
  EXPECT_EQ(cu.cuMemAlloc_v2(&p, 10), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cu.cuEventRecord(event, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  // Other contexts do not feel it.
  OK(cu.cuCtxPushCurrent_v2(context_));
  OK(cu.cuCtxSynchronize());
  CUcontext popped;
  OK(cu.cuCtxPopCurrent_v2(&popped));
  OK(cu.cuCtxDestroy_v2(broken));
  // An error of another kind does not last.
  Fake().fails["ContextSynchronize"] = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  OK(cu.cuCtxSynchronize());
}

// Rule 33: every handle argument of every kind of call, with handles that are nothing.
TEST_F(DriverTest, GarbageHandlesAreRefused) {
  CUevent event;
  OK(cu.cuEventCreate(&event, 0));
  OK(cu.cuEventDestroy_v2(event));
  std::vector<uint64_t> garbage = {0x10,
                                   0xdeadbeef,
                                   0x7fffffffffff,
                                   UINT64_MAX,
                                   reinterpret_cast<uint64_t>(event),
                                   reinterpret_cast<uint64_t>(context_),
                                   reinterpret_cast<uint64_t>(&event)};
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) garbage.push_back((uint64_t{0x10} + random() % 10) << 56 | (random() >> 8));
  for (uint64_t value : garbage) {
    auto as = [&]<class T>(T) { return reinterpret_cast<T>(value); };
    int number;
    unsigned int count;
    const char* name;
    float ms;
    void* out;
    EXPECT_EQ(cu.cuStreamQuery(as(CUstream())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuStreamDestroy_v2(as(CUstream())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuEventQuery(as(CUevent())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuEventElapsedTime(&ms, as(CUevent()), as(CUevent())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuEventDestroy_v2(as(CUevent())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuModuleUnload(as(CUmodule())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuModuleGetFunctionCount(&count, as(CUmodule())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, as(CUfunction())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuLaunchKernel(as(CUfunction()), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, as(CUfunction()), 32, 0),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuLibraryUnload(as(CUlibrary())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuKernelGetName(&name, as(CUkernel())), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuMemPoolTrimTo(as(CUmemoryPool()), 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemFree_v2(value), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemFreeHost(as(static_cast<void*>(nullptr))), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuPointerGetAttribute(&out, CU_POINTER_ATTRIBUTE_CONTEXT, value), CUDA_ERROR_INVALID_VALUE);
    if (as(CUcontext()) != context_) {
      EXPECT_EQ(cu.cuCtxSetCurrent(as(CUcontext())), CUDA_ERROR_INVALID_CONTEXT);
      EXPECT_EQ(cu.cuCtxPushCurrent_v2(as(CUcontext())), CUDA_ERROR_INVALID_CONTEXT);
      EXPECT_EQ(cu.cuCtxDestroy_v2(as(CUcontext())), CUDA_ERROR_INVALID_CONTEXT);
    }
  }
  EXPECT_EQ(cu.cuModuleGetFunction(nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemAlloc_v2(nullptr, 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuCtxGetCurrent(nullptr), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuCtxSynchronize());
}

TEST_F(DriverTest, Occupancy) {
  CUfunction none = Kernel("none"), shared = Kernel("shared"), big = Kernel("big");
  int blocks;
  OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, none, 256, 0));
  EXPECT_EQ(blocks, 8);  // 2048 threads
  OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, none, 32, 0));
  EXPECT_EQ(blocks, 32);  // blocks
  OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shared, 64, 0));
  EXPECT_EQ(blocks, 18);  // 164 KiB of shared memory, 9 KiB each
  OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, big, 256, 0));
  EXPECT_EQ(blocks, 2);  // 65536 registers, 128 * 256 each
  OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, big, 512, 0));
  EXPECT_EQ(blocks, 0);
  int grid, block;
  OK(cu.cuOccupancyMaxPotentialBlockSize(&grid, &block, none, nullptr, 0, 0));
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 216);
  OK(cu.cuOccupancyMaxPotentialBlockSize(
      &grid, &block, none, [](int size) { return static_cast<size_t>(size) * 256; }, 0, 0));
  EXPECT_GT(block, 0);
  EXPECT_LE(block * 256, 49152);
  size_t dynamic;
  OK(cu.cuOccupancyAvailableDynamicSMemPerBlock(&dynamic, none, 2, 128));
  EXPECT_EQ(dynamic, 167936u / 2 - 1024);
  EXPECT_EQ(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, none, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, Devices) {
  int count, version, value;
  OK(cu.cuDeviceGetCount(&count));
  EXPECT_EQ(count, 2);
  OK(cu.cuDriverGetVersion(&version));
  EXPECT_EQ(version, 13000);
  char name[8], bus[32];
  OK(cu.cuDeviceGetName(name, sizeof name, 1));
  EXPECT_STREQ(name, "Fake Ca");
  OK(cu.cuDeviceGetPCIBusId(bus, sizeof bus, 1));
  EXPECT_STREQ(bus, "0000:4B:00.0");
  CUdevice device;
  OK(cu.cuDeviceGetByPCIBusId(&device, "0000:4b:00.0"));
  EXPECT_EQ(device, 1);
  OK(cu.cuDeviceGetByPCIBusId(&device, "3b:00.0"));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cu.cuDeviceGetByPCIBusId(&device, "55:00.0"), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cu.cuDeviceGetByPCIBusId(&device, "hello"), CUDA_ERROR_INVALID_VALUE);
  CUuuid uuid;
  OK(cu.cuDeviceGetUuid_v2(&uuid, 1));
  EXPECT_EQ(uuid.bytes[0], 1);
  EXPECT_EQ(uuid.bytes[15], 0x10);
  OK(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  EXPECT_EQ(value, 32);
  EXPECT_EQ(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cu.cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DriverTest, Names) {
  const char* text;
  OK(cu.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  OK(cu.cuGetErrorString(CUDA_SUCCESS, &text));
  EXPECT_STREQ(text, "no error");
  EXPECT_EQ(cu.cuGetErrorName(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

TEST_F(DriverTest, EntryPoints) {
  void* pfn = &pfn;
  CUdriverProcAddressQueryResult status;
  auto get = [&](const char* name, int version, cuuint64_t flags) {
    EXPECT_EQ(cu.cuGetProcAddress_v2(name, &pfn, version, flags, &status), CUDA_SUCCESS) << name;
    return pfn;
  };
  EXPECT_EQ(get("cuMemAlloc", 13000, 0), FindExport("cuMemAlloc_v2"));
  EXPECT_EQ(get("cuMemAlloc", 3010, 0), FindExport("cuMemAlloc"));
  EXPECT_EQ(get("cuStreamSynchronize", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            FindExport("cuStreamSynchronize_ptsz"));
  EXPECT_EQ(get("cuStreamSynchronize", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM), FindExport("cuStreamSynchronize"));
  EXPECT_EQ(get("cuInit", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), FindExport("cuInit"));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_EQ(get("cuLibraryLoadData", 11080, 0), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(get("cuNothing", 12000, 0), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(cu.cuGetProcAddress("cuNothing", &pfn, 12000, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cu.cuGetProcAddress_v2(nullptr, &pfn, 12000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuGetProcAddress_v2("cuInit", &pfn, 12000, 3, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuGetProcAddress_v2("cuInit", &pfn, 99000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  // What is not supported is handed out and says so.
  auto create = reinterpret_cast<CUresult (*)(void*, unsigned)>(get("cuGraphCreate", 12000, 0));
  ASSERT_NE(create, nullptr);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(create(nullptr, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(create(nullptr, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "tensor-fusion: not supported: cuGraphCreate\n");
  const void* table = &table;
  CUuuid id = {};
  EXPECT_EQ(cu.cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(table, nullptr);
}

std::string sunk;
CUcontext sunk_context;

TEST_F(DriverTest, KernelOutput) {
  ::testing::internal::CaptureStdout();
  Fake().events_sink()->Output(1, "hello ");
  Fake().events_sink()->Output(1, "world\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "hello world\n");
  unsigned long long id;
  OK(cu.cuCtxGetId(context_, &id));
  auto set = reinterpret_cast<void (*)(OutputSink)>(FindExport("tf_set_output_sink"));
  set([](CUcontext context, const char* text, size_t size) {
    sunk_context = context;
    sunk.append(text, size);
  });
  Fake().events_sink()->Output(id, "sunk");
  set(nullptr);
  EXPECT_EQ(sunk, "sunk");
  EXPECT_EQ(sunk_context, context_);
}

// Rule 32: the child of a fork fails fast and touches nothing; the parent goes on.
TEST_F(DriverTest, ChildOfForkFailsFast) {
  int before = Fake().Count("MemoryAllocate");
  pid_t child = fork();
  if (child == 0) {
    CUdeviceptr p;
    int version;
    const char* name;
    bool good = cu.cuMemAlloc_v2(&p, 10) == CUDA_ERROR_NOT_INITIALIZED &&
                cu.cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED && cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                cu.cuDriverGetVersion(&version) == CUDA_SUCCESS &&
                cu.cuGetErrorName(CUDA_SUCCESS, &name) == CUDA_SUCCESS;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  Memory(10);
  EXPECT_EQ(Fake().Count("MemoryAllocate"), before + 1);
}

// Threads that make, use and destroy everything at once; objects that one thread ends are found by the others or not.
TEST_F(DriverTest, ManyThreads) {
  CUlibrary library;
  OK(cu.cuLibraryLoadData(&library, FakeBackend::kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel;
  OK(cu.cuLibraryGetKernel(&kernel, library, "none"));
  std::array<std::atomic<CUevent>, 16> shared_events{};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ASSERT_EQ(cu.cuCtxSetCurrent(context_), CUDA_SUCCESS);
      std::mt19937 random(t);
      for (int i = 0; i < 500; ++i) {
        CUstream stream;
        ASSERT_EQ(cu.cuStreamCreate(&stream, 0), CUDA_SUCCESS);
        ASSERT_EQ(
            cu.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
            CUDA_SUCCESS);
        CUevent event;
        ASSERT_EQ(cu.cuEventCreate(&event, 0), CUDA_SUCCESS);
        ASSERT_EQ(cu.cuEventRecord(event, stream), CUDA_SUCCESS);
        CUevent old = shared_events[random() % 16].exchange(event);
        if (old != nullptr) {
          ASSERT_EQ(cu.cuEventDestroy_v2(old), CUDA_SUCCESS);
        }
        CUevent any = shared_events[random() % 16].load();
        CUresult result = cu.cuEventQuery(any);
        ASSERT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_HANDLE);
        CUdeviceptr p;
        ASSERT_EQ(cu.cuMemAlloc_v2(&p, 64), CUDA_SUCCESS);
        ASSERT_EQ(cu.cuMemsetD8Async(p, 1, 64, stream), CUDA_SUCCESS);
        ASSERT_EQ(cu.cuMemFree_v2(p), CUDA_SUCCESS);
        ASSERT_EQ(cu.cuStreamDestroy_v2(stream), CUDA_SUCCESS);
        if (i % 50 == 0) {
          CUcontext mine, popped;
          ASSERT_EQ(cu.cuCtxCreate_v2(&mine, 0, t % 2), CUDA_SUCCESS);
          ASSERT_EQ(
              cu.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              CUDA_SUCCESS);
          ASSERT_EQ(cu.cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
          ASSERT_EQ(cu.cuCtxDestroy_v2(mine), CUDA_SUCCESS);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  OK(cu.cuLibraryUnload(library));
}

// A lost worker, and failures to start, each in a process of their own.
TEST(DriverStart, LossEndsEverything) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CUcontext context;
        CUdeviceptr p;
        int count;
        cu.cuInit(0);
        cu.cuCtxCreate_v2(&context, 0, 0);
        Fake().always["MemoryAllocate"] = CUDA_ERROR_DEVICE_UNAVAILABLE;
        bool good = cu.cuMemAlloc_v2(&p, 10) == CUDA_ERROR_DEVICE_UNAVAILABLE &&
                    cu.cuDeviceGetCount(&count) == CUDA_ERROR_DEVICE_UNAVAILABLE &&
                    cu.cuCtxSynchronize() == CUDA_ERROR_DEVICE_UNAVAILABLE &&
                    cu.cuInit(0) == CUDA_ERROR_DEVICE_UNAVAILABLE;
        _exit(good ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "the connection to the GPU is lost");
}

TEST(DriverStart, FailuresHaveTheirErrors) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  struct Case {
    absl::Status status;
    CUresult result;
  } cases[] = {{absl::NotFoundError("why"), CUDA_ERROR_NO_DEVICE},
               {absl::UnavailableError("why"), CUDA_ERROR_DEVICE_UNAVAILABLE},
               {absl::FailedPreconditionError("why"), CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
               {absl::PermissionDeniedError("why"), CUDA_ERROR_OPERATING_SYSTEM},
               {absl::InternalError("why"), CUDA_ERROR_UNKNOWN}};
  for (const Case& test : cases) {
    EXPECT_EXIT(
        {
          int count;
          SetMakeStatus(test.status);
          bool good = cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED && cu.cuInit(0) == test.result &&
                      cu.cuInit(0) == test.result && cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED;
          _exit(good ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "^tensor-fusion: CUDA cannot start: why\n$");
  }
}

TEST(DriverStart, LaunchesBlockWhenAsked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("TF_LAUNCH_BLOCKING", "1", 1);
        CUcontext context;
        CUmodule module;
        CUfunction function;
        cu.cuInit(0);
        cu.cuCtxCreate_v2(&context, 0, 0);
        cu.cuModuleLoadData(&module, FakeBackend::kImage);
        cu.cuModuleGetFunction(&function, module, "none");
        Fake().fails["StreamSynchronize"] = CUDA_ERROR_ASSERT;
        auto launch = [&] { return cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); };
        _exit(launch() == CUDA_ERROR_ASSERT && launch() == CUDA_ERROR_ASSERT ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(DriverStart, CallsAfterStaticDestructorsWork) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CUcontext context;
        cu.cuInit(0);
        cu.cuCtxCreate_v2(&context, 0, 0);
        // Runs after destructors of everything that this program constructed later.
        std::atexit([] {
          CUdeviceptr p;
          if (cu.cuMemAlloc_v2(&p, 10) != CUDA_SUCCESS || cu.cuMemFree_v2(p) != CUDA_SUCCESS) _exit(1);
        });
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

// Rule 36.
TEST(VisibleDevicesTest, ListsAndOrders) {
  std::vector<DeviceFacts> devices(4);
  const char* uuids[] = {"GPU-aa000000-1", "GPU-aa111111-2", "GPU-bb000000-3", "GPU-cc000000-4"};
  uint32_t buses[] = {9, 3, 5, 1};
  for (int i = 0; i < 4; ++i) {
    devices[i].uuid = uuids[i];
    devices[i].pci_bus = buses[i];
  }
  auto visible = [&](const char* list, const char* order = nullptr) { return VisibleDevices(devices, list, order); };
  EXPECT_THAT(visible(nullptr), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(visible(nullptr, "PCI_BUS_ID"), ElementsAre(3, 1, 2, 0));
  EXPECT_THAT(visible("0", "PCI_BUS_ID"), ElementsAre(3));
  EXPECT_THAT(visible(""), ElementsAre());
  EXPECT_THAT(visible("2,0"), ElementsAre(2, 0));
  EXPECT_THAT(visible(" 2 , 1 "), ElementsAre(2, 1));
  EXPECT_THAT(visible("1,4,0"), ElementsAre(1));
  EXPECT_THAT(visible("1,-1,0"), ElementsAre(1));
  EXPECT_THAT(visible("-1"), ElementsAre());
  EXPECT_THAT(visible("1,x"), ElementsAre(1));
  EXPECT_THAT(visible("1,1"), ElementsAre());
  EXPECT_THAT(visible("GPU-bb,GPU-aa1"), ElementsAre(2, 1));
  EXPECT_THAT(visible("gpu-CC000000-4,0"), ElementsAre(3, 0));
  EXPECT_THAT(visible("0,GPU-aa"), ElementsAre(0));  // fits two
  EXPECT_THAT(visible("MIG-x"), ElementsAre());
}

}  // namespace
}  // namespace tf::cuda::driver
