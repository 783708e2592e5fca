#include "kube/metrics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, TheSameNameAndLabelsAreTheSameCounter) {
  Metrics metrics;
  metrics.Counter("a_total", "of a", {{"kind", "x"}}).Increment();
  metrics.Counter("a_total", "of a", {{"kind", "x"}}).Increment();
  metrics.Counter("a_total", "of a", {{"kind", "y"}}).Increment();
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("# HELP a_total of a\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE a_total counter\n"));
  EXPECT_THAT(text, HasSubstr("a_total{kind=\"x\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("a_total{kind=\"y\"} 1\n"));
}

TEST(Metrics, LevelsAreWorkedOutWhenSomebodyLooks) {
  Metrics metrics;
  int looks = 0;
  auto hook = metrics.BeforeText([&] { metrics.Gauge("looks", "how often", {}).Set(++looks); });
  EXPECT_THAT(metrics.Text(), HasSubstr("looks 1\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("looks 2\n"));
  hook.reset();
  EXPECT_THAT(metrics.Text(), HasSubstr("looks 2\n"));
}

TEST(Metrics, AHookMayOutliveItsMetrics) {
  std::shared_ptr<void> hook;
  {
    Metrics metrics;
    hook = metrics.BeforeText([] {});
  }
  hook.reset();
}

TEST(Metrics, HistogramsHaveTheirBuckets) {
  Metrics metrics;
  metrics.Histogram("wait_seconds", "waiting", {}, ExponentialBuckets(1, 10, 2)).Observe(5);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"10\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("le=\"100\"")));
  EXPECT_THAT(ExponentialBuckets(1, 10, 3), ElementsAre(1, 10, 100));
}

}  // namespace
}  // namespace tf::kube
