#include "kube/event_correlator.h"

#include <map>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::StartsWith;

constexpr absl::Time kWall = absl::FromUnixSeconds(1'800'000'000);

Happening On(std::string_view pod, std::string note) {
  return {.regarding = JsonObject{{"apiVersion", "v1"}, {"kind", "Pod"}, {"namespace", "ns"}, {"name", pod}},
          .type = "Warning",
          .reason = "FailedPlacement",
          .action = "Placing",
          .note = std::move(note)};
}

struct Correlator {
  EventCorrelator events{"operator", "operator-0", {}};
  absl::Duration now;
  EventCorrelator::Outcome Add(const Happening& happening) { return events.Add(happening, now, kWall + now); }
  std::vector<EventCorrelator::Write> Tick() { return events.Tick(now); }
};

TEST(EventCorrelator, TheFirstIsWrittenWhole) {
  Correlator c;
  const auto outcome = c.Add(On("p", "no GPU has 4 GiB left"));
  ASSERT_TRUE(outcome.write);
  EXPECT_TRUE(outcome.write->create);
  const Json& event = outcome.write->event;
  EXPECT_EQ(Namespace(event), "ns");
  EXPECT_THAT(std::string(Name(event)), StartsWith("p."));
  EXPECT_EQ(Text(event, "eventTime"), "2027-01-15T08:00:00.000000Z");
  EXPECT_EQ(Text(event, "reportingComponent"), "operator");
  EXPECT_EQ(Text(event, "reportingInstance"), "operator-0");
  EXPECT_EQ(Text(event, "message"), "no GPU has 4 GiB left");
  EXPECT_EQ(Text(event, "involvedObject.name"), "p");
  EXPECT_EQ(Field(event, "series"), nullptr);
  EXPECT_EQ(Text(event, "firstTimestamp"), "2027-01-15T08:00:00Z");
  EXPECT_EQ(Text(event, "lastTimestamp"), "2027-01-15T08:00:00Z");
  EXPECT_EQ(Number(event, "count"), 1);
  EXPECT_EQ(Text(event, "source.component"), "operator");
}

TEST(EventCorrelator, ClusterScopedObjectsHaveTheirEventsInDefault) {
  Correlator c;
  Happening happening = On("n", "x");
  happening.regarding.as_object().erase("namespace");
  EXPECT_EQ(Namespace(c.Add(happening).write->event), "default");
}

TEST(EventCorrelator, RepetitionsAreASeries) {
  Correlator c;
  const Json first = c.Add(On("p", "x")).write->event;
  c.now += absl::Minutes(1);
  const auto second = c.Add(On("p", "x"));
  ASSERT_TRUE(second.write);
  EXPECT_FALSE(second.write->create);
  EXPECT_EQ(KeyOf(second.write->event), KeyOf(first));
  const Json patch = second.write->SeriesPatch();
  EXPECT_EQ(patch.as_object().size(), 3u);
  EXPECT_EQ(Number(patch, "count"), 2);
  EXPECT_EQ(Text(patch, "lastTimestamp"), "2027-01-15T08:01:00Z");
  EXPECT_EQ(Number(patch, "series.count"), 2);
  EXPECT_EQ(Text(patch, "series.lastObservedTime"), "2027-01-15T08:01:00.000000Z");
  for (int i = 0; i < 3; ++i) {
    c.now += absl::Minutes(5);
    EXPECT_FALSE(c.Add(On("p", "x")).write);
    EXPECT_TRUE(c.Tick().empty());
  }
  c.now += absl::Minutes(6);
  const auto end = c.Tick();
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(Number(end[0].event, "series.count"), 5);
  EXPECT_TRUE(c.Tick().empty());
  const auto again = c.Add(On("p", "x"));
  EXPECT_TRUE(again.write->create) << "a series that has ended does not go on";
}

TEST(EventCorrelator, ASeriesThatGoesOnIsWrittenEveryHalfHour) {
  Correlator c;
  c.Add(On("p", "x"));
  c.Add(On("p", "x"));
  int writes = 0;
  for (int minute = 0; minute < 120; ++minute) {
    c.now += absl::Minutes(1);
    EXPECT_FALSE(c.Add(On("p", "x")).write);
    writes += c.Tick().size();
  }
  EXPECT_EQ(writes, 4);
}

TEST(EventCorrelator, MoreThanTenNotesAreFolded) {
  Correlator c;
  std::set<Key> events;
  int creates = 0, patches = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto outcome = c.Add(On("p", absl::StrCat("took ", i, " ms")));
    EXPECT_FALSE(outcome.dropped);
    if (!outcome.write) continue;
    events.insert(KeyOf(outcome.write->event));
    (outcome.write->create ? creates : patches)++;
    EXPECT_EQ(absl::StartsWith(std::string(Text(outcome.write->event, "message")), "(combined from similar events): "),
              i >= 10);
    c.now += absl::Milliseconds(1);
  }
  EXPECT_EQ(creates, 11);
  EXPECT_EQ(patches, 1);
  c.now += absl::Minutes(6);
  const auto end = c.Tick();
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(Number(end[0].event, "series.count"), 990);
}

