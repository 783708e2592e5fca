// Programs in which lanes and warps depend on one another: divergence, barriers, shuffles, atomics, calls, faults,
// printf.
#include <numeric>
#include <thread>

#include "gmock/gmock.h"
#include "simgpu/ptx/testing.h"

namespace tf::simgpu::ptx {
namespace {

using ::testing::HasSubstr;

// A kernel `k` with %tid.x in %t, out (one 32-bit word a thread) in %out, in the same for input.
std::string Kernel(std::string_view body, std::string_view before = "") {
  return ".version 8.6\n.target sm_80\n.address_size 64\n" + std::string(before) + R"(
.visible .entry k(.param .u64 pout, .param .u64 pin) {
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>, %t; .reg .f32 %f<8>; .reg .b64 %rd<16>, %out, %in, %all; .reg .f64 %fd<4>;
ld.param.u64 %all, [pout]; ld.param.u64 %in, [pin];
mov.u32 %t, %ctaid.x; mov.u32 %r0, %ntid.x; mul.lo.u32 %t, %t, %r0; mov.u32 %r0, %tid.x; add.u32 %t, %t, %r0;
mul.wide.u32 %rd0, %t, 4; add.u64 %out, %all, %rd0; add.u64 %in, %in, %rd0;
mov.u32 %t, %tid.x;
)" + std::string(body) +
         "\nret;\n}\n";
}

struct Ran {
  LaunchResult result;
  std::vector<uint32_t> out;
  Output text;
};

void RunKernel(Ran& ran, std::string_view text, uint32_t threads, uint32_t blocks = 1, uint32_t dynamic = 0,
               std::vector<uint32_t> in = {}) {
  Device device;
  Loaded loaded = Load(device, text);
  ASSERT_TRUE(loaded.program);
  in.resize(std::max<size_t>(in.size(), threads * blocks));
  uint64_t out = device.Put(std::vector<uint32_t>(std::max(threads * blocks, 1024u))), input = device.Put(in);
  ran.result = Launch(device, loaded, "k", {blocks, 1, 1}, {threads, 1, 1}, Parameters(out, input), dynamic, &ran.text);
  ran.out = device.Get<uint32_t>(out, threads * blocks);
}

// Runs and compares each thread's word with f(thread).
template <typename F>
void Expect(std::string_view text, uint32_t threads, F f, uint32_t blocks = 1, uint32_t dynamic = 0) {
  Ran ran;
  RunKernel(ran, text, threads, blocks, dynamic);
  ASSERT_EQ(ran.result.fault, Fault::kNone) << ran.result.message << "\n" << text;
  for (uint32_t i = 0; i < threads * blocks; ++i)
    ASSERT_EQ(ran.out[i], static_cast<uint32_t>(f(i))) << "thread " << i << "\n" << text;
}

void ExpectFault(std::string_view text, Fault fault, std::string_view message, uint32_t threads = 32) {
  Ran ran;
  RunKernel(ran, text, threads);
  EXPECT_EQ(ran.result.fault, fault) << ran.result.message << "\n" << text;
  EXPECT_THAT(ran.result.message, HasSubstr(std::string(message)));
}

TEST(Control, DivergesAndMeetsAgain) {
  Expect(Kernel(R"(
    and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN;
    mov.u32 %r2, 100; bra JOIN;
  EVEN: mov.u32 %r2, 200;
  JOIN: activemask.b32 %r3; popc.b32 %r3, %r3; add.u32 %r2, %r2, %r3; st.global.u32 [%out], %r2;)"),
         40, [](uint32_t i) { return (i % 2 ? 100 : 200) + (i < 32 ? 32 : 8); });
}

TEST(Control, LoopsOfDifferentLength) {
  Expect(Kernel(R"(
    mov.u32 %r1, 0; mov.u32 %r2, 0;
  LOOP: setp.ge.u32 %p1, %r1, %t; @%p1 bra DONE; add.u32 %r2, %r2, %r1; add.u32 %r1, %r1, 1; bra LOOP;
  DONE: activemask.b32 %r3; setp.eq.u32 %p2, %r3, 0xffffffff; @!%p2 mov.u32 %r2, 7777;
    st.global.u32 [%out], %r2;)"),
         64, [](uint32_t i) { return i * (i - 1) / 2; });
}

TEST(Control, LanesSpinOnALockOfTheirOwnWarp) {
  Expect(Kernel(R"(
    mov.u32 %r5, 0;
  TRY: atom.global.cas.b32 %r1, [lock], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra TRY;
    ld.volatile.global.u32 %r2, [count]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [count], %r2;
    membar.gl; atom.global.exch.b32 %r1, [lock], 0;
    bar.sync 0; ld.volatile.global.u32 %r2, [count]; st.global.u32 [%out], %r2;)",
                ".global .u32 lock; .global .u32 count;"),
         64, [](uint32_t) { return 64; });
}

TEST(Control, WarpsOfABlockWaitForOneAnother) {
  Expect(Kernel(R"(
    setp.ge.u32 %p1, %t, 32; @%p1 bra GIVE;
  WAIT: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p2, %r1, 0; @%p2 bra WAIT; bra END;
  GIVE: mov.u32 %r1, 5; st.volatile.shared.u32 [flag], %r1;
  END: st.global.u32 [%out], %r1;)",
                ".shared .u32 flag;"),
         64, [](uint32_t) { return 5; });
}

