// Every opcode and type against plain C++ arithmetic that shares nothing with the handlers. Each line of the table runs
// over all combinations of edge values of its operands, in full and partial warps, with both sets of handlers.
#include <bit>
#include <cfenv>
#include <cmath>
#include <functional>

#include "simgpu/ptx/testing.h"

namespace tf::simgpu::ptx {
namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
__extension__ typedef __int128 s128;
__extension__ typedef unsigned __int128 u128;
using V = const u64*;  // the operands a, b, c, e

float F(u64 bits) { return std::bit_cast<float>(static_cast<u32>(bits)); }
double D(u64 bits) { return std::bit_cast<double>(bits); }
u64 B(float x) { return x == x ? std::bit_cast<u32>(x) : 0x7fffffffu; }
u64 B(double x) { return x == x ? std::bit_cast<u64>(x) : 0x7fffffffffffffffull; }
float Z(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float Sat(float x) { return x > 0 ? std::min(x, 1.0f) : 0.0f; }

// f16 and bf16 by their definition: sign, exponent, fraction.
double HalfValue(u64 h, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int e = static_cast<int>(h >> fraction_bits) & ((1 << exponent_bits) - 1);
  double f = static_cast<double>(h & ((1u << fraction_bits) - 1));
  double sign = h & 0x8000 ? -1 : 1;
  if (e == (1 << exponent_bits) - 1) return f != 0 ? NAN : sign * INFINITY;
  double scale = std::ldexp(1.0, -fraction_bits);
  return e == 0 ? sign * std::ldexp(f * scale, 1 - bias) : sign * std::ldexp(1 + f * scale, e - bias);
}
double H(u64 h) { return HalfValue(h & 0xffff, 5); }
double BF(u64 h) { return HalfValue(h & 0xffff, 8); }
// The nearest representable value, by search among all of them; ties go to the even one.
u64 NearestHalf(long double x, int exponent_bits) {
  if (std::isnan(x)) return 0x7fff;
  u64 infinity = ((1u << exponent_bits) - 1u) << (15 - exponent_bits);
  u64 sign = std::signbit(x) ? 0x8000 : 0;
  x = fabsl(x);
  u64 low = 0, high = infinity;
  while (high - low > 1) {
    u64 middle = (low + high) / 2;
    (static_cast<long double>(HalfValue(middle, exponent_bits)) <= x ? low : high) = middle;
  }
  if (x >= static_cast<long double>(HalfValue(infinity - 1, exponent_bits))) {
    long double top = static_cast<long double>(HalfValue(infinity - 1, exponent_bits));
    long double step = top - static_cast<long double>(HalfValue(infinity - 2, exponent_bits));
    return sign | (x >= top + step / 2 ? infinity : infinity - 1);
  }
  long double below = x - static_cast<long double>(HalfValue(low, exponent_bits)),
              above = static_cast<long double>(HalfValue(high, exponent_bits)) - x;
  return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}
u64 ToH(long double x) { return NearestHalf(x, 5); }
u64 ToBF(long double x) { return NearestHalf(x, 8); }
// a * b + c, moved off exact ties by what long double could not hold.
long double Fused(double a, double b, double c) {
  long double product = static_cast<long double>(a) * b, sum = product + c;
  if (!std::isfinite(sum)) return sum;
  long double rest =
      std::fabs(product) > std::fabs(static_cast<long double>(c)) ? c - (sum - product) : product - (sum - c);
  return rest == 0 ? sum : nextafterl(sum, rest > 0 ? INFINITY : -INFINITY);
}
u64 Pair(u64 (*f)(u64, u64, u64), V v) {
  return (f(v[0] & 0xffff, v[1] & 0xffff, v[2] & 0xffff)) |
         (f(v[0] >> 16 & 0xffff, v[1] >> 16 & 0xffff, v[2] >> 16 & 0xffff) << 16);
}

template <typename T>
T InMode(int mode, T (*f)(V), V v) {
  std::fesetround(mode);
  volatile T r = f(v);
  std::fesetround(FE_TONEAREST);
  return r;
}

template <typename To>
u64 Clamp(long double x) {
  if (std::isnan(x)) return 0;
  if (x >= static_cast<long double>(std::numeric_limits<To>::max()))
    return static_cast<u64>(std::numeric_limits<To>::max());
  if (x <= static_cast<long double>(std::numeric_limits<To>::min()))
    return static_cast<u64>(std::numeric_limits<To>::min());
  return static_cast<u64>(static_cast<To>(x));
}

struct Row {
  const char* code;   // %d is the result, %a %b %c %e the operands; %x32, %x64, %q are free
  const char* types;  // of d, a, b, c, e
  std::function<u64(V)> expected;
  double tolerance = 0;  // relative, for the approximate instructions
};

const std::vector<u64>& Edges(const std::string& type) {
  static const auto& edges = *new std::map<std::string, std::vector<u64>>{
      {"p", {0, 1}},
      {"b16", {0, 1, 2, 3, 0x7fff, 0x8000, 0xffff, 0x1234, 0xff80}},
      {"b32",
       {0,      1,      2,      5,          31,         32,         33,         0x7f,       0x80,       0xff,
        0x7fff, 0x8000, 0xffff, 0x12345678, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff, 0xdeadbeef}},
      {"b64",
       {0, 1, 2, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x123456789abcdef0, 0x7fffffffffffffff,
        0x8000000000000000, 0x8000000000000001, 0xfffffffffffffffe, 0xffffffffffffffff}},
      {"n",
       {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x80000001, 0xffffffff}},  // shift amounts, positions
      {"sel", {0x3210, 0x7654, 0x0123, 0xba98, 0xfedc, 0x8888, 0x7777, 0, 1, 2, 3, 0x12345678}},
      {"f32", {0,          0x80000000, B(1.0f),    B(-1.0f),   B(1.5f),          B(-2.5f),    B(0.5f), B(0.1f),
               B(3.0f),    B(1e-30f),  B(-3e9f),   B(5e9f),    B(2147483648.0f), B(65519.0f), 1,       0x80000001,
               0x007fffff, 0x00800000, 0x7f7fffff, 0x7f800000, 0xff800000,       0x7fc00000}},
      {"f64",
       {0, 0x8000000000000000, B(1.0), B(-1.0), B(1.5), B(-2.5), B(0.1), B(3.0), B(1e-300), B(-3e9), B(1e19),
        B(-9.3e18), B(3.4028236e38), B(1e-40), 1, 0x7fefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
        0x7ff8000000000000}},
      {"h",
       {0, 0x8000, 0x3c00, 0xbc00, 0x3e00, 0x3555, 1, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x6400,
        0x2e66, 0x1001}},
      {"bf",
       {0, 0x8000, 0x3f80, 0xbf80, 0x3fc0, 0x3eab, 1, 0x807f, 0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x4301,
        0x3dcd, 0x1234}},
      {"h2", {0, 0x3c00bc00, 0x7e003c00, 0x7c007bff, 0x00018001, 0x35553e00, 0xfbff0400}},
      {"bf2", {0, 0x3f80bf80, 0x7fc03f80, 0x7f807f7f, 0x00018001, 0x3eab3fc0, 0xff7f0080}},
      {"small", {0, 1, 2, 0x12345678, 0xffffffff, 0x80000000}},
      {"small64", {0, 1, 0x123456789abcdef0, 0xffffffffffffffff, 0x8000000000000000}},
      {"fs", {0, B(1.0f), B(-2.5f), B(0.1f), 1, 0x7f7fffff, 0xff800000, 0x7fc00000}},
      {"fds", {0, B(1.0), B(-2.5), B(0.1), 1, 0x7fefffffffffffff, 0xfff0000000000000, 0x7ff8000000000000}},
      {"fpos", {B(1.0f), B(2.0f), B(0.1f), B(3.0f), B(1e10f), B(1e-10f), B(65519.0f)}},
      {"fang", {0, B(0.5f), B(-1.0f), B(3.0f), B(-3.1f), B(0.01f)}},
      {"dpos", {B(1.0), B(2.0), B(0.1), B(3.0), B(1e10), B(1e-10)}},
      {"b8", {0, 1, 0x7f, 0x80, 0xff}},
  };
  return edges.at(type);
}

std::string Ptx(const std::string& type) {
  if (type == "p") return "pred";
  if (type == "b16" || type == "h" || type == "bf" || type == "b8") return "b16";
  if (type == "b64" || type == "f64" || type == "small64" || type == "fds" || type == "dpos") return "b64";
  return "b32";
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> words;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string KernelOf(const Row& row, size_t index) {
  std::vector<std::string> types = Split(row.types);
  const char names[] = {'d', 'a', 'b', 'c', 'e'};
  std::string s = ".visible .entry k" + std::to_string(index) +
                  "_(.param .u64 in, .param .u64 out, .param .u32 n) {\n.reg .pred %q<3>, %end;\n.reg .b32 %x32, "
                  "%i;\n.reg .b64 %x64, %in, %out;\n.reg .b16 %x16;\n";
  for (size_t k = 0; k < types.size(); ++k) s += ".reg ." + Ptx(types[k]) + " %" + names[k] + ";\n";
  s += "mov.u32 %i, %ctaid.x; mov.u32 %x32, %ntid.x; mul.lo.u32 %i, %i, %x32; mov.u32 %x32, %tid.x; add.u32 %i, %i, "
       "%x32;\n"
       "ld.param.u32 %x32, [n]; setp.ge.u32 %end, %i, %x32; @%end bra DONE;\n"
       "ld.param.u64 %in, [in]; mul.wide.u32 %x64, %i, 32; add.u64 %in, %in, %x64;\n"
       "ld.param.u64 %out, [out]; mul.wide.u32 %x64, %i, 8; add.u64 %out, %out, %x64;\n";
  for (size_t k = 1; k < types.size(); ++k) {
    std::string at = "[%in+" + std::to_string(8 * (k - 1)) + "];\n";
    std::string type = Ptx(types[k]);
    if (type == "pred") {
      s += "ld.global.u32 %x32, " + at + "setp.ne.u32 %" + names[k] + ", %x32, 0;\n";
    } else {
      s += "ld.global." + type + " %" + names[k] + ", " + at;
    }
  }
  s += "mov.u32 %x32, 0; mov.u64 %x64, 0;\n" + std::string(row.code) + ";\n";
  if (types[0] == "p") {
    s += "selp.u32 %x32, 1, 0, %d; cvt.u64.u32 %x64, %x32;\n";
  } else if (Ptx(types[0]) == "b64") {
    s += "mov.b64 %x64, %d;\n";
  } else {
    s += "cvt.u64.u" + Ptx(types[0]).substr(1) + " %x64, %d;\n";
  }
  return s + "st.global.u64 [%out], %x64;\nDONE: ret;\n}\n";
}

bool Matches(const Row& row, const std::string& type, u64 got, u64 want) {
  if (got == want) return true;
  if (Ptx(type) == "b64" && std::strncmp(row.code, "mov", 3) != 0 && std::isnan(D(got)) && std::isnan(D(want)) &&
      type[0] == 'f')
    return true;
  if (row.tolerance == 0) return false;
  double g = type == "f64" ? D(got) : F(got), w = type == "f64" ? D(want) : F(want);
  if (std::isnan(g) && std::isnan(w)) return true;
  return std::fabs(g - w) <= row.tolerance * std::max(std::fabs(w), 1e-30);
}

void RunTable(const std::vector<Row>& rows) {
  std::string text = ".version 8.6\n.target sm_90\n.address_size 64\n";
  for (size_t i = 0; i < rows.size(); ++i) text += KernelOf(rows[i], i);
  for (bool plain_only : {false, true}) {
    Device device;
    Loaded loaded = Load(device, text, plain_only);
    ASSERT_TRUE(loaded.program);
    uint64_t in = device.Allocate(32 * 20000), out = device.Allocate(8 * 20000);
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<std::string> types = Split(rows[i].types);
      std::vector<u64> inputs;
      size_t count = 1;
      for (size_t k = 1; k < types.size(); ++k) count *= Edges(types[k]).size();
      ASSERT_LE(count, 20000u) << rows[i].code;
      for (size_t n = 0; n < count; ++n) {
        size_t rest = n;
        for (size_t k = 1; k < 5; ++k) {
          if (k >= types.size()) {
            inputs.push_back(0);
            continue;
          }
          const std::vector<u64>& edges = Edges(types[k]);
          inputs.push_back(edges[rest % edges.size()]);
          rest /= edges.size();
        }
      }
      std::memcpy(reinterpret_cast<void*>(in), inputs.data(), inputs.size() * 8);
      std::memset(reinterpret_cast<void*>(out), 0xee, count * 8);
      // 96 threads: the last warps are partial or idle.
      auto blocks = static_cast<uint32_t>((count + 95) / 96);
      LaunchResult result = Launch(device, loaded, "k" + std::to_string(i) + "_", {blocks, 1, 1}, {96, 1, 1},
                                   Parameters(in, out, static_cast<uint32_t>(count)));
      ASSERT_EQ(result.fault, Fault::kNone) << rows[i].code << ": " << result.message;
      std::vector<u64> got = device.Get<u64>(out, count);
      int shown = 0;
      for (size_t n = 0; n < count; ++n) {
        u64 want = rows[i].expected(inputs.data() + 4 * n);
        if (Ptx(types[0]) == "b16") want &= 0xffff;
        if (Ptx(types[0]) == "b32") want &= 0xffffffff;
        if (Matches(rows[i], types[0], got[n], want)) continue;
        ADD_FAILURE() << rows[i].code << (plain_only ? " (plain)" : "") << std::hex << " a=" << inputs[4 * n]
                      << " b=" << inputs[4 * n + 1] << " c=" << inputs[4 * n + 2] << " e=" << inputs[4 * n + 3]
                      << ": got " << got[n] << ", expected " << want;
        if (++shown == 3) break;
      }
    }
  }
}

#define ROW(code, types, ...)                                                              \
  Row {                                                                                    \
    code, types, []([[maybe_unused]] V v) -> u64 { return static_cast<u64>(__VA_ARGS__); } \
  }
#define A v[0]
#define BB v[1]
#define C v[2]
#define E v[3]

template <typename T>
T Div(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && static_cast<s64>(b) == -1) return static_cast<T>(0 - static_cast<u64>(a));
  return static_cast<T>(a / b);
}
template <typename T>
T Rem(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && static_cast<s64>(b) == -1) return 0;
  return static_cast<T>(a % b);
}
template <typename T>
T Clip(s128 x) {
  return x > std::numeric_limits<T>::max()   ? std::numeric_limits<T>::max()
         : x < std::numeric_limits<T>::min() ? std::numeric_limits<T>::min()
                                             : static_cast<T>(x);
}

