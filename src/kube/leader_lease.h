// One leader among the replicas of a program, by a Lease object (coordination.k8s.io/v1).
//
// The decisions are LeaseCandidate's; this runs them on a thread of its own ("lease") and works the Fence. A program
// that leads and learns that it does no longer must end at once: `lost` is called for that, on the lease's thread, with
// the fence already shut. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "kube/fence.h"
#include "kube/lease_candidate.h"
#include "kube/metrics.h"
#include "kube/object.h"

namespace tf::kube {

// Where the Lease is kept. Each call ends within its limit.
struct LeaseStore {
  std::function<absl::StatusOr<Json>(absl::Duration limit)> read = {};
  std::function<absl::StatusOr<Json>(const Json& lease, absl::Duration limit)> create = {};
  std::function<absl::StatusOr<Json>(const Json& lease, absl::Duration limit)> update = {};
};

struct LeaderLeaseOptions {
  Key lease = {};
  std::string identity = {};  // "": host name and a random part; two processes must never share one
  LeaseSettings settings = {};
  // Ends this process by the system's hand (SIGKILL from a CLOCK_BOOTTIME timer) between the deadline of our writes and
  // the time when somebody else may lead. It reaches a process that is stopped, too, so that it never wakes. Only with
  // a clock that runs with the system's.
  bool kill_when_overdue = false;

  // On the lease's thread; they must not block.
  std::function<void()> acquired = {};
  std::function<void(const std::string& reason)> lost = {};
  std::function<void(const std::string& holder)> holder_changed = {};  // "": nobody

  Clock* clock = nullptr;      // RealClock()
  Metrics* metrics = nullptr;  // leader_election_master_status{name}; none: nobody looks
};

class LeaderLease {
 public:
  // InvalidArgument: the settings could let two lead at a time.
  static absl::StatusOr<std::unique_ptr<LeaderLease>> Make(LeaseStore store, LeaderLeaseOptions options);
  ~LeaderLease();  // Stop()

  void Start();
  // Shuts the fence and gives the lease back, so that the next leader need not wait. The caller has ended its writes.
  void Stop();

  // The record may have changed: whoever does not lead looks at once. Called for each event of a watch, it makes the
  // time until a silent leader is followed the lease's duration, without the time between two looks.
  void Look();

  Fence& fence() { return fence_; }
  const std::string& identity() const { return options_.identity; }
  bool leading() const;
  std::string holder() const;  // as last seen; "": nobody

 private:
  class KillTimer;

  LeaderLease(LeaseStore store, LeaderLeaseOptions options);
  void Run();
  absl::StatusOr<Json> Do(const LeaseCandidate::Step& step);

  LeaderLeaseOptions options_;
  const LeaseStore store_;
  Clock& clock_;
  std::unique_ptr<Metrics> own_metrics_;
  prometheus::Gauge& status_;
  Fence fence_;
  std::unique_ptr<KillTimer> kill_timer_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool look_ = false;
  bool leading_ = false;
  std::string holder_;
  LeaseCandidate candidate_;  // of the thread alone
  std::thread thread_;
};

}  // namespace tf::kube
