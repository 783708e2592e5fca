// A controller: brings the world in step with one object at a time, whenever something changes that concerns it.
//
// Informers tell what changed, map functions say which keys that concerns, a WorkQueue makes sure that each is with one
// worker at a time, and the reconcile function looks at the present state of its key and acts. It must not rely on what
// woke it, may be called again at any time, and blocks as long as its requests take. What it returns decides what
// happens next:
//
//   Result{}                 done; the next change wakes it
//   Result{.requeue_after}   done; called again once that time has passed
//   an error                 called again, later with each failure in a row
//   Terminal(error)          counted, and not called again before the next change: more tries would not help
//   an exception             as an error, and counted as a panic
//
// Before the first call all watched informers are in sync. Metrics are controller-runtime's. Threads: "NAME/0" and so
// on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kube/informer.h"
#include "kube/metrics.h"
#include "kube/object.h"
#include "kube/work_queue.h"

namespace tf::kube {

struct Result {
  absl::Duration requeue_after = absl::ZeroDuration();  // zero: not asked for
};

absl::Status Terminal(absl::Status status);
bool IsTerminal(const absl::Status& status);

// One change of an object, as a predicate sees it.
struct ChangeView {
  enum class Kind { kAdded, kUpdated, kDeleted };
  Kind kind;
  const Json* before = nullptr;  // kUpdated: what it was
  const Json& object;            // what it is; kDeleted: what it was last
  bool initial = false;          // kAdded: it was there when we came
};

using Predicate = std::function<bool(const ChangeView&)>;
// Of updates, those that change metadata.generation (the spec), the labels, the annotations; all other changes.
Predicate GenerationChanged();
Predicate LabelsChanged();
Predicate AnnotationsChanged();
Predicate AnyOf(std::vector<Predicate> predicates);
Predicate AllOf(std::vector<Predicate> predicates);

// Which keys a changed object concerns. For an update it is asked about both versions.
using MapFunction = std::function<std::vector<Key>(const Json& object)>;
MapFunction ToItself();
// The object that controls it (ownerReferences with controller: true) if that is of this kind, in any version.
MapFunction ToController(Resource kind);

struct ControllerOptions {
  std::string name = {};
  int workers = 1;
  std::function<absl::StatusOr<Result>(const Key&)> reconcile = {};
  RetryLimits retry = {};
  absl::Duration sync_limit = absl::Minutes(2);
  Clock* clock = nullptr;      // RealClock()
  Metrics* metrics = nullptr;  // outlives the controller; none: nobody looks
};

class Controller {
 public:
  explicit Controller(ControllerOptions options);
  ~Controller();  // Stop()

  // Before Start, each. `informer` is started by somebody and outlives the call of Start.
  void Watch(Informer& informer, MapFunction map = ToItself(), Predicate predicate = nullptr) {
    informer.AddHandler(Feed(std::move(map), std::move(predicate)));
    AddSource([&informer](absl::Duration limit) { return informer.WaitForSync(limit); });
  }
  // The handler that Watch adds; it may outlive the controller.
  Handler Feed(MapFunction map, Predicate predicate = nullptr);
  // Something else to wait for.
  void AddSource(std::function<absl::Status(absl::Duration limit)> wait_for_sync);

  // Waits for the sources, then starts the workers. An error: a source was not in sync within the limit; nothing runs.
  absl::Status Start();
  // Waits for the keys in work; with `drain` also for those that wait.
  void Stop(bool drain = false);

  // For keys that become interesting for other reasons.
  WorkQueue& queue() { return *queue_; }
  const std::string& name() const { return options_.name; }

 private:
  struct Reports;

  void Work();
  absl::StatusOr<Result> Reconcile(const Key& key);
  void Handle(const Key& key);

  const ControllerOptions options_;
  Clock& clock_;
  std::unique_ptr<Metrics> own_metrics_;
  std::unique_ptr<Reports> reports_;
  std::shared_ptr<WorkQueue> queue_;  // handlers have it too
  std::vector<std::function<absl::Status(absl::Duration)>> sources_;
  std::vector<std::thread> workers_;
};

}  // namespace tf::kube
