// Transposes a matrix through a padded tile of shared memory; rows are pitched, copies two-dimensional.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <vector>

#include "example.h"

constexpr int kTile = 32;
constexpr int kRows = 8;

// Pitches are in elements.
__global__ void Transpose(const float* in, size_t in_pitch, float* out, size_t out_pitch, int width, int height) {
  __shared__ float tile[kTile][kTile + 1];
  int x = blockIdx.x * kTile + threadIdx.x;
  int y = blockIdx.y * kTile + threadIdx.y;
  for (int row = 0; row < kTile; row += kRows) {
    if (x < width && y + row < height) tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * in_pitch + x];
  }
  __syncthreads();
  x = blockIdx.y * kTile + threadIdx.x;
  y = blockIdx.x * kTile + threadIdx.y;
  for (int row = 0; row < kTile; row += kRows) {
    if (x < height && y + row < width) out[(y + row) * out_pitch + x] = tile[threadIdx.x][threadIdx.y + row];
  }
}

int main(int argc, char** argv) {
  long size = 1000;
  example::ParseOptions(argc, argv, "transpose", "transposes a matrix", {{"size", &size, "rows; columns are 7 more"}});
  if (size == 0) example::Fail("--size must be at least 1");
  const int height = size, width = size + 7;
  std::vector<float> in(size_t(width) * height), out(in.size()), expected(in.size());
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const float value = static_cast<float>(size_t(y) * width + x);
      in[size_t(y) * width + x] = expected[size_t(x) * height + y] = value;
    }
  }
  float *device_in, *device_out;
  size_t in_pitch, out_pitch;
  CHECK(cudaMallocPitch(&device_in, &in_pitch, width * sizeof(float), height));
  CHECK(cudaMallocPitch(&device_out, &out_pitch, height * sizeof(float), width));
  CHECK(cudaMemcpy2D(device_in, in_pitch, in.data(), width * sizeof(float), width * sizeof(float), height,
                     cudaMemcpyHostToDevice));
  example::Timer timer;
  Transpose<<<dim3((width + kTile - 1) / kTile, (height + kTile - 1) / kTile), dim3(kTile, kRows)>>>(
      device_in, in_pitch / sizeof(float), device_out, out_pitch / sizeof(float), width, height);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const double kernel = timer.Lap();
  CHECK(cudaMemcpy2D(out.data(), height * sizeof(float), device_out, out_pitch, height * sizeof(float), width,
                     cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_out));
  example::ExpectEqual(out.data(), expected.data(), out.size());
  example::Pass("%d x %d: kernel %.2f ms, %.2f GB/s", width, height, kernel, 2e-6 * in.size() * sizeof(float) / kernel);
}
