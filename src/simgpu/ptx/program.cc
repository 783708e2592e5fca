#include "simgpu/ptx/program.h"

#include <algorithm>
#include <cstring>

#include "simgpu/ptx/decoder.h"
#include "simgpu/ptx/layout.h"
#include "simgpu/ptx/syntax.h"
#include "simgpu/ptx/text.h"

namespace tf::simgpu::ptx {

Program::Program() = default;
Program::~Program() = default;

absl::StatusOr<std::unique_ptr<Program>> Program::Parse(std::string_view text, int sm) {
  return Parse(text, sm, false);
}

absl::StatusOr<std::unique_ptr<Program>> Program::Parse(std::string_view text, int sm, bool plain_only) {
  absl::StatusOr<Syntax> parsed = ParseSyntax(text);
  if (!parsed.ok()) return parsed.status();
  const Syntax& syntax = *parsed;
  if (syntax.target_sm > sm || (syntax.exact_target && syntax.target_sm != sm)) {
    return absl::InvalidArgumentError(Cat("PTX line ", syntax.target_line, ": the program is for sm_", syntax.target_sm,
                                          syntax.exact_target ? "a" : "", ", the device is sm_", sm));
  }
  std::unique_ptr<Program> program(new Program);
  program->isa_version_ = syntax.isa_version;
  program->target_sm_ = syntax.target_sm;
  program->module_ = std::make_unique<Module>();

  Layout layout;
  for (const Variable* v : syntax.module_variables) {
    if ((v->space != Space::kGlobal && v->space != Space::kConst) || v->is_extern) continue;
    layout.globals[v->name] = static_cast<int>(program->globals_.size());
    GlobalVariable& g = program->globals_.emplace_back();
    g.name = v->name;
    g.size = v->size;
    g.alignment = v->alignment;
    g.initial = v->initial;
    g.constant = v->space == Space::kConst;
    g.visible = v->visible;
  }
  if (absl::Status status = MakeLayout(syntax, layout); !status.ok()) return status;
  // Addresses of functions are known now; those of variables are the owner's.
  for (const Variable* v : syntax.module_variables) {
    auto it = layout.globals.find(v->name);
    if (it == layout.globals.end()) continue;
    GlobalVariable& g = program->globals_[static_cast<size_t>(it->second)];
    for (const GlobalVariable::Relocation& r : v->relocations) {
      if (layout.globals.contains(r.symbol)) {
        g.relocations.push_back(r);
      } else if (int function = FindFunction(syntax, r.symbol); function >= 0 && r.bytes == 8) {
        uint64_t address = kCodeWindow + static_cast<uint64_t>(function);
        if (g.initial.size() < r.offset + 8) g.initial.resize(r.offset + 8);
        std::memcpy(g.initial.data() + r.offset, &address, 8);
      } else {
        return absl::InvalidArgumentError(Cat("PTX line ", v->line, ": the initial value of '", v->name, "' names '",
                                              r.symbol, "', which is no global variable or function"));
      }
    }
  }

  Decoder decoder(syntax, layout, *program->module_, plain_only);
  if (absl::Status status = decoder.Run(); !status.ok()) return status;

  for (size_t i = 0; i < syntax.functions.size(); ++i) {
    const Function& f = syntax.functions[i];
    if (!f.is_entry || !f.has_body) continue;
    const FunctionLayout& fl = layout.functions[i];
    KernelInfo& k = program->kernels_.emplace_back();
    k.name = f.name;
    k.parameters = fl.parameter_infos;
    k.parameter_bytes = fl.parameter_bytes;
    k.static_shared_bytes = layout.static_shared[i];
    k.local_bytes = fl.stack_bytes;
    // Virtual registers outnumber real ones; a compiler would reuse them.
    k.registers = std::clamp<uint32_t>(16 + static_cast<uint32_t>(f.registers.size()) / 4, 16, 128);
    k.max_threads = f.max_threads;
    k.required_block = f.required_block;
    program->module_->kernels.push_back({static_cast<int>(i), layout.static_shared[i]});
  }
  return program;
}

absl::Status Program::Bind(std::span<const uint64_t> addresses) {
  if (bound_) return absl::FailedPreconditionError("the program has its addresses already");
  if (addresses.size() != globals_.size()) {
    return absl::InvalidArgumentError(
        Cat("expected ", globals_.size(), " addresses of global variables, found ", addresses.size()));
  }
  for (const ConstantFixup& f : module_->fixups) {
    uint64_t value = addresses[static_cast<size_t>(f.global)] + static_cast<uint64_t>(f.addend);
    for (size_t i = 0; i < kLanes; ++i) std::memcpy(module_->constants_base() + f.offset + i * 8, &value, 8);
  }
  bound_ = true;
  return absl::OkStatus();
}

}  // namespace tf::simgpu::ptx
