// Takes all memory of the GPU down to the last page, expects error 2 (out of memory), gives it back and goes on.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <vector>

#include "example.h"

int main(int argc, char** argv) {
  long limit = 0;
  example::ParseOptions(argc, argv, "out_of_memory", "allocates until the GPU has no more",
                        {{"", &limit, "total memory that the GPU shall report, in MiB; 0: any"}});
  constexpr double kMiB = 1 << 20;
  size_t free_at_start, total;
  CHECK(cudaMemGetInfo(&free_at_start, &total));
  if (limit != 0 && total != size_t(limit) << 20) {
    example::Fail("cudaMemGetInfo says %.3f MiB in total, expected %ld", total / kMiB, limit);
  }
  if (free_at_start > total) example::Fail("%zu bytes free of %zu", free_at_start, total);

  std::vector<void*> blocks;
  size_t taken = 0;
  int refusals = 0;
  for (size_t chunk = total / 8; chunk > 0;) {
    void* block = nullptr;
    const cudaError_t error = cudaMalloc(&block, chunk);
    if (error == cudaSuccess) {
      blocks.push_back(block);
      taken += chunk;
      if (taken > total) example::Fail("got %zu bytes of %zu", taken, total);
      continue;
    }
    if (error != cudaErrorMemoryAllocation) {
      example::Fail("cudaMalloc says %s (%d), expected error 2", cudaGetErrorName(error), (int)error);
    }
    if (cudaGetLastError() != cudaErrorMemoryAllocation) example::Fail("cudaGetLastError did not keep the error");
    if (cudaGetLastError() != cudaSuccess) example::Fail("cudaGetLastError did not reset the error");
    ++refusals;
    chunk /= 2;
  }
  size_t free_when_full;
  CHECK(cudaMemGetInfo(&free_when_full, &total));
  // Memory is dealt in pages, so less than one is left. Without a limit the card may be shared, and its figures move.
  const size_t slack = limit != 0 ? 2 << 20 : 64 << 20;
  if (free_when_full > slack) example::Fail("refused although %.2f MiB are free", free_when_full / kMiB);
  if (taken < free_at_start - free_at_start / 16) {
    example::Fail("could take only %.0f of %.0f MiB", taken / kMiB, free_at_start / kMiB);
  }

  for (void* block : blocks) CHECK(cudaFree(block));
  size_t free_at_end;
  CHECK(cudaMemGetInfo(&free_at_end, &total));
  if (limit != 0 ? free_at_end != free_at_start : free_at_end + slack < free_at_start) {
    example::Fail("%zu bytes free after giving all back, %zu at the start", free_at_end, free_at_start);
  }

  unsigned char* again;
  CHECK(cudaMalloc(&again, 1 << 20));
  CHECK(cudaMemset(again, 0x5a, 1 << 20));
  std::vector<unsigned char> read(1 << 20), expected(1 << 20, 0x5a);
  CHECK(cudaMemcpy(read.data(), again, read.size(), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(again));
  example::ExpectEqual(read.data(), expected.data(), read.size());
  example::Pass("%.1f of %.1f MiB taken in %zu blocks, then refused %d times, all given back", taken / kMiB,
                total / kMiB, blocks.size(), refusals);
}
