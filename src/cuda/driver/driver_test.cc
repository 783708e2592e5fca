// The driver API over a fake card: what a program sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace tf::cuda::driver
