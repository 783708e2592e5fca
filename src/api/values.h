// Small values that Kubernetes writes as text: times, durations, numbers or names. Immutable values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tf::api {

// An instant, RFC 3339. Text that was read is written back as it was.
class Time {
 public:
  Time() = default;  // unset: written nowhere
  // Written in UTC and whole seconds, as metav1.Time.
  explicit Time(absl::Time at);
  // Written in UTC with six digits, as metav1.MicroTime.
  static Time Micro(absl::Time at);
  // InvalidArgument says what is expected.
  static absl::StatusOr<Time> Parse(std::string_view text);

  bool IsSet() const { return !text_.empty(); }
  absl::Time at() const { return at_; }  // InfinitePast when unset
  const std::string& Text() const { return text_; }
  bool operator==(const Time& other) const { return at_ == other.at_; }

 private:
  absl::Time at_ = absl::InfinitePast();
  std::string text_ = {};
};

// A number or a string: a port by number or name, a count or "25%".
struct IntOrString {
  std::variant<int64_t, std::string> value = int64_t{0};

  bool operator==(const IntOrString&) const = default;
  // The number, or the percentage of `total` rounded up or down. InvalidArgument for any other text.
  absl::StatusOr<int64_t> Scaled(int64_t total, bool round_up) const;
};

// "1s", "5m", "1h30m", "250ms" as Go reads them, and days, weeks and years of 24 h, 7 d and 365 d, as scheduling
// templates have them ("1d", "4w"). Not negative. InvalidArgument says what is expected.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

}  // namespace tf::api
