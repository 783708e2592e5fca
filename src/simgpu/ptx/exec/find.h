// Which handler executes an instruction. The handlers are built twice from the same sources: for any x86-64 (or other)
// processor, and for those with AVX2 and FMA; Find asks the set that fits this machine. Results are the same.
#pragma once

#include <cstdint>

#include "simgpu/ptx/type.h"
#include "simgpu/ptx/warp.h"

namespace tf::simgpu::ptx {

enum class Op : uint8_t {
  // integer.cc
  kAdd,
  kSub,
  kMulLo,
  kMulHi,
  kMulWide,
  kMadLo,
  kMadHi,
  kMadWide,
  kMul24Lo,
  kMul24Hi,
  kMad24Lo,
  kMad24Hi,
  kSad,
  kDiv,
  kRem,
  kAbs,
  kNeg,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kNot,
  kCnot,
  kLop3,
  kShl,
  kShr,
  kShfL,
  kShfR,
  kBrev,
  kClz,
  kPopc,
  kBfe,
  kBfi,
  kBfind,
  kBmsk,
  kSzext,
  kFns,
  kPrmt,
  kDp4a,
  kDp2a,
  kAddCc,
  kAddc,
  kSubCc,
  kSubc,
  kMadLoCc,
  kMadHiCc,
  kMadcLo,
  kMadcHi,
  kVideo4,
  kVideo2,
  kVideo,
  // moves.cc
  kMov,
  kSelp,
  kSlct,
  kPack,
  kUnpack,
  kPredAnd,
  kPredOr,
  kPredXor,
  kPredNot,
  kPredMov,
  kOffset,
  kIsSpace,
  kToGeneric,
  kFromGeneric,
  kClock,
  kNarrow,
  // compare.cc
  kSetp,
  kSet,
  // real.cc
  kFma,
  kRcp,
  kSqrt,
  kRsqrt,
  kSin,
  kCos,
  kEx2,
  kLg2,
  kTanh,
  kCopysign,
  kTestp,
  kDivFull,
  // convert.cc
  kCvt,
  kCvtPack,
  // memory.cc
  kLoad,
  kStore,
  kLoadParam,
  kCopyAsync,
  kPrefetch,
  // atomic.cc
  kAtomAdd,
  kAtomExch,
  kAtomCas,
  kAtomInc,
  kAtomDec,
  kAtomMin,
  kAtomMax,
  kAtomAnd,
  kAtomOr,
  kAtomXor,
};

enum class Compare : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kLo,
  kLs,
  kHi,
  kHs,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan
};
enum class Rounding : uint8_t { kNone, kRn, kRz, kRm, kRp, kRna };  // kRz.. toward 0, -inf, +inf; kRna: ties away

// Everything that decides the handler; operands are in the instruction.
struct Key {
  Op op;
  Type type = Type::kNone;    // of the operation, or of the destination of a conversion
  Type source = Type::kNone;  // of a conversion or comparison
  Rounding rounding = Rounding::kNone;
  bool to_integer = false;  // .rni and its like
  bool ftz = false, sat = false, nan = false, mode = false /* the second form: wrap, shiftamt */, relu = false,
       xorsign = false, approx = false;
  Compare compare = Compare::kEq;
  Space space = Space::kGlobal;
  uint8_t vector = 1;
  uint8_t width = 0;          // of a register wider than the type, in bytes
  uint8_t address_width = 8;  // of the address register
  bool touch = false;         // volatile, relaxed, acquire, atomic
};

#define TF_PTX_FINDERS             \
  Handler FindInteger(const Key&); \
  Handler FindMove(const Key&);    \
  Handler FindCompare(const Key&); \
  Handler FindReal(const Key&);    \
  Handler FindHalf(const Key&);    \
  Handler FindConvert(const Key&); \
  Handler FindMemory(const Key&);  \
  Handler FindAtomic(const Key&);

namespace plain {
TF_PTX_FINDERS
}
#ifdef TF_PTX_HAS_V3
namespace v3 {
TF_PTX_FINDERS
}
#endif
#undef TF_PTX_FINDERS

// nullptr: there is no such instruction.
Handler Find(const Key& key, bool allow_v3);

// "plain" or "v3"
const char* HandlerSet();

}  // namespace tf::simgpu::ptx
