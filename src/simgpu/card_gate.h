// Kernels of this process take their turn on a card: while one executes the process holds the card, several may share
// the hold, and when other processes wait it is handed on after kSlice at the next end of a kernel. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "simgpu/card_state.h"

namespace tf::simgpu {

class CardGate {
 public:
  static constexpr std::chrono::milliseconds kSlice{2};

  explicit CardGate(CardMember& member) : member_(member) {}

  // Blocks until this process has the card; false when `cancel` became true. Each true is followed by Leave.
  bool Enter(const std::atomic<bool>& cancel);
  void Leave();
  // Asked by kernels inside between blocks: whether they should leave and enter again, because others wait. Cheap while
  // nobody does.
  bool Overdue();

 private:
  CardMember& member_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;         // kernels inside
  bool held_ = false;       // the process has the card
  bool acquiring_ = false;  // one thread waits for the card
  bool closed_ = false;     // nobody enters until the card was handed on
  std::chrono::steady_clock::time_point held_since_;
};

}  // namespace tf::simgpu
