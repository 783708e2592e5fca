// Runs kernels of a Program on the CPU: warps of 32 lanes, blocks spread over a pool of threads.
//
// All device addresses are host addresses. Each access of a lane is checked against an AddressMap before it is made, so
// that a wrong program ends with a Fault and never harms the process. Thread-safe: several Run calls may go on at once
// and share the pool.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "simgpu/ptx/program.h"

namespace tf::simgpu::ptx {

// Who may touch which memory: one byte per page for [base, base + size), bit 0 readable, bit 1 writable. `pages` may
// change while kernels run. Addresses outside are asked of `slow` (pinned host memory, peers); nullptr: no access.
struct AddressMap {
  uint64_t base = 0;
  uint64_t size = 0;
  const uint8_t* pages = nullptr;
  uint32_t page_shift = 16;  // pages of 1 << page_shift bytes, at least 4 KiB
  bool (*slow)(void* user, uint64_t address, uint32_t bytes, bool write) = nullptr;
  void* user = nullptr;
};

// The device heap behind malloc and free in kernels. Called from any pool thread.
class Heap {
 public:
  virtual ~Heap() = default;
  virtual uint64_t Allocate(uint64_t bytes) = 0;  // an address aligned to 16 that the AddressMap lets through, or 0
  virtual void Free(uint64_t address) = 0;        // ignores 0
};

// With the number of the CUDA error that a driver reports for it.
enum class Fault {
  kNone,
  kIllegalAddress,       // 700
  kMisalignedAddress,    // 716
  kIllegalInstruction,   // 715
  kAssert,               // 710
  kTrap,                 // 719: trap, deadlocked barrier
  kInvalidAddressSpace,  // 717
  kInvalidPc,            // 718
  kStackError,           // 714: call stack overflow
  kCancelled,            // LaunchConfig::cancel became true
};

std::string_view FaultName(Fault fault);

struct LaunchConfig {
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  std::span<const std::byte> parameters;  // at least KernelInfo::parameter_bytes
  AddressMap memory;

  // Output of printf (whole formatted pieces) and of assert. Called from any pool thread; may be empty.
  std::function<void(std::string_view)> print;
  std::function<void(std::string_view)> print_error;

  Heap* heap = nullptr;                       // nullptr: malloc gives 0
  const std::atomic<bool>* cancel = nullptr;  // looked at now and then
  // Asked by the pool's threads before each block; after true no further block begins, and Run returns when those under
  // way are over: LaunchResult::next_block tells where a later Run of the same launch goes on. Not for cooperative
  // grids.
  std::function<bool()> pause;
  uint64_t first_block = 0;          // blocks are numbered x first, then y, then z
  uint32_t stack_bytes = 32 * 1024;  // per thread, for .local variables and calls
  uint32_t clock_mhz = 1410;         // what %clock and %clock64 count; %globaltimer is nanoseconds since 1970
  uint32_t multiprocessors = 108;    // %nsmid
  uint64_t grid_id = 0;              // %gridid
  bool cooperative = false;          // all blocks of the grid are resident: they may wait for one another
};

struct LaunchResult {
  Fault fault = Fault::kNone;
  uint64_t fault_address = 0;    // of memory faults
  std::string message;           // kernel, block, thread, line of the PTX text; empty without a fault
  uint64_t next_block = 0;       // the number of blocks of the grid, unless it was paused
  uint64_t lane_operations = 0;  // instructions times active lanes
};

class Executor {
 public:
  explicit Executor(int threads);  // 0: one per core
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Blocks until the grid has finished or failed; the calling thread takes part in the work. `kernel` is an index into
  // program.kernels(). Geometry is the caller's to validate against its device; a block holds at most 1024 threads.
  LaunchResult Run(const Program& program, int kernel, const LaunchConfig& config);

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace tf::simgpu::ptx
