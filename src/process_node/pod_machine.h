// How a pod lives: which container starts when, is probed, restarted, stopped, and what the pod's status says.
//
// Pure: it knows no process, clock or API server. The shell tells it what happened and when (`Now`), takes the actions
// that follow from it, carries them out and tells how they went. It wakes the machine (`Tick`) when next_wake() comes.
// The rules are the kubelet's: order of init containers and sidecars, restart policies and their back-off (10 s doubled
// up to 5 min, forgotten after 10 min), probes, hooks, grace periods, phases, conditions and reasons.
//
// Actions are asked for at most once at a time: while a start, probe or hook has not been answered no second one comes.
// Not thread-safe.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kube/object.h"
#include "process_node/pod_spec.h"

namespace tf::process_node {

// Both clocks at one moment: `wall` is what people read, deadlines count on `monotonic`.
struct Now {
  absl::Time wall;
  absl::Duration monotonic;
};

enum class ProbeKind { kStartup, kLiveness, kReadiness };
enum class HookKind { kPostStart, kPreStop };

struct Action {
  enum class Type {
    kPrepare,  // address and volumes of the pod; answered by Prepared or PrepareFailed
    kStart,    // `container`, `attempt`; answered by Started or StartFailed, and later Exited
    kStop,     // the container's main process is asked to end (SIGTERM)
    kKill,     // every process of the container is ended (SIGKILL)
    kProbe,    // `probe`; answered by Probed
    kHook,     // `hook`; answered by HookDone
    kEvent,    // for people: `warning`, `reason`, `message`
    kRelease,  // nothing runs and nothing will: the address is free. Once.
    kDelete,   // the pod was to be deleted and has ended: its object may go. Once.
  };
  Type type;
  size_t container = 0;
  int attempt = 0;
  ProbeKind probe = ProbeKind::kStartup;
  HookKind hook = HookKind::kPostStart;
  bool warning = false;
  std::string reason = {};
  std::string message = {};
};

// How one run of a container ended.
struct Termination {
  int code = 0;
  int signal = 0;
  std::string reason = {};  // "": Completed or Error, by the code
  std::string message = {};
  absl::Time started = absl::InfinitePast();
  absl::Time finished = absl::InfinitePast();
  std::string id = {};
};

enum class StartFailure {
  kImage,   // no such image: ErrImagePull, or ErrImageNeverPull
  kConfig,  // CreateContainerConfigError: a Secret, ConfigMap or key is missing
  kRun,     // StartError: the program cannot be run
};

// What is known of a container that an earlier agent ran.
struct AdoptedContainer {
  int attempt = 0;
  std::string id = {};
  absl::Time started = absl::InfinitePast();
  bool running = false;
  absl::Duration backoff = absl::ZeroDuration();  // as recorded when it started
  std::optional<Termination> ended = {};          // when not running
  std::optional<Termination> last = {};           // the run before
};

class PodMachine {
 public:
  explicit PodMachine(PodSpec spec);

  // Before anything else, in an agent that finds processes of an earlier one. `status` is the pod's in the API server.
  void Adopt(const Now& now, const kube::Json& status, bool prepared, const std::string& ip,
             const std::vector<std::optional<AdoptedContainer>>& containers);

  void Prepared(const Now& now, const std::string& ip);
  void PrepareFailed(const Now& now, const std::string& reason, const std::string& message);
  void Started(const Now& now, size_t container, int attempt, const std::string& id);
  void StartFailed(const Now& now, size_t container, int attempt, StartFailure why, const std::string& message);
  void Exited(const Now& now, size_t container, int attempt, Termination how);
  void Probed(const Now& now, size_t container, int attempt, ProbeKind kind, bool success, const std::string& message);
  void HookDone(const Now& now, size_t container, int attempt, HookKind kind, bool success, const std::string& message);
  // The object is to be deleted, or is gone; a second call may only shorten the grace period.
  void Delete(const Now& now, absl::Duration grace);
  // What preparation or configuration failed for may be there now.
  void Retry(const Now& now);
  // Conditions that others write (readiness gates).
  void SeenConditions(const Now& now, const kube::Json& pod);
  // Annotations that ask for faults, changed.
  void SetFaults(const Now& now, const Faults& faults);
  void Tick(const Now& now);

