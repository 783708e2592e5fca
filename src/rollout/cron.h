// A cron entry of five fields, read as cron reads it: minute, hour, day of month, month, day of week.
//
// Each field: `*`, a number, a range `1-5`, a step `*/15` or `10-40/5`, or a list of these joined by commas; months and
// days of the week also by their first three letters in any case; Sunday is 0 or 7. When neither day field begins with
// `*`, a day matches that either of them names; otherwise both must match. Local times without a zone: see window.h.
// Immutable values.
#pragma once

#include <bitset>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"

namespace tf::rollout {

class CronEntry {
 public:
  // InvalidArgument names the field, what was found and what is allowed; so does an entry that never fires (30 Feb).
  static absl::StatusOr<CronEntry> Parse(std::string_view text);

  bool MatchesDay(absl::CivilDay day) const;
  // Of a day that matches: minutes since midnight, in order; at least one.
  const std::vector<int>& times() const { return times_; }

 private:
  CronEntry() = default;

  std::bitset<60> minutes_ = {};
  std::bitset<24> hours_ = {};
  std::bitset<32> days_ = {};
  std::bitset<13> months_ = {};
  std::bitset<7> weekdays_ = {};  // 0: Sunday
  bool either_day_ = false;
  std::vector<int> times_ = {};
};

}  // namespace tf::rollout
