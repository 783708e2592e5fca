// The decoded form of a program, and the state of a warp that its handlers work on.
//
// A register is an array of 32 lanes (a predicate: one bit per lane in a uint32_t). Operands are slots: two bits say
// which area (registers of the frame, constants of the module, special registers of the warp), the rest is the byte
// offset there. A handler executes one instruction for the lanes of Warp::mask and returns the next instruction, or
// kStop after it has set Warp::stop and Warp::resume.
#pragma once

#include <cstdint>
#include <vector>

#include "simgpu/ptx/executor.h"
#include "simgpu/ptx/type.h"

namespace tf::simgpu::ptx {

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

// Generic addresses of what is no host memory carry these in their upper 16 bits; no host address looks like that.
constexpr uint64_t kSharedWindow = uint64_t{0x00f1} << 48;
constexpr uint64_t kLocalWindow = uint64_t{0x00f2} << 48;
constexpr uint64_t kParamWindow = uint64_t{0x00f3} << 48;
constexpr uint64_t kCodeWindow = uint64_t{0x00f4} << 48;  // plus the index of a function
constexpr uint64_t kWindowMask = uint64_t{0xffff} << 48;

struct Inst;
struct Warp;
struct Block;
struct Module;
using Handler = const Inst* (*)(Warp&, const Inst*);
using Slot = uint32_t;

enum Area : uint32_t { kRegisters = 0, kConstants = 1, kSpecials = 2 };
constexpr Slot MakeSlot(Area area, uint32_t offset) { return (static_cast<uint32_t>(area) << 30) | offset; }
constexpr Slot kNoSlot = 0xffffffffu;

struct Inst {
  Handler handler = nullptr;
  Handler inner = nullptr;  // what the handler of a predicated instruction calls
  Slot d = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot, e = kNoSlot;
  Slot predicate = kNoSlot;
  uint32_t flags = 0;  // meaning depends on the opcode
  uint32_t aux = 0;    // index of the target instruction, of a call site, of a list of slots
  int64_t imm = 0;
};

// How a call passes one argument: bytes of the caller's stack, or a register, to the callee's, or the other way round.
struct ArgumentCopy {
  bool actual_is_register = false, formal_is_register = false;
  uint32_t actual = 0, formal = 0;  // slot, or offset in the frame's part of the stack
  uint32_t actual_size = 0, size = 0;
};

enum class Builtin : uint8_t { kNone, kPrintf, kMalloc, kFree, kAssertFail };

struct CallSite {
  Builtin builtin = Builtin::kNone;
  int function = -1;  // -1: the address is in the register `target`
  Slot target = kNoSlot;
  std::vector<ArgumentCopy> arguments, results;  // formal sides of indirect calls are set from the callee's signature
};

struct FormalParameter {
  bool is_register = false;
  uint32_t place = 0;  // slot or offset
  uint32_t size = 0;
};

struct FunctionCode {
  int entry = -1;  // index of the first instruction; -1: no body
  uint32_t register_bytes = 0;
  uint32_t predicate_bytes = 0;  // predicates come first
  uint32_t first_register = 0;   // then, aligned, registers of 1, 2, 4, 8 and 16 bytes a lane
  uint32_t register_counts[5] = {};
  uint32_t stack_bytes = 0;  // .local and .param variables
  std::vector<FormalParameter> parameters, results;
  int name = 0;  // index into Module::function_names
};

// Filled by Bind: lanes of the constant at `offset` become the address of a global plus addend.
struct ConstantFixup {
  uint32_t offset;
  int global;
  int64_t addend;
};

struct KernelCode {
  int function = 0;
  uint32_t static_shared_bytes = 0;
};

struct Module {
  std::vector<Inst> code;
  std::vector<int> lines;  // of each instruction
  std::vector<uint32_t> lists;
  std::vector<FunctionCode> functions;
  std::vector<std::string> function_names;
  std::vector<CallSite> calls;
  std::vector<uint8_t> constants;  // read through constants_base(), aligned to 64
  std::vector<ConstantFixup> fixups;
  std::vector<KernelCode> kernels;
  bool has_calls = false;

