#include "simgpu/ptx/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "simgpu/ptx/text.h"

namespace tf::simgpu::ptx {
namespace {

uint32_t Align(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

}  // namespace

ZeroBuffer::~ZeroBuffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

bool ZeroBuffer::Reserve(size_t bytes) {
  if (bytes <= size_) return true;
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = (bytes + 4095) / 4096 * 4096;
  void* p = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    size_ = 0;
    return false;
  }
  data_ = static_cast<uint8_t*>(p);
  return true;
}

bool Block::Prepare(const Program& p, int which, const LaunchConfig& c) {
  program = &p;
  module = &p.module();
  config = &c;
  kernel = which;
  fault = Fault::kNone;
  message.clear();
  lane_operations = 0;
  const KernelCode& code = module->kernels[static_cast<size_t>(which)];
  const FunctionCode& function = module->functions[static_cast<size_t>(code.function)];
  const KernelInfo& info = p.kernels()[static_cast<size_t>(which)];
  const uint32_t threads = c.block[0] * c.block[1] * c.block[2];
  const uint32_t count = (threads + kLanes - 1) / kLanes;
  warps.assign(count, Warp{});
  kernel_frames_.assign(count, Frame{});
  barriers.assign(16, Barrier{});

  const size_t register_bytes = Align(function.register_bytes, 64);
  if (!registers_.Reserve(register_bytes * count)) return false;
  std::memset(registers_.data(), 0, register_bytes * count);
  const uint32_t static_shared = Align(code.static_shared_bytes, 16);
  const size_t shared_bytes = size_t{static_shared} + c.dynamic_shared_bytes;
  if (!shared_.Reserve(shared_bytes + 64)) return false;
  std::memset(shared_.data(), 0, shared_bytes);
  const uint64_t local_bytes = Align(function.stack_bytes, 16) + (module->has_calls ? c.stack_bytes : 0);
  // An odd multiple of a cache line: lanes that use the same offset do not fight for one set of the cache.
  const uint64_t local_stride = (local_bytes + 63) / 64 * 64 | 64;
  if (!local_.Reserve(local_stride * kLanes * count)) return false;
  if (!parameters_.Reserve(size_t{info.parameter_bytes} + 64)) return false;
  if (info.parameter_bytes > 0) {
    std::memcpy(parameters_.data(), c.parameters.data(), std::min<size_t>(info.parameter_bytes, c.parameters.size()));
  }
  if (specials_count_ < count) {
    specials_ = std::make_unique<Specials[]>(count);
    specials_count_ = count;
  }

  for (uint32_t k = 0; k < count; ++k) {
    Warp& w = warps[k];
    Specials& s = specials_[k];
    w.index = static_cast<int>(k);
    w.block = this;
    w.module = module;
    w.code = module->code.data();
    w.specials = &s;
    w.clock_mhz = c.clock_mhz;
    w.base[kConstants] = const_cast<uint8_t*>(module->constants_base());
    w.base[kSpecials] = reinterpret_cast<uint8_t*>(&s);
    w.memory.map = c.memory;
    w.memory.shared = shared_.data();
    w.memory.shared_bytes = shared_bytes;
    w.memory.local = local_.data() + k * local_stride * kLanes;
    w.memory.local_stride = local_stride;
    w.memory.local_bytes = local_bytes;
    w.memory.parameters = parameters_.data();
    w.memory.parameter_bytes = info.parameter_bytes;
    const uint32_t lanes = std::min<uint32_t>(kLanes, threads - k * kLanes);
    w.all = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
    Frame& f = kernel_frames_[k];
    f.function = &function;
    f.registers = registers_.data() + k * register_bytes;
    for (uint32_t i = 0; i < kLanes; ++i) {
      uint32_t t = k * kLanes + i;
      s.tid[0][i] = t % c.block[0];
      s.tid[1][i] = t / c.block[0] % c.block[1];
      s.tid[2][i] = t / c.block[0] / c.block[1];
      for (size_t axis = 0; axis < 3; ++axis) {
        s.ntid[axis][i] = c.block[axis];
        s.nctaid[axis][i] = c.grid[axis];
      }
      s.laneid[i] = i;
      s.warpid[i] = k;
      s.nwarpid[i] = count;
      s.nsmid[i] = c.multiprocessors;
      s.lanemask_eq[i] = 1u << i;
      s.lanemask_lt[i] = (1u << i) - 1;
      s.lanemask_le[i] = s.lanemask_lt[i] | s.lanemask_eq[i];
      s.lanemask_gt[i] = ~s.lanemask_le[i];
      s.lanemask_ge[i] = ~s.lanemask_lt[i];
      s.dynamic_shared_size[i] = c.dynamic_shared_bytes;
      s.total_shared_size[i] = s.aggregate_shared_size[i] = static_cast<uint32_t>(shared_bytes);
      s.dynamic_shared_base[i] = static_shared;
      s.dynamic_shared_base64[i] = static_shared;
      s.gridid[i] = c.grid_id;
    }
    std::memset(s.zero, 0, sizeof s.zero);
  }
  return true;
}

void Block::Start(uint64_t which) {
  number = which;
  const uint32_t ctaid[3] = {static_cast<uint32_t>(which % config->grid[0]),
                             static_cast<uint32_t>(which / config->grid[0] % config->grid[1]),
                             static_cast<uint32_t>(which / config->grid[0] / config->grid[1])};
  const Inst* entry =
      module->code.data() +
      module->functions[static_cast<size_t>(module->kernels[static_cast<size_t>(kernel)].function)].entry;
  for (Warp& w : warps) {
    Specials& s = *w.specials;
    for (size_t i = 0; i < kLanes; ++i) {
      for (size_t axis = 0; axis < 3; ++axis) s.ctaid[axis][i] = ctaid[axis];
      s.smid[i] = static_cast<uint32_t>(which % std::max(1u, config->multiprocessors));
      s.frame_base[i] = 0;
    }
    w.live = w.all;
    w.done = false;
    w.turn = 0;
    w.touched = false;
    w.fault = Fault::kNone;
    w.split_count = 1;
    w.splits[0] = Split{};
    w.splits[0].pc = entry;
    w.splits[0].mask = w.all;
    Frame& f = kernel_frames_[static_cast<size_t>(w.index)];
    f.uses = 1;
    w.splits[0].frame = &f;
    w.frame = nullptr;
  }
  for (Barrier& b : barriers) b = Barrier{};
}

// ---- frames ----
Frame* Block::NewFrame(const FunctionCode& function) {
  std::vector<Frame*>& free = free_frames_[&function];
  Frame* f;
  if (!free.empty()) {
    f = free.back();
    free.pop_back();
  } else {
    ZeroBuffer& buffer = frame_registers_.emplace_back();
    if (!buffer.Reserve(function.register_bytes + 64)) {
      frame_registers_.pop_back();
      return nullptr;
    }
    f = &frames_.emplace_back();
    f->registers = buffer.data();
    f->function = &function;
  }
  f->uses = 1;
  return f;
}

void Block::ForgetFrames() {
  free_frames_.clear();
  frames_.clear();
  frame_registers_.clear();
}

void Block::Release(Frame* frame) {
  while (frame != nullptr && --frame->uses == 0) {
    Frame* parent = frame->parent;
    if (parent != nullptr) free_frames_[frame->function].push_back(frame);
    frame = parent;
  }
}

void Block::Enter(Warp& w, Frame* frame) {
  w.frame = frame;
  w.base[kRegisters] = frame->registers;
  if (w.specials->frame_base[0] != frame->stack_base) std::fill_n(w.specials->frame_base, kLanes, frame->stack_base);
}

// ---- splits ----
void Block::Diverge(Warp& w, uint32_t lanes, const Inst* pc) {
  w.mask &= ~lanes;
  Split& s = w.splits[w.split_count++];
  s = Split{};
  s.pc = pc;
  s.frame = w.frame;
  s.mask = lanes;
  s.turn = w.splits[w.current].turn;
  s.slice = w.slice;
  ++w.frame->uses;
}

void Block::RemoveSplit(Warp& w, int index) {
  Release(w.splits[index].frame);
  w.splits[index] = w.splits[--w.split_count];
}

// Two calls of one function from one place: their lanes can go on together in one frame.
bool Block::MergeFrames(Frame& into, Frame& from, uint32_t lanes) {
  if (into.function != from.function || into.parent != from.parent || into.parent == nullptr ||
      into.return_pc != from.return_pc || into.stack_base != from.stack_base || from.uses != 1) {
    return false;
  }
  const FunctionCode& f = *into.function;
  for (uint32_t at = 0; at < f.predicate_bytes; at += 4) {
    auto* d = reinterpret_cast<uint32_t*>(into.registers + at);
    auto* s = reinterpret_cast<const uint32_t*>(from.registers + at);
    *d = (*d & ~lanes) | (*s & lanes);
  }
  uint32_t at = f.first_register;
  for (uint32_t size = 1, k = 0; k < 5; size *= 2, ++k) {
    for (uint32_t n = 0; n < f.register_counts[k]; ++n, at += size * kLanes) {
      for (uint32_t m = lanes; m != 0; m &= m - 1) {
        auto lane = static_cast<uint32_t>(std::countr_zero(m));
        std::memcpy(into.registers + at + lane * size, from.registers + at + lane * size, size);
      }
    }
  }
  return true;
}

void Block::Merge(Warp& w) {
  for (int i = 0; i < w.split_count; ++i) {
    for (int j = w.split_count - 1; j > i; --j) {
      Split &a = w.splits[i], &b = w.splits[j];
      if (a.pc != b.pc || a.state == Split::kAtBarrier || b.state == Split::kAtBarrier) continue;
      if (a.frame != b.frame && !MergeFrames(*a.frame, *b.frame, b.mask)) continue;
      a.mask |= b.mask;
      a.turn = std::min(a.turn, b.turn);
      a.slice = std::min(a.slice, b.slice);
      a.state = Split::kReady;
      RemoveSplit(w, j);
    }
  }
}

int Block::Pick(Warp& w) {
  int best = -1;
  for (int i = 0; i < w.split_count; ++i) {
    const Split& s = w.splits[i];
    if (s.state != Split::kReady) continue;
    if (best < 0) {
      best = i;
      continue;
    }
    const Split& b = w.splits[best];
    if (s.turn != b.turn) {
      if (s.turn < b.turn) best = i;
    } else if (s.frame->depth != b.frame->depth) {
      if (s.frame->depth > b.frame->depth) best = i;
    } else if (s.pc < b.pc) {
      best = i;
    }
  }
  return best;
}

// No split can go on alone. Lanes that wait at different instructions of one kind may be each other's partners.
bool Block::FinishSync(Warp& w) {
  auto operation = [](const Split& s) { return s.pc->inner != nullptr ? s.pc->inner : s.pc->handler; };
  for (int i = 0; i < w.split_count; ++i) {
    if (w.splits[i].state != Split::kAtSync) continue;
    const Handler handler = operation(w.splits[i]);
    uint32_t lanes = 0;
    for (int j = 0; j < w.split_count; ++j) {
      if (w.splits[j].state == Split::kAtSync && operation(w.splits[j]) == handler) lanes |= w.splits[j].mask;
    }
    uint32_t ready = 0;  // splits
    for (int j = 0; j < w.split_count; ++j) {
      Split& s = w.splits[j];
      if (s.state != Split::kAtSync || operation(s) != handler) continue;
      Enter(w, s.frame);
      const uint32_t* members = w.At<uint32_t>(s.pc->e);
      bool complete = true;
      for (uint32_t m = s.mask; m != 0; m &= m - 1) complete &= (members[std::countr_zero(m)] & w.live & ~lanes) == 0;
      if (complete) ready |= 1u << j;
    }
    if (ready == 0) continue;
    w.collective.lanes = 0;
    w.collective.predicate = 0;
    for (Collective::Phase phase : {Collective::kGather, Collective::kFinish}) {
      w.collective.phase = phase;
      for (int j = 0; j < w.split_count; ++j) {
        if (!((ready >> j) & 1)) continue;
        Split& s = w.splits[j];
        w.mask = s.mask;
        Enter(w, s.frame);
        handler(w, s.pc);
        if (phase == Collective::kFinish) {
          ++s.pc;
          s.state = Split::kReady;
        }
      }
    }
    w.collective.phase = Collective::kWhole;
    return true;
  }
  return false;
}

void Block::Fail(const Warp& w, const Inst* at) {
  if (fault != Fault::kNone) return;
  fault = w.fault;
  fault_address = w.fault_address;
  const Specials& s = *w.specials;
  size_t lane = w.fault_lane;
  message = Cat(w.fault_text, " in kernel ", program->kernels()[static_cast<size_t>(kernel)].name, ", block [",
                s.ctaid[0][lane], ",", s.ctaid[1][lane], ",", s.ctaid[2][lane], "], thread [", s.tid[0][lane], ",",
                s.tid[1][lane], ",", s.tid[2][lane], "]");
  if (at != nullptr) message += Cat(", PTX line ", module->lines[static_cast<size_t>(at - module->code.data())]);
  if (w.fault == Fault::kIllegalAddress || w.fault == Fault::kMisalignedAddress ||
      w.fault == Fault::kInvalidAddressSpace) {
    char hex[32];
    std::snprintf(hex, sizeof hex, ", address 0x%llx", static_cast<unsigned long long>(w.fault_address));
    message += hex;
  }
}

// True if the warp executed anything.
bool Block::RunWarp(Warp& w) {
  bool ran = false;
  for (;;) {
    if (w.split_count > 1) Merge(w);
    int index = Pick(w);
    if (index < 0) {
      if (w.split_count == 0) {
        w.done = true;
        return true;
      }
      if (FinishSync(w)) {
        ran = true;
        continue;
      }
      return ran;
    }
    ran = true;
    Split& split = w.splits[index];
    w.current = index;
    w.mask = split.mask;
    Enter(w, split.frame);
    w.slice = split.slice;
    const Inst* pc = split.pc;
    const Inst* limit = kStop;
    for (int i = 0; i < w.split_count; ++i) {
      const Split& other = w.splits[i];
      if (i != index && other.pc > pc && other.pc < limit && other.state != Split::kAtBarrier) limit = other.pc;
    }
    uint64_t count = 0;
    const auto lanes = static_cast<uint64_t>(std::popcount(w.mask));
    do {
      pc = pc->handler(w, pc);
      ++count;
    } while (pc < limit);
    lane_operations += count * lanes;
    const bool stopped = pc == kStop;
    split.pc = stopped ? w.resume : pc;
    split.mask = w.mask;
    split.frame = w.frame;
    split.slice = w.slice;
    if (!stopped) continue;
    switch (w.stop) {
      case Stop::kFault:
        Fail(w, w.resume);
        return true;
      case Stop::kExited:
        RemoveSplit(w, index);
        for (int i = 0; i < w.split_count; ++i) {
          if (w.splits[i].state == Split::kAtSync) w.splits[i].state = Split::kReady;
        }
        CheckBarriers();
        break;
      case Stop::kBlocked:
        break;
      case Stop::kReschedule:
        if (w.slice <= 0) {
          split.turn = ++w.turn;
          split.slice = kSlice;
          return true;
        }
        break;
    }
  }
}

Block::Outcome Block::Run(bool may_yield) {
  for (;;) {
    bool ran = false, live = false;
    for (Warp& w : warps) {
      if (w.done) continue;
      ran |= RunWarp(w);
      if (fault != Fault::kNone) return Outcome::kFault;
      live |= !w.done;
    }
    if (!live) return Outcome::kDone;
    if (!ran) {
      for (Warp& w : warps) {
        if (w.done) continue;
        const Split& s = w.splits[0];
        w.fault = Fault::kTrap;
        w.fault_text =
            "the threads of the block wait for one another for ever (barrier or warp synchronisation that others never "
            "reach)";
        w.fault_lane = static_cast<uint32_t>(std::countr_zero(s.mask));
        Fail(w, s.state == Split::kAtBarrier ? s.barrier_inst : s.pc);
        return Outcome::kFault;
      }
    }
    if (config->cancel != nullptr && config->cancel->load(std::memory_order_relaxed)) {
      fault = Fault::kCancelled;
      message = "the launch was cancelled";
      return Outcome::kFault;
    }
    if (may_yield) return Outcome::kYielded;
  }
}

// ---- barriers ----
void Block::CheckBarriers() {
  for (int id = 0; id < 16; ++id) {
    if (barriers[static_cast<size_t>(id)].active) CheckBarrier(id);
  }
}

void Block::CheckBarrier(int id) {
  Barrier& b = barriers[static_cast<size_t>(id)];
  if (b.expected == 0) {
    for (const Warp& w : warps) {
      if (w.live & ~b.arrived[w.index]) return;
    }
  } else {
    // Threads are counted in whole warps: exited lanes of a warp that has arrived count, too.
    uint32_t threads = 0;
    for (const Warp& w : warps) {
      uint32_t arrived = b.arrived[w.index];
      if (arrived != 0) threads += (w.live & ~arrived) == 0 ? kLanes : static_cast<uint32_t>(std::popcount(arrived));
    }
    if (threads < b.expected) return;
  }
  const Barrier done = b;
  b = Barrier{};
  for (Warp& w : warps) {
    for (int i = 0; i < w.split_count; ++i) {
      Split& s = w.splits[i];
      if (s.state != Split::kAtBarrier || s.barrier != id) continue;
      s.state = Split::kReady;
      const Inst* in = s.barrier_inst;
      auto kind = static_cast<BarrierKind>(in->flags & 15);
      if (kind == BarrierKind::kPopc) {
        auto* d = reinterpret_cast<uint32_t*>(s.frame->registers + (in->d & 0x3fffffffu));
        for (uint32_t m = s.mask; m != 0; m &= m - 1) d[std::countr_zero(m)] = done.count;
      } else if (kind == BarrierKind::kAnd || kind == BarrierKind::kOr) {
        auto* d = reinterpret_cast<uint32_t*>(s.frame->registers + (in->d & 0x3fffffffu));
        bool yes = kind == BarrierKind::kAnd ? done.all : done.any;
        *d = yes ? *d | s.mask : *d & ~s.mask;
      }
    }
  }
}

}  // namespace tf::simgpu::ptx
