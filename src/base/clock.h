// Time as a dependency: what a program waits for and measures goes through a Clock, so that tests turn the hands.
//
// Two times, as the system has them. Now() is the wall clock: it is for people, files and other machines, and it may
// jump. Monotonic() counts from an arbitrary start, never goes back, and goes on while the process or the machine is
// stopped (CLOCK_BOOTTIME): it is for deadlines and durations. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "absl/time/time.h"

namespace tf {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  virtual absl::Duration Monotonic() const = 0;

  // Waits on `changed`, with `lock` held as std::condition_variable wants it, until `done` holds or Monotonic() reaches
  // `deadline` (InfiniteDuration: no deadline). Returns what `done` says at the end.
  virtual bool WaitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, absl::Duration deadline,
                         const std::function<bool()>& done) = 0;
};

// The system's clocks.
Clock& RealClock();

// A clock that stands still until a test moves it. Moving it wakes everybody who waits for a time that has come.
class SimulatedClock final : public Clock {
 public:
  explicit SimulatedClock(absl::Time now = absl::FromUnixSeconds(1'800'000'000));

  absl::Time Now() const override;
  absl::Duration Monotonic() const override;
  bool WaitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, absl::Duration deadline,
                 const std::function<bool()>& done) override;

  // Both clocks go forward. The caller holds no lock that somebody waits with.
  void Advance(absl::Duration by);
  // Only the wall clock changes, in either direction.
  void SetNow(absl::Time now);
  // Blocks until at least `count` threads wait for a deadline: a test then knows that its subject has come to rest.
  void AwaitWaiters(size_t count) const;

 private:
  struct Waiter {
    std::mutex* mutex;
    std::condition_variable* changed;
    absl::Duration deadline;
    int being_woken = 0;  // by so many calls of Advance; its thread stays in WaitUntil until it is over
  };

  mutable std::mutex mutex_;
  mutable std::condition_variable waiting_;
  std::condition_variable woken_;
  absl::Time now_;
  absl::Duration monotonic_ = absl::ZeroDuration();
  std::vector<Waiter*> waiters_;
};

}  // namespace tf
