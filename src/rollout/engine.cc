#include "rollout/engine.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rollout/units.h"

namespace tf::rollout {
namespace {

constexpr size_t kMaxMessage = 240;

absl::Time Floor(absl::Time time) { return absl::FromUnixSeconds(absl::ToUnixSeconds(time)); }
absl::Time Ceil(absl::Time time) {
  const absl::Time floor = Floor(time);
  return floor == time ? time : floor + absl::Seconds(1);
}

std::string Short(std::string text) {
  if (text.size() > kMaxMessage) {
    text.resize(kMaxMessage - 3);
    text += "...";
  }
  return text;
}

std::string Count(int64_t n, absl::string_view one, absl::string_view many) {
  return absl::StrCat(n, " ", n == 1 ? one : many);
}

template <typename Entry>
void SortByNode(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.node < b.node; });
}

// What stops a component from restarting anything.
enum class Stop { kNone, kFailed, kRefused, kPolicy, kOff, kPaused, kWindow };

// What the components of a pool share during one decision.
struct Shared {
  std::set<std::string> unavailable = {};  // nodes
  int64_t unplaced = 0;                    // replicas without a node, of nodes that have been restarted
  // By node, what the components before have there.
  std::map<std::string, const char*> before = {};  // not updated yet, and about to be
  std::set<std::string> without_hypervisor = {};
};

// One component during one decision.
class Rollout {
 public:
  Rollout(Component component, const Policy& policy, const Observation& seen, absl::Time now, Decision& decision)
      : component_(component),
        policy_(policy),
        seen_(seen),
        component_seen_(seen.components[static_cast<size_t>(component)]),
        now_(now),
        decision_(decision),
        state_(decision.state.components[static_cast<size_t>(component)]),
        report_(decision.reports[static_cast<size_t>(component)]) {}

  // First for all components: what there is.
  void Look(Shared& shared);
  // Then in their order: what is to be done.
  void Act(Shared& shared);

 private:
  bool Configured() const { return !component_seen_.target.empty(); }
  Judgement Judge() const {
    return {component_, state_.target, state_.started.value_or(now_), policy_.min_ready, &state_.excused};
  }
  void SortOut();
  Units& units() { return *units_; }

  void MendClock();
  void FollowTarget();
  void Begin();
  bool SomethingIsOutdated();
  void LookAtOpen();
  void LookAtAwaited();
  void LookAtFailed();
  bool RollBackIfWanted();
  Stop FindStop();
  bool Skipped(const Unit& unit, const Shared& shared) const;
  bool TakesPart(const Unit& unit) const { return component_ == Component::kHypervisor || !unit.Empty(); }
  bool Busy(const std::string& node) const;

  void Repair(Shared& shared);
  void AskAgain();
  void CloseBatch();
  void OpenUnits(Shared& shared);
  void Open(Unit& unit);
  void Restart(const Unit& unit, const PodSeen& pod, bool if_unchanged);
  void Finish();
  void Show(Shared& shared);
  void ShowPhase(Shared& shared);
  void ShowStuck(Shared& shared);
  void FindNextLook();

  bool IsOpen(const std::string& name) const { return Has(state_.open, name); }
  bool IsAwaited(const std::string& name) const { return Has(state_.awaited, name); }
  bool IsFailed(const std::string& name) const { return Has(state_.failed, name); }
  template <typename Entry>
  static bool Has(const std::vector<Entry>& entries, const std::string& name) {
    const auto found =
        std::lower_bound(entries.begin(), entries.end(), name,
                         [](const Entry& entry, const std::string& wanted) { return entry.node < wanted; });
    return found != entries.end() && found->node == name;
  }
  void Fail(const std::string& name, const Unit* unit);
  void Say(EventType type, std::string message) {
    decision_.events.push_back({type, component_, Short(std::move(message))});
  }
  int64_t BatchesLeft() const;

  const Component component_;
  const Policy& policy_;
  const Observation& seen_;
  const ComponentSeen& component_seen_;
  const absl::Time now_;
  Decision& decision_;
  ComponentState& state_;
  Report& report_;
  std::optional<Units> units_ = {};  // for state_.target
  Stop stop_ = Stop::kNone;
  std::map<std::string, absl::Time> again_ = {};  // nodes whose restart was asked for and has not happened: go first
  // Counted by Act.
  std::vector<Unit*> candidates_ = {};  // may be opened now, in this order
  int64_t waiting_ = 0;                 // are to be opened: candidates and those that something holds up
  int64_t refused_ = 0;                 // units that only refusals hold up
  const char* waits_for_ = nullptr;     // the component that holds one up
  bool budget_full_ = false;
};

// ---- What there is ----------------------------------------------------------------------------------------------

