// Branches, calls, barriers: what decides where the lanes of a warp go.
#include <bit>
#include <cstring>

#include "simgpu/ptx/block.h"

namespace tf::simgpu::ptx {
namespace {

constexpr uint32_t kMaxDepth = 1000;
constexpr uint32_t kCallBytes = 16;  // stack that a call costs besides its variables

const Inst* Jump(Warp& w, const Inst* in, const Inst* target) {
  if (target > in) return target;
  w.slice -= w.touched ? kTouchedCost : 1;
  w.touched = false;
  if (w.slice <= 0 || w.split_count > 1) return StopAt(w, Stop::kReschedule, target);
  return target;
}

uint32_t PredicateOf(Warp& w, const Inst* in) {
  uint32_t p = *w.At<uint32_t>(in->predicate & ~1u);
  return (in->predicate & 1 ? ~p : p) & w.mask;
}

// Where the actual argument of one lane lies.
uint8_t* Actual(Warp& w, const Frame& caller, const ArgumentCopy& a, uint32_t lane) {
  if (a.actual_is_register) {
    uint8_t* base = (a.actual >> 30) == kRegisters ? caller.registers : w.base[a.actual >> 30];
    return base + (a.actual & 0x3fffffffu) + lane * a.actual_size;
  }
  return w.memory.local + lane * w.memory.local_stride + caller.stack_base + a.actual;
}

uint8_t* Formal(Warp& w, const Frame& callee, const FormalParameter& f, uint32_t lane) {
  if (f.is_register) return callee.registers + (f.place & 0x3fffffffu) + lane * f.size;
  return w.memory.local + lane * w.memory.local_stride + callee.stack_base + f.place;
}

template <typename F>
void Each(uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(static_cast<uint32_t>(std::countr_zero(mask)));
}

const Inst* Leave(Warp& w) {
  w.live &= ~w.mask;
  return StopAt(w, Stop::kExited, nullptr);
}

}  // namespace

const Inst* RunPredicated(Warp& w, const Inst* in) {
  uint32_t lanes = PredicateOf(w, in);
  if (lanes == 0) return in + 1;
  uint32_t all = w.mask;
  w.mask = lanes;
  const Inst* next = in->inner(w, in);
  w.mask = all;
  return next;
}

const Inst* RunPredicatedSplit(Warp& w, const Inst* in) {
  uint32_t lanes = PredicateOf(w, in);
  if (lanes == 0) return in + 1;
  if (lanes == w.mask) return in->inner(w, in);
  w.block->Diverge(w, w.mask & ~lanes, in + 1);
  return StopAt(w, Stop::kReschedule, in);
}

const Inst* RunBranch(Warp& w, const Inst* in) { return Jump(w, in, w.code + in->aux); }

const Inst* RunBranchIf(Warp& w, const Inst* in) {
  uint32_t lanes = PredicateOf(w, in);
  if (lanes == 0) return in + 1;
  if (lanes == w.mask) return Jump(w, in, w.code + in->aux);
  w.block->Diverge(w, lanes, w.code + in->aux);
  if (in->aux <= static_cast<uint32_t>(in - w.code)) {
    w.slice -= w.touched ? kTouchedCost : 1;
    w.touched = false;
  }
  return StopAt(w, Stop::kReschedule, in + 1);
}

const Inst* RunBranchIndexed(Warp& w, const Inst* in) {
  const uint32_t* index = w.At<uint32_t>(in->a);
  auto lane = static_cast<uint32_t>(std::countr_zero(w.mask));
  uint32_t which = index[lane], same = 0;
  Each(w.mask, [&](uint32_t i) { same |= static_cast<uint32_t>(index[i] == which) << i; });
  // The others stay here for their own turn; these must leave, or the two would meet again at once.
  if (same != w.mask) w.block->Diverge(w, w.mask & ~same, in);
  if (which >= static_cast<uint64_t>(in->imm))
    return FaultAt(w, in, Fault::kInvalidPc, "indexed branch outside its table", lane);
  return Jump(w, in, w.code + w.module->lists[in->aux + which]);
}

const Inst* RunCall(Warp& w, const Inst* in) {
  const CallSite& site = w.module->calls[in->aux];
  if (site.builtin != Builtin::kNone) return RunBuiltin(w, in, site);
  auto lane = static_cast<uint32_t>(std::countr_zero(w.mask));
  auto index = static_cast<size_t>(site.function);
  if (site.function < 0) {
    const uint64_t* address = w.At<uint64_t>(site.target);
    uint64_t target = address[lane];
    uint32_t same = 0;
    Each(w.mask, [&](uint32_t i) { same |= static_cast<uint32_t>(address[i] == target) << i; });
    if (same != w.mask) w.block->Diverge(w, w.mask & ~same, in);
    index = target & ~kWindowMask;
    if ((target & kWindowMask) != kCodeWindow || index >= w.module->functions.size() ||
        w.module->functions[index].entry < 0) {
      return FaultAt(w, in, Fault::kInvalidPc, "call of an address that is no function", lane, target);
    }
  }
  const FunctionCode& function = w.module->functions[index];
  if (function.parameters.size() != site.arguments.size() || function.results.size() < site.results.size()) {
    return FaultAt(w, in, Fault::kInvalidPc, "call of a function with other parameters", lane);
  }
  Frame* caller = w.frame;
  uint32_t base = caller->stack_base + (caller->function->stack_bytes + 15) / 16 * 16 + kCallBytes;
  if (caller->depth >= kMaxDepth || base + uint64_t{function.stack_bytes} > w.memory.local_bytes) {
    return FaultAt(w, in, Fault::kStackError, "call stack overflow", lane);
  }
  Frame* callee = w.block->NewFrame(function);
  if (callee == nullptr) return FaultAt(w, in, Fault::kStackError, "no memory for another call", lane);
  callee->parent = caller;  // the split leaves the caller's frame and the callee comes to hold it
  callee->return_pc = in + 1;
  callee->site = &site;
  callee->stack_base = base;
  callee->depth = caller->depth + 1;
  for (size_t k = 0; k < site.arguments.size(); ++k) {
    const ArgumentCopy& a = site.arguments[k];
    const FormalParameter& f = function.parameters[k];
    Each(w.mask, [&](uint32_t i) {
      std::memcpy(Formal(w, *callee, f, i), Actual(w, *caller, a, i), std::min(a.actual_size, f.size));
    });
  }
  w.block->Enter(w, callee);
  const Inst* target = w.code + function.entry;
  return w.split_count > 1 ? StopAt(w, Stop::kReschedule, target) : target;
}

const Inst* RunReturn(Warp& w, const Inst* in) {
  Frame* callee = w.frame;
  Frame* caller = callee->parent;
  if (caller == nullptr) return Leave(w);
  static_cast<void>(in);
  const CallSite& site = *callee->site;
  for (size_t k = 0; k < site.results.size(); ++k) {
    const ArgumentCopy& a = site.results[k];
    const FormalParameter& f = callee->function->results[k];
    Each(w.mask, [&](uint32_t i) {
      std::memcpy(Actual(w, *caller, a, i), Formal(w, *callee, f, i), std::min(a.actual_size, f.size));
    });
  }
  const Inst* target = callee->return_pc;
  ++caller->uses;
  w.block->Release(callee);
  w.block->Enter(w, caller);
  return w.split_count > 1 ? StopAt(w, Stop::kReschedule, target) : target;
}

const Inst* RunExit(Warp& w, const Inst*) { return Leave(w); }

const Inst* RunTrap(Warp& w, const Inst* in) {
  return FaultAt(w, in, Fault::kTrap, "trap", static_cast<uint32_t>(std::countr_zero(w.mask)));
}

const Inst* RunNothing(Warp&, const Inst* in) { return in + 1; }

const Inst* RunFence(Warp&, const Inst* in) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return in + 1;
}

