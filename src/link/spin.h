// Short busy waiting before a sleep in the kernel.
#pragma once

#include <sched.h>

#include <chrono>

#include "absl/time/time.h"
#include "link/frame.h"

namespace tf::link {

// The permitted time of spinning: none when this process has one core, as the peer could not run meanwhile.
inline std::chrono::nanoseconds SpinTime(absl::Duration wanted) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) < 2) return std::chrono::nanoseconds(0);
  return absl::ToChronoNanoseconds(wanted);
}

// One wait for something that another core is about to do. At first the core is kept, which is what the fastest answers
// need; then it is offered to others at each step, among whom the peer may be.
class Spinner {
 public:
  // `limit` from now on.
  explicit Spinner(std::chrono::nanoseconds limit) : start_(Clock::now()), limit_(limit) {}

  // Call between two looks; false when the time is over.
  bool Again() {
    if (++rounds_ % 32 != 0 && !yield_) {
      Relax();
      return true;
    }
    const std::chrono::nanoseconds passed = Clock::now() - start_;
    if (passed >= limit_) return false;
    yield_ = passed > kKeepCore;
    if (yield_) sched_yield();
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::nanoseconds kKeepCore = std::chrono::microseconds(3);

  static void Relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  const Deadline start_;
  const std::chrono::nanoseconds limit_;
  unsigned rounds_ = 0;
  bool yield_ = false;
};

}  // namespace tf::link