TEST(Ops, Integer) {
  RunTable({
      ROW("add.u16 %d, %a, %b", "b16 b16 b16", A + BB),
      ROW("add.s16 %d, %a, %b", "b16 b16 b16", A + BB),
      ROW("add.u32 %d, %a, %b", "b32 b32 b32", A + BB),
      ROW("add.s32 %d, %a, %b", "b32 b32 b32", A + BB),
      ROW("add.u64 %d, %a, %b", "b64 b64 b64", A + BB),
      ROW("add.s64 %d, %a, %b", "b64 b64 b64", A + BB),
      ROW("add.sat.s32 %d, %a, %b", "b32 b32 b32", static_cast<u32>(Clip<s32>(s128{s32(A)} + s32(BB)))),
      ROW("add.u16x2 %d, %a, %b", "b32 b32 b32", ((A + BB) & 0xffff) | ((A >> 16) + (BB >> 16)) << 16),
      ROW("sub.u16 %d, %a, %b", "b16 b16 b16", A - BB),
      ROW("sub.s16 %d, %a, %b", "b16 b16 b16", A - BB),
      ROW("sub.s32 %d, %a, %b", "b32 b32 b32", A - BB),
      ROW("sub.u32 %d, %a, %b", "b32 b32 b32", A - BB),
      ROW("sub.s64 %d, %a, %b", "b64 b64 b64", A - BB),
      ROW("sub.u64 %d, %a, %b", "b64 b64 b64", A - BB),
      ROW("sub.sat.s32 %d, %a, %b", "b32 b32 b32", static_cast<u32>(Clip<s32>(s128{s32(A)} - s32(BB)))),
      ROW("mul.lo.u16 %d, %a, %b", "b16 b16 b16", A * BB),
      ROW("mul.lo.s16 %d, %a, %b", "b16 b16 b16", A * BB),
      ROW("mul.lo.s32 %d, %a, %b", "b32 b32 b32", A * BB),
      ROW("mul.lo.u32 %d, %a, %b", "b32 b32 b32", A * BB),
      ROW("mul.lo.s64 %d, %a, %b", "b64 b64 b64", A * BB),
      ROW("mul.lo.u64 %d, %a, %b", "b64 b64 b64", A * BB),
      ROW("mul.hi.u16 %d, %a, %b", "b16 b16 b16", A * BB >> 16),
      ROW("mul.hi.s16 %d, %a, %b", "b16 b16 b16", s32(s16(A)) * s16(BB) >> 16),
      ROW("mul.hi.u32 %d, %a, %b", "b32 b32 b32", A * BB >> 32),
      ROW("mul.hi.s32 %d, %a, %b", "b32 b32 b32", s64(s32(A)) * s32(BB) >> 32),
      ROW("mul.hi.u64 %d, %a, %b", "b64 b64 b64", u128{A} * BB >> 64),
      ROW("mul.hi.s64 %d, %a, %b", "b64 b64 b64", s128(s64(A)) * s64(BB) >> 64),
      ROW("mul.wide.u16 %d, %a, %b", "b32 b16 b16", A * BB),
      ROW("mul.wide.s16 %d, %a, %b", "b32 b16 b16", s32(s16(A)) * s16(BB)),
      ROW("mul.wide.u32 %d, %a, %b", "b64 b32 b32", A * BB),
      ROW("mul.wide.s32 %d, %a, %b", "b64 b32 b32", s64(s32(A)) * s32(BB)),
      ROW("mad.lo.u16 %d, %a, %b, %c", "b16 b16 b16 b16", A * BB + C),
      ROW("mad.lo.s32 %d, %a, %b, %c", "b32 b32 b32 small", A * BB + C),
      ROW("mad.lo.u32 %d, %a, %b, %c", "b32 b32 b32 small", A * BB + C),
      ROW("mad.lo.s64 %d, %a, %b, %c", "b64 b64 b64 small64", A * BB + C),
      ROW("mad.lo.u64 %d, %a, %b, %c", "b64 b64 b64 small64", A * BB + C),
      ROW("mad.hi.u32 %d, %a, %b, %c", "b32 b32 b32 small", (A * BB >> 32) + C),
      ROW("mad.hi.s32 %d, %a, %b, %c", "b32 b32 b32 small", (s64(s32(A)) * s32(BB) >> 32) + s64(C)),
      ROW("mad.hi.sat.s32 %d, %a, %b, %c", "b32 b32 b32 small", u32(Clip<s32>((s64(s32(A)) * s32(BB) >> 32) + s32(C)))),
      ROW("mad.hi.u64 %d, %a, %b, %c", "b64 b64 b64 small64", (u128{A} * BB >> 64) + C),
      ROW("mad.hi.s64 %d, %a, %b, %c", "b64 b64 b64 small64", u64(s128(s64(A)) * s64(BB) >> 64) + C),
      ROW("mad.wide.u16 %d, %a, %b, %c", "b32 b16 b16 small", A * BB + C),
      ROW("mad.wide.s16 %d, %a, %b, %c", "b32 b16 b16 small", s32(s16(A)) * s16(BB) + s64(C)),
      ROW("mad.wide.u32 %d, %a, %b, %c", "b64 b32 b32 small64", A * BB + C),
      ROW("mad.wide.s32 %d, %a, %b, %c", "b64 b32 b32 small64", u64(s64(s32(A)) * s32(BB)) + C),
      ROW("mul24.lo.u32 %d, %a, %b", "b32 b32 b32", (A & 0xffffff) * (BB & 0xffffff)),
      ROW("mul24.hi.u32 %d, %a, %b", "b32 b32 b32", (A & 0xffffff) * (BB & 0xffffff) >> 16),
      ROW("mul24.lo.s32 %d, %a, %b", "b32 b32 b32", s64(s32(u32(A) << 8) >> 8) * (s32(u32(BB) << 8) >> 8)),
      ROW("mul24.hi.s32 %d, %a, %b", "b32 b32 b32", s64(s32(u32(A) << 8) >> 8) * (s32(u32(BB) << 8) >> 8) >> 16),
      ROW("mad24.lo.s32 %d, %a, %b, %c", "b32 b32 b32 small",
          s64(s32(u32(A) << 8) >> 8) * (s32(u32(BB) << 8) >> 8) + s64(C)),
      ROW("mad24.lo.u32 %d, %a, %b, %c", "b32 b32 b32 small", (A & 0xffffff) * (BB & 0xffffff) + C),
      ROW("mad24.hi.u32 %d, %a, %b, %c", "b32 b32 b32 small", ((A & 0xffffff) * (BB & 0xffffff) >> 16) + C),
      ROW("mad24.hi.s32 %d, %a, %b, %c", "b32 b32 b32 small",
          (s64(s32(u32(A) << 8) >> 8) * (s32(u32(BB) << 8) >> 8) >> 16) + s64(C)),
      ROW("mad24.hi.sat.s32 %d, %a, %b, %c", "b32 b32 b32 small",
          u32(Clip<s32>(s64(s32(s64(s32(u32(A) << 8) >> 8) * (s32(u32(BB) << 8) >> 8) >> 16)) + s32(C)))),
      ROW("sad.u16 %d, %a, %b, %c", "b16 b16 b16 b16", C + (A > BB ? A - BB : BB - A)),
      ROW("sad.s16 %d, %a, %b, %c", "b16 b16 b16 b16", s64(C) + std::abs(s64(s16(A)) - s16(BB))),
      ROW("sad.u32 %d, %a, %b, %c", "b32 b32 b32 small", C + (A > BB ? A - BB : BB - A)),
      ROW("sad.s32 %d, %a, %b, %c", "b32 b32 b32 small", s64(C) + std::abs(s64(s32(A)) - s32(BB))),
      ROW("sad.u64 %d, %a, %b, %c", "b64 b64 b64 small64", C + (A > BB ? A - BB : BB - A)),
      ROW("sad.s64 %d, %a, %b, %c", "b64 b64 b64 small64", C + (s64(A) > s64(BB) ? A - BB : BB - A)),
      ROW("div.u16 %d, %a, %b", "b16 b16 b16", Div<u16>(u16(A), u16(BB))),
      ROW("div.s16 %d, %a, %b", "b16 b16 b16", Div<s16>(s16(A), s16(BB))),
      ROW("div.u32 %d, %a, %b", "b32 b32 b32", Div<u32>(u32(A), u32(BB))),
      ROW("div.s32 %d, %a, %b", "b32 b32 b32", Div<s32>(s32(A), s32(BB))),
      ROW("div.u64 %d, %a, %b", "b64 b64 b64", Div<u64>(A, BB)),
      ROW("div.s64 %d, %a, %b", "b64 b64 b64", Div<s64>(s64(A), s64(BB))),
      ROW("rem.u16 %d, %a, %b", "b16 b16 b16", Rem<u16>(u16(A), u16(BB))),
      ROW("rem.s16 %d, %a, %b", "b16 b16 b16", Rem<s16>(s16(A), s16(BB))),
      ROW("rem.u32 %d, %a, %b", "b32 b32 b32", Rem<u32>(u32(A), u32(BB))),
      ROW("rem.s32 %d, %a, %b", "b32 b32 b32", Rem<s32>(s32(A), s32(BB))),
      ROW("rem.u64 %d, %a, %b", "b64 b64 b64", Rem<u64>(A, BB)),
      ROW("rem.s64 %d, %a, %b", "b64 b64 b64", Rem<s64>(s64(A), s64(BB))),
      ROW("abs.s16 %d, %a", "b16 b16", s16(A) < 0 ? 0 - A : A),
      ROW("abs.s32 %d, %a", "b32 b32", s32(A) < 0 ? 0 - A : A),
      ROW("abs.s64 %d, %a", "b64 b64", s64(A) < 0 ? 0 - A : A),
      ROW("neg.s16 %d, %a", "b16 b16", 0 - A),
      ROW("neg.s32 %d, %a", "b32 b32", 0 - A),
      ROW("neg.s64 %d, %a", "b64 b64", 0 - A),
      ROW("min.u16 %d, %a, %b", "b16 b16 b16", std::min(A, BB)),
      ROW("min.s16 %d, %a, %b", "b16 b16 b16", std::min(s16(A), s16(BB))),
      ROW("min.u32 %d, %a, %b", "b32 b32 b32", std::min(A, BB)),
      ROW("min.s32 %d, %a, %b", "b32 b32 b32", std::min(s32(A), s32(BB))),
      ROW("min.u64 %d, %a, %b", "b64 b64 b64", std::min(A, BB)),
      ROW("min.s64 %d, %a, %b", "b64 b64 b64", std::min(s64(A), s64(BB))),
      ROW("max.u16 %d, %a, %b", "b16 b16 b16", std::max(A, BB)),
      ROW("max.s16 %d, %a, %b", "b16 b16 b16", std::max(s16(A), s16(BB))),
      ROW("max.u32 %d, %a, %b", "b32 b32 b32", std::max(A, BB)),
      ROW("max.s32 %d, %a, %b", "b32 b32 b32", std::max(s32(A), s32(BB))),
      ROW("max.u64 %d, %a, %b", "b64 b64 b64", std::max(A, BB)),
      ROW("max.s64 %d, %a, %b", "b64 b64 b64", std::max(s64(A), s64(BB))),
      ROW("max.relu.s32 %d, %a, %b", "b32 b32 b32", std::max({s32(A), s32(BB), 0})),
      ROW("min.relu.s32 %d, %a, %b", "b32 b32 b32", std::max(std::min(s32(A), s32(BB)), 0)),
      ROW("min.s16x2 %d, %a, %b", "b32 b32 b32",
          u16(std::min(s16(A), s16(BB))) | u32(u16(std::min(s16(A >> 16), s16(BB >> 16)))) << 16),
      ROW("min.u16x2 %d, %a, %b", "b32 b32 b32",
          std::min(u16(A), u16(BB)) | u32(std::min(u16(A >> 16), u16(BB >> 16))) << 16),
      ROW("max.s16x2 %d, %a, %b", "b32 b32 b32",
          u16(std::max(s16(A), s16(BB))) | u32(u16(std::max(s16(A >> 16), s16(BB >> 16)))) << 16),
      ROW("max.u16x2 %d, %a, %b", "b32 b32 b32",
          std::max(u16(A), u16(BB)) | u32(std::max(u16(A >> 16), u16(BB >> 16))) << 16),
      // carry chains
      ROW("add.cc.u32 %x32, %a, %b; addc.u32 %d, %c, %e", "b32 b32 b32 small small", C + E + ((A + BB) >> 32)),
      ROW("add.cc.s64 %x64, %a, %b; addc.s64 %d, %c, 0", "b64 b64 b64 small64", C + (A + BB < A)),
      ROW("add.cc.u32 %x32, %a, %b; addc.cc.u32 %x32, %c, %e; addc.u32 %d, 0, 0", "b32 b32 b32 small small",
          (C + E + ((A + BB) >> 32)) >> 32),
      ROW("sub.cc.u32 %x32, %a, %b; subc.u32 %d, %c, %e", "b32 b32 b32 small small", C - E - (A < BB)),
      ROW("sub.cc.u32 %x32, %a, %b; subc.cc.u32 %x32, %c, %e; subc.u32 %d, 0, 0", "b32 b32 b32 small small",
          C < E + (A < BB) ? ~u64{0} : 0),
      ROW("sub.cc.u64 %x64, %a, %b; subc.u64 %d, %c, 0", "b64 b64 b64 small64", C - (A < BB)),
      ROW("mad.lo.cc.u32 %x32, %a, %b, %c; madc.hi.u32 %d, %a, %b, %e", "b32 small b32 b32 small",
          (A * BB >> 32) + E + (((A * BB & 0xffffffff) + C) >> 32)),
      ROW("mad.hi.cc.s32 %d, %a, %b, %c", "b32 b32 b32 small", (s64(s32(A)) * s32(BB) >> 32) + s64(C)),
      ROW("mad.lo.cc.u64 %x64, %a, %b, %c; madc.hi.u64 %d, %a, %b, 0", "b64 b64 b64 small64", (u128{A} * BB + C) >> 64),
  });
}

