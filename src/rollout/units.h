// One component on the nodes of a pool, sorted out: which pods are to be restarted, which are awaited, which are no
// evidence. Internal to the engine. Points into the observation, which outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rollout/engine.h"

namespace tf::rollout {

// What of the state decides how pods are judged.
struct Judgement {
  Component component = Component::kHypervisor;
  std::string target = {};
  absl::Time started = {};
  absl::Duration min_ready = {};
  const std::vector<Excused>* excused = nullptr;
};

// A node's part of the component; or a pod that has no node.
struct Unit {
  std::string name = {};           // the node, or ns/name of the pod
  const NodeSeen* node = nullptr;  // null: it has no node
  bool up = true;

  // Not of the revision, not terminating, and somebody would make a new one:
  std::vector<const PodSeen*> due = {};      // ready
  std::vector<const PodSeen*> broken = {};   // not ready, or the node is down
  std::vector<const PodSeen*> refused = {};  // the next attempt has to wait
  bool refused_down = false;                 // one of them is not ready
  std::vector<const PodSeen*> manual = {};   // not of the revision, and nobody would

  size_t leaving = 0;  // terminating, not of the revision
  size_t ending = 0;   // terminating, of the revision
  size_t current = 0;  // of the revision, ready

  // Of the revision and not ready:
  std::vector<const PodSeen*> awaited = {};  // stands in for one that was: evidence
  size_t innocent = 0;                       // was not ready before its turn, or is new altogether

  bool settling = false;  // ready, but not for long enough
  absl::Time settled_at = absl::InfinitePast();
  absl::Time oldest = absl::InfiniteFuture();  // of those that are due

  bool Outdated() const {
    return !due.empty() || !broken.empty() || !refused.empty() || !manual.empty() || leaving > 0;
  }
  // Ready, but for what is no evidence.
  bool Settled() const { return awaited.empty() && !settling && leaving == 0; }
  bool Done() const { return !Outdated() && awaited.empty() && innocent == 0 && !settling; }
  bool Disturbed() const { return leaving > 0 || ending > 0 || !awaited.empty(); }
  bool Empty() const { return !Outdated() && ending == 0 && current == 0 && awaited.empty() && innocent == 0; }
};

class Units {
 public:
  // had_turn: names of units that were restarted, or awaited.
  Units(const Judgement& judgement, const Observation& seen, const std::unordered_set<std::string>& had_turn,
        absl::Time now);
  Units(const Units&) = delete;
  Units& operator=(const Units&) = delete;

  std::vector<Unit>& all() { return units_; }  // nodes as they were seen, then what has no node
  Unit* Find(const std::string& name);

  // Pods that were not ready before their turn and are restarted: what takes their place is no evidence.
  void Excuse(const Unit& unit, const std::vector<const PodSeen*>& restarted);
  // A unit is restarted in its turn: what of its owners has become ready is excused no longer.
  void EndExcuse(const Unit& unit);
  // Nor is any pod of an owner that is of the revision and ready as a whole.
  void EndExcuses();
  std::vector<Excused> excused() const;

 private:
  struct Owner {
    int64_t quota = 0;  // excused pods
    int64_t used = 0;   // of them, seen not ready
    int64_t unready = 0;
    bool done = true;  // what is seen of it is of the revision and ready
    bool seen = false;
  };

  Unit& Add(const std::string& name);
  void Sort(const PodSeen& pod, Unit& unit, bool had_turn);
  std::string OwnerOf(const PodSeen& pod, const Unit& unit) const;

  const Judgement judgement_;
  const absl::Time now_;
  std::vector<Unit> units_ = {};
  std::unordered_map<std::string, size_t> index_ = {};  // into units_, by name
  std::unordered_map<std::string, Owner> owners_ = {};
  std::deque<PodSeen> missing_ = {};  // hypervisors that ought to be there
};

}  // namespace tf::rollout