void Rollout::SortOut() {
  std::unordered_set<std::string> had_turn;
  for (const OpenNode& node : state_.open) had_turn.insert(node.node);
  for (const OpenNode& node : state_.awaited) had_turn.insert(node.node);
  for (const FailedNode& node : state_.failed) had_turn.insert(node.node);
  units_.emplace(Judge(), seen_, had_turn, now_);
}

// A clock that was set back leaves times in the future: they count from now.
void Rollout::MendClock() {
  const absl::Time latest = Ceil(now_);
  for (std::vector<OpenNode>* nodes : {&state_.open, &state_.awaited}) {
    for (OpenNode& node : *nodes) {
      if (node.since > latest) node.since = Floor(now_);
    }
  }
  if (state_.batch_healthy && *state_.batch_healthy > latest) state_.batch_healthy = latest;
}

void Rollout::FollowTarget() {
  const std::string& wanted = component_seen_.target;
  if (!state_.rejected.empty() && wanted != state_.rejected) state_.rejected.clear();
  const std::string target = state_.rejected.empty() ? wanted : state_.last_good;
  if (target != state_.target) {
    const std::string before = state_.target;
    if (state_.complete || target == state_.from || state_.from.empty()) state_.from = before;
    state_.target = target;
    Begin();
  }
}

// A campaign begins. What is in flight stays in flight, towards the new target.
void Rollout::Begin() {
  state_.started = Floor(now_);
  state_.complete = false;
  state_.announced = false;
  state_.halted_for.clear();
  state_.progress = 0;
  state_.batch = 0;
  state_.batch_size = 0;
  state_.batch_opened = 0;
  state_.batch_open = false;
  state_.batch_started.reset();
  state_.batch_healthy.reset();
  state_.awaited.clear();
  state_.failed.clear();
  state_.excused.clear();
  SortOut();
  std::vector<OpenNode> in_flight;
  for (const OpenNode& open : state_.open) {
    const Unit* unit = units().Find(open.node);
    const bool available = unit == nullptr || (!unit->Disturbed() && unit->broken.empty() && !unit->refused_down);
    if (!available) in_flight.push_back({open.node, Floor(now_)});
  }
  state_.open = std::move(in_flight);
  if (!state_.open.empty()) {
    state_.batch = 1;
    state_.batch_open = true;
    state_.batch_opened = static_cast<int64_t>(state_.open.size());
    state_.batch_started = Floor(now_);
  }
  SortOut();
  // Of the revision already and not ready: no evidence, whatever the clocks of two machines say.
  for (const Unit& unit : units().all()) {
    if (!IsOpen(unit.name)) units().Excuse(unit, unit.awaited);
  }
  state_.excused = units().excused();
  SortOut();
}

// On nodes that are there. After the end of a campaign: a node that was down is back.
bool Rollout::SomethingIsOutdated() {
  return std::any_of(units().all().begin(), units().all().end(), [](const Unit& unit) {
    return unit.up && (!unit.due.empty() || !unit.broken.empty() || !unit.refused.empty() || !unit.manual.empty());
  });
}

void Rollout::Fail(const std::string& name, const Unit* unit) {
  FailedNode failed{name, Floor(now_), "ProgressDeadlineExceeded", ""};
  const absl::Duration deadline = policy_.progress_deadline;
  failed.message = absl::StrCat("it is not ready ", absl::FormatDuration(deadline), " after its turn");
  if (unit != nullptr && !unit->up) {
    failed.reason = unit->node->down_reason.empty() ? "NodeNotReady" : unit->node->down_reason;
    absl::StrAppend(&failed.message, ": the node is down");
  } else if (unit != nullptr && !unit->awaited.empty()) {
    const PodSeen& pod = *unit->awaited.front();
    if (!pod.trouble.empty()) failed.reason = pod.trouble;
    absl::StrAppend(&failed.message, ": pod ", pod.name);
    if (!pod.trouble_message.empty()) absl::StrAppend(&failed.message, ": ", pod.trouble_message);
  } else if (unit != nullptr && unit->leaving > 0) {
    failed.reason = "Terminating";
    absl::StrAppend(&failed.message, ": a pod of the revision before does not end");
  }
  failed.message = Short(failed.message);
  state_.failed.push_back(std::move(failed));
}

