#include "api/values.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tf::api {
namespace {

std::string Shown(std::string_view text) { return std::string(text.substr(0, 64)); }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Time::Time(absl::Time at) : at_(at), text_(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", at, absl::UTCTimeZone())) {}

Time Time::Micro(absl::Time at) {
  Time result;
  result.at_ = at;
  result.text_ = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", at, absl::UTCTimeZone());
  return result;
}

absl::StatusOr<Time> Time::Parse(std::string_view text) {
  Time result;
  std::string error;
  const absl::string_view view(text.data(), text.size());
  if (text.size() > 64 || !absl::ParseTime(absl::RFC3339_full, view, &result.at_, &error) ||
      result.at_ == absl::InfinitePast() || result.at_ == absl::InfiniteFuture()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a time such as 2026-11-30T17:00:00Z, found \"", Shown(text), "\""));
  }
  result.text_ = std::string(text);
  return result;
}

absl::StatusOr<int64_t> IntOrString::Scaled(int64_t total, bool round_up) const {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  const std::string& text = std::get<std::string>(value);
  int64_t percent = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || stop + 1 != end || *stop != '%' || percent < 0 || percent > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a number or a percentage from 0% to 100%, found \"", Shown(text), "\""));
  }
  return (total * percent + (round_up ? 99 : 0)) / 100;
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  static constexpr std::pair<std::string_view, absl::Duration> kUnits[] = {{"ns", absl::Nanoseconds(1)},
                                                                           {"us", absl::Microseconds(1)},
                                                                           {"\u00b5s", absl::Microseconds(1)},
                                                                           {"\u03bcs", absl::Microseconds(1)},
                                                                           {"ms", absl::Milliseconds(1)},
                                                                           {"s", absl::Seconds(1)},
                                                                           {"m", absl::Minutes(1)},
                                                                           {"h", absl::Hours(1)},
                                                                           {"d", absl::Hours(24)},
                                                                           {"w", absl::Hours(7 * 24)},
                                                                           {"y", absl::Hours(365 * 24)}};
  const auto malformed = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a duration such as 30s, 5m or 1h30m, found \"", Shown(text), "\""));
  };
  if (text == "0") return absl::ZeroDuration();
  if (text.empty() || text.size() > 64) return malformed();
  absl::Duration sum;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && (IsDigit(text[end]) || text[end] == '.')) ++end;
    double number = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, number, std::chars_format::fixed);
    if (error != std::errc() || stop != text.data() + end) return malformed();
    at = end;
    while (end < text.size() && !IsDigit(text[end]) && text[end] != '.') ++end;
    const std::string_view unit = text.substr(at, end - at);
    at = end;
    bool known = false;
    for (const auto& [name, length] : kUnits) {
      if (name != unit) continue;
      // Whole numbers stay exact.
      const bool whole = number == std::floor(number) && number < 1e15;
      sum += whole ? static_cast<int64_t>(number) * length : number * length;
      known = true;
      break;
    }
    if (!known) return malformed();
  }
  // As far as Go's 64-bit nanoseconds go.
  if (sum > absl::Nanoseconds(INT64_MAX)) return malformed();
  return sum;
}

}  // namespace tf::api
