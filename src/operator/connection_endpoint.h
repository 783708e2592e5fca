// Where a client learns which worker it has: GET /api/connection?name=NAME&namespace=NAMESPACE, over HTTP.
//
//   200  text/plain: the connection string of its worker
//   401  the token is missing, or the API server does not vouch for it
//   403  the token is of another pod than the connection's
//   404  there was no such connection all the while
//   503  its worker is not ready yet: ask again (Retry-After), at once
//
// The bearer token is one of the pod, for audience kTokenAudience; the API server reviews it for every question. An
// answer that must wait for a worker waits up to `hold`. Every replica answers, with or without leadership.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "http/server.h"
#include "kube/client.h"
#include "kube/manager.h"

namespace tf::operators {

class ConnectionEndpoint {
 public:
  struct Options {
    std::string address = "0.0.0.0";
    uint16_t port = 8080;
    absl::Duration hold = absl::Seconds(20);
    int most_waiting = 300;  // each holds a thread; more are told to come again
  };

  explicit ConnectionEndpoint(Options options);
  ~ConnectionEndpoint();

  // `connections`: the cache of all TensorFusionConnections.
  void AddTo(kube::Manager& manager, kube::Informer& connections);

 private:
  struct Caller {
    std::string ns = {};
    std::string pod_uid = {};
  };

  absl::Status Start();
  void Stop();
  void Answer(const http::ServerRequest& request, http::ResponseWriter& writer);
  absl::StatusOr<Caller> Review(const std::string& token);

  const Options options_;
  std::unique_ptr<kube::Client> client_;
  kube::Informer* connections_ = nullptr;
  Clock* clock_ = nullptr;
  std::unique_ptr<http::Server> server_;

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t changes_ = 0;
  int waiting_ = 0;
  bool stop_ = false;
};

}  // namespace tf::operators
