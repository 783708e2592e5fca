// The rollout engine: how the pods of a pool come to the revision that is wanted of each component, in batches of
// nodes.
//
//   Decide(policy, what is seen, state, now) -> new state, what to do, what to show, when to look again
//
// A pure function: no clock, no I/O, no memory. The caller
//   1. observes. The observation may lag behind the cluster, but not behind the caller's own restarts
//   (kube::Expectations);
//   2. writes Decision::state together with what is shown, with the resource version that it read the state at. While
//      there are actions it writes even when nothing has changed: the version is what proves that the state was the
//      newest;
//   3. only then carries out the actions, each with its preconditions;
//   4. comes back when something changes, or at Decision::next_look.
// A crash between any two steps loses nothing: the same call on the same state asks for what has not been done yet.
//
// Units are nodes. A unit of the hypervisor is its one pod; of worker and client, all pods of the component on the
// node. docs/rollouts.md describes the rules in words. Times are UTC instants; those in the state are whole seconds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "rollout/component.h"
#include "rollout/policy.h"

namespace tf::rollout {

// ---- What is seen -----------------------------------------------------------------------------------------------

enum class Replace : uint8_t {
  kDelete,  // by deleting it: its controller is ours and makes a new one
  kEvict,   // through the Eviction API: its controller is the user's
  kManual,  // nobody would make a new one (bare, Job): never touched, shown as ManualRestartNeeded
};

// A pod of a component that is neither finished nor completed; those are left out.
struct PodSeen {
  std::string ns = {};
  std::string name = {};
  std::string uid = {};               // "": a replica that is wanted and not there yet; `name` says whose
  std::string resource_version = {};  // for Action::if_unchanged
  // The revisions of the pool (ComponentSeen::target and earlier ones) that this pod is made as. Several, where they
  // differ only in what does not reach it: another vendor's settings, another namespace's Secret.
  std::vector<std::string> revisions = {};
  Replace replace = Replace::kDelete;
  bool ready = false;                               // Ready, and the node is there to say so
  bool terminating = false;                         // has a deletionTimestamp
  absl::Time since = absl::InfiniteFuture();        // when `ready` became what it is; InfiniteFuture: not known
  absl::Time created = absl::InfiniteFuture();      // creationTimestamp; InfiniteFuture where uid is ""
  std::string owner = {};                           // whose replica it is: "ns/ReplicaSet/name"; "" counts as itself
  absl::Time owner_created = absl::InfinitePast();  // InfinitePast: not known
  std::string trouble = {};                         // why it is not ready, one word: ImagePullBackOff
  std::string trouble_message = {};                 // the same as a sentence
  // The last attempt to restart it was refused: by whom ("PodDisruptionBudget web/frontend", an error), and when the
  // caller's back-off allows the next attempt. "" when it was not.
  std::string refused_by = {};
  absl::Time retry_after = absl::InfinitePast();
};

struct NodeSeen {
  std::string name = {};
  bool up = true;                                // false: NotReady, or being deleted
  absl::Time up_since = absl::InfiniteFuture();  // when `up` became what it is; InfiniteFuture: not known
  std::string down_reason = {};                  // one word: NodeNotReady
  absl::Time joined = absl::InfinitePast();      // when it came to the pool
  std::array<std::vector<PodSeen>, kComponents> pods = {};
};

// A revision that must not be used: a licence that is refused.
struct Refusal {
  std::string reason = {};   // "LicenseRejected"
  std::string message = {};  // with the code
};

struct ComponentSeen {
  // The revision that the spec asks for. "": the pool says nothing of the component, nothing is rolled out. A request
  // to restart (tfctl rollout restart) is part of what a revision's digest covers and thus a revision of its own; undo
  // is a target as any other.
  std::string target = {};
  std::optional<Refusal> refusal = {};  // of the target
  std::vector<PodSeen> unplaced = {};   // pods and missing replicas that have no node yet
};

struct Observation {
  std::vector<NodeSeen> nodes = {};  // of the pool; those being deleted from it are left out
  std::array<ComponentSeen, kComponents> components = {};
};

// ---- What is remembered -----------------------------------------------------------------------------------------

struct OpenNode {
  std::string node = {};  // or the pod ns/name, where it has no node
  absl::Time since = {};
  bool operator==(const OpenNode&) const = default;
};

struct FailedNode {
  std::string node = {};  // or the pod ns/name, where it has no node
  absl::Time since = {};
  std::string reason = {};
  std::string message = {};
  bool operator==(const FailedNode&) const = default;
};

// Pods that were not ready before their turn: no evidence against the revision.
struct Excused {
  std::string owner = {};
  int64_t pods = 0;
  bool operator==(const Excused&) const = default;
};

// Of one component; as small as the rollout's open and broken nodes are few.
struct ComponentState {
  std::string target = {};     // where the campaign goes; not the spec's after a rollback
  std::string from = {};       // the revision before
  std::string last_good = {};  // the last revision that ran, ready, on every node
  std::string rejected = {};   // the spec's revision that was rolled back; not tried again until the spec changes
  std::optional<absl::Time> started = {};
  bool complete = false;
  bool announced = false;       // RolloutStarted has been said, something was outdated
  std::string halted_for = {};  // the reason for which it stands still and has said so; "": it goes on
  int64_t progress = 0;         // percent; never falls within a campaign
  int64_t batch = 0;            // the open or last one, from 1
  int64_t batch_size = 0;
  int64_t batch_opened = 0;  // nodes of it that had their turn
  bool batch_open = false;
  std::optional<absl::Time> batch_started = {};
  std::optional<absl::Time> batch_healthy = {};  // when the last one was
  std::vector<OpenNode> open = {};               // had their turn and are in flight; by name
  // Not open, and pods on the revision are not ready that were, or that stand in for restarted ones; by name. A batch
  // is not healthy while there are any.
  std::vector<OpenNode> awaited = {};
  std::vector<FailedNode> failed = {};  // by name
  std::vector<Excused> excused = {};    // by owner
  bool operator==(const ComponentState&) const = default;
};

struct State {
  std::array<ComponentState, kComponents> components = {};
  bool operator==(const State&) const = default;
};

// ---- What is answered -------------------------------------------------------------------------------------------

struct Action {
  Component component = Component::kHypervisor;
  std::string node = {};  // "" where the pod has none
  std::string ns = {};
  std::string pod = {};
  std::string uid = {};  // precondition
  // Precondition where it is not "": the pod is restarted at no cost because it was seen not ready; it must not have
  // become ready meanwhile.
  std::string if_unchanged = {};
  Replace how = Replace::kDelete;  // never kManual
  bool operator==(const Action&) const = default;
};

enum class EventType : uint8_t {
  kRolloutStarted,
  kBatchStarted,
  kBatchHealthy,
  kRolloutPaused,
  kRolloutFailed,
  kRolledBack,
  kRolloutComplete,
};
const char* Name(EventType type);
bool IsWarning(EventType type);

struct Event {
  EventType type = EventType::kRolloutStarted;
  Component component = Component::kHypervisor;
  std::string message = {};
};

enum class Phase : uint8_t {
  kComplete,     // every unit runs the revision and is ready (or is set aside)
  kPending,      // auto update is off: recorded, nothing restarts
  kProgressing,  // a batch is open
  kWaiting,      // for the interval, a budget, an eviction, another component, a person
  kPaused,       // policy.paused, or outside an enforced window
  kBlocked,      // preflight or the policy itself forbids it
  kFailed,       // more than maxFailures units failed
  kRollingBack,  // on the way to the last good revision
  kRolledBack,   // there
};
const char* Name(Phase phase);

// A node or pod that the rollout waits for or has set aside.
struct Stuck {
  std::string name = {};
  std::string reason = {};
  std::string message = {};
};
inline constexpr size_t kMaxStuck = 10;

// What a person is shown of one component.
struct Report {
  std::string revision = {};  // that the spec asks for, or that it was rolled back to
  bool synced = false;
  int64_t progress = 0;
  Phase phase = Phase::kComplete;
  std::string reason = {};   // one word
  std::string message = {};  // a sentence
  int64_t total = 0;         // units that take part
  int64_t updated = 0;       // run the revision
  int64_t ready = 0;         // and count as ready
  int64_t failed = 0;
  int64_t skipped = 0;  // set aside: down or failing before their turn
  int64_t manual = 0;   // pods that only a person can restart
  int64_t batches = 0;  // at the present rate
  int64_t batch_size = 0;
  int64_t max_unavailable = 0;  // in force; 0: no limit
  std::optional<absl::Time> next_action = {};
  std::optional<absl::Time> next_window = {};
  std::string next_window_local = {};
  std::vector<Stuck> stuck = {};  // at most kMaxStuck
  // The revision that new pods are to be made as: the target, but the last good one where it is refused.
  std::string for_new_pods = {};
};

struct Decision {
  State state = {};
  std::vector<Action> actions = {};
  std::array<Report, kComponents> reports = {};
  std::vector<Event> events = {};
  std::optional<absl::Time> next_look = {};  // nullopt: only when something changes
};

Decision Decide(const Policy& policy, const Observation& seen, const State& state, absl::Time now);

}  // namespace tf::rollout
