// What all processes of this machine that use the simulated cards share: who holds how much memory of which card, who
// executes on it now, and for how long everybody has.
//
// One file in /dev/shm per user and set of cards (TF_SIM_GPUS and TF_SIM_SEED). Thread-safe and safe against the death
// of any process at any instruction: what a dead process held is given back by whoever looks next. Memory in bytes,
// times in nanoseconds, power in milliwatts, temperature in degrees Celsius, clocks in MHz.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "simgpu/card_model.h"

namespace tf::simgpu {

struct ProcessUse {
  pid_t pid;
  uint64_t memory;
  uint64_t busy_ns;       // time in which its kernels executed, since it began to use the card
  uint32_t busy_percent;  // over the last second
};

struct CardUse {
  uint64_t memory_total, memory_used;
  uint64_t busy_ns;       // never falls: over a window, its growth divided by the window is the utilisation
  uint32_t busy_percent;  // over the last second
  uint32_t memory_busy_percent;
  uint32_t power, power_limit, temperature, clock_sm, clock_memory, fan_percent;
  std::vector<ProcessUse> processes;  // those with a context on the card
};

class CardMember;

class CardState : public std::enable_shared_from_this<CardState> {
 public:
  // Opens or creates the file. Fails with one clear line (a full or missing /dev/shm, a file that is not ours).
  static absl::StatusOr<std::shared_ptr<CardState>> Open(CardList list);
  ~CardState();
  CardState(const CardState&) = delete;
  CardState& operator=(const CardState&) = delete;

  const CardList& list() const { return list_; }
  CardUse Read(int card);

  // Makes this process a user of the card. At most one member per card and process.
  absl::StatusOr<std::unique_ptr<CardMember>> Join(int card);

 private:
  friend class CardMember;
  struct File;
  struct Shared;
  struct Slot;
  class Lock;

  CardState(CardList list, File* file, size_t bytes) : list_(std::move(list)), file_(file), bytes_(bytes) {}
  static void Drop(Shared& card, uint32_t slot);
  static void Grant(Shared& card);
  static void Reap(Shared& card);
  static void CountWaiting(Shared& card);
  static uint64_t Used(const Shared& card);

  CardList list_;
  File* file_;
  size_t bytes_;
};

// This process as a user of one card. Leaves the card when destroyed.
class CardMember {
 public:
  ~CardMember();
  CardMember(const CardMember&) = delete;
  CardMember& operator=(const CardMember&) = delete;

  // Takes memory of the card; false when what all processes hold leaves too little.
  bool Reserve(uint64_t bytes);
  void Release(uint64_t bytes);
  void Info(uint64_t* free, uint64_t* total);

  // The right to execute, which one process has at a time, in the order of asking. Not recursive; one thread at a time.
  // Returns false when `cancel` became true while waiting. The time from Acquire to Yield counts as busy.
  bool Acquire(const std::atomic<bool>& cancel);
  void Yield();
  // How many processes wait for the card. Cheap: one load.
  int Waiting() const;

 private:
  friend class CardState;
  CardMember(std::shared_ptr<CardState> state, int card, uint32_t slot);
  CardState::Shared& shared() const;

  std::shared_ptr<CardState> state_;
  const int card_;
  const uint32_t slot_;
  const pid_t pid_;
};

}  // namespace tf::simgpu
