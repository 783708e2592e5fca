// Keys that wait for a worker: each at most once, and never with two workers at a time.
//
// A key that is added while it waits is there already; one that is added while a worker has it is handed out again once
// that worker is done. So the last state of an object is always looked at after its last change, and work on one object
// has an order. Keys wait in the order of their arrival. Semantics and metric names are client-go's workqueue.
// Thread-safe.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/metrics.h"
#include "kube/object.h"

namespace tf::kube {

// How long a key waits that failed: the longer of the key's own back-off and its turn in a bucket that all keys share.
struct RetryLimits {
  absl::Duration first = absl::Milliseconds(5);  // doubled with each failure
  absl::Duration longest = absl::Seconds(1000);
  double per_second = 10;  // of the bucket
  int burst = 100;
};

struct WorkQueueOptions {
  std::string name = {};  // label of its metrics
  RetryLimits retry = {};
  Clock* clock = nullptr;      // RealClock()
  Metrics* metrics = nullptr;  // outlives the queue; none: nobody looks
};

class WorkQueue {
 public:
  explicit WorkQueue(WorkQueueOptions options);
  // Nobody is in Get any more: ShutDown first.
  ~WorkQueue();

  void Add(const Key& key);
  // When the time has passed; of several times for one key the earliest counts.
  void AddAfter(const Key& key, absl::Duration delay);
  // After what the limits say; each call counts as one more failure of the key.
  void AddRateLimited(const Key& key);
  // The key has done well: its next failure is its first.
  void Forget(const Key& key);
  int Failures(const Key& key) const;

  // Blocks until a key is due, which is then the caller's until Done(key). nullopt: shut down.
  std::optional<Key> Get();
  void Done(const Key& key);

  // From now on nothing is added. Without `drain` nothing is handed out either. With it what waits already (delayed
  // keys excepted) still is, and the call returns when the last of it is done.
  void ShutDown(bool drain = false);

  size_t size() const;  // keys that wait for a worker; delayed ones excepted

 private:
  struct Reports;

  void AddLocked(const Key& key, absl::Duration since);
  void PushLocked(const Key& key);
  void MoveDueLocked(absl::Duration now);
  void Report();

  const WorkQueueOptions options_;
  Clock& clock_;
  std::unique_ptr<Metrics> own_metrics_;
  std::unique_ptr<Reports> reports_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for Get
  std::condition_variable drained_;
  std::deque<Key> waiting_;
  absl::flat_hash_map<Key, absl::Duration> dirty_;       // wanted since; in waiting_ unless a worker has the key
  absl::flat_hash_map<Key, absl::Duration> processing_;  // a worker has it since
  std::set<std::pair<absl::Duration, Key>> delayed_;     // by the time that they are due
  absl::flat_hash_map<Key, absl::Duration> due_;         // the same by key
  absl::flat_hash_map<Key, int> failures_;
  double bucket_;  // tokens at bucket_at_; below zero: promised ahead of time
  absl::Duration bucket_at_;
  bool shut_down_ = false;
  bool draining_ = false;
  std::shared_ptr<void> hook_;  // last: its updates use all of the above
};

}  // namespace tf::kube