void Rollout::LookAtOpen() {
  std::vector<OpenNode> still;
  for (OpenNode& open : state_.open) {
    const Unit* unit = units().Find(open.node);
    if (unit == nullptr) continue;  // the node is gone
    const bool nothing_begun = !unit->Disturbed() && unit->current == 0 && unit->innocent == 0;
    const bool outdated = !unit->due.empty() || !unit->broken.empty() || !unit->refused.empty();
    if (!outdated && unit->Settled() && unit->ending == 0) continue;
    // Ready and outdated: its restart has not happened, for want of an operator or because it was refused. It is not in
    // flight: its place is free, and it may be opened again, within what is allowed now.
    const bool ready = unit->broken.empty() && !unit->refused_down;
    if (outdated && !unit->Disturbed() && !unit->settling && (ready || (!unit->up && nothing_begun))) {
      state_.batch_opened = std::max<int64_t>(0, state_.batch_opened - 1);
      if (unit->refused.empty()) again_[open.node] = open.since;
      continue;
    }
    if (now_ - open.since >= policy_.progress_deadline) {
      if (unit->Disturbed() || unit->settling) {
        Fail(open.node, unit);
        continue;
      }
      // Nothing of the revision has been seen, which is no evidence. While restarts are stopped it goes on later; where
      // they are refused it is set aside.
      if (stop_ == Stop::kNone && !unit->refused.empty()) continue;
      open.since = Floor(now_);
    }
    still.push_back(open);
  }
  state_.open = std::move(still);
  SortByNode(state_.failed);
}

void Rollout::LookAtAwaited() {
  std::map<std::string, absl::Time> since;
  for (const OpenNode& awaited : state_.awaited) since[awaited.node] = awaited.since;
  state_.awaited.clear();
  for (const Unit& unit : units().all()) {
    if (state_.complete || IsOpen(unit.name) || IsFailed(unit.name)) continue;
    if (unit.awaited.empty() && !unit.settling) continue;
    const auto known = since.find(unit.name);
    const absl::Time first = known == since.end() ? Floor(now_) : known->second;
    if (now_ - first >= policy_.progress_deadline) {
      Fail(unit.name, &unit);
      SortByNode(state_.failed);
    } else {
      state_.awaited.push_back({unit.name, first});
    }
  }
  SortByNode(state_.awaited);
}

// Those that are well after all, and those that are gone, have not failed.
void Rollout::LookAtFailed() {
  std::erase_if(state_.failed, [this](const FailedNode& failed) {
    const Unit* unit = units().Find(failed.node);
    return unit == nullptr || unit->Settled();
  });
}

bool Rollout::RollBackIfWanted() {
  if (static_cast<int64_t>(state_.failed.size()) <= policy_.max_failures) return false;
  if (policy_.on_failure != OnFailure::kRollback || !state_.rejected.empty()) return false;
  if (state_.last_good.empty() || state_.last_good == state_.target) return false;
  Say(EventType::kRolloutFailed,
      absl::StrCat(Count(static_cast<int64_t>(state_.failed.size()), "node", "nodes"), " failed with revision ",
                   state_.target, " (", state_.failed.front().node, ": ", state_.failed.front().reason,
                   "), rolling back to ", state_.last_good));
  state_.rejected = state_.target;
  state_.from = state_.target;
  state_.target = state_.last_good;
  Begin();
  state_.announced = true;
  return true;
}

Stop Rollout::FindStop() {
  if (static_cast<int64_t>(state_.failed.size()) > policy_.max_failures) return Stop::kFailed;
  if (component_seen_.refusal && state_.rejected.empty()) return Stop::kRefused;
  if (!policy_.problems.empty()) return Stop::kPolicy;
  if (!policy_.auto_update[static_cast<size_t>(component_)]) return Stop::kOff;
  if (policy_.paused) return Stop::kPaused;
  if (policy_.window_enforced && !policy_.window.IsOpen(now_)) return Stop::kWindow;
  return Stop::kNone;
}

void Rollout::Look(Shared& shared) {
  if (!Configured()) {
    // What is good and what was rolled back stays known; nothing is in flight.
    ComponentState rest;
    rest.last_good = state_.last_good;
    rest.rejected = state_.rejected;
    rest.progress = 100;
    state_ = std::move(rest);
    return;
  }
  MendClock();
  FollowTarget();
  if (!units_) SortOut();
  if (state_.complete && SomethingIsOutdated()) Begin();
  LookAtFailed();
  stop_ = FindStop();
  LookAtOpen();
  LookAtAwaited();
  if (RollBackIfWanted()) {
    LookAtOpen();
    LookAtAwaited();
  }
  stop_ = FindStop();
  units().EndExcuses();

  int64_t unplaced = 0;
  for (const Unit& unit : units().all()) {
    if (unit.node == nullptr) {
      if (!unit.awaited.empty()) ++unplaced;
    } else if (IsOpen(unit.name) || IsAwaited(unit.name) || IsFailed(unit.name) || (unit.up && unit.Disturbed())) {
      shared.unavailable.insert(unit.name);
    }
  }
  // They stand in for pods of nodes that are done.
  const int64_t done = std::max<int64_t>(0, state_.batch_opened - static_cast<int64_t>(state_.open.size()));
  shared.unplaced += std::min(unplaced, done);
}

