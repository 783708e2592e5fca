// A PTX module: parsed, checked and decoded once, then run any number of times by an Executor.
//
// Follows NVIDIA's "Parallel Thread Execution ISA". Sizes are bytes. A Program is immutable after Bind and may then be
// used by any number of threads. It knows nothing of drivers: its owner places the global variables in memory, copies
// their initial bytes there, applies their relocations and tells the addresses by Bind.
//
// Errors: INVALID_ARGUMENT for text that is not valid PTX or is for a newer target than the device; UNIMPLEMENTED for
// an opcode, modifier or directive that this simulator does not have. Both name the line and what was found there.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tf::simgpu::ptx {

struct Module;  // the decoded form; internal

struct ParameterInfo {
  uint32_t offset, size, alignment;
};

struct KernelInfo {
  std::string name;
  std::vector<ParameterInfo> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;     // per thread
  uint32_t registers = 0;       // per thread, an estimate of what a real compiler would use (at most 255)
  uint32_t max_threads = 1024;  // 1024, or the product of .maxntid / .reqntid
  std::array<uint32_t, 3> required_block{0, 0, 0};  // .reqntid, or zeros
};

struct GlobalVariable {
  // The address of `symbol` (another global variable) plus addend, truncated to `bytes`, is to be stored at `offset`.
  struct Relocation {
    uint64_t offset;
    std::string symbol;
    int64_t addend;
    int bytes;
  };

  std::string name;
  uint64_t size = 0;
  uint64_t alignment = 1;
  std::string initial;  // may be shorter than size: the rest is zeros
  std::vector<Relocation> relocations;
  bool constant = false;  // declared .const
  bool visible = false;   // .visible, .extern, .weak or .common: to be found by name from outside
};

class Program {
 public:
  // `sm` is the compute capability of the device as 10 * major + minor, e.g. 80.
  static absl::StatusOr<std::unique_ptr<Program>> Parse(std::string_view text, int sm);
  // `plain_only`: execute without AVX2 and FMA even where the processor has them.
  static absl::StatusOr<std::unique_ptr<Program>> Parse(std::string_view text, int sm, bool plain_only);

  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  const std::vector<KernelInfo>& kernels() const { return kernels_; }
  const std::vector<GlobalVariable>& globals() const { return globals_; }
  int isa_version() const { return isa_version_; }  // 10 * major + minor of .version
  int target_sm() const { return target_sm_; }      // of .target, e.g. 75

  // addresses[i] is where globals()[i] was placed. To be called once, before the first launch (also without globals).
  absl::Status Bind(std::span<const uint64_t> addresses);

  const Module& module() const { return *module_; }

 private:
  Program();

  std::vector<KernelInfo> kernels_;
  std::vector<GlobalVariable> globals_;
  int isa_version_ = 0;
  int target_sm_ = 0;
  bool bound_ = false;
  std::unique_ptr<Module> module_;
};

}  // namespace tf::simgpu::ptx