TEST(Control, IndexedBranch) {
  Expect(Kernel(R"(
    T: .branchtargets A, B, C; and.b32 %r1, %t, 3; min.u32 %r1, %r1, 2; brx.idx %r1, T;
  A: mov.u32 %r2, 10; bra.uni J; B: mov.u32 %r2, 20; bra.uni J; C: mov.u32 %r2, 30;
  J: st.global.u32 [%out], %r2;)"),
         33, [](uint32_t i) { return 10 * (std::min(i % 4, 2u) + 1); });
}

TEST(Control, ScopesShadowRegistersAndLabels) {
  Expect(Kernel(R"(
    mov.u32 %r1, 1;
    { .reg .b32 %r1; mov.u32 %r1, 50; setp.gt.u32 %p1, %r1, 10; @%p1 bra L; mov.u32 %r1, 0; L: add.u32 %r2, %r1, 1; }
    { .reg .b32 %r1; mov.u32 %r1, 5; setp.gt.u32 %p1, %r1, 10; @%p1 bra L; add.u32 %r2, %r2, 100; L: }
    add.u32 %r2, %r2, %r1; st.global.u32 [%out], %r2;)"),
         1, [](uint32_t) { return 152; });
}

TEST(Barriers, SharedMemoryBetweenWarps) {
  Expect(
      Kernel(R"(
    mov.u32 %r1, buffer; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %t; bar.sync 0;
    xor.b32 %r2, %t, 127; shl.b32 %r2, %r2, 2; add.u32 %r3, %r1, %r2; ld.shared.u32 %r4, [%r3]; st.global.u32 [%out], %r4;)",
             ".shared .align 4 .b8 buffer[512];"),
      128, [](uint32_t i) { return (i % 128) ^ 127; }, 5);
}

TEST(Barriers, ExitedThreadsDoNotHoldOthersUp) {
  // A whole warp and some lanes of another leave before the barrier.
  Expect(Kernel(R"(
    setp.ge.u32 %p1, %t, 60; @%p1 exit; setp.eq.u32 %p1, %t, 3; @%p1 ret;
    bar.sync 0; bar.sync 1, 64; mov.u32 %r1, 9; st.global.u32 [%out], %r1;)"),
         128, [](uint32_t i) { return i < 60 && i != 3 ? 9 : 0; });
}

TEST(Barriers, ProducersArriveAndConsumersWait) {
  Expect(Kernel(R"(
    setp.ge.u32 %p1, %t, 32; @%p1 bra PRODUCE;
    bar.sync 3, 64; ld.shared.u32 %r1, [value]; st.global.u32 [%out], %r1; bra END;
  PRODUCE: mov.u32 %r2, 77; st.shared.u32 [value], %r2; bar.arrive 3, 64;
  END:)",
                ".shared .u32 value;"),
         64, [](uint32_t i) { return i < 32 ? 77 : 0; });
}

TEST(Barriers, Reductions) {
  Expect(Kernel(R"(
    setp.lt.u32 %p1, %t, 40; bar.red.popc.u32 %r1, 0, %p1; barrier.cta.red.aligned.or.pred %p2, 0, %p1; bar.red.and.pred %p3, 0, %p1;
    bar.red.popc.u32 %r4, 0, 96, !%p1;
    selp.u32 %r2, 1000, 0, %p2; selp.u32 %r3, 5000, 0, %p3; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; mad.lo.u32 %r1, %r4, 10000, %r1;
    st.global.u32 [%out], %r1;)"),
         96, [](uint32_t) { return 560000 + 1040; });
}

TEST(Barriers, DeadlockIsAFault) {
  ExpectFault(Kernel("setp.lt.u32 %p1, %t, 32; @%p1 bar.sync 1, 64;\n@!%p1 bar.sync 2, 64;"), Fault::kTrap,
              "wait for one another", 64);
  ExpectFault(Kernel("setp.eq.u32 %p1, %t, 0; @%p1 bar.warp.sync 3; @!%p1 bar.sync 0;"), Fault::kTrap,
              "wait for one another");
  ExpectFault(Kernel("mov.u32 %r1, 16; bar.sync %r1;"), Fault::kIllegalInstruction, "above 15");
}

TEST(Together, Shuffles) {
  Expect(Kernel("shfl.sync.down.b32 %r1, %t, 3, 31, -1; st.global.u32 [%out], %r1;"), 32,
         [](uint32_t i) { return i + 3 < 32 ? i + 3 : i; });
  Expect(Kernel("shfl.sync.up.b32 %r1, %t, 3, 0, -1; st.global.u32 [%out], %r1;"), 32,
         [](uint32_t i) { return i >= 3 ? i - 3 : i; });
  Expect(Kernel("shfl.sync.bfly.b32 %r1, %t, 5, 31, -1; st.global.u32 [%out], %r1;"), 32,
         [](uint32_t i) { return i ^ 5; });
  Expect(Kernel("shfl.sync.idx.b32 %r1, %t, 9, 31, -1; st.global.u32 [%out], %r1;"), 64,
         [](uint32_t i) { return i / 32 * 32 + 9; });
  // segments of 8 lanes: mask 24 in bits 8 to 12
  Expect(Kernel("shfl.sync.idx.b32 %r1, %t, 2, 0x181f, -1; st.global.u32 [%out], %r1;"), 32,
         [](uint32_t i) { return i / 8 * 8 + 2; });
  Expect(Kernel("shfl.sync.down.b32 %r1|%p1, %t, 4, 0x1807, -1; selp.u32 %r2, 100, 0, %p1; add.u32 %r1, %r1, %r2; "
                "st.global.u32 [%out], %r1;"),
         32, [](uint32_t i) { return i % 8 < 4 ? i + 4 + 100 : i; });
  Expect(Kernel("shfl.sync.up.b32 _|%p1, %t, 1, 0, -1; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%out], %r1;"), 32,
         [](uint32_t i) { return i > 0; });
}