// ---- What is to be done -----------------------------------------------------------------------------------------

bool Rollout::Skipped(const Unit& unit, const Shared& shared) const {
  if (IsOpen(unit.name) || IsAwaited(unit.name) || IsFailed(unit.name)) return false;
  if (unit.Done()) return false;
  if (!unit.up) return true;
  if (state_.complete) return true;
  if (component_ != Component::kHypervisor && shared.without_hypervisor.contains(unit.name)) return true;
  const bool failing = !unit.broken.empty() || unit.innocent > 0;
  return failing && unit.due.empty() && unit.refused.empty() && unit.manual.empty();
}

// Another component of the node is in flight.
bool Rollout::Busy(const std::string& node) const {
  for (const Component other : kAllComponents) {
    if (other != component_ && Has(decision_.state.components[static_cast<size_t>(other)].open, node)) return true;
  }
  return false;
}

void Rollout::Restart(const Unit& unit, const PodSeen& pod, bool if_unchanged) {
  decision_.actions.push_back({component_, unit.node == nullptr ? "" : unit.node->name, pod.ns, pod.name, pod.uid,
                               if_unchanged ? pod.resource_version : "", pod.replace});
}

// What is down already costs nothing.
void Rollout::Repair(Shared& shared) {
  for (const Unit& unit : units().all()) {
    if (unit.broken.empty() || !unit.up || IsOpen(unit.name) || IsFailed(unit.name)) continue;
    if (Busy(unit.name) || shared.before.contains(unit.name)) continue;
    for (const PodSeen* pod : unit.broken) Restart(unit, *pod, true);
    units().Excuse(unit, unit.broken);
  }
}

// Of nodes that had their turn: what is still there of another revision.
void Rollout::AskAgain() {
  for (const OpenNode& open : state_.open) {
    const Unit* unit = units().Find(open.node);
    if (unit == nullptr || !unit->up) continue;
    if (unit->Disturbed()) {
      for (const PodSeen* pod : unit->due) Restart(*unit, *pod, false);
    }
    for (const PodSeen* pod : unit->broken) Restart(*unit, *pod, true);
  }
}

void Rollout::CloseBatch() {
  if (!state_.batch_open || !state_.open.empty() || !state_.awaited.empty()) return;
  const bool full = state_.batch_opened >= state_.batch_size;
  if (state_.batch_opened == 0 ? waiting_ + refused_ > 0 : !full && waiting_ > 0) return;
  state_.batch_open = false;
  if (state_.batch_opened == 0) return;
  state_.batch_healthy = Ceil(now_);
  Say(EventType::kBatchHealthy,
      absl::StrCat("batch ", state_.batch, " of revision ", state_.target,
                   " is done: ", Count(state_.batch_opened, "node", "nodes"), " restarted",
                   state_.failed.empty() ? "" : absl::StrCat(", ", state_.failed.size(), " failed so far")));
}

void Rollout::Open(Unit& unit) {
  // The time that it has begins with the restart. An attempt that is repeated does not change the state every time.
  const auto again = again_.find(unit.name);
  const bool keeps_time = again != again_.end() && now_ - again->second < policy_.progress_deadline / 2;
  state_.open.push_back({unit.name, keeps_time ? again->second : Floor(now_)});
  SortByNode(state_.open);
  ++state_.batch_opened;
  --waiting_;
  units().EndExcuse(unit);
  for (const PodSeen* pod : unit.due) Restart(unit, *pod, false);  // Repair has restarted what is broken
}

void Rollout::OpenUnits(Shared& shared) {
  if (!state_.batch_open) {
    if (!state_.awaited.empty() || !state_.open.empty()) return;
    if (state_.batch_healthy && now_ < *state_.batch_healthy + policy_.batch_interval) return;
  }
  const std::optional<Share>& limit = policy_.max_unavailable;
  const int64_t may = limit ? Nodes(*limit, static_cast<int64_t>(seen_.nodes.size())) : INT64_MAX;
  for (Unit* unit : candidates_) {
    if (state_.batch_open && state_.batch_opened >= state_.batch_size) break;
    // A node that is down already on another account is counted once.
    const int64_t down = static_cast<int64_t>(shared.unavailable.size()) + shared.unplaced +
                         (shared.unavailable.contains(unit->name) ? 0 : 1);
    if (down > may) {
      budget_full_ = true;
      continue;
    }
    if (!state_.batch_open) {
      state_.batch_open = true;
      state_.batch_opened = 0;
      ++state_.batch;
      state_.batch_started = Floor(now_);
      Say(EventType::kBatchStarted,
          absl::StrCat("batch ", state_.batch, " of ", state_.batch + BatchesLeft() - 1, ", ",
                       Count(state_.batch_size, "node", "nodes"), " at most, to revision ", state_.target));
    }
    Open(*unit);
    shared.unavailable.insert(unit->name);
  }
}

