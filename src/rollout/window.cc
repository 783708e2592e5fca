#include "rollout/window.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tf::rollout {
namespace {

// When a local time of a day, in minutes, begins. A skipped one at the first moment after the gap, a repeated one at
// its first pass.
absl::Time Instant(absl::CivilDay day, int time, const absl::TimeZone& zone) {
  const absl::TimeZone::TimeInfo info =
      zone.At(absl::CivilSecond(day.year(), day.month(), day.day(), time / 60, time % 60, 0));
  return info.kind == absl::TimeZone::TimeInfo::SKIPPED ? info.trans : info.pre;
}

// No entry rests longer: a 29 February that must also be a certain weekday, across a century without one.
constexpr int kMaxDaysBetween = 366 * 41;

std::optional<absl::Time> FirstAfter(const CronEntry& entry, absl::Time now, const absl::TimeZone& zone) {
  // The day before too: what a gap skips at the end of a day opens on the next one.
  absl::CivilDay day = absl::ToCivilDay(now, zone) - 1;
  for (int i = 0; i < kMaxDaysBetween; ++i, ++day) {
    if (!entry.MatchesDay(day)) continue;
    for (const int time : entry.times()) {
      const absl::Time at = Instant(day, time, zone);
      if (at > now) return at;
    }
  }
  return std::nullopt;
}

// The last opening of the entry at or before now and after `since`.
std::optional<absl::Time> LastBefore(const CronEntry& entry, absl::Time now, absl::Time since,
                                     const absl::TimeZone& zone) {
  const absl::CivilDay first = absl::ToCivilDay(since, zone) - 1;
  for (absl::CivilDay day = absl::ToCivilDay(now, zone); day >= first; --day) {
    if (!entry.MatchesDay(day)) continue;
    for (auto time = entry.times().rbegin(); time != entry.times().rend(); ++time) {
      const absl::Time at = Instant(day, *time, zone);
      if (at <= now) return at > since ? std::make_optional(at) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<absl::TimeZone> LoadZone(std::string_view name) {
  // Abseil also takes names that are files, fixed offsets and this machine's own zone.
  const bool plain = !name.empty() && name.size() <= 64 && absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
                     name != "localtime" && !name.starts_with("Fixed/") && name.find("..") == name.npos &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '+' || c == '/';
                     });
  absl::TimeZone zone;
  if (!plain || !absl::LoadTimeZone(std::string(name), &zone)) {
    return absl::NotFoundError(absl::StrCat(
        "the time zone '", absl::string_view(name.data(), name.size()),
        "' is not known to this machine's time-zone data (tzdata); give an IANA name such as Europe/Berlin or UTC"));
  }
  return zone;
}

Window Window::Read(const std::vector<std::string>& entries, std::string_view zone, absl::Duration duration) {
  Window window;
  for (const std::string& text : entries) {
    absl::StatusOr<CronEntry> entry = CronEntry::Parse(text);
    if (entry.ok()) {
      window.entries_.push_back(*std::move(entry));
    } else {
      window.problems_.push_back(absl::StrCat("maintenanceWindow.includes: '", text, "': ", entry.status().message()));
    }
  }
  if (entries.empty()) {
    window.problems_.push_back(
        "maintenanceWindow.includes: it is empty, and an enforced window needs at least one entry, such as 0 2 * * 6");
  }
  if (duration < absl::Minutes(1) || duration > kMaxWindowDuration) {
    window.problems_.push_back(absl::StrCat("maxDuration: it is ", absl::FormatDuration(duration),
                                            "; allowed are 1m to ", absl::FormatDuration(kMaxWindowDuration)));
    window.entries_.clear();
  }
  absl::StatusOr<absl::TimeZone> loaded = LoadZone(zone);
  if (loaded.ok()) {
    window.zone_ = *loaded;
  } else {
    window.problems_.push_back(absl::StrCat("maintenanceWindow.timeZone: ", loaded.status().message()));
    window.entries_.clear();
  }
  window.duration_ = duration;
  return window;
}

absl::StatusOr<Window> ParseWindow(const std::vector<std::string>& entries, std::string_view zone,
                                   absl::Duration duration) {
  Window window = Window::Read(entries, zone, duration);
  if (window.problems().empty()) return window;
  return absl::InvalidArgumentError(absl::StrJoin(window.problems(), "; "));
}

std::optional<absl::Time> Window::Closing(absl::Time now) const {
  std::optional<absl::Time> closing;
  for (const CronEntry& entry : entries_) {
    const std::optional<absl::Time> opened = LastBefore(entry, now, now - duration_, zone_);
    if (opened && (!closing || *opened + duration_ > *closing)) closing = *opened + duration_;
  }
  return closing;
}

bool Window::IsOpen(absl::Time now) const { return Closing(now).has_value(); }

std::optional<absl::Time> Window::NextOpening(absl::Time now) const {
  std::optional<absl::Time> next;
  for (const CronEntry& entry : entries_) {
    const std::optional<absl::Time> first = FirstAfter(entry, now, zone_);
    if (first && (!next || *first < *next)) next = first;
  }
  return next;
}

std::string Window::InZone(absl::Time time) const {
  return absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M:%S %z", time, zone_), " (", zone_.name(), ")");
}

}  // namespace tf::rollout
