// Counts byte values: atomics in shared memory for each block, then atomics in global memory.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <vector>

#include "example.h"

constexpr int kBins = 256;

__global__ void Count(const unsigned char* data, unsigned* bins, int count) {
  __shared__ unsigned block_bins[kBins];
  for (unsigned bin = threadIdx.x; bin < kBins; bin += blockDim.x) block_bins[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    atomicAdd(&block_bins[data[i]], 1u);
  }
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    if (block_bins[bin] != 0) atomicAdd(&bins[bin], block_bins[bin]);
  }
}

// The other atomics, over all threads, into one result each.
struct Extremes {
  int min, max;
  unsigned bits_or, bits_and, bits_xor, wrapped;
  unsigned long long sum;
  float float_sum;
  int cas_max;
};

__global__ void Extreme(const unsigned char* data, Extremes* result, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const int value = data[i] + (i & 1023) - 512;
    atomicMin(&result->min, value);
    atomicMax(&result->max, value);
    atomicOr(&result->bits_or, 1u << (data[i] & 31));
    atomicAnd(&result->bits_and, ~(1u << (data[i] & 15)));
    atomicXor(&result->bits_xor, (unsigned)i * 2654435761u);
    atomicInc(&result->wrapped, 9u);
    atomicAdd(&result->sum, (unsigned long long)data[i] << 20);
    atomicAdd(&result->float_sum, 0.5f);
    int seen = result->cas_max;
    while (seen < value) {
      const int before = atomicCAS(&result->cas_max, seen, value);
      if (before == seen) break;
      seen = before;
    }
  }
}

int main(int argc, char** argv) {
  long count = 1 << 20;
  example::ParseOptions(argc, argv, "histogram", "counts byte values with atomics", {{"size", &count, "bytes"}});
  if (count == 0) example::Fail("--size must be at least 1");
  std::vector<unsigned char> data(count);
  std::vector<unsigned> bins(kBins), expected(kBins);
  example::Random random(6);
  for (long i = 0; i < count; ++i) {
    data[i] = static_cast<unsigned char>(random.Next() % 256 & random.Next() % 256);
    ++expected[data[i]];
  }
  unsigned char* device_data;
  unsigned* device_bins;
  CHECK(cudaMalloc(&device_data, count));
  CHECK(cudaMalloc(&device_bins, kBins * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_data, data.data(), count, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(device_bins, 0, kBins * sizeof(unsigned)));
  example::Timer timer;
  Count<<<64, 256>>>(device_data, device_bins, count);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const double kernel = timer.Lap();
  CHECK(cudaMemcpy(bins.data(), device_bins, kBins * sizeof(unsigned), cudaMemcpyDeviceToHost));
  example::ExpectEqual(bins.data(), expected.data(), kBins);

  const int some = count < 16384 ? count : 16384;
  const Extremes start = {1 << 30, -(1 << 30), 0, ~0u, 0, 0, 0, 0.0f, -(1 << 30)};
  Extremes result = start, shall = start;
  for (int i = 0; i < some; ++i) {
    const int value = data[i] + (i & 1023) - 512;
    if (value < shall.min) shall.min = value;
    if (value > shall.max) shall.max = value;
    shall.bits_or |= 1u << (data[i] & 31);
    shall.bits_and &= ~(1u << (data[i] & 15));
    shall.bits_xor ^= (unsigned)i * 2654435761u;
    shall.sum += (unsigned long long)data[i] << 20;
  }
  shall.wrapped = some % 10;  // atomicInc(…, 9) counts 0 … 9
  shall.float_sum = 0.5f * some;
  shall.cas_max = shall.max;
  Extremes* device_result;
  CHECK(cudaMalloc(&device_result, sizeof(Extremes)));
  CHECK(cudaMemcpy(device_result, &start, sizeof start, cudaMemcpyHostToDevice));
  Extreme<<<16, 128>>>(device_data, device_result, some);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&result, device_result, sizeof result, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_data));
  CHECK(cudaFree(device_bins));
  CHECK(cudaFree(device_result));
  const double is[] = {double(result.min),      double(result.max),       double(result.bits_or),
                       double(result.bits_and), double(result.bits_xor),  double(result.wrapped),
                       double(result.sum),      double(result.float_sum), double(result.cas_max)};
  const double should[] = {double(shall.min),      double(shall.max),       double(shall.bits_or),
                           double(shall.bits_and), double(shall.bits_xor),  double(shall.wrapped),
                           double(shall.sum),      double(shall.float_sum), double(shall.cas_max)};
  const char* names[] = {
      "atomicMin",          "atomicMax", "atomicOr", "atomicAnd", "atomicXor", "atomicInc", "atomicAdd of 64 bits",
      "atomicAdd of float", "atomicCAS"};
  for (int i = 0; i < 9; ++i) {
    if (is[i] != should[i]) example::Fail("%s gave %.0f, expected %.0f", names[i], is[i], should[i]);
  }
  example::Pass("%ld bytes: kernel %.2f ms, and nine kinds of atomics", count, kernel);
}
