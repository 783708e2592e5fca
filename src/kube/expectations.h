// What a controller has done and its cache does not show yet.
//
// A controller that makes children looks at a cache that lags behind its own writes; without a memory it would make
// them twice. Before it creates or deletes it says so here; its handlers say what they see; until all is seen (or five
// minutes have passed, for an event may never come) the controller leaves the owner's children as they are. A create
// that failed is taken back with CreationSeen. In memory only: a new process begins with a fresh cache.
// Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/object.h"

namespace tf::kube {

class Expectations {
 public:
  explicit Expectations(Clock& clock, absl::Duration expiry = absl::Minutes(5)) : clock_(clock), expiry_(expiry) {}

  // Of children of `owner`. They add to what is expected already, and the five minutes begin anew.
  void ExpectCreations(const Key& owner, int count);
  // By the UIDs of the children: a deletion may be seen several times (deletionTimestamp, then gone).
  void ExpectDeletions(const Key& owner, const std::vector<std::string>& uids);

  void CreationSeen(const Key& owner);
  void DeletionSeen(const Key& owner, const std::string& uid);

  // All is seen, nothing was ever expected, or it took too long.
  bool Satisfied(const Key& owner) const;
  // The owner is gone.
  void Forget(const Key& owner);

 private:
  struct Pending {
    int creations = 0;
    absl::flat_hash_set<std::string> deletions;
    absl::Duration since;
  };

  Clock& clock_;
  const absl::Duration expiry_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<Key, Pending> pending_;
};

}  // namespace tf::kube