TEST(Together, ShuffleInAPartialWarpAndUnderDivergence) {
  // 40 threads: the second warp has 8 lanes; lanes that do not exist are not waited for.
  Expect(Kernel("shfl.sync.bfly.b32 %r1, %t, 1, 31, -1; st.global.u32 [%out], %r1;"), 40,
         [](uint32_t i) { return i ^ 1; });
  // Odd lanes come later, by another path, to the same shuffle.
  Expect(Kernel(R"(
    and.b32 %r2, %t, 1; setp.ne.u32 %p1, %r2, 0; mov.u32 %r3, 0; @!%p1 bra MEET;
  SPIN: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 50; @%p2 bra SPIN;
  MEET: shfl.sync.bfly.b32 %r1, %r3, 1, 31, -1; st.global.u32 [%out], %r1;)"),
         32, [](uint32_t i) { return i % 2 ? 0 : 50; });
  // The two halves stand at different shuffle instructions.
  Expect(Kernel(R"(
    setp.lt.u32 %p1, %t, 16; @%p1 bra LOW;
    shfl.sync.bfly.b32 %r1, %t, 16, 31, -1; bra END;
  LOW: shfl.sync.bfly.b32 %r1, %t, 16, 31, -1; add.u32 %r1, %r1, 1000;
  END: st.global.u32 [%out], %r1;)"),
         32, [](uint32_t i) { return i < 16 ? (i ^ 16) + 1000 : i ^ 16; });
  // Groups with masks of their own.
  Expect(Kernel(R"(
    setp.lt.u32 %p1, %t, 16; selp.b32 %r2, 0x0000ffff, 0xffff0000, %p1; shfl.sync.bfly.b32 %r1, %t, 8, 31, %r2; st.global.u32 [%out], %r1;)"),
         32, [](uint32_t i) { return i ^ 8; });
}

TEST(Together, VotesMatchesReductions) {
  Expect(Kernel("setp.lt.u32 %p1, %t, 5; vote.sync.ballot.b32 %r1, %p1, -1; st.global.u32 [%out], %r1;"), 32,
         [](uint32_t) { return 31; });
  Expect(Kernel("setp.lt.u32 %p1, %t, 5; vote.sync.ballot.b32 %r1, !%p1, -1; st.global.u32 [%out], %r1;"), 20,
         [](uint32_t) { return 0xfffe0; });
  Expect(Kernel(R"(
    setp.lt.u32 %p1, %t, 5; vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1; vote.sync.uni.pred %p4, %p1, -1;
    selp.u32 %r1, 1, 0, %p2; selp.u32 %r2, 2, 0, %p3; selp.u32 %r3, 4, 0, %p4; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3; st.global.u32 [%out], %r1;)"),
         64, [](uint32_t i) { return i < 32 ? 2 : 4; });
  Expect(Kernel("and.b32 %r2, %t, 3; match.any.sync.b32 %r1, %r2, -1; st.global.u32 [%out], %r1;"), 32,
         [](uint32_t i) { return 0x11111111u << (i % 4); });
  Expect(Kernel("cvt.u64.u32 %rd1, %t; shr.u64 %rd1, %rd1, 6; match.all.sync.b64 %r1|%p1, %rd1, -1; selp.u32 %r1, %r1, "
                "7, %p1; st.global.u32 [%out], %r1;"),
         32, [](uint32_t) { return 0xffffffff; });
  Expect(Kernel("redux.sync.add.u32 %r1, %t, -1; st.global.u32 [%out], %r1;"), 32, [](uint32_t) { return 496; });
  Expect(Kernel("sub.s32 %r2, %t, 10; redux.sync.min.s32 %r1, %r2, -1; st.global.u32 [%out], %r1;"), 32,
         [](uint32_t) { return -10; });
  Expect(Kernel("sub.s32 %r2, %t, 10; redux.sync.max.u32 %r1, %r2, -1; st.global.u32 [%out], %r1;"), 32,
         [](uint32_t) { return -1; });
  Expect(Kernel("redux.sync.or.b32 %r1, %t, -1; redux.sync.xor.b32 %r2, %t, -1; redux.sync.and.b32 %r3, %t, -1; "
                "add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%out], %r1;"),
         32, [](uint32_t) { return 31; });
  Expect(
      Kernel(
          "elect.sync %r1|%p1, 0xfff0; selp.u32 %r2, 100, 0, %p1; add.u32 %r1, %r1, %r2; st.global.u32 [%out], %r1;"),
      32, [](uint32_t i) { return i == 4 ? 104 : 4; });
  Expect(Kernel("setp.ge.u32 %p1, %t, 20; @%p1 exit; bar.warp.sync -1; vote.sync.ballot.b32 %r1, 1, -1; st.global.u32 "
                "[%out], %r1;"),
         32, [](uint32_t i) { return i < 20 ? 0xfffff : 0; });
}

struct AtomCase {
  const char* code;  // on [cell] with %t
  const char* type;
  uint64_t initial, expected;  // after 96 threads in each of 4 blocks
};

