// Device code in a context: a decoded program, its variables in the memory of the card, the attributes of its kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cuda/backend.h"
#include "simgpu/context.h"
#include "simgpu/ptx/program.h"

namespace tf::simgpu {

class Module {
 public:
  // Chooses the PTX for the card from `image`, decodes it and places its variables. On failure facts->log says why, and
  // the answer is INVALID_IMAGE, NO_BINARY_FOR_GPU, UNSUPPORTED_PTX_VERSION, INVALID_PTX or OUT_OF_MEMORY.
  static CUresult Load(Context& context, std::span<const std::byte> image, std::unique_ptr<Module>* module,
                       cuda::ModuleFacts* facts);

  const ptx::Program& program() const { return *program_; }
  // Gives the variables back. Nothing of the module may run.
  void Unload(Context& context);

  // A global or constant variable.
  bool FindVariable(std::string_view name, uint64_t* address, uint64_t* size) const;
  CUresult SetAttribute(uint32_t kernel, int32_t attribute, int32_t value);
  // Whether a kernel may have that much dynamic shared memory.
  bool AllowsShared(uint32_t kernel, uint32_t dynamic_bytes) const;

 private:
  explicit Module(std::unique_ptr<ptx::Program> program) : program_(std::move(program)) {}
  CUresult Place(Context& context, cuda::ModuleFacts* facts);
  void Describe(int sm, cuda::ModuleFacts* facts) const;

  struct Variable {
    uint64_t address, size;
  };

  std::unique_ptr<ptx::Program> program_;
  std::unordered_map<std::string, Variable> variables_;
  uint64_t blocks_[2]{};  // variables, constants
  int shared_limit_ = 0;  // of the card, for static and dynamic together, when the program asks for it
  std::vector<std::atomic<int32_t>> dynamic_shared_;
};

}  // namespace tf::simgpu