  uint8_t* constants_base() {
    return constants.data() + (64 - reinterpret_cast<uintptr_t>(constants.data()) % 64) % 64;
  }
  const uint8_t* constants_base() const { return const_cast<Module*>(this)->constants_base(); }
};

// Special registers of a warp, each an array of 32 lanes.
struct alignas(64) Specials {
  uint32_t tid[3][kLanes], ntid[3][kLanes], ctaid[3][kLanes], nctaid[3][kLanes];
  uint32_t laneid[kLanes], warpid[kLanes], nwarpid[kLanes], smid[kLanes], nsmid[kLanes];
  uint32_t lanemask_eq[kLanes], lanemask_le[kLanes], lanemask_lt[kLanes], lanemask_ge[kLanes], lanemask_gt[kLanes];
  uint32_t dynamic_shared_size[kLanes], total_shared_size[kLanes], aggregate_shared_size[kLanes];
  uint32_t dynamic_shared_base[kLanes];
  uint64_t dynamic_shared_base64[kLanes];
  uint64_t gridid[kLanes];
  uint64_t frame_base[kLanes];  // where the stack of the current frame begins, as an address in the local space
  uint32_t zero[2 * kLanes];
};

// One call in progress. Lanes that called together share it.
struct Frame {
  Frame* parent = nullptr;
  const FunctionCode* function = nullptr;
  const Inst* return_pc = nullptr;
  const CallSite* site = nullptr;
  uint8_t* registers = nullptr;
  uint32_t stack_base = 0;
  uint32_t depth = 0;
  uint32_t uses = 0;  // splits in it and frames called from it
};

// Backward branches that a split may take before others get their turn. One that follows an atomic or volatile access
// costs more (kTouchedCost), since it is likely a wait for somebody else.
constexpr int64_t kSlice = 1 << 16;
constexpr int64_t kTouchedCost = 1 << 10;

// Lanes of a warp that are at the same place.
struct Split {
  enum State : uint8_t { kReady, kAtBarrier, kAtSync };
  const Inst* pc = nullptr;
  Frame* frame = nullptr;
  uint32_t mask = 0;
  uint32_t turn = 0;       // a split that used up its time goes behind the others
  int64_t slice = kSlice;  // what is left of its time
  State state = kReady;
  uint8_t barrier = 0;
  const Inst* barrier_inst = nullptr;  // gets the result of a barrier reduction
};

struct Memory {
  AddressMap map;
  uint8_t* shared = nullptr;
  uint64_t shared_bytes = 0;
  uint8_t* local = nullptr;  // of the warp: lane i begins at local + i * local_stride
  uint64_t local_stride = 0;
  uint64_t local_bytes = 0;  // per lane
  const uint8_t* parameters = nullptr;
  uint64_t parameter_bytes = 0;
};

enum class Stop : uint8_t { kReschedule, kBlocked, kExited, kFault };

// What the lanes of a warp-level operation brought along.
struct Collective {
  enum Phase : uint8_t { kWhole, kGather, kFinish };
  Phase phase = kWhole;
  uint32_t lanes = 0;
  uint32_t predicate = 0;
  alignas(64) uint64_t value[kLanes];
};

struct Warp {
  uint8_t* base[4] = {};
  uint32_t mask = 0;  // lanes that execute
  uint32_t live = 0;  // lanes that have not exited
  Stop stop = Stop::kReschedule;
  bool touched = false;  // an atomic or volatile access since the last backward branch: it may be a spin
  const Inst* resume = nullptr;
  int64_t slice = 0;
  const Inst* code = nullptr;
  const Module* module = nullptr;
  Memory memory;
  Block* block = nullptr;
  int index = 0;
  uint32_t all = 0;  // lanes that exist: fewer in the last warp of a block
  int split_count = 0;
  int current = 0;
  bool done = false;
  uint32_t turn = 0;
  Frame* frame = nullptr;
  Fault fault = Fault::kNone;
  uint64_t fault_address = 0;
  uint32_t fault_lane = 0;
  const char* fault_text = "";
  uint32_t clock_mhz = 1000;
  Specials* specials = nullptr;
  Split splits[kLanes + 1];
  Collective collective;

  template <typename T>
  [[gnu::always_inline]] T* At(Slot slot) const {
    return reinterpret_cast<T*>(base[slot >> 30] + (slot & 0x3fffffffu));
  }
};

inline const Inst* const kStop = reinterpret_cast<const Inst*>(~uintptr_t{0});

[[gnu::always_inline]] inline const Inst* StopAt(Warp& w, Stop why, const Inst* resume) {
  w.stop = why;
  w.resume = resume;
  return kStop;
}
[[gnu::always_inline]] inline const Inst* FaultAt(Warp& w, const Inst* in, Fault fault, const char* text, uint32_t lane,
                                                  uint64_t address = 0) {
  w.fault = fault;
  w.fault_text = text;
  w.fault_lane = lane;
  w.fault_address = address;
  return StopAt(w, Stop::kFault, in);
}

}  // namespace tf::simgpu::ptx
