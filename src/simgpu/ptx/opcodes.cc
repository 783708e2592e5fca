// What each opcode means: its modifiers and operands, and the handler that executes it.
#include <algorithm>

#include "simgpu/ptx/block.h"
#include "simgpu/ptx/decoder.h"
#include "simgpu/ptx/exec/flags.h"
#include "simgpu/ptx/text.h"

namespace tf::simgpu::ptx {
namespace {

bool IsBits(Type t) {
  return t == Type::kB8 || t == Type::kB16 || t == Type::kB32 || t == Type::kB64 || t == Type::kB128;
}
bool IsInteger(Type t) { return t != Type::kNone && t != Type::kPred && !IsFloat(t) && !IsBits(t); }

uint32_t HalfFlags(const Key& k) {
  return (k.sat ? kSatFlag : 0) | (k.ftz ? kFtzFlag : 0) | (k.relu ? kReluFlag : 0) | (k.nan ? kNanFlag : 0) |
         (k.xorsign ? kXorSignFlag : 0);
}

Type Doubled(Type t) {
  switch (t) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    case Type::kS32:
      return Type::kS64;
    default:
      return Type::kNone;
  }
}

}  // namespace

const std::unordered_map<std::string_view, Decoder::Method>& Decoder::Methods() {
  static const auto& methods = *new std::unordered_map<std::string_view, Method>{
      {"add", &Decoder::DecodeAdd},
      {"sub", &Decoder::DecodeSub},
      {"addc", &Decoder::DecodeAddc},
      {"subc", &Decoder::DecodeSubc},
      {"mul", &Decoder::DecodeMul},
      {"mad", &Decoder::DecodeMad},
      {"madc", &Decoder::DecodeMadc},
      {"mul24", &Decoder::DecodeMul24},
      {"mad24", &Decoder::DecodeMad24},
      {"fma", &Decoder::DecodeFma},
      {"sad", &Decoder::DecodeSad},
      {"div", &Decoder::DecodeDiv},
      {"rem", &Decoder::DecodeRem},
      {"abs", &Decoder::DecodeAbs},
      {"neg", &Decoder::DecodeNeg},
      {"min", &Decoder::DecodeMin},
      {"max", &Decoder::DecodeMax},
      {"rcp", &Decoder::DecodeRcp},
      {"sqrt", &Decoder::DecodeSqrt},
      {"rsqrt", &Decoder::DecodeRsqrt},
      {"sin", &Decoder::DecodeSin},
      {"cos", &Decoder::DecodeCos},
      {"ex2", &Decoder::DecodeEx2},
      {"lg2", &Decoder::DecodeLg2},
      {"tanh", &Decoder::DecodeTanh},
      {"copysign", &Decoder::DecodeCopysign},
      {"testp", &Decoder::DecodeTestp},
      {"and", &Decoder::DecodeAnd},
      {"or", &Decoder::DecodeOr},
      {"xor", &Decoder::DecodeXor},
      {"not", &Decoder::DecodeNot},
      {"cnot", &Decoder::DecodeCnot},
      {"lop3", &Decoder::DecodeLop3},
      {"shl", &Decoder::DecodeShl},
      {"shr", &Decoder::DecodeShr},
      {"shf", &Decoder::DecodeShf},
      {"prmt", &Decoder::DecodePrmt},
      {"bfe", &Decoder::DecodeBfe},
      {"bfi", &Decoder::DecodeBfi},
      {"bfind", &Decoder::DecodeBfind},
      {"brev", &Decoder::DecodeBrev},
      {"clz", &Decoder::DecodeClz},
      {"popc", &Decoder::DecodePopc},
      {"bmsk", &Decoder::DecodeBmsk},
      {"szext", &Decoder::DecodeSzext},
      {"fns", &Decoder::DecodeFns},
      {"dp4a", &Decoder::DecodeDp4a},
      {"dp2a", &Decoder::DecodeDp2a},
      {"setp", &Decoder::DecodeSetp},
      {"set", &Decoder::DecodeSet},
      {"selp", &Decoder::DecodeSelp},
      {"slct", &Decoder::DecodeSlct},
      {"mov", &Decoder::DecodeMov},
      {"cvt", &Decoder::DecodeCvt},
      {"cvta", &Decoder::DecodeCvta},
      {"isspacep", &Decoder::DecodeIsspacep},
      {"ld", &Decoder::DecodeLd},
      {"ldu", &Decoder::DecodeLd},
      {"st", &Decoder::DecodeSt},
      {"atom", &Decoder::DecodeAtom},
      {"red", &Decoder::DecodeRed},
      {"bra", &Decoder::DecodeBra},
      {"brx", &Decoder::DecodeBrx},
      {"call", &Decoder::DecodeCall},
      {"ret", &Decoder::DecodeRet},
      {"exit", &Decoder::DecodeExit},
      {"trap", &Decoder::DecodeTrap},
      {"brkpt", &Decoder::DecodeTrap},
      {"bar", &Decoder::DecodeBar},
      {"barrier", &Decoder::DecodeBar},
      {"vote", &Decoder::DecodeVote},
      {"shfl", &Decoder::DecodeShfl},
      {"match", &Decoder::DecodeMatch},
      {"redux", &Decoder::DecodeRedux},
      {"activemask", &Decoder::DecodeActivemask},
      {"elect", &Decoder::DecodeElect},
      {"membar", &Decoder::DecodeFence},
      {"fence", &Decoder::DecodeFence},
      {"nanosleep", &Decoder::DecodeNanosleep},
      {"prefetch", &Decoder::DecodeHint},
      {"prefetchu", &Decoder::DecodeHint},
      {"discard", &Decoder::DecodeHint},
      {"applypriority", &Decoder::DecodeHint},
      {"griddepcontrol", &Decoder::DecodeHint},
      {"pmevent", &Decoder::DecodeHint},
      {"cp", &Decoder::DecodeCp},
      {"vadd", &Decoder::DecodeVideo},
      {"vsub", &Decoder::DecodeVideo},
      {"vabsdiff", &Decoder::DecodeVideo},
      {"vmin", &Decoder::DecodeVideo},
      {"vmax", &Decoder::DecodeVideo},
      {"vadd2", &Decoder::DecodeVideo},
      {"vsub2", &Decoder::DecodeVideo},
      {"vabsdiff2", &Decoder::DecodeVideo},
      {"vmin2", &Decoder::DecodeVideo},
      {"vmax2", &Decoder::DecodeVideo},
      {"vavrg2", &Decoder::DecodeVideo},
      {"vadd4", &Decoder::DecodeVideo},
      {"vsub4", &Decoder::DecodeVideo},
      {"vabsdiff4", &Decoder::DecodeVideo},
      {"vmin4", &Decoder::DecodeVideo},
      {"vmax4", &Decoder::DecodeVideo},
      {"vavrg4", &Decoder::DecodeVideo},
  };
  return methods;
}

// ---- arithmetic ----

