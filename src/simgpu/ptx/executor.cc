#include "simgpu/ptx/executor.h"

namespace tf::simgpu::ptx {

class Executor::Pool {};

Executor::Executor(int) {}
Executor::~Executor() = default;

LaunchResult Executor::Run(const Program&, int, const LaunchConfig&) {
  return {.fault = Fault::kIllegalInstruction, .message = "kernels are not executed yet"};
}

std::string_view FaultName(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "none";
    case Fault::kIllegalAddress:
      return "illegal address";
    case Fault::kMisalignedAddress:
      return "misaligned address";
    case Fault::kIllegalInstruction:
      return "illegal instruction";
    case Fault::kAssert:
      return "assertion failed";
    case Fault::kTrap:
      return "trap";
    case Fault::kInvalidAddressSpace:
      return "invalid address space";
    case Fault::kInvalidPc:
      return "invalid program counter";
    case Fault::kStackError:
      return "stack overflow";
    case Fault::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace tf::simgpu::ptx
