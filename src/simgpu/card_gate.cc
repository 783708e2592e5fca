#include "simgpu/card_gate.h"

namespace tf::simgpu {

bool CardGate::Enter(const std::atomic<bool>& cancel) {
  std::unique_lock lock(mutex_);
  while (!cancel) {
    if (held_ && !closed_) {
      closed_ = std::chrono::steady_clock::now() - held_since_ > kSlice && member_.Waiting() > 0;
      if (!closed_) {
        ++running_;
        return true;
      }
    }
    if (!held_ && !acquiring_) {
      acquiring_ = true;
      lock.unlock();
      bool acquired = member_.Acquire(cancel);
      lock.lock();
      acquiring_ = false;
      changed_.notify_all();
      if (!acquired) return false;
      held_ = true;
      held_since_ = std::chrono::steady_clock::now();
      ++running_;
      return true;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(50));  // `cancel` is looked at now and then
  }
  return false;
}

bool CardGate::Overdue() {
  if (member_.Waiting() == 0) return false;
  std::lock_guard lock(mutex_);
  closed_ = closed_ || std::chrono::steady_clock::now() - held_since_ > kSlice;
  return closed_;
}

void CardGate::Leave() {
  std::lock_guard lock(mutex_);
  if (--running_ > 0) return;
  held_ = closed_ = false;
  member_.Yield();
  changed_.notify_all();
}

}  // namespace tf::simgpu
