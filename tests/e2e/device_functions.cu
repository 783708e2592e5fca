// Every device function of include/tensor_fusion against the CPU, and what programs see of printf and assert.
//
//   device_functions            compares
//   device_functions assert     a kernel's assert fails: prints it and ends with cudaErrorAssert (status 0 if so)
#include <tensor_fusion/cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

#include "example.h"

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;

__constant__ float constant_table[4];
__device__ int device_counter;

// Math: kernel and CPU fill the same columns for the same inputs.
constexpr int kMathColumns = 24;

__global__ void Math(const double* in, double* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double x = in[i];
  const float f = static_cast<float>(x);
  double* row = out + size_t(i) * kMathColumns;
  const double values[kMathColumns] = {sqrtf(fabsf(f)),
                                       sinf(f),
                                       cosf(f),
                                       expf(f),
                                       logf(fabsf(f) + 0.001f),
                                       powf(fabsf(f), 1.7f),
                                       tanhf(f),
                                       floorf(f),
                                       ceilf(f),
                                       truncf(f),
                                       rintf(f),
                                       roundf(f),
                                       fmodf(f, 0.75f),
                                       fminf(f, 0.5f) + fmaxf(f, 0.25f),
                                       rsqrtf(fabsf(f) + 1.0f),
                                       sqrt(fabs(x)),
                                       sin(x),
                                       cos(x),
                                       exp(x),
                                       log(fabs(x) + 0.001),
                                       pow(fabs(x), 1.7),
                                       fmod(x, 0.75),
                                       round(x) + floor(x) + ceil(x) + trunc(x),
                                       fma(x, x, -1.0)};
  for (int column = 0; column < kMathColumns; ++column) row[column] = values[column];
}

void CheckMath() {
  constexpr int kCount = 2000;
  const char* names[kMathColumns] = {"sqrtf", "sinf",   "cosf",  "expf",   "logf",  "powf",         "tanhf",   "floorf",
                                     "ceilf", "truncf", "rintf", "roundf", "fmodf", "fminf, fmaxf", "rsqrtf",  "sqrt",
                                     "sin",   "cos",    "exp",   "log",    "pow",   "fmod",         "round …", "fma"};
  std::vector<double> in(kCount), out(size_t(kCount) * kMathColumns);
  example::Random random(10);
  for (double& x : in) x = 20.0 * random.NextFloat();
  double *device_in, *device_out;
  CHECK(cudaMalloc(&device_in, in.size() * sizeof(double)));
  CHECK(cudaMalloc(&device_out, out.size() * sizeof(double)));
  CHECK(cudaMemcpy(device_in, in.data(), in.size() * sizeof(double), cudaMemcpyHostToDevice));
  Math<<<(kCount + 127) / 128, 128>>>(device_in, device_out, kCount);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), device_out, out.size() * sizeof(double), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_in));
  CHECK(cudaFree(device_out));
  for (int i = 0; i < kCount; ++i) {
    const double x = in[i];
    const float f = static_cast<float>(x);
    const double g = f;  // float functions: the exact value to compare with
    const double expected[kMathColumns] = {
        std::sqrt(std::fabs(g)),
        std::sin(g),
        std::cos(g),
        std::exp(g),
        std::log(double(std::fabs(f) + 0.001f)),
        std::pow(std::fabs(g), double(1.7f)),
        std::tanh(g),
        std::floor(g),
        std::ceil(g),
        std::trunc(g),
        std::rint(g),
        std::round(g),
        std::fmod(f, 0.75f),
        std::fmin(f, 0.5f) + std::fmax(f, 0.25f),
        1 / std::sqrt(std::fabs(g) + 1),
        std::sqrt(std::fabs(x)),
        std::sin(x),
        std::cos(x),
        std::exp(x),
        std::log(std::fabs(x) + 0.001),
        std::pow(std::fabs(x), 1.7),
        std::fmod(x, 0.75),
        std::round(x) + std::floor(x) + std::ceil(x) + std::trunc(x),
        std::fma(x, x, -1.0),
    };
    for (int column = 0; column < kMathColumns; ++column) {
      const double is = out[size_t(i) * kMathColumns + column], shall = expected[column];
      const double tolerance = column < 15 ? 4e-7 : 1e-13;
      if (!(std::fabs(is - shall) <= tolerance * (std::fabs(shall) > 1e-3 ? std::fabs(shall) : 1))) {
        example::Fail("%s of %.9g is %.17g, expected %.17g", names[column], x, is, shall);
      }
    }
  }
}

// Warp functions and bits: one row for each thread, integers.
constexpr int kWarpColumns = 20;

__global__ void Warp(unsigned* out) {
  const unsigned thread = threadIdx.x, lane = thread % 32, all = 0xffffffffu;
  const unsigned value = thread * 2654435761u;
  unsigned* row = out + thread * kWarpColumns;
  row[0] = __shfl_sync(all, value, 5);
  row[1] = __shfl_up_sync(all, value, 3);
  row[2] = __shfl_down_sync(all, value, 3);
  row[3] = __shfl_xor_sync(all, value, 6);
  row[4] = __shfl_down_sync(all, value, 2, 8);
  row[5] = static_cast<unsigned>(__shfl_sync(all, (unsigned long long)value << 20, 7) >> 20);
  row[6] = __ballot_sync(all, value & 4);
  row[7] = __any_sync(all, lane == 9) * 2 + __all_sync(all, lane < 31);
  row[8] = __match_any_sync(all, lane % 3);
  row[9] = __activemask();
  row[10] = __popc(value);
  row[11] = __clz(static_cast<int>(value)) * 100 + __ffs(static_cast<int>(value));
  row[12] = __brev(value);
  row[13] = __byte_perm(value, ~value, 0x3640);
  row[14] = __funnelshift_l(value, ~value, thread);
  row[15] = __umulhi(value, value + 1);
  row[16] = __syncthreads_count(thread % 5 == 0);
  row[17] = __syncthreads_or(thread == 70) * 2 + __syncthreads_and(thread != 70);
  row[18] = __float_as_uint(constant_table[lane % 4]) + __popcll((unsigned long long)value << 7);
  const long long before = clock64();
  __syncwarp();
  row[19] = clock64() >= before && blockDim.x == kThreads && gridDim.x == 1 && warpSize == 32;
  atomicAdd(&device_counter, 1);
}