u64 BfeReference(u64 a, u32 position, u32 length, int bits, bool is_signed) {
  position &= 255;
  length &= 255;
  u32 last = static_cast<u32>(bits - 1);
  u64 sign = is_signed && length != 0 ? a >> std::min(position + length - 1, last) & 1 : 0;
  u64 r = 0;
  for (u32 i = 0; i <= last; ++i) r |= (i < length && position + i <= last ? a >> (position + i) & 1 : sign) << i;
  return r;
}
u64 BfiReference(u64 a, u64 b, u32 position, u32 length, int bits) {
  position &= 255;
  length &= 255;
  u64 r = b;
  for (u32 i = 0; i < length && position + i < static_cast<u32>(bits); ++i) {
    u64 bit = u64{1} << (position + i);
    r = (r & ~bit) | ((a >> i & 1) ? bit : 0);
  }
  return r;
}
u64 BrevReference(u64 a, int bits) {
  u64 r = 0;
  for (int i = 0; i < bits; ++i) r |= (a >> i & 1) << (bits - 1 - i);
  return r;
}
u64 BfindReference(u64 a, int bits, bool is_signed, bool shift) {
  bool negative = is_signed && (a >> (bits - 1) & 1);
  for (int i = bits - 1; i >= 0; --i) {
    if ((a >> i & 1) != negative) return static_cast<u64>(shift ? bits - 1 - i : i);
  }
  return 0xffffffff;
}
u64 PrmtReference(u64 a, u64 b, u64 c, int mode) {
  u8 bytes[8];
  for (int i = 0; i < 4; ++i) {
    bytes[i] = static_cast<u8>(a >> (8 * i));
    bytes[4 + i] = static_cast<u8>(b >> (8 * i));
  }
  static const int kF4e[4][4] = {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}};
  static const int kB4e[4][4] = {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}};
  static const int kEcl[4][4] = {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}};
  static const int kEcr[4][4] = {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}};
  static const int kRc16[4][4] = {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}};
  u64 r = 0;
  for (int i = 0; i < 4; ++i) {
    u8 value;
    if (mode == 0) {
      int select = static_cast<int>(c >> (4 * i)) & 15;
      value = bytes[select & 7];
      if (select & 8) value = value & 0x80 ? 0xff : 0;
    } else {
      int n = static_cast<int>(c & 3);
      value = bytes[mode == 1   ? kF4e[n][i]
                    : mode == 2 ? kB4e[n][i]
                    : mode == 3 ? n
                    : mode == 4 ? kEcl[n][i]
                    : mode == 5 ? kEcr[n][i]
                                : kRc16[n][i]];
    }
    r |= u64{value} << (8 * i);
  }
  return r;
}
template <typename AT, typename BT>
u64 Dp4aReference(u64 a, u64 b, u64 c) {
  s64 sum = static_cast<s64>(c);
  for (int i = 0; i < 4; ++i) sum += s64{static_cast<AT>(a >> (8 * i))} * static_cast<BT>(b >> (8 * i));
  return static_cast<u64>(sum);
}
u64 BmskReference(u64 a, u64 b, bool clamp) {
  u64 r = 0;
  u64 from = clamp ? a : a & 31, width = clamp ? std::min<u64>(b, 32) : b & 31;
  for (u64 i = 0; i < 32; ++i) r |= u64{i >= from && i < from + width} << i;
  return r;
}

