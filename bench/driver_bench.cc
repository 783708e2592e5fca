// What the driver front costs a call: launches and context look-ups over a card that does nothing.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "cuda/driver/exports.h"
#include "cuda/driver/fake_backend.h"
#include "cuda/driver_functions.h"

namespace tf::cuda::driver {
namespace {

struct Program {
  DriverFunctions cu;
  CUcontext context = nullptr;
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;

  Program() {
    cu.Load([](const char* symbol) { return FindExport(symbol); });
    CUmodule module;
    CUlibrary library;
    auto check = [](CUresult result) {
      if (result != CUDA_SUCCESS) std::abort();
    };
    check(cu.cuInit(0));
    check(cu.cuDevicePrimaryCtxRetain(&context, 0));
    check(cu.cuCtxSetCurrent(context));
    check(cu.cuModuleLoadData(&module, FakeBackend::kImage));
    check(cu.cuModuleGetFunction(&function, module, "add"));
    check(cu.cuLibraryLoadData(&library, FakeBackend::kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
    check(cu.cuLibraryGetKernel(&kernel, library, "add"));
    Fake().idle = true;
  }
};

Program& program() {
  static Program& instance = *new Program;
  return instance;
}

void Launch(benchmark::State& state, CUfunction function, CUstream stream) {
  const DriverFunctions& cu = program().cu;
  cu.cuCtxSetCurrent(program().context);
  CUdeviceptr a = 1, b = 2, c = 3;
  int n = 4;
  void* arguments[] = {&a, &b, &c, &n};
  for (auto _ : state) {
    if (cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr) != CUDA_SUCCESS) std::abort();
  }
}

void LaunchFunction(benchmark::State& state) { Launch(state, program().function, nullptr); }
BENCHMARK(LaunchFunction)->ThreadRange(1, 2);

void LaunchKernelHandle(benchmark::State& state) {
  Launch(state, reinterpret_cast<CUfunction>(program().kernel), nullptr);
}
BENCHMARK(LaunchKernelHandle);

void LaunchInStream(benchmark::State& state) {
  CUstream stream;
  program().cu.cuStreamCreate(&stream, 0);
  Launch(state, program().function, stream);
  program().cu.cuStreamDestroy_v2(stream);
}
BENCHMARK(LaunchInStream);

void CurrentContext(benchmark::State& state) {
  const DriverFunctions& cu = program().cu;
  CUcontext context;
  for (auto _ : state) cu.cuCtxGetCurrent(&context);
}
BENCHMARK(CurrentContext);

}  // namespace
}  // namespace tf::cuda::driver

BENCHMARK_MAIN();
