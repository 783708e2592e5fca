// Adds two vectors: allocation, copies both ways, one launch.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <vector>

#include "example.h"

__global__ void Add(const float* a, const float* b, float* sum, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + b[i];
}

int main(int argc, char** argv) {
  long count = 1 << 20;
  example::ParseOptions(argc, argv, "vector_add", "adds two vectors", {{"size", &count, "elements"}});
  const size_t bytes = count * sizeof(float);
  std::vector<float> a(count), b(count), sum(count), expected(count);
  example::Random random(1);
  for (long i = 0; i < count; ++i) {
    a[i] = random.NextFloat();
    b[i] = random.NextFloat();
    expected[i] = a[i] + b[i];
  }

  float *device_a, *device_b, *device_sum;
  CHECK(cudaMalloc(&device_a, bytes));
  CHECK(cudaMalloc(&device_b, bytes));
  CHECK(cudaMalloc(&device_sum, bytes));

  example::Timer timer;
  CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
  const double in = timer.Lap();
  if (count > 0) Add<<<(count + 255) / 256, 256>>>(device_a, device_b, device_sum, count);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const double kernel = timer.Lap();
  CHECK(cudaMemcpy(sum.data(), device_sum, bytes, cudaMemcpyDeviceToHost));
  const double out = timer.Lap();

  CHECK(cudaFree(device_a));
  CHECK(cudaFree(device_b));
  CHECK(cudaFree(device_sum));
  example::ExpectEqual(sum.data(), expected.data(), count);
  example::Pass("%ld elements: copy in %.2f ms, kernel %.2f ms, copy out %.2f ms", count, in, kernel, out);
}
