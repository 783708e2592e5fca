// An informer under random faults: what it may tell, and what it must have told in the end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kube/informer.h"
#include "support/fault_proxy.h"

namespace tf::testing {

// Listens to an informer as a strict reader of its promises would.
class Witness {
 public:
  kube::Handler handler();

  // What was told against the promises; the first hundred.
  std::vector<std::string> violations() const;
  // Versions of all that was told, in that order.
  std::vector<uint64_t> told() const;
  int64_t count() const;
  // What the informer's reader believes to exist: versions by "ns/name".
  std::map<std::string, uint64_t> objects() const;

  // Waits until something of at least this version was told.
  bool AwaitVersion(uint64_t version, absl::Duration limit);
  bool AwaitObjects(const std::map<std::string, uint64_t>& expected, absl::Duration limit);

 private:
  struct Known {
    kube::ObjectPtr object;  // null: not there at the moment
    uint64_t version = 0;    // the newest told, of this or an earlier object of the name
  };
  void Tell(char kind, const kube::ObjectPtr& before, const kube::ObjectPtr& object);
  void Complain(const std::string& what, const kube::ObjectPtr& object);
  std::map<std::string, uint64_t> Objects() const;  // with mutex_ held

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Known> known_;
  std::vector<std::string> violations_;
  std::vector<uint64_t> told_;
  uint64_t newest_ = 0;
};

struct FaultMix {
  uint64_t seed = 1;
  int events_between = 400;  // about so many events of a watch before something happens to it
  bool forget = false;       // also answers that make it read all again: 410, in answers and events; stale lists
};

// Faults at random, the same for the same seed as far as requests come in the same order.
std::function<Fault(const ScriptedRequest&, int)> RandomFaults(FaultMix mix);

// Of the proxy's counts: how many answers and events of 410 it gave.
int64_t Forgotten(const std::map<std::string, int64_t>& counts);
// How many things went wrong in all.
int64_t Injected(const std::map<std::string, int64_t>& counts);

// Short delays, so that there is time for many faults.
kube::InformerOptions HastyInformer(bool watch_list);

}  // namespace tf::testing
