// What a running cluster says of itself, in a file of its data folder: for `tfctl status` and for whoever asks before
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tf::standalone {

struct PartStatus {
  std::string name = {};
  int64_t pid = 0;   // 0: it does not run at the moment
  int64_t port = 0;  // of 127.0.0.1; 0: it listens on none
  int64_t restarts = 0;
  std::string last_end = {};  // how it ended the last time; "": it has not

  bool operator==(const PartStatus&) const = default;
};

struct ClusterStatus {
  std::string state = {};  // "starting", "ready" or "stopping"
  std::string version = {};
  int64_t pid = 0;
  std::string server = {};
  std::string kubeconfig = {};
  int64_t nodes = 0;
  int64_t nodes_ready = -1;  // -1: nobody has looked; it is not in the file
  std::string gpus_per_node = {};
  std::vector<PartStatus> parts = {};

  bool operator==(const ClusterStatus&) const = default;
};

std::string FormatStatus(const ClusterStatus& status);  // JSON, and a line's end
absl::StatusOr<ClusterStatus> ParseStatus(std::string_view text);

// What is in the folder; NotFound when nothing runs there. A file that a killed process left is not taken for true.
absl::StatusOr<ClusterStatus> ReadStatus(const std::string& folder);
absl::Status WriteStatus(const std::string& folder, const ClusterStatus& status);

}  // namespace tf::standalone
