// Records events about objects, for people who ask `kubectl describe` or `kubectl events`.
//
// Record returns at once. A thread ("events") writes what EventCorrelator makes of it; what it cannot keep up with,
// what a flood repeats and what the server does not take is dropped and counted (tensor_fusion_events_dropped_total),
// for an event is never worth holding up work. Notes may say anything that is fit for the eyes of whoever may read
// events: no secrets. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/event_correlator.h"
#include "kube/metrics.h"
#include "kube/object.h"

namespace tf::kube {

// Where events go.
struct EventSink {
  std::function<absl::StatusOr<Json>(const Json& event)> create = {};
  std::function<absl::StatusOr<Json>(const Key& key, const Json& patch)> patch = {};
};

struct EventRecorderOptions {
  std::string controller = {};  // "tensor-fusion-operator"
  std::string instance = {};    // this replica, e.g. its pod's name
  size_t queue = 1000;          // happenings that wait to be written
  int tries = 12;               // of a write that the server did not answer
  absl::Duration retry = absl::Seconds(10);
  EventCorrelator::Limits limits = {};
  Clock* clock = nullptr;      // RealClock()
  Metrics* metrics = nullptr;  // none: nobody looks
};

class EventRecorder {
 public:
  EventRecorder(EventSink sink, EventRecorderOptions options);
  ~EventRecorder();  // Stop()

  // About an object as the server gave it (apiVersion, kind, name and UID are taken from it).
  void Normal(const Json& object, std::string reason, std::string action, std::string note);
  void Warning(const Json& object, std::string reason, std::string action, std::string note);

  // Writes what waits, each once, then ends.
  void Stop();

 private:
  struct Waiting {
    Happening happening;
    absl::Time wall;
  };

  void Record(const Json& object, std::string_view type, std::string reason, std::string action, std::string note);
  void Run();
  void Send(const EventCorrelator::Write& write);
  prometheus::Counter& Dropped(const char* why);

  const EventSink sink_;
  const EventRecorderOptions options_;
  Clock& clock_;
  std::unique_ptr<Metrics> own_metrics_;
  Metrics& metrics_;
  EventCorrelator correlator_;  // of the thread alone

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tf::kube
