#include "kube/controller.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace tf::kube {
namespace {

constexpr char kTerminal[] = "tensor-fusion.ai/terminal";

Predicate UpdateChanges(std::string path) {
  return [path = std::move(path)](const ChangeView& change) {
    if (change.kind != ChangeView::Kind::kUpdated) return true;
    const Json* before = Field(*change.before, path);
    const Json* now = Field(change.object, path);
    if (before == nullptr || now == nullptr) return before != now;
    return *before != *now;
  };
}

}  // namespace

absl::Status Terminal(absl::Status status) {
  if (!status.ok()) status.SetPayload(kTerminal, absl::Cord());
  return status;
}

bool IsTerminal(const absl::Status& status) { return status.GetPayload(kTerminal).has_value(); }

Predicate GenerationChanged() { return UpdateChanges("metadata.generation"); }
Predicate LabelsChanged() { return UpdateChanges("metadata.labels"); }
Predicate AnnotationsChanged() { return UpdateChanges("metadata.annotations"); }

Predicate AnyOf(std::vector<Predicate> predicates) {
  return [predicates = std::move(predicates)](const ChangeView& change) {
    for (const Predicate& predicate : predicates) {
      if (predicate(change)) return true;
    }
    return false;
  };
}

Predicate AllOf(std::vector<Predicate> predicates) {
  return [predicates = std::move(predicates)](const ChangeView& change) {
    for (const Predicate& predicate : predicates) {
      if (!predicate(change)) return false;
    }
    return true;
  };
}

MapFunction ToItself() {
  return [](const Json& object) { return std::vector<Key>{KeyOf(object)}; };
}

MapFunction ToController(Resource kind) {
  return [kind = std::move(kind)](const Json& object) {
    std::vector<Key> keys;
    const Json* owners = Field(object, "metadata.ownerReferences");
    if (owners == nullptr || !owners->is_array()) return keys;
    for (const Json& owner : owners->get_array()) {
      const std::string_view version = Text(owner, "apiVersion");
      const size_t slash = version.find('/');
      const std::string_view group = slash == std::string_view::npos ? "" : version.substr(0, slash);
      if (Flag(owner, "controller") && Text(owner, "kind") == kind.kind && group == kind.group) {
        keys.push_back({kind.namespaced ? std::string(Namespace(object)) : "", std::string(Text(owner, "name"))});
      }
    }
    return keys;
  };
}

struct Controller::Reports {
  Reports(Metrics& metrics, const std::string& name, int workers)
      : success(Outcome(metrics, name, "success")),
        requeue_after(Outcome(metrics, name, "requeue_after")),
        error(Outcome(metrics, name, "error")),
        errors(metrics.Counter("controller_runtime_reconcile_errors_total", "Reconciles that failed",
                               {{"controller", name}})),
        terminal(metrics.Counter("controller_runtime_terminal_reconcile_errors_total",
                                 "Reconciles that failed and are not tried again", {{"controller", name}})),
        panics(metrics.Counter("controller_runtime_reconcile_panics_total", "Reconciles that threw an exception",
                               {{"controller", name}})),
        time(metrics.Histogram("controller_runtime_reconcile_time_seconds", "How long a reconcile took",
                               {{"controller", name}},
                               {0.005, 0.01, 0.025, 0.05, 0.1,  0.15, 0.2,  0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6,
                                0.7,   0.8,  0.9,   1.0,  1.25, 1.5,  1.75, 2.0,  2.5, 3.0,  3.5, 4.0,  4.5, 5,
                                6,     7,    8,     9,    10,   15,   20,   25,   30,  40,   50,  60})),
        active(metrics.Gauge("controller_runtime_active_workers", "Workers that reconcile", {{"controller", name}})) {
    metrics.Gauge("controller_runtime_max_concurrent_reconciles", "Workers that there are", {{"controller", name}})
        .Set(workers);
  }
  static prometheus::Counter& Outcome(Metrics& metrics, const std::string& name, const char* result) {
    return metrics.Counter("controller_runtime_reconcile_total", "Reconciles",
                           {{"controller", name}, {"result", result}});
  }

  prometheus::Counter& success;
  prometheus::Counter& requeue_after;
  prometheus::Counter& error;
  prometheus::Counter& errors;
  prometheus::Counter& terminal;
  prometheus::Counter& panics;
  prometheus::Histogram& time;
  prometheus::Gauge& active;
};