TEST(Ops, Bits) {
  RunTable({
      ROW("and.b16 %d, %a, %b", "b16 b16 b16", A & BB),
      ROW("and.b32 %d, %a, %b", "b32 b32 b32", A & BB),
      ROW("and.b64 %d, %a, %b", "b64 b64 b64", A & BB),
      ROW("or.b16 %d, %a, %b", "b16 b16 b16", A | BB),
      ROW("or.b32 %d, %a, %b", "b32 b32 b32", A | BB),
      ROW("or.b64 %d, %a, %b", "b64 b64 b64", A | BB),
      ROW("xor.b16 %d, %a, %b", "b16 b16 b16", A ^ BB),
      ROW("xor.b32 %d, %a, %b", "b32 b32 b32", A ^ BB),
      ROW("xor.b64 %d, %a, %b", "b64 b64 b64", A ^ BB),
      ROW("not.b16 %d, %a", "b16 b16", ~A),
      ROW("not.b32 %d, %a", "b32 b32", ~A),
      ROW("not.b64 %d, %a", "b64 b64", ~A),
      ROW("cnot.b16 %d, %a", "b16 b16", A == 0),
      ROW("cnot.b32 %d, %a", "b32 b32", A == 0),
      ROW("cnot.b64 %d, %a", "b64 b64", A == 0),
      ROW("and.pred %d, %a, %b", "p p p", A & BB),
      ROW("or.pred %d, %a, %b", "p p p", A | BB),
      ROW("xor.pred %d, %a, %b", "p p p", A ^ BB),
      ROW("not.pred %d, %a", "p p", !A),
      ROW("and.pred %d, %a, !%b", "p p p", A && !BB),
      ROW("mov.pred %d, %a", "p p", A),
      ROW("mov.pred %d, 1", "p p", 1),
      ROW("shl.b16 %d, %a, %b", "b16 b16 n", BB >= 16 ? 0 : A << BB),
      ROW("shl.b32 %d, %a, %b", "b32 b32 n", BB >= 32 ? 0 : A << BB),
      ROW("shl.b64 %d, %a, %b", "b64 b64 n", BB >= 64 ? 0 : A << BB),
      ROW("shr.b16 %d, %a, %b", "b16 b16 n", BB >= 16 ? 0 : A >> BB),
      ROW("shr.u16 %d, %a, %b", "b16 b16 n", BB >= 16 ? 0 : A >> BB),
      ROW("shr.s16 %d, %a, %b", "b16 b16 n", s16(A) >> std::min<u64>(BB, 15)),
      ROW("shr.u32 %d, %a, %b", "b32 b32 n", BB >= 32 ? 0 : A >> BB),
      ROW("shr.b32 %d, %a, %b", "b32 b32 n", BB >= 32 ? 0 : A >> BB),
      ROW("shr.s32 %d, %a, %b", "b32 b32 n", s32(A) >> std::min<u64>(BB, 31)),
      ROW("shr.u64 %d, %a, %b", "b64 b64 n", BB >= 64 ? 0 : A >> BB),
      ROW("shr.b64 %d, %a, %b", "b64 b64 n", BB >= 64 ? 0 : A >> BB),
      ROW("shr.s64 %d, %a, %b", "b64 b64 n", s64(A) >> std::min<u64>(BB, 63)),
      ROW("shf.l.wrap.b32 %d, %a, %b, %c", "b32 b32 b32 n", (BB << 32 | A) << (C & 31) >> 32),
      ROW("shf.r.wrap.b32 %d, %a, %b, %c", "b32 b32 b32 n", (BB << 32 | A) >> (C & 31)),
      ROW("shf.l.clamp.b32 %d, %a, %b, %c", "b32 b32 b32 n", (BB << 32 | A) << std::min<u64>(C, 32) >> 32),
      ROW("shf.r.clamp.b32 %d, %a, %b, %c", "b32 b32 b32 n", (BB << 32 | A) >> std::min<u64>(C, 32)),
      ROW("lop3.b32 %d, %a, %b, %c, 0x80", "b32 small small small", A & BB & C),
      ROW("lop3.b32 %d, %a, %b, %c, 0xfe", "b32 small small small", A | BB | C),
      ROW("lop3.b32 %d, %a, %b, %c, 0x96", "b32 small small small", A ^ BB ^ C),
      ROW("lop3.b32 %d, %a, %b, %c, 0xca", "b32 small small small", (A & BB) | (~A & C)),
      ROW("lop3.b32 %d, %a, %b, %c, 0", "b32 small small small", 0),
      ROW("lop3.b32 %d, %a, %b, %c, 255", "b32 small small small", 0xffffffff),
      ROW("brev.b32 %d, %a", "b32 b32", BrevReference(A, 32)),
      ROW("brev.b64 %d, %a", "b64 b64", BrevReference(A, 64)),
      ROW("clz.b32 %d, %a", "b32 b32", std::countl_zero(u32(A))),
      ROW("clz.b64 %d, %a", "b32 b64", std::countl_zero(A)),
      ROW("popc.b32 %d, %a", "b32 b32", std::popcount(u32(A))),
      ROW("popc.b64 %d, %a", "b32 b64", std::popcount(A)),
      ROW("bfe.u32 %d, %a, %b, %c", "b32 b32 n n", BfeReference(A, u32(BB), u32(C), 32, false)),
      ROW("bfe.s32 %d, %a, %b, %c", "b32 b32 n n", BfeReference(A, u32(BB), u32(C), 32, true)),
      ROW("bfe.u64 %d, %a, %b, %c", "b64 b64 n n", BfeReference(A, u32(BB), u32(C), 64, false)),
      ROW("bfe.s64 %d, %a, %b, %c", "b64 b64 n n", BfeReference(A, u32(BB), u32(C), 64, true)),
      ROW("bfi.b32 %d, %a, %b, %c, %e", "b32 small small n n", BfiReference(A, BB, u32(C), u32(E), 32)),
      ROW("bfi.b64 %d, %a, %b, %c, %e", "b64 small64 small64 n n", BfiReference(A, BB, u32(C), u32(E), 64)),
      ROW("bfind.u32 %d, %a", "b32 b32", BfindReference(A, 32, false, false)),
      ROW("bfind.s32 %d, %a", "b32 b32", BfindReference(A, 32, true, false)),
      ROW("bfind.u64 %d, %a", "b32 b64", BfindReference(A, 64, false, false)),
      ROW("bfind.s64 %d, %a", "b32 b64", BfindReference(A, 64, true, false)),
      ROW("bfind.shiftamt.u32 %d, %a", "b32 b32", BfindReference(A, 32, false, true)),
      ROW("bfind.shiftamt.s32 %d, %a", "b32 b32", BfindReference(A, 32, true, true)),
      ROW("bfind.shiftamt.u64 %d, %a", "b32 b64", BfindReference(A, 64, false, true)),
      ROW("bfind.shiftamt.s64 %d, %a", "b32 b64", BfindReference(A, 64, true, true)),
      ROW("bmsk.clamp.b32 %d, %a, %b", "b32 n n", BmskReference(A, BB, true)),
      ROW("bmsk.wrap.b32 %d, %a, %b", "b32 n n", BmskReference(A, BB, false)),
      ROW("szext.clamp.u32 %d, %a, %b", "b32 b32 n", BB >= 32 ? A : A & ((u64{1} << BB) - 1)),
      ROW("szext.wrap.u32 %d, %a, %b", "b32 b32 n", A & ((u64{1} << (BB & 31)) - 1)),
      ROW("szext.clamp.s32 %d, %a, %b", "b32 b32 n",
          BB >= 32  ? A
          : BB == 0 ? 0
                    : s32(u32(A) << (32 - BB)) >> (32 - BB)),
      ROW("szext.wrap.s32 %d, %a, %b", "b32 b32 n",
          (BB & 31) == 0 ? 0 : s32(u32(A) << (32 - (BB & 31))) >> (32 - (BB & 31))),
      ROW("fns.b32 %d, %a, 0, 1", "b32 b32", A == 0 ? 0xffffffff : std::countr_zero(A)),
      ROW("fns.b32 %d, %a, 31, -1", "b32 b32", A == 0 ? 0xffffffff : 31 - std::countl_zero(u32(A))),
      ROW("fns.b32 %d, %a, 4, 0", "b32 b32", A >> 4 & 1 ? 4 : 0xffffffff),
      ROW("prmt.b32 %d, %a, %b, %c", "b32 b32 b32 sel", PrmtReference(A, BB, C, 0)),
      ROW("prmt.b32.f4e %d, %a, %b, %c", "b32 b32 b32 sel", PrmtReference(A, BB, C, 1)),
      ROW("prmt.b32.b4e %d, %a, %b, %c", "b32 b32 b32 sel", PrmtReference(A, BB, C, 2)),
      ROW("prmt.b32.rc8 %d, %a, %b, %c", "b32 b32 b32 sel", PrmtReference(A, BB, C, 3)),
      ROW("prmt.b32.ecl %d, %a, %b, %c", "b32 b32 b32 sel", PrmtReference(A, BB, C, 4)),
      ROW("prmt.b32.ecr %d, %a, %b, %c", "b32 b32 b32 sel", PrmtReference(A, BB, C, 5)),
      ROW("prmt.b32.rc16 %d, %a, %b, %c", "b32 b32 b32 sel", PrmtReference(A, BB, C, 6)),
      ROW("dp4a.u32.u32 %d, %a, %b, %c", "b32 b32 b32 small", (Dp4aReference<u8, u8>(A, BB, C))),
      ROW("dp4a.s32.s32 %d, %a, %b, %c", "b32 b32 b32 small", (Dp4aReference<s8, s8>(A, BB, C))),
      ROW("dp4a.s32.u32 %d, %a, %b, %c", "b32 b32 b32 small", (Dp4aReference<s8, u8>(A, BB, C))),
      ROW("dp4a.u32.s32 %d, %a, %b, %c", "b32 b32 b32 small", (Dp4aReference<u8, s8>(A, BB, C))),
      ROW("dp2a.lo.u32.u32 %d, %a, %b, %c", "b32 b32 b32 small",
          C + u64{u16(A)} * u8(BB) + u64{u16(A >> 16)} * u8(BB >> 8)),
      ROW("dp2a.hi.s32.s32 %d, %a, %b, %c", "b32 b32 b32 small",
          s64(C) + s64{s16(A)} * s8(BB >> 16) + s64{s16(A >> 16)} * s8(BB >> 24)),
      ROW("vabsdiff4.u32.u32.u32 %d, %a, %b, %c", "b32 b32 b32 small",
          [&] {
            u64 r = 0;
            for (int i = 0; i < 32; i += 8) r |= u64(std::abs(int(A >> i & 255) - int(BB >> i & 255))) << i;
            return r;
          }()),
      ROW("vabsdiff4.u32.u32.u32.add %d, %a, %b, %c", "b32 b32 b32 small",
          [&] {
            u64 r = C;
            for (int i = 0; i < 32; i += 8) r += u64(std::abs(int(A >> i & 255) - int(BB >> i & 255)));
            return r;
          }()),
      ROW("vadd4.s32.s32.s32.sat %d, %a, %b, %c", "b32 b32 b32 small",
          [&] {
            u64 r = 0;
            for (int i = 0; i < 32; i += 8) r |= u64(u8(std::clamp(s8(A >> i) + s8(BB >> i), -128, 127))) << i;
            return r;
          }()),
      ROW("vmax2.u32.u32.u32 %d, %a, %b, %c", "b32 b32 b32 small",
          std::max(A & 0xffff, BB & 0xffff) | std::max(A >> 16, BB >> 16) << 16),
      ROW("vmin4.s32.s32.s32 %d, %a, %b, %c", "b32 b32 b32 small",
          [&] {
            u64 r = 0;
            for (int i = 0; i < 32; i += 8) r |= u64(u8(std::min(s8(A >> i), s8(BB >> i)))) << i;
            return r;
          }()),
      ROW("vsub.s32.s32.s32.sat %d, %a, %b", "b32 b32 b32", u32(Clip<s32>(s128{s32(A)} - s32(BB)))),
  });
}

