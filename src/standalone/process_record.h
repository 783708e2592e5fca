// Which process it was: a number alone may name another process later. With the time of its start and the machine's
// boot it names one process for good, also to whoever comes after a crash.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tf::standalone {

struct ProcessRecord {
  pid_t pid = 0;
  uint64_t start = 0;     // clock ticks since the machine's boot, as /proc/PID/stat has them
  std::string boot = {};  // /proc/sys/kernel/random/boot_id

  bool operator==(const ProcessRecord&) const = default;
};

// NotFound: there is no such process (any more). It may have ended and wait for its parent to ask.
absl::StatusOr<ProcessRecord> RecordOf(pid_t pid);

// One line, without the line's end; and back (nullopt: not such a line).
std::string FormatRecord(const ProcessRecord& record);
std::optional<ProcessRecord> ParseRecord(std::string_view line);

// It runs, or is not done with ending: what it held may still be taken. One whose end its parent has not asked about
// yet is not running.
bool IsRunning(const ProcessRecord& record);

// Sends the signal to this process and never to one that has its number now; OK when it has ended.
absl::Status SignalRecord(const ProcessRecord& record, int signal);

// Waits until it has ended; false: `timeout` came first. It need not be a child of ours.
bool AwaitEnd(const ProcessRecord& record, absl::Duration timeout);

}  // namespace tf::standalone
