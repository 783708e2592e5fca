#include "kube/events.h"

#include <pthread.h>

#include <utility>

#include "kube/error.h"
#include "spdlog/spdlog.h"

namespace tf::kube {
namespace {

constexpr absl::Duration kTick = absl::Minutes(1);

}  // namespace

EventRecorder::EventRecorder(EventSink sink, EventRecorderOptions options)
    : sink_(std::move(sink)),
      options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : RealClock()),
      own_metrics_(options_.metrics != nullptr ? nullptr : std::make_unique<Metrics>()),
      metrics_(options_.metrics != nullptr ? *options_.metrics : *own_metrics_),
      correlator_(options_.controller, options_.instance, options_.limits),
      thread_([this] {
        pthread_setname_np(pthread_self(), "events");
        Run();
      }) {}

EventRecorder::~EventRecorder() { Stop(); }

void EventRecorder::Normal(const Json& object, std::string reason, std::string action, std::string note) {
  Record(object, "Normal", std::move(reason), std::move(action), std::move(note));
}

void EventRecorder::Warning(const Json& object, std::string reason, std::string action, std::string note) {
  Record(object, "Warning", std::move(reason), std::move(action), std::move(note));
}

prometheus::Counter& EventRecorder::Dropped(const char* why) {
  return metrics_.Counter("tensor_fusion_events_dropped_total", "Events that were not written", {{"reason", why}});
}

void EventRecorder::Record(const Json& object, std::string_view type, std::string reason, std::string action,
                           std::string note) {
  JsonObject regarding{{"name", Name(object)}};
  const std::pair<const char*, std::string_view> parts[] = {{"apiVersion", Text(object, "apiVersion")},
                                                            {"kind", Text(object, "kind")},
                                                            {"namespace", Namespace(object)},
                                                            {"uid", Uid(object)},
                                                            {"resourceVersion", ResourceVersion(object)}};
  for (const auto& [name, value] : parts) {
    if (!value.empty()) regarding[name] = value;
  }
  Waiting waiting{.happening = {.regarding = std::move(regarding),
                                .type = std::string(type),
                                .reason = std::move(reason),
                                .action = std::move(action),
                                .note = std::move(note)},
                  .wall = clock_.Now()};
  std::lock_guard lock(mutex_);
  if (stop_ || waiting_.size() >= options_.queue) {
    Dropped("queue_full").Increment();
    return;
  }
  waiting_.push_back(std::move(waiting));
  changed_.notify_all();
}

void EventRecorder::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void EventRecorder::Run() {
  absl::Duration tick = clock_.Monotonic() + kTick;
  for (;;) {
    std::optional<Waiting> next;
    {
      std::unique_lock lock(mutex_);
      clock_.WaitUntil(lock, changed_, tick, [&] { return stop_ || !waiting_.empty(); });
      if (!waiting_.empty()) {
        next = std::move(waiting_.front());
        waiting_.pop_front();
      } else if (stop_) {
        return;
      }
    }
    if (next) {
      const EventCorrelator::Outcome outcome = correlator_.Add(next->happening, clock_.Monotonic(), next->wall);
      if (outcome.dropped) Dropped("flood").Increment();
      if (outcome.write) Send(*outcome.write);
    }
    if (clock_.Monotonic() >= tick) {
      tick = clock_.Monotonic() + kTick;
      for (const EventCorrelator::Write& write : correlator_.Tick(clock_.Monotonic())) Send(write);
    }
  }
}

void EventRecorder::Send(const EventCorrelator::Write& write) {
  bool create = write.create;
  absl::Status status;
  for (int tried = 1;; ++tried) {
    status =
        create ? sink_.create(write.event).status() : sink_.patch(KeyOf(write.event), write.SeriesPatch()).status();
    // The server keeps events for an hour; a series may be longer.
    if (!create && kube::IsNotFound(status)) {
      create = true;
      status = sink_.create(write.event).status();
    }
    if (status.ok() || kube::IsAlreadyExists(status)) return;
    // Other answers will not change.
    if ((!IsUnclear(status) && !IsTooManyRequests(status)) || tried >= options_.tries) break;
    std::unique_lock lock(mutex_);
    if (clock_.WaitUntil(lock, changed_, clock_.Monotonic() + options_.retry, [&] { return stop_; })) break;
  }
  Dropped("refused").Increment();
  spdlog::warn("event {} about {} {} not written: {}", std::string(Text(write.event, "reason")),
               std::string(Text(write.event, "involvedObject.kind")),
               std::string(Text(write.event, "involvedObject.name")), std::string(status.message()));
}

}  // namespace tf::kube