TEST(Ops, MovesAndSelection) {
  RunTable({
      ROW("mov.u16 %d, %a", "b16 b16", A),
      ROW("mov.b32 %d, %a", "b32 b32", A),
      ROW("mov.f32 %d, %a", "b32 f32", A),
      ROW("mov.u64 %d, %a", "b64 b64", A),
      ROW("mov.f64 %d, 0d4000000000000000", "b64 p", 0x4000000000000000),
      ROW("mov.f32 %d, 0f3F800000", "b32 p", 0x3f800000),
      ROW("mov.f32 %d, 2.5", "b32 p", 0x40200000),
      ROW("mov.u32 %d, 0b101", "b32 p", 5),
      ROW("mov.u32 %d, 017", "b32 p", 15),
      ROW("mov.u32 %d, 0xFFu", "b32 p", 255),
      ROW("mov.s32 %d, -3", "b32 p", 0xfffffffd),
      ROW("mov.u32 %d, (3 + 4) * 2 - (1 << 3)", "b32 p", 6),
      ROW("mov.u32 %d, WARP_SZ", "b32 p", 32),
      ROW("mov.b32 %d, {%a, %b}", "b32 b16 b16", A | BB << 16),
      ROW("mov.b64 %d, {%a, %b}", "b64 b32 b32", A | BB << 32),
      ROW("mov.b64 %d, {%a, %b, %c, %e}", "b64 b16 b16 b16 b16", A | BB << 16 | C << 32 | E << 48),
      ROW("mov.b64 {%d, %x32}, %a", "b32 b64", A),
      ROW("mov.b64 {_, %d}, %a", "b32 b64", A >> 32),
      ROW("mov.b32 {%x16, %d}, %a", "b16 b32", A >> 16),
      ROW("{ .reg .b128 %w; mov.b128 %w, {%a, %b}; mov.b128 {%x64, %d}, %w; }", "b64 b64 b64", BB),
      ROW("selp.b16 %d, %a, %b, %c", "b16 b16 b16 p", C ? A : BB),
      ROW("selp.b32 %d, %a, %b, %c", "b32 b32 b32 p", C ? A : BB),
      ROW("selp.f32 %d, %a, 0f3F800000, %c", "b32 f32 b32 p", C ? A : 0x3f800000),
      ROW("selp.b64 %d, %a, %b, %c", "b64 b64 b64 p", C ? A : BB),
      ROW("selp.s32 %d, 1, 0, %a", "b32 p", A),
      ROW("slct.u32.s32 %d, %a, %b, %c", "b32 small small b32", s32(C) >= 0 ? A : BB),
      ROW("slct.b64.s32 %d, %a, %b, %c", "b64 small64 small64 b32", s32(C) >= 0 ? A : BB),
      ROW("slct.f32.f32 %d, %a, %b, %c", "b32 fs fs f32", F(C) >= 0 ? A : BB),
      ROW("slct.ftz.f32.f32 %d, %a, %b, %c", "b32 fs fs f32", Z(F(C)) >= 0 ? A : BB),
      ROW("@%c mov.u32 %x32, %a; mov.u32 %d, %x32", "b32 b32 p p", C ? A : 0),
      ROW("@!%b mov.u32 %x32, %a; mov.u32 %d, %x32", "b32 b32 p", BB ? 0 : A),
  });
}

template <typename T>
bool Holds(const std::string& op, T a, T b) {
  bool unordered = a != a || b != b;
  if (op == "eq") return !unordered && a == b;
  if (op == "ne") return !unordered && a != b;
  if (op == "lt" || op == "lo") return !unordered && a < b;
  if (op == "le" || op == "ls") return !unordered && a <= b;
  if (op == "gt" || op == "hi") return !unordered && a > b;
  if (op == "ge" || op == "hs") return !unordered && a >= b;
  if (op == "num") return !unordered;
  if (op == "nan") return unordered;
  return unordered || Holds(op.substr(0, 2), a, b);
}

TEST(Ops, Comparison) {
  std::vector<std::string> code;  // the table keeps pointers
  code.reserve(2000);
  std::vector<Row> rows;
  auto add = [&](const std::string& text, const char* types, std::function<u64(V)> expected) {
    code.push_back(text);
    rows.push_back({code.back().c_str(), types, std::move(expected)});
  };
  for (std::string op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    add("setp." + op + ".u16 %d, %a, %b", "p b16 b16", [op](V v) { return Holds(op, u16(A), u16(BB)); });
    add("setp." + op + ".s16 %d, %a, %b", "p b16 b16", [op](V v) { return Holds(op, s16(A), s16(BB)); });
    add("setp." + op + ".u32 %d, %a, %b", "p b32 b32", [op](V v) { return Holds(op, u32(A), u32(BB)); });
    add("setp." + op + ".s32 %d, %a, %b", "p b32 b32", [op](V v) { return Holds(op, s32(A), s32(BB)); });
    add("setp." + op + ".u64 %d, %a, %b", "p b64 b64", [op](V v) { return Holds(op, A, BB); });
    add("setp." + op + ".s64 %d, %a, %b", "p b64 b64", [op](V v) { return Holds(op, s64(A), s64(BB)); });
    add("set." + op + ".u32.s32 %d, %a, %b", "b32 b32 b32",
        [op](V v) { return Holds(op, s32(A), s32(BB)) ? 0xffffffff : 0; });
    add("set." + op + ".f32.u32 %d, %a, %b", "b32 b32 b32",
        [op](V v) { return Holds(op, u32(A), u32(BB)) ? 0x3f800000 : 0; });
  }
  for (std::string op : {"eq", "ne"}) {
    add("setp." + op + ".b16 %d, %a, %b", "p b16 b16", [op](V v) { return Holds(op, u16(A), u16(BB)); });
    add("setp." + op + ".b32 %d, %a, %b", "p b32 b32", [op](V v) { return Holds(op, u32(A), u32(BB)); });
    add("setp." + op + ".b64 %d, %a, %b", "p b64 b64", [op](V v) { return Holds(op, A, BB); });
  }
  for (std::string op : {"lo", "ls", "hi", "hs"}) {
    add("setp." + op + ".u32 %d, %a, %b", "p b32 b32", [op](V v) { return Holds(op, u32(A), u32(BB)); });
    add("setp." + op + ".u64 %d, %a, %b", "p b64 b64", [op](V v) { return Holds(op, A, BB); });
  }
  for (std::string op : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}) {
    add("setp." + op + ".f32 %d, %a, %b", "p f32 f32", [op](V v) { return Holds(op, F(A), F(BB)); });
    add("setp." + op + ".ftz.f32 %d, %a, %b", "p f32 f32", [op](V v) { return Holds(op, Z(F(A)), Z(F(BB))); });
    add("setp." + op + ".f64 %d, %a, %b", "p f64 f64", [op](V v) { return Holds(op, D(A), D(BB)); });
    add("setp." + op + ".f16 %d, %a, %b", "p h h", [op](V v) { return Holds(op, H(A), H(BB)); });
    add("setp." + op + ".bf16 %d, %a, %b", "p bf bf", [op](V v) { return Holds(op, BF(A), BF(BB)); });
    add("setp." + op + ".f16x2 %d|%q1, %a, %b", "p h2 h2", [op](V v) { return Holds(op, H(A), H(BB)); });
    add("setp." + op + ".f16x2 %q1|%d, %a, %b", "p h2 h2", [op](V v) { return Holds(op, H(A >> 16), H(BB >> 16)); });
    add("set." + op + ".u32.f32 %d, %a, %b", "b32 f32 f32",
        [op](V v) { return Holds(op, F(A), F(BB)) ? 0xffffffff : 0; });
  }
  add("setp.lt.and.s32 %d, %a, %b, %c", "p b32 b32 p", [](V v) { return s32(A) < s32(BB) && C; });
  add("setp.lt.or.s32 %d, %a, %b, !%c", "p b32 b32 p", [](V v) { return s32(A) < s32(BB) || !C; });
  add("setp.lt.xor.s32 %d, %a, %b, %c", "p b32 b32 p", [](V v) { return (s32(A) < s32(BB)) != (C != 0); });
  add("setp.lt.s32 %q1|%d, %a, %b", "p b32 b32", [](V v) { return !(s32(A) < s32(BB)); });
  add("setp.lt.and.s32 _|%d, %a, %b, %c", "p b32 b32 p", [](V v) { return !(s32(A) < s32(BB)) && C; });
  add("setp.gt.u32 %d, %a, 5", "p b32", [](V v) { return A > 5; });
  add("set.lt.and.u32.s32 %d, %a, %b, %c", "b32 b32 b32 p", [](V v) { return s32(A) < s32(BB) && C ? 0xffffffff : 0; });
  add("set.gt.f16x2.f16x2 %d, %a, %b", "b32 h2 h2",
      [](V v) { return (H(A) > H(BB) ? 0x3c00 : 0) | (H(A >> 16) > H(BB >> 16) ? 0x3c000000 : 0); });
  RunTable(rows);
}

