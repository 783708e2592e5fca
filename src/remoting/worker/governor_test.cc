#include "remoting/worker/governor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "remoting/worker/books.h"

namespace tf::remoting {
namespace {

TEST(GovernorTest, FirstLaunchNeverWaits) {
  for (int percent : {1, 25, 100}) {
    absl::Time now = absl::UnixEpoch();
    Governor governor(percent, now);
    EXPECT_EQ(governor.Delay(now), absl::ZeroDuration());
  }
}

// Kernels of random length, launched as soon as the governor lets them: the share of time that the card is busy.
double Share(int percent, absl::Duration shortest, absl::Duration longest) {
  std::mt19937 random(percent);
  absl::Time now = absl::UnixEpoch();
  const absl::Time end = now + absl::Seconds(100);
  Governor governor(percent, now);
  absl::Duration busy;
  while (now < end) {
    absl::Duration delay = governor.Delay(now);
    if (delay > absl::ZeroDuration()) {
      now += delay;
      continue;
    }
    absl::Duration kernel = shortest + (longest - shortest) * std::uniform_real_distribution<>(0, 1)(random);
    now += kernel;
    busy += kernel;
    governor.Spend(kernel);
  }
  return absl::FDivDuration(busy, now - absl::UnixEpoch());
}

TEST(GovernorTest, HoldsTheShareForShortAndLongKernels) {
  for (int percent : {1, 5, 25, 50, 75, 99}) {
    EXPECT_NEAR(Share(percent, absl::Microseconds(10), absl::Microseconds(50)), percent / 100.0, 0.01) << percent;
    EXPECT_NEAR(Share(percent, absl::Milliseconds(1), absl::Milliseconds(20)), percent / 100.0, 0.01) << percent;
    EXPECT_NEAR(Share(percent, absl::Milliseconds(100), absl::Milliseconds(150)), percent / 100.0, 0.02) << percent;
  }
}

TEST(GovernorTest, IdleTimeIsNotSavedUp) {
  absl::Time now = absl::UnixEpoch();
  Governor governor(10, now);
  now += absl::Hours(1);
  EXPECT_EQ(governor.Delay(now), absl::ZeroDuration());
  governor.Spend(Governor::kBurst + absl::Milliseconds(10));
  EXPECT_GT(governor.Delay(now), absl::Milliseconds(90));
}

TEST(GovernorTest, OneLongKernelDelaysTheNextByABoundedTime) {
  absl::Time now = absl::UnixEpoch();
  Governor governor(50, now);
  governor.Spend(absl::Hours(1));
  EXPECT_LE(governor.Delay(now), Governor::kMaxDebt * 2 + absl::Milliseconds(1));
}

TEST(GovernorTest, TimeThatGoesBackChangesNothing) {
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  Governor governor(50, now);
  governor.Spend(Governor::kBurst);
  EXPECT_GT(governor.Delay(now - absl::Minutes(1)), absl::ZeroDuration());
  EXPECT_EQ(governor.Delay(now + absl::Seconds(1)), absl::ZeroDuration());
}

TEST(MemoryBooksTest, NotOneByteOverTheLimit) {
  MemoryBooks books(2, 1000);
  EXPECT_TRUE(books.Reserve(0, 600));
  EXPECT_FALSE(books.Reserve(0, 401));
  EXPECT_TRUE(books.Reserve(0, 400));
  EXPECT_FALSE(books.Reserve(0, 1));
  EXPECT_TRUE(books.Reserve(1, 1000));  // each card has its own
  books.Release(0, 600);
  EXPECT_EQ(books.used(0), 400u);
  EXPECT_FALSE(books.Reserve(0, UINT64_MAX));
  EXPECT_FALSE(books.Reserve(0, UINT64_MAX - 399));
}

TEST(MemoryBooksTest, ConcurrentReservationsNeverPassTheLimitTogether) {
  MemoryBooks books(1, 1000);
  std::atomic<int> granted = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) granted += books.Reserve(0, 7);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 1000 / 7);
  EXPECT_EQ(books.used(0), 1000u / 7 * 7);
}

}  // namespace
}  // namespace tf::remoting
