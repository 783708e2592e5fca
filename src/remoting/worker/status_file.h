// What a running worker tells other programs of this machine (tfctl top): a small file of key=value lines, renewed each
// second and removed at the end. The folder is TF_RUN_DIR, else $XDG_RUNTIME_DIR/tensor-fusion, else
// /tmp/tensor-fusion-<uid>; the file is workers/<pid>.status in it. Never contains licence strings or keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tf::remoting {

struct WorkerStatus {
  int pid = 0;
  std::string connection;  // connection string
  std::string card;        // name of the first card
  std::string license;     // "enterprise until 2027-11-30T00:00:00Z"
  int64_t started = 0;     // seconds since 1970
  uint64_t sessions = 0;
  uint64_t calls = 0;         // so far
  uint64_t memory_used = 0;   // bytes on all its cards
  uint64_t memory_limit = 0;  // bytes of one card; the card's memory when there is no limit
  int compute_percent = 100;
  uint64_t busy_ns = 0;  // of the cards, for this worker, so far
  int64_t time_ns = 0;   // when this was written, monotonic clock
};

std::string StatusFolder();
absl::Status WriteStatus(const WorkerStatus& status);
void RemoveStatus(int pid);
// Of the workers that are alive; files of dead ones are removed.
std::vector<WorkerStatus> ReadAllStatus();

std::string FormatStatus(const WorkerStatus& status);
absl::StatusOr<WorkerStatus> ParseStatus(std::string_view text);

}  // namespace tf::remoting
