// Two host threads, a GPU each, at work at the same time. With fewer GPUs it says so and leaves with status 2.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <thread>
#include <vector>

#include "example.h"

__global__ void Scale(float* data, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * factor + 1.0f;
}

int main(int argc, char** argv) {
  long count = 1 << 18;
  example::ParseOptions(argc, argv, "two_gpus", "two threads, a GPU each", {{"size", &count, "elements on each GPU"}});
  if (count == 0) example::Fail("--size must be at least 1");
  int gpus = 0;
  CHECK(cudaGetDeviceCount(&gpus));
  if (gpus < 2) {
    std::printf("two_gpus: needs 2 GPUs, found %d\n", gpus);
    return 2;
  }
  constexpr int kRounds = 8;
  std::vector<float> data[2];
  std::thread threads[2];
  example::Timer timer;
  for (int gpu = 0; gpu < 2; ++gpu) {
    data[gpu].resize(count);
    for (long i = 0; i < count; ++i) data[gpu][i] = static_cast<float>((i + gpu) % 100);
    threads[gpu] = std::thread([gpu, count, &data] {
      CHECK(cudaSetDevice(gpu));
      float* device;
      CHECK(cudaMalloc(&device, count * sizeof(float)));
      CHECK(cudaMemcpy(device, data[gpu].data(), count * sizeof(float), cudaMemcpyHostToDevice));
      for (int round = 0; round < kRounds; ++round) {
        Scale<<<(count + 255) / 256, 256>>>(device, gpu == 0 ? 0.5f : 0.25f, count);
        CHECK(cudaGetLastError());
      }
      CHECK(cudaMemcpy(data[gpu].data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
      int current = -1;
      CHECK(cudaGetDevice(&current));
      if (current != gpu) example::Fail("the thread of GPU %d works on GPU %d", gpu, current);
      cudaPointerAttributes attributes;
      CHECK(cudaPointerGetAttributes(&attributes, device));
      if (attributes.device != gpu) example::Fail("memory of GPU %d lies on GPU %d", gpu, attributes.device);
      CHECK(cudaFree(device));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double milliseconds = timer.Lap();
  for (int gpu = 0; gpu < 2; ++gpu) {
    std::vector<float> expected(count);
    for (long i = 0; i < count; ++i) {
      float value = static_cast<float>((i + gpu) % 100);
      for (int round = 0; round < kRounds; ++round) value = value * (gpu == 0 ? 0.5f : 0.25f) + 1.0f;
      expected[i] = value;
    }
    example::ExpectEqual(data[gpu].data(), expected.data(), count, 1e-6);
  }
  example::Pass("2 of %d GPUs, %ld elements each: %.2f ms", gpus, count, milliseconds);
}
