// Bits of Inst::flags that decoder and handlers agree on.
#pragma once

#include <cstdint>

namespace tf::simgpu::ptx {

// Instructions that touch memory.
constexpr uint32_t kSpaceMask = 0xf;           // Space
constexpr uint32_t kVectorShift = 4;           // 3 bits: elements
constexpr uint32_t kNarrowAddress = 1 << 7;    // the address register has 32 bits
constexpr uint32_t kTouch = 1 << 8;            // volatile, acquire, release, atomic
constexpr uint32_t kIgnorePredicate = 1 << 9;  // cp.async: c is a predicate that drops the read

// Arithmetic on 16-bit floating-point numbers.
constexpr uint32_t kSatFlag = 1, kFtzFlag = 2, kReluFlag = 4, kNanFlag = 8, kXorSignFlag = 16;

// Comparisons: how a third predicate comes in, and what set writes.
constexpr uint32_t kNegatedC = 1, kCombineShift = 4, kCombineAnd = 1, kCombineOr = 2, kCombineXor = 3;
constexpr uint32_t kSetShift = 8, kSetOnes = 0, kSetFloat = 1, kSetF16 = 2, kSetBf16 = 3, kSetOnes16 = 4;

// Extended-precision arithmetic.
constexpr uint32_t kReadsCarry = 1, kWritesCarry = 2;

}  // namespace tf::simgpu::ptx
