// How a change of a component reaches the nodes: nodeManagerConfig.nodePoolRollingUpdatePolicy, read.
//
// A missing block or value is its documented default. A value that is not allowed is a problem, which names the field,
// what was found and what is allowed; with problems nothing restarts. Windows that are not enforced are not looked at.
// Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rollout/component.h"
#include "rollout/window.h"

namespace tf::rollout {

enum class OnFailure { kPause, kRollback };

// Nodes: a number, or a percentage of the pool's nodes.
struct Share {
  int64_t value = 1;
  bool percent = false;
};

struct Policy {
  std::array<bool, kComponents> auto_update = {};  // by Component
  int64_t batch_percentage = 100;                  // 1..100
  absl::Duration batch_interval = absl::Seconds(1);
  bool paused = false;
  std::optional<Share> max_unavailable = std::nullopt;  // absent: no limit beside the batch
  absl::Duration min_ready = absl::ZeroDuration();
  absl::Duration progress_deadline = absl::Seconds(600);
  OnFailure on_failure = OnFailure::kPause;
  int64_t max_failures = 0;
  bool window_set = false;       // there are entries, enforced or not
  bool window_enforced = false;  // false: `window` is empty and means nothing
  Window window = {};            // its own problems keep it closed, they are none of the policy
  std::vector<std::string> problems = {};
};

// The policy as text and numbers, as a spec has it; absent: the default.
struct PolicySource {
  std::optional<bool> auto_update_hypervisor = {};
  std::optional<bool> auto_update_worker = {};
  std::optional<bool> auto_update_client = {};
  std::optional<int64_t> batch_percentage = {};
  std::optional<std::string> batch_interval = {};
  std::optional<std::string> max_duration = {};
  std::vector<std::string> window_includes = {};
  std::optional<bool> window_enforced = {};
  std::optional<std::string> window_time_zone = {};
  std::optional<bool> paused = {};
  std::optional<std::string> max_unavailable = {};  // "2", "25%"
  std::optional<int64_t> min_ready_seconds = {};
  std::optional<int64_t> progress_deadline_seconds = {};
  std::optional<std::string> on_failure = {};
  std::optional<int64_t> max_failures = {};
};
Policy ReadPolicy(const PolicySource& source);

// ceil(percent * nodes / 100), at least 1: the one rounding of this room. percent 1..100, nodes >= 0.
int64_t BatchSize(int64_t percent, int64_t nodes);
// The same for a share; at least 1.
int64_t Nodes(const Share& share, int64_t nodes);

}  // namespace tf::rollout
