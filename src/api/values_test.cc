#include "api/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tf::api {
namespace {

TEST(Time, ReadsAndWrites) {
  const absl::Time at = absl::FromUnixSeconds(1796058000);
  EXPECT_EQ(Time(at).Text(), "2026-11-30T17:00:00Z");
  EXPECT_EQ(Time(at + absl::Milliseconds(900)).Text(), "2026-11-30T17:00:00Z");
  EXPECT_EQ(Time::Micro(at + absl::Milliseconds(1)).Text(), "2026-11-30T17:00:00.001000Z");
  auto time = Time::Parse("2026-11-30T18:00:00+01:00");
  ASSERT_TRUE(time.ok()) << time.status();
  EXPECT_EQ(time->at(), at);
  EXPECT_EQ(time->Text(), "2026-11-30T18:00:00+01:00");
  EXPECT_EQ(*time, Time(at));
  EXPECT_FALSE(Time().IsSet());
  EXPECT_EQ(Time().Text(), "");
}

TEST(Time, RefusesWhatIsNone) {
  for (const char* text :
       {"", "now", "2026-11-30", "2026-11-30 17:00:00Z", "2026-13-01T00:00:00Z", "infinite-future"}) {
    auto time = Time::Parse(text);
    ASSERT_FALSE(time.ok()) << text;
    EXPECT_THAT(std::string(time.status().message()), ::testing::HasSubstr("expected a time such as"));
  }
}

TEST(IntOrString, Scaled) {
  EXPECT_EQ(*IntOrString{int64_t{3}}.Scaled(10, true), 3);
  EXPECT_EQ(*IntOrString{"25%"}.Scaled(10, true), 3);
  EXPECT_EQ(*IntOrString{"25%"}.Scaled(10, false), 2);
  EXPECT_EQ(*IntOrString{"100%"}.Scaled(7, true), 7);
  EXPECT_EQ(*IntOrString{"0%"}.Scaled(7, true), 0);
  EXPECT_EQ(*IntOrString{"1%"}.Scaled(0, true), 0);
  for (const char* text : {"", "%", "25", "-1%", "101%", "25%%", "a%", "25 %"}) {
    EXPECT_FALSE(IntOrString{text}.Scaled(10, true).ok()) << text;
  }
}

TEST(Duration, Reads) {
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  EXPECT_EQ(*ParseDuration("1s"), absl::Seconds(1));
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("250ms"), absl::Milliseconds(250));
  EXPECT_EQ(*ParseDuration("1.5h"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("10ns"), absl::Nanoseconds(10));
  EXPECT_EQ(*ParseDuration("3us"), absl::Microseconds(3));
  EXPECT_EQ(*ParseDuration("3\u00b5s"), absl::Microseconds(3));
  EXPECT_EQ(*ParseDuration("3\u03bcs"), absl::Microseconds(3));
  EXPECT_EQ(*ParseDuration("1d"), absl::Hours(24));
  EXPECT_EQ(*ParseDuration("4w"), absl::Hours(24 * 28));
  EXPECT_EQ(*ParseDuration("1y"), absl::Hours(24 * 365));
}

TEST(Duration, RefusesWhatIsNone) {
  for (const char* text : {"", "1", "s", "-1s", "+1s", "1 s", "1s ", "1x", "1S", "1.2.3s", ".s", "inf", "1e3s", "300y",
                           "99999999999999999999999999h"}) {
    auto duration = ParseDuration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_THAT(std::string(duration.status().message()), ::testing::HasSubstr("expected a duration such as"));
  }
}

}  // namespace
}  // namespace tf::api