  std::vector<Action> Take();
  // On the monotonic clock; InfiniteDuration: nothing to wait for.
  absl::Duration next_wake() const { return next_wake_; }

  // The pod's status as it is to be written, without what others own (conditions of others, qosClass).
  boost::json::object Status(const Now& now);

  const PodSpec& spec() const { return spec_; }
  const std::string& phase() const { return phase_; }
  bool deleting() const { return deleting_; }
  bool finished() const { return released_; }
  // Waits after the next failure of this container: what its record of the start should hold.
  absl::Duration backoff(size_t container) const { return containers_[container].backoff; }

 private:
  enum class State { kWaiting, kStarting, kRunning, kExited };
  enum class Stop { kNo, kHook, kAsked, kKilled };

  struct ProbeState {
    bool in_flight = false;
    absl::Duration due = absl::InfiniteDuration();
    int successes = 0;
    int failures = 0;
    bool result = false;
  };

  struct Container {
    State state = State::kWaiting;
    int attempt = -1;  // of the run that is or was; -1: none yet
    int next_attempt = 0;
    std::string id;
    absl::Time started_at = absl::InfinitePast();
    absl::Duration started_mono = absl::ZeroDuration();

    std::string waiting_reason;  // "": by the pod's progress
    std::string waiting_message;
    absl::Duration retry_at = absl::ZeroDuration();  // not started before
    absl::Duration image_backoff = absl::ZeroDuration();
    absl::Duration reason_until = absl::InfiniteDuration();  // ErrImagePull becomes ImagePullBackOff

    std::optional<Termination> ended;  // kExited: this run
    std::optional<Termination> last;   // the run before

    absl::Duration backoff = absl::ZeroDuration();       // wait after the next exit
    absl::Duration backoff_wait = absl::ZeroDuration();  // after the last exit

    ProbeState probes[3];
    bool started = false;  // startup probe and postStart are through
    bool ready = false;
    bool post_start_in_flight = false;
    bool post_start_done = false;

    Stop stop = Stop::kNo;
    absl::Duration kill_at = absl::InfiniteDuration();
    std::string stop_reason;  // of the termination that it leads to; "": none of its own
    absl::Duration crash_at = absl::InfiniteDuration();
    bool crashed = false;
  };

  struct Condition {
    bool status = false;
    absl::Time since;
  };

  bool Restarts(size_t i) const;
  bool Done(size_t i) const;  // exited, for good
  void Advance(const Now& now);
  void Forward(const Now& now);
  void Ending(const Now& now);
  void EnsureRuns(const Now& now, size_t i);
  void RunProbes(const Now& now, size_t i);
  void BeginStop(const Now& now, size_t i, absl::Duration grace, const std::string& why);
  void ContinueStop(const Now& now, size_t i);
  void Wake(absl::Duration at);
  void Event(bool warning, std::string reason, std::string message);
  std::string DecidePhase() const;
  bool Initialized() const;
  const char* WaitingReason(size_t i) const;
  boost::json::object ContainerStatus(const Now& now, size_t i) const;

  PodSpec spec_;
  std::vector<Container> containers_;
  std::vector<Action> actions_;
  absl::Duration next_wake_ = absl::InfiniteDuration();

  bool preparing_ = false;
  bool prepared_ = false;
  bool initialized_ = false;  // the main containers' turn has come
  absl::Duration prepared_at_ = absl::ZeroDuration();
  absl::Duration prepare_at_ = absl::ZeroDuration();
  absl::Duration prepare_backoff_ = absl::ZeroDuration();
  std::string ip_;

  absl::Time start_time_ = absl::InfinitePast();  // status.startTime
  absl::Duration start_mono_ = absl::ZeroDuration();
  std::string phase_ = "Pending";
  std::string reason_;  // of the pod: DeadlineExceeded
  std::string message_;

  bool ending_ = false;  // nothing starts any more
  bool deleting_ = false;
  absl::Duration end_by_ = absl::InfiniteDuration();  // when the grace period is over
  bool released_ = false;
  bool delete_asked_ = false;

  std::vector<std::pair<std::string, bool>> gates_;
  std::vector<std::pair<std::string, Condition>> conditions_;
};

}  // namespace tf::process_node
