// Maintenance windows: cron entries at which a window opens, in a time zone, and how long it stays open.
//
// The window is open where any entry's is: from an opening until `duration` of elapsed time later, whatever clocks do
// meanwhile. A local time that a change of clocks skips opens at the first moment after the gap; one that it repeats
// opens at its first pass only. A broken entry counts as closed and is named in problems(). Immutable values; the
// zone's data are those of the machine (Abseil: /usr/share/zoneinfo, or TZDIR).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rollout/cron.h"

namespace tf::rollout {

inline constexpr absl::Duration kMaxWindowDuration = absl::Hours(7 * 24);

class Window {
 public:
  // No entry: never open.
  Window() = default;
  // As far as it can be read: what cannot is in problems() and stays closed. An unknown zone closes all of it.
  static Window Read(const std::vector<std::string>& entries, std::string_view zone, absl::Duration duration);

  const std::vector<std::string>& problems() const { return problems_; }
  bool IsOpen(absl::Time now) const;
  // The first opening after now, in UTC; nullopt when no entry can be used.
  std::optional<absl::Time> NextOpening(absl::Time now) const;
  // When what is open now closes, if nothing opens meanwhile; nullopt when it is closed.
  std::optional<absl::Time> Closing(absl::Time now) const;
  // "2026-03-29 03:00:00 +0200 (Europe/Berlin)".
  std::string InZone(absl::Time time) const;

 private:
  std::vector<CronEntry> entries_ = {};
  absl::TimeZone zone_ = absl::UTCTimeZone();
  absl::Duration duration_ = absl::ZeroDuration();
  std::vector<std::string> problems_ = {};
};

// For admission: the window, or InvalidArgument with every problem, each naming the entry, what is wrong and what is
// allowed.
absl::StatusOr<Window> ParseWindow(const std::vector<std::string>& entries, std::string_view zone,
                                   absl::Duration duration);

// By IANA name. NotFound names the zone and says where it was looked for; never UTC in its place.
absl::StatusOr<absl::TimeZone> LoadZone(std::string_view name);

}  // namespace tf::rollout
