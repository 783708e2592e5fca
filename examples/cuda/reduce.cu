// Sums numbers: each warp by shuffles, each block through shared memory, the blocks by a second launch.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <vector>

#include "example.h"

constexpr int kBlock = 256;

template <class T>
__device__ T SumOfWarp(T value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xffffffffu, value, distance);
  return value;
}

template <class T>
__global__ void Sum(const T* in, T* out, int count) {
  __shared__ T of_warp[kBlock / 32];
  T sum = 0;
  for (int i = blockIdx.x * kBlock + threadIdx.x; i < count; i += gridDim.x * kBlock) sum += in[i];
  sum = SumOfWarp(sum);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = SumOfWarp(threadIdx.x < kBlock / 32 ? of_warp[threadIdx.x] : T(0));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}

// Returns the kernels' time in milliseconds.
template <class T>
double Test(long count, unsigned seed, double tolerance) {
  constexpr int kBlocks = 64;
  std::vector<T> in(count);
  example::Random random(seed);
  double expected = 0;
  for (long i = 0; i < count; ++i) {
    in[i] = static_cast<T>(random.Next() % 1000);
    expected += static_cast<double>(in[i]);
  }
  T *device_in, *device_sums, *device_total;
  CHECK(cudaMalloc(&device_in, count * sizeof(T)));
  CHECK(cudaMalloc(&device_sums, kBlocks * sizeof(T)));
  CHECK(cudaMalloc(&device_total, sizeof(T)));
  CHECK(cudaMemcpy(device_in, in.data(), count * sizeof(T), cudaMemcpyHostToDevice));
  example::Timer timer;
  Sum<<<kBlocks, kBlock>>>(device_in, device_sums, count);
  Sum<<<1, kBlock>>>(device_sums, device_total, kBlocks);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const double milliseconds = timer.Lap();
  T total;
  CHECK(cudaMemcpy(&total, device_total, sizeof(T), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_sums));
  CHECK(cudaFree(device_total));
  const double is = static_cast<double>(total);
  if (std::fabs(is - expected) > tolerance * expected) example::Fail("the sum is %.12g, expected %.12g", is, expected);
  return milliseconds;
}

int main(int argc, char** argv) {
  long count = 1 << 20;
  example::ParseOptions(argc, argv, "reduce", "sums numbers by warp shuffles", {{"size", &count, "elements"}});
  if (count == 0) example::Fail("--size must be at least 1");
  const double ints = Test<int>(count, 3, 0);
  const double floats = Test<float>(count, 4, 1e-5);
  const double doubles = Test<double>(count, 5, 0);
  example::Pass("%ld elements: int %.2f ms, float %.2f ms, double %.2f ms", count, ints, floats, doubles);
}