template <float (*f)(V)>
Row FloatRow(const char* code, const char* types, int mode, bool ftz, bool sat) {
  return {code, types, [=](V v) {
            u64 in[4] = {v[0], v[1], v[2], v[3]};
            if (ftz) {
              for (u64& x : in) x = std::bit_cast<u32>(Z(F(x)));
            }
            float r = InMode<float>(mode, f, in);
            if (ftz) r = Z(r);
            return B(sat ? Sat(r) : r);
          }};
}
template <double (*f)(V)>
Row DoubleRow(const char* code, const char* types, int mode) {
  return {code, types, [=](V v) { return B(InMode<double>(mode, f, v)); }};
}

// The compiler must not compute at another rounding mode than the one that is set.
float AddF(V v) {
  volatile float a = F(A), b = F(BB);
  return a + b;
}
float SubF(V v) {
  volatile float a = F(A), b = F(BB);
  return a - b;
}
float MulF(V v) {
  volatile float a = F(A), b = F(BB);
  return a * b;
}
float DivF(V v) {
  volatile float a = F(A), b = F(BB);
  return a / b;
}
float FmaF(V v) {
  volatile float a = F(A), b = F(BB), c = F(C);
  return std::fma(a, b, c);
}
float RcpF(V v) {
  volatile float a = F(A), one = 1;
  return one / a;
}
float SqrtF(V v) {
  volatile float a = F(A);
  return std::sqrt(a);
}
double AddD(V v) {
  volatile double a = D(A), b = D(BB);
  return a + b;
}
double SubD(V v) {
  volatile double a = D(A), b = D(BB);
  return a - b;
}
double MulD(V v) {
  volatile double a = D(A), b = D(BB);
  return a * b;
}
double DivD(V v) {
  volatile double a = D(A), b = D(BB);
  return a / b;
}
double FmaD(V v) {
  volatile double a = D(A), b = D(BB), c = D(C);
  return std::fma(a, b, c);
}
double RcpD(V v) {
  volatile double a = D(A), one = 1;
  return one / a;
}
double SqrtD(V v) {
  volatile double a = D(A);
  return std::sqrt(a);
}

float MinF(float a, float b, bool max) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) == max ? b : a;
  return (a < b) != max ? a : b;
}
double MinD(double a, double b, bool max) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) == max ? b : a;
  return (a < b) != max ? a : b;
}

TEST(Ops, Float) {
  constexpr int kN = FE_TONEAREST, kZ = FE_TOWARDZERO, kM = FE_DOWNWARD, kP = FE_UPWARD;
  std::vector<Row> rows{
      FloatRow<AddF>("add.f32 %d, %a, %b", "b32 f32 f32", kN, false, false),
      FloatRow<AddF>("add.rn.f32 %d, %a, %b", "b32 f32 f32", kN, false, false),
      FloatRow<AddF>("add.rz.f32 %d, %a, %b", "b32 f32 f32", kZ, false, false),
      FloatRow<AddF>("add.rm.f32 %d, %a, %b", "b32 f32 f32", kM, false, false),
      FloatRow<AddF>("add.rp.f32 %d, %a, %b", "b32 f32 f32", kP, false, false),
      FloatRow<AddF>("add.ftz.f32 %d, %a, %b", "b32 f32 f32", kN, true, false),
      FloatRow<AddF>("add.sat.f32 %d, %a, %b", "b32 f32 f32", kN, false, true),
      FloatRow<AddF>("add.rn.ftz.sat.f32 %d, %a, %b", "b32 f32 f32", kN, true, true),
      FloatRow<SubF>("sub.f32 %d, %a, %b", "b32 f32 f32", kN, false, false),
      FloatRow<SubF>("sub.rp.ftz.f32 %d, %a, %b", "b32 f32 f32", kP, true, false),
      FloatRow<MulF>("mul.f32 %d, %a, %b", "b32 f32 f32", kN, false, false),
      FloatRow<MulF>("mul.rz.f32 %d, %a, %b", "b32 f32 f32", kZ, false, false),
      FloatRow<MulF>("mul.ftz.f32 %d, %a, %b", "b32 f32 f32", kN, true, false),
      FloatRow<MulF>("mul.sat.f32 %d, %a, %b", "b32 f32 f32", kN, false, true),
      FloatRow<FmaF>("fma.rn.f32 %d, %a, %b, %c", "b32 f32 f32 fs", kN, false, false),
      FloatRow<FmaF>("fma.rz.f32 %d, %a, %b, %c", "b32 f32 f32 fs", kZ, false, false),
      FloatRow<FmaF>("fma.rm.f32 %d, %a, %b, %c", "b32 f32 f32 fs", kM, false, false),
      FloatRow<FmaF>("fma.rp.f32 %d, %a, %b, %c", "b32 f32 f32 fs", kP, false, false),
      FloatRow<FmaF>("fma.rn.ftz.f32 %d, %a, %b, %c", "b32 f32 f32 fs", kN, true, false),
      FloatRow<FmaF>("fma.rn.sat.f32 %d, %a, %b, %c", "b32 f32 f32 fs", kN, false, true),
      FloatRow<FmaF>("mad.rn.f32 %d, %a, %b, %c", "b32 f32 f32 fs", kN, false, false),
      FloatRow<DivF>("div.rn.f32 %d, %a, %b", "b32 f32 f32", kN, false, false),
      FloatRow<DivF>("div.rz.f32 %d, %a, %b", "b32 f32 f32", kZ, false, false),
      FloatRow<DivF>("div.rm.f32 %d, %a, %b", "b32 f32 f32", kM, false, false),
      FloatRow<DivF>("div.rp.f32 %d, %a, %b", "b32 f32 f32", kP, false, false),
      FloatRow<DivF>("div.rn.ftz.f32 %d, %a, %b", "b32 f32 f32", kN, true, false),
      FloatRow<RcpF>("rcp.rn.f32 %d, %a", "b32 f32", kN, false, false),
      FloatRow<RcpF>("rcp.rz.f32 %d, %a", "b32 f32", kZ, false, false),
      FloatRow<SqrtF>("sqrt.rn.f32 %d, %a", "b32 f32", kN, false, false),
      FloatRow<SqrtF>("sqrt.rm.f32 %d, %a", "b32 f32", kM, false, false),
      FloatRow<SqrtF>("sqrt.rn.ftz.f32 %d, %a", "b32 f32", kN, true, false),
      DoubleRow<AddD>("add.f64 %d, %a, %b", "f64 f64 f64", kN),
      DoubleRow<AddD>("add.rz.f64 %d, %a, %b", "f64 f64 f64", kZ),
      DoubleRow<AddD>("add.rm.f64 %d, %a, %b", "f64 f64 f64", kM),
      DoubleRow<AddD>("add.rp.f64 %d, %a, %b", "f64 f64 f64", kP),
      DoubleRow<SubD>("sub.f64 %d, %a, %b", "f64 f64 f64", kN),
      DoubleRow<MulD>("mul.f64 %d, %a, %b", "f64 f64 f64", kN),
      DoubleRow<MulD>("mul.rz.f64 %d, %a, %b", "f64 f64 f64", kZ),
      DoubleRow<FmaD>("fma.rn.f64 %d, %a, %b, %c", "f64 f64 f64 fds", kN),
      DoubleRow<FmaD>("fma.rz.f64 %d, %a, %b, %c", "f64 f64 f64 fds", kZ),
      DoubleRow<FmaD>("mad.rn.f64 %d, %a, %b, %c", "f64 f64 f64 fds", kN),
      DoubleRow<DivD>("div.rn.f64 %d, %a, %b", "f64 f64 f64", kN),
      DoubleRow<DivD>("div.rp.f64 %d, %a, %b", "f64 f64 f64", kP),
      DoubleRow<RcpD>("rcp.rn.f64 %d, %a", "f64 f64", kN),
      DoubleRow<SqrtD>("sqrt.rn.f64 %d, %a", "f64 f64", kN),
      ROW("abs.f32 %d, %a", "b32 f32", A & 0x7fffffff),
      ROW("abs.ftz.f32 %d, %a", "b32 f32", std::bit_cast<u32>(Z(F(A))) & 0x7fffffff),
      ROW("neg.f32 %d, %a", "b32 f32", A ^ 0x80000000),
      ROW("neg.ftz.f32 %d, %a", "b32 f32", std::bit_cast<u32>(Z(F(A))) ^ 0x80000000),
      ROW("abs.f64 %d, %a", "b64 f64", A & ~(u64{1} << 63)),
      ROW("neg.f64 %d, %a", "b64 f64", A ^ (u64{1} << 63)),
      ROW("copysign.f32 %d, %a, %b", "b32 f32 f32", (A & 0x80000000) | (BB & 0x7fffffff)),
      ROW("copysign.f64 %d, %a, %b", "b64 f64 f64", (A & u64{1} << 63) | (BB & ~(u64{1} << 63))),
      ROW("min.f32 %d, %a, %b", "b32 f32 f32", B(MinF(F(A), F(BB), false))),
      ROW("max.f32 %d, %a, %b", "b32 f32 f32", B(MinF(F(A), F(BB), true))),
      ROW("min.ftz.f32 %d, %a, %b", "b32 f32 f32", B(MinF(Z(F(A)), Z(F(BB)), false))),
      ROW("max.ftz.f32 %d, %a, %b", "b32 f32 f32", B(MinF(Z(F(A)), Z(F(BB)), true))),
      ROW("min.NaN.f32 %d, %a, %b", "b32 f32 f32",
          F(A) != F(A) || F(BB) != F(BB) ? 0x7fffffff : B(MinF(F(A), F(BB), false))),
      ROW("max.ftz.NaN.f32 %d, %a, %b", "b32 f32 f32",
          F(A) != F(A) || F(BB) != F(BB) ? 0x7fffffff : B(MinF(Z(F(A)), Z(F(BB)), true))),
      ROW("min.xorsign.abs.f32 %d, %a, %b", "b32 f32 f32",
          F(A) != F(A) && F(BB) != F(BB)
              ? 0x7fffffff
              : B(std::copysign(MinF(std::fabs(F(A)), std::fabs(F(BB)), false), (A ^ BB) >> 31 & 1 ? -1.0f : 1.0f))),
      ROW("min.f64 %d, %a, %b", "f64 f64 f64", B(MinD(D(A), D(BB), false))),
      ROW("max.f64 %d, %a, %b", "f64 f64 f64", B(MinD(D(A), D(BB), true))),
      ROW("testp.finite.f32 %d, %a", "p f32", std::isfinite(F(A))),
      ROW("testp.infinite.f32 %d, %a", "p f32", std::isinf(F(A))),
      ROW("testp.number.f32 %d, %a", "p f32", !std::isnan(F(A))),
      ROW("testp.notanumber.f32 %d, %a", "p f32", std::isnan(F(A))),
      ROW("testp.normal.f32 %d, %a", "p f32", std::isnormal(F(A))),
      ROW("testp.subnormal.f32 %d, %a", "p f32", std::fpclassify(F(A)) == FP_SUBNORMAL),
      ROW("testp.finite.f64 %d, %a", "p f64", std::isfinite(D(A))),
      ROW("testp.subnormal.f64 %d, %a", "p f64", std::fpclassify(D(A)) == FP_SUBNORMAL),
  };
  auto near = [&](const char* code, const char* types, std::function<u64(V)> f) {
    rows.push_back({code, types, std::move(f), 1e-6});
  };
  near("div.approx.f32 %d, %a, %b", "f32 fpos fpos", [](V v) { return B(F(A) / F(BB)); });
  near("div.approx.ftz.f32 %d, %a, %b", "f32 fpos fpos", [](V v) { return B(F(A) / F(BB)); });
  near("div.full.f32 %d, %a, %b", "f32 fpos fpos", [](V v) { return B(F(A) / F(BB)); });
  near("rcp.approx.f32 %d, %a", "f32 fpos", [](V v) { return B(1 / F(A)); });
  near("rcp.approx.ftz.f32 %d, %a", "f32 f32", [](V v) { return B(Z(1 / Z(F(A)))); });
  near("rcp.approx.ftz.f64 %d, %a", "f64 dpos", [](V v) { return B(1 / D(A)); });
  near("sqrt.approx.f32 %d, %a", "f32 fpos", [](V v) { return B(std::sqrt(F(A))); });
  near("sqrt.approx.ftz.f32 %d, %a", "f32 f32", [](V v) { return B(std::sqrt(Z(F(A)))); });
  near("rsqrt.approx.f32 %d, %a", "f32 f32",
       [](V v) { return B(static_cast<float>(1 / std::sqrt(static_cast<double>(F(A))))); });
  near("rsqrt.approx.ftz.f32 %d, %a", "f32 fpos", [](V v) { return B(1 / std::sqrt(F(A))); });
  near("rsqrt.approx.f64 %d, %a", "f64 dpos", [](V v) { return B(1 / std::sqrt(D(A))); });
  near("rsqrt.approx.ftz.f64 %d, %a", "f64 dpos", [](V v) { return B(1 / std::sqrt(D(A))); });
  near("sin.approx.f32 %d, %a", "f32 fang",
       [](V v) { return B(static_cast<float>(std::sin(static_cast<double>(F(A))))); });
  near("cos.approx.f32 %d, %a", "f32 fang",
       [](V v) { return B(static_cast<float>(std::cos(static_cast<double>(F(A))))); });
  near("cos.approx.ftz.f32 %d, %a", "f32 fang",
       [](V v) { return B(static_cast<float>(std::cos(static_cast<double>(F(A))))); });
  near("ex2.approx.f32 %d, %a", "f32 f32",
       [](V v) { return B(static_cast<float>(std::exp2(static_cast<double>(F(A))))); });
  near("ex2.approx.ftz.f32 %d, %a", "f32 fang",
       [](V v) { return B(static_cast<float>(std::exp2(static_cast<double>(F(A))))); });
  near("lg2.approx.f32 %d, %a", "f32 f32",
       [](V v) { return B(static_cast<float>(std::log2(static_cast<double>(F(A))))); });
  near("lg2.approx.ftz.f32 %d, %a", "f32 fpos",
       [](V v) { return B(static_cast<float>(std::log2(static_cast<double>(F(A))))); });
  near("tanh.approx.f32 %d, %a", "f32 f32",
       [](V v) { return B(static_cast<float>(std::tanh(static_cast<double>(F(A))))); });
  RunTable(rows);
}

