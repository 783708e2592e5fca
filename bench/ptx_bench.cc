// How fast the simulated GPU executes: lane operations per second on one core (goal: 500 million simple ones).
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "simgpu/ptx/executor.h"
#include "simgpu/ptx/program.h"

namespace {

using namespace tf::simgpu::ptx;

constexpr int kUnrolled = 64;

// A kernel that goes round a loop of `line` repeated; %t is the thread, %a the address of its word of a buffer.
std::string Kernel(const std::string& line) {
  std::string s =
      ".version 7.0\n.target sm_75\n.address_size 64\n.shared .align 16 .b8 s[4096];\n.visible .entry k(.param .u64 p) "
      "{\n"
      ".reg .pred %p; .reg .b32 %t, %i, %x, %y, %z; .reg .f32 %f<4>; .reg .f64 %d<4>; .reg .b64 %a, %b, %l<4>;\n"
      "mov.u32 %t, %tid.x; ld.param.u64 %b, [p]; mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %b; mov.u32 %i, 0; mov.u32 "
      "%x, %t; mov.u32 %y, 3; mov.u32 %z, 5;\n"
      "mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f3F000000; mov.f32 %f2, 0f3E800000; mov.f64 %d0, 0d3FF0000000000000; "
      "mov.f64 %d1, 0d3FE0000000000000;\n"
      "mov.u64 %l0, 1; mov.u64 %l1, 2; mov.u32 %z, s; mad.lo.u32 %z, %t, 4, %z;\nL:\n";
  for (int i = 0; i < kUnrolled; ++i) s += line + "\n";
  return s + "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 100; @%p bra L;\nst.global.u32 [%a], %x;\nret;\n}\n";
}

void Run(benchmark::State& state, const std::string& line, bool plain_only = false) {
  auto program = Program::Parse(Kernel(line), 80, plain_only);
  if (!program.ok() || !(*program)->Bind({}).ok()) {
    state.SkipWithError("the program was refused");
    return;
  }
  std::vector<std::byte> memory(1 << 17);
  std::vector<uint8_t> pages(16, 3);
  uint64_t base = (reinterpret_cast<uint64_t>(memory.data()) + 0xffff) & ~uint64_t{0xffff};
  Executor executor(1);
  LaunchConfig config;
  config.grid = {4, 1, 1};
  config.block = {256, 1, 1};
  config.memory = {.base = base, .size = 1 << 16, .pages = pages.data(), .page_shift = 12};
  config.parameters = {reinterpret_cast<const std::byte*>(&base), 8};
  uint64_t operations = 0;
  for (auto _ : state) {
    LaunchResult result = executor.Run(**program, 0, config);
    if (result.fault != Fault::kNone) state.SkipWithError("the kernel failed");
    operations += result.lane_operations;
  }
  state.counters["lane_operations"] = benchmark::Counter(static_cast<double>(operations), benchmark::Counter::kIsRate);
}

#define TF_LINE(name, line) BENCHMARK_CAPTURE(Run, name, line)

TF_LINE(add_s32, "add.s32 %x, %x, %y;");
TF_LINE(mad_lo_s32, "mad.lo.s32 %x, %x, %y, %t;");
TF_LINE(shl_b32, "shl.b32 %x, %x, %y;");
TF_LINE(setp_selp, "setp.lt.s32 %p, %x, %y; selp.b32 %x, %t, %y, %p;");
TF_LINE(add_s64, "add.s64 %l0, %l0, %l1;");
TF_LINE(mul_wide_s32, "mul.wide.s32 %l0, %x, %y;");
TF_LINE(fma_f32, "fma.rn.f32 %f0, %f0, %f1, %f2;");
TF_LINE(fma_f64, "fma.rn.f64 %d0, %d0, %d1, %d1;");
TF_LINE(div_f32, "div.rn.f32 %f0, %f0, %f1;");
TF_LINE(ex2_f32, "ex2.approx.f32 %f3, %f1;");
TF_LINE(ld_global_coalesced, "ld.global.u32 %x, [%a];");
TF_LINE(ld_global_strided, "ld.global.u32 %x, [%b];");
TF_LINE(st_global_coalesced, "st.global.u32 [%a], %x;");
TF_LINE(ld_shared, "ld.shared.u32 %x, [%z];");
TF_LINE(atom_shared_add, "atom.shared.add.u32 %x, [%z], 1;");
TF_LINE(atom_global_add, "atom.global.add.u32 %x, [%a], 1;");
TF_LINE(shfl_bfly, "shfl.sync.bfly.b32 %x, %x, 1, 31, -1;");
TF_LINE(barrier, "bar.sync 0;");
TF_LINE(predicated_add, "@%p add.s32 %x, %x, %y;");
BENCHMARK_CAPTURE(Run, add_s32_plain, "add.s32 %x, %x, %y;", true);
BENCHMARK_CAPTURE(Run, fma_f32_plain, "fma.rn.f32 %f0, %f0, %f1, %f2;", true);
BENCHMARK_CAPTURE(Run, ld_global_coalesced_plain, "ld.global.u32 %x, [%a];", true);

}  // namespace

BENCHMARK_MAIN();
