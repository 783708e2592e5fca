#include "simgpu/ptx/layout.h"

#include <algorithm>
#include <functional>
#include <set>

#include "simgpu/ptx/text.h"

namespace tf::simgpu::ptx {
namespace {

constexpr uint64_t kMaxStack = 1 << 20;
constexpr uint64_t kMaxShared = 1 << 20;
constexpr uint64_t kMaxParameters = 32764;
constexpr uint64_t kMaxRegisterBytes = 1 << 28;

uint64_t Align(uint64_t value, uint64_t to) { return to == 0 ? value : (value + to - 1) / to * to; }

void Visit(const Operand& o, const std::function<void(const Operand&)>& f) {
  f(o);
  for (const Operand& part : o.parts) Visit(part, f);
}

absl::Status LayOutFunction(const Function& f, FunctionLayout& out) {
  // Predicates, then registers by size.
  uint64_t at = 0;
  out.registers.resize(f.registers.size());
  for (size_t i = 0; i < f.registers.size(); ++i) {
    if (f.registers[i] != Type::kPred) continue;
    out.registers[i] = MakeSlot(kRegisters, static_cast<uint32_t>(at));
    at += 4;
  }
  out.predicate_bytes = static_cast<uint32_t>(at);
  at = Align(at, 64);
  out.first_register = static_cast<uint32_t>(at);
  for (uint32_t size = 1, k = 0; k < 5; size *= 2, ++k) {
    for (size_t i = 0; i < f.registers.size(); ++i) {
      if (f.registers[i] == Type::kPred || SizeOf(f.registers[i]) != size) continue;
      out.registers[i] = MakeSlot(kRegisters, static_cast<uint32_t>(at));
      at += uint64_t{size} * kLanes;
      ++out.register_counts[k];
    }
  }
  if (at > kMaxRegisterBytes)
    return absl::InvalidArgumentError(Cat("PTX line ", f.line, ": function ", f.name, " has too many registers"));
  out.register_bytes = static_cast<uint32_t>(at);

  uint64_t stack = 0;
  for (const Variable* v : f.locals) {
    if (v->is_register) continue;
    stack = Align(stack, std::min<uint64_t>(v->alignment, 16));
    out.stack[v] = static_cast<uint32_t>(stack);
    stack += v->size;
    if (stack > kMaxStack)
      return absl::InvalidArgumentError(
          Cat("PTX line ", v->line, ": function ", f.name, " has more than 1 MiB of local variables"));
  }
  out.stack_bytes = static_cast<uint32_t>(stack);

  if (f.is_entry) {
    uint64_t bytes = 0;
    for (const Variable* v : f.parameters) {
      bytes = Align(bytes, v->alignment);
      out.parameters[v] = static_cast<uint32_t>(bytes);
      out.parameter_infos.push_back(
          {static_cast<uint32_t>(bytes), static_cast<uint32_t>(v->size), static_cast<uint32_t>(v->alignment)});
      bytes += v->size;
      if (bytes > kMaxParameters)
        return absl::InvalidArgumentError(
            Cat("PTX line ", v->line, ": kernel ", f.name, " has more than ", kMaxParameters, " bytes of parameters"));
    }
    out.parameter_bytes = static_cast<uint32_t>(bytes);
  }
  return absl::OkStatus();
}

// Shared variables of one kernel lie apart; those of different kernels may overlap. A variable that several kernels use
// through a common function has one place in all of them.
absl::Status LayOutShared(const Syntax& syntax, Layout& layout) {
  const size_t n = syntax.functions.size();
  std::vector<std::vector<const Variable*>> uses(n);
  std::vector<std::vector<int>> calls(n);
  std::vector<int> in_tables;  // functions whose address is in a variable
  for (const Variable* v : syntax.module_variables) {
    for (const auto& r : v->relocations) {
      if (int f = FindFunction(syntax, r.symbol); f >= 0) in_tables.push_back(f);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    const Function& f = syntax.functions[i];
    for (const Statement& s : f.statements) {
      bool is_call = s.opcode.substr(0, 4) == "call";
      bool indirect = is_call;
      for (const Operand& operand : s.operands) {
        Visit(operand, [&](const Operand& o) {
          if (o.kind == Operand::kVariable && o.variable->space == Space::kShared && !o.variable->is_extern)
            uses[i].push_back(o.variable);
          if (o.kind == Operand::kName) {
            if (int callee = FindFunction(syntax, o.name); callee >= 0) {
              calls[i].push_back(callee);
              indirect = false;
            }
          }
        });
      }
      if (indirect) calls[i].insert(calls[i].end(), in_tables.begin(), in_tables.end());
    }
  }
  layout.static_shared.assign(n, 0);
  std::vector<std::vector<const Variable*>> of_kernel;
  std::vector<size_t> kernels;
  for (size_t i = 0; i < n; ++i) {
    if (!syntax.functions[i].is_entry) continue;
    std::vector<bool> seen(n);
    std::vector<size_t> todo{i};
    std::set<const Variable*> variables;
    seen[i] = true;
    while (!todo.empty()) {
      size_t f = todo.back();
      todo.pop_back();
      variables.insert(uses[f].begin(), uses[f].end());
      for (int callee : calls[f]) {
        if (!seen[static_cast<size_t>(callee)]) {
          seen[static_cast<size_t>(callee)] = true;
          todo.push_back(static_cast<size_t>(callee));
        }
      }
    }
    kernels.push_back(i);
    of_kernel.emplace_back(variables.begin(), variables.end());
  }
  std::unordered_map<const Variable*, std::vector<size_t>> users;  // indices into of_kernel
  for (size_t k = 0; k < of_kernel.size(); ++k) {
    for (const Variable* v : of_kernel[k]) users[v].push_back(k);
  }
  for (const Variable& v : syntax.variables) {  // in the order of the text
    auto it = users.find(&v);
    if (it == users.end()) continue;
    std::vector<std::pair<uint64_t, uint64_t>> taken;
    for (size_t k : it->second) {
      for (const Variable* other : of_kernel[k]) {
        if (auto at = layout.shared.find(other); at != layout.shared.end())
          taken.push_back({at->second, at->second + other->size});
      }
    }
    std::sort(taken.begin(), taken.end());
    uint64_t at = 0;
    for (auto [begin, end] : taken) {
      if (Align(at, v.alignment) + v.size <= begin) break;
      at = std::max(at, end);
    }
    at = Align(at, v.alignment);
    if (at + v.size > kMaxShared)
      return absl::InvalidArgumentError(Cat("PTX line ", v.line, ": more than 1 MiB of shared variables"));
    layout.shared[&v] = static_cast<uint32_t>(at);
    for (size_t k : it->second) {
      uint32_t& total = layout.static_shared[kernels[k]];
      total = std::max(total, static_cast<uint32_t>(at + v.size));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int FindFunction(const Syntax& syntax, std::string_view name) {
  if (auto alias = syntax.aliases.find(std::string(name)); alias != syntax.aliases.end()) name = alias->second;
  auto it = syntax.function_by_name.find(name);
  return it == syntax.function_by_name.end() ? -1 : it->second;
}

absl::Status MakeLayout(const Syntax& syntax, Layout& layout) {
  for (const Function& f : syntax.functions) {
    absl::Status status = LayOutFunction(f, layout.functions.emplace_back());
    if (!status.ok()) return status;
  }
  return LayOutShared(syntax, layout);
}

}  // namespace tf::simgpu::ptx
