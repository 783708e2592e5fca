// Where everything of a module goes: kernel parameters, variables of the stack, shared memory, registers.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "simgpu/ptx/syntax.h"
#include "simgpu/ptx/warp.h"

namespace tf::simgpu::ptx {

struct FunctionLayout {
  std::vector<Slot> registers;  // of each declared register
  uint32_t register_bytes = 0;
  uint32_t predicate_bytes = 0, first_register = 0;
  uint32_t register_counts[5] = {};
  std::unordered_map<const Variable*, uint32_t> stack;  // offset in the frame
  uint32_t stack_bytes = 0;
  std::unordered_map<const Variable*, uint32_t> parameters;  // of a kernel: offset in the buffer
  std::vector<ParameterInfo> parameter_infos;
  uint32_t parameter_bytes = 0;
};

struct Layout {
  std::vector<FunctionLayout> functions;
  std::unordered_map<const Variable*, uint32_t> shared;  // offset in the block's shared memory
  std::vector<uint32_t> static_shared;                   // of each function that is a kernel
  std::unordered_map<std::string, int> globals;          // index into Program::globals()
};

// Finds a function by name or alias; -1: there is none.
int FindFunction(const Syntax& syntax, std::string_view name);

absl::Status MakeLayout(const Syntax& syntax, Layout& layout);

}  // namespace tf::simgpu::ptx
