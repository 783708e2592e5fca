// 16-bit floating-point formats: f16 (5 bits of exponent) and bf16 (8). Conversions round to nearest even unless they
// say otherwise. A NaN becomes the canonical 0x7fff.
#pragma once

#include <bit>
#include <cstdint>

#include "simgpu/ptx/exec/common.h"

namespace tf::simgpu::ptx {
namespace {

TF_INLINE float FlushToZero(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}

TF_INLINE float HalfToFloat(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  uint32_t rest = h & 0x7fff;
  // Scaling by 2^112 moves the exponent from bias 15 to 127 and makes subnormal numbers normal, exactly.
  float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
  uint32_t bits = rest >= 0x7c00 ? (rest << 13) | 0x7f800000u : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(bits | sign);
}

TF_INLINE float Bf16ToFloat(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

// Rounds a double to a format of `kMantissa` stored bits and `kExponent` bits of exponent.
template <int kExponent, int kMantissa>
inline uint16_t RoundTo(double x, Rounding mode) {
  auto bits = std::bit_cast<uint64_t>(x);
  auto sign = static_cast<uint32_t>(bits >> 63);
  auto exponent = static_cast<int>((bits >> 52) & 0x7ff);
  uint64_t mantissa = bits & 0xfffffffffffffull;
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
  const uint32_t top = sign << 15;
  if (exponent == 0x7ff) return static_cast<uint16_t>(mantissa != 0 ? 0x7fff : top | kInfinity);
  if (exponent == 0 && mantissa == 0) return static_cast<uint16_t>(top);
  int e = exponent - 1023;
  uint64_t significand = exponent == 0 ? mantissa : mantissa | (uint64_t{1} << 52);
  int drop = 52 - kMantissa;  // bits below the last kept one
  if (e < 1 - kBias) drop += (1 - kBias) - e;
  uint64_t kept, low, half;
  if (drop >= 63) {
    kept = 0;
    low = 1;  // something below a half
    half = 2;
  } else {
    kept = significand >> drop;
    low = significand & ((uint64_t{1} << drop) - 1);
    half = uint64_t{1} << (drop - 1);
  }
  bool up = false;
  switch (mode) {
    case Rounding::kRz:
      break;
    case Rounding::kRm:
      up = sign && low;
      break;
    case Rounding::kRp:
      up = !sign && low;
      break;
    case Rounding::kRna:
      up = low >= half;
      break;
    default:
      up = low > half || (low == half && (kept & 1));
      break;
  }
  kept += up;
  uint64_t result;
  if (e < 1 - kBias) {
    result = kept;  // subnormal; a carry makes it the smallest normal number
  } else {
    result = (static_cast<uint64_t>(e + kBias) << kMantissa) + (kept - (uint64_t{1} << kMantissa));
  }
  if (result >= kInfinity) {
    bool to_infinity = mode == Rounding::kNone || mode == Rounding::kRn || mode == Rounding::kRna ||
                       (mode == Rounding::kRp && !sign) || (mode == Rounding::kRm && sign);
    result = to_infinity ? kInfinity : kInfinity - 1;
  }
  return static_cast<uint16_t>(top | result);
}

TF_INLINE uint16_t DoubleToHalf(double x, Rounding mode = Rounding::kRn) { return RoundTo<5, 10>(x, mode); }
TF_INLINE uint16_t DoubleToBf16(double x, Rounding mode = Rounding::kRn) { return RoundTo<8, 7>(x, mode); }

TF_INLINE uint16_t FloatToHalf(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t rest = bits & 0x7fffffff;
  uint32_t normal = (rest - 0x38000000u + 0xfff + ((rest >> 13) & 1)) >> 13;
  // Adding 0.5 leaves the number's last f16 place in the last place of the sum, rounded by the addition.
  uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(rest < 0x38800000u ? rest : 0u) + 0.5f) - 0x3f000000u;
  uint32_t r = rest < 0x38800000u ? small : normal;
  r = rest >= 0x477ff000u ? 0x7c00u : r;
  return static_cast<uint16_t>(rest > 0x7f800000u ? 0x7fffu : r | sign);
}
TF_INLINE uint16_t FloatToBf16(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  uint32_t r = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000u ? 0x7fffu : r);
}

// a + b with the last bit set if the sum is not exact: rounds correctly once more to any much shorter format.
TF_INLINE double AddToOdd(double a, double b) {
  double sum = a + b;
  double t = sum - a;
  double error = (a - (sum - t)) + (b - t);
  auto bits = std::bit_cast<uint64_t>(sum);
  bool finite = (bits & 0x7ff0000000000000ull) != 0x7ff0000000000000ull;
  if (error != 0 && finite && !(bits & 1)) bits += ((error > 0) == (sum > 0)) ? uint64_t{1} : ~uint64_t{0};
  return std::bit_cast<double>(bits);
}

}  // namespace
}  // namespace tf::simgpu::ptx