// nanosleep: whoever sleeps lets others go on.
const Inst* RunPause(Warp& w, const Inst* in) {
  w.touched = true;
  if (w.slice > kTouchedCost) w.slice = kTouchedCost;
  return in + 1;
}

const Inst* RunBarrier(Warp& w, const Inst* in) {
  auto lane = static_cast<uint32_t>(std::countr_zero(w.mask));
  uint32_t id = w.At<uint32_t>(in->a)[lane];
  uint32_t expected = in->b == kNoSlot ? 0 : w.At<uint32_t>(in->b)[lane];
  if (id >= 16) return FaultAt(w, in, Fault::kIllegalInstruction, "barrier number above 15", lane);
  if (in->b != kNoSlot && (expected == 0 || expected % kLanes != 0)) {
    return FaultAt(w, in, Fault::kIllegalInstruction, "a barrier's number of threads is a multiple of 32", lane);
  }
  Barrier& b = w.block->barriers[id];
  if (b.active && b.expected != expected)
    return FaultAt(w, in, Fault::kIllegalInstruction, "a barrier with another number of threads", lane);
  b.active = true;
  b.expected = expected;
  b.arrived[w.index] |= w.mask;
  auto kind = static_cast<BarrierKind>(in->flags & 15);
  if (kind >= BarrierKind::kPopc) {
    uint32_t p = *w.At<uint32_t>(in->c) ^ (in->flags & kNegatedOperand ? kAllLanes : 0);
    b.count += static_cast<uint32_t>(std::popcount(p & w.mask));
    b.all &= (w.mask & ~p) == 0;
    b.any |= (w.mask & p) != 0;
  }
  if (kind == BarrierKind::kArrive) {
    w.block->CheckBarrier(static_cast<int>(id));
    return in + 1;
  }
  Split& s = w.splits[w.current];
  s.mask = w.mask;
  s.frame = w.frame;
  s.state = Split::kAtBarrier;
  s.barrier = static_cast<uint8_t>(id);
  s.barrier_inst = in;
  w.block->CheckBarrier(static_cast<int>(id));
  return StopAt(w, Stop::kBlocked, in + 1);
}

}  // namespace tf::simgpu::ptx
