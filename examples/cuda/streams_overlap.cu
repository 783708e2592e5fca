// Copies and kernels in several streams, ordered by events; a host function reports the end. The result must be that of
// one stream.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <atomic>
#include <vector>

#include "example.h"

constexpr int kStreams = 4;
constexpr int kSteps = 50;

__global__ void Iterate(unsigned* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned value = data[i];
  for (int step = 0; step < kSteps; ++step) value = value * 1664525u + 1013904223u;
  data[i] = value;
}

// Runs after both halves: what one stream wrote, another reads.
__global__ void Combine(const unsigned* left, const unsigned* right, unsigned* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = left[i] ^ right[i];
}

int main(int argc, char** argv) {
  long count = 1 << 18;
  example::ParseOptions(argc, argv, "streams_overlap", "copies and kernels in several streams",
                        {{"size", &count, "elements"}});
  const int part = static_cast<int>(count / kStreams);
  if (part == 0) example::Fail("--size must be at least %d", kStreams);
  count = long(part) * kStreams;
  const size_t bytes = count * sizeof(unsigned);
  const unsigned blocks = (part + 255) / 256;

  unsigned *in, *out, *combined;
  CHECK(cudaHostAlloc((void**)&in, bytes, cudaHostAllocDefault));
  CHECK(cudaHostAlloc((void**)&out, bytes, cudaHostAllocDefault));
  CHECK(cudaHostAlloc((void**)&combined, part * sizeof(unsigned), cudaHostAllocDefault));
  std::vector<unsigned> expected(count), expected_combined(part);
  example::Random random(8);
  for (long i = 0; i < count; ++i) {
    unsigned value = in[i] = random.Next();
    for (int step = 0; step < kSteps; ++step) value = value * 1664525u + 1013904223u;
    expected[i] = value;
  }
  for (int i = 0; i < part; ++i) expected_combined[i] = expected[i] ^ expected[part + i];

  unsigned *device, *device_combined;
  CHECK(cudaMalloc(&device, bytes));
  CHECK(cudaMalloc(&device_combined, part * sizeof(unsigned)));
  cudaStream_t streams[kStreams];
  cudaEvent_t start, end, done[kStreams];
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  for (int s = 0; s < kStreams; ++s) {
    CHECK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
  }

  float milliseconds[2] = {0, 0};
  std::atomic<int> finished{0};
  for (int round = 0; round < 2; ++round) {  // first all in one stream, then spread over all
    std::memset(out, 0, bytes);
    CHECK(cudaEventRecord(start, streams[0]));
    for (int s = 0; s < kStreams; ++s) {
      cudaStream_t stream = streams[round == 0 ? 0 : s];
      CHECK(cudaStreamWaitEvent(stream, start, 0));
      unsigned* slice = device + size_t(s) * part;
      CHECK(cudaMemcpyAsync(slice, in + size_t(s) * part, part * sizeof(unsigned), cudaMemcpyHostToDevice, stream));
      Iterate<<<blocks, 256, 0, stream>>>(slice, part);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpyAsync(out + size_t(s) * part, slice, part * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
      CHECK(cudaEventRecord(done[s], stream));
    }
    for (int s = 1; s < kStreams; ++s) CHECK(cudaStreamWaitEvent(streams[0], done[s], 0));
    Combine<<<blocks, 256, 0, streams[0]>>>(device, device + part, device_combined, part);
    CHECK(cudaMemcpyAsync(combined, device_combined, part * sizeof(unsigned), cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaLaunchHostFunc(streams[0], [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, &finished));
    CHECK(cudaEventRecord(end, streams[0]));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&milliseconds[round], start, end));
    if (finished != round + 1) example::Fail("the host function ran %d times, expected %d", finished.load(), round + 1);
    for (int s = 0; s < kStreams; ++s) CHECK(cudaStreamQuery(streams[s]));
    example::ExpectEqual(out, expected.data(), count);
    example::ExpectEqual(combined, expected_combined.data(), part);
  }
  if (!(milliseconds[0] > 0 && milliseconds[1] > 0)) {
    example::Fail("the events say %g and %g ms", milliseconds[0], milliseconds[1]);
  }

  for (int s = 0; s < kStreams; ++s) {
    CHECK(cudaStreamDestroy(streams[s]));
    CHECK(cudaEventDestroy(done[s]));
  }
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaFree(device));
  CHECK(cudaFree(device_combined));
  CHECK(cudaFreeHost(in));
  CHECK(cudaFreeHost(out));
  CHECK(cudaFreeHost(combined));
  example::Pass("%ld elements: one stream %.2f ms, %d streams %.2f ms", count, milliseconds[0], kStreams,
                milliseconds[1]);
}
