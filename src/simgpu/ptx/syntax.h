// What the parser makes of PTX text: declarations and instructions with their names resolved to registers and
// variables. The views point into the text.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simgpu/ptx/program.h"
#include "simgpu/ptx/type.h"

namespace tf::simgpu::ptx {

struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  Type type = Type::kNone;
  uint64_t size = 0;
  uint64_t alignment = 1;
  bool is_extern = false;  // for .shared: the dynamic part
  bool visible = false;
  bool is_register = false;  // a parameter declared .reg
  int reg = -1;
  int line = 0;
  std::string initial;
  std::vector<GlobalVariable::Relocation> relocations;
};

struct Operand {
  enum Kind {
    kRegister,  // reg
    kSpecial,   // name: a word that starts with % and is no declared register
    kVariable,  // variable, offset
    kName,      // a label, function or prototype, looked up when all are known; offset
    kInteger,   // value
    kFloat,     // bits, float_bits
    kVector,    // parts
    kAddress,   // parts[0] is the base (register, variable, name or integer), offset
    kPair,      // parts[0] | parts[1]
    kList,      // parenthesised arguments of a call: parts
    kSink,      // _
  };
  Kind kind = kSink;
  bool negated = false;  // !p, or -r
  int reg = -1;
  const Variable* variable = nullptr;
  std::string_view name;
  int64_t value = 0;  // integer, or offset
  uint64_t bits = 0;
  int float_bits = 0;
  std::vector<Operand> parts;
};

struct Statement {
  int line = 0;
  int scope = 0;
  int predicate = -1;  // register
  bool predicate_negated = false;
  std::string_view opcode;  // with all modifiers
  std::vector<Operand> operands;
};

struct Prototype {
  std::vector<Variable> results, parameters;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool has_body = false;
  int line = 0;
  std::vector<const Variable*> results, parameters;
  std::vector<Type> registers;
  std::vector<const Variable*> locals;  // .local and .param variables of the body
  std::vector<Statement> statements;
  std::vector<int> scope_parents;                          // -1 for the outermost
  std::map<std::pair<int, std::string_view>, int> labels;  // (scope, name) -> index of the next statement
  std::map<std::pair<int, std::string_view>, Prototype> prototypes;
  std::map<std::pair<int, std::string_view>, std::vector<std::string_view>> branch_targets;
  uint32_t max_threads = 1024;
  std::array<uint32_t, 3> required_block{0, 0, 0};
};

struct Syntax {
  int isa_version = 0;
  int target_sm = 0;
  bool exact_target = false;  // sm_90a and its like run on that card only
  int target_line = 0;
  std::deque<Variable> variables;  // all, wherever declared; addresses are stable
  std::vector<const Variable*> module_variables;
  std::deque<Function> functions;
  std::unordered_map<std::string_view, int> function_by_name;
  std::map<std::string, std::string> aliases;  // name -> function
};

absl::StatusOr<Syntax> ParseSyntax(std::string_view text);

}  // namespace tf::simgpu::ptx
