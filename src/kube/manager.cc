#include "kube/manager.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kube/error.h"
#include "spdlog/spdlog.h"

namespace tf::kube {
namespace {

LeaseStore StoreIn(Client& client, const Key& key) {
  return {.read = [&client, key](absl::Duration limit) { return client.Get(core::kLease, key, {.limit = limit}); },
          .create =
              [&client](const Json& lease, absl::Duration limit) {
                WriteOptions options;
                options.limit = limit;
                return client.Create(core::kLease, lease, options);
              },
          .update =
              [&client](const Json& lease, absl::Duration limit) {
                WriteOptions options;
                options.limit = limit;
                return client.Update(core::kLease, lease, options);
              }};
}

EventSink SinkIn(Client& client) {
  return {.create = [&client](const Json& event) { return client.Create(core::kEvent, event); },
          .patch = [&client](const Key& key, const Json& patch) { return client.Patch(core::kEvent, key, patch); }};
}

// A counter of the kernel's that poll waits for.
class Bell {
 public:
  Bell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Bell() { close(fd_); }
  int fd() const { return fd_; }
  void Ring() { eventfd_write(fd_, 1); }
  void Silence() {
    eventfd_t rung;
    eventfd_read(fd_, &rung);
  }

 private:
  const int fd_;
};

}  // namespace

struct Manager::State {
  explicit State(ManagerOptions used) : options(std::move(used)), clock(options.clock ? *options.clock : RealClock()) {}
  ~State() {
    if (signals >= 0) close(signals);
  }

  ManagerOptions options;
  Clock& clock;
  Metrics metrics;
  Health health;
  std::shared_ptr<const Config> config;
  int signals = -1;

  std::unique_ptr<Client> lease_client;  // without the fence
  std::unique_ptr<LeaderLease> lease;    // null: no election
  std::unique_ptr<Informer> lease_watch;
  std::unique_ptr<Client> client;
  std::unique_ptr<EventRecorder> events;

  struct Cached {
    std::string question;
    bool indexed;
    std::unique_ptr<Informer> informer;
  };
  std::vector<Cached> caches;
  std::vector<std::unique_ptr<Controller>> controllers;
  std::unique_ptr<WebhookServer> webhook;
  std::unique_ptr<http::Server> health_server;
  std::vector<Part> parts;

  Bell bell;
  std::atomic<bool> stop = false;
  std::atomic<bool> acquired = false;
  std::atomic<bool> stopping = false;
  std::vector<const Part*> running;  // in the order of their start

  absl::Status StartParts(bool needs_lease);
  void StopParts(bool needs_lease);
  // Until a signal (its number), or the bell.
  int Wait();
};

absl::Status Manager::State::StartParts(bool needs_lease) {
  for (const Part& part : parts) {
    if (part.needs_lease != needs_lease) continue;
    if (stop) return absl::OkStatus();
    if (absl::Status status = part.start(); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(part.name, ": ", status.message()));
    }
    running.push_back(&part);
  }
  return absl::OkStatus();
}

void Manager::State::StopParts(bool needs_lease) {
  for (size_t i = running.size(); i-- > 0;) {
    if (running[i]->needs_lease != needs_lease) continue;
    running[i]->stop();
    running.erase(running.begin() + i);
  }
}

