// Sleeping on a word of memory that two processes share, and waking who sleeps there. Wakes can be spurious.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace tf::link {

// Sleeps while the word is `seen`, `limit` at most.
inline void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds limit) {
  timespec time{.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000), .tv_nsec = limit.count() % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

inline void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// A sleeper says so in `parked`, looks once more for what it waits for, and sleeps while `bell` is what it was before
// that look. The other side makes its news visible, and then pays for a system call only if somebody sleeps. Both go
// through a read-modify-write of `parked`: either the ringer sees the sleeper, or the sleeper sees the news.
struct Doorbell {
  std::atomic<uint32_t> parked;
  std::atomic<uint32_t> bell;

  void Ring() {
    if (parked.exchange(0, std::memory_order_acq_rel) != 0) RingAlways();
  }
  void RingAlways() {
    bell.fetch_add(1, std::memory_order_release);
    FutexWakeAll(bell);
  }
};

}  // namespace tf::link
