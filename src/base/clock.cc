#include "base/clock.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace tf {
namespace {

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }

  absl::Duration Monotonic() const override {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return absl::DurationFromTimespec(now);
  }

  bool WaitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, absl::Duration deadline,
                 const std::function<bool()>& done) override {
    while (!done()) {
      if (deadline == absl::InfiniteDuration()) {
        changed.wait(lock);
        continue;
      }
      const absl::Duration left = deadline - Monotonic();
      if (left <= absl::ZeroDuration()) return false;
      // The condition variable counts on another clock, which stands still in suspend: look again now and then.
      changed.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, absl::Seconds(60))));
    }
    return true;
  }
};

}  // namespace

Clock& RealClock() {
  static SystemClock clock;
  return clock;
}

SimulatedClock::SimulatedClock(absl::Time now) : now_(now) {}

absl::Time SimulatedClock::Now() const {
  std::lock_guard lock(mutex_);
  return now_;
}

absl::Duration SimulatedClock::Monotonic() const {
  std::lock_guard lock(mutex_);
  return monotonic_;
}

bool SimulatedClock::WaitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                               absl::Duration deadline, const std::function<bool()>& done) {
  Waiter waiter{lock.mutex(), &changed, deadline};
  {
    std::lock_guard own(mutex_);
    waiters_.push_back(&waiter);
    waiting_.notify_all();
  }
  while (true) {
    bool result;
    while (!(result = done()) && Monotonic() < deadline) changed.wait(lock);
    std::unique_lock own(mutex_);
    if (waiter.being_woken == 0) {
      std::erase(waiters_, &waiter);
      return result;
    }
    // Advance is about to use the caller's mutex, which may not outlive this call: let it, then look again.
    lock.unlock();
    woken_.wait(own, [&] { return waiter.being_woken == 0; });
    own.unlock();
    lock.lock();
  }
}

void SimulatedClock::Advance(absl::Duration by) {
  std::vector<Waiter*> due;
  {
    std::lock_guard lock(mutex_);
    now_ += by;
    monotonic_ += by;
    for (Waiter* waiter : waiters_) {
      if (waiter->deadline > monotonic_) continue;
      ++waiter->being_woken;
      due.push_back(waiter);
    }
  }
  for (Waiter* waiter : due) {
    // Holding its mutex for a moment: the waiter is either before its look at the time or asleep, not between the two.
    {
      std::lock_guard lock(*waiter->mutex);
    }
    waiter->changed->notify_all();
    std::lock_guard lock(mutex_);
    --waiter->being_woken;
    woken_.notify_all();
  }
}

void SimulatedClock::SetNow(absl::Time now) {
  std::lock_guard lock(mutex_);
  now_ = now;
}

void SimulatedClock::AwaitWaiters(size_t count) const {
  std::unique_lock lock(mutex_);
  waiting_.wait(lock, [&] { return waiters_.size() >= count; });
}

}  // namespace tf
