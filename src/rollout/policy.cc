#include "rollout/policy.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tf::rollout {
namespace {

constexpr int64_t kMaxSeconds = 7 * 24 * 3600;

class Reader {
 public:
  explicit Reader(std::vector<std::string>& problems) : problems_(problems) {}

  int64_t Number(const char* field, const std::optional<int64_t>& value, int64_t otherwise, int64_t low, int64_t high) {
    if (!value) return otherwise;
    if (*value < low || *value > high) {
      Problem(field, *value, absl::StrCat("a whole number from ", low, " to ", high));
      return otherwise;
    }
    return *value;
  }

  absl::Duration Time(const char* field, const std::optional<std::string>& value, absl::Duration otherwise) {
    if (!value || value->empty()) return otherwise;
    absl::Duration duration;
    if (!absl::ParseDuration(*value, &duration) || duration < absl::ZeroDuration() ||
        duration > absl::Seconds(kMaxSeconds)) {
      Problem(field, *value, "a duration from 0s to 168h, such as 30s, 10m or 1h30m");
      return otherwise;
    }
    return duration;
  }

  std::optional<Share> Amount(const char* field, const std::optional<std::string>& value) {
    if (!value) return std::nullopt;
    std::string_view text = *value;
    Share share;
    if (text.ends_with("%")) {
      share.percent = true;
      text.remove_suffix(1);
    }
    // SimpleAtoi takes blanks and signs.
    const bool digits =
        !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || !absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &share.value) || share.value < 1 ||
        (share.percent && share.value > 100)) {
      Problem(field, *value, "a number of nodes from 1, or a percentage from 1% to 100%");
      return std::nullopt;
    }
    return share;
  }

  template <typename T>
  void Problem(const char* field, const T& found, absl::string_view allowed) {
    problems_.push_back(
        absl::StrCat("nodePoolRollingUpdatePolicy.", field, ": it is '", found, "'; allowed is ", allowed));
  }

 private:
  std::vector<std::string>& problems_;
};

}  // namespace

int64_t BatchSize(int64_t percent, int64_t nodes) { return std::max<int64_t>(1, (percent * nodes + 99) / 100); }

int64_t Nodes(const Share& share, int64_t nodes) {
  return share.percent ? BatchSize(share.value, nodes) : std::max<int64_t>(1, share.value);
}

Policy ReadPolicy(const PolicySource& source) {
  Policy policy;
  Reader reader(policy.problems);
  policy.auto_update = {source.auto_update_hypervisor.value_or(false), source.auto_update_worker.value_or(false),
                        source.auto_update_client.value_or(false)};
  policy.batch_percentage = reader.Number("batchPercentage", source.batch_percentage, 100, 1, 100);
  policy.batch_interval = reader.Time("batchInterval", source.batch_interval, policy.batch_interval);
  policy.paused = source.paused.value_or(false);
  policy.max_unavailable = reader.Amount("maxUnavailable", source.max_unavailable);
  policy.min_ready = absl::Seconds(reader.Number("minReadySeconds", source.min_ready_seconds, 0, 0, kMaxSeconds));
  policy.progress_deadline =
      absl::Seconds(reader.Number("progressDeadlineSeconds", source.progress_deadline_seconds, 600, 1, kMaxSeconds));
  if (policy.progress_deadline <= policy.min_ready) {
    reader.Problem("progressDeadlineSeconds", policy.progress_deadline / absl::Seconds(1),
                   "more than minReadySeconds, for otherwise no unit is ready in time");
  }
  if (source.on_failure && *source.on_failure == "Rollback") {
    policy.on_failure = OnFailure::kRollback;
  } else if (source.on_failure && !source.on_failure->empty() && *source.on_failure != "Pause") {
    reader.Problem("onFailure", *source.on_failure, "Pause or Rollback");
  }
  policy.max_failures = reader.Number("maxFailures", source.max_failures, 0, 0, 1'000'000);
  policy.window_set = !source.window_includes.empty();
  policy.window_enforced = source.window_enforced.value_or(false);
  if (policy.window_enforced) {
    const absl::Duration duration = reader.Time("maxDuration", source.max_duration, absl::Hours(1));
    policy.window = Window::Read(source.window_includes, source.window_time_zone.value_or("UTC"), duration);
  }
  return policy;
}

}  // namespace tf::rollout
