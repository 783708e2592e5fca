// One block of threads in execution: its warps, barriers and memory.
//
// A warp is a set of splits, lanes that are at the same place. The deepest call runs first, then the lowest address, so
// that lanes which parted meet again as early as their code allows; splits that meet become one. A split that goes
// round a loop for too long (a lane that spins on a lock another lane holds) goes behind the others.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "simgpu/ptx/executor.h"
#include "simgpu/ptx/warp.h"

namespace tf::simgpu::ptx {

// Zeroed memory whose pages exist only once touched.
class ZeroBuffer {
 public:
  ZeroBuffer() = default;
  ZeroBuffer(const ZeroBuffer&) = delete;
  ZeroBuffer& operator=(const ZeroBuffer&) = delete;
  ~ZeroBuffer();
  // At least `bytes`; false: no memory. Contents are zeros after growth.
  bool Reserve(size_t bytes);
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

struct Barrier {
  bool active = false;
  uint32_t expected = 0;          // threads; 0: all of the block
  uint32_t arrived[kLanes] = {};  // lanes of each warp
  uint32_t count = 0;             // lanes whose predicate held
  bool all = true, any = false;
};

struct Block {
  // What is the same for all blocks of a launch. False: not enough memory.
  bool Prepare(const Program& program, int kernel, const LaunchConfig& config);
  void Start(uint64_t number);

  enum class Outcome { kDone, kYielded, kFault };
  // Until the block has finished, failed, or (if asked) has used its time or can only wait for other blocks.
  Outcome Run(bool may_yield);

  // For handlers.
  void Diverge(Warp& w, uint32_t lanes, const Inst* pc);
  Frame* NewFrame(const FunctionCode& function);
  void Release(Frame* frame);
  void Enter(Warp& w, Frame* frame);
  void CheckBarrier(int id);
  void CheckBarriers();
  void ForgetFrames();  // of calls; they belong to one program

  const Program* program = nullptr;
  const Module* module = nullptr;
  const LaunchConfig* config = nullptr;
  int kernel = 0;
  uint64_t number = 0;
  std::vector<Warp> warps;
  std::vector<Barrier> barriers;
  uint64_t lane_operations = 0;
  Fault fault = Fault::kNone;
  uint64_t fault_address = 0;
  std::string message;

 private:
  bool RunWarp(Warp& w);
  int Pick(Warp& w);
  void Merge(Warp& w);
  bool FinishSync(Warp& w);
  void RemoveSplit(Warp& w, int index);
  bool MergeFrames(Frame& into, Frame& from, uint32_t lanes);
  void Fail(const Warp& w, const Inst* at);

  ZeroBuffer registers_, shared_, local_, parameters_;
  std::unique_ptr<Specials[]> specials_;
  size_t specials_count_ = 0;
  std::unordered_map<const FunctionCode*, std::vector<Frame*>> free_frames_;
  std::deque<Frame> frames_;
  std::deque<ZeroBuffer> frame_registers_;
  std::vector<Frame> kernel_frames_;
};

// Handlers that steer control flow or make the lanes of a warp act together (control.cc, collective.cc).
const Inst* RunPredicated(Warp& w, const Inst* in);  // any instruction that stays in its lane
const Inst* RunPredicatedSplit(Warp& w,
                               const Inst* in);  // all others: lanes whose predicate is false part from the rest
const Inst* RunBranch(Warp& w, const Inst* in);
const Inst* RunBranchIf(Warp& w, const Inst* in);
const Inst* RunBranchIndexed(Warp& w, const Inst* in);
const Inst* RunCall(Warp& w, const Inst* in);
const Inst* RunReturn(Warp& w, const Inst* in);
const Inst* RunExit(Warp& w, const Inst* in);
const Inst* RunTrap(Warp& w, const Inst* in);
const Inst* RunBarrier(Warp& w, const Inst* in);
const Inst* RunNothing(Warp& w, const Inst* in);
const Inst* RunFence(Warp& w, const Inst* in);
const Inst* RunPause(Warp& w, const Inst* in);
const Inst* RunActiveMask(Warp& w, const Inst* in);
const Inst* RunSyncWarp(Warp& w, const Inst* in);
const Inst* RunShuffle(Warp& w, const Inst* in);
const Inst* RunVote(Warp& w, const Inst* in);
const Inst* RunMatch(Warp& w, const Inst* in);
const Inst* RunReduce(Warp& w, const Inst* in);
const Inst* RunElect(Warp& w, const Inst* in);
const Inst* RunBuiltin(Warp& w, const Inst* in, const CallSite& site);

enum class BarrierKind : uint32_t { kSync, kArrive, kPopc, kAnd, kOr };
enum class ShuffleKind : uint32_t { kUp, kDown, kBfly, kIdx };
enum class VoteKind : uint32_t { kAll, kAny, kUni, kBallot };
enum class ReduceKind : uint32_t { kAddU, kMinU, kMaxU, kMinS, kMaxS, kAnd, kOr, kXor };
constexpr uint32_t kNegatedOperand = 1 << 8;  // the predicate operand of a barrier or vote
constexpr uint32_t kMatchAll = 1, kMatchWide = 2;

}  // namespace tf::simgpu::ptx