int Manager::State::Wait() {
  pollfd fds[] = {{signals, POLLIN, 0}, {bell.fd(), POLLIN, 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  bell.Silence();
  signalfd_siginfo info{};
  return read(signals, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

Manager::Manager(std::unique_ptr<State> state) : state_(std::move(state)) {}

Manager::~Manager() {
  // What was never run has nothing to stop; what ran has stopped. Handlers of the caches may know the controllers.
  for (State::Cached& cache : state_->caches) cache.informer->Stop();
}

absl::StatusOr<std::unique_ptr<Manager>> Manager::Make(ManagerOptions options) {
  auto state = std::make_unique<State>(std::move(options));
  State* s = state.get();

  Config config;
  if (s->options.connection.has_value()) {
    config = *s->options.connection;
  } else {
    absl::StatusOr<Config> loaded = LoadConfig(s->options.config);
    if (!loaded.ok()) return loaded.status();
    config = *std::move(loaded);
  }
  config.seen = [metrics = &s->metrics](const CallSeen& call) {
    const std::string method(call.method);
    const std::string host(call.host);
    metrics
        ->Counter("rest_client_requests_total", "Requests to the API server",
                  {{"code", std::string(call.code)}, {"method", method}, {"host", host}})
        .Increment();
    metrics
        ->Histogram("rest_client_request_duration_seconds", "How long the API server took",
                    {{"verb", method}, {"host", host}}, {0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60})
        .Observe(absl::ToDoubleSeconds(call.duration));
  };

  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  signal(SIGPIPE, SIG_IGN);
  s->signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (s->signals < 0) return absl::ErrnoToStatus(errno, "signalfd");

  const std::string agent = absl::StrCat(s->options.name, "/", s->options.version);
  std::string identity = s->options.name;
  if (s->options.leader_elect) {
    const Key lease{s->options.lease_namespace.empty() ? config.ns : s->options.lease_namespace,
                    s->options.lease_name.empty() ? s->options.name : s->options.lease_name};
    s->lease_client = std::make_unique<Client>(std::make_shared<const Config>(config), agent + " (leader-election)");
    absl::StatusOr<std::unique_ptr<LeaderLease>> made =
        LeaderLease::Make(StoreIn(*s->lease_client, lease), {.lease = lease,
                                                             .identity = s->options.identity,
                                                             .settings = s->options.lease,
                                                             .kill_when_overdue = s->options.kill_when_overdue,
                                                             .acquired =
                                                                 [s] {
                                                                   s->acquired = true;
                                                                   s->bell.Ring();
                                                                 },
                                                             .lost =
                                                                 [](const std::string& reason) {
                                                                   spdlog::critical("ending: {}", reason);
                                                                   _exit(1);
                                                                 },
                                                             .clock = &s->clock,
                                                             .metrics = &s->metrics});
    if (!made.ok()) return made.status();
    s->lease = *std::move(made);
    identity = s->lease->identity();
    s->lease_watch = std::make_unique<Informer>(
        *s->lease_client, core::kLease,
        InformerOptions{.ns = lease.ns, .field_selector = "metadata.name=" + lease.name, .clock = &s->clock});
    auto look = [candidate = s->lease.get()] { candidate->Look(); };
    s->lease_watch->AddHandler({.added = [look](const ObjectPtr&, bool) { look(); },
                                .updated = [look](const ObjectPtr&, const ObjectPtr&) { look(); },
                                .deleted = [look](const ObjectPtr&, bool) { look(); }});
    config.admit_write = [fence = &s->lease->fence()] { return fence->Admit(); };
  }
  s->config = std::make_shared<const Config>(std::move(config));
  s->client = std::make_unique<Client>(s->config, agent);
  s->events = std::make_unique<EventRecorder>(
      SinkIn(*s->client),
      EventRecorderOptions{
          .controller = s->options.name, .instance = identity, .clock = &s->clock, .metrics = &s->metrics});
  s->options.webhook.clock = &s->clock;
  s->options.webhook.metrics = &s->metrics;
  s->health.AddReady("caches", [s] {
    std::vector<std::string> behind;
    for (const State::Cached& cache : s->caches) {
      if (!cache.informer->synced()) behind.push_back(cache.question);
    }
    return behind.empty() ? absl::OkStatus()
                          : absl::UnavailableError(absl::StrCat("not in sync: ", absl::StrJoin(behind, ", ")));
  });
  s->health.AddReady("stopping",
                     [s] { return s->stopping ? absl::UnavailableError("it is stopping") : absl::OkStatus(); });
  return std::unique_ptr<Manager>(new Manager(std::move(state)));
}

Client& Manager::client() { return *state_->client; }
EventRecorder& Manager::events() { return *state_->events; }
Metrics& Manager::metrics() { return state_->metrics; }
Health& Manager::health() { return state_->health; }
Clock& Manager::clock() { return state_->clock; }
const Config& Manager::config() const { return *state_->config; }

Informer& Manager::Cache(const Resource& resource, InformerOptions options) {
  const std::string question =
      absl::StrCat(resource.ApiVersion(), " ", resource.plural, options.ns.empty() ? "" : " in ", options.ns,
                   options.label_selector.empty() ? "" : " with ", options.label_selector,
                   options.field_selector.empty() ? "" : " where ", options.field_selector,
                   options.metadata_only ? ", metadata" : "", options.keep.empty() ? "" : ", only ",
                   absl::StrJoin(options.keep, "+"));
  const bool indexed = !options.indexes.empty();
  for (State::Cached& cache : state_->caches) {
    if (cache.question == question && !indexed) return *cache.informer;
  }
  if (options.clock == nullptr) options.clock = &state_->clock;
  state_->caches.push_back(
      {question, indexed, std::make_unique<Informer>(*state_->client, resource, std::move(options))});
  return *state_->caches.back().informer;
}

Controller& Manager::AddController(ControllerOptions options) {
  options.clock = &state_->clock;
  options.metrics = &state_->metrics;
  auto made = std::make_unique<Controller>(std::move(options));
  Controller& controller = *made;
  state_->controllers.push_back(std::move(made));
  Add({.name = absl::StrCat("controller ", controller.name()),
       .start = [&controller] { return controller.Start(); },
       .stop = [&controller] { controller.Stop(); }});
  return controller;
}

void Manager::AddWebhook(std::string path, AdmissionHandler handler) {
  State* s = state_.get();
  if (s->webhook == nullptr) {
    s->webhook = std::make_unique<WebhookServer>(s->options.webhook);
    s->health.AddReady("webhook", [s] { return s->webhook->Ready(); });
  }
  s->webhook->Handle(std::move(path), std::move(handler));
}

void Manager::Add(Part part) { state_->parts.push_back(std::move(part)); }

uint16_t Manager::health_port() const { return state_->health_server == nullptr ? 0 : state_->health_server->port(); }
uint16_t Manager::webhook_port() const { return state_->webhook == nullptr ? 0 : state_->webhook->port(); }

void Manager::Stop() {
  state_->stop = true;
  state_->bell.Ring();
}

int Manager::Run() {
  State& s = *state_;
  int code = 0;
  auto failed = [&](const absl::Status& status) {
    spdlog::critical("{}: {}", s.options.name, std::string(status.message()));
    code = 1;
    s.stop = true;
  };

  if (s.options.serve_health) {
    auto server = StartHealthServer(s.options.health, s.health, s.metrics);
    if (server.ok()) {
      s.health_server = *std::move(server);
    } else {
      failed(server.status());
    }
  }
  if (s.webhook != nullptr && !s.stop) {
    if (absl::Status status = s.webhook->Start(); !status.ok()) failed(status);
  }
  if (!s.stop) {
    for (State::Cached& cache : s.caches) cache.informer->Start();
    if (absl::Status status = s.StartParts(/*needs_lease=*/false); !status.ok()) failed(status);
  }
  if (s.lease == nullptr) {
    s.acquired = true;
  } else if (!s.stop) {
    s.lease->Start();
    s.lease_watch->Start();
  }

  // Starting waits for caches; a signal must not wait for that.
  std::thread starter;
  absl::Status start_status;
  std::atomic<bool> started = false;
  while (!s.stop) {
    if (s.acquired && !starter.joinable()) {
      starter = std::thread([&] {
        pthread_setname_np(pthread_self(), "start");
        start_status = s.StartParts(/*needs_lease=*/true);
        started = true;
        s.bell.Ring();
      });
    }
    if (const int signal = s.Wait(); signal != 0) {
      spdlog::info("{}: stopping at signal {}", s.options.name, signal);
      s.stop = true;
    }
    if (started.exchange(false) && !start_status.ok()) failed(start_status);
  }

  s.stopping = true;
  Bell stopped;
  std::thread watchdog([&] {
    pthread_setname_np(pthread_self(), "stop");
    pollfd fds[] = {{stopped.fd(), POLLIN, 0}, {s.signals, POLLIN, 0}};
    poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(s.options.stop_limit)));
    if ((fds[0].revents & POLLIN) != 0) return;
    spdlog::critical(
        "{}: not stopped {}; ending", s.options.name,
        (fds[1].revents & POLLIN) != 0 ? "when told again" : "after " + absl::FormatDuration(s.options.stop_limit));
    _exit(1);
  });
  // One that waits for a cache to be in sync need not wait any longer.
  if (starter.joinable() && !started) {
    for (State::Cached& cache : s.caches) {
      if (!cache.informer->synced()) cache.informer->Stop();
    }
  }
  if (starter.joinable()) starter.join();
  s.StopParts(/*needs_lease=*/true);
  s.events->Stop();
  if (s.lease != nullptr) {
    s.lease_watch->Stop();
    s.lease->Stop();
  }
  s.StopParts(/*needs_lease=*/false);
  for (State::Cached& cache : s.caches) cache.informer->Stop();
  if (s.webhook != nullptr) s.webhook->Stop();
  s.health_server.reset();
  stopped.Ring();
  watchdog.join();
  return code;
}

}  // namespace tf::kube
