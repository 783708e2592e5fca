// A CUDA program that is in the middle of something when its worker dies, or when it dies itself.
//
//   victim kernel|copy|synchronize|idle
//
// Prints "ready" when it is about to, then does it until the driver answers an error, and prints "error N after S s"
// with the time since the last success.
#include <time.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/loader/library.h"

namespace {

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry forever(.param .u64 flag) {
  .reg .u64 %a;
  .reg .u32 %v;
  .reg .pred %p;
  ld.param.u64 %a, [flag];
again:
  ld.volatile.global.u32 %v, [%a];
  setp.eq.u32 %p, %v, 0;
  @%p bra again;
  ret;
}
)";

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("unexpected error %d of %s\n", result, what);
  std::fflush(stdout);
  _Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc == 2 ? argv[1] : "";
  auto library = tf::cuda::LoadDriver("libcuda.so.1");
  if (!library.ok()) {
    std::printf("%s\n", std::string(library.status().message()).c_str());
    return 1;
  }
  const tf::cuda::DriverFunctions& cu = library->functions;
  Check(cu.cuInit(0), "cuInit");
  CUdevice device;
  CUcontext context;
  Check(cu.cuDeviceGet(&device, 0), "cuDeviceGet");
  Check(cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  Check(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  CUmodule module;
  CUfunction forever;
  Check(cu.cuModuleLoadData(&module, kKernels), "cuModuleLoadData");
  Check(cu.cuModuleGetFunction(&forever, module, "forever"), "cuModuleGetFunction");
  constexpr size_t kBytes = 64 << 20;
  CUdeviceptr memory;
  Check(cu.cuMemAlloc_v2(&memory, kBytes), "cuMemAlloc");
  Check(cu.cuMemsetD8_v2(memory, 0, kBytes), "cuMemsetD8");
  Check(cu.cuCtxSynchronize(), "cuCtxSynchronize");
  std::vector<char> host(kBytes);
  auto launch = [&] {
    void* arguments[] = {&memory};
    return cu.cuLaunchKernel(forever, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
  };
  if (what == "kernel" || what == "synchronize") Check(launch(), "cuLaunchKernel");
  std::printf("ready\n");
  std::fflush(stdout);
  CUresult result = CUDA_SUCCESS;
  double last = Now();
  while (result == CUDA_SUCCESS) {
    last = Now();
    if (what == "kernel") {
      // Asks again and again, as a program that does other things meanwhile.
      while ((result = cu.cuStreamQuery(nullptr)) == CUDA_ERROR_NOT_READY) last = Now();
    } else if (what == "synchronize") {
      result = cu.cuCtxSynchronize();
    } else if (what == "copy") {
      result = cu.cuMemcpyHtoD_v2(memory, host.data(), kBytes);
      if (result == CUDA_SUCCESS) result = cu.cuMemcpyDtoH_v2(host.data(), memory, kBytes);
    } else {
      // Waits to be killed: its standard input never ends.
      char byte;
      if (std::fread(&byte, 1, 1, stdin) == 0) return 0;
    }
  }
  std::printf("error %d after %.1f s\n", result, Now() - last);
  // And it stays an error, at once, for whatever comes next.
  double before = Now();
  size_t free, total;
  CUresult later = cu.cuMemGetInfo_v2(&free, &total);
  std::printf("then %d after %.1f s\n", later, Now() - before);
  std::fflush(stdout);
  return 0;
}
