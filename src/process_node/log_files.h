// The log of a container's run as the shim writes it, read for `kubectl logs`.
//
// Lines are "2026-11-30T17:00:00.123456789Z stdout F text"; P instead of F: the line goes on in the next entry.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tf::process_node {

struct LogQuery {
  bool follow = false;
  bool previous = false;
  bool timestamps = false;
  std::optional<int64_t> tail_lines = {};
  std::optional<int64_t> limit_bytes = {};
  std::optional<absl::Time> since = {};
  std::string stream = {};  // "Stdout", "Stderr"; "" or "All": both
};

// From the query of /containerLogs; InvalidArgument names what cannot be read.
absl::StatusOr<LogQuery> ParseLogQuery(const std::function<std::string_view(std::string_view name)>& query,
                                       absl::Time now);

struct LogEntry {
  std::string_view time, stream, text;
  bool partial = false;
};
std::optional<LogEntry> ParseLogLine(std::string_view line);

// Writes what the query asks for of the run in `folder`, then, with follow, what comes, until `ended` says that the run
// is over and all is read. `write` returns false to stop; `wait` blocks until more may be there and returns false to
// stop. NotFound: there is no log.
absl::Status ReadLog(const std::string& folder, const LogQuery& query,
                     const std::function<bool(std::string_view)>& write, const std::function<bool()>& ended,
                     const std::function<bool()>& wait);

}  // namespace tf::process_node