int64_t Rollout::BatchesLeft() const {
  const int64_t size = std::max<int64_t>(1, state_.batch_size);
  return (waiting_ + refused_ + size - 1) / size;
}

void Rollout::Act(Shared& shared) {
  if (!Configured()) {
    report_.synced = true;
    report_.progress = 100;
    report_.reason = "NotConfigured";
    report_.message = absl::StrCat("the pool has no ", Name(component_), " configured");
    return;
  }
  for (Unit& unit : units().all()) {
    if (unit.node == nullptr || !TakesPart(unit) || Skipped(unit, shared)) continue;
    ++report_.total;
    if (!unit.Outdated()) ++report_.updated;
    if (unit.Done()) ++report_.ready;
    if (IsOpen(unit.name) || IsFailed(unit.name) || IsAwaited(unit.name)) continue;
    if (!unit.due.empty()) {
      ++waiting_;
      const auto before = shared.before.find(unit.name);
      if (before != shared.before.end()) {
        waits_for_ = before->second;
      } else if (Busy(unit.name)) {
        waits_for_ = "another component";
      } else {
        candidates_.push_back(&unit);
      }
    } else if (!unit.refused.empty()) {
      ++refused_;
    }
  }
  const auto refused = [](const Unit* unit) {
    return std::any_of(unit->due.begin(), unit->due.end(), [](const PodSeen* pod) { return !pod->refused_by.empty(); });
  };
  const auto order = [&](const Unit* unit) {
    return std::make_tuple(!again_.contains(unit->name), refused(unit), unit->oldest, std::cref(unit->name));
  };
  std::sort(candidates_.begin(), candidates_.end(), [&](const Unit* a, const Unit* b) { return order(a) < order(b); });
  // The size of an open batch stands: nodes that join do not enlarge it.
  if (!state_.batch_open || state_.batch_size == 0) {
    state_.batch_size = BatchSize(policy_.batch_percentage, report_.total);
  }

  if (!state_.complete) {
    if (SomethingIsOutdated() && !state_.announced && stop_ == Stop::kNone) {
      state_.announced = true;
      Say(EventType::kRolloutStarted,
          absl::StrCat("to revision ", state_.target, state_.from.empty() ? "" : absl::StrCat(" from ", state_.from),
                       ", ", Count(waiting_ + refused_, "node", "nodes"), " to restart"));
    }
    CloseBatch();
    if (stop_ == Stop::kNone) {
      Repair(shared);
      AskAgain();
      OpenUnits(shared);
    }
    state_.excused = units().excused();
    Finish();
  } else if (report_.total > 0 && !component_seen_.refusal) {
    state_.last_good = state_.target;
  }
  Show(shared);

  // For the components that come after.
  for (const Unit& unit : units().all()) {
    if (unit.node == nullptr) continue;
    if (component_ == Component::kHypervisor && !IsOpen(unit.name) && (unit.current == 0 || IsFailed(unit.name)) &&
        unit.due.empty() && unit.refused.empty()) {
      shared.without_hypervisor.insert(unit.name);
    }
    const bool to_do = !unit.due.empty() || !unit.broken.empty() || !unit.refused.empty();
    if (IsOpen(unit.name) || (stop_ == Stop::kNone && unit.up && to_do))
      shared.before.emplace(unit.name, Name(component_));
  }
}

void Rollout::Finish() {
  if (report_.ready < report_.total || !state_.open.empty() || !state_.awaited.empty() || !state_.failed.empty())
    return;
  if (SomethingIsOutdated()) return;
  for (const Unit& unit : units().all()) {
    if (unit.up && unit.leaving > 0) return;
    // With everything set aside nothing has been shown.
    if (report_.total == 0 && unit.node != nullptr && TakesPart(unit)) return;
  }
  state_.complete = true;
  state_.batch_open = false;
  state_.halted_for.clear();
  if (report_.total > 0 && !component_seen_.refusal) state_.last_good = state_.target;
  if (!state_.announced) return;
  if (state_.rejected.empty()) {
    Say(EventType::kRolloutComplete,
        absl::StrCat("revision ", state_.target, " runs on ", Count(report_.total, "node", "nodes")));
  } else {
    Say(EventType::kRolledBack, absl::StrCat("revision ", state_.target, " runs again on ",
                                             Count(report_.total, "node", "nodes"), ", ", state_.rejected, " failed"));
  }
}

// ---- What is shown ----------------------------------------------------------------------------------------------

