// Running sums of a long array: each block scans its part by shuffles up, the blocks' totals are scanned, then added.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <vector>

#include "example.h"

constexpr int kBlock = 512;

// The sum over this thread and those before it in the block.
__device__ unsigned BlockScan(unsigned value) {
  __shared__ unsigned of_warp[kBlock / 32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    const unsigned before = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= (unsigned)distance) value += before;
  }
  if (lane == 31) of_warp[warp] = value;
  __syncthreads();
  if (warp == 0) {
    unsigned total = lane < kBlock / 32 ? of_warp[lane] : 0;
    for (int distance = 1; distance < 32; distance *= 2) {
      const unsigned before = __shfl_up_sync(0xffffffffu, total, distance);
      if (lane >= (unsigned)distance) total += before;
    }
    if (lane < kBlock / 32) of_warp[lane] = total;
  }
  __syncthreads();
  return warp == 0 ? value : value + of_warp[warp - 1];
}

__global__ void ScanBlocks(const unsigned* in, unsigned* out, unsigned* totals, int count) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  const unsigned sum = BlockScan(i < count ? in[i] : 0);
  if (i < count) out[i] = sum;
  if (totals != nullptr && threadIdx.x == kBlock - 1) totals[blockIdx.x] = sum;
}

__global__ void AddTotals(unsigned* out, const unsigned* totals, int count) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  if (blockIdx.x > 0 && i < count) out[i] += totals[blockIdx.x - 1];
}

// Scans `count` numbers of `in` into `out`, level by level.
void Scan(const unsigned* in, unsigned* out, int count) {
  const int blocks = (count + kBlock - 1) / kBlock;
  if (blocks == 1) {
    ScanBlocks<<<1, kBlock>>>(in, out, nullptr, count);
    return;
  }
  unsigned* totals;
  CHECK(cudaMalloc(&totals, blocks * sizeof(unsigned)));
  ScanBlocks<<<blocks, kBlock>>>(in, out, totals, count);
  Scan(totals, totals, blocks);
  AddTotals<<<blocks, kBlock>>>(out, totals, count);
  CHECK(cudaGetLastError());
  CHECK(cudaFree(totals));
}

int main(int argc, char** argv) {
  long count = 1000000;
  example::ParseOptions(argc, argv, "scan", "running sums of an array", {{"size", &count, "elements"}});
  if (count == 0) example::Fail("--size must be at least 1");
  const size_t bytes = count * sizeof(unsigned);
  std::vector<unsigned> in(count), out(count), expected(count);
  example::Random random(7);
  unsigned sum = 0;
  for (long i = 0; i < count; ++i) {
    in[i] = random.Next() % 1000;
    expected[i] = sum += in[i];
  }
  unsigned *device_in, *device_out;
  CHECK(cudaMalloc(&device_in, bytes));
  CHECK(cudaMalloc(&device_out, bytes));
  CHECK(cudaMemcpy(device_in, in.data(), bytes, cudaMemcpyHostToDevice));
  example::Timer timer;
  Scan(device_in, device_out, count);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const double kernels = timer.Lap();
  CHECK(cudaMemcpy(out.data(), device_out, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_out));
  example::ExpectEqual(out.data(), expected.data(), count);
  example::Pass("%ld elements: kernels %.2f ms", count, kernels);
}
