#include "rollout/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tf::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Time Utc(const char* text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime("%Y-%m-%d %H:%M", text, &time, &error)) << error;
  return time;
}

Window Parse(const std::vector<std::string>& entries, const char* zone, absl::Duration duration) {
  absl::StatusOr<Window> window = ParseWindow(entries, zone, duration);
  EXPECT_TRUE(window.ok()) << window.status();
  return window.ok() ? *window : Window();
}

TEST(Window, IsOpenFromItsOpeningForItsDuration) {
  const Window window = Parse({"0 2 * * *"}, "UTC", absl::Hours(1));
  EXPECT_FALSE(window.IsOpen(Utc("2026-03-01 02:00") - absl::Nanoseconds(1)));
  EXPECT_TRUE(window.IsOpen(Utc("2026-03-01 02:00")));
  EXPECT_TRUE(window.IsOpen(Utc("2026-03-01 03:00") - absl::Nanoseconds(1)));
  EXPECT_FALSE(window.IsOpen(Utc("2026-03-01 03:00")));
  EXPECT_EQ(window.NextOpening(Utc("2026-03-01 01:59")), Utc("2026-03-01 02:00"));
  EXPECT_EQ(window.NextOpening(Utc("2026-03-01 02:00")), Utc("2026-03-02 02:00"));
  EXPECT_EQ(window.Closing(Utc("2026-03-01 02:30")), Utc("2026-03-01 03:00"));
  EXPECT_EQ(window.Closing(Utc("2026-03-01 03:30")), std::nullopt);
}

TEST(Window, IsOpenIfAnyEntryIs) {
  const Window window = Parse({"0 2 * * sat", "0 14 * * wed"}, "UTC", absl::Hours(26));
  EXPECT_TRUE(window.IsOpen(Utc("2026-03-05 15:59")));  // Thursday, of Wednesday's
  EXPECT_FALSE(window.IsOpen(Utc("2026-03-05 16:00")));
  EXPECT_TRUE(window.IsOpen(Utc("2026-03-08 03:59")));  // Sunday, of Saturday's
  EXPECT_FALSE(window.IsOpen(Utc("2026-03-08 04:00")));
  EXPECT_EQ(window.NextOpening(Utc("2026-03-05 16:00")), Utc("2026-03-07 02:00"));
}

TEST(Window, ASkippedLocalTimeOpensAtTheFirstMomentAfterTheGap) {
  // Berlin, 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC.
  const Window window = Parse({"30 2 * * *"}, "Europe/Berlin", absl::Hours(1));
  EXPECT_EQ(window.NextOpening(Utc("2026-03-28 12:00")), Utc("2026-03-29 01:00"));
  EXPECT_FALSE(window.IsOpen(Utc("2026-03-29 00:59")));
  EXPECT_TRUE(window.IsOpen(Utc("2026-03-29 01:59")));
  EXPECT_FALSE(window.IsOpen(Utc("2026-03-29 02:00")));
  EXPECT_EQ(window.NextOpening(Utc("2026-03-29 01:00")), Utc("2026-03-30 00:30"));
}

TEST(Window, ARepeatedLocalTimeOpensOnce) {
  // Berlin, 25 October 2026: 03:00 becomes 02:00 at 01:00 UTC.
  const Window window = Parse({"30 2 * * *"}, "Europe/Berlin", absl::Minutes(20));
  EXPECT_EQ(window.NextOpening(Utc("2026-10-24 12:00")), Utc("2026-10-25 00:30"));
  EXPECT_EQ(window.NextOpening(Utc("2026-10-25 00:30")), Utc("2026-10-26 01:30"));
  EXPECT_TRUE(window.IsOpen(Utc("2026-10-25 00:45")));
  EXPECT_FALSE(window.IsOpen(Utc("2026-10-25 01:35")));  // 02:35 for the second time
}

TEST(Window, LastsItsElapsedTimeAcrossAChangeOfClocks) {
  const Window spring = Parse({"0 1 29 3 *"}, "Europe/Berlin", absl::Hours(3));
  EXPECT_TRUE(spring.IsOpen(Utc("2026-03-29 02:59")));  // 04:59 there: from 01:00 that is four hours by the clock
  EXPECT_FALSE(spring.IsOpen(Utc("2026-03-29 03:00")));
  const Window autumn = Parse({"0 1 25 10 *"}, "Europe/Berlin", absl::Hours(3));
  EXPECT_TRUE(autumn.IsOpen(Utc("2026-10-25 01:59")));
  EXPECT_FALSE(autumn.IsOpen(Utc("2026-10-25 02:00")));
}

TEST(Window, ADayThatAZoneLeftOutOpensAtItsEnd) {
  // Samoa had no 30 December 2011.
  const Window window = Parse({"0 12 30 12 *"}, "Pacific/Apia", absl::Hours(1));
  EXPECT_EQ(window.NextOpening(Utc("2011-12-29 00:00")), Utc("2011-12-30 10:00"));
}