TEST(Atomics, AllOperationsOnGlobalAndShared) {
  const AtomCase kCases[] = {
      {"add.u32 %r1, [X], %t", "b32", 5, 5 + 4 * 4560},
      {"add.s32 %r1, [X], -1", "b32", 0, 0xffffffff & -384ll},
      {"inc.u32 %r1, [X], 99", "b32", 0, 84},
      {"dec.u32 %r1, [X], 99", "b32", 0, 16},
      {"min.u32 %r1, [X], %t", "b32", 50, 0},
      {"max.u32 %r1, [X], %t", "b32", 50, 95},
      {"min.s32 %r1, [X], %t", "b32", 0xfffffff0, 0xfffffff0},
      {"max.s32 %r1, [X], %t", "b32", 0xfffffff0, 95},
      {"and.b32 %r1, [X], 0xff", "b32", 0x1234, 0x34},
      {"or.b32 %r1, [X], %t", "b32", 0x80, 0xff},
      {"xor.b32 %r1, [X], 7", "b32", 9, 9},
      {"exch.b32 %r1, [X], 77", "b32", 9, 77},
      {"cas.b32 %r1, [X], 9, 10", "b32", 9, 10},
      {"add.u64 %rd1, [X], 0x100000000", "b64", 1, 384 * 0x100000000ull + 1},
      {"min.s64 %rd1, [X], -5", "b64", 0, ~4ull},
      {"max.u64 %rd1, [X], -5", "b64", 0, ~4ull},
      {"exch.b64 %rd1, [X], 5", "b64", 0, 5},
      {"cas.b64 %rd1, [X], 1, 6", "b64", 1, 6},
      {"or.b64 %rd1, [X], 0x8000000000000000", "b64", 1, 0x8000000000000001},
      {"and.b64 %rd1, [X], 3", "b64", 6, 2},
      {"xor.b64 %rd1, [X], 3", "b64", 6, 6},
      {"add.f32 %f1, [X], 0f3F800000", "b32", 0, 0x43c00000},
      {"add.f64 %fd1, [X], 0d3FF0000000000000", "b64", 0, 0x4078000000000000},
      {"add.noftz.f16x2 %r1, [X], 0x3c004000", "b32", 0, 0x5e006200},
      {"cas.b16 %h1, [X], 3, 4", "b32", 3, 4},
      {"min.u64 %rd1, [X], 7", "b64", 9, 7},
      {"max.s64 %rd1, [X], 7", "b64", ~0ull, 7},
  };
  for (const AtomCase& c : kCases) {
    std::string code = c.code;
    code.replace(code.find("[X]"), 3, "[%rd5]");
    for (std::string how : {"atom.global.", "atom.", "atom.relaxed.gpu.global."}) {
      Device device;
      Loaded loaded =
          Load(device, Kernel("mov.u64 %rd5, cell;" + how + code + ";", ".visible .global .align 8 .b64 cell;"));
      ASSERT_TRUE(loaded.program) << code;
      std::memcpy(reinterpret_cast<void*>(loaded.addresses["cell"]), &c.initial, 8);
      LaunchResult result = Launch(device, loaded, "k", {4, 1, 1}, {96, 1, 1}, Parameters(uint64_t{0}, uint64_t{0}));
      EXPECT_EQ(result.fault, Fault::kNone) << result.message;
      EXPECT_EQ(device.Get<uint64_t>(loaded.addresses["cell"], 1)[0], c.expected) << how << c.code;
    }
    // The same in shared memory, through both kinds of addresses, by one block of 96 threads four times over.
    for (bool generic : {false, true}) {
      std::string body = "mov.u64 %rd5, cell;" + std::string(generic ? "cvta.shared.u64 %rd5, %rd5;" : "") +
                         "mov.u64 %rd6, " + std::to_string(c.initial) +
                         "; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u64 [cell], %rd6; bar.sync 0;";
      for (int i = 0; i < 4; ++i) body += std::string(generic ? "atom." : "atom.shared.") + code + ";";
      body += "bar.sync 0; @%p1 ld.shared.u64 %rd6, [cell]; @%p1 st.global.u64 [%all], %rd6;";
      Ran ran;
      RunKernel(ran, Kernel(body, ".shared .align 8 .b64 cell;"), 96);
      EXPECT_EQ(ran.result.fault, Fault::kNone) << ran.result.message;
      EXPECT_EQ(ran.out[0] | uint64_t{ran.out[1]} << 32, c.expected) << "shared " << c.code;
    }
  }
  Expect(Kernel("red.shared.add.u32 [cell], 1; red.release.cta.shared.or.b32 [cell], 1024; bar.sync 0; ld.shared.u32 "
                "%r1, [cell]; st.global.u32 [%out], %r1;",
                ".shared .u32 cell;"),
         64, [](uint32_t) { return 1024 + 64; });
  // An atom gives each lane the value before its own change.
  Expect(Kernel("atom.shared.add.u32 %r1, [cell], 1; st.global.u32 [%out], %r1;", ".shared .u32 cell;"), 32,
         [](uint32_t i) { return i; });
}

