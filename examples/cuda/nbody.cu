// Bodies that attract one another: compute-bound, so its speed is the share of the GPU that it gets.
// `--seconds N` runs that long and prints the steps done each second.
#ifndef __NVCC__
#include <tensor_fusion/cuda_runtime.h>
#endif

#include <utility>
#include <vector>

#include "example.h"

constexpr int kBlock = 128;
constexpr float kSoftening = 0.01f;
constexpr float kTimeStep = 0.001f;

// The mass is in w of the position.
__global__ void Step(const float4* from, float4* to, float4* velocities, int count) {
  __shared__ float4 tile[kBlock];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  const float4 self = i < count ? from[i] : make_float4(0, 0, 0, 0);
  float ax = 0, ay = 0, az = 0;
  for (int start = 0; start < count; start += kBlock) {
    const int other = start + threadIdx.x;
    tile[threadIdx.x] = other < count ? from[other] : make_float4(0, 0, 0, 0);
    __syncthreads();
    for (int j = 0; j < kBlock; ++j) {
      const float dx = tile[j].x - self.x, dy = tile[j].y - self.y, dz = tile[j].z - self.z;
      const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
      const float pull = tile[j].w * inverse * inverse * inverse;
      ax += dx * pull;
      ay += dy * pull;
      az += dz * pull;
    }
    __syncthreads();
  }
  if (i >= count) return;
  float4 v = velocities[i];
  v.x += ax * kTimeStep;
  v.y += ay * kTimeStep;
  v.z += az * kTimeStep;
  velocities[i] = v;
  to[i] = make_float4(self.x + v.x * kTimeStep, self.y + v.y * kTimeStep, self.z + v.z * kTimeStep, self.w);
}

void StepOnCpu(const std::vector<float4>& from, std::vector<float4>& to, std::vector<float4>& velocities) {
  for (size_t i = 0; i < from.size(); ++i) {
    float ax = 0, ay = 0, az = 0;
    for (const float4& other : from) {
      const float dx = other.x - from[i].x, dy = other.y - from[i].y, dz = other.z - from[i].z;
      const float inverse = 1.0f / std::sqrt(dx * dx + dy * dy + dz * dz + kSoftening);
      const float pull = other.w * inverse * inverse * inverse;
      ax += dx * pull;
      ay += dy * pull;
      az += dz * pull;
    }
    float4& v = velocities[i];
    v.x += ax * kTimeStep;
    v.y += ay * kTimeStep;
    v.z += az * kTimeStep;
    to[i].x = from[i].x + v.x * kTimeStep;
    to[i].y = from[i].y + v.y * kTimeStep;
    to[i].z = from[i].z + v.z * kTimeStep;
    to[i].w = from[i].w;
  }
}

int main(int argc, char** argv) {
  long count = 1000, steps = 10, seconds = 0;
  example::ParseOptions(argc, argv, "nbody", "bodies that attract one another",
                        {{"size", &count, "bodies"},
                         {"steps", &steps, "steps to do"},
                         {"seconds", &seconds, "go on for so long; 0: only the steps"}});
  if (count == 0 || steps == 0) example::Fail("--size and --steps must be at least 1");
  std::vector<float4> positions(count), velocities(count), next(count);
  example::Random random(9);
  for (long i = 0; i < count; ++i) {
    positions[i] = make_float4(random.NextFloat(), random.NextFloat(), random.NextFloat(), 1.0f / count);
    velocities[i] = make_float4(0, 0, 0, 0);
  }
  const size_t bytes = count * sizeof(float4);
  float4 *from, *to, *device_velocities;
  CHECK(cudaMalloc(&from, bytes));
  CHECK(cudaMalloc(&to, bytes));
  CHECK(cudaMalloc(&device_velocities, bytes));
  CHECK(cudaMemcpy(from, positions.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_velocities, velocities.data(), bytes, cudaMemcpyHostToDevice));
  const unsigned blocks = (count + kBlock - 1) / kBlock;
  auto step = [&] {
    Step<<<blocks, kBlock>>>(from, to, device_velocities, count);
    CHECK(cudaGetLastError());
    std::swap(from, to);
  };

  // The first step is compared body by body; an error in it would only grow.
  step();
  std::vector<float4> after(count);
  CHECK(cudaMemcpy(after.data(), from, bytes, cudaMemcpyDeviceToHost));
  StepOnCpu(positions, next, velocities);
  example::ExpectEqual(&after[0].x, &next[0].x, count * 4, 1e-5);

  example::Timer timer;
  long done = 0;
  double milliseconds = 0;
  do {
    for (long i = 0; i < steps; ++i) step();
    CHECK(cudaDeviceSynchronize());
    done += steps;
    milliseconds += timer.Lap();
  } while (milliseconds < 1000.0 * seconds);

  CHECK(cudaMemcpy(after.data(), from, bytes, cudaMemcpyDeviceToHost));
  for (const float4& body : after) {
    if (!(std::fabs(body.x) < 10 && std::fabs(body.y) < 10 && std::fabs(body.z) < 10) && done < 10000) {
      example::Fail("a body left for (%g, %g, %g)", body.x, body.y, body.z);
    }
  }
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));
  CHECK(cudaFree(device_velocities));
  // 20 operations an interaction, the usual count.
  example::Pass("%ld bodies: %ld steps in %.2f ms, %.1f steps/s, %.3f GFLOP/s", count, done, milliseconds,
                1000.0 * done / milliseconds, 20e-6 * count * count * done / milliseconds);
}