u64 MinH(u64 a, u64 b, bool max, double (*value)(u64)) {
  double x = value(a), y = value(b);
  if (std::isnan(x) && std::isnan(y)) return 0x7fff;
  if (std::isnan(x)) return b;
  if (std::isnan(y)) return a;
  if (x == y) return (a >> 15 == 1) == max ? b : a;
  return (x < y) != max ? a : b;
}

TEST(Ops, Half) {
  using L = long double;
  RunTable({
      ROW("add.f16 %d, %a, %b", "b16 h h", ToH(L{H(A)} + H(BB))),
      ROW("add.rn.f16 %d, %a, %b", "b16 h h", ToH(L{H(A)} + H(BB))),
      ROW("sub.f16 %d, %a, %b", "b16 h h", ToH(L{H(A)} - H(BB))),
      ROW("mul.f16 %d, %a, %b", "b16 h h", ToH(L{H(A)} * H(BB))),
      ROW("fma.rn.f16 %d, %a, %b, %c", "b16 h h h", ToH(Fused(H(A), H(BB), H(C)))),
      ROW("add.sat.f16 %d, %a, %b", "b16 h h",
          [&] {
            double r = H(A) + H(BB);
            return r > 1 ? 0x3c00 : r > 0 ? ToH(r) : 0;
          }()),
      ROW("add.ftz.f16 %d, %a, %b", "b16 h h",
          [&] {
            auto z = [](u64 h) { return h & 0x7c00 ? h : h & 0x8000; };
            return z(ToH(L{H(z(A))} + H(z(BB))));
          }()),
      ROW("fma.rn.relu.f16 %d, %a, %b, %c", "b16 h h h",
          [&] {
            u64 r = ToH(Fused(H(A), H(BB), H(C)));
            return r >> 15 ? 0 : r;
          }()),
      ROW("neg.f16 %d, %a", "b16 h", A ^ 0x8000),
      ROW("abs.f16 %d, %a", "b16 h", A & 0x7fff),
      ROW("min.f16 %d, %a, %b", "b16 h h", MinH(A, BB, false, H)),
      ROW("max.f16 %d, %a, %b", "b16 h h", MinH(A, BB, true, H)),
      ROW("max.NaN.f16 %d, %a, %b", "b16 h h", std::isnan(H(A)) || std::isnan(H(BB)) ? 0x7fff : MinH(A, BB, true, H)),
      ROW("add.f16x2 %d, %a, %b", "b32 h2 h2", Pair([](u64 a, u64 b, u64) { return ToH(L{H(a)} + H(b)); }, v)),
      ROW("sub.f16x2 %d, %a, %b", "b32 h2 h2", Pair([](u64 a, u64 b, u64) { return ToH(L{H(a)} - H(b)); }, v)),
      ROW("mul.f16x2 %d, %a, %b", "b32 h2 h2", Pair([](u64 a, u64 b, u64) { return ToH(L{H(a)} * H(b)); }, v)),
      ROW("fma.rn.f16x2 %d, %a, %b, %c", "b32 h2 h2 h2",
          Pair([](u64 a, u64 b, u64 c) { return ToH(Fused(H(a), H(b), H(c))); }, v)),
      ROW("neg.f16x2 %d, %a", "b32 h2", A ^ 0x80008000),
      ROW("abs.f16x2 %d, %a", "b32 h2", A & 0x7fff7fff),
      ROW("min.f16x2 %d, %a, %b", "b32 h2 h2", Pair([](u64 a, u64 b, u64) { return MinH(a, b, false, H); }, v)),
      ROW("max.f16x2 %d, %a, %b", "b32 h2 h2", Pair([](u64 a, u64 b, u64) { return MinH(a, b, true, H); }, v)),
      ROW("add.bf16 %d, %a, %b", "b16 bf bf", ToBF(L{BF(A)} + BF(BB))),
      ROW("sub.bf16 %d, %a, %b", "b16 bf bf", ToBF(L{BF(A)} - BF(BB))),
      ROW("mul.bf16 %d, %a, %b", "b16 bf bf", ToBF(L{BF(A)} * BF(BB))),
      ROW("fma.rn.bf16 %d, %a, %b, %c", "b16 bf bf bf", ToBF(Fused(BF(A), BF(BB), BF(C)))),
      ROW("neg.bf16 %d, %a", "b16 bf", A ^ 0x8000),
      ROW("abs.bf16 %d, %a", "b16 bf", A & 0x7fff),
      ROW("min.bf16 %d, %a, %b", "b16 bf bf", MinH(A, BB, false, BF)),
      ROW("max.bf16 %d, %a, %b", "b16 bf bf", MinH(A, BB, true, BF)),
      ROW("add.bf16x2 %d, %a, %b", "b32 bf2 bf2", Pair([](u64 a, u64 b, u64) { return ToBF(L{BF(a)} + BF(b)); }, v)),
      ROW("mul.bf16x2 %d, %a, %b", "b32 bf2 bf2", Pair([](u64 a, u64 b, u64) { return ToBF(L{BF(a)} * BF(b)); }, v)),
      ROW("fma.rn.bf16x2 %d, %a, %b, %c", "b32 bf2 bf2 bf2",
          Pair([](u64 a, u64 b, u64 c) { return ToBF(Fused(BF(a), BF(b), BF(c))); }, v)),
      ROW("max.bf16x2 %d, %a, %b", "b32 bf2 bf2", Pair([](u64 a, u64 b, u64) { return MinH(a, b, true, BF); }, v)),
      ROW("ex2.approx.f16 %d, %a", "b16 h", ToH(std::exp2(H(A)))),
      ROW("ex2.approx.ftz.bf16 %d, %a", "b16 bf",
          [&] {
            u64 a = A & 0x7f80 ? A : A & 0x8000, r = ToBF(std::exp2(BF(a)));
            return r & 0x7f80 ? r : r & 0x8000;
          }()),
      ROW("tanh.approx.f16 %d, %a", "b16 h", ToH(std::tanh(H(A)))),
      ROW("tanh.approx.bf16 %d, %a", "b16 bf", ToBF(std::tanh(BF(A)))),
  });
}

