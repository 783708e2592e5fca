#include "base/clock.h"

#include <thread>

#include "gtest/gtest.h"

namespace tf {
namespace {

TEST(SimulatedClock, WakesAWaiterAtItsDeadlineAndNotBefore) {
  SimulatedClock clock;
  std::mutex mutex;
  std::condition_variable changed;
  bool answered = false;
  bool answer = true;
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    answer = clock.WaitUntil(lock, changed, absl::Seconds(10), [] { return false; });
    answered = true;
  });
  clock.AwaitWaiters(1);
  clock.Advance(absl::Seconds(9));
  {
    std::lock_guard lock(mutex);
    EXPECT_FALSE(answered);
  }
  clock.Advance(absl::Seconds(1));
  waiter.join();
  EXPECT_TRUE(answered);
  EXPECT_FALSE(answer);
}

TEST(SimulatedClock, AConditionEndsTheWait) {
  SimulatedClock clock;
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
  std::thread other([&] {
    clock.AwaitWaiters(1);
    std::lock_guard lock(mutex);
    ready = true;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(clock.WaitUntil(lock, changed, absl::InfiniteDuration(), [&] { return ready; }));
  }
  other.join();
}

TEST(SimulatedClock, TheWallClockJumpsAlone) {
  SimulatedClock clock(absl::FromUnixSeconds(1000));
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(1005));
  clock.SetNow(absl::FromUnixSeconds(10));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(10));
  EXPECT_EQ(clock.Monotonic(), absl::Seconds(5));
}

TEST(RealClock, TimesOut) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  const absl::Duration start = RealClock().Monotonic();
  EXPECT_FALSE(RealClock().WaitUntil(lock, changed, start + absl::Milliseconds(5), [] { return false; }));
  EXPECT_GE(RealClock().Monotonic() - start, absl::Milliseconds(5));
}

}  // namespace
}  // namespace tf
