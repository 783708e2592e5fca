#include "simgpu/ptx/executor.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "simgpu/ptx/block.h"

namespace tf::simgpu::ptx {
namespace {

// One launch. Threads take block numbers from it until none are left.
struct Job {
  const Program* program;
  int kernel;
  const LaunchConfig* config;
  uint64_t blocks;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::atomic<bool> paused{false};  // no further block begins
  std::atomic<uint64_t> lane_operations{0};
  int helpers = 0;  // guarded by the pool's mutex
  std::mutex mutex;
  LaunchResult result;

  void Fail(Fault fault, uint64_t address, std::string message) {
    std::lock_guard lock(mutex);
    if (result.fault != Fault::kNone) return;
    result.fault = fault;
    result.fault_address = address;
    result.message = std::move(message);
    failed = true;
  }

  // Whether another block may begin.
  bool Goes() {
    if (failed.load(std::memory_order_relaxed) || paused.load(std::memory_order_relaxed)) return false;
    if (config->pause && config->pause()) paused = true;
    return !paused;
  }
};

bool PrepareOrFail(Job& job, Block& block) {
  if (block.Prepare(*job.program, job.kernel, *job.config)) return true;
  job.Fail(Fault::kStackError, 0, "not enough host memory for the registers and local memory of a block");
  return false;
}

void RunBlocks(Job& job, Block& block) {
  bool prepared = false;
  while (job.Goes()) {
    uint64_t number = job.next.fetch_add(1, std::memory_order_relaxed);
    if (number >= job.blocks) break;
    if (!prepared && !PrepareOrFail(job, block)) return;
    prepared = true;
    block.Start(number);
    Block::Outcome outcome;
    do outcome = block.Run(true);
    while (outcome == Block::Outcome::kYielded && !job.failed.load(std::memory_order_relaxed));
    if (outcome == Block::Outcome::kFault) job.Fail(block.fault, block.fault_address, block.message);
  }
  if (prepared) job.lane_operations += block.lane_operations;
}

// All blocks are under way at once: each thread goes round its own.
void RunResident(Job& job) {
  std::deque<Block> blocks;
  std::vector<Block*> running;
  while (!job.failed.load(std::memory_order_relaxed)) {
    uint64_t number = job.next.load();
    if (number < job.blocks && job.next.compare_exchange_strong(number, number + 1)) {
      Block& block = blocks.emplace_back();
      if (!PrepareOrFail(job, block)) return;
      block.Start(number);
      running.push_back(&block);
    } else if (running.empty() && number >= job.blocks) {
      break;
    }
    for (size_t i = 0; i < running.size();) {
      Block::Outcome outcome = running[i]->Run(true);
      if (outcome == Block::Outcome::kYielded) {
        ++i;
        continue;
      }
      if (outcome == Block::Outcome::kFault)
        job.Fail(running[i]->fault, running[i]->fault_address, running[i]->message);
      job.lane_operations += running[i]->lane_operations;
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

}  // namespace

class Executor::Pool {
 public:
  explicit Pool(int threads) {
    if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { Help(); });
  }

  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  void Run(Job& job) {
    const bool shared = job.blocks > 1 && !threads_.empty();
    if (shared) {
      std::lock_guard lock(mutex_);
      jobs_.push_back(&job);
      if (job.blocks > 2) {
        wake_.notify_all();
      } else {
        wake_.notify_one();
      }
    }
    Work(job);
    if (shared) {
      std::unique_lock lock(mutex_);
      std::erase(jobs_, &job);
      idle_.wait(lock, [&] { return job.helpers == 0; });
    }
    job.result.lane_operations = job.lane_operations;
  }

 private:
  void Work(Job& job) {
    if (job.config->cooperative) return RunResident(job);
    std::unique_ptr<Block> block = Take();
    RunBlocks(job, *block);
    Give(std::move(block));
  }

  void Help() {
    std::unique_lock lock(mutex_);
    for (;;) {
      Job* job = nullptr;
      // From the launch with the fewest helpers, so that concurrent launches advance together.
      for (Job* candidate : jobs_) {
        if (candidate->next.load(std::memory_order_relaxed) >= candidate->blocks || candidate->failed ||
            candidate->paused) {
          continue;
        }
        if (job == nullptr || candidate->helpers < job->helpers) job = candidate;
      }
      if (job == nullptr) {
        if (stop_) return;
        wake_.wait(lock);
        continue;
      }
      ++job->helpers;
      lock.unlock();
      Work(*job);
      lock.lock();
      if (--job->helpers == 0) idle_.notify_all();
    }
  }

  // The memory of blocks is kept for the next launch.
  std::unique_ptr<Block> Take() {
    std::lock_guard lock(spare_mutex_);
    if (spare_.empty()) return std::make_unique<Block>();
    std::unique_ptr<Block> block = std::move(spare_.back());
    spare_.pop_back();
    return block;
  }
  void Give(std::unique_ptr<Block> block) {
    block->ForgetFrames();
    std::lock_guard lock(spare_mutex_);
    spare_.push_back(std::move(block));
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::vector<Job*> jobs_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
  std::mutex spare_mutex_;
  std::vector<std::unique_ptr<Block>> spare_;
};

Executor::Executor(int threads) : pool_(std::make_unique<Pool>(threads)) {}
Executor::~Executor() = default;

LaunchResult Executor::Run(const Program& program, int kernel, const LaunchConfig& config) {
  Job job;
  job.program = &program;
  job.kernel = kernel;
  job.config = &config;
  job.blocks = uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
  job.next = config.first_block;
  pool_->Run(job);
  job.result.next_block = std::min(job.next.load(), job.blocks);
  return std::move(job.result);
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