void CheckWarp() {
  const float table[4] = {1.5f, -2.0f, 0.25f, 1e10f};
  CHECK(cudaMemcpyToSymbol(constant_table, table, sizeof table));
  const int start = 1000;
  CHECK(cudaMemcpyToSymbol(device_counter, &start, sizeof start));
  unsigned* device;
  std::vector<unsigned> out(kThreads * kWarpColumns), expected(out.size());
  CHECK(cudaMalloc(&device, out.size() * sizeof(unsigned)));
  Warp<<<1, kThreads>>>(device);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), device, out.size() * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));
  int counted = 0;
  CHECK(cudaMemcpyFromSymbol(&counted, device_counter, sizeof counted));
  if (counted != start + kThreads) example::Fail("the variable counts %d, expected %d", counted, start + kThreads);
  const unsigned all_lanes = 0xffffffffu;
  auto value_of = [](unsigned thread) { return thread * 2654435761u; };
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    const unsigned lane = thread % 32, first = thread - lane, value = value_of(thread);
    unsigned ballot = 0, match = 0, reversed = 0;
    for (unsigned other = 0; other < 32; ++other) {
      if (value_of(first + other) & 4) ballot |= 1u << other;
      if (other % 3 == lane % 3) match |= 1u << other;
      if (value & 1u << other) reversed |= 1u << (31 - other);
    }
    const uint64_t both = uint64_t(~value) << 32 | value;
    uint32_t table_bits;
    std::memcpy(&table_bits, &table[lane % 4], sizeof table_bits);
    unsigned permuted = 0;
    for (int byte = 0; byte < 4; ++byte) permuted |= unsigned(both >> (0x3640 >> 4 * byte & 7) * 8 & 0xff) << 8 * byte;
    const unsigned row[kWarpColumns] = {value_of(first + 5),
                                        lane < 3 ? value : value_of(thread - 3),
                                        lane > 28 ? value : value_of(thread + 3),
                                        value_of(first + (lane ^ 6)),
                                        lane % 8 > 5 ? value : value_of(thread + 2),
                                        value_of(first + 7),
                                        ballot,
                                        2,
                                        match,
                                        all_lanes,
                                        unsigned(__builtin_popcount(value)),
                                        unsigned(value ? __builtin_clz(value) : 32) * 100 + __builtin_ffs(value),
                                        reversed,
                                        permuted,
                                        unsigned(both << (thread & 31) >> 32),
                                        unsigned(uint64_t(value) * (value + 1) >> 32),
                                        (kThreads + 4) / 5,
                                        2,
                                        table_bits + __builtin_popcountll(uint64_t(value) << 7),
                                        1};
    std::memcpy(&expected[thread * kWarpColumns], row, sizeof row);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != expected[i]) {
      example::Fail("warp function %zu of thread %zu gave %08x, expected %08x", i % kWarpColumns, i / kWarpColumns,
                    out[i], expected[i]);
    }
  }
}

__global__ void Print(int number, double fraction, const char* /*unused*/) {
  if (threadIdx.x == 3) printf("device says %d %.3f %s %c %llu%%\n", number, fraction, "text", 'x', 1ull << 40);
}

__global__ void Assert(int limit) { assert(threadIdx.x < static_cast<unsigned>(limit)); }

__global__ void Allocate(int* ok) {
  int* memory = static_cast<int*>(malloc(64));
  if (memory == nullptr) return;
  for (int i = 0; i < 16; ++i) memory[i] = i;
  int sum = 0;
  for (int i = 0; i < 16; ++i) sum += memory[i];
  free(memory);
  if (sum == 120) atomicAdd(ok, 1);
}

}  // namespace

int main(int argc, char** argv) {
  example::program = "device_functions";
  if (argc == 2 && std::string(argv[1]) == "assert") {
    Assert<<<1, 64>>>(48);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaErrorAssert) example::Fail("the error is %s, expected cudaErrorAssert", cudaGetErrorName(error));
    void* memory;
    if (cudaMalloc(&memory, 16) != cudaErrorAssert) example::Fail("the context goes on after a failed assert");
    example::Pass("a failed assert ends the context");
    return 0;
  }
  CheckMath();
  CheckWarp();
  Print<<<1, 32>>>(-7, 2.5, nullptr);
  int* ok;
  CHECK(cudaMalloc(&ok, sizeof *ok));
  CHECK(cudaMemset(ok, 0, sizeof *ok));
  Allocate<<<2, 32>>>(ok);
  int count = 0;
  CHECK(cudaMemcpy(&count, ok, sizeof count, cudaMemcpyDeviceToHost));
  if (count != 64) example::Fail("malloc in a kernel worked for %d threads of 64", count);
  Assert<<<1, 32>>>(32);
  CHECK(cudaDeviceSynchronize());
  example::Pass("%d math functions, %d warp functions, printf, malloc, assert", kMathColumns, kWarpColumns);
}