TEST(Memory, WidthsVectorsAndSpaces) {
  Expect(Kernel(R"(
    cvt.u16.u32 %h1, %t; st.shared.u8 [b+3], %h1; ld.shared.s8 %r1, [b+3]; ld.shared.u8 %h2, [b+3]; cvt.u32.u16 %r2, %h2;
    mov.u32 %r3, 0xfffe8001; st.shared.u16 [b+4], %r3; ld.shared.s16 %r4, [b+4]; ld.shared.u16 %r5, [b+4]; add.u32 %r1, %r4, %r5;
    st.global.u32 [%out], %r1;)",
                ".shared .align 8 .b8 b[16];"),
         1, [](uint32_t) { return 0xffff8001u + 0x8001u; });
  Expect(Kernel(R"(
    mov.u32 %r1, 1; mov.u32 %r2, 2; mov.u32 %r3, 3; mov.u32 %r4, %t;
    mul.wide.u32 %rd1, %t, 16; mov.u64 %rd2, b; add.u64 %rd2, %rd2, %rd1; st.shared.v4.u32 [%rd2], {%r1, %r2, %r3, %r4}; bar.sync 0;
    ld.shared.v2.u32 {%r5, %r6}, [%rd2+8]; ld.shared.v4.u32 {_, %r7, _, %r8}, [%rd2]; ld.shared.v2.f64 {%fd1, %fd2}, [%rd2];
    mad.lo.u32 %r9, %r7, 1000, %r6; mad.lo.u32 %r9, %r5, 100, %r9; add.u32 %r9, %r9, %r8; st.global.u32 [%out], %r9;)",
                ".shared .align 16 .b8 b[1024];"),
         64, [](uint32_t i) { return 2300 + 2 * i; });
  // local memory is each thread's own; generic addresses reach it
  Expect(Kernel(R"(
    { .local .align 8 .b8 depot[32]; st.local.u32 [depot+4], %t; mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; ld.u32 %r1, [%rd2+4];
    isspacep.local %p1, %rd2; isspacep.shared %p2, %rd2; isspacep.global %p3, %rd2; cvta.to.local.u64 %rd3, %rd2; ld.local.u32 %r2, [%rd3+4]; add.u32 %r1, %r1, %r2;
    selp.u32 %r3, 1000, 0, %p1; selp.u32 %r4, 5000, 0, %p2; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; selp.u32 %r4, 5000, 0, %p3; add.u32 %r1, %r1, %r4; }
    st.global.u32 [%out], %r1;)"),
         70, [](uint32_t i) { return 2 * i + 1000; });
  // dynamic shared memory begins behind the static part
  Expect(
      Kernel(R"(
    mov.u32 %r1, dynamic; mov.u32 %r2, %dynamic_smem_size; mov.u32 %r3, fixed; sub.u32 %r1, %r1, %r3; st.shared.u32 [dynamic+4], %t; bar.warp.sync -1;
    ld.shared.u32 %r4, [dynamic+4]; mad.lo.u32 %r1, %r2, 1000, %r1; st.global.u32 [%out], %r1;)",
             ".shared .align 4 .b8 fixed[20]; .extern .shared .align 16 .b8 dynamic[];"),
      32, [](uint32_t) { return 256000 + 32; }, 1, 256);
  Expect(Kernel(R"(
    mul.wide.u32 %rd1, %t, 16; mov.u64 %rd2, b; add.u64 %rd2, %rd2, %rd1; mov.u64 %rd3, g; add.u64 %rd3, %rd3, 16;
    cp.async.ca.shared.global [%rd2], [%rd3], 4; cp.async.cg.shared.global [%rd2], [g], 16, 8; cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;
    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%rd2]; mad.lo.u32 %r1, %r2, 10, %r1; add.u32 %r1, %r1, %r3; st.global.u32 [%out], %r1;)",
                ".shared .align 16 .b8 b[512]; .global .align 16 .u32 g[8] = {1, 2, 3, 4, 5, 6, 7, 8};"),
         32, [](uint32_t) { return 21; });
}

TEST(Special, Registers) {
  Expect(Kernel("mov.u32 %r1, %laneid; mov.u32 %r2, %warpid; mad.lo.u32 %r1, %r2, 100, %r1; mov.u32 %r2, %nwarpid; "
                "mad.lo.u32 %r1, %r2, 10000, %r1; st.global.u32 [%out], %r1;"),
         70, [](uint32_t i) { return 30000 + i / 32 * 100 + i % 32; });
  Expect(
      Kernel(
          R"(mov.u32 %r1, %lanemask_lt; popc.b32 %r1, %r1; mov.u32 %r2, %lanemask_ge; popc.b32 %r2, %r2; mad.lo.u32 %r1, %r2, 100, %r1;
    mov.u32 %r2, %lanemask_eq; bfind.u32 %r2, %r2; mad.lo.u32 %r1, %r2, 10000, %r1; st.global.u32 [%out], %r1;)"),
      32, [](uint32_t i) { return i * 10000 + (32 - i) * 100 + i; });
  Expect(
      Kernel("mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mad.lo.u32 %r1, %r2, 100, %r1; mov.u32 %r3, %envreg1; "
             "add.u32 %r1, %r1, %r3; st.global.u32 [%out], %r1;"),
      32, [](uint32_t i) { return 400 + i / 32; }, 4);
  Expect(
      Kernel(
          R"(mov.u64 %rd1, %clock64; mov.u64 %rd2, %globaltimer; nanosleep.u32 10; mov.u64 %rd3, %clock64; mov.u64 %rd4, %globaltimer;
    setp.ge.u64 %p1, %rd3, %rd1; setp.ge.and.u64 %p1, %rd4, %rd2, %p1; mov.u32 %r2, %clock; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%out], %r1;)"),
      32, [](uint32_t) { return 1; });
}

