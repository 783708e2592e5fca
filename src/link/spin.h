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

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace tf::link