template <typename T>
u64 Saturated(s128 x) {
  return static_cast<u64>(Clip<T>(x));
}
long double Rounded(long double x, char mode) {
  return mode == 'z' ? truncl(x) : mode == 'm' ? floorl(x) : mode == 'p' ? ceill(x) : rintl(x);
}
template <typename To, typename From>
u64 InModeCast(From x, int mode) {
  std::fesetround(mode);
  volatile From in = x;
  volatile To out = static_cast<To>(in);
  std::fesetround(FE_TONEAREST);
  return B(To{out});
}

TEST(Ops, Conversion) {
  std::vector<std::string> code;
  code.reserve(4000);
  std::vector<Row> rows;
  auto add = [&](const std::string& text, const std::string& types, std::function<u64(V)> expected) {
    code.push_back(text);
    const char* t = code.back().c_str();
    code.push_back(types);
    rows.push_back({t, code.back().c_str(), std::move(expected)});
  };
  struct Int {
    const char* name;
    const char* reg;
    s128 (*value)(u64);
    u64 (*clamp)(s128);
    u64 (*of_real)(long double);
    int bits;
  };
  const Int ints[] = {
      {"u8", "b16", [](u64 x) -> s128 { return u8(x); }, Saturated<u8>, Clamp<u8>, 8},
      {"s8", "b16", [](u64 x) -> s128 { return s8(x); }, Saturated<s8>, Clamp<s8>, 8},
      {"u16", "b16", [](u64 x) -> s128 { return u16(x); }, Saturated<u16>, Clamp<u16>, 16},
      {"s16", "b16", [](u64 x) -> s128 { return s16(x); }, Saturated<s16>, Clamp<s16>, 16},
      {"u32", "b32", [](u64 x) -> s128 { return u32(x); }, Saturated<u32>, Clamp<u32>, 32},
      {"s32", "b32", [](u64 x) -> s128 { return s32(x); }, Saturated<s32>, Clamp<s32>, 32},
      {"u64", "b64", [](u64 x) -> s128 { return x; }, Saturated<u64>, Clamp<u64>, 64},
      {"s64", "b64", [](u64 x) -> s128 { return s64(x); }, Saturated<s64>, Clamp<s64>, 64},
  };
  for (const Int& to : ints) {
    for (const Int& from : ints) {
      // The result is extended to the register by the destination's sign.
      auto extend = [&to](u64 x) { return static_cast<u64>(to.value(x)); };
      add(std::string("cvt.") + to.name + "." + from.name + " %d, %a", std::string(to.reg) + " " + from.reg,
          [&from, extend](V v) { return extend(static_cast<u64>(from.value(A))); });
      add(std::string("cvt.sat.") + to.name + "." + from.name + " %d, %a", std::string(to.reg) + " " + from.reg,
          [&to, &from, extend](V v) { return extend(to.clamp(from.value(A))); });
    }
    // from floating point
    for (char mode : {'n', 'z', 'm', 'p'}) {
      std::string r = std::string("cvt.r") + mode + "i.";
      auto extend = [&to](u64 x) { return static_cast<u64>(to.value(x)); };
      add(r + to.name + ".f32 %d, %a", std::string(to.reg) + " f32",
          [&to, mode, extend](V v) { return extend(to.of_real(Rounded(F(A), mode))); });
      add(r + to.name + ".f64 %d, %a", std::string(to.reg) + " f64",
          [&to, mode, extend](V v) { return extend(to.of_real(Rounded(D(A), mode))); });
      add(r + to.name + ".f16 %d, %a", std::string(to.reg) + " h",
          [&to, mode, extend](V v) { return extend(to.of_real(Rounded(H(A), mode))); });
    }
    add(std::string("cvt.rpi.ftz.") + to.name + ".f32 %d, %a", std::string(to.reg) + " f32",
        [&to](V v) { return static_cast<u64>(to.value(to.of_real(ceill(Z(F(A)))))); });
    // to floating point
    static constexpr std::pair<const char*, int> kModes[] = {
        {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
    // Clang's conversion of an unsigned 0 is -0 when it rounds downward.
    constexpr s64 kMaxSigned = std::numeric_limits<s64>::max();
    for (auto [name, mode] : kModes) {
      add(std::string("cvt.") + name + ".f32." + to.name + " %d, %a", std::string("f32 ") + to.reg,
          [&to, mode = mode](V v) {
            return to.value(A) <= kMaxSigned ? InModeCast<float>(static_cast<s64>(to.value(A)), mode)
                                             : InModeCast<float>(static_cast<u64>(to.value(A)), mode);
          });
      add(std::string("cvt.") + name + ".f64." + to.name + " %d, %a", std::string("f64 ") + to.reg,
          [&to, mode = mode](V v) {
            return to.value(A) <= kMaxSigned ? InModeCast<double>(static_cast<s64>(to.value(A)), mode)
                                             : InModeCast<double>(static_cast<u64>(to.value(A)), mode);
          });
    }
    add(std::string("cvt.rn.f16.") + to.name + " %d, %a", std::string("b16 ") + to.reg,
        [&to](V v) { return ToH(static_cast<long double>(to.value(A))); });
    add(std::string("cvt.rn.bf16.") + to.name + " %d, %a", std::string("b16 ") + to.reg,
        [&to](V v) { return ToBF(static_cast<long double>(to.value(A))); });
  }
  // wider registers
  add("cvt.u32.u8 %d, %a", "b32 b32", [](V v) { return u8(A); });
  add("cvt.s32.s8 %d, %a", "b32 b32", [](V v) { return static_cast<u64>(s64{s8(A)}); });
  add("cvt.s64.s16 %d, %a", "b64 b32", [](V v) { return static_cast<u64>(s64{s16(A)}); });
  add("cvt.s8.s32 %d, %a", "b32 b32", [](V v) { return static_cast<u64>(s64{s8(A)}); });
  add("cvt.u8.u32 %d, %a", "b64 b32", [](V v) { return u8(A); });
  // between floating-point formats
  add("cvt.f64.f32 %d, %a", "f64 f32", [](V v) { return B(double{F(A)}); });
  add("cvt.ftz.f64.f32 %d, %a", "f64 f32", [](V v) { return B(double{Z(F(A))}); });
  add("cvt.rn.f32.f64 %d, %a", "b32 f64", [](V v) { return InModeCast<float>(D(A), FE_TONEAREST); });
  add("cvt.rz.f32.f64 %d, %a", "b32 f64", [](V v) { return InModeCast<float>(D(A), FE_TOWARDZERO); });
  add("cvt.rm.f32.f64 %d, %a", "b32 f64", [](V v) { return InModeCast<float>(D(A), FE_DOWNWARD); });
  add("cvt.rp.f32.f64 %d, %a", "b32 f64", [](V v) { return InModeCast<float>(D(A), FE_UPWARD); });
  add("cvt.rn.ftz.f32.f64 %d, %a", "b32 f64", [](V v) { return B(Z(static_cast<float>(D(A)))); });
  add("cvt.rn.sat.f32.f64 %d, %a", "b32 f64", [](V v) { return B(Sat(static_cast<float>(D(A)))); });
  add("cvt.sat.f32.f32 %d, %a", "b32 f32", [](V v) { return B(Sat(F(A))); });
  add("cvt.rni.f32.f32 %d, %a", "b32 f32", [](V v) { return B(std::rint(F(A))); });
  add("cvt.rzi.f32.f32 %d, %a", "b32 f32", [](V v) { return B(std::trunc(F(A))); });
  add("cvt.rmi.f32.f32 %d, %a", "b32 f32", [](V v) { return B(std::floor(F(A))); });
  add("cvt.rpi.ftz.f32.f32 %d, %a", "b32 f32", [](V v) { return B(std::ceil(Z(F(A)))); });
  add("cvt.rmi.f64.f64 %d, %a", "f64 f64", [](V v) { return B(std::floor(D(A))); });
  add("cvt.f32.f16 %d, %a", "b32 h", [](V v) { return std::isnan(H(A)) ? 0x7fc00000 : B(static_cast<float>(H(A))); });
  add("cvt.f64.f16 %d, %a", "f64 h", [](V v) { return B(H(A)); });
  add("cvt.f32.bf16 %d, %a", "f32 bf", [](V v) { return std::isnan(BF(A)) ? A << 16 : B(static_cast<float>(BF(A))); });
  add("cvt.rn.f16.f32 %d, %a", "b16 f32", [](V v) { return ToH(F(A)); });
  add("cvt.rn.f16.f64 %d, %a", "b16 f64", [](V v) { return ToH(D(A)); });
  add("cvt.rn.bf16.f32 %d, %a", "b16 f32", [](V v) { return ToBF(F(A)); });
  add("cvt.rn.relu.bf16.f32 %d, %a", "b16 f32", [](V v) { return F(A) <= 0 ? 0 : ToBF(F(A)); });
  add("cvt.rz.f16.f32 %d, %a", "b16 f32", [](V v) -> u64 {
    if (std::isnan(F(A))) return 0x7fff;
    u64 sign = A >> 31 << 15, r = 0;
    if (std::isinf(F(A))) return sign | 0x7c00;
    while (r < 0x7bff && H(r + 1) <= std::fabs(F(A))) ++r;
    return sign | r;
  });
  add("cvt.rn.f16x2.f32 %d, %a, %b", "b32 f32 f32", [](V v) { return ToH(F(A)) << 16 | ToH(F(BB)); });
  add("cvt.rn.bf16x2.f32 %d, %a, %b", "b32 f32 f32", [](V v) { return ToBF(F(A)) << 16 | ToBF(F(BB)); });
  RunTable(rows);
}

}  // namespace
}  // namespace tf::simgpu::ptx