void Rollout::Show(Shared& shared) {
  for (const Unit& unit : units().all()) {
    report_.manual += static_cast<int64_t>(unit.manual.size());
    if (unit.node != nullptr && TakesPart(unit) && Skipped(unit, shared)) ++report_.skipped;
  }
  report_.revision = state_.target;
  report_.failed = static_cast<int64_t>(state_.failed.size());
  if (state_.complete) {
    state_.progress = 100;
  } else {
    const int64_t percent = report_.total == 0 ? 0 : report_.ready * 100 / report_.total;
    state_.progress = std::max(state_.progress, std::min<int64_t>(percent, 99));
  }
  report_.progress = state_.progress;
  report_.synced = state_.complete && state_.rejected.empty();
  report_.batch_size = state_.batch_size;
  const int64_t open_places = state_.batch_open ? std::max<int64_t>(0, state_.batch_size - state_.batch_opened) : 0;
  const int64_t size = std::max<int64_t>(1, state_.batch_size);
  report_.batches = state_.batch + (std::max<int64_t>(0, waiting_ + refused_ - open_places) + size - 1) / size;
  if (policy_.max_unavailable) {
    report_.max_unavailable = Nodes(*policy_.max_unavailable, static_cast<int64_t>(seen_.nodes.size()));
  }
  report_.for_new_pods = state_.target;
  if (component_seen_.refusal && state_.rejected.empty()) {
    if (!state_.last_good.empty()) {
      report_.for_new_pods = state_.last_good;
    } else if (!state_.from.empty()) {
      report_.for_new_pods = state_.from;
    }
  }
  ShowPhase(shared);
  ShowStuck(shared);
  FindNextLook();
}

