#include "rollout/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tf::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ReadPolicy, WhatIsMissingIsTheDocumentedDefault) {
  const Policy policy = ReadPolicy(PolicySource{});
  EXPECT_THAT(policy.problems, IsEmpty());
  EXPECT_THAT(policy.auto_update, ElementsAre(false, false, false));
  EXPECT_EQ(policy.batch_percentage, 100);
  EXPECT_EQ(policy.batch_interval, absl::Seconds(1));
  EXPECT_FALSE(policy.paused);
  EXPECT_FALSE(policy.max_unavailable);
  EXPECT_EQ(policy.min_ready, absl::ZeroDuration());
  EXPECT_EQ(policy.progress_deadline, absl::Minutes(10));
  EXPECT_EQ(policy.on_failure, OnFailure::kPause);
  EXPECT_EQ(policy.max_failures, 0);
  EXPECT_FALSE(policy.window_enforced);
}

TEST(ReadPolicy, AWindowThatIsNotEnforcedIsNotLookedAt) {
  PolicySource source;
  source.window_includes = {"2 2 * * *", "nonsense"};
  source.window_time_zone = "Mars/Olympus";
  const Policy policy = ReadPolicy(source);
  EXPECT_TRUE(policy.window_set);
  EXPECT_FALSE(policy.window_enforced);
  EXPECT_THAT(policy.problems, IsEmpty());
  EXPECT_THAT(policy.window.problems(), IsEmpty());
}

TEST(ReadPolicy, AnEnforcedWindowLastsAnHourUnlessItSaysOtherwise) {
  PolicySource source;
  source.window_enforced = true;
  source.window_includes = {"0 2 * * *"};
  const absl::Time two = absl::FromCivil(absl::CivilHour(2026, 3, 1, 2), absl::UTCTimeZone());
  EXPECT_EQ(ReadPolicy(source).window.Closing(two), two + absl::Hours(1));
  source.max_duration = "10m";
  EXPECT_EQ(ReadPolicy(source).window.Closing(two), two + absl::Minutes(10));
}

TEST(ReadPolicy, WhatIsNotAllowedIsNamed) {
  const auto problem = [](void (*change)(PolicySource&)) {
    PolicySource source;
    change(source);
    const Policy policy = ReadPolicy(source);
    return policy.problems.size() == 1 ? policy.problems[0] : std::to_string(policy.problems.size()) + " problems";
  };
  EXPECT_EQ(problem([](PolicySource& s) { s.batch_percentage = 0; }),
            "nodePoolRollingUpdatePolicy.batchPercentage: it is '0'; allowed is a whole number from 1 to 100");
  EXPECT_THAT(problem([](PolicySource& s) { s.batch_percentage = 101; }), HasSubstr("batchPercentage: it is '101'"));
  EXPECT_THAT(problem([](PolicySource& s) { s.batch_percentage = -5; }), HasSubstr("batchPercentage: it is '-5'"));
  EXPECT_THAT(problem([](PolicySource& s) { s.batch_interval = "soon"; }), HasSubstr("batchInterval: it is 'soon'"));
  EXPECT_THAT(problem([](PolicySource& s) { s.batch_interval = "-1s"; }), HasSubstr("0s to 168h"));
  EXPECT_THAT(problem([](PolicySource& s) { s.batch_interval = "inf"; }), HasSubstr("0s to 168h"));
  for (const char* share : {"0", "0%", "101%", "-1", "+1", " 1", "", "%", "1.5", "two", "99999999999999999999"}) {
    PolicySource source;
    source.max_unavailable = share;
    EXPECT_THAT(ReadPolicy(source).problems, ElementsAre(HasSubstr("maxUnavailable"))) << share;
  }
  EXPECT_THAT(problem([](PolicySource& s) { s.min_ready_seconds = -1; }), HasSubstr("minReadySeconds: it is '-1'"));
  EXPECT_THAT(problem([](PolicySource& s) { s.progress_deadline_seconds = 0; }), HasSubstr("progressDeadlineSeconds"));
  EXPECT_THAT(problem([](PolicySource& s) { s.min_ready_seconds = 600; }), HasSubstr("more than minReadySeconds"));
  EXPECT_THAT(problem([](PolicySource& s) { s.on_failure = "Retry"; }), HasSubstr("Pause or Rollback"));
  EXPECT_THAT(problem([](PolicySource& s) { s.max_failures = -1; }), HasSubstr("maxFailures"));
}

// The batches that upstream's arithmetic leads to where the outcome is the same: nodes, percent -> sizes.
TEST(BatchSize, AsUpstreamCounts) {
  struct Case {
    int64_t nodes;
    int64_t percent;
    std::vector<int64_t> batches;
  };
  const Case kCases[] = {
      {10, 20, {2, 2, 2, 2, 2}}, {10, 30, {3, 3, 3, 1}}, {7, 20, {2, 2, 2, 1}}, {10, 33, {4, 4, 2}},
      {5, 60, {3, 2}},           {3, 20, {1, 1, 1}},     {1, 20, {1}},          {4, 100, {4}},
      {95, 30, {29, 29, 29, 8}}, {4, 50, {2, 2}},        {2, 50, {1, 1}},
  };
  for (const Case& c : kCases) {
    std::vector<int64_t> batches;
    for (int64_t left = c.nodes; left > 0; left -= batches.back()) {
      batches.push_back(std::min(left, BatchSize(c.percent, c.nodes)));
    }
    EXPECT_EQ(batches, c.batches) << c.nodes << " nodes, " << c.percent << " %";
  }
}

TEST(BatchSize, IsNeverZeroAndNeverMoreThanAll) {
  EXPECT_EQ(BatchSize(1, 0), 1);
  for (int64_t nodes = 1; nodes <= 300; ++nodes) {
    for (int64_t percent = 1; percent <= 100; ++percent) {
      const int64_t size = BatchSize(percent, nodes);
      ASSERT_GE(size, 1);
      ASSERT_LE(size, nodes);
      ASSERT_GE(size * 100, percent * nodes);
      ASSERT_LT((size - 1) * 100, percent * nodes);
    }
  }
}

TEST(Nodes, OfAShare) {
  EXPECT_EQ(Nodes({3, false}, 10), 3);
  EXPECT_EQ(Nodes({25, true}, 10), 3);
  EXPECT_EQ(Nodes({1, true}, 10), 1);
  EXPECT_EQ(Nodes({1, true}, 0), 1);
}

}  // namespace
}  // namespace tf::rollout
