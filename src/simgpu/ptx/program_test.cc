#include "simgpu/ptx/program.h"

#include "gmock/gmock.h"
#include "simgpu/ptx/testing.h"

namespace tf::simgpu::ptx {
namespace {

using ::testing::HasSubstr;

const char kHead[] = ".version 7.0\n.target sm_75\n.address_size 64\n";

std::string Body(std::string_view text) {
  return std::string(kHead) +
         ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .f32 "
         "%f<8>;\n.reg .b64 %rd<8>;\n" +
         std::string(text) + "\nret;\n}\n";
}

absl::Status StatusOf(std::string_view text, int sm = 90) { return Program::Parse(text, sm).status(); }

TEST(Program, VectorAdd) {
  Device device;
  Loaded loaded = Load(device, std::string(kHead) + R"(
.visible .entry add(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<11>;
  ld.param.u64 %rd1, [pa];
  ld.param.u64 %rd2, [pb];
  ld.param.u64 %rd3, [pc];
  ld.param.u32 %r2, [n];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r1, %r3, %r4, %r5;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra $L__done;
  cvta.to.global.u64 %rd4, %rd1;
  mul.wide.s32 %rd5, %r1, 4;
  add.s64 %rd6, %rd4, %rd5;
  cvta.to.global.u64 %rd7, %rd2;
  add.s64 %rd8, %rd7, %rd5;
  ld.global.f32 %f1, [%rd8];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f2, %f1;
  cvta.to.global.u64 %rd9, %rd3;
  add.s64 %rd10, %rd9, %rd5;
  st.global.f32 [%rd10], %f3;
$L__done:
  ret;
}
)");
  ASSERT_TRUE(loaded.program);
  const KernelInfo& info = loaded.program->kernels()[0];
  EXPECT_EQ(info.name, "add");
  ASSERT_EQ(info.parameters.size(), 4u);
  EXPECT_EQ(info.parameters[3].offset, 24u);
  EXPECT_EQ(info.parameters[3].size, 4u);
  EXPECT_EQ(info.parameter_bytes, 28u);
  EXPECT_EQ(loaded.program->isa_version(), 70);
  EXPECT_EQ(loaded.program->target_sm(), 75);
  std::vector<float> a(1000), b(1000);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = 2 * a[i];
  }
  uint64_t pa = device.Put(a), pb = device.Put(b), pc = device.Put(a);
  LaunchResult result = Launch(device, loaded, "add", {4, 1, 1}, {256, 1, 1}, Parameters(pa, pb, pc, 1000));
  EXPECT_EQ(result.fault, Fault::kNone) << result.message;
  EXPECT_GT(result.lane_operations, 20000u);
  std::vector<float> c = device.Get<float>(pc, 1000);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(c[i], a[i] + b[i]);
}

struct Refused {
  const char* body;
  absl::StatusCode code;
  const char* message;
};

TEST(Program, SaysWhatIsWrongAndWhere) {
  const Refused kCases[] = {
      {"frobnicate.u32 %r1, %r2;", absl::StatusCode::kUnimplemented, "line 11: opcode 'frobnicate.u32'"},
      {"\n\ntex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [p, {%f1,%f2}];", absl::StatusCode::kUnimplemented,
       "line 13: opcode 'tex.2d.v4.f32.f32'"},
      {"add.wrong.u32 %r1, %r2, %r3;", absl::StatusCode::kUnimplemented, "'.wrong'"},
      {"add.u8 %r1, %r2, %r3;", absl::StatusCode::kInvalidArgument, "bits"},
      {"add.u32 %r1, %r2;", absl::StatusCode::kInvalidArgument, "expected 3 operands, found 2"},
      {"add.u32 %r1, %r2, %rd1;", absl::StatusCode::kInvalidArgument, "'%rd1' has 64 bits, expected 32"},
      {"add.u32 %r1, %r2, %r9;", absl::StatusCode::kUnimplemented, "'%r9'"},
      {"add.u32 %r1, %r2, %r3", absl::StatusCode::kInvalidArgument, "expected ';'"},
      {"bra nowhere;", absl::StatusCode::kInvalidArgument, "unknown label 'nowhere'"},
      {"ld.global.u32 %r1, %rd1;", absl::StatusCode::kInvalidArgument, "address"},
      {"ld.global.u64 %r1, [%rd1];", absl::StatusCode::kInvalidArgument, "too narrow"},
      {"ld.param.u64 %rd1, [p+4];", absl::StatusCode::kInvalidArgument, "beyond the parameters"},
      {"call nothing;", absl::StatusCode::kInvalidArgument, "unknown function 'nothing'"},
      {"@%r1 bra x; x:", absl::StatusCode::kInvalidArgument, "no predicate"},
      {"x: x: bra x;", absl::StatusCode::kInvalidArgument, "defined twice"},
      {"cvt.u32.f32 %r1, %f1;", absl::StatusCode::kInvalidArgument, "needs .rni"},
      {"setp.hi.s32 %p1, %r1, %r2;", absl::StatusCode::kUnimplemented, "setp.hi.s32"},
      {"shfl.down.b32 %r1, %r2, 1, 31;", absl::StatusCode::kUnimplemented, "shfl.down.b32"},
      {".reg .b32 %r<99999999>;", absl::StatusCode::kInvalidArgument, "too many registers"},
      {".tex .u64 t;", absl::StatusCode::kUnimplemented, "'.tex'"},
      {"mov.u64 %rd1, unheard;", absl::StatusCode::kInvalidArgument, "unknown name 'unheard'"},
      {"bar.sync;", absl::StatusCode::kInvalidArgument, "operands"},
      {"add.f64 %rd1, %rd2, 0d0;", absl::StatusCode::kInvalidArgument, "line 11"},
      {"st.const.u32 [%rd1], %r1;", absl::StatusCode::kInvalidArgument, "constant memory"},
  };
  for (const Refused& c : kCases) {
    absl::Status status = StatusOf(Body(c.body));
    EXPECT_EQ(status.code(), c.code) << c.body << ": " << std::string(status.message());
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.body;
  }
}

TEST(Program, ChecksTheHead) {
  EXPECT_EQ(StatusOf("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(StatusOf(".target sm_75\n").message()), HasSubstr(".version"));
  EXPECT_THAT(std::string(StatusOf(".version 7.0\n").message()), HasSubstr(".target"));
  EXPECT_THAT(std::string(StatusOf(".version 7.0\n.target sm_90\n", 80).message()),
              HasSubstr("for sm_90, the device is sm_80"));
  EXPECT_FALSE(StatusOf(".version 8.0\n.target sm_90a\n", 100).ok());
  EXPECT_TRUE(StatusOf(".version 8.0\n.target sm_90a\n", 90).ok());
  EXPECT_FALSE(StatusOf(".version 7.0\n.target sm_75\n.address_size 32\n").ok());
}

TEST(Program, GlobalsWithInitialValues) {
  Device device;
  Loaded loaded = Load(device, std::string(kHead) + R"(
.global .align 4 .u32 plain[3] = {1, 2+3*2, (1<<4)|1};
.visible .const .align 8 .f64 real = 0d3FF8000000000000;
.global .f32 reals[2] = {1.5, 0f40000000};
.global .align 8 .u64 pointers[2] = {plain+4, generic(real)};
.global .align 1 .b8 text[6] = {104, 105, 0};
.extern .shared .align 16 .b8 dynamic[];
.visible .global .align 8 .b8 mixed[16] = {0xFF(plain), 0xFF00(plain), 0xFF0000(plain), 0xFF000000(plain), 0xFF00000000(plain), 0xFF0000000000(plain), 0xFF000000000000(plain), 0xFF00000000000000(plain), 7};
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<9>; .reg .b32 %r<5>; .reg .f64 %fd<2>;
  ld.param.u64 %rd1, [out];
  ld.global.u64 %rd2, [pointers];
  ld.u32 %r1, [%rd2];
  st.global.u32 [%rd1], %r1;
  ld.const.f64 %fd1, [real];
  st.global.f64 [%rd1+8], %fd1;
  mov.u64 %rd3, plain+8;
  ld.global.u32 %r2, [%rd3];
  st.global.u32 [%rd1+16], %r2;
  ld.global.u64 %rd4, [mixed];
  ld.global.u32 %r3, [%rd4];
  st.global.u32 [%rd1+24], %r3;
  ld.global.u8 %r4, [text+1];
  st.global.u32 [%rd1+32], %r4;
  ret;
}
)");
  ASSERT_TRUE(loaded.program);
  ASSERT_EQ(loaded.program->globals().size(), 6u);
  EXPECT_TRUE(loaded.program->globals()[1].constant);
  EXPECT_TRUE(loaded.program->globals()[1].visible);
  EXPECT_FALSE(loaded.program->globals()[0].visible);
  EXPECT_EQ(loaded.program->globals()[3].relocations.size(), 2u);
  uint64_t out = device.Put(std::vector<uint64_t>(5));
  LaunchResult result = Launch(device, loaded, "k", {1, 1, 1}, {1, 1, 1}, Parameters(out));
  EXPECT_EQ(result.fault, Fault::kNone) << result.message;
  std::vector<uint64_t> got = device.Get<uint64_t>(out, 5);
  EXPECT_EQ(got[0], 8u);
  EXPECT_EQ(got[1], 0x3FF8000000000000u);
  EXPECT_EQ(got[2], 17u);
  EXPECT_EQ(got[3], 1u);
  EXPECT_EQ(got[4], 105u);
}

TEST(Program, BindChecksTheNumberOfAddresses) {
  auto program = Program::Parse(std::string(kHead) + ".global .u32 x;", 75);
  ASSERT_TRUE(program.ok());
  EXPECT_FALSE((*program)->Bind({}).ok());
  uint64_t address = 4096;
  EXPECT_TRUE((*program)->Bind({&address, 1}).ok());
  EXPECT_FALSE((*program)->Bind({&address, 1}).ok());
}

TEST(Program, KernelAttributes) {
  auto program = Program::Parse(std::string(kHead) + R"(
.shared .align 4 .b8 a[100];
.shared .align 16 .b8 b[32];
.func f() { .reg .b32 %r1; ld.shared.u32 %r1, [b]; ret; }
.visible .entry one() .maxntid 128, 2, 1 { .reg .b32 %r1; ld.shared.u32 %r1, [a]; ret; }
.visible .entry two() .reqntid 64 .minnctapersm 2 { .local .align 8 .b8 depot[24]; .reg .b32 %r1; ld.shared.u32 %r1, [a]; call f, (); ret; }
)",
                                75);
  ASSERT_TRUE(program.ok()) << std::string(program.status().message());
  const auto& kernels = (*program)->kernels();
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].static_shared_bytes, 100u);
  EXPECT_EQ(kernels[0].max_threads, 256u);
  EXPECT_EQ(kernels[0].required_block[0], 0u);
  EXPECT_EQ(kernels[1].static_shared_bytes, 144u);
  EXPECT_EQ(kernels[1].max_threads, 64u);
  EXPECT_EQ(kernels[1].required_block, (std::array<uint32_t, 3>{64, 1, 1}));
  EXPECT_EQ(kernels[1].local_bytes, 24u);
}

// No text, however broken, does more than be refused.
TEST(Program, TruncatedAndMutatedText) {
  std::string whole = Body(
      "ld.param.u64 %rd1, [p]; { .reg .b32 %x; mov.b32 %x, {%h1, %h2}; L: @!%p1 bra L; } mov.u32 %r1, (1+2)*3; call "
      "(%r1), f, (%r2);");
  for (size_t n = 0; n < whole.size(); ++n) StatusOf(whole.substr(0, n)).IgnoreError();
  uint64_t seed = 1;
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (int k = 0; k < 3; ++k) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      static const char kBytes[] = "{}[]();,.%<>!@+-09afx\"\n ";
      text[(seed >> 33) % text.size()] = kBytes[(seed >> 20) % (sizeof kBytes - 1)];
    }
    StatusOf(text).IgnoreError();
  }
}

}  // namespace
}  // namespace tf::simgpu::ptx
