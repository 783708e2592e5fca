// Properties of the engine over random histories: a model of a pool in which everything goes wrong that can, an
// operator that crashes between any two steps and reads caches that lag, and at every step the invariants of the
// design. At the end the faults stop, and every rollout has to come to its end.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rollout/engine.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif

namespace tf::rollout {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer)
constexpr int kHistories = 4'000;
#else
constexpr int kHistories = 100'000;
#endif
constexpr int kMaxNodes = 6;
constexpr int kRevisions = 8;  // 6 and 7 are bad: no pod of them becomes ready
constexpr int64_t kHour = 3600;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int Below(int n) { return static_cast<int>(Next() % static_cast<uint64_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

std::string Revision(int revision) { return std::string(1, static_cast<char>('a' + revision)); }
std::string NodeName(int node) { return "n" + std::to_string(node); }
bool IsBad(int revision) { return revision >= 6; }

struct Pod {
  int uid = 0;
  size_t component = 0;
  int node = -1;  // -1: none yet
  int owner = 0;
  int revision = 0;
  int version = 0;
  Replace replace = Replace::kDelete;
  bool ready = false;
  bool broken = false;
  bool terminating = false;
  int64_t created = 0;
  int64_t since = 0;
  int64_t ready_at = 0;
  int64_t gone_at = 0;
  bool refused = false;
  int64_t retry_after = 0;
};

struct Node {
  bool member = false;
  bool up = true;
  int64_t up_since = 0;
  int64_t joined = 0;
  int64_t down_step = 0;  // of the history
};

struct Owner {  // of worker and client pods
  size_t component = 1;
  int replicas = 1;
  bool forbids = false;  // a disruption budget
  bool bare = false;     // nobody makes its pods again
  int64_t created = 0;
};

struct Spec {
  std::array<int, kComponents> target = {};
  std::array<bool, kComponents> refused = {};
  Policy policy = {};
};

struct Pool {  // the object in the store
  Spec spec = {};
  State state = {};
  std::array<std::string, kComponents> for_new_pods = {};
  int version = 0;
};

struct View {  // what the caches of pods and nodes have
  Observation seen = {};
  int act = 0;  // the operator's acts up to this one are in it
};

class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {}

  // "" when all went well.
  std::string Run() {
    Begin();
    const int steps = 5 + random_.Below(16);
    for (step_ = 1; step_ <= steps && error_.empty(); ++step_) {
      Fault();
      Advance(random_.OneIn(6) ? random_.Below(900) : random_.Below(30));
      if (!random_.OneIn(4)) Operate(true);
    }
    if (error_.empty()) Quiet();
    return error_;
  }

  int64_t decisions = 0;
  bool trace = false;  // says on standard error what happens: TF_HISTORY=seed

 private:
  // ---- The world --------------------------------------------------------------------------------------------------

  void Begin() {
    // A few hours before clocks change in Berlin, in either direction.
    time_ = (random_.OneIn(2) ? 1'774'742'400 : 1'792'886'400) + random_.Below(12 * kHour);
    const int nodes = random_.Below(kMaxNodes);
    for (int i = 0; i < nodes; ++i) nodes_[i] = {.member = true, .up_since = time_ - kHour, .joined = time_ - kHour};
    owners_.resize(4);
    for (size_t i = 0; i < owners_.size(); ++i) {
      owners_[i] = {.component = i < 2 ? 1u : 2u, .replicas = random_.Below(3), .created = time_ - kHour};
    }
    owners_[3].bare = random_.OneIn(3);
    Spec& spec = pool_.spec;
    spec.target = {0, 0, 0};
    Policy& policy = spec.policy;
    policy.auto_update = {true, true, true};
    policy.batch_percentage = 1 + random_.Below(100);
    policy.batch_interval = absl::Seconds(random_.Below(60));
    if (random_.OneIn(2)) policy.max_unavailable = Share{1 + random_.Below(3), false};
    if (random_.OneIn(3)) policy.min_ready = absl::Seconds(random_.Below(40));
    policy.progress_deadline = absl::Seconds(60 + random_.Below(300));
    policy.on_failure = random_.OneIn(2) ? OnFailure::kRollback : OnFailure::kPause;
    policy.max_failures = random_.OneIn(2) ? 0 : random_.Below(3);
    if (random_.OneIn(10)) {
      policy.window_enforced = true;
      policy.window = Window::Read({"0,30 * * * *"}, "Europe/Berlin", absl::Minutes(12));
    }
    for (std::string& revision : pool_.for_new_pods) revision = Revision(0);
    Control(true);
    for (Pod& pod : pods_) pod.ready_at = time_;
    Advance(1);
    pool_.spec.target[static_cast<size_t>(random_.Below(3))] = 1;
    if (random_.OneIn(2)) pool_.spec.target = {1, 1, 1};
    PoolWritten();
  }

  void PoolWritten() {
    ++pool_.version;
    pool_history_.push_back(pool_);
    if (pool_history_.size() > 3) pool_history_.pop_front();
  }

  Pod& NewPod(size_t component, int node, int owner) {
    Pod pod;
    pod.uid = ++uids_;
    pod.component = component;
    pod.node = node;
    pod.owner = owner;
    pod.revision = pool_.for_new_pods[component][0] - 'a';
    pod.created = pod.since = time_;
    pod.ready_at = time_ + 1 + random_.Below(30);
    pod.replace = component == 2 ? Replace::kEvict : Replace::kDelete;
    if (owner >= 0 && owners_[static_cast<size_t>(owner)].bare) pod.replace = Replace::kManual;
    pod.broken = faults_ && random_.OneIn(40);
    pods_.push_back(pod);
    return pods_.back();
  }

  int SomeNode() {
    std::vector<int> up;
    for (int i = 0; i < kMaxNodes; ++i) {
      if (nodes_[i].member && nodes_[i].up) up.push_back(i);
    }
    return up.empty() ? -1 : up[static_cast<size_t>(random_.Below(static_cast<int>(up.size())))];
  }

  // The controllers of pods.
  void Control(bool surely) {
    for (int i = 0; i < kMaxNodes; ++i) {
      if (!nodes_[i].member || !nodes_[i].up) continue;
      const bool there =
          std::any_of(pods_.begin(), pods_.end(), [&](const Pod& pod) { return pod.component == 0 && pod.node == i; });
      if (!there && (surely || !random_.OneIn(3))) NewPod(0, i, -1);
    }
    for (size_t owner = 0; owner < owners_.size(); ++owner) {
      int count = 0;
      for (const Pod& pod : pods_) count += pod.owner == static_cast<int>(owner) && !pod.terminating;
      for (; count < owners_[owner].replicas; ++count) {
        if (owners_[owner].bare && time_ > owners_[owner].created + kHour + 1 && faults_) break;
        if (!surely && random_.OneIn(3)) break;
        NewPod(owners_[owner].component, random_.OneIn(4) && faults_ ? -1 : SomeNode(), static_cast<int>(owner));
      }
      for (Pod& pod : pods_) {
        if (count <= owners_[owner].replicas) break;
        if (pod.owner == static_cast<int>(owner) && !pod.terminating) {
          Terminate(pod);
          --count;
        }
      }
    }
    for (Pod& pod : pods_) {
      if (pod.node == -1 && (surely || random_.OneIn(2))) pod.node = SomeNode();
    }
  }

  void Terminate(Pod& pod) {
    pod.terminating = true;
    pod.gone_at = time_ + random_.Below(20);
    ++pod.version;
  }

  void SetReady(Pod& pod, bool ready) {
    if (pod.ready == ready) return;
    pod.ready = ready;
    pod.since = time_;
    ++pod.version;
  }

  void Advance(int64_t seconds) {
    time_ += seconds;
    std::erase_if(pods_, [&](const Pod& pod) {
      return (pod.terminating && pod.gone_at <= time_) || (pod.node >= 0 && !nodes_[pod.node].member);
    });
    for (Pod& pod : pods_) {
      const bool well = pod.node >= 0 && nodes_[pod.node].up && !pod.broken && !IsBad(pod.revision);
      if (!well) SetReady(pod, false);
      if (well && !pod.ready && pod.ready_at <= time_) SetReady(pod, true);
    }
    Control(!faults_);
    ClearInFlight();
    Observe();
  }

  void Observe() {
    View view;
    view.act = acts_;
    for (int i = 0; i < kMaxNodes; ++i) {
      if (!nodes_[i].member) continue;
      NodeSeen& node = view.seen.nodes.emplace_back();
      node.name = NodeName(i);
      node.up = nodes_[i].up;
      node.up_since = absl::FromUnixSeconds(nodes_[i].up_since);
      node.joined = absl::FromUnixSeconds(nodes_[i].joined);
    }
    for (const Pod& pod : pods_) {
      PodSeen seen;
      seen.ns = "x";
      seen.name = "p" + std::to_string(pod.uid);
      seen.uid = std::to_string(pod.uid);
      seen.resource_version = std::to_string(pod.version);
      for (int r = 0; r < kRevisions; ++r) {
        if (Runs(pod, r)) seen.revisions.push_back(Revision(r));
      }
      seen.replace = pod.replace;
      seen.ready = pod.ready;
      seen.terminating = pod.terminating;
      seen.since = absl::FromUnixSeconds(pod.since);
      seen.created = absl::FromUnixSeconds(pod.created);
      if (pod.owner >= 0) {
        seen.owner = "o" + std::to_string(pod.owner);
        seen.owner_created = absl::FromUnixSeconds(owners_[static_cast<size_t>(pod.owner)].created);
      }
      if (pod.refused) {
        seen.refused_by = "a budget";
        seen.retry_after = absl::FromUnixSeconds(pod.retry_after) + skew_;
      }
      const std::string name = NodeName(pod.node);
      const auto node = std::find_if(view.seen.nodes.begin(), view.seen.nodes.end(),
                                     [&](const NodeSeen& other) { return other.name == name; });
      if (node != view.seen.nodes.end()) {
        node->pods[pod.component].push_back(std::move(seen));
      } else {
        view.seen.components[pod.component].unplaced.push_back(std::move(seen));
      }
    }
    views_.push_back(std::move(view));
    if (views_.size() > 3) views_.pop_front();
  }

  // 2 and 3 differ only in what reaches every other pod.
  static bool Runs(const Pod& pod, int revision) {
    if (pod.revision == revision) return true;
    return pod.uid % 2 == 0 && pod.revision / 2 == 1 && revision / 2 == 1;
  }

  // ---- What goes wrong --------------------------------------------------------------------------------------------

  Pod* SomePod() {
    return pods_.empty() ? nullptr : &pods_[static_cast<size_t>(random_.Below(static_cast<int>(pods_.size())))];
  }

  void Fault() {
    const size_t component = static_cast<size_t>(random_.Below(kComponents));
    Node& node = nodes_[random_.Below(kMaxNodes)];
    Owner& owner = owners_[static_cast<size_t>(random_.Below(4))];
    Policy& policy = pool_.spec.policy;
    switch (random_.Below(24)) {
      case 0:
      case 1:
      case 2:  // an edit
        pool_.spec.target[component] = random_.Below(kRevisions);
        PoolWritten();
        break;
      case 3:  // of everything
        for (int& target : pool_.spec.target) target = random_.Below(kRevisions);
        PoolWritten();
        break;
      case 4:
        policy.paused = !policy.paused;
        PoolWritten();
        break;
      case 5:
        policy.auto_update[component] = !policy.auto_update[component];
        PoolWritten();
        break;
      case 6:
        policy.batch_percentage = 1 + random_.Below(100);
        policy.max_failures = random_.Below(3);
        PoolWritten();
        break;
      case 7:
        if (random_.OneIn(2)) {
          policy.max_unavailable.reset();
        } else {
          policy.max_unavailable = Share{1 + random_.Below(60), true};
        }
        PoolWritten();
        break;
      case 8:
        pool_.spec.refused[component] = !pool_.spec.refused[component];
        PoolWritten();
        break;
      case 9:
      case 10:
      case 11:
        node.up = !node.up;
        node.up_since = time_;
        node.down_step = step_;
        break;
      case 12:  // comes or goes
        node = {.member = !node.member, .up_since = time_, .joined = time_};
        break;
      case 13:
      case 14:
        if (Pod* pod = SomePod()) pod->broken = !pod->broken;
        break;
      case 15:  // somebody deletes a pod
        if (Pod* pod = SomePod(); pod != nullptr && !pod->terminating) Terminate(*pod);
        break;
      case 16:
        owner.forbids = !owner.forbids;
        break;
      case 17:
        owner.replicas = random_.Below(4);
        break;
      case 18:
        skew_ = absl::Seconds(random_.Below(3) == 0 ? 0 : random_.Below(4000) - 2000);
        break;
      case 19:
        restarted_ = true;
        break;
      default:
        break;
    }
  }

  // ---- The operator -----------------------------------------------------------------------------------------------

  absl::Time Now() const { return absl::FromUnixSeconds(time_) + skew_ + absl::Milliseconds(400); }

  void Operate(bool badly) {
    if (views_.empty()) return;
    if (badly && random_.OneIn(12)) restarted_ = true;
    // Caches lag, but not behind the operator's own acts; a new process begins with a fresh one.
    size_t first = views_.size() - 1;
    if (badly && !restarted_) {
      while (first > 0 && views_[first - 1].act >= acts_) --first;
      first += static_cast<size_t>(random_.Below(static_cast<int>(views_.size() - first)));
    }
    restarted_ = false;
    if (views_[first].act < acts_) return;  // waits for its own acts to be seen
    View& view = views_[first];
    const Pool read = badly && random_.OneIn(5) ? pool_history_.front() : pool_;

    for (size_t c = 0; c < kComponents; ++c) {
      view.seen.components[c].target = Revision(read.spec.target[c]);
      view.seen.components[c].refusal.reset();
      if (read.spec.refused[c]) view.seen.components[c].refusal = Refusal{"LicenseRejected", "expired"};
    }
    const absl::Time now = Now();
    const Decision decision = Decide(read.spec.policy, view.seen, read.state, now);
    ++decisions;
    next_look_ = decision.next_look;
    if (trace) Trace(view.seen, decision, read.version == pool_.version);
    CheckReports(read, view.seen, decision, now);
    if (random_.OneIn(20) && !(Decide(read.spec.policy, view.seen, read.state, now).state == decision.state))
      Wrong("not deterministic");

    if (badly && random_.OneIn(10)) return;     // killed before the write
    if (read.version != pool_.version) return;  // a conflict
    bool changed = !(decision.state == pool_.state) || !decision.actions.empty();
    for (size_t c = 0; c < kComponents; ++c) {
      if (pool_.for_new_pods[c] != decision.reports[c].for_new_pods) changed = true;
      pool_.for_new_pods[c] = decision.reports[c].for_new_pods;
    }
    wrote_ = changed;
    if (changed) {
      pool_.state = decision.state;
      PoolWritten();
      CheckWrite(read, view.seen);
    }
    ClearInFlight();
    const size_t die_after = badly && random_.OneIn(8)
                                 ? static_cast<size_t>(random_.Below(static_cast<int>(decision.actions.size()) + 1))
                                 : decision.actions.size();
    CheckActions(read, view.seen, decision, now);
    const std::set<std::string> down_before = Down();
    std::array<std::set<std::string>, kComponents> in_flight_before = in_flight_;
    newly_down_ = 0;
    for (size_t i = 0; i < die_after; ++i) Execute(decision.actions[i]);
    if (die_after < decision.actions.size()) restarted_ = true;
    if (!decision.actions.empty()) ++acts_;
    CheckLimits(down_before, in_flight_before, view.seen);
  }

  void Trace(const Observation& seen, const Decision& decision, bool newest) const {
    fprintf(stderr, "step %d, time %lld%s\n", step_, static_cast<long long>(time_), newest ? "" : ", of an old state");
    for (size_t c = 0; c < kComponents; ++c) {
      const ComponentState& state = decision.state.components[c];
      fprintf(stderr, "  %s: %s %s, %s; batch %lld size %lld opened %lld%s\n", Name(kAllComponents[c]),
              state.target.c_str(), Name(decision.reports[c].phase), decision.reports[c].message.c_str(),
              static_cast<long long>(state.batch), static_cast<long long>(state.batch_size),
              static_cast<long long>(state.batch_opened), state.batch_open ? " open" : "");
      const auto print_pod = [&](const std::string& node, bool up, const PodSeen& pod) {
        std::string revisions;
        for (const std::string& revision : pod.revisions) revisions += revision;
        fprintf(stderr, "    %s%s %s of %s: %s%s%s%s\n", node.c_str(), up ? "" : " (down)", pod.name.c_str(),
                pod.owner.c_str(), revisions.c_str(), pod.ready ? " ready" : "", pod.terminating ? " ends" : "",
                pod.refused_by.empty() ? "" : " refused");
      };
      for (const NodeSeen& node : seen.nodes) {
        for (const PodSeen& pod : node.pods[c]) print_pod(node.name, node.up, pod);
      }
      for (const PodSeen& pod : seen.components[c].unplaced) print_pod("-", true, pod);
      for (const OpenNode& node : state.open) fprintf(stderr, "    open %s\n", node.node.c_str());
      for (const OpenNode& node : state.awaited) fprintf(stderr, "    awaited %s\n", node.node.c_str());
      for (const FailedNode& node : state.failed) fprintf(stderr, "    failed %s\n", node.node.c_str());
      for (const Excused& excused : state.excused) fprintf(stderr, "    excused %s\n", excused.owner.c_str());
      for (const std::string& node : in_flight_[c]) fprintf(stderr, "    in flight %s\n", node.c_str());
    }
    for (const Action& action : decision.actions) {
      fprintf(stderr, "  restart %s on %s%s\n", action.pod.c_str(), action.node.c_str(),
              action.if_unchanged.empty() ? "" : " if unchanged");
    }
  }

  void Execute(const Action& action) {
    const auto pod = std::find_if(pods_.begin(), pods_.end(),
                                  [&](const Pod& other) { return std::to_string(other.uid) == action.uid; });
    if (pod == pods_.end() || pod->terminating) return;
    if (!action.if_unchanged.empty() && action.if_unchanged != std::to_string(pod->version)) return;
    const size_t c = static_cast<size_t>(action.component);
    if (pod->replace != action.how || action.how == Replace::kManual) return Wrong("a pod is restarted the wrong way");
    for (int r = 0; r < kRevisions; ++r) {
      if (Runs(*pod, r) && Revision(r) == pool_.state.components[c].target)
        return Wrong("an up-to-date pod is restarted");
    }
    if (!action.if_unchanged.empty() && pod->ready) return Wrong("a ready pod is restarted out of turn");
    if (action.how == Replace::kEvict && owners_[static_cast<size_t>(pod->owner)].forbids) {
      pod->refused = true;
      pod->retry_after = time_ + 10 + random_.Below(60);
      return;
    }
    const bool was_well = std::all_of(pods_.begin(), pods_.end(), [&](const Pod& other) {
      return other.component != c || other.node != pod->node || (other.ready && !other.terminating);
    });
    if (action.if_unchanged.empty() && in_flight_[c].insert(action.node).second && was_well) ++newly_down_;
    Terminate(*pod);
  }

  // Of the nodes that the operator restarted: those that are well again are in flight no longer.
  void ClearInFlight() {
    for (size_t c = 0; c < kComponents; ++c) {
      const ComponentState& state = pool_.state.components[c];
      std::erase_if(in_flight_[c], [&](const std::string& name) {
        const int node = name[1] - '0';
        if (!nodes_[node].member) return true;
        if (std::any_of(state.failed.begin(), state.failed.end(),
                        [&](const FailedNode& failed) { return failed.node == name; })) {
          return true;
        }
        // Down, and outdated once more by a newer edit: it is set aside.
        if (!nodes_[node].up && std::none_of(state.open.begin(), state.open.end(),
                                             [&](const OpenNode& open) { return open.node == name; })) {
          return std::none_of(pods_.begin(), pods_.end(), [&](const Pod& pod) {
            return pod.component == c && pod.node == node && Runs(pod, state.target[0] - 'a');
          });
        }
        const auto excused = [&](const std::string& owner) {
          return std::any_of(state.excused.begin(), state.excused.end(),
                             [&](const Excused& other) { return other.owner == owner; });
        };
        if (c == 0 && excused(name)) return true;
        bool hypervisor = false;
        for (const Pod& pod : pods_) {
          if (pod.component != c || pod.node != node) continue;
          hypervisor = true;
          if ((pod.ready && !pod.terminating) || pod.replace == Replace::kManual) continue;
          if (!pod.terminating && (pod.refused || excused("o" + std::to_string(pod.owner)))) continue;
          return false;
        }
        return c > 0 || hypervisor;
      });
    }
  }

  std::set<std::string> Down() const {
    std::set<std::string> down;
    for (size_t c = 0; c < kComponents; ++c) {
      down.insert(in_flight_[c].begin(), in_flight_[c].end());
      for (const FailedNode& failed : pool_.state.components[c].failed) {
        if (failed.node[0] == 'n') down.insert(failed.node);
      }
    }
    return down;
  }

  // ---- The invariants ---------------------------------------------------------------------------------------------

  void Wrong(const std::string& what) {
    if (error_.empty()) error_ = what + " at step " + std::to_string(step_);
  }

  static bool Allowed(const Pool& pool, const Decision& decision, size_t c, absl::Time now) {
    const Policy& policy = pool.spec.policy;
    const ComponentState& state = decision.state.components[c];
    return policy.auto_update[c] && !policy.paused && (!pool.spec.refused[c] || !state.rejected.empty()) &&
           (!policy.window_enforced || policy.window.IsOpen(now)) &&
           static_cast<int64_t>(state.failed.size()) <= policy.max_failures;
  }

  void CheckActions(const Pool& pool, const Observation& seen, const Decision& decision, absl::Time now) {
    for (const Action& action : decision.actions) {
      const size_t c = static_cast<size_t>(action.component);
      if (!Allowed(pool, decision, c, now)) return Wrong("something restarts although it must not");
      const ComponentState& state = decision.state.components[c];
      const bool open = std::any_of(state.open.begin(), state.open.end(),
                                    [&](const OpenNode& node) { return node.node == action.node; });
      if (action.if_unchanged.empty() && !open) return Wrong("a restart that the state does not have");
      for (size_t other = 0; other < kComponents; ++other) {
        if (other != c && in_flight_[other].contains(action.node)) {
          return Wrong("two components of a node are in flight");
        }
      }
      // What comes before it on the node has been updated.
      const std::vector<OpenNode>& were_open = pool.state.components[c].open;
      const bool goes_on = std::any_of(were_open.begin(), were_open.end(),
                                       [&](const OpenNode& node) { return node.node == action.node; });
      if (c > 0 && !goes_on && Allowed(pool, decision, 0, now)) {
        for (const NodeSeen& node : seen.nodes) {
          if (node.name != action.node) continue;
          for (const PodSeen& pod : node.pods[0]) {
            if (!Has(pod.revisions, decision.state.components[0].target) && !pod.terminating && node.up) {
              return Wrong("a worker or client goes before its hypervisor");
            }
          }
        }
      }
    }
  }

  static bool Has(const std::vector<std::string>& revisions, const std::string& revision) {
    return std::find(revisions.begin(), revisions.end(), revision) != revisions.end();
  }

  void CheckLimits(const std::set<std::string>& down_before,
                   const std::array<std::set<std::string>, kComponents>& in_flight_before, const Observation& seen) {
    for (size_t c = 0; c < kComponents; ++c) {
      const ComponentState& state = pool_.state.components[c];
      if (in_flight_[c].size() > in_flight_before[c].size() &&
          static_cast<int64_t>(in_flight_[c].size()) > state.batch_size) {
        Wrong(std::string("more in flight than a batch: ") + Name(kAllComponents[c]));
      }
    }
    const std::optional<Share>& limit = pool_.spec.policy.max_unavailable;
    if (!limit) return;
    const std::set<std::string> down = Down();
    if (newly_down_ > 0 && down.size() > down_before.size() &&
        static_cast<int64_t>(down.size()) > Nodes(*limit, static_cast<int64_t>(seen.nodes.size()))) {
      Wrong("more unavailable than maxUnavailable");
    }
  }

  void CheckReports(const Pool& pool, const Observation& seen, const Decision& decision, absl::Time now) {
    for (size_t c = 0; c < kComponents; ++c) {
      const Report& report = decision.reports[c];
      const ComponentState& state = decision.state.components[c];
      if (report.progress < 0 || report.progress > 100) return Wrong("progress is no percentage");
      if ((report.progress == 100) != state.complete) return Wrong("100 means complete");
      if (report.synced && !state.complete) return Wrong("synced, not complete");
      if (report.ready > report.updated || report.updated > report.total) return Wrong("counts do not add up");
      if (report.stuck.size() > kMaxStuck) return Wrong("too many stuck units");
      if (decision.next_look && *decision.next_look <= now) return Wrong("the next look is in the past");
      if (report.reason.empty() || report.message.empty()) return Wrong("no reason is given");

      // Everything is of the revision and ready, and has been for long enough: then it is 100, and only then where
      // nothing is set aside.
      bool all = true;
      bool outdated = false;
      const absl::Time long_ago = now - pool.spec.policy.min_ready;
      const auto look = [&](const PodSeen& pod, bool up) {
        const bool of_revision = Has(pod.revisions, state.target);
        if (!of_revision || !pod.ready || pod.terminating || !up || pod.since > long_ago) all = false;
        if (!of_revision && !pod.terminating && up) outdated = true;
      };
      for (const NodeSeen& node : seen.nodes) {
        if (!node.up || (c == 0 && node.pods[c].empty())) all = false;
        for (const PodSeen& pod : node.pods[c]) look(pod, node.up);
      }
      for (const PodSeen& pod : seen.components[c].unplaced) look(pod, false);
      if (all && !state.complete) return Wrong("everything is up to date, and it is not 100");
      if (state.complete && outdated) return Wrong("something is outdated, and it is 100");
      if (state.complete && report.ready != report.total) return Wrong("100 without being ready");
      if (state.complete && !all && report.skipped == 0 && c == 0) {
        const bool settling_only = std::all_of(seen.nodes.begin(), seen.nodes.end(), [&](const NodeSeen& node) {
          return node.up && !node.pods[c].empty() &&
                 std::all_of(node.pods[c].begin(), node.pods[c].end(),
                             [](const PodSeen& pod) { return pod.ready && !pod.terminating; });
        });
        if (!settling_only) return Wrong("100, something is not ready, and nothing is set aside");
      }
    }
  }

  void CheckWrite(const Pool& before, const Observation& seen) {
    for (size_t c = 0; c < kComponents; ++c) {
      const ComponentState& old = before.state.components[c];
      const ComponentState& state = pool_.state.components[c];
      const bool same = old.target == state.target && old.started == state.started && (state.complete || !old.complete);
      if (same && state.progress < old.progress) Wrong("progress falls");
      if (old.target == state.target && !old.complete && old.started != state.started) Wrong("a campaign begins anew");
      if (!same) {
        started_step_[c] = step_;
        old_open_[c].clear();
        for (const OpenNode& open : state.open) old_open_[c].insert(open.node);
        // Those that had failed are set aside, also where that is what led to the way back.
        std::erase_if(in_flight_[c], [&](const std::string& name) {
          if (old_open_[c].contains(name)) return false;
          if (old.rejected.empty() && !state.rejected.empty()) return true;
          return std::any_of(old.failed.begin(), old.failed.end(),
                             [&](const FailedNode& failed) { return failed.node == name; });
        });
      }
      if (static_cast<int64_t>(state.failed.size()) > before.spec.policy.max_failures && state.rejected.empty() &&
          before.spec.policy.on_failure == OnFailure::kRollback && !state.last_good.empty() &&
          state.last_good != state.target) {
        Wrong("it does not roll back");
      }
      if (!state.rejected.empty() && Revision(before.spec.target[c]) != state.rejected)
        Wrong("a newer edit is ignored");
      if (state.rejected.empty() && Revision(before.spec.target[c]) != state.target)
        Wrong("the target is not followed");
      // Seen down, and restarted for a revision that is no longer wanted: set aside.
      for (const NodeSeen& node : seen.nodes) {
        const bool open = std::any_of(state.open.begin(), state.open.end(),
                                      [&](const OpenNode& other) { return other.node == node.name; });
        const bool begun = std::any_of(node.pods[c].begin(), node.pods[c].end(),
                                       [&](const PodSeen& pod) { return Has(pod.revisions, state.target); });
        if (!node.up && !open && !begun) in_flight_[c].erase(node.name);
      }
      // Down since before the campaign, and not restarted by it: no evidence.
      if (c == 0) {
        for (const FailedNode& failed : state.failed) {
          const Node& node = nodes_[failed.node[1] - '0'];
          const bool here = std::any_of(seen.nodes.begin(), seen.nodes.end(),
                                        [&](const NodeSeen& other) { return other.name == failed.node && !other.up; });
          if (here && node.member && !node.up && node.down_step < started_step_[c] &&
              !old_open_[c].contains(failed.node)) {
            Wrong("a node that was down before has failed");
          }
        }
      }
    }
  }

  // ---- The end ----------------------------------------------------------------------------------------------------

  // Faults stop: nodes are up, pods get well, a person finishes what only a person can.
  void Quiet() {
    faults_ = false;
    skew_ = absl::ZeroDuration();
    Policy& policy = pool_.spec.policy;
    policy.paused = false;
    policy.auto_update = {true, true, true};
    pool_.spec.refused = {};
    for (Node& node : nodes_) {
      if (!node.up) node.up_since = time_;
      node.up = true;
    }
    for (Owner& owner : owners_) owner.forbids = false;
    for (Pod& pod : pods_) pod.broken = false;
    if (SomeNode() == -1) {
      for (Owner& owner : owners_) owner.replicas = 0;
    }
    const bool edit = random_.OneIn(2);
    for (size_t c = 0; c < kComponents; ++c) {
      if (edit || IsBad(pool_.spec.target[c])) pool_.spec.target[c] = 4 + random_.Below(2);
    }
    PoolWritten();
    Advance(1);
    for (int i = 0; i < 400 && error_.empty(); ++i) {
      Operate(false);
      if (Ended()) return;
      // A person restarts what nobody else would.
      for (Pod& pod : pods_) {
        if (pod.replace == Replace::kManual && !pod.terminating) {
          if (pool_.for_new_pods[pod.component] != Revision(pod.revision)) Terminate(pod);
        }
      }
      // With nothing to wait for among the pods, only the engine's own times go on.
      int64_t wait = 5 + random_.Below(20);
      if (!wrote_ && next_look_)
        wait = std::max(wait, std::min<int64_t>(kHour, (*next_look_ - Now()) / absl::Seconds(1) + 1));
      Advance(wait);
    }
    if (!error_.empty()) return;
    for (size_t c = 0; c < kComponents; ++c) {
      if (pool_.state.components[c].complete) continue;
      const Decision decision = [&] {
        Observation seen = views_.back().seen;
        for (size_t k = 0; k < kComponents; ++k) seen.components[k].target = Revision(pool_.spec.target[k]);
        return Decide(pool_.spec.policy, seen, pool_.state, Now());
      }();
      const Report& report = decision.reports[c];
      return Wrong(std::string("it does not end: ") + Name(kAllComponents[c]) + " " + Name(report.phase) + " " +
                   report.reason + " " + report.message);
    }
    Wrong("it does not end");
  }

  bool Ended() const {
    for (size_t c = 0; c < kComponents; ++c) {
      const ComponentState& state = pool_.state.components[c];
      if (!state.complete || !state.open.empty() || !state.failed.empty()) return false;
      for (const Pod& pod : pods_) {
        if (pod.component == c && (!pod.ready || pod.terminating || !Runs(pod, state.target[0] - 'a'))) return false;
      }
    }
    return true;
  }

  Random random_;
  std::string error_ = {};
  int step_ = 0;
  int64_t time_ = 0;
  absl::Duration skew_ = absl::ZeroDuration();  // of the operator's clock
  bool faults_ = true;
  int uids_ = 0;
  std::array<Node, kMaxNodes> nodes_ = {};
  std::vector<Owner> owners_ = {};
  std::vector<Pod> pods_ = {};
  Pool pool_ = {};
  std::deque<Pool> pool_history_ = {};
  std::deque<View> views_ = {};
  int acts_ = 0;
  bool restarted_ = false;
  bool wrote_ = false;
  int newly_down_ = 0;  // nodes that were well until this decision
  std::optional<absl::Time> next_look_ = {};
  std::array<std::set<std::string>, kComponents> in_flight_ = {};  // restarted in their turn, not well again
  std::array<int, kComponents> started_step_ = {};
  std::array<std::set<std::string>, kComponents> old_open_ = {};
};

TEST(Histories, KeepEveryInvariantAndEnd) {
  if (const char* seed = getenv("TF_HISTORY")) {
    History history(strtoull(seed, nullptr, 10));
    history.trace = true;
    EXPECT_EQ(history.Run(), "");
    return;
  }
  constexpr int kThreads = 2;
  std::array<std::vector<std::string>, kThreads> errors;
  std::array<int64_t, kThreads> decisions = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int seed = t; seed < kHistories && errors[t].size() < 5; seed += kThreads) {
        History history(static_cast<uint64_t>(seed));
        const std::string error = history.Run();
        decisions[t] += history.decisions;
        if (!error.empty()) errors[t].push_back("history " + std::to_string(seed) + ": " + error);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<std::string>& some : errors) {
    for (const std::string& error : some) ADD_FAILURE() << error;
  }
  // The histories did something.
  EXPECT_GT(decisions[0] + decisions[1], int64_t{kHistories} * 5);
}

}  // namespace
}  // namespace tf::rollout
