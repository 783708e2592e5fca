#include "kube/work_queue.h"

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;

Key Named(int i) { return {"ns", absl::StrCat("k", i)}; }

struct Queue {
  SimulatedClock clock;
  Metrics metrics;
  WorkQueue queue;
  explicit Queue(RetryLimits retry = {})
      : queue({.name = "pods", .retry = retry, .clock = &clock, .metrics = &metrics}) {}
};

TEST(WorkQueue, HandsOutInTheOrderOfArrivalAndEachKeyOnce) {
  Queue q;
  q.queue.Add(Named(1));
  q.queue.Add(Named(2));
  q.queue.Add(Named(1));
  EXPECT_EQ(q.queue.size(), 2u);
  EXPECT_EQ(q.queue.Get(), Named(1));
  EXPECT_EQ(q.queue.Get(), Named(2));
  EXPECT_EQ(q.queue.size(), 0u);
}

TEST(WorkQueue, AKeyAddedWhileAWorkerHasItComesBackAfterDone) {
  Queue q;
  q.queue.Add(Named(1));
  EXPECT_EQ(q.queue.Get(), Named(1));
  q.queue.Add(Named(1));
  q.queue.Add(Named(1));
  EXPECT_EQ(q.queue.size(), 0u);
  q.queue.Done(Named(1));
  EXPECT_EQ(q.queue.size(), 1u);
  EXPECT_EQ(q.queue.Get(), Named(1));
  q.queue.Done(Named(1));
  EXPECT_EQ(q.queue.size(), 0u);
}

TEST(WorkQueue, OfSeveralDelaysTheEarliestCounts) {
  Queue q;
  q.queue.AddAfter(Named(1), absl::Seconds(10));
  q.queue.AddAfter(Named(1), absl::Seconds(3));
  q.queue.AddAfter(Named(1), absl::Seconds(7));
  std::optional<Key> got;
  std::thread worker([&] { got = q.queue.Get(); });
  q.clock.AwaitWaiters(1);
  q.clock.Advance(absl::Seconds(3));
  worker.join();
  EXPECT_EQ(got, Named(1));
  q.queue.Done(Named(1));
  q.clock.Advance(absl::Seconds(20));
  q.queue.Add(Named(2));  // moves what is due
  EXPECT_EQ(q.queue.Get(), Named(2)) << "the later delays of key 1 were merged away";
}

TEST(WorkQueue, AnEarlierDelayWakesWorkersThatWaitForALaterOne) {
  Queue q;
  q.queue.AddAfter(Named(1), absl::Seconds(100));
  std::optional<Key> got;
  std::thread worker([&] { got = q.queue.Get(); });
  q.clock.AwaitWaiters(1);
  q.queue.AddAfter(Named(2), absl::Seconds(1));
  q.clock.Advance(absl::Seconds(1));
  worker.join();
  EXPECT_EQ(got, Named(2));
}

TEST(WorkQueue, ADelayIsNotForgottenWhenTheWorkerThatWaitedForItIsCalledAway) {
  Queue q;
  std::atomic<int> served = 0;
  std::vector<std::thread> workers;
  for (int i = 0; i < 2; ++i) {
    workers.emplace_back([&] {
      if (q.queue.Get()) ++served;  // and never comes back
    });
  }
  q.clock.AwaitWaiters(2);
  q.queue.AddAfter(Named(1), absl::Seconds(1));
  q.queue.Add(Named(2));
  while (served < 1) std::this_thread::yield();
  q.clock.AwaitWaiters(1);
  q.clock.Advance(absl::Seconds(1));
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(served, 2);
}

TEST(WorkQueue, FailuresBackOffByTheKeysOwnCount) {
  Queue q({.per_second = 1000, .burst = 1000});
  for (int i = 0; i < 10; ++i) {
    q.queue.AddRateLimited(Named(1));
    EXPECT_EQ(q.queue.size(), 0u);
    q.clock.Advance(absl::Milliseconds(5) * (1 << i) - absl::Microseconds(1));
    q.queue.Add(Named(9));
    EXPECT_EQ(q.queue.Get(), Named(9)) << "failure " << i << " came back too early";
    q.queue.Done(Named(9));
    q.clock.Advance(absl::Microseconds(1));
    EXPECT_EQ(q.queue.Get(), Named(1));
    q.queue.Done(Named(1));
  }
  EXPECT_EQ(q.queue.Failures(Named(1)), 10);
  q.queue.Forget(Named(1));
  EXPECT_EQ(q.queue.Failures(Named(1)), 0);
  q.queue.AddRateLimited(Named(1));
  q.clock.Advance(absl::Milliseconds(5));
  EXPECT_EQ(q.queue.Get(), Named(1));
}

TEST(WorkQueue, BackOffEndsAtTheLongest) {
  Queue q({.longest = absl::Seconds(1000), .per_second = 1e9, .burst = 1000});
  for (int i = 0; i < 100; ++i) {
    q.queue.AddRateLimited(Named(1));
    q.clock.Advance(absl::Seconds(1000));
    ASSERT_EQ(q.queue.Get(), Named(1));
    q.queue.Done(Named(1));
  }
}