void Rollout::ShowPhase(Shared& shared) {
  const auto show = [this](Phase phase, std::string reason, std::string message) {
    report_.phase = phase;
    report_.reason = std::move(reason);
    report_.message = std::move(message);
  };
  const std::string in_flight =
      state_.open.empty() ? ""
                          : absl::StrCat("; ", Count(static_cast<int64_t>(state_.open.size()), "node", "nodes"),
                                         " still to become ready");
  const std::string aside =
      report_.skipped == 0 ? "" : absl::StrCat("; ", Count(report_.skipped, "node is", "nodes are"), " set aside");
  if (state_.complete) {
    if (!state_.rejected.empty()) {
      show(
          Phase::kRolledBack, "RolledBack",
          absl::StrCat("revision ", state_.rejected, " failed; ", state_.target, " runs again. It is tried again when ",
                       "the configuration changes or a restart is asked for", aside));
    } else if (report_.skipped > 0) {
      show(Phase::kComplete, "NodesSetAside",
           absl::StrCat("revision ", state_.target, " runs on every other node", aside));
    } else {
      show(Phase::kComplete, "UpToDate", absl::StrCat("every node runs revision ", state_.target));
    }
    return;
  }
  std::string event;
  switch (stop_) {
    case Stop::kFailed: {
      const FailedNode& first = state_.failed.front();
      const bool no_way_back = policy_.on_failure == OnFailure::kRollback;
      show(Phase::kFailed, "TooManyFailures",
           absl::StrCat(Count(report_.failed, "node", "nodes"), " failed, and ", policy_.max_failures,
                        " may: ", first.node, ": ", first.reason, ": ", first.message,
                        !no_way_back               ? "; change the configuration, undo, or raise maxFailures"
                        : !state_.rejected.empty() ? "; it was on the way back to the last good revision"
                                                   : "; there is no good revision to go back to",
                        in_flight));
      break;
    }
    case Stop::kRefused:
      show(Phase::kBlocked, component_seen_.refusal->reason,
           absl::StrCat(component_seen_.refusal->message, "; running pods stay as they are", in_flight));
      break;
    case Stop::kPolicy:
      show(Phase::kBlocked, "InvalidPolicy", absl::StrJoin(policy_.problems, "; "));
      break;
    case Stop::kOff: {
      constexpr const char* kSwitch[] = {"autoUpdateHypervisor", "autoUpdateWorker", "autoUpdateClient"};
      show(Phase::kPending, "AutoUpdateOff",
           absl::StrCat("revision ", state_.target, " is recorded; ", kSwitch[static_cast<size_t>(component_)],
                        " is false, so nothing restarts", in_flight));
      break;
    }
    case Stop::kPaused:
      show(Phase::kPaused, "Paused", absl::StrCat("paused at ", report_.progress, " %", in_flight));
      break;
    case Stop::kWindow: {
      const std::vector<std::string>& problems = policy_.window.problems();
      const std::optional<absl::Time> next = policy_.window.NextOpening(now_);
      show(Phase::kPaused, problems.empty() ? "WindowClosed" : "WindowInvalid",
           absl::StrCat(next ? absl::StrCat("the maintenance window opens ", policy_.window.InZone(*next))
                             : std::string("the maintenance window never opens"),
                        in_flight, problems.empty() ? "" : "; ", absl::StrJoin(problems, "; ")));
      break;
    }
    case Stop::kNone: {
      const Phase going = state_.rejected.empty() ? Phase::kProgressing : Phase::kRollingBack;
      const Phase waiting = state_.rejected.empty() ? Phase::kWaiting : Phase::kRollingBack;
      if (!state_.open.empty() || !state_.awaited.empty()) {
        show(going, "BatchInProgress",
             absl::StrCat("batch ", state_.batch, " of ", report_.batches, ": ", state_.batch_opened, " of ",
                          state_.batch_size, " restarted", in_flight, aside));
        for (const std::vector<OpenNode>* nodes : {&state_.open, &state_.awaited}) {
          for (const OpenNode& node : *nodes) {
            const Unit* unit = units().Find(node.node);
            if (unit == nullptr || report_.reason != "BatchInProgress") continue;
            if (!unit->up) {
              report_.reason = unit->node->down_reason.empty() ? "NodeNotReady" : unit->node->down_reason;
              absl::StrAppend(&report_.message, "; ", node.node, " is down");
            }
            for (const PodSeen* pod : unit->awaited) {
              if (pod->trouble.empty() || report_.reason != "BatchInProgress") continue;
              report_.reason = pod->trouble;
              absl::StrAppend(&report_.message, "; ", node.node, ": ", pod->trouble_message);
            }
          }
        }
      } else if (budget_full_ && !candidates_.empty()) {
        show(waiting, "MaxUnavailable",
             absl::StrCat(report_.max_unavailable, " of the pool's nodes may be unavailable, and these are: ",
                          absl::StrJoin(shared.unavailable, ", "), aside));
      } else if (!candidates_.empty() && !state_.batch_open) {
        show(waiting, "BatchInterval",
             absl::StrCat("batch ", state_.batch, " of ", report_.batches, " is done", aside));
      } else if (waiting_ > 0) {
        show(waiting, "WaitingForComponent",
             absl::StrCat(Count(waiting_, "node waits", "nodes wait"), " for ",
                          waits_for_ == nullptr ? "another component" : waits_for_, aside));
      } else if (refused_ > 0) {
        show(waiting, "EvictionRefused",
             absl::StrCat(Count(refused_, "node waits", "nodes wait"), " for an eviction to be allowed", aside));
      } else if (!state_.failed.empty()) {
        show(
            waiting, "NodesFailed",
            absl::StrCat(Count(report_.failed, "node", "nodes"), " failed, and ", policy_.max_failures, " may", aside));
      } else if (report_.manual > 0) {
        show(waiting, "ManualRestartNeeded",
             absl::StrCat(Count(report_.manual, "pod runs", "pods run"),
                          " an earlier revision and nobody would make a new one; restart by hand", aside));
      } else {
        show(waiting, "NodesSetAside", absl::StrCat("nothing can be restarted at the moment", aside));
      }
      break;
    }
  }
  report_.message = Short(report_.message);

  // Said once, until it goes on or stops for another reason.
  const bool work = !state_.open.empty() || !state_.failed.empty() || SomethingIsOutdated();
  const bool halted = stop_ != Stop::kNone && stop_ != Stop::kOff && work;
  const std::string halted_for = halted ? report_.reason : "";
  if (halted && halted_for != state_.halted_for) {
    Say(stop_ == Stop::kFailed ? EventType::kRolloutFailed : EventType::kRolloutPaused,
        absl::StrCat(report_.reason, ": ", report_.message));
  }
  state_.halted_for = halted_for;
}

