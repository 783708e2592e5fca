// Carries out what a rollout asks for: deletes pods of ours, evicts those of applications, each only if it is still the
// pod that was looked at.
//
// Evictions go through the Eviction API, so that PodDisruptionBudgets hold; what is refused is never tried in another
// way. Refusals are remembered with a back-off, for the next observation. And so are restarts that took effect, until
// the caches have caught up with them: the engine must not be shown a pod that it has already restarted. In memory
// only: after a start the caches are fresh, and a refusal comes again. Thread-safe.
#pragma once

#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kube/client.h"
#include "rollout/engine.h"

namespace tf::operators {

// Who refused: "PodDisruptionBudget apps/web: …", or what went wrong otherwise.
std::string RefusedBy(const absl::Status& status, const std::string& ns);

class Restarts {
 public:
  explicit Restarts(kube::Client& client) : client_(client) {}

  // True: it took effect, or there was nothing to do any more. False: refused; Amend says so from now on.
  bool Restart(const rollout::Action& action, absl::Time now);

  // Adds what is known here of a pod as the caches have it.
  void Amend(rollout::PodSeen& pod);
  // The pod is gone from the caches.
  void Forget(const std::string& uid);

 private:
  struct Known {
    bool restarted = false;
    std::string refused_by = {};
    int refusals = 0;
    absl::Time retry_after = absl::InfinitePast();
  };

  absl::Status Do(const rollout::Action& action);

  kube::Client& client_;
  std::mutex mutex_;
  absl::flat_hash_map<std::string, Known> known_;  // by UID
};

}  // namespace tf::operators