// d, a, b of one type, with every modifier that such an operation may have.
bool Decoder::Binary(Op op) {
  Key k{.op = op};
  bool to_integer;
  k.rounding = TakeRounding(to_integer);
  k.ftz = Take("ftz");
  k.sat = Take("sat");
  k.nan = Take("NaN");
  k.xorsign = Take("xorsign");
  if (k.xorsign && !Take("abs")) return Bad("expected .xorsign.abs");
  k.relu = Take("relu");
  k.approx = Take("approx") || Take("full");
  k.type = TakeType();
  if (k.type == Type::kNone) return Bad("no type");
  if (!AllTaken() || !Count(3)) return false;
  Inst in;
  in.flags = HalfFlags(k);
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::AddSub(bool sub) {
  if (Take("cc")) return Carry(sub ? Op::kSubCc : Op::kAddCc, false, true);
  return Binary(sub ? Op::kSub : Op::kAdd);
}
bool Decoder::DecodeAdd() { return AddSub(false); }
bool Decoder::DecodeSub() { return AddSub(true); }
bool Decoder::DecodeAddc() { return Carry(Op::kAddCc, true, Take("cc")); }
bool Decoder::DecodeSubc() { return Carry(Op::kSubCc, true, Take("cc")); }

bool Decoder::Carry(Op op, bool reads, bool writes) {
  Key k{.op = op, .type = TakeType()};
  if (!IsInteger(k.type)) return Bad("expected an integer type");
  if (!AllTaken() || !Count(3)) return false;
  Inst in;
  in.flags = (reads ? kReadsCarry : 0) | (writes ? kWritesCarry : 0);
  in.e = CarrySlot();
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeMul() {
  if (Take("wide")) {
    Key k{.op = Op::kMulWide, .type = TakeType()};
    Type wide = Doubled(k.type);
    if (wide == Type::kNone) return Missing();
    if (!AllTaken() || !Count(3)) return false;
    Inst in;
    if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !WriteSlot(Arg(0), SizeOf(wide), in.d))
      return false;
    return EmitKey(in, k);
  }
  if (Take("hi")) return Binary(Op::kMulHi);
  bool low = Take("lo");
  for (auto& [text, taken] : modifiers_) {
    Type type = TypeByName(text);
    if (type != Type::kNone && low == IsFloat(type))
      return Bad(low ? "floating-point multiplication has no .lo" : "expected .lo, .hi or .wide");
  }
  return Binary(Op::kMulLo);
}

bool Decoder::DecodeMad() {
  bool low = Take("lo"), high = Take("hi"), wide = Take("wide");
  if (!low && !high && !wide) return DecodeFma();
  if (Take("cc")) {
    if (wide) return Bad("no .wide with .cc");
    modifiers_.emplace_back(low ? "lo" : "hi", false);
    return MadCarry(false, true);
  }
  Key k{.op = low ? Op::kMadLo : high ? Op::kMadHi : Op::kMadWide};
  k.sat = Take("sat");
  k.type = TakeType();
  if (!IsInteger(k.type)) return Bad("expected an integer type");
  Type sum = wide ? Doubled(k.type) : k.type;
  if (sum == Type::kNone) return Missing();
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), sum, in.c) ||
      !WriteSlot(Arg(0), SizeOf(sum), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeMadc() { return MadCarry(true, Take("cc")); }

bool Decoder::MadCarry(bool reads, bool writes) {
  bool low = Take("lo"), high = Take("hi");
  if (low == high) return Bad("expected .lo or .hi");
  Key k{.op = low ? Op::kMadLoCc : Op::kMadHiCc, .type = TakeType()};
  if (!IsInteger(k.type)) return Bad("expected an integer type");
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  in.flags = (reads ? kReadsCarry : 0) | (writes ? kWritesCarry : 0);
  in.e = CarrySlot();
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), k.type, in.c) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeMul24() {
  return Take("hi") ? Binary(Op::kMul24Hi) : Take("lo") ? Binary(Op::kMul24Lo) : Bad("expected .lo or .hi");
}

bool Decoder::DecodeMad24() {
  bool high = Take("hi");
  if (!high && !Take("lo")) return Bad("expected .lo or .hi");
  Key k{.op = high ? Op::kMad24Hi : Op::kMad24Lo, .sat = Take("sat")};
  k.type = TakeType();
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), k.type, in.c) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeFma() {
  Key k{.op = Op::kFma};
  bool to_integer;
  k.rounding = TakeRounding(to_integer);
  k.ftz = Take("ftz");
  k.sat = Take("sat");
  k.relu = Take("relu");
  k.type = TakeType();
  if (!IsFloat(k.type)) return Bad("expected a floating-point type");
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  in.flags = HalfFlags(k);
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), k.type, in.c) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeSad() {
  Key k{.op = Op::kSad, .type = TakeType()};
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), k.type, in.c) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeDiv() { return Binary(Op::kDiv); }
bool Decoder::DecodeRem() { return Binary(Op::kRem); }
bool Decoder::DecodeMin() { return Binary(Op::kMin); }
bool Decoder::DecodeMax() { return Binary(Op::kMax); }
bool Decoder::DecodeCopysign() { return Binary(Op::kCopysign); }

bool Decoder::Unary(Op op) {
  Key k{.op = op};
  bool to_integer;
  k.rounding = TakeRounding(to_integer);
  k.approx = Take("approx");
  k.ftz = Take("ftz");
  k.type = TakeType();
  if (k.type == Type::kNone) return Bad("no type");
  if (!AllTaken() || !Count(2)) return false;
  Inst in;
  in.flags = HalfFlags(k);
  if (!ReadSlot(Arg(1), k.type, in.a) || !WriteSlot(Arg(0), SizeOf(k.type), in.d)) return false;
  return EmitKey(in, k);
}
bool Decoder::DecodeAbs() { return Unary(Op::kAbs); }
bool Decoder::DecodeNeg() { return Unary(Op::kNeg); }
bool Decoder::DecodeRcp() { return Unary(Op::kRcp); }
bool Decoder::DecodeSqrt() { return Unary(Op::kSqrt); }
bool Decoder::DecodeRsqrt() { return Unary(Op::kRsqrt); }
bool Decoder::DecodeSin() { return Unary(Op::kSin); }
bool Decoder::DecodeCos() { return Unary(Op::kCos); }
bool Decoder::DecodeEx2() { return Unary(Op::kEx2); }
bool Decoder::DecodeLg2() { return Unary(Op::kLg2); }
bool Decoder::DecodeTanh() { return Unary(Op::kTanh); }

