// The simulated libcuda.so.1 as a program sees it: loaded by name, used through its exported functions.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/driver_types.h"
#include "simgpu/card_model.h"

namespace tf::simgpu {
namespace {

constexpr char kPtx[] = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r1, [n];
  setp.ge.u32 %p, %r4, %r1;
  @%p ret;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  mul.wide.u32 %rd4, %r4, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
  ret;
}
)";

class LibCuda : public testing::Test {
 protected:
  LibCuda() {
    setenv("TF_SIM_SEED", absl::StrCat("libcuda_test ", getpid()).c_str(), 1);
    setenv("TF_SIM_GPUS", "T4:2", 1);
  }
  ~LibCuda() override {
    if (auto cards = CardsFromEnvironment(); cards.ok()) {
      unlink(absl::StrCat("/dev/shm/tensor-fusion-sim-", geteuid(), "-", cards->identity).c_str());
    }
  }

  template <typename... Arguments>
  CUresult Call(const char* name, Arguments... arguments) {
    void* library = dlopen(TF_SIM_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    auto function = reinterpret_cast<CUresult (*)(Arguments...)>(dlsym(library, name));
    EXPECT_NE(function, nullptr) << name;
    return function(arguments...);
  }
};

// First: it must run before this process has set the driver up.
TEST_F(LibCuda, ABadSpecificationFailsWithOneLine) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 2);
    close(ends[1]);
    setenv("TF_SIM_GPUS", "A100-80G:x", 1);
    _exit(Call("cuInit", 0u));
  }
  close(ends[1]);
  std::string text(4096, 0);
  size_t size = 0;
  for (ssize_t got; (got = read(ends[0], text.data() + size, text.size() - size)) > 0;) size += got;
  close(ends[0]);
  text.resize(size);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(text, testing::HasSubstr("TF_SIM_GPUS=\"A100-80G:x\": the count \"x\" of A100-80G is not a number"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(LibCuda, VectorAdd) {
  ASSERT_EQ(Call("cuInit", 0u), CUDA_SUCCESS);
  int count = 0, version = 0;
  EXPECT_EQ(Call("cuDeviceGetCount", &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(Call("cuDriverGetVersion", &version), CUDA_SUCCESS);
  EXPECT_EQ(version, kDriverVersion);
  char name[64];
  EXPECT_EQ(Call("cuDeviceGetName", name, int{sizeof name}, CUdevice{1}), CUDA_SUCCESS);
  EXPECT_STREQ(name, "Tesla T4");

  CUcontext context;
  ASSERT_EQ(Call("cuDevicePrimaryCtxRetain", &context, CUdevice{1}), CUDA_SUCCESS);
  ASSERT_EQ(Call("cuCtxSetCurrent", context), CUDA_SUCCESS);
  CUmodule module;
  CUfunction function;
  ASSERT_EQ(Call("cuModuleLoadData", &module, static_cast<const void*>(kPtx)), CUDA_SUCCESS);
  ASSERT_EQ(Call("cuModuleGetFunction", &function, module, "vector_add"), CUDA_SUCCESS);

  unsigned n = 100'000;
  std::vector<float> a(n), b(n), c(n);
  for (unsigned i = 0; i < n; ++i) a[i] = i, b[i] = 2 * i;
  CUdeviceptr pointers[3];
  for (CUdeviceptr& pointer : pointers) ASSERT_EQ(Call("cuMemAlloc_v2", &pointer, size_t{n} * 4), CUDA_SUCCESS);
  const void* sources[] = {a.data(), b.data()};
  for (int i : {0, 1}) ASSERT_EQ(Call("cuMemcpyHtoD_v2", pointers[i], sources[i], size_t{n} * 4), CUDA_SUCCESS);
  void* arguments[] = {&pointers[0], &pointers[1], &pointers[2], &n};
  ASSERT_EQ(Call("cuLaunchKernel", function, (n + 255) / 256, 1u, 1u, 256u, 1u, 1u, 0u, CUstream{nullptr},
                 static_cast<void**>(arguments), static_cast<void**>(nullptr)),
            CUDA_SUCCESS);
  ASSERT_EQ(Call("cuMemcpyDtoH_v2", static_cast<void*>(c.data()), pointers[2], size_t{n} * 4), CUDA_SUCCESS);
  for (unsigned i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
  for (CUdeviceptr pointer : pointers) EXPECT_EQ(Call("cuMemFree_v2", pointer), CUDA_SUCCESS);
  EXPECT_EQ(Call("cuDevicePrimaryCtxRelease_v2", CUdevice{1}), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tf::simgpu