const char kFunctions[] = R"(
.func (.param .b32 r) fib(.param .b32 n) {
  .reg .b32 %r<6>; .reg .pred %p;
  ld.param.b32 %r1, [n]; mov.u32 %r5, %r1; setp.lt.s32 %p, %r1, 2; @%p bra END;
  sub.s32 %r2, %r1, 1; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), fib, (a); ld.param.b32 %r3, [b]; }
  sub.s32 %r2, %r1, 2; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), fib, (a); ld.param.b32 %r4, [b]; }
  add.s32 %r5, %r3, %r4;
END: st.param.b32 [r], %r5; ret; }
.func (.reg .b32 r) twice(.reg .b32 x) { add.u32 r, x, x; ret; }
.func (.param .b32 r) add1(.param .b32 x) { .reg .b32 %r; ld.param.b32 %r, [x]; add.u32 %r, %r, 1; st.param.b32 [r], %r; ret; }
.func (.param .b32 r) mul3(.param .b32 x) { .reg .b32 %r; ld.param.b32 %r, [x]; mul.lo.u32 %r, %r, 3; st.param.b32 [r], %r; ret; }
.func (.param .b32 r) sum(.param .align 8 .b8 s[16]) { .reg .b32 %r<4>; .reg .b64 %rd; ld.param.u32 %r1, [s]; ld.param.u64 %rd, [s+8]; cvt.u32.u64 %r2, %rd; add.u32 %r1, %r1, %r2; st.param.b32 [r], %r1; ret; }
.func (.param .b32 r) forever(.param .b32 x) { .param .b32 a; .param .b32 b; .reg .b32 %r; .local .b8 big[64]; ld.param.b32 %r, [x]; st.param.b32 [a], %r; call (b), forever, (a); ld.param.b32 %r, [b]; st.param.b32 [r], %r; ret; }
.func (.param .b32 r) meet(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; st.param.b32 [r], %r2; ret; }
.global .align 8 .u64 table[2] = {add1, mul3};
)";

TEST(Calls, RecursionRegistersStructsAndPointers) {
  Expect(Kernel("and.b32 %r1, %t, 7; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), fib, (a); "
                "ld.param.b32 %r2, [b]; } st.global.u32 [%out], %r2;",
                kFunctions),
         40, [](uint32_t i) { return std::array{0, 1, 1, 2, 3, 5, 8, 13}[i % 8]; });
  Expect(
      Kernel(
          "call (%r1), twice, (%t); call (%r1), twice, (%r1); @%p0 call (%r1), twice, (5); st.global.u32 [%out], %r1;",
          kFunctions),
      40, [](uint32_t i) { return 4 * i; });
  Expect(
      Kernel(
          R"({ .param .align 8 .b8 s[16]; .param .b32 b; mov.u64 %rd1, 40; st.param.b32 [s], %t; st.param.b64 [s+8], %rd1; call.uni (b), sum, (s); ld.param.b32 %r1, [b]; }
    st.global.u32 [%out], %r1;)",
          kFunctions),
      40, [](uint32_t i) { return 40 + i; });
  // lanes call different functions through a table
  Expect(
      Kernel(
          R"(and.b32 %r1, %t, 1; mul.wide.u32 %rd1, %r1, 8; mov.u64 %rd2, table; add.u64 %rd2, %rd2, %rd1; ld.global.u64 %rd3, [%rd2];
    { P: .callprototype (.param .b32 _) _ (.param .b32 _); .param .b32 a; .param .b32 b; st.param.b32 [a], %t; call (b), %rd3, (a), P; ld.param.b32 %r2, [b]; }
    activemask.b32 %r3; setp.ne.u32 %p1, %r3, -1; @%p1 mov.u32 %r2, 0; st.global.u32 [%out], %r2;)",
          kFunctions),
      32, [](uint32_t i) { return i % 2 ? 3 * i : i + 1; });
  Expect(Kernel("mov.u64 %rd3, mul3; { P: .callprototype (.param .b32 _) _ (.param .b32 _); .param .b32 a; .param .b32 "
                "b; st.param.b32 [a], %t; call (b), %rd3, (a), P; ld.param.b32 %r2, [b]; } st.global.u32 [%out], %r2;",
                kFunctions),
         32, [](uint32_t i) { return 3 * i; });
  // lanes enter one function from one place at different times and shuffle there
  Expect(Kernel(R"(and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra CALL; mov.u32 %r3, 0;
  SPIN: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 40; @%p2 bra SPIN;
  CALL: { .param .b32 a; .param .b32 b; st.param.b32 [a], %t; call.uni (b), meet, (a); ld.param.b32 %r2, [b]; } st.global.u32 [%out], %r2;)",
                kFunctions),
         32, [](uint32_t i) { return i ^ 1; });
}

TEST(Calls, Failures) {
  ExpectFault(Kernel("{ .param .b32 a; .param .b32 b; st.param.b32 [a], %t; call (b), forever, (a); }", kFunctions),
              Fault::kStackError, "stack overflow");
  ExpectFault(Kernel("mov.u64 %rd3, 12345; { P: .callprototype (.param .b32 _) _ (.param .b32 _); .param .b32 a; "
                     ".param .b32 b; call (b), %rd3, (a), P; }",
                     kFunctions),
              Fault::kInvalidPc, "no function");
}