void Rollout::ShowStuck(Shared& shared) {
  const auto add = [this](const std::string& name, std::string reason, std::string message) {
    if (report_.stuck.size() < kMaxStuck) report_.stuck.push_back({name, std::move(reason), Short(std::move(message))});
  };
  for (const FailedNode& failed : state_.failed) add(failed.node, failed.reason, failed.message);
  for (const std::vector<OpenNode>* nodes : {&state_.open, &state_.awaited}) {
    for (const OpenNode& open : *nodes) {
      const Unit* unit = units().Find(open.node);
      if (unit == nullptr) continue;
      if (!unit->up) {
        add(open.node, unit->node->down_reason.empty() ? "NodeNotReady" : unit->node->down_reason, "the node is down");
      } else if (!unit->refused.empty()) {
        add(open.node, "EvictionRefused",
            absl::StrCat("pod ", unit->refused[0]->name, ": refused by ", unit->refused[0]->refused_by));
      } else if (!unit->awaited.empty()) {
        const PodSeen& pod = *unit->awaited[0];
        add(open.node, pod.trouble.empty() ? "NotReady" : pod.trouble,
            absl::StrCat("pod ", pod.name, pod.trouble_message.empty() ? " is not ready yet" : ": ",
                         pod.trouble_message));
      } else if (unit->leaving > 0) {
        add(open.node, "Terminating", "a pod of the revision before has not ended yet");
      }
    }
  }
  for (const Unit& unit : units().all()) {
    if (IsOpen(unit.name) || IsFailed(unit.name) || IsAwaited(unit.name)) continue;
    if (!unit.refused.empty()) {
      add(unit.name, "EvictionRefused",
          absl::StrCat("pod ", unit.refused[0]->name, ": refused by ", unit.refused[0]->refused_by));
    }
    for (const PodSeen* pod : unit.manual) {
      add(pod->ns.empty() ? pod->name : absl::StrCat(pod->ns, "/", pod->name), "ManualRestartNeeded",
          "nobody would make a new one; restart it by hand");
    }
    if (unit.node == nullptr || !TakesPart(unit) || !Skipped(unit, shared)) continue;
    if (!unit.up) {
      add(unit.name, unit.node->down_reason.empty() ? "NodeNotReady" : unit.node->down_reason,
          "set aside: it was down before its turn; it is updated when it is back");
    } else if (shared.without_hypervisor.contains(unit.name) && component_ != Component::kHypervisor) {
      add(unit.name, "HypervisorNotReady", "set aside: its hypervisor is not ready");
    } else {
      const PodSeen* pod = unit.broken.empty() ? nullptr : unit.broken[0];
      add(unit.name, pod == nullptr || pod->trouble.empty() ? "NotReady" : pod->trouble,
          absl::StrCat("set aside: it was not ready before its turn",
                       pod == nullptr || pod->trouble_message.empty() ? "" : absl::StrCat(": ", pod->trouble_message)));
    }
  }
}

void Rollout::FindNextLook() {
  const auto look = [this](absl::Time at) {
    if (at <= now_) return;
    if (!report_.next_action || at < *report_.next_action) report_.next_action = at;
  };
  if (policy_.window_enforced) {
    report_.next_window = policy_.window.NextOpening(now_);
    if (report_.next_window) report_.next_window_local = policy_.window.InZone(*report_.next_window);
  }
  if (state_.complete) return;
  for (const std::vector<OpenNode>* nodes : {&state_.open, &state_.awaited}) {
    for (const OpenNode& node : *nodes) look(node.since + policy_.progress_deadline);
  }
  for (const Unit& unit : units().all()) {
    if (unit.settling) look(unit.settled_at);
    for (const PodSeen* pod : unit.refused) look(pod->retry_after);
  }
  if (stop_ == Stop::kNone && !state_.batch_open && state_.batch_healthy && waiting_ > 0) {
    look(*state_.batch_healthy + policy_.batch_interval);
  }
  if (stop_ == Stop::kWindow && report_.next_window) look(*report_.next_window);
  if (policy_.window_enforced && stop_ == Stop::kNone) {
    if (const std::optional<absl::Time> closing = policy_.window.Closing(now_)) look(*closing);
  }
}

}  // namespace

const char* Name(EventType type) {
  switch (type) {
    case EventType::kRolloutStarted:
      return "RolloutStarted";
    case EventType::kBatchStarted:
      return "BatchStarted";
    case EventType::kBatchHealthy:
      return "BatchHealthy";
    case EventType::kRolloutPaused:
      return "RolloutPaused";
    case EventType::kRolloutFailed:
      return "RolloutFailed";
    case EventType::kRolledBack:
      return "RolledBack";
    case EventType::kRolloutComplete:
      return "RolloutComplete";
  }
  return "";
}

bool IsWarning(EventType type) { return type == EventType::kRolloutFailed || type == EventType::kRolledBack; }

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kComplete:
      return "Complete";
    case Phase::kPending:
      return "Pending";
    case Phase::kProgressing:
      return "Progressing";
    case Phase::kWaiting:
      return "Waiting";
    case Phase::kPaused:
      return "Paused";
    case Phase::kBlocked:
      return "Blocked";
    case Phase::kFailed:
      return "Failed";
    case Phase::kRollingBack:
      return "RollingBack";
    case Phase::kRolledBack:
      return "RolledBack";
  }
  return "";
}

Decision Decide(const Policy& policy, const Observation& seen, const State& state, absl::Time now) {
  Decision decision;
  decision.state = state;
  Shared shared;
  std::deque<Rollout> rollouts;
  for (const Component component : kAllComponents) rollouts.emplace_back(component, policy, seen, now, decision);
  for (Rollout& rollout : rollouts) rollout.Look(shared);
  for (Rollout& rollout : rollouts) rollout.Act(shared);
  for (const Report& report : decision.reports) {
    if (report.next_action && (!decision.next_look || *report.next_action < *decision.next_look)) {
      decision.next_look = report.next_action;
    }
  }
  return decision;
}

}  // namespace tf::rollout