bool Decoder::DecodeTestp() {
  static constexpr std::string_view kKinds[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  Inst in;
  in.flags = ~0u;
  for (uint32_t i = 0; i < 6; ++i) {
    if (Take(kKinds[i])) in.flags = i;
  }
  if (in.flags == ~0u) return Bad("expected a kind of number");
  Key k{.op = Op::kTestp, .type = TakeType()};
  if (!AllTaken() || !Count(2) || !ReadSlot(Arg(1), k.type, in.a) || !WritePredicate(Arg(0), in.d)) return false;
  return EmitKey(in, k);
}

// ---- logic and bits ----
bool Decoder::Logic(Op op, Op predicate_op) {
  Type type = TakeType();
  const bool one = op == Op::kNot;
  if (!AllTaken() || !Count(one ? 2 : 3)) return false;
  Inst in;
  if (type == Type::kPred) {
    bool a = false, b = false;
    if (!ReadPredicate(Arg(1), in.a, a) || (!one && !ReadPredicate(Arg(2), in.b, b)) || !WritePredicate(Arg(0), in.d))
      return false;
    if (in.d == kNoSlot) return Bad("expected a predicate register");
    in.flags = (a ? 1 : 0) | (b ? 2 : 0);
    return EmitKey(in, Key{.op = predicate_op});
  }
  if (!IsBits(type)) return Bad("expected a .b type or .pred");
  if (!ReadSlot(Arg(1), type, in.a) || (!one && !ReadSlot(Arg(2), type, in.b)) ||
      !WriteSlot(Arg(0), SizeOf(type), in.d))
    return false;
  return EmitKey(in, Key{.op = op, .type = type});
}
bool Decoder::DecodeAnd() { return Logic(Op::kAnd, Op::kPredAnd); }
bool Decoder::DecodeOr() { return Logic(Op::kOr, Op::kPredOr); }
bool Decoder::DecodeXor() { return Logic(Op::kXor, Op::kPredXor); }
bool Decoder::DecodeNot() { return Logic(Op::kNot, Op::kPredNot); }
bool Decoder::DecodeCnot() { return Unary(Op::kCnot); }

bool Decoder::DecodeLop3() {
  Key k{.op = Op::kLop3, .type = TakeType()};
  if (!AllTaken() || !Count(5)) return false;
  if (Arg(4).kind != Operand::kInteger || Arg(4).value < 0 || Arg(4).value > 255)
    return Bad("the table is a constant from 0 to 255");
  Inst in;
  in.flags = static_cast<uint32_t>(Arg(4).value);
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), k.type, in.c) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::Shift(Op op) {
  Key k{.op = op, .type = TakeType()};
  if (!AllTaken() || !Count(3)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), Type::kU32, in.b) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}
bool Decoder::DecodeShl() { return Shift(Op::kShl); }
bool Decoder::DecodeShr() { return Shift(Op::kShr); }

bool Decoder::DecodeShf() {
  Key k{.op = Take("l") ? Op::kShfL : Op::kShfR};
  if (k.op == Op::kShfR && !Take("r")) return Bad("expected .l or .r");
  k.mode = Take("wrap");
  if (!k.mode && !Take("clamp")) return Bad("expected .wrap or .clamp");
  k.type = TakeType();
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), Type::kU32, in.c) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodePrmt() {
  static constexpr std::string_view kModes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  Inst in;
  in.flags = 0;
  for (uint32_t i = 0; i < 6; ++i) {
    if (Take(kModes[i])) in.flags = i + 1;
  }
  Key k{.op = Op::kPrmt, .type = TakeType()};
  if (!AllTaken() || !Count(4)) return false;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), k.type, in.c) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeBfe() {
  Key k{.op = Op::kBfe, .type = TakeType()};
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), Type::kU32, in.b) || !ReadSlot(Arg(3), Type::kU32, in.c) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeBfi() {
  Key k{.op = Op::kBfi, .type = TakeType()};
  if (!AllTaken() || !Count(5)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), Type::kU32, in.c) ||
      !ReadSlot(Arg(4), Type::kU32, in.e) || !WriteSlot(Arg(0), SizeOf(k.type), in.d)) {
    return false;
  }
  return EmitKey(in, k);
}

// One operand of the type; the result has the same type or 32 bits.
bool Decoder::Bits(Op op, bool result32) {
  Key k{.op = op};
  k.mode = op == Op::kBfind && Take("shiftamt");
  k.type = TakeType();
  if (!AllTaken() || !Count(2)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), k.type, in.a) || !WriteSlot(Arg(0), result32 ? 4 : SizeOf(k.type), in.d)) return false;
  return EmitKey(in, k);
}
bool Decoder::DecodeBfind() { return Bits(Op::kBfind, true); }
bool Decoder::DecodeBrev() { return Bits(Op::kBrev, false); }
bool Decoder::DecodeClz() { return Bits(Op::kClz, true); }
bool Decoder::DecodePopc() { return Bits(Op::kPopc, true); }

bool Decoder::DecodeBmsk() {
  Key k{.op = Op::kBmsk};
  k.mode = Take("wrap");
  if (!k.mode && !Take("clamp")) return Bad("expected .wrap or .clamp");
  k.type = TakeType();
  if (!AllTaken() || !Count(3)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), Type::kU32, in.a) || !ReadSlot(Arg(2), Type::kU32, in.b) || !WriteSlot(Arg(0), 4, in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeSzext() {
  Key k{.op = Op::kSzext};
  k.mode = Take("wrap");
  if (!k.mode && !Take("clamp")) return Bad("expected .wrap or .clamp");
  k.type = TakeType();
  if (!AllTaken() || !Count(3)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), Type::kU32, in.a) || !ReadSlot(Arg(2), Type::kU32, in.b) || !WriteSlot(Arg(0), 4, in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeFns() {
  Key k{.op = Op::kFns, .type = TakeType()};
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), Type::kU32, in.a) || !ReadSlot(Arg(2), Type::kU32, in.b) ||
      !ReadSlot(Arg(3), Type::kU32, in.c) || !WriteSlot(Arg(0), 4, in.d))
    return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeDp4a() {
  Type a = TakeType(), b = TakeType();
  if (SizeOf(a) != 4 || SizeOf(b) != 4 || !IsInteger(a) || !IsInteger(b)) return Bad("expected two types .u32 or .s32");
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  in.flags = (IsSigned(a) ? 1 : 0) | (IsSigned(b) ? 2 : 0);
  if (!ReadSlot(Arg(1), a, in.a) || !ReadSlot(Arg(2), b, in.b) || !ReadSlot(Arg(3), Type::kU32, in.c) ||
      !WriteSlot(Arg(0), 4, in.d))
    return false;
  return EmitKey(in, Key{.op = Op::kDp4a, .type = a});
}

bool Decoder::DecodeDp2a() {
  bool high = Take("hi");
  if (!high && !Take("lo")) return Bad("expected .lo or .hi");
  Type a = TakeType(), b = TakeType();
  if (SizeOf(a) != 4 || SizeOf(b) != 4 || !IsInteger(a) || !IsInteger(b)) return Bad("expected two types .u32 or .s32");
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  in.flags = (IsSigned(a) ? 1 : 0) | (IsSigned(b) ? 2 : 0) | (high ? 4 : 0);
  if (!ReadSlot(Arg(1), a, in.a) || !ReadSlot(Arg(2), b, in.b) || !ReadSlot(Arg(3), Type::kU32, in.c) ||
      !WriteSlot(Arg(0), 4, in.d))
    return false;
  return EmitKey(in, Key{.op = Op::kDp2a, .type = a});
}

