#include "rollout/cron.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tf::rollout {
namespace {

struct Field {
  const char* name;
  int low;
  int high;
  const char* names;  // of low, low + 1 …: three letters each
  const char* allowed;
};
constexpr Field kMinute = {"minute", 0, 59, "", "0-59"};
constexpr Field kHour = {"hour", 0, 23, "", "0-23"};
constexpr Field kDay = {"day of month", 1, 31, "", "1-31"};
constexpr Field kMonth = {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec", "1-12 or jan-dec"};
constexpr Field kWeekday = {"day of week", 0, 7, "sunmontuewedthufrisatsun", "0-7 or sun-sat"};

absl::Status Bad(const Field& field, absl::string_view found, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the ", field.name, " '", found, "' ", why, "; allowed are *, ",
                                                 field.allowed, ", ranges such as ", field.low, "-", field.low + 3,
                                                 ", steps such as */2, and lists of these with commas"));
}

std::optional<int> Number(const Field& field, absl::string_view text) {
  const std::string_view names = field.names;
  if (text.size() == 3) {
    const std::string lower = absl::AsciiStrToLower(text);
    for (size_t i = 0; i + 3 <= names.size(); i += 3) {
      if (names.substr(i, 3) == lower) return field.low + static_cast<int>(i / 3);
    }
  }
  int number = 0;
  if (text.empty() || text.size() > 2) return std::nullopt;
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return std::nullopt;
    number = number * 10 + (c - '0');
  }
  if (number < field.low || number > field.high) return std::nullopt;
  return number;
}

template <size_t kSize>
absl::Status ParseField(const Field& field, absl::string_view text, std::bitset<kSize>& set) {
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> stepped = absl::StrSplit(part, '/');
    if (stepped.size() > 2) return Bad(field, text, "has more than one '/' in a part");
    int low = field.low;
    int high = field.high;
    if (stepped[0] != "*") {
      const std::vector<absl::string_view> ends = absl::StrSplit(stepped[0], '-');
      const std::optional<int> first = Number(field, ends[0]);
      std::optional<int> last = Number(field, ends.back());
      if (field.high == 7 && ends.size() == 2 && last == 0) last = 7;  // fri-sun
      if (ends.size() > 2 || !first || !last) {
        return Bad(field, text, absl::StrCat("has '", stepped[0], "', which is no value or range of it"));
      }
      low = *first;
      // As in cron's relatives: "5/15" goes on to the end.
      high = ends.size() == 1 && stepped.size() == 2 ? field.high : *last;
      if (low > high)
        return Bad(field, text, absl::StrCat("has the range '", stepped[0], "', which ends before it begins"));
    } else if (field.high == 7) {
      high = 6;  // Sunday once
    }
    int step = 1;
    if (stepped.size() == 2 && (!absl::SimpleAtoi(stepped[1], &step) || step < 1 || step > field.high)) {
      return Bad(field, text, absl::StrCat("has the step '", stepped[1], "', and a step is 1 to ", field.high));
    }
    for (int i = low; i <= high; i += step) set.set(field.high == 7 ? i % 7 : i);
  }
  return absl::OkStatus();
}

// Days of the calendar repeat after 400 years.
bool EverFires(const CronEntry& entry) {
  const absl::CivilDay end(2400, 1, 1);
  for (absl::CivilDay day(2000, 1, 1); day < end; ++day) {
    if (entry.MatchesDay(day)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<CronEntry> CronEntry::Parse(std::string_view text) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(text.data(), text.size()), absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (fields.size() != 5) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it has ", fields.size(),
        " fields, and five are needed: minute, hour, day of month, month, day of week, such as 0 2 * * 6"));
  }
  CronEntry entry;
  if (absl::Status status = ParseField(kMinute, fields[0], entry.minutes_); !status.ok()) return status;
  if (absl::Status status = ParseField(kHour, fields[1], entry.hours_); !status.ok()) return status;
  if (absl::Status status = ParseField(kDay, fields[2], entry.days_); !status.ok()) return status;
  if (absl::Status status = ParseField(kMonth, fields[3], entry.months_); !status.ok()) return status;
  if (absl::Status status = ParseField(kWeekday, fields[4], entry.weekdays_); !status.ok()) return status;
  entry.either_day_ = fields[2][0] != '*' && fields[4][0] != '*';
  for (int time = 0; time < 24 * 60; ++time) {
    if (entry.hours_[time / 60] && entry.minutes_[time % 60]) entry.times_.push_back(time);
  }
  if (!EverFires(entry)) {
    return absl::InvalidArgumentError(absl::StrCat("it never fires: no day is day of month '", fields[2],
                                                   "' in month '", fields[3], "'; change one of them"));
  }
  return entry;
}

bool CronEntry::MatchesDay(absl::CivilDay day) const {
  if (!months_[day.month()]) return false;
  const bool by_date = days_[day.day()];
  // absl::Weekday begins with Monday as 0.
  const bool by_weekday = weekdays_[(static_cast<int>(absl::GetWeekday(day)) + 1) % 7];
  return either_day_ ? by_date || by_weekday : by_date && by_weekday;
}

}  // namespace tf::rollout