Controller::Controller(ControllerOptions options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : RealClock()),
      own_metrics_(options_.metrics != nullptr ? nullptr : std::make_unique<Metrics>()) {
  Metrics* metrics = options_.metrics != nullptr ? options_.metrics : own_metrics_.get();
  reports_ = std::make_unique<Reports>(*metrics, options_.name, options_.workers);
  queue_ = std::make_shared<WorkQueue>(
      WorkQueueOptions{.name = options_.name, .retry = options_.retry, .clock = &clock_, .metrics = options_.metrics});
}

Controller::~Controller() { Stop(); }

Handler Controller::Feed(MapFunction map, Predicate predicate) {
  auto feed = [queue = queue_, map = std::move(map), predicate = std::move(predicate)](const ChangeView& change) {
    if (predicate && !predicate(change)) return;
    if (change.before != nullptr) {
      for (const Key& key : map(*change.before)) queue->Add(key);
    }
    for (const Key& key : map(change.object)) queue->Add(key);
  };
  return {.added =
              [feed](const ObjectPtr& object, bool initial) {
                feed({.kind = ChangeView::Kind::kAdded, .object = *object, .initial = initial});
              },
          .updated =
              [feed](const ObjectPtr& before, const ObjectPtr& object) {
                feed({.kind = ChangeView::Kind::kUpdated, .before = before.get(), .object = *object});
              },
          .deleted = [feed](const ObjectPtr& last_seen,
                            bool) { feed({.kind = ChangeView::Kind::kDeleted, .object = *last_seen}); }};
}

void Controller::AddSource(std::function<absl::Status(absl::Duration)> wait_for_sync) {
  sources_.push_back(std::move(wait_for_sync));
}

absl::Status Controller::Start() {
  const absl::Duration deadline = clock_.Monotonic() + options_.sync_limit;
  for (const auto& wait_for_sync : sources_) {
    const absl::Duration left = std::max(absl::ZeroDuration(), deadline - clock_.Monotonic());
    if (absl::Status status = wait_for_sync(left); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("controller ", options_.name, ": ", std::string(status.message())));
    }
  }
  for (int i = 0; i < options_.workers; ++i) {
    workers_.emplace_back([this, i] {
      // The system keeps 15 characters.
      pthread_setname_np(pthread_self(), absl::StrCat(options_.name.substr(0, 12), "/", i).substr(0, 15).c_str());
      Work();
    });
  }
  return absl::OkStatus();
}

void Controller::Stop(bool drain) {
  queue_->ShutDown(drain && !workers_.empty());
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void Controller::Work() {
  while (std::optional<Key> key = queue_->Get()) {
    reports_->active.Increment();
    Handle(*key);
    reports_->active.Decrement();
    queue_->Done(*key);
  }
}

absl::StatusOr<Result> Controller::Reconcile(const Key& key) {
  try {
    return options_.reconcile(key);
  } catch (const std::exception& error) {
    reports_->panics.Increment();
    return absl::InternalError(absl::StrCat("exception: ", error.what()));
  } catch (...) {
    reports_->panics.Increment();
    return absl::InternalError("exception of an unknown type");
  }
}

void Controller::Handle(const Key& key) {
  const absl::Duration start = clock_.Monotonic();
  const absl::StatusOr<Result> result = Reconcile(key);
  reports_->time.Observe(absl::ToDoubleSeconds(clock_.Monotonic() - start));
  if (!result.ok()) {
    reports_->errors.Increment();
    reports_->error.Increment();
    if (IsTerminal(result.status())) {
      reports_->terminal.Increment();
      spdlog::error("{}: {}: {} (not tried again)", options_.name, key.ToString(),
                    std::string(result.status().message()));
    } else {
      queue_->AddRateLimited(key);
      spdlog::warn("{}: {}: {}", options_.name, key.ToString(), std::string(result.status().message()));
    }
    return;
  }
  queue_->Forget(key);
  if (result->requeue_after > absl::ZeroDuration()) {
    queue_->AddAfter(key, result->requeue_after);
    reports_->requeue_after.Increment();
  } else {
    reports_->success.Increment();
  }
}

}  // namespace tf::kube
