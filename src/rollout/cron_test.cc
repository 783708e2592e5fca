#include "rollout/cron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tf::rollout {
namespace {

using ::testing::HasSubstr;

bool Fires(const char* entry, absl::CivilMinute at) {
  const absl::StatusOr<CronEntry> parsed = CronEntry::Parse(entry);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok() || !parsed->MatchesDay(absl::CivilDay(at))) return false;
  const std::vector<int>& times = parsed->times();
  return std::find(times.begin(), times.end(), at.hour() * 60 + at.minute()) != times.end();
}

TEST(CronEntry, FieldsAreReadAsCronReadsThem) {
  struct Case {
    const char* entry;
    absl::CivilMinute at;
    bool fires;
  };
  const Case kCases[] = {
      {"* * * * *", absl::CivilMinute(2026, 3, 1, 0, 0), true},
      {"0 2 * * *", absl::CivilMinute(2026, 3, 1, 2, 0), true},
      {"0 2 * * *", absl::CivilMinute(2026, 3, 1, 2, 1), false},
      {" 0\t2  * * * ", absl::CivilMinute(2026, 3, 1, 2, 0), true},
      {"*/15 * * * *", absl::CivilMinute(2026, 3, 1, 5, 45), true},
      {"*/15 * * * *", absl::CivilMinute(2026, 3, 1, 5, 46), false},
      {"10-40/10 * * * *", absl::CivilMinute(2026, 3, 1, 5, 40), true},
      {"10-40/10 * * * *", absl::CivilMinute(2026, 3, 1, 5, 50), false},
      {"5/20 * * * *", absl::CivilMinute(2026, 3, 1, 5, 45), true},
      {"0 8-17,22 * * *", absl::CivilMinute(2026, 3, 1, 22, 0), true},
      {"0 8-17,22 * * *", absl::CivilMinute(2026, 3, 1, 18, 0), false},
      {"0 0 1 jan *", absl::CivilMinute(2026, 1, 1, 0, 0), true},
      {"0 0 1 Jan-MAR *", absl::CivilMinute(2026, 3, 1, 0, 0), true},
      {"0 0 1 Jan-MAR *", absl::CivilMinute(2026, 4, 1, 0, 0), false},
      // 1 March 2026 is a Sunday.
      {"0 0 * * 0", absl::CivilMinute(2026, 3, 1, 0, 0), true},
      {"0 0 * * 7", absl::CivilMinute(2026, 3, 1, 0, 0), true},
      {"0 0 * * sun", absl::CivilMinute(2026, 3, 1, 0, 0), true},
      {"0 0 * * 5-7", absl::CivilMinute(2026, 3, 1, 0, 0), true},
      {"0 0 * * fri-sun", absl::CivilMinute(2026, 3, 1, 0, 0), true},
      {"0 0 * * mon-fri", absl::CivilMinute(2026, 3, 1, 0, 0), false},
      {"0 0 * * mon-fri", absl::CivilMinute(2026, 3, 2, 0, 0), true},
      {"0 0 * * */7", absl::CivilMinute(2026, 3, 1, 0, 0), true},
      {"0 0 * * */2", absl::CivilMinute(2026, 3, 3, 0, 0), true},
      // Day of month or day of week, when neither begins with a star.
      {"0 0 13 * 5", absl::CivilMinute(2026, 3, 6, 0, 0), true},
      {"0 0 13 * 5", absl::CivilMinute(2026, 4, 13, 0, 0), true},
      {"0 0 13 * 5", absl::CivilMinute(2026, 4, 14, 0, 0), false},
      {"0 0 */2 * 1", absl::CivilMinute(2026, 3, 9, 0, 0), true},
      {"0 0 */2 * 1", absl::CivilMinute(2026, 3, 16, 0, 0), false},
      {"0 0 31 * *", absl::CivilMinute(2026, 4, 30, 0, 0), false},
      {"0 0 29 2 *", absl::CivilMinute(2028, 2, 29, 0, 0), true},
      {"0 0 30 2 1", absl::CivilMinute(2026, 2, 2, 0, 0), true},  // never by date, but by weekday
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(Fires(c.entry, c.at), c.fires) << c.entry << " at " << absl::FormatCivilTime(c.at);
  }
}

TEST(CronEntry, WhatIsNoEntryIsNamed) {
  struct Case {
    const char* entry;
    const char* message;
  };
  const Case kCases[] = {
      {"", "it has 0 fields, and five are needed"},
      {"0 2 * *", "it has 4 fields"},
      {"0 2 * * * *", "it has 6 fields"},
      {"@daily", "it has 1 fields"},
      {"60 2 * * *", "the minute '60' has '60', which is no value or range of it; allowed are *, 0-59"},
      {"0 24 * * *", "the hour '24'"},
      {"0 2 0 * *", "the day of month '0'"},
      {"0 2 32 * *", "the day of month '32'"},
      {"0 2 * 13 *", "the month '13'"},
      {"0 2 * * 8", "the day of week '8'"},
      {"0 2 * foo *", "1-12 or jan-dec"},
      {"0 2 * * funday", "0-7 or sun-sat"},
      {"-1 2 * * *", "the minute '-1'"},
      {"+1 2 * * *", "the minute '+1'"},
      {"5-1 2 * * *", "the range '5-1', which ends before it begins"},
      {"1-2-3 2 * * *", "the minute '1-2-3'"},
      {"*/0 2 * * *", "the step '0', and a step is 1 to 59"},
      {"*/x 2 * * *", "the step 'x'"},
      {"1/2/3 2 * * *", "more than one '/'"},
      {"1,,2 2 * * *", "the minute '1,,2'"},
      {"? 2 * * *", "the minute '?'"},
      {"0 0 30 2 *", "it never fires: no day is day of month '30' in month '2'"},
      {"0 0 31 4,6,9,11 *", "it never fires"},
  };
  for (const Case& c : kCases) {
    const absl::StatusOr<CronEntry> parsed = CronEntry::Parse(c.entry);
    ASSERT_FALSE(parsed.ok()) << c.entry;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(c.message)) << c.entry;
  }
}

}  // namespace
}  // namespace tf::rollout
