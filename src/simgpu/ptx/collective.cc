// Operations among the lanes of a warp: shuffles, votes, matches, reductions. Each waits until all live lanes that its
// mask (slot e) names have come, brings their values together, and then gives each lane its result. The two steps are
// apart so that lanes which stand at different instructions of one kind can still act together (Block::FinishSync).
#include <bit>

#include "simgpu/ptx/block.h"

namespace tf::simgpu::ptx {
namespace {

template <typename F>
void Each(uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(static_cast<uint32_t>(std::countr_zero(mask)));
}

// Whether all partners of the executing lanes are here; if not, the split waits.
bool Together(Warp& w, const Inst* in) {
  const uint32_t* members = w.At<uint32_t>(in->e);
  bool complete = true;
  Each(w.mask, [&](uint32_t i) { complete &= (members[i] & w.live & ~w.mask) == 0; });
  if (!complete) {
    w.splits[w.current].state = Split::kAtSync;
    StopAt(w, Stop::kBlocked, in);
    return false;
  }
  w.collective.lanes = 0;
  w.collective.predicate = 0;
  return true;
}

// Gather(lane) records a lane's value, finish(lane) computes its result.
template <typename Gather, typename Finish>
const Inst* Act(Warp& w, const Inst* in, Gather gather, Finish finish) {
  Collective& c = w.collective;
  if (c.phase == Collective::kWhole && !Together(w, in)) return kStop;
  if (c.phase != Collective::kFinish) {
    c.lanes |= w.mask;
    Each(w.mask, gather);
  }
  if (c.phase != Collective::kGather) Each(w.mask, finish);
  return in + 1;
}

void SetLane(Warp& w, Slot slot, uint32_t lane, bool value) {
  uint32_t* p = w.At<uint32_t>(slot);
  *p = value ? *p | (1u << lane) : *p & ~(1u << lane);
}

}  // namespace

const Inst* RunActiveMask(Warp& w, const Inst* in) {
  uint32_t* d = w.At<uint32_t>(in->d);
  Each(w.mask, [&](uint32_t i) { d[i] = w.mask; });
  return in + 1;
}

const Inst* RunSyncWarp(Warp& w, const Inst* in) {
  return Act(w, in, [](uint32_t) {}, [](uint32_t) {});
}

// a: value, b: lane or distance, c: clamp and segment; d: result, predicate in the list entry aux if imm is 1.
const Inst* RunShuffle(Warp& w, const Inst* in) {
  auto kind = static_cast<ShuffleKind>(in->flags);
  const uint32_t *a = w.At<uint32_t>(in->a), *b = w.At<uint32_t>(in->b), *c = w.At<uint32_t>(in->c);
  uint32_t* d = in->d == kNoSlot ? nullptr : w.At<uint32_t>(in->d);
  return Act(
      w, in, [&](uint32_t i) { w.collective.value[i] = a[i]; },
      [&](uint32_t i) {
        uint32_t by = b[i] & 31, segment = (c[i] >> 8) & 31, clamp = c[i] & 31;
        uint32_t last = (i & segment) | (clamp & ~segment), first = i & segment;
        uint32_t from;
        bool inside;
        switch (kind) {
          case ShuffleKind::kUp:
            from = i - by;
            inside = static_cast<int32_t>(from) >= static_cast<int32_t>(last);
            break;
          case ShuffleKind::kDown:
            from = i + by;
            inside = from <= last;
            break;
          case ShuffleKind::kBfly:
            from = i ^ by;
            inside = from <= last;
            break;
          default:
            from = first | (by & ~segment);
            inside = from <= last;
            break;
        }
        if (!inside) from = i;
        // A lane that does not take part has nothing defined to give; its own value stands in.
        if (d != nullptr) d[i] = static_cast<uint32_t>(w.collective.value[(w.collective.lanes >> from) & 1 ? from : i]);
        if (in->imm == 1) SetLane(w, in->aux, i, inside);
      });
}

// a: predicate
const Inst* RunVote(Warp& w, const Inst* in) {
  auto kind = static_cast<VoteKind>(in->flags & 15);
  uint32_t p = *w.At<uint32_t>(in->a) ^ (in->flags & kNegatedOperand ? kAllLanes : 0);
  const uint32_t* members = w.At<uint32_t>(in->e);
  return Act(
      w, in, [&](uint32_t i) { w.collective.predicate |= p & (1u << i); },
      [&](uint32_t i) {
        uint32_t lanes = members[i] & w.collective.lanes, yes = w.collective.predicate & lanes;
        switch (kind) {
          case VoteKind::kAll:
            SetLane(w, in->d, i, yes == lanes);
            break;
          case VoteKind::kAny:
            SetLane(w, in->d, i, yes != 0);
            break;
          case VoteKind::kUni:
            SetLane(w, in->d, i, yes == 0 || yes == lanes);
            break;
          case VoteKind::kBallot:
            w.At<uint32_t>(in->d)[i] = yes;
            break;
        }
      });
}

// a: value; d: mask; predicate (all) in aux if imm is 1
const Inst* RunMatch(Warp& w, const Inst* in) {
  const uint32_t* members = w.At<uint32_t>(in->e);
  Collective& c = w.collective;
  return Act(
      w, in,
      [&](uint32_t i) { c.value[i] = in->flags & kMatchWide ? w.At<uint64_t>(in->a)[i] : w.At<uint32_t>(in->a)[i]; },
      [&](uint32_t i) {
        uint32_t lanes = members[i] & c.lanes, same = 0;
        Each(lanes, [&](uint32_t k) { same |= static_cast<uint32_t>(c.value[k] == c.value[i]) << k; });
        if (in->flags & kMatchAll) {
          bool all = same == lanes;
          if (in->d != kNoSlot) w.At<uint32_t>(in->d)[i] = all ? lanes : 0;
          if (in->imm == 1) SetLane(w, in->aux, i, all);
        } else {
          w.At<uint32_t>(in->d)[i] = same;
        }
      });
}

const Inst* RunReduce(Warp& w, const Inst* in) {
  const uint32_t* members = w.At<uint32_t>(in->e);
  const uint32_t* a = w.At<uint32_t>(in->a);
  uint32_t* d = w.At<uint32_t>(in->d);
  Collective& c = w.collective;
  return Act(
      w, in, [&](uint32_t i) { c.value[i] = a[i]; },
      [&](uint32_t i) {
        auto r = static_cast<uint32_t>(c.value[i]);
        Each(members[i] & c.lanes & ~(1u << i), [&](uint32_t k) {
          auto v = static_cast<uint32_t>(c.value[k]);
          auto rs = static_cast<int32_t>(r), vs = static_cast<int32_t>(v);
          switch (static_cast<ReduceKind>(in->flags)) {
            case ReduceKind::kAddU:
              r += v;
              break;
            case ReduceKind::kMinU:
              r = v < r ? v : r;
              break;
            case ReduceKind::kMaxU:
              r = v > r ? v : r;
              break;
            case ReduceKind::kMinS:
              r = vs < rs ? v : r;
              break;
            case ReduceKind::kMaxS:
              r = vs > rs ? v : r;
              break;
            case ReduceKind::kAnd:
              r &= v;
              break;
            case ReduceKind::kOr:
              r |= v;
              break;
            case ReduceKind::kXor:
              r ^= v;
              break;
          }
        });
        d[i] = r;
      });
}

// d: the elected lane (or none); predicate in aux
const Inst* RunElect(Warp& w, const Inst* in) {
  const uint32_t* members = w.At<uint32_t>(in->e);
  return Act(
      w, in, [](uint32_t) {},
      [&](uint32_t i) {
        auto leader = static_cast<uint32_t>(std::countr_zero(members[i] & w.collective.lanes));
        if (in->d != kNoSlot) w.At<uint32_t>(in->d)[i] = leader;
        SetLane(w, in->aux, i, leader == i);
      });
}

}  // namespace tf::simgpu::ptx
