// Puts a program together: a client, caches, controllers, webhooks, a lease, events, health and metrics, and their
// order of starting and stopping. docs/controller.md shows one from the first line to the last.
//
//   auto manager = kube::Manager::Make({.name = "my-controller"});
//   kube::Informer& pods = (*manager)->Cache(kube::core::kPod);
//   kube::Controller& controller = (*manager)->AddController({.name = "pods", .reconcile = ...});
//   controller.Watch(pods);
//   return (*manager)->Run();
//
// Run starts health and webhooks, then the caches, then waits for the lease, then starts the controllers, and stops
// them all in the reverse order at SIGTERM or SIGINT; a second signal, or stop_limit, ends it on the spot. Health,
// webhooks and caches run with or without leadership. A leader that loses its lease ends at once: by exit code 1 if it
// is awake, by SIGKILL if it is stopped (LeaderLeaseOptions::kill_when_overdue); every write of client() passes the
// lease's fence.
//
// Make, and all that adds something, are called from the main thread before Run; the rest is thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "kube/health.h"
#include "kube/informer.h"
#include "kube/leader_lease.h"
#include "kube/metrics.h"
#include "kube/webhook_server.h"

namespace tf::kube {

struct ManagerOptions {
  std::string name = {};  // of the program: user agent, lease, source of events
  std::string version = "0.1.0";

  ConfigOptions config = {};              // where the API server is found
  std::optional<Config> connection = {};  // or this

  bool leader_elect = false;
  std::string lease_namespace = {};  // "": that of the configuration
  std::string lease_name = {};       // "": `name`
  std::string identity = {};         // "": host name and a random part
  LeaseSettings lease = {};
  bool kill_when_overdue = true;

  bool serve_health = true;
  HealthServerOptions health = {};
  WebhookServerOptions webhook = {};  // clock and metrics are the manager's

  absl::Duration stop_limit = absl::Seconds(25);  // a pod has 30 s
  Clock* clock = nullptr;                         // RealClock()
};

// Something else that starts and stops with the program.
struct Part {
  std::string name = {};
  std::function<absl::Status()> start = {};
  std::function<void()> stop = {};
  bool needs_lease = true;
};

class Manager {
 public:
  // Blocks SIGTERM and SIGINT in this thread and those that it starts, for Run to wait for.
  static absl::StatusOr<std::unique_ptr<Manager>> Make(ManagerOptions options);
  ~Manager();

  // Its writes fail with FailedPrecondition while we do not lead (when there is an election).
  Client& client();
  // The same cache for the same question.
  Informer& Cache(const Resource& resource, InformerOptions options = {});
  Controller& AddController(ControllerOptions options);
  void AddWebhook(std::string path, AdmissionHandler handler);
  void Add(Part part);

  EventRecorder& events();
  Metrics& metrics();
  Health& health();
  Clock& clock();
  const Config& config() const;

  // Until a signal or Stop. The exit code of the program: 0 after a clean stop, 1 when something could not start.
  int Run();
  void Stop();

  // While Run runs.
  uint16_t health_port() const;
  uint16_t webhook_port() const;

 private:
  struct State;
  explicit Manager(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tf::kube