// The simple forms of the video instructions: no selectors, whole words; optionally .sat and, in the SIMD ones, .add.
bool Decoder::DecodeVideo() {
  std::string_view name = base_;
  uint32_t parts = name.back() == '4' ? 4 : name.back() == '2' ? 2 : 1;
  if (parts != 1) name.remove_suffix(1);
  static constexpr std::string_view kNames[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"};
  auto which = static_cast<uint32_t>(std::find(std::begin(kNames), std::end(kNames), name) - std::begin(kNames));
  Type d = TakeType(), a = TakeType(), b = TakeType();
  if (SizeOf(d) != 4 || SizeOf(a) != 4 || SizeOf(b) != 4) return Bad("expected three types .u32 or .s32");
  bool sat = Take("sat"), add = Take("add");
  if (add && parts == 1 && !Count(4)) return false;
  if (!AllTaken() || !Count(parts == 1 && !add ? 3 : 4)) return false;
  Inst in;
  in.flags = which | (IsSigned(a) ? 16 : 0) | (IsSigned(b) ? 32 : 0) | (IsSigned(d) ? 64 : 0) | (sat ? 128 : 0) |
             (add ? 256 : 0);
  if (!ReadSlot(Arg(1), a, in.a) || !ReadSlot(Arg(2), b, in.b) || !WriteSlot(Arg(0), 4, in.d)) return false;
  in.c = in.a;
  if (s_->operands.size() == 4 && !ReadSlot(Arg(3), Type::kU32, in.c)) return false;
  return EmitKey(in, Key{.op = parts == 4 ? Op::kVideo4 : parts == 2 ? Op::kVideo2 : Op::kVideo, .type = Type::kU32});
}

// ---- comparison and selection ----
bool Decoder::DecodeSetp() {
  Key k{.op = Op::kSetp};
  Inst in;
  in.flags = 0;
  // A boolean operator follows the comparison and is no comparison itself.
  if (Take("and")) in.flags = kCombineAnd << kCombineShift;
  if (Take("or")) in.flags = kCombineOr << kCombineShift;
  if (Take("xor")) in.flags = kCombineXor << kCombineShift;
  if (!TakeCompare(k.compare)) return false;
  k.ftz = Take("ftz");
  k.source = TakeType();
  if (k.source == Type::kNone) return Bad("no type");
  if (!AllTaken() || !Count(in.flags ? 4 : 3)) return false;
  const Operand* d = &Arg(0);
  if (d->kind == Operand::kPair) {
    if (!WritePredicate(d->parts[0], in.d) || !WritePredicate(d->parts[1], in.e)) return false;
  } else if (!WritePredicate(*d, in.d)) {
    return false;
  }
  if (!ReadSlot(Arg(1), k.source, in.a) || !ReadSlot(Arg(2), k.source, in.b)) return false;
  if (in.flags) {
    bool negated;
    if (!ReadPredicate(Arg(3), in.c, negated)) return false;
    if (negated) in.flags |= kNegatedC;
  }
  in.imm = static_cast<int64_t>(k.compare);
  return EmitKey(in, k);
}

bool Decoder::DecodeSet() {
  Key k{.op = Op::kSet};
  Inst in;
  in.flags = 0;
  if (Take("and")) in.flags = kCombineAnd << kCombineShift;
  if (Take("or")) in.flags = kCombineOr << kCombineShift;
  if (Take("xor")) in.flags = kCombineXor << kCombineShift;
  bool combined = in.flags != 0;
  if (!TakeCompare(k.compare)) return false;
  k.ftz = Take("ftz");
  k.type = TakeType();
  k.source = TakeType();
  if (!AllTaken() || !Count(combined ? 4 : 3)) return false;
  switch (k.type) {
    case Type::kU32:
    case Type::kS32:
      in.flags |= kSetOnes << kSetShift;
      break;
    case Type::kF32:
      in.flags |= kSetFloat << kSetShift;
      break;
    case Type::kF16:
    case Type::kF16x2:
      in.flags |= kSetF16 << kSetShift;
      break;
    case Type::kBf16:
    case Type::kBf16x2:
      in.flags |= kSetBf16 << kSetShift;
      break;
    case Type::kU16:
    case Type::kS16:
      in.flags |= kSetOnes16 << kSetShift;
      break;
    default:
      return Missing();
  }
  bool pair = k.source == Type::kF16x2 || k.source == Type::kBf16x2;
  if (pair != (k.type == Type::kF16x2 || k.type == Type::kBf16x2) && !(pair && SizeOf(k.type) == 4)) return Missing();
  if (!ReadSlot(Arg(1), k.source, in.a) || !ReadSlot(Arg(2), k.source, in.b) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  if (combined) {
    bool negated;
    if (!ReadPredicate(Arg(3), in.c, negated)) return false;
    if (negated) in.flags |= kNegatedC;
  }
  in.imm = static_cast<int64_t>(k.compare);
  return EmitKey(in, k);
}

bool Decoder::DecodeSelp() {
  Key k{.op = Op::kSelp, .type = TakeType()};
  if (k.type == Type::kNone || k.type == Type::kPred) return Bad("no type");
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  bool negated;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadPredicate(Arg(3), in.c, negated) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  in.flags = negated;
  return EmitKey(in, k);
}

bool Decoder::DecodeSlct() {
  Key k{.op = Op::kSlct};
  k.ftz = Take("ftz");
  k.type = TakeType();
  k.source = TakeType();
  if (!AllTaken() || !Count(4)) return false;
  Inst in;
  if (!ReadSlot(Arg(1), k.type, in.a) || !ReadSlot(Arg(2), k.type, in.b) || !ReadSlot(Arg(3), k.source, in.c) ||
      !WriteSlot(Arg(0), SizeOf(k.type), in.d))
    return false;
  return EmitKey(in, k);
}

// ---- moves and conversions ----
bool Decoder::DecodeMov() {
  Type type = TakeType();
  if (type == Type::kNone) return Bad("no type");
  if (!AllTaken() || !Count(2)) return false;
  Inst in;
  if (type == Type::kPred) {
    bool negated;
    if (!ReadPredicate(Arg(1), in.a, negated) || !WritePredicate(Arg(0), in.d)) return false;
    if (in.d == kNoSlot) return Bad("expected a predicate register");
    in.flags = negated;
    return EmitKey(in, Key{.op = Op::kPredMov});
  }
  const Operand &to = Arg(0), &from = Arg(1);
  if (to.kind == Operand::kVector || from.kind == Operand::kVector) {
    bool pack = from.kind == Operand::kVector;
    const std::vector<Operand>& parts = pack ? from.parts : to.parts;
    if (parts.empty() || SizeOf(type) % parts.size() != 0) return Bad("the parts do not make up the whole");
    const uint32_t part = SizeOf(type) / static_cast<uint32_t>(parts.size());
    Type part_type = part == 1 ? Type::kB8 : part == 2 ? Type::kB16 : part == 4 ? Type::kB32 : Type::kB64;
    std::vector<Slot> slots;
    for (const Operand& o : parts) {
      Slot slot = kNoSlot;
      if (pack) {
        if (!ReadSlot(o, part_type, slot)) return false;
      } else if (o.kind != Operand::kSink && !WriteSlot(o, part, slot)) {
        return false;
      }
      slots.push_back(slot);
    }
    if (!(pack ? WriteSlot(to, SizeOf(type), in.d) : ReadSlot(from, type, in.a))) return false;
    in.aux = static_cast<uint32_t>(module_.lists.size());
    in.imm = static_cast<int64_t>(slots.size());
    module_.lists.insert(module_.lists.end(), slots.begin(), slots.end());
    return EmitKey(in, Key{.op = pack ? Op::kPack : Op::kUnpack, .type = type, .source = part_type});
  }
  if (!ReadSlot(from, type, in.a) || !WriteSlot(to, SizeOf(type), in.d)) return false;
  return EmitKey(in, Key{.op = Op::kMov, .type = type});
}

bool Decoder::DecodeCvt() {
  Key k{.op = Op::kCvt};
  k.rounding = TakeRounding(k.to_integer);
  k.ftz = Take("ftz");
  k.sat = Take("sat");
  k.relu = Take("relu");
  k.type = TakeType();
  k.source = TakeType();
  if (k.type == Type::kNone || k.source == Type::kNone || k.type == Type::kPred || k.source == Type::kPred)
    return Missing();
  if (!AllTaken()) return false;
  Inst in;
  const bool packed = k.type == Type::kF16x2 || k.type == Type::kBf16x2;
  if (packed) {
    if (k.source != Type::kF32) return Missing();
    if (!Count(3) || !ReadSlot(Arg(1), Type::kF32, in.a) || !ReadSlot(Arg(2), Type::kF32, in.b) ||
        !WriteSlot(Arg(0), 4, in.d))
      return false;
    k.op = Op::kCvtPack;
    k.type = k.type == Type::kF16x2 ? Type::kF16 : Type::kBf16;
  } else {
    if (!Count(2) || !ReadNarrow(Arg(1), k.source, in.a)) return false;
  }
  const bool real_to = IsFloat(k.type), real_from = IsFloat(k.source);
  if (IsBits(k.type) || IsBits(k.source)) return Missing();
  if (!real_to && real_from && (k.rounding == Rounding::kNone || !k.to_integer))
    return Bad("a conversion to an integer needs .rni, .rzi, .rmi or .rpi");
  if (real_to && !real_from && (k.rounding == Rounding::kNone || k.to_integer))
    return Bad("a conversion from an integer needs .rn, .rz, .rm or .rp");
  if (!real_to && !real_from && k.rounding != Rounding::kNone)
    return Bad("a conversion between integers has no rounding");
  in.flags = static_cast<uint32_t>(k.type) | static_cast<uint32_t>(k.source) << 5 |
             static_cast<uint32_t>(k.rounding) << 10 | (k.to_integer ? 1u << 13 : 0) | (k.ftz ? 1u << 14 : 0) |
             (k.sat ? 1u << 15 : 0) | (k.relu ? 1u << 16 : 0);
  if (packed) return EmitKey(in, k);
  // A wider destination register gets the value extended.
  if (Arg(0).kind == Operand::kSink) return WriteSlot(Arg(0), SizeOf(k.type), in.d) && EmitKey(in, k);
  uint32_t own;
  if (!RegisterSize(Arg(0), own)) return false;
  if (own < SizeOf(k.type)) return Bad(Cat("register '", Arg(0).name, "' is too narrow"));
  if (own == SizeOf(k.type)) return WriteSlot(Arg(0), own, in.d) && EmitKey(in, k);
  if (real_to) return Bad("a floating-point result needs a register of its size");
  in.d = Temporary(SizeOf(k.type));
  if (!EmitKey(in, k)) return false;
  Inst extend;
  extend.a = in.d;
  if (!WriteSlot(Arg(0), own, extend.d)) return false;
  Type wide = own == 2 ? Type::kU16 : own == 4 ? Type::kU32 : Type::kU64;
  return EmitKey(extend, Key{.op = Op::kCvt, .type = wide, .source = k.type});
}

bool Decoder::DecodeCvta() {
  bool to = Take("to");
  Space space = TakeSpace(Space::kGeneric);
  if (space == Space::kGeneric) return Bad("expected a state space");
  Type type = TakeType();
  if (!AllTaken() || !Count(2)) return false;
  if (type != Type::kU64) return Missing("is for 32-bit addresses, which are not supported");
  uint64_t window = 0;
  if (space == Space::kShared) window = kSharedWindow;
  if (space == Space::kLocal) window = kLocalWindow;
  if (space == Space::kParam) window = f_->is_entry ? kParamWindow : kLocalWindow;
  Inst in;
  in.imm = static_cast<int64_t>(window);
  if (!ReadSlot(Arg(1), type, in.a) || !WriteSlot(Arg(0), 8, in.d)) return false;
  return EmitKey(in, Key{.op = to ? Op::kFromGeneric : Op::kToGeneric, .type = type});
}

bool Decoder::DecodeIsspacep() {
  Space space = TakeSpace(Space::kGeneric);
  if (space == Space::kGeneric) return Missing();
  if (!AllTaken() || !Count(2)) return false;
  Inst in;
  in.flags = static_cast<uint32_t>(space);
  if (!ReadSlot(Arg(1), Type::kU64, in.a) || !WritePredicate(Arg(0), in.d)) return false;
  return EmitKey(in, Key{.op = Op::kIsSpace});
}

// ---- memory ----
bool Decoder::DecodeLd() {
  bool touch = false;
  Space space = TakeSpace(Space::kGeneric);
  TakeScopesAndCaches(touch);
  Key k{.op = Op::kLoad};
  k.vector = Take("v2") ? 2 : Take("v4") ? 4 : 1;
  k.type = TakeType();
  if (k.type == Type::kNone || k.type == Type::kPred) return Bad("no type");
  // A cache policy operand is a hint.
  bool policy = Take("L2::cache_hint");
  if (!AllTaken() || !Count(2, policy ? 3 : 2)) return false;
  Inst in;
  in.flags = (touch ? kTouch : 0) | static_cast<uint32_t>(k.vector & 7) << kVectorShift;
  if (!Address(Arg(1), space, in)) return false;
  if (static_cast<Space>(in.flags & kSpaceMask) == Space::kParam && !f_->is_entry)
    in.flags = (in.flags & ~kSpaceMask) | static_cast<uint32_t>(Space::kLocal);
  if (k.vector * SizeOf(k.type) > 16) return Missing("with more than 16 bytes is not supported");

  std::vector<Slot> slots;
  k.width = 0;
  auto destination = [&](const Operand& o) {
    Slot slot = kNoSlot;
    if (o.kind != Operand::kSink) {
      uint32_t own;
      if (!RegisterSize(o, own)) return false;
      if (own < SizeOf(k.type)) return Bad(Cat("register '", o.name, "' is too narrow"));
      if (k.width != 0 && k.width != own) return Bad("registers of different sizes");
      k.width = static_cast<uint8_t>(own);
      slot = fl_->registers[static_cast<size_t>(o.reg)];
    }
    slots.push_back(slot);
    return true;
  };
  if (k.vector > 1) {
    if (Arg(0).kind != Operand::kVector || Arg(0).parts.size() != k.vector)
      return Bad(Cat("expected a vector of ", int{k.vector}, " registers"));
    for (const Operand& o : Arg(0).parts) {
      if (!destination(o)) return false;
    }
  } else if (Arg(0).kind == Operand::kVector && Arg(0).parts.size() == 1) {
    if (!destination(Arg(0).parts[0])) return false;
  } else if (!destination(Arg(0))) {
    return false;
  }
  if (k.width == 0) k.width = static_cast<uint8_t>(SizeOf(k.type));

  // A kernel parameter at a place that is known now.
  const Operand& base = Arg(1).parts[0];
  if (base.kind == Operand::kVariable && fl_->parameters.contains(base.variable)) {
    const uint64_t bytes = uint64_t{SizeOf(k.type)} * k.vector;
    if (in.imm < 0 || static_cast<uint64_t>(in.imm) + bytes > fl_->parameter_bytes)
      return Bad("beyond the parameters of the kernel");
    k.op = Op::kLoadParam;
    for (Slot slot : slots) {
      in.d = slot;
      if (slot != kNoSlot && !EmitKey(in, k)) return false;
      in.imm += SizeOf(k.type);
    }
    return true;
  }
  if (k.vector > 1) {
    in.aux = static_cast<uint32_t>(module_.lists.size());
    module_.lists.insert(module_.lists.end(), slots.begin(), slots.end());
  } else {
    in.d = slots[0] == kNoSlot ? Temporary(k.width) : slots[0];
  }
  return EmitKey(in, k);
}

bool Decoder::DecodeSt() {
  bool touch = false;
  Space space = TakeSpace(Space::kGeneric);
  TakeScopesAndCaches(touch);
  Key k{.op = Op::kStore};
  k.vector = Take("v2") ? 2 : Take("v4") ? 4 : 1;
  k.type = TakeType();
  if (k.type == Type::kNone || k.type == Type::kPred) return Bad("no type");
  bool policy = Take("L2::cache_hint");
  if (!AllTaken() || !Count(2, policy ? 3 : 2)) return false;
  if (space == Space::kConst) return Bad("constant memory is not written");
  if (k.vector * SizeOf(k.type) > 16) return Missing("with more than 16 bytes is not supported");
  Inst in;
  in.flags = (touch ? kTouch : 0) | static_cast<uint32_t>(k.vector & 7) << kVectorShift;
  if (!Address(Arg(0), space, in)) return false;
  if (static_cast<Space>(in.flags & kSpaceMask) == Space::kParam) {
    if (f_->is_entry) return Bad("kernel parameters are not written");
    in.flags = (in.flags & ~kSpaceMask) | static_cast<uint32_t>(Space::kLocal);
  }
  std::vector<const Operand*> sources;
  if (k.vector > 1) {
    if (Arg(1).kind != Operand::kVector || Arg(1).parts.size() != k.vector)
      return Bad(Cat("expected a vector of ", int{k.vector}, " registers"));
    for (const Operand& o : Arg(1).parts) sources.push_back(&o);
  } else {
    sources.push_back(Arg(1).kind == Operand::kVector && Arg(1).parts.size() == 1 ? &Arg(1).parts[0] : &Arg(1));
  }
  k.width = 0;
  for (const Operand* o : sources) {
    if (o->kind != Operand::kRegister) continue;
    uint32_t own;
    if (!RegisterSize(*o, own)) return false;
    if (own < SizeOf(k.type)) return Bad(Cat("register '", o->name, "' is too narrow"));
    if (k.width != 0 && k.width != own) return Bad("registers of different sizes");
    k.width = static_cast<uint8_t>(own);
  }
  if (k.width == 0) k.width = static_cast<uint8_t>(SizeOf(k.type));
  Type as = k.width == SizeOf(k.type) ? k.type : k.width == 2 ? Type::kB16 : k.width == 4 ? Type::kB32 : Type::kB64;
  std::vector<Slot> slots;
  for (const Operand* o : sources) {
    Slot slot;
    if (!ReadSlot(*o, as, slot)) return false;
    slots.push_back(slot);
  }
  if (k.vector > 1) {
    in.aux = static_cast<uint32_t>(module_.lists.size());
    module_.lists.insert(module_.lists.end(), slots.begin(), slots.end());
  } else {
    in.b = slots[0];
  }
  return EmitKey(in, k);
}

bool Decoder::DecodeAtom() { return Atomic(true); }
bool Decoder::DecodeRed() { return Atomic(false); }

bool Decoder::Atomic(bool result) {
  static constexpr std::pair<std::string_view, Op> kOps[] = {
      {"add", Op::kAtomAdd}, {"exch", Op::kAtomExch}, {"cas", Op::kAtomCas}, {"inc", Op::kAtomInc},
      {"dec", Op::kAtomDec}, {"min", Op::kAtomMin},   {"max", Op::kAtomMax}, {"and", Op::kAtomAnd},
      {"or", Op::kAtomOr},   {"xor", Op::kAtomXor}};
  if (Take("async")) return Missing();
  bool touch = false;
  Space space = TakeSpace(Space::kGeneric);
  TakeScopesAndCaches(touch);
  Key k{.op = Op::kMov};
  for (auto [name, op] : kOps) {
    if (Take(name)) k.op = op;
  }
  if (k.op == Op::kMov) return Missing();
  k.type = TakeType();
  if (!AllTaken()) return false;
  if (space != Space::kGeneric && space != Space::kGlobal && space != Space::kShared)
    return Bad("atomic operations are for global and shared memory");
  const size_t first = result ? 1 : 0;
  if (!Count(first + (k.op == Op::kAtomCas ? 3 : 2))) return false;
  Inst in;
  in.flags = kTouch;
  if (!Address(Arg(first), space, in) || !ReadSlot(Arg(first + 1), k.type, in.b)) return false;
  if (k.op == Op::kAtomCas && !ReadSlot(Arg(first + 2), k.type, in.c)) return false;
  if (result && Arg(0).kind != Operand::kSink && !WriteSlot(Arg(0), SizeOf(k.type), in.d)) return false;
  return EmitKey(in, k);
}

bool Decoder::DecodeCp() {
  if (!Take("async")) return Missing();
  if (Take("commit_group") || Take("wait_all")) return AllTaken() && Count(0) && Emit({}, &RunNothing);
  if (Take("wait_group")) return AllTaken() && Count(1) && Emit({}, &RunNothing);
  bool cg = Take("cg");
  if (!cg && !Take("ca")) return Missing();
  if (!Take("shared") && !Take("shared::cta")) return Missing();
  if (!Take("global")) return Missing();
  bool hint = Take("L2::cache_hint");
  Take("L2::64B");
  Take("L2::128B");
  Take("L2::256B");
  if (!AllTaken() || !Count(3, hint ? 5 : 4)) return false;
  if (Arg(2).kind != Operand::kInteger) return Bad("expected the number of bytes");
  int64_t bytes = Arg(2).value;
  if (bytes != 16 && (cg || (bytes != 4 && bytes != 8))) return Bad("expected 4, 8 or 16 bytes");
  Inst in, source;
  if (!Address(Arg(0), Space::kShared, in) || !Address(Arg(1), Space::kGlobal, source)) return false;
  if (source.flags & kNarrowAddress) return Bad("a global address has 64 bits");
  in.b = source.a;
  in.e = static_cast<uint32_t>(source.imm);
  in.aux = static_cast<uint32_t>(bytes);
  if (s_->operands.size() > 3 && !(hint && s_->operands.size() == 4)) {
    const Operand& o = Arg(3);
    if (o.kind == Operand::kRegister && f_->registers[static_cast<size_t>(o.reg)] == Type::kPred) {
      bool negated;
      if (!ReadPredicate(o, in.c, negated)) return false;
      if (negated) return Missing("with a negated predicate is not supported");
      in.flags |= kIgnorePredicate;
    } else if (!ReadSlot(o, Type::kU32, in.c)) {
      return false;
    }
  }
  return EmitKey(in, Key{.op = Op::kCopyAsync});
}

// ---- control flow ----
bool Decoder::DecodeBra() {
  Take("uni");
  if (!AllTaken() || !Count(1)) return false;
  if (Arg(0).kind != Operand::kName) return Bad("expected a label");
  int target = FindLabel(Arg(0).name);
  if (target < 0) return false;
  Inst in;
  in.handler = &RunBranch;
  if (s_->predicate >= 0) {
    in.handler = &RunBranchIf;
    in.predicate = fl_->registers[static_cast<size_t>(s_->predicate)] | (s_->predicate_negated ? 1u : 0u);
  }
  fixes_.push_back({module_.code.size(), target});
  module_.code.push_back(in);
  module_.lines.push_back(s_->line);
  return true;
}

bool Decoder::DecodeBrx() {
  if (!Take("idx")) return Missing();
  Take("uni");
  if (!AllTaken() || !Count(2)) return false;
  if (Arg(1).kind != Operand::kName) return Bad("expected a list of targets");
  const std::vector<std::string_view>* targets = FindScoped(f_->branch_targets, Arg(1).name);
  if (targets == nullptr) return Bad(Cat("unknown list of targets '", Arg(1).name, "'"));
  Inst in;
  if (!ReadSlot(Arg(0), Type::kU32, in.a)) return false;
  in.aux = static_cast<uint32_t>(module_.lists.size());
  in.imm = static_cast<int64_t>(targets->size());
  for (std::string_view name : *targets) {
    int target = FindLabel(name);
    if (target < 0) return false;
    table_fixes_.emplace_back(module_.lists.size(), target);
    module_.lists.push_back(0);
  }
  return Emit(in, &RunBranchIndexed, true);
}

bool Decoder::DecodeCall() {
  Take("uni");
  if (!AllTaken()) return false;
  size_t at = 0;
  const std::vector<Operand> none;
  const std::vector<Operand>*results = &none, *arguments = &none;
  if (at < s_->operands.size() && Arg(at).kind == Operand::kList) results = &Arg(at++).parts;
  if (at >= s_->operands.size()) return Bad("expected a function");
  const Operand& target = Arg(at++);
  if (at < s_->operands.size() && Arg(at).kind == Operand::kList) arguments = &Arg(at++).parts;
  CallSite site;
  const struct Function* callee = nullptr;
  const Prototype* prototype = nullptr;
  if (target.kind == Operand::kName) {
    static constexpr std::pair<std::string_view, Builtin> kBuiltins[] = {{"vprintf", Builtin::kPrintf},
                                                                         {"malloc", Builtin::kMalloc},
                                                                         {"free", Builtin::kFree},
                                                                         {"__assertfail", Builtin::kAssertFail}};
    site.function = FindFunction(syntax_, target.name);
    if (site.function < 0) return Bad(Cat("unknown function '", target.name, "'"));
    callee = &syntax_.functions[static_cast<size_t>(site.function)];
    if (callee->is_entry) return Bad("a kernel cannot be called");
    if (!callee->has_body) {
      for (auto [name, builtin] : kBuiltins) {
        if (callee->name == name) site.builtin = builtin;
      }
      if (site.builtin == Builtin::kNone) return Bad(Cat("function '", target.name, "' is declared but not defined"));
    }
  } else if (target.kind == Operand::kRegister) {
    if (!ReadSlot(target, Type::kU64, site.target)) return false;
    if (at >= s_->operands.size() || Arg(at).kind != Operand::kName) return Bad("an indirect call needs a prototype");
    prototype = FindScoped(f_->prototypes, Arg(at).name);
    if (prototype == nullptr && FindScoped(f_->branch_targets, Arg(at).name) != nullptr)
      return Missing("with a list of targets is not supported");
    if (prototype == nullptr) return Bad(Cat("unknown prototype '", Arg(at).name, "'"));
    ++at;
  } else {
    return Bad("expected a function");
  }
  if (at != s_->operands.size()) return Bad("too many operands");
  const size_t parameter_count = callee != nullptr ? callee->parameters.size() : prototype->parameters.size();
  const size_t result_count = callee != nullptr ? callee->results.size() : prototype->results.size();
  if (arguments->size() != parameter_count)
    return Bad(Cat("expected ", parameter_count, " arguments, found ", arguments->size()));
  if (results->size() > result_count) return Bad(Cat("expected ", result_count, " results, found ", results->size()));
  auto copy = [&](const Operand& o, Type type, bool write, std::vector<ArgumentCopy>& out) {
    ArgumentCopy a;
    if (o.kind == Operand::kVariable && (o.variable->space == Space::kParam || o.variable->space == Space::kLocal) &&
        fl_->stack.contains(o.variable)) {
      a.actual = OffsetOf(o.variable);
      a.actual_size = static_cast<uint32_t>(o.variable->size);
    } else {
      a.actual_is_register = true;
      a.actual_size = SizeOf(type);
      if (!(write ? WriteSlot(o, a.actual_size, a.actual) : ReadSlot(o, type, a.actual))) return false;
    }
    out.push_back(a);
    return true;
  };
  for (size_t i = 0; i < arguments->size(); ++i) {
    if (!copy((*arguments)[i], callee != nullptr ? callee->parameters[i]->type : prototype->parameters[i].type, false,
              site.arguments))
      return false;
  }
  for (size_t i = 0; i < results->size(); ++i) {
    if (!copy((*results)[i], callee != nullptr ? callee->results[i]->type : prototype->results[i].type, true,
              site.results))
      return false;
  }
  if (site.builtin == Builtin::kNone) module_.has_calls = true;
  Inst in;
  in.aux = static_cast<uint32_t>(module_.calls.size());
  module_.calls.push_back(std::move(site));
  return Emit(in, &RunCall, true);
}

bool Decoder::DecodeRet() {
  Take("uni");
  return AllTaken() && Count(0) && Emit({}, &RunReturn, true);
}
bool Decoder::DecodeExit() { return AllTaken() && Count(0) && Emit({}, &RunExit, true); }
bool Decoder::DecodeTrap() { return AllTaken() && Count(0) && Emit({}, &RunTrap, true); }

bool Decoder::DecodeBar() {
  bool long_name = base_ == "barrier";
  if (long_name && Take("cluster")) return Missing();
  Take("cta");
  Inst in;
  if (!long_name && Take("warp")) {
    if (!Take("sync") || !AllTaken() || !Count(1) || !ReadSlot(Arg(0), Type::kU32, in.e)) return false;
    return Emit(in, &RunSyncWarp, true);
  }
  BarrierKind kind;
  if (Take("sync")) {
    kind = BarrierKind::kSync;
  } else if (Take("arrive")) {
    kind = BarrierKind::kArrive;
  } else if (Take("red")) {
    kind = Take("popc") ? BarrierKind::kPopc : Take("and") ? BarrierKind::kAnd : BarrierKind::kOr;
    if (kind == BarrierKind::kOr && !Take("or")) return Bad("expected .popc, .and or .or");
  } else {
    return Missing();
  }
  Take("aligned");
  in.flags = static_cast<uint32_t>(kind);
  size_t at = 0;
  if (kind >= BarrierKind::kPopc) {
    Type type = TakeType();
    if (type != (kind == BarrierKind::kPopc ? Type::kU32 : Type::kPred))
      return Bad("expected .popc.u32, .and.pred or .or.pred");
    if (!AllTaken() || !Count(3, 4)) return false;
    if (kind == BarrierKind::kPopc) {
      if (!WriteSlot(Arg(0), 4, in.d)) return false;
    } else {
      if (!WritePredicate(Arg(0), in.d)) return false;
      if (in.d == kNoSlot) return Bad("expected a predicate register");
    }
    bool negated;
    if (!ReadPredicate(s_->operands.back(), in.c, negated)) return false;
    if (negated) in.flags |= kNegatedOperand;
    at = 1;
    if (s_->operands.size() == 4 && !ReadSlot(Arg(2), Type::kU32, in.b)) return false;
  } else {
    if (!AllTaken() || !Count(kind == BarrierKind::kArrive ? 2 : 1, 2)) return false;
    if (s_->operands.size() == 2 && !ReadSlot(Arg(1), Type::kU32, in.b)) return false;
  }
  if (!ReadSlot(Arg(at), Type::kU32, in.a)) return false;
  return Emit(in, &RunBarrier, true);
}

// ---- lanes together ----
bool Decoder::DecodeVote() {
  bool sync = Take("sync");
  VoteKind kind = Take("all")   ? VoteKind::kAll
                  : Take("any") ? VoteKind::kAny
                  : Take("uni") ? VoteKind::kUni
                                : VoteKind::kBallot;
  if (kind == VoteKind::kBallot && !Take("ballot")) return Bad("expected .all, .any, .uni or .ballot");
  Type type = TakeType();
  if (type != (kind == VoteKind::kBallot ? Type::kB32 : Type::kPred)) return Bad("wrong type");
  if (!sync) return Missing("without .sync is not supported by targets from sm_70");
  if (!AllTaken() || !Count(3)) return false;
  Inst in;
  in.flags = static_cast<uint32_t>(kind);
  bool negated;
  if (!ReadPredicate(Arg(1), in.a, negated) || !ReadSlot(Arg(2), Type::kU32, in.e)) return false;
  if (negated) in.flags |= kNegatedOperand;
  if (kind == VoteKind::kBallot) {
    if (!WriteSlot(Arg(0), 4, in.d)) return false;
  } else {
    if (!WritePredicate(Arg(0), in.d)) return false;
    if (in.d == kNoSlot) return Bad("expected a predicate register");
  }
  return Emit(in, &RunVote, true);
}

bool Decoder::DecodeShfl() {
  if (!Take("sync")) return Missing("without .sync is not supported by targets from sm_70");
  ShuffleKind kind = Take("up")     ? ShuffleKind::kUp
                     : Take("down") ? ShuffleKind::kDown
                     : Take("bfly") ? ShuffleKind::kBfly
                                    : ShuffleKind::kIdx;
  if (kind == ShuffleKind::kIdx && !Take("idx")) return Bad("expected .up, .down, .bfly or .idx");
  if (TakeType() != Type::kB32) return Bad("expected .b32");
  if (!AllTaken() || !Count(5)) return false;
  Inst in;
  in.flags = static_cast<uint32_t>(kind);
  const Operand* d = &Arg(0);
  if (d->kind == Operand::kPair) {
    Slot p;
    if (!WritePredicate(d->parts[1], p)) return false;
    if (p != kNoSlot) {
      in.imm = 1;
      in.aux = p;
    }
    d = &d->parts[0];
  }
  if (d->kind != Operand::kSink && !WriteSlot(*d, 4, in.d)) return false;
  if (!ReadSlot(Arg(1), Type::kB32, in.a) || !ReadSlot(Arg(2), Type::kU32, in.b) ||
      !ReadSlot(Arg(3), Type::kU32, in.c) || !ReadSlot(Arg(4), Type::kU32, in.e))
    return false;
  return Emit(in, &RunShuffle, true);
}

bool Decoder::DecodeMatch() {
  bool all = Take("all");
  if (!all && !Take("any")) return Bad("expected .any or .all");
  if (!Take("sync")) return Bad("expected .sync");
  Type type = TakeType();
  if (type != Type::kB32 && type != Type::kB64) return Bad("expected .b32 or .b64");
  if (!AllTaken() || !Count(3)) return false;
  Inst in;
  in.flags = (all ? kMatchAll : 0) | (type == Type::kB64 ? kMatchWide : 0);
  const Operand* d = &Arg(0);
  if (d->kind == Operand::kPair) {
    if (!all) return Bad("only match.all has a predicate");
    Slot p;
    if (!WritePredicate(d->parts[1], p)) return false;
    if (p != kNoSlot) {
      in.imm = 1;
      in.aux = p;
    }
    d = &d->parts[0];
  }
  if (d->kind == Operand::kSink && all) {
    in.d = kNoSlot;
  } else if (!WriteSlot(*d, 4, in.d)) {
    return false;
  }
  if (!ReadSlot(Arg(1), type, in.a) || !ReadSlot(Arg(2), Type::kU32, in.e)) return false;
  return Emit(in, &RunMatch, true);
}

bool Decoder::DecodeRedux() {
  if (!Take("sync")) return Bad("expected .sync");
  static constexpr std::string_view kNames[] = {"add", "min", "max", "and", "or", "xor"};
  int which = -1;
  for (int i = 0; i < 6; ++i) {
    if (Take(kNames[i])) which = i;
  }
  Type type = TakeType();
  if (which < 0) return Bad("expected an operation");
  if (!AllTaken() || !Count(3)) return false;
  const bool bits = which >= 3;
  if (bits ? type != Type::kB32 : (type != Type::kU32 && type != Type::kS32)) return Missing();
  ReduceKind kind = ReduceKind::kAddU;
  const bool s = type == Type::kS32;
  if (which == 1) kind = s ? ReduceKind::kMinS : ReduceKind::kMinU;
  if (which == 2) kind = s ? ReduceKind::kMaxS : ReduceKind::kMaxU;
  if (which == 3) kind = ReduceKind::kAnd;
  if (which == 4) kind = ReduceKind::kOr;
  if (which == 5) kind = ReduceKind::kXor;
  Inst in;
  in.flags = static_cast<uint32_t>(kind);
  if (!ReadSlot(Arg(1), type, in.a) || !ReadSlot(Arg(2), Type::kU32, in.e) || !WriteSlot(Arg(0), 4, in.d)) return false;
  return Emit(in, &RunReduce, true);
}

bool Decoder::DecodeActivemask() {
  if (TakeType() != Type::kB32) return Bad("expected .b32");
  if (!AllTaken() || !Count(1)) return false;
  Inst in;
  if (!WriteSlot(Arg(0), 4, in.d)) return false;
  return Emit(in, &RunActiveMask);
}

bool Decoder::DecodeElect() {
  if (!Take("sync") || !AllTaken() || !Count(2)) return Bad("expected elect.sync d|p, mask");
  if (Arg(0).kind != Operand::kPair) return Bad("expected a register and a predicate");
  Inst in;
  if (Arg(0).parts[0].kind != Operand::kSink && !WriteSlot(Arg(0).parts[0], 4, in.d)) return false;
  if (!WritePredicate(Arg(0).parts[1], in.aux) || !ReadSlot(Arg(1), Type::kU32, in.e)) return false;
  if (in.aux == kNoSlot) return Bad("expected a predicate");
  return Emit(in, &RunElect, true);
}

// ---- ordering and hints ----
bool Decoder::DecodeFence() {
  static constexpr std::string_view kKinds[] = {"cta", "cluster", "gpu",     "gl",     "sys",
                                                "sc",  "acq_rel", "acquire", "release"};
  for (std::string_view kind : kKinds) Take(kind);
  if (Take("proxy")) {
    Take("alias");
    Take("async");
    Take("async::global");
    Take("async::shared::cta");
  }
  return AllTaken() && Count(0) && Emit({}, &RunFence);
}

bool Decoder::DecodeNanosleep() {
  if (TakeType() != Type::kU32) return Bad("expected .u32");
  Inst in;
  if (!AllTaken() || !Count(1) || !ReadSlot(Arg(0), Type::kU32, in.a)) return false;
  return Emit(in, &RunPause);
}

bool Decoder::DecodeHint() { return Emit({}, &RunNothing); }

}  // namespace tf::simgpu::ptx
