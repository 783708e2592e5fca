// Multiplies two square matrices, tile by tile through shared memory.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <vector>

#include "example.h"

constexpr int kTile = 16;

__global__ void Multiply(const float* a, const float* b, float* product, int size) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int start = 0; start < size; start += kTile) {
    const int a_column = start + threadIdx.x, b_row = start + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < size && a_column < size ? a[row * size + a_column] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] = b_row < size && column < size ? b[b_row * size + column] : 0.0f;
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  if (row < size && column < size) product[row * size + column] = sum;
}

int main(int argc, char** argv) {
  long size = 200;
  example::ParseOptions(argc, argv, "matmul", "multiplies two square matrices", {{"size", &size, "rows and columns"}});
  const size_t count = size * size, bytes = count * sizeof(float);
  std::vector<float> a(count), b(count), product(count), expected(count);
  example::Random random(2);
  for (size_t i = 0; i < count; ++i) {
    a[i] = random.NextFloat();
    b[i] = random.NextFloat();
  }
  for (long row = 0; row < size; ++row) {
    for (long k = 0; k < size; ++k) {
      const float factor = a[row * size + k];
      for (long column = 0; column < size; ++column) expected[row * size + column] += factor * b[k * size + column];
    }
  }

  float *device_a, *device_b, *device_product;
  CHECK(cudaMalloc(&device_a, bytes));
  CHECK(cudaMalloc(&device_b, bytes));
  CHECK(cudaMalloc(&device_product, bytes));
  CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
  const unsigned tiles = (size + kTile - 1) / kTile;
  example::Timer timer;
  if (tiles > 0) Multiply<<<dim3(tiles, tiles), dim3(kTile, kTile)>>>(device_a, device_b, device_product, size);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const double kernel = timer.Lap();
  CHECK(cudaMemcpy(product.data(), device_product, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_a));
  CHECK(cudaFree(device_b));
  CHECK(cudaFree(device_product));

  // The order of additions differs from the CPU's only by fused operations.
  example::ExpectEqual(product.data(), expected.data(), count, 1e-4);
  example::Pass("%ld x %ld: kernel %.2f ms, %.3f GFLOP/s", size, size, kernel, 2e-6 * size * size * size / kernel);
}
