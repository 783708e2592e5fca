// Turns the instructions of a parsed function into the decoded form.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "simgpu/ptx/exec/find.h"
#include "simgpu/ptx/layout.h"
#include "simgpu/ptx/syntax.h"
#include "simgpu/ptx/warp.h"

namespace tf::simgpu::ptx {

// The constants of a module while it grows: every value once, in all 32 lanes.
class ConstantPool {
 public:
  Slot Value(uint32_t size, uint64_t bits);  // size 1, 2, 4, 8, or 16 (upper half zero)
  Slot Predicate(bool value);
  Slot Global(int global, int64_t addend);  // 8 bytes, filled by Bind
  // Moves everything into the module.
  void Finish(Module& module);

 private:
  uint32_t Grow(uint32_t bytes);

  std::vector<uint8_t> bytes_;
  std::unordered_map<uint64_t, Slot> values_[5];
  Slot predicates_[2] = {kNoSlot, kNoSlot};
  std::vector<ConstantFixup> fixups_;
};

class Decoder {
 public:
  // `plain_only`: without the handlers for AVX2 (for tests that compare the two).
  Decoder(const Syntax& syntax, const Layout& layout, Module& module, bool plain_only)
      : syntax_(syntax), layout_(layout), module_(module), plain_only_(plain_only) {}
  absl::Status Run();

 private:
  using Method = bool (Decoder::*)();
  struct Fix {
    size_t inst;
    int statement;  // where the branch goes
  };

  absl::Status Function(int index);
  bool Decode(const Statement& s);
  static const std::unordered_map<std::string_view, Method>& Methods();

  // ---- errors ----
  bool Bad(std::string_view what);                           // malformed
  bool Missing(std::string_view what = "is not supported");  // not supported

  // ---- modifiers of the opcode ----
  bool Take(std::string_view modifier);
  Type TakeType();
  Rounding TakeRounding(bool& to_integer);
  bool TakeCompare(Compare& compare);
  bool AllTaken();
  void TakeScopesAndCaches(bool& touch);
  Space TakeSpace(Space otherwise);

  // ---- operands ----
  bool Count(size_t least, size_t most);
  bool Count(size_t n) { return Count(n, n); }
  const Operand& Arg(size_t i) const { return s_->operands[i]; }
  bool ReadSlot(const Operand& o, Type type, Slot& slot);    // exactly as wide as the type
  bool ReadNarrow(const Operand& o, Type type, Slot& slot);  // or wider: the low part
  bool ReadPredicate(const Operand& o, Slot& slot, bool& negated);
  bool WriteSlot(const Operand& o, uint32_t size, Slot& slot);
  bool WritePredicate(const Operand& o, Slot& slot);
  bool RegisterSize(const Operand& o, uint32_t& size);
  bool SpecialSlot(const Operand& o, Type type, Slot& slot);
  bool SymbolValue(const Operand& o, Type type, Slot& slot);
  bool Address(const Operand& o, Space space, Inst& in);
  uint32_t OffsetOf(const Variable* v) const;
  Slot Temporary(uint32_t size);
  Slot CarrySlot();

  // ---- output ----
  bool Emit(Inst in, Handler handler, bool splits = false);
  bool EmitKey(Inst in, const Key& key);
  int FindLabel(std::string_view name);
  // In the scope of the statement or one around it.
  template <typename Map>
  const typename Map::mapped_type* FindScoped(const Map& map, std::string_view name) const {
    for (int scope = s_->scope; scope >= 0; scope = f_->scope_parents[static_cast<size_t>(scope)]) {
      if (auto it = map.find({scope, name}); it != map.end()) return &it->second;
    }
    return nullptr;
  }

  // ---- opcodes ----
  bool Binary(Op op);
  bool DecodeAdd();
  bool DecodeSub();
  bool AddSub(bool sub);
  bool DecodeAddc();
  bool DecodeSubc();
  bool Carry(Op op, bool reads, bool writes);
  bool DecodeMul();
  bool DecodeMad();
  bool DecodeMadc();
  bool MadCarry(bool reads, bool writes);
  bool DecodeMul24();
  bool DecodeMad24();
  bool DecodeFma();
  bool DecodeSad();
  bool DecodeDiv();
  bool DecodeRem();
  bool DecodeAbs();
  bool DecodeNeg();
  bool DecodeMin();
  bool DecodeMax();
  bool Unary(Op op);
  bool DecodeRcp();
  bool DecodeSqrt();
  bool DecodeRsqrt();
  bool DecodeSin();
  bool DecodeCos();
  bool DecodeEx2();
  bool DecodeLg2();
  bool DecodeTanh();
  bool DecodeCopysign();
  bool DecodeTestp();
  bool Logic(Op op, Op predicate_op);
  bool DecodeAnd();
  bool DecodeOr();
  bool DecodeXor();
  bool DecodeNot();
  bool DecodeCnot();
  bool DecodeLop3();
  bool Shift(Op op);
  bool DecodeShl();
  bool DecodeShr();
  bool DecodeShf();
  bool DecodePrmt();
  bool DecodeBfe();
  bool DecodeBfi();
  bool DecodeBfind();
  bool DecodeBrev();
  bool DecodeClz();
  bool DecodePopc();
  bool Bits(Op op, bool result32);
  bool DecodeBmsk();
  bool DecodeSzext();
  bool DecodeFns();
  bool DecodeDp4a();
  bool DecodeDp2a();
  bool DecodeVideo();
  bool DecodeSetp();
  bool DecodeSet();
  bool DecodeSelp();
  bool DecodeSlct();
  bool DecodeMov();
  bool DecodeCvt();
  bool DecodeCvta();
  bool DecodeIsspacep();
  bool DecodeLd();
  bool DecodeSt();
  bool DecodeAtom();
  bool DecodeRed();
  bool Atomic(bool result);
  bool DecodeBra();
  bool DecodeBrx();
  bool DecodeCall();
  bool DecodeRet();
  bool DecodeExit();
  bool DecodeTrap();
  bool DecodeBar();
  bool DecodeVote();
  bool DecodeShfl();
  bool DecodeMatch();
  bool DecodeRedux();
  bool DecodeActivemask();
  bool DecodeElect();
  bool DecodeFence();
  bool DecodeNanosleep();
  bool DecodeHint();
  bool DecodeCp();

  const Syntax& syntax_;
  const Layout& layout_;
  Module& module_;
  bool plain_only_;
  ConstantPool constants_;
  absl::Status status_;

  const struct Function* f_ = nullptr;  // the one at work
  const FunctionLayout* fl_ = nullptr;
  const Statement* s_ = nullptr;
  std::string_view base_;  // the opcode without modifiers
  std::vector<std::pair<std::string_view, bool>> modifiers_;
  std::vector<Fix> fixes_;
  std::vector<std::pair<size_t, int>> table_fixes_;  // entries of Module::lists that are branch targets
  uint32_t register_bytes_ = 0;
  std::vector<Slot> temporaries_[5];
  size_t used_temporaries_[5] = {};
  Slot carry_ = kNoSlot;
};

}  // namespace tf::simgpu::ptx
