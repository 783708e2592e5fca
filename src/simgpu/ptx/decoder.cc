#include "simgpu/ptx/decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "simgpu/ptx/block.h"
#include "simgpu/ptx/exec/flags.h"
#include "simgpu/ptx/text.h"

namespace tf::simgpu::ptx {
namespace {

int SizeClass(uint32_t size) { return std::countr_zero(size); }

uint64_t Truncate(uint64_t bits, uint32_t size) { return size >= 8 ? bits : bits & ((uint64_t{1} << (8 * size)) - 1); }

struct SpecialName {
  std::string_view name;
  size_t offset;
  uint32_t size;
};

#define TF_SPECIAL(field) offsetof(Specials, field)
constexpr SpecialName kSpecialNames[] = {
    {"%tid.x", TF_SPECIAL(tid[0]), 4},
    {"%tid.y", TF_SPECIAL(tid[1]), 4},
    {"%tid.z", TF_SPECIAL(tid[2]), 4},
    {"%ntid.x", TF_SPECIAL(ntid[0]), 4},
    {"%ntid.y", TF_SPECIAL(ntid[1]), 4},
    {"%ntid.z", TF_SPECIAL(ntid[2]), 4},
    {"%ctaid.x", TF_SPECIAL(ctaid[0]), 4},
    {"%ctaid.y", TF_SPECIAL(ctaid[1]), 4},
    {"%ctaid.z", TF_SPECIAL(ctaid[2]), 4},
    {"%nctaid.x", TF_SPECIAL(nctaid[0]), 4},
    {"%nctaid.y", TF_SPECIAL(nctaid[1]), 4},
    {"%nctaid.z", TF_SPECIAL(nctaid[2]), 4},
    {"%laneid", TF_SPECIAL(laneid), 4},
    {"%warpid", TF_SPECIAL(warpid), 4},
    {"%nwarpid", TF_SPECIAL(nwarpid), 4},
    {"%smid", TF_SPECIAL(smid), 4},
    {"%nsmid", TF_SPECIAL(nsmid), 4},
    {"%lanemask_eq", TF_SPECIAL(lanemask_eq), 4},
    {"%lanemask_le", TF_SPECIAL(lanemask_le), 4},
    {"%lanemask_lt", TF_SPECIAL(lanemask_lt), 4},
    {"%lanemask_ge", TF_SPECIAL(lanemask_ge), 4},
    {"%lanemask_gt", TF_SPECIAL(lanemask_gt), 4},
    {"%dynamic_smem_size", TF_SPECIAL(dynamic_shared_size), 4},
    {"%total_smem_size", TF_SPECIAL(total_shared_size), 4},
    {"%aggr_smem_size", TF_SPECIAL(aggregate_shared_size), 4},
    {"%gridid", TF_SPECIAL(gridid), 8},
};

struct ClockName {
  std::string_view name;
  uint32_t flag;
  uint32_t size;
};
constexpr ClockName kClockNames[] = {{"%clock", 0, 4},       {"%clock_hi", 1, 4},       {"%clock64", 2, 8},
                                     {"%globaltimer", 3, 8}, {"%globaltimer_lo", 4, 4}, {"%globaltimer_hi", 5, 4}};

}  // namespace

// ---- constants ----
uint32_t ConstantPool::Grow(uint32_t bytes) {
  size_t at = (bytes_.size() + 63) / 64 * 64;
  bytes_.resize(at + bytes);
  return static_cast<uint32_t>(at);
}

Slot ConstantPool::Value(uint32_t size, uint64_t bits) {
  bits = Truncate(bits, size);
  auto [it, fresh] = values_[SizeClass(size)].emplace(bits, kNoSlot);
  if (fresh) {
    uint32_t at = Grow(size * kLanes);
    for (uint32_t i = 0; i < kLanes; ++i) std::memcpy(bytes_.data() + at + i * size, &bits, std::min(size, 8u));
    it->second = MakeSlot(kConstants, at);
  }
  return it->second;
}

Slot ConstantPool::Predicate(bool value) {
  Slot& slot = predicates_[value];
  if (slot == kNoSlot) {
    uint32_t at = Grow(4);
    std::memset(bytes_.data() + at, value ? 0xff : 0, 4);
    slot = MakeSlot(kConstants, at);
  }
  return slot;
}

Slot ConstantPool::Global(int global, int64_t addend) {
  for (const ConstantFixup& f : fixups_) {
    if (f.global == global && f.addend == addend) return MakeSlot(kConstants, f.offset);
  }
  uint32_t at = Grow(8 * kLanes);
  fixups_.push_back({at, global, addend});
  return MakeSlot(kConstants, at);
}

void ConstantPool::Finish(Module& module) {
  module.constants.assign(bytes_.size() + 64, 0);
  if (!bytes_.empty()) std::memcpy(module.constants_base(), bytes_.data(), bytes_.size());
  module.fixups = fixups_;
}

// ---- errors ----
bool Decoder::Bad(std::string_view what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(Cat("PTX line ", s_->line, ": '", s_->opcode, "': ", what));
  return false;
}
bool Decoder::Missing(std::string_view what) {
  if (status_.ok())
    status_ = absl::UnimplementedError(Cat("PTX line ", s_->line, ": opcode '", s_->opcode, "' ", what));
  return false;
}

// ---- modifiers ----
bool Decoder::Take(std::string_view modifier) {
  for (auto& [text, taken] : modifiers_) {
    if (!taken && text == modifier) return taken = true;
  }
  return false;
}

Type Decoder::TakeType() {
  for (auto& [text, taken] : modifiers_) {
    if (taken) continue;
    Type type = TypeByName(text);
    if (type == Type::kNone) continue;
    taken = true;
    return type;
  }
  return Type::kNone;
}

Rounding Decoder::TakeRounding(bool& to_integer) {
  to_integer = false;
  if (Take("rn")) return Rounding::kRn;
  if (Take("rz")) return Rounding::kRz;
  if (Take("rm")) return Rounding::kRm;
  if (Take("rp")) return Rounding::kRp;
  if (Take("rna")) return Rounding::kRna;
  to_integer = true;
  if (Take("rni")) return Rounding::kRn;
  if (Take("rzi")) return Rounding::kRz;
  if (Take("rmi")) return Rounding::kRm;
  if (Take("rpi")) return Rounding::kRp;
  to_integer = false;
  return Rounding::kNone;
}

bool Decoder::TakeCompare(Compare& compare) {
  static constexpr std::pair<std::string_view, Compare> kNames[] = {
      {"eq", Compare::kEq},   {"ne", Compare::kNe},   {"lt", Compare::kLt},   {"le", Compare::kLe},
      {"gt", Compare::kGt},   {"ge", Compare::kGe},   {"lo", Compare::kLo},   {"ls", Compare::kLs},
      {"hi", Compare::kHi},   {"hs", Compare::kHs},   {"equ", Compare::kEqu}, {"neu", Compare::kNeu},
      {"ltu", Compare::kLtu}, {"leu", Compare::kLeu}, {"gtu", Compare::kGtu}, {"geu", Compare::kGeu},
      {"num", Compare::kNum}, {"nan", Compare::kNan}};
  for (auto [name, value] : kNames) {
    if (Take(name)) {
      compare = value;
      return true;
    }
  }
  return Bad("no comparison");
}

bool Decoder::AllTaken() {
  for (auto& [text, taken] : modifiers_) {
    if (!taken) return Missing(Cat("with modifier '.", text, "' is not supported"));
  }
  return true;
}

void Decoder::TakeScopesAndCaches(bool& touch) {
  for (auto& [text, taken] : modifiers_) {
    if (taken) continue;
    static constexpr std::string_view kTouching[] = {"volatile", "relaxed", "acquire", "release",
                                                     "acq_rel",  "mmio",    "sc"};
    static constexpr std::string_view kIgnored[] = {"weak", "cta", "cluster", "gpu", "sys", "ca",      "cg",   "cs",
                                                    "lu",   "cv",  "wb",      "wt",  "nc",  "unified", "noftz"};
    if (std::find(std::begin(kTouching), std::end(kTouching), text) != std::end(kTouching)) touch = taken = true;
    if (std::find(std::begin(kIgnored), std::end(kIgnored), text) != std::end(kIgnored)) taken = true;
    if (text.substr(0, 4) == "L1::" || text.substr(0, 4) == "L2::" || text.substr(0, 7) == "level::") taken = true;
  }
}

Space Decoder::TakeSpace(Space otherwise) {
  if (Take("global")) return Space::kGlobal;
  if (Take("const")) return Space::kConst;
  if (Take("shared") || Take("shared::cta")) return Space::kShared;
  if (Take("local")) return Space::kLocal;
  if (Take("param") || Take("param::entry") || Take("param::func")) return Space::kParam;
  return otherwise;
}

// ---- operands ----
bool Decoder::Count(size_t least, size_t most) {
  size_t n = s_->operands.size();
  if (n < least || n > most)
    return Bad(Cat("expected ", least, least == most ? "" : Cat(" to ", most), " operands, found ", n));
  return true;
}

Slot Decoder::Temporary(uint32_t size) {
  auto k = static_cast<size_t>(SizeClass(size));
  if (used_temporaries_[k] == temporaries_[k].size()) {
    register_bytes_ = (register_bytes_ + 63) / 64 * 64;
    temporaries_[k].push_back(MakeSlot(kRegisters, register_bytes_));
    register_bytes_ += size * kLanes;
  }
  return temporaries_[k][used_temporaries_[k]++];
}

Slot Decoder::CarrySlot() {
  if (carry_ == kNoSlot) {
    register_bytes_ = (register_bytes_ + 63) / 64 * 64;
    carry_ = MakeSlot(kRegisters, register_bytes_);
    register_bytes_ += 64;
  }
  return carry_;
}

bool Decoder::RegisterSize(const Operand& o, uint32_t& size) {
  if (o.kind != Operand::kRegister) return Bad("expected a register");
  if (f_->registers[static_cast<size_t>(o.reg)] == Type::kPred) return Bad(Cat("'", o.name, "' is a predicate"));
  size = SizeOf(f_->registers[static_cast<size_t>(o.reg)]);
  return true;
}

bool Decoder::SpecialSlot(const Operand& o, Type type, Slot& slot) {
  const uint32_t size = SizeOf(type);
  uint32_t own = 0;
  for (const SpecialName& special : kSpecialNames) {
    if (special.name == o.name) {
      own = special.size;
      slot = MakeSlot(kSpecials, static_cast<uint32_t>(special.offset));
    }
  }
  if (own == 0) {
    for (const ClockName& clock : kClockNames) {
      if (clock.name != o.name) continue;
      own = clock.size;
      Inst in;
      in.d = slot = Temporary(own);
      in.flags = clock.flag;
      if (!EmitKey(in, Key{.op = Op::kClock})) return false;
    }
  }
  if (own == 0 && o.name.substr(0, 7) == "%envreg") {
    own = 4;
    slot = constants_.Value(4, 0);
  }
  if (own == 0)
    return Missing(Cat("uses '", o.name, "', which is no declared register and no special register of the simulator"));
  if (own == size) return true;
  Inst in;
  in.a = slot;
  in.d = slot = Temporary(size);
  if (size < own) return EmitKey(in, Key{.op = Op::kNarrow, .type = type, .width = static_cast<uint8_t>(own)});
  return EmitKey(in, Key{.op = Op::kCvt, .type = Type::kU64, .source = Type::kU32});
}

uint32_t Decoder::OffsetOf(const Variable* v) const {
  auto it = fl_->stack.find(v);
  return it == fl_->stack.end() ? 0 : it->second;
}

// The address of a variable or function, as mov gives it.
bool Decoder::SymbolValue(const Operand& o, Type type, Slot& slot) {
  const uint32_t size = SizeOf(type);
  if (size != 4 && size != 8) return Bad("an address needs 32 or 64 bits");
  if (o.kind == Operand::kName) {
    int index = FindFunction(syntax_, o.name);
    if (index < 0) return Bad(Cat("unknown name '", o.name, "'"));
    slot = constants_.Value(size, kCodeWindow + static_cast<uint64_t>(index));
    return true;
  }
  const Variable* v = o.variable;
  switch (v->space) {
    case Space::kShared:
      if (v->is_extern) {
        slot = MakeSlot(kSpecials, static_cast<uint32_t>(size == 8 ? offsetof(Specials, dynamic_shared_base64)
                                                                   : offsetof(Specials, dynamic_shared_base)));
        if (o.value == 0) return true;
        Inst in;
        in.a = slot;
        in.d = slot = Temporary(size);
        in.imm = o.value;
        return EmitKey(in, Key{.op = Op::kOffset, .type = type});
      }
      slot = constants_.Value(size, layout_.shared.at(v) + static_cast<uint64_t>(o.value));
      return true;
    case Space::kLocal:
    case Space::kParam: {
      if (auto it = fl_->parameters.find(v); it != fl_->parameters.end()) {
        slot = constants_.Value(size, it->second + static_cast<uint64_t>(o.value));
        return true;
      }
      Inst in;
      in.a = MakeSlot(kSpecials, static_cast<uint32_t>(offsetof(Specials, frame_base)));
      in.d = slot = Temporary(8);
      in.imm = static_cast<int64_t>(OffsetOf(v)) + o.value;
      if (!EmitKey(in, Key{.op = Op::kOffset, .type = Type::kU64})) return false;
      if (size == 8) return true;
      in.a = slot;
      in.d = slot = Temporary(4);
      return EmitKey(in, Key{.op = Op::kNarrow, .type = Type::kU32, .width = 8});
    }
    default: {
      auto it = layout_.globals.find(v->name);
      if (it == layout_.globals.end()) return Bad(Cat("'", v->name, "' is declared but not defined"));
      slot = constants_.Global(it->second, o.value);
      if (size == 8) return true;
      Inst in;
      in.a = slot;
      in.d = slot = Temporary(4);
      return EmitKey(in, Key{.op = Op::kNarrow, .type = Type::kU32, .width = 8});
    }
  }
}

bool Decoder::ReadSlot(const Operand& o, Type type, Slot& slot) {
  const uint32_t size = SizeOf(type);
  switch (o.kind) {
    case Operand::kRegister: {
      uint32_t own;
      if (!RegisterSize(o, own)) return false;
      if (own != size) return Bad(Cat("register '", o.name, "' has ", own * 8, " bits, expected ", size * 8));
      if (o.negated) return Bad("a register cannot be negated here");
      slot = fl_->registers[static_cast<size_t>(o.reg)];
      return true;
    }
    case Operand::kInteger: {
      auto bits = static_cast<uint64_t>(o.value);
      if (type == Type::kF32) bits = std::bit_cast<uint32_t>(static_cast<float>(o.value));
      if (type == Type::kF64) bits = std::bit_cast<uint64_t>(static_cast<double>(o.value));
      slot = constants_.Value(size, bits);
      return true;
    }
    case Operand::kFloat: {
      uint64_t bits = o.bits;
      bool single = type == Type::kF32 || (type == Type::kB32 && o.float_bits == 64);
      if (single && o.float_bits == 64) bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
      if (type == Type::kF64 && o.float_bits == 32)
        bits = std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
      if (size < 4) return Bad("a floating-point constant of 16 bits is written as an integer");
      slot = constants_.Value(size, bits);
      return true;
    }
    case Operand::kSpecial:
      return SpecialSlot(o, type, slot);
    case Operand::kVariable:
    case Operand::kName:
      return SymbolValue(o, type, slot);
    default:
      return Bad("expected a register or a constant");
  }
}

bool Decoder::ReadNarrow(const Operand& o, Type type, Slot& slot) {
  if (o.kind != Operand::kRegister) return ReadSlot(o, type, slot);
  uint32_t own;
  if (!RegisterSize(o, own)) return false;
  if (own == SizeOf(type)) return ReadSlot(o, type, slot);
  if (own < SizeOf(type))
    return Bad(Cat("register '", o.name, "' has only ", own * 8, " bits, expected ", SizeOf(type) * 8));
  Inst in;
  in.a = fl_->registers[static_cast<size_t>(o.reg)];
  in.d = slot = Temporary(SizeOf(type));
  return EmitKey(in, Key{.op = Op::kNarrow, .type = type, .width = static_cast<uint8_t>(own)});
}

bool Decoder::ReadPredicate(const Operand& o, Slot& slot, bool& negated) {
  negated = o.negated;
  if (o.kind == Operand::kInteger) {
    slot = constants_.Predicate(o.value != 0);
    return true;
  }
  if (o.kind == Operand::kSpecial && (o.name == "%pt" || o.name == "%PT")) {
    slot = constants_.Predicate(true);
    return true;
  }
  if (o.kind != Operand::kRegister || f_->registers[static_cast<size_t>(o.reg)] != Type::kPred)
    return Bad("expected a predicate");
  slot = fl_->registers[static_cast<size_t>(o.reg)];
  return true;
}

bool Decoder::WritePredicate(const Operand& o, Slot& slot) {
  if (o.kind == Operand::kSink) {
    slot = kNoSlot;
    return true;
  }
  bool negated;
  if (o.kind != Operand::kRegister) return Bad("expected a predicate register");
  if (!ReadPredicate(o, slot, negated)) return false;
  return !negated || Bad("a result cannot be negated");
}

bool Decoder::WriteSlot(const Operand& o, uint32_t size, Slot& slot) {
  if (o.kind == Operand::kSink) {
    slot = Temporary(size);
    return true;
  }
  uint32_t own;
  if (!RegisterSize(o, own)) return false;
  if (own != size) return Bad(Cat("register '", o.name, "' has ", own * 8, " bits, expected ", size * 8));
  slot = fl_->registers[static_cast<size_t>(o.reg)];
  return true;
}

// [base + offset]: fills a, imm and the address flags.
bool Decoder::Address(const Operand& o, Space space, Inst& in) {
  if (o.kind != Operand::kAddress || o.parts.size() != 1) return Bad("expected an address in brackets");
  const Operand& base = o.parts[0];
  in.imm = o.value;
  in.flags |= static_cast<uint32_t>(space);
  switch (base.kind) {
    case Operand::kRegister: {
      uint32_t size;
      if (!RegisterSize(base, size)) return false;
      if (size != 4 && size != 8) return Bad("an address register has 32 or 64 bits");
      in.a = fl_->registers[static_cast<size_t>(base.reg)];
      if (size == 4) in.flags |= kNarrowAddress;
      return true;
    }
    case Operand::kInteger:
      in.a = MakeSlot(kSpecials, static_cast<uint32_t>(offsetof(Specials, zero)));
      in.imm = base.value;
      return true;
    case Operand::kVariable: {
      const Variable* v = base.variable;
      switch (v->space) {
        case Space::kShared:
          if (space != Space::kShared && space != Space::kGeneric)
            return Bad(Cat("'", v->name, "' lies in shared memory"));
          in.flags = (in.flags & ~kSpaceMask) | static_cast<uint32_t>(Space::kShared);
          if (v->is_extern) {
            in.a = MakeSlot(kSpecials, static_cast<uint32_t>(offsetof(Specials, dynamic_shared_base64)));
          } else {
            in.a = MakeSlot(kSpecials, static_cast<uint32_t>(offsetof(Specials, zero)));
            in.imm += layout_.shared.at(v);
          }
          return true;
        case Space::kLocal:
        case Space::kParam:
          if (space != v->space && space != Space::kGeneric)
            return Bad(Cat("'", v->name, "' lies in another state space"));
          if (auto it = fl_->parameters.find(v); it != fl_->parameters.end()) {
            in.flags = (in.flags & ~kSpaceMask) | static_cast<uint32_t>(Space::kParam);
            in.a = MakeSlot(kSpecials, static_cast<uint32_t>(offsetof(Specials, zero)));
            in.imm += it->second;
            return true;
          }
          in.flags = (in.flags & ~kSpaceMask) | static_cast<uint32_t>(Space::kLocal);
          in.a = MakeSlot(kSpecials, static_cast<uint32_t>(offsetof(Specials, frame_base)));
          in.imm += OffsetOf(v);
          return true;
        default: {
          auto it = layout_.globals.find(v->name);
          if (it == layout_.globals.end()) return Bad(Cat("'", v->name, "' is declared but not defined"));
          in.a = constants_.Global(it->second, 0);
          return true;
        }
      }
    }
    default:
      return Bad(Cat("'", base.name, "' cannot be an address"));
  }
}

// ---- output ----
bool Decoder::Emit(Inst in, Handler handler, bool splits) {
  in.handler = handler;
  if (s_->predicate >= 0) {
    in.inner = handler;
    in.handler = splits ? &RunPredicatedSplit : &RunPredicated;
    in.predicate = fl_->registers[static_cast<size_t>(s_->predicate)] | (s_->predicate_negated ? 1u : 0u);
  }
  module_.code.push_back(in);
  module_.lines.push_back(s_->line);
  return true;
}

bool Decoder::EmitKey(Inst in, const Key& key) {
  Handler handler = Find(key, !plain_only_);
  if (handler == nullptr) return Missing();
  return Emit(in, handler);
}

int Decoder::FindLabel(std::string_view name) {
  const int* target = FindScoped(f_->labels, name);
  if (target == nullptr) {
    Bad(Cat("unknown label '", name, "'"));
    return -1;
  }
  return *target;
}

bool Decoder::Decode(const Statement& s) {
  s_ = &s;
  modifiers_.clear();
  std::fill(std::begin(used_temporaries_), std::end(used_temporaries_), 0);
  std::string_view rest = s.opcode;
  size_t dot = rest.find('.');
  base_ = rest.substr(0, dot);
  while (dot != std::string_view::npos) {
    rest.remove_prefix(dot + 1);
    dot = rest.find('.');
    modifiers_.emplace_back(rest.substr(0, dot), false);
  }
  auto method = Methods().find(base_);
  if (method == Methods().end()) return Missing();
  return (this->*method->second)();
}

absl::Status Decoder::Function(int index) {
  const struct Function& f = syntax_.functions[static_cast<size_t>(index)];
  FunctionCode& code = module_.functions[static_cast<size_t>(index)];
  f_ = &f;
  fl_ = &layout_.functions[static_cast<size_t>(index)];
  code.name = index;
  code.register_bytes = fl_->register_bytes;
  code.predicate_bytes = fl_->predicate_bytes;
  code.first_register = fl_->first_register;
  std::copy(std::begin(fl_->register_counts), std::end(fl_->register_counts), code.register_counts);
  code.stack_bytes = fl_->stack_bytes;
  auto formal = [&](const Variable* v) {
    return v->is_register ? FormalParameter{true, fl_->registers[static_cast<size_t>(v->reg)], SizeOf(v->type)}
                          : FormalParameter{false, OffsetOf(v), static_cast<uint32_t>(v->size)};
  };
  if (!f.is_entry) {
    for (const Variable* v : f.parameters) code.parameters.push_back(formal(v));
    for (const Variable* v : f.results) code.results.push_back(formal(v));
  }
  if (!f.has_body) return absl::OkStatus();

  code.entry = static_cast<int>(module_.code.size());
  register_bytes_ = fl_->register_bytes;
  for (auto& t : temporaries_) t.clear();
  carry_ = kNoSlot;
  fixes_.clear();
  table_fixes_.clear();
  std::vector<size_t> first(f.statements.size() + 1);
  for (size_t i = 0; i < f.statements.size(); ++i) {
    first[i] = module_.code.size();
    if (!Decode(f.statements[i])) return status_;
  }
  first[f.statements.size()] = module_.code.size();
  // Control that reaches the end returns.
  Inst end;
  end.handler = &RunReturn;
  module_.code.push_back(end);
  module_.lines.push_back(f.statements.empty() ? f.line : f.statements.back().line);
  for (const Fix& fix : fixes_)
    module_.code[fix.inst].aux = static_cast<uint32_t>(first[static_cast<size_t>(fix.statement)]);
  for (auto [at, statement] : table_fixes_)
    module_.lists[at] = static_cast<uint32_t>(first[static_cast<size_t>(statement)]);
  code.register_bytes = register_bytes_;
  return absl::OkStatus();
}

absl::Status Decoder::Run() {
  module_.functions.resize(syntax_.functions.size());
  for (size_t i = 0; i < syntax_.functions.size(); ++i) {
    module_.function_names.push_back(syntax_.functions[i].name);
    absl::Status status = Function(static_cast<int>(i));
    if (!status.ok()) return status;
  }
  constants_.Finish(module_);
  return absl::OkStatus();
}

}  // namespace tf::simgpu::ptx
