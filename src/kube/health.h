// /healthz, /readyz and /metrics.
//
// A check says OK or why not. /healthz and /readyz answer 200 "ok" when all of theirs do, else 500; ?verbose lists
// them, ?exclude=NAME leaves one out, and /readyz/NAME asks one alone. What a check says goes to the log and not to
// whoever asks. Thread-safe; checks run on the connections' threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "http/server.h"
#include "kube/metrics.h"

namespace tf::kube {

using HealthCheck = std::function<absl::Status()>;

class Health {
 public:
  void AddLive(std::string name, HealthCheck check);
  void AddReady(std::string name, HealthCheck check);

  struct Page {
    int status;
    std::string body;
  };
  // `path` as in a request: "/healthz", "/readyz", or one of their checks. 404: no such check.
  Page Answer(std::string_view path, bool verbose = false, const std::vector<std::string>& exclude = {}) const;

 private:
  using Checks = std::vector<std::pair<std::string, HealthCheck>>;

  mutable std::mutex mutex_;
  Checks live_;
  Checks ready_;
};

struct HealthServerOptions {
  std::string address = "0.0.0.0";
  uint16_t port = 8081;  // 0: a free one
};

// `health` and `metrics` outlive the server.
absl::StatusOr<std::unique_ptr<http::Server>> StartHealthServer(const HealthServerOptions& options,
                                                                const Health& health, const Metrics& metrics);

}  // namespace tf::kube