TEST(WorkQueue, ManyKeysThatFailShareABucket) {
  Queue q({.first = absl::Microseconds(1), .per_second = 10, .burst = 3});
  for (int i = 0; i < 5; ++i) q.queue.AddRateLimited(Named(i));
  q.clock.Advance(absl::Milliseconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(q.queue.Get(), Named(i));
  q.clock.Advance(absl::Milliseconds(98));
  EXPECT_EQ(q.queue.size(), 0u);
  q.clock.Advance(absl::Milliseconds(1));
  EXPECT_EQ(q.queue.Get(), Named(3));
  q.clock.Advance(absl::Milliseconds(100));
  EXPECT_EQ(q.queue.Get(), Named(4));
}

TEST(WorkQueue, ShutDownAtOnceHandsOutNothingMore) {
  Queue q;
  q.queue.Add(Named(1));
  q.queue.AddAfter(Named(2), absl::Seconds(1));
  q.queue.ShutDown();
  EXPECT_EQ(q.queue.Get(), std::nullopt);
  q.queue.Add(Named(3));
  EXPECT_EQ(q.queue.Get(), std::nullopt);
}

TEST(WorkQueue, ShutDownEndsWhoeverWaits) {
  Queue q;
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; ++i) workers.emplace_back([&] { EXPECT_EQ(q.queue.Get(), std::nullopt); });
  q.clock.AwaitWaiters(3);
  q.queue.ShutDown();
  for (std::thread& worker : workers) worker.join();
}

TEST(WorkQueue, DrainingFinishesWhatWaitsAndWhatComesBack) {
  Queue q;
  q.queue.Add(Named(1));
  q.queue.Add(Named(2));
  q.queue.AddAfter(Named(3), absl::Seconds(1));
  EXPECT_EQ(q.queue.Get(), Named(1));
  q.queue.Add(Named(1));  // changed while a worker has it
  std::atomic<bool> drained = false;
  std::thread stopper([&] {
    q.queue.ShutDown(/*drain=*/true);
    drained = true;
  });
  EXPECT_EQ(q.queue.Get(), Named(2));
  q.queue.Done(Named(2));
  EXPECT_FALSE(drained);
  q.queue.Done(Named(1));
  EXPECT_EQ(q.queue.Get(), Named(1));
  q.queue.Done(Named(1));
  stopper.join();
  EXPECT_EQ(q.queue.Get(), std::nullopt);
}

TEST(WorkQueue, CountsUnderClientGosNames) {
  Queue q;
  q.queue.Add(Named(1));
  q.queue.Add(Named(2));
  q.queue.Add(Named(2));
  q.clock.Advance(absl::Seconds(2));
  EXPECT_EQ(q.queue.Get(), Named(1));
  q.clock.Advance(absl::Seconds(3));
  q.queue.AddRateLimited(Named(3));
  const std::string text = q.metrics.Text();
  const std::string labels = "{controller=\"pods\",name=\"pods\"}";
  EXPECT_THAT(text, HasSubstr(absl::StrCat("workqueue_depth", labels, " 1\n")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("workqueue_adds_total", labels, " 2\n")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("workqueue_queue_duration_seconds_sum", labels, " 2\n")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("workqueue_unfinished_work_seconds", labels, " 3\n")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("workqueue_longest_running_processor_seconds", labels, " 3\n")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("workqueue_retries_total", labels, " 1\n")));
  q.queue.Done(Named(1));
  EXPECT_THAT(q.metrics.Text(), HasSubstr(absl::StrCat("workqueue_work_duration_seconds_sum", labels, " 3\n")));
}

// Random histories: producers raise the version of a key and add it in one of the three ways; workers note the version
// that they see. No key is with two workers at once, no worker sees a version older than one seen before, and at the
// end each key's last version has been seen.
TEST(WorkQueue, RandomHistoriesLoseNothingAndNeverOverlap) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    constexpr int kKeys = 6, kProducers = 3, kWorkers = 4, kSteps = 400;
    Queue q({.first = absl::Milliseconds(1), .per_second = 1000, .burst = 10});
    std::array<std::atomic<int>, kKeys> version{}, seen{}, held{};
    std::atomic<bool> overlapped = false, went_back = false;
    std::vector<std::thread> producers, workers;
    for (int w = 0; w < kWorkers; ++w) {
      workers.emplace_back([&, w] {
        std::mt19937 random(seed * 100 + w);
        while (std::optional<Key> key = q.queue.Get()) {
          const int i = key->name[1] - '0';
          if (held[i].fetch_add(1) != 0) overlapped = true;
          const int now = version[i];
          if (now < seen[i]) went_back = true;
          if (random() % 4 == 0) std::this_thread::yield();
          seen[i] = now;
          held[i].fetch_sub(1);
          if (random() % 8 == 0) {
            q.queue.AddRateLimited(*key);
          } else {
            q.queue.Forget(*key);
          }
          q.queue.Done(*key);
        }
      });
    }
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back([&, p] {
        std::mt19937 random(seed * 1000 + p);
        for (int step = 0; step < kSteps; ++step) {
          const int i = random() % kKeys;
          version[i].fetch_add(1);
          switch (random() % 3) {
            case 0:
              q.queue.Add(Named(i));
              break;
            case 1:
              q.queue.AddAfter(Named(i), absl::Milliseconds(random() % 5));
              break;
            default:
              q.queue.AddRateLimited(Named(i));
          }
          if (random() % 4 == 0) q.clock.Advance(absl::Milliseconds(random() % 3));
        }
      });
    }
    for (std::thread& producer : producers) producer.join();
    // Everything delayed falls due, then everything that waits is worked off.
    auto all_seen = [&] {
      for (int i = 0; i < kKeys; ++i) {
        if (seen[i] != version[i]) return false;
      }
      return true;
    };
    for (int i = 0; i < 100000 && !all_seen(); ++i) {
      q.clock.Advance(absl::Seconds(1));
      std::this_thread::yield();
    }
    EXPECT_TRUE(all_seen()) << "seed " << seed;
    q.queue.ShutDown(/*drain=*/true);
    for (std::thread& worker : workers) worker.join();
    EXPECT_FALSE(overlapped) << "seed " << seed;
    EXPECT_FALSE(went_back) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tf::kube