TEST(Faults, EachKind) {
  ExpectFault(Kernel("mov.u64 %rd1, 8; ld.global.u32 %r1, [%rd1];"), Fault::kIllegalAddress,
              "block [0,0,0], thread [0,0,0], PTX line 11, address 0x8");
  ExpectFault(Kernel("add.u64 %out, %out, 2; st.global.u32 [%out], %t;"), Fault::kMisalignedAddress,
              "misaligned store");
  ExpectFault(Kernel("mov.u64 %rd1, 0x4000; ld.shared.u32 %r1, [%rd1];"), Fault::kIllegalAddress, "load");
  ExpectFault(Kernel("setp.eq.u32 %p1, %t, 7;\n@%p1 trap;"), Fault::kTrap, "thread [7,0,0], PTX line 12");
  ExpectFault(Kernel("setp.eq.u32 %p1, %t, 5; mov.u64 %rd1, 16; @%p1 mov.u64 %out, %rd1; ld.global.u32 %r1, [%out];"),
              Fault::kIllegalAddress, "thread [5,0,0]");
  ExpectFault(Kernel("atom.global.add.u32 %r1, [0], 1;"), Fault::kIllegalAddress, "store");
  ExpectFault(Kernel("mov.u64 %rd1, 0x7fffffffffff0000; ld.u64 %rd2, [%rd1];"), Fault::kIllegalAddress, "load");
}

TEST(Faults, PagesWithoutPermission) {
  Device device;
  Loaded loaded = Load(device, Kernel("ld.global.u32 %r1, [%in]; st.global.u32 [%out], %r1;"));
  uint64_t in = device.Put(std::vector<uint32_t>(64, 3)), out = device.Put(std::vector<uint32_t>(64));
  device.Protect(in, 1);
  EXPECT_EQ(Launch(device, loaded, "k", {1, 1, 1}, {64, 1, 1}, Parameters(out, in)).fault, Fault::kNone);
  EXPECT_EQ(Launch(device, loaded, "k", {1, 1, 1}, {64, 1, 1}, Parameters(in, out)).fault, Fault::kIllegalAddress);
  device.Protect(in, 0);
  EXPECT_EQ(Launch(device, loaded, "k", {1, 1, 1}, {64, 1, 1}, Parameters(out, in)).fault, Fault::kIllegalAddress);
}

TEST(Faults, OtherMemoryIsAskedFor) {
  Device device;
  Loaded loaded = Load(device, Kernel("ld.global.u32 %r1, [%in]; st.global.u32 [%out], %r1;"));
  static uint32_t host[64];
  std::iota(std::begin(host), std::end(host), 10u);
  LaunchConfig config;
  config.block = {64, 1, 1};
  config.memory = device.Map();
  config.memory.slow = [](void* user, uint64_t address, uint32_t bytes, bool write) {
    auto base = reinterpret_cast<uint64_t>(user);
    return !write && address >= base && address + bytes <= base + sizeof host;
  };
  config.memory.user = host;
  uint64_t out = device.Put(std::vector<uint32_t>(64));
  Executor executor(1);
  Parameters good(out, reinterpret_cast<uint64_t>(host)), bad(reinterpret_cast<uint64_t>(host), out),
      far(out, reinterpret_cast<uint64_t>(host) + 4);
  config.parameters = good.bytes();
  EXPECT_EQ(executor.Run(*loaded.program, 0, config).fault, Fault::kNone);
  EXPECT_EQ(device.Get<uint32_t>(out, 64)[63], 73u);
  config.parameters = bad.bytes();
  EXPECT_EQ(executor.Run(*loaded.program, 0, config).fault, Fault::kIllegalAddress);
  config.parameters = far.bytes();
  EXPECT_EQ(executor.Run(*loaded.program, 0, config).fault, Fault::kIllegalAddress);
}

TEST(Builtins, Printf) {
  const std::string before = R"(
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 format[64] = {37, 100, 32, 37, 48, 52, 120, 32, 37, 108, 108, 117, 32, 37, 53, 46, 50, 102, 32, 91, 37, 115, 93, 32, 37, 99, 32, 37, 37, 10, 0};
.global .align 1 .b8 word[4] = {104, 101, 121, 0};
)";  // "%d %04x %llu %5.2f [%s] %c %%\n"
  Ran ran;
  RunKernel(ran,
            Kernel(R"(
    { .local .align 8 .b8 args[48]; .param .b64 f; .param .b64 a; .param .b32 r;
    sub.s32 %r1, %t, 1; st.local.u32 [args], %r1; st.local.u32 [args+4], 171; mov.u64 %rd1, 0xffffffffffffffff; st.local.u64 [args+8], %rd1;
    mov.f64 %fd1, 0d3FF8000000000000; st.local.f64 [args+16], %fd1; mov.u64 %rd2, word; cvta.global.u64 %rd2, %rd2; st.local.u64 [args+24], %rd2; st.local.u32 [args+32], 65;
    mov.u64 %rd3, format; cvta.global.u64 %rd3, %rd3; st.param.b64 [f], %rd3; mov.u64 %rd4, args; cvta.local.u64 %rd4, %rd4; st.param.b64 [a], %rd4;
    call.uni (r), vprintf, (f, a); ld.param.b32 %r2, [r]; st.global.u32 [%out], %r2; })",
                   before),
            2);
  EXPECT_EQ(ran.result.fault, Fault::kNone) << ran.result.message;
  EXPECT_EQ(ran.text.out,
            "-1 00ab 18446744073709551615  1.50 [hey] A %\n0 00ab 18446744073709551615  1.50 [hey] A %\n");
  EXPECT_EQ(ran.out[0], 6u);
}

