#include "simgpu/ptx/program.h"

namespace tf::simgpu::ptx {

struct Module {};

Program::Program() = default;
Program::~Program() = default;

absl::StatusOr<std::unique_ptr<Program>> Program::Parse(std::string_view, int) {
  return absl::UnimplementedError("PTX is not read yet");
}

absl::Status Program::Bind(std::span<const uint64_t>) { return absl::UnimplementedError("PTX is not read yet"); }

}  // namespace tf::simgpu::ptx