TEST(Window, ARareDayIsFound) {
  EXPECT_EQ(Parse({"0 0 29 2 *"}, "UTC", absl::Hours(1)).NextOpening(Utc("2096-03-01 00:00")), Utc("2104-02-29 00:00"));
  // 29 February on a Sunday, across 2100.
  EXPECT_EQ(Parse({"0 0 29 2 */7"}, "UTC", absl::Hours(1)).NextOpening(Utc("2088-03-01 00:00")),
            Utc("2128-02-29 00:00"));
}

TEST(Window, EveryLocalDayOpensOnceForItsFullDurationInEveryZone) {
  for (const char* name : {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo",
                           "Africa/Cairo", "Asia/Kolkata", "Asia/Shanghai", "UTC"}) {
    absl::TimeZone zone = *LoadZone(name);
    for (const char* entry : {"0 0 * * *", "30 0 * * *", "45 1 * * *", "15 2 * * *", "59 23 * * *"}) {
      const Window window = Parse({entry}, name, absl::Minutes(25));
      absl::Time now = Utc("2016-06-01 00:00");
      const absl::CivilDay first = absl::ToCivilDay(*window.NextOpening(now), zone);
      for (int i = 0; i < 1000; ++i) {
        const absl::Time opening = *window.NextOpening(now);
        ASSERT_EQ(absl::ToCivilDay(opening, zone), first + i) << name << " " << entry;
        ASSERT_FALSE(window.IsOpen(opening - absl::Nanoseconds(1)));
        ASSERT_TRUE(window.IsOpen(opening));
        ASSERT_EQ(window.Closing(opening), opening + absl::Minutes(25));
        ASSERT_FALSE(window.IsOpen(opening + absl::Minutes(25)));
        now = opening;
      }
    }
  }
}

TEST(Window, IsOpenAndNextOpeningAgreeWithOneAnother) {
  std::mt19937_64 random(7);
  const Window window = Parse({"*/20 3 * * *", "10 2 1,15 * mon"}, "America/New_York", absl::Minutes(15));
  for (int i = 0; i < 2000; ++i) {
    const absl::Time now = Utc("2025-01-01 00:00") + absl::Seconds(random() % (3 * 365 * 86400));
    const absl::Time next = *window.NextOpening(now);
    ASSERT_GT(next, now);
    ASSERT_TRUE(window.IsOpen(next));
    const absl::Time until = window.Closing(now).value_or(now);
    const absl::Time between = until + (next - until) / 2;
    if (between < next) {
      ASSERT_FALSE(window.IsOpen(between));
    }
  }
}

TEST(Window, ABrokenEntryIsClosedAndNamedAndTheOthersOpen) {
  const Window window = Window::Read({"0 2 30 2 *", "0 4 * * *"}, "UTC", absl::Hours(1));
  EXPECT_THAT(window.problems(), ElementsAre(HasSubstr("includes: '0 2 30 2 *': it never fires")));
  EXPECT_FALSE(window.IsOpen(Utc("2026-03-02 02:30")));
  EXPECT_TRUE(window.IsOpen(Utc("2026-03-02 04:30")));
}

TEST(Window, AnUnknownZoneClosesAndIsNamed) {
  for (const char* zone : {"Europe/Berlín", "Mars/Olympus", "", "localtime", "Fixed/UTC+01:00:00", "/etc/localtime",
                           "../zoneinfo/UTC", "libc:UTC", "UTC+1"}) {
    const Window window = Window::Read({"* * * * *"}, zone, absl::Hours(1));
    EXPECT_FALSE(window.IsOpen(Utc("2026-03-02 02:30"))) << zone;
    EXPECT_EQ(window.NextOpening(Utc("2026-03-02 02:30")), std::nullopt);
    EXPECT_THAT(window.problems(), ElementsAre(HasSubstr(std::string("the time zone '") + zone + "'"))) << zone;
  }
}

TEST(Window, AdmissionIsToldEveryProblem) {
  const absl::StatusOr<Window> window = ParseWindow({"0 25 * * *", "x"}, "Nowhere/City", absl::Hours(200));
  ASSERT_FALSE(window.ok());
  const std::string message(window.status().message());
  EXPECT_THAT(message, HasSubstr("maintenanceWindow.includes: '0 25 * * *': the hour '25'"));
  EXPECT_THAT(message, HasSubstr("maintenanceWindow.includes: 'x': it has 1 fields"));
  EXPECT_THAT(message, HasSubstr("maintenanceWindow.timeZone: the time zone 'Nowhere/City'"));
  EXPECT_THAT(message, HasSubstr("maxDuration: it is 200h; allowed are 1m to 168h"));
  EXPECT_FALSE(ParseWindow({}, "UTC", absl::Hours(1)).ok());
}

TEST(Window, SaysATimeInItsZone) {
  EXPECT_EQ(Parse({"0 2 * * *"}, "Europe/Berlin", absl::Hours(1)).InZone(Utc("2026-03-29 01:00")),
            "2026-03-29 03:00:00 +0200 (Europe/Berlin)");
}

}  // namespace
}  // namespace tf::rollout