TEST(Builtins, Assert) {
  Ran ran;
  RunKernel(
      ran,
      Kernel(
          R"(
    setp.eq.u32 %p1, %t, 33; @!%p1 bra END;
    { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 g; .param .b64 c; mov.u64 %rd1, message; st.param.b64 [m], %rd1; mov.u64 %rd2, file; st.param.b64 [f], %rd2;
      st.param.b32 [l], 12; mov.u64 %rd3, name; st.param.b64 [g], %rd3; mov.u64 %rd4, 1; st.param.b64 [c], %rd4; call.uni __assertfail, (m, f, l, g, c); }
    END:)",
          R"(.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g, .param .b64 c) .noreturn;
.global .b8 message[8] = {120, 32, 62, 32, 48, 0}; .global .b8 file[8] = {97, 46, 99, 117, 0}; .global .b8 name[8] = {107, 40, 41, 0};)"),
      64);
  EXPECT_EQ(ran.result.fault, Fault::kAssert);
  EXPECT_EQ(ran.text.error, "a.cu:12: k(): block: [0,0,0], thread: [33,0,0] Assertion `x > 0` failed.\n");
}

TEST(Builtins, Heap) {
  Device device;
  Loaded loaded =
      Load(device, Kernel(R"(
    { .param .b64 n; .param .b64 r; mov.u64 %rd1, 64; st.param.b64 [n], %rd1; call.uni (r), malloc, (n); ld.param.b64 %rd2, [r]; }
    st.u32 [%rd2], %t; ld.u32 %r1, [%rd2]; st.global.u32 [%out], %r1;
    { .param .b64 p; st.param.b64 [p], %rd2; call.uni free, (p); })",
                          ".extern .func (.param .b64 r) malloc (.param .b64 n); .extern .func free (.param .b64 p);"));
  uint64_t out = device.Put(std::vector<uint32_t>(64));
  int before = device.allocations();
  LaunchResult result = Launch(device, loaded, "k", {1, 1, 1}, {64, 1, 1}, Parameters(out, out));
  EXPECT_EQ(result.fault, Fault::kNone) << result.message;
  EXPECT_EQ(device.Get<uint32_t>(out, 64)[63], 63u);
  EXPECT_EQ(device.allocations(), before);
}

TEST(Executor, CancelsAnEndlessKernel) {
  Device device;
  Loaded loaded = Load(device, Kernel("L: bra L;"));
  LaunchConfig config;
  config.grid = {100, 1, 1};
  config.block = {64, 1, 1};
  config.memory = device.Map();
  Parameters parameters(uint64_t{0}, uint64_t{0});
  config.parameters = parameters.bytes();
  std::atomic<bool> cancel{false};
  config.cancel = &cancel;
  Executor executor(2);
  std::thread other([&] { cancel = true; });
  LaunchResult result = executor.Run(*loaded.program, 0, config);
  other.join();
  EXPECT_EQ(result.fault, Fault::kCancelled);
}

TEST(Executor, BlocksOfACooperativeLaunchWaitForOneAnother) {
  Device device;
  Loaded loaded = Load(device, Kernel(R"(
    bar.sync 0; setp.ne.u32 %p1, %t, 0; @%p1 bra JOIN; atom.global.add.u32 %r1, [count], 1;
  WAIT: ld.acquire.gpu.global.u32 %r1, [count]; setp.lt.u32 %p2, %r1, 20; @%p2 bra WAIT;
  JOIN: bar.sync 0; ld.volatile.global.u32 %r1, [count]; st.global.u32 [%out], %r1;)",
                                      ".global .u32 count;"));
  uint64_t out = device.Put(std::vector<uint32_t>(20 * 64));
  LaunchConfig config;
  config.grid = {20, 1, 1};
  config.block = {64, 1, 1};
  config.memory = device.Map();
  config.cooperative = true;
  Parameters parameters(out, out);
  config.parameters = parameters.bytes();
  Executor executor(2);
  LaunchResult result = executor.Run(*loaded.program, 0, config);
  EXPECT_EQ(result.fault, Fault::kNone) << result.message;
  for (uint32_t x : device.Get<uint32_t>(out, 20 * 64)) ASSERT_EQ(x, 20u);
}

TEST(Executor, SeveralLaunchesAtOnce) {
  Device device;
  Loaded loaded =
      Load(device, Kernel("ld.global.u32 %r1, [%in]; mad.lo.u32 %r1, %r1, 3, %t; st.global.u32 [%out], %r1;"));
  Executor executor(2);
  std::vector<std::thread> threads;
  std::vector<uint64_t> outs;
  uint64_t in = device.Put(std::vector<uint32_t>(64 * 50, 5));
  for (int i = 0; i < 4; ++i) outs.push_back(device.Put(std::vector<uint32_t>(64 * 50)));
  for (uint64_t out : outs) {
    threads.emplace_back([&, out] {
      for (int n = 0; n < 20; ++n) {
        LaunchConfig config;
        config.grid = {50, 1, 1};
        config.block = {64, 1, 1};
        config.memory = device.Map();
        Parameters parameters(out, in);
        config.parameters = parameters.bytes();
        EXPECT_EQ(executor.Run(*loaded.program, 0, config).fault, Fault::kNone);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (uint64_t out : outs) EXPECT_EQ(device.Get<uint32_t>(out, 64 * 50)[64 * 49 + 7], 22u);
}

}  // namespace
}  // namespace tf::simgpu::ptx