TEST(EventCorrelator, NotesCountAnewAfterTenQuietMinutes) {
  Correlator c;
  for (int i = 0; i < 10; ++i) c.Add(On("p", absl::StrCat(i)));
  c.now += absl::Minutes(10) + absl::Seconds(1);
  EXPECT_EQ(Text(c.Add(On("p", "new")).write->event, "message"), "new");
}

TEST(EventCorrelator, EachObjectHasItsOwnBucket) {
  Correlator c;
  int written = 0, dropped = 0;
  for (int i = 0; i < 100; ++i) {
    Happening happening = On("p", "x");
    happening.reason = absl::StrCat("R", i);
    const auto outcome = c.Add(happening);
    written += outcome.write.has_value();
    dropped += outcome.dropped;
  }
  EXPECT_EQ(written, 25);
  EXPECT_EQ(dropped, 75);
  EXPECT_TRUE(c.Add(On("q", "x")).write);
  c.now += absl::Minutes(5);
  EXPECT_TRUE(c.Add(On("p", "x")).write);
  EXPECT_TRUE(c.Add(On("p", "y")).dropped);
}

TEST(EventCorrelator, TextsAreCutToWhatTheServerTakes) {
  Correlator c;
  Happening happening = On(std::string(253, 'n'), std::string(1023, 'a') + "ü");
  happening.reason = std::string(200, 'r');
  happening.action = std::string(200, 'c');
  const Json event = c.Add(happening).write->event;
  EXPECT_EQ(Text(event, "message"), std::string(1023, 'a')) << "no half character";
  EXPECT_EQ(Text(event, "reason").size(), 128u);
  EXPECT_EQ(Text(event, "action").size(), 128u);
  EXPECT_LE(Name(event).size(), 253u);
}

// Whatever comes, writes stay within the buckets (patches of Tick excepted: one per series and half hour), and nothing
// is both written and dropped.
TEST(EventCorrelator, RandomFloodsAreBounded) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    EventCorrelator events("operator", "0", {.remembered = 64});
    absl::Duration now;
    std::map<std::string, int> writes;
    for (int i = 0; i < 20000; ++i) {
      now += absl::Milliseconds(random() % 200);
      const std::string pod = absl::StrCat("p", random() % 5);
      Happening happening = On(pod, absl::StrCat("note ", random() % 50));
      happening.reason = absl::StrCat("R", random() % 3);
      const auto outcome = events.Add(happening, now, kWall + now);
      ASSERT_FALSE(outcome.dropped && outcome.write);
      writes[pod] += outcome.write.has_value();
      if (i % 500 == 0) {
        ASSERT_LE(events.Tick(now).size(), 64u);
      }
    }
    for (const auto& [pod, count] : writes) EXPECT_LE(count, 25 + absl::FDivDuration(now, absl::Minutes(5)));
  }
}

}  // namespace
}  // namespace tf::kube
