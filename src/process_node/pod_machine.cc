#include "process_node/pod_machine.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tf::process_node {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr absl::Duration kMinimumGrace = absl::Seconds(2);
constexpr absl::Duration kBackoffStart = absl::Seconds(10);
constexpr absl::Duration kBackoffLimit = absl::Minutes(5);
constexpr absl::Duration kBackoffForgotten = absl::Minutes(10);
constexpr absl::Duration kConfigRetry = absl::Seconds(10);
constexpr absl::Duration kErrorShown = absl::Seconds(1);

absl::Duration Doubled(absl::Duration backoff) {
  return backoff == absl::ZeroDuration() ? kBackoffStart : std::min(2 * backoff, kBackoffLimit);
}

std::string Stamp(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone()); }

absl::Time ReadStamp(std::string_view text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, absl::string_view(text.data(), text.size()), &time, &error)) {
    return absl::InfinitePast();
  }
  return time;
}

JsonObject TerminatedState(const Termination& how) {
  JsonObject state;
  state["exitCode"] = how.code;
  state["reason"] = how.reason.empty() ? (how.code == 0 ? "Completed" : "Error") : how.reason;
  if (!how.message.empty()) state["message"] = how.message;
  state["startedAt"] = Stamp(how.started == absl::InfinitePast() ? absl::UnixEpoch() : how.started);
  state["finishedAt"] = Stamp(how.finished == absl::InfinitePast() ? absl::UnixEpoch() : how.finished);
  if (!how.id.empty()) state["containerID"] = how.id;
  return state;
}

const char* NameOf(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::kStartup:
      return "Startup";
    case ProbeKind::kLiveness:
      return "Liveness";
    case ProbeKind::kReadiness:
      return "Readiness";
  }
  return "";
}

const std::optional<Probe>& ProbeOf(const ContainerSpec& spec, ProbeKind kind) {
  return kind == ProbeKind::kStartup ? spec.startup : kind == ProbeKind::kLiveness ? spec.liveness : spec.readiness;
}

}  // namespace

PodMachine::PodMachine(PodSpec spec) : spec_(std::move(spec)), containers_(spec_.containers.size()) {
  for (const std::string& gate : spec_.readiness_gates) gates_.emplace_back(gate, false);
}

void PodMachine::Adopt(const Now& now, const Json& status, bool prepared, const std::string& ip,
                       const std::vector<std::optional<AdoptedContainer>>& containers) {
  prepared_ = prepared;
  prepared_at_ = now.monotonic;
  ip_ = ip;
  start_time_ = ReadStamp(kube::Text(status, "startTime"));
  if (start_time_ != absl::InfinitePast()) {
    start_mono_ = now.monotonic - std::max(absl::ZeroDuration(), now.wall - start_time_);
  }
  if (const Json* conditions = kube::Field(status, "conditions"); conditions != nullptr && conditions->is_array()) {
    for (const Json& condition : conditions->get_array()) {
      conditions_.emplace_back(
          kube::Text(condition, "type"),
          Condition{kube::Text(condition, "status") == "True", ReadStamp(kube::Text(condition, "lastTransitionTime"))});
    }
  }
  for (size_t i = 0; i < containers_.size() && i < containers.size(); ++i) {
    if (!containers[i]) continue;
    const AdoptedContainer& from = *containers[i];
    Container& to = containers_[i];
    to.attempt = from.attempt;
    to.next_attempt = from.attempt + 1;
    to.id = from.id;
    to.started_at = from.started;
    to.started_mono = now.monotonic - std::max(absl::ZeroDuration(), now.wall - from.started);
    to.backoff = from.backoff;
    to.last = from.last;
    if (!from.running) {
      to.state = State::kExited;
      to.ended = from.ended.value_or(Termination{});
      to.backoff_wait = to.backoff;
      to.retry_at = now.monotonic + to.backoff;
      continue;
    }
    to.state = State::kRunning;
    // Hooks are not run twice; what was ready stays so until a probe says otherwise.
    to.post_start_done = true;
    for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
      const Json* statuses = kube::Field(status, list);
      if (statuses == nullptr || !statuses->is_array()) continue;
      for (const Json& before : statuses->get_array()) {
        if (kube::Text(before, "name") != spec_.containers[i].name) continue;
        if (kube::Number(before, "restartCount") != from.attempt) continue;
        to.probes[static_cast<int>(ProbeKind::kStartup)].result = kube::Flag(before, "started");
        to.probes[static_cast<int>(ProbeKind::kReadiness)].result = kube::Flag(before, "ready");
      }
    }
    for (int kind = 0; kind < 3; ++kind) {
      const std::optional<Probe>& probe = ProbeOf(spec_.containers[i], static_cast<ProbeKind>(kind));
      if (probe) to.probes[kind].due = std::max(now.monotonic, to.started_mono + probe->initial_delay);
    }
    if (spec_.faults.crash_after && !spec_.containers[i].init)
      to.crash_at = to.started_mono + *spec_.faults.crash_after;
  }
  for (size_t i = 0; i < containers_.size(); ++i) {
    if (!spec_.containers[i].init && containers_[i].next_attempt > 0) initialized_ = true;
  }
  Advance(now);
}

void PodMachine::Prepared(const Now& now, const std::string& ip) {
  preparing_ = false;
  prepared_ = true;
  prepared_at_ = now.monotonic;
  ip_ = ip;
  Advance(now);
}

void PodMachine::PrepareFailed(const Now& now, const std::string& reason, const std::string& message) {
  preparing_ = false;
  prepare_backoff_ = prepare_backoff_ == absl::ZeroDuration() ? absl::Milliseconds(500)
                                                              : std::min(2 * prepare_backoff_, absl::Minutes(2));
  prepare_at_ = now.monotonic + prepare_backoff_;
  Event(true, reason, message);
  Advance(now);
}

void PodMachine::Started(const Now& now, size_t i, int attempt, const std::string& id) {
  Container& c = containers_[i];
  if (c.state != State::kStarting || attempt != c.next_attempt) return;
  c.state = State::kRunning;
  c.attempt = attempt;
  c.next_attempt = attempt + 1;
  c.id = id;
  c.started_at = now.wall;
  c.started_mono = now.monotonic;
  c.waiting_reason.clear();
  c.waiting_message.clear();
  c.image_backoff = absl::ZeroDuration();
  c.reason_until = absl::InfiniteDuration();
  c.stop = Stop::kNo;
  c.kill_at = absl::InfiniteDuration();
  c.stop_reason.clear();
  c.crashed = false;
  c.crash_at = absl::InfiniteDuration();
  if (spec_.faults.crash_after && !spec_.containers[i].init) c.crash_at = now.monotonic + *spec_.faults.crash_after;
  c.started = false;
  c.ready = false;
  for (int kind = 0; kind < 3; ++kind) {
    c.probes[kind] = ProbeState{};
    const std::optional<Probe>& probe = ProbeOf(spec_.containers[i], static_cast<ProbeKind>(kind));
    if (probe) c.probes[kind].due = now.monotonic + probe->initial_delay;
  }
  c.post_start_done = !spec_.containers[i].post_start.has_value();
  c.post_start_in_flight = false;
  if (!c.post_start_done && !ending_) {
    c.post_start_in_flight = true;
    actions_.push_back({.type = Action::Type::kHook, .container = i, .attempt = attempt, .hook = HookKind::kPostStart});
  }
  Event(false, "Started", absl::StrCat("Container started: ", spec_.containers[i].name));
  Advance(now);
}

void PodMachine::StartFailed(const Now& now, size_t i, int attempt, StartFailure why, const std::string& message) {
  Container& c = containers_[i];
  if (c.state != State::kStarting || attempt != c.next_attempt) return;
  switch (why) {
    case StartFailure::kImage:
      c.state = State::kWaiting;
      c.waiting_reason = spec_.containers[i].pull_policy == "Never" ? "ErrImageNeverPull" : "ErrImagePull";
      c.waiting_message = message;
      c.image_backoff = Doubled(c.image_backoff);
      c.retry_at = now.monotonic + c.image_backoff;
      c.reason_until = now.monotonic + kErrorShown;
      break;
    case StartFailure::kConfig:
      c.state = State::kWaiting;
      c.waiting_reason = "CreateContainerConfigError";
      c.waiting_message = message;
      c.retry_at = now.monotonic + kConfigRetry;
      break;
    case StartFailure::kRun:
      c.attempt = attempt;
      c.next_attempt = attempt + 1;
      c.state = State::kExited;
      c.ended = Termination{.code = 128, .reason = "StartError", .message = message, .finished = now.wall};
      c.backoff_wait = c.backoff;
      c.retry_at = now.monotonic + c.backoff;
      break;
  }
  Event(true, "Failed", absl::StrCat("Error: ", message));
  Advance(now);
}

void PodMachine::Exited(const Now& now, size_t i, int attempt, Termination how) {
  Container& c = containers_[i];
  if (c.state != State::kRunning || attempt != c.attempt) return;
  c.state = State::kExited;
  if (c.crashed) how.code = spec_.faults.crash_code;
  if (how.reason.empty() && !c.stop_reason.empty()) how.reason = c.stop_reason;
  if (how.started == absl::InfinitePast()) how.started = c.started_at;
  if (how.finished == absl::InfinitePast()) how.finished = now.wall;
  if (how.id.empty()) how.id = c.id;
  c.ended = std::move(how);
  c.started = false;
  c.ready = false;
  c.stop = Stop::kNo;
  c.kill_at = absl::InfiniteDuration();
  c.crash_at = absl::InfiniteDuration();
  for (ProbeState& probe : c.probes) probe = ProbeState{};
  if (now.monotonic - c.started_mono > kBackoffForgotten) {
    c.backoff = absl::ZeroDuration();
  }
  c.backoff_wait = c.backoff;
  c.retry_at = now.monotonic + c.backoff;
  if (c.backoff_wait > absl::ZeroDuration() && !ending_ && Restarts(i)) {
    Event(true, "BackOff",
          absl::StrCat("Back-off restarting failed container ", spec_.containers[i].name, " in pod ", spec_.key.name,
                       "_", spec_.key.ns, "(", spec_.uid, ")"));
  }
  Advance(now);
}

void PodMachine::Probed(const Now& now, size_t i, int attempt, ProbeKind kind, bool success,
                        const std::string& message) {
  Container& c = containers_[i];
  if (c.state != State::kRunning || attempt != c.attempt) return;
  ProbeState& state = c.probes[static_cast<int>(kind)];
  const Probe& probe = *ProbeOf(spec_.containers[i], kind);
  state.in_flight = false;
  state.due = now.monotonic + probe.period;
  if (c.stop != Stop::kNo) return Advance(now);
  if (success) {
    ++state.successes;
    state.failures = 0;
    if (state.successes >= probe.success_threshold) state.result = true;
  } else {
    ++state.failures;
    state.successes = 0;
    Event(true, "Unhealthy", absl::StrCat(NameOf(kind), " probe failed: ", message));
    if (state.failures >= probe.failure_threshold) {
      state.result = false;
      if (kind != ProbeKind::kReadiness) {
        BeginStop(now, i, probe.grace.value_or(spec_.grace),
                  absl::StrCat("Container ", spec_.containers[i].name, " failed ",
                               kind == ProbeKind::kStartup ? "startup" : "liveness", " probe, will be restarted"));
      }
    }
  }
  if (kind == ProbeKind::kStartup && state.result) {
    for (const ProbeKind next : {ProbeKind::kLiveness, ProbeKind::kReadiness}) {
      const std::optional<Probe>& follows = ProbeOf(spec_.containers[i], next);
      if (follows) {
        c.probes[static_cast<int>(next)].due = std::max(now.monotonic, c.started_mono + follows->initial_delay);
      }
    }
  }
  Advance(now);
}

void PodMachine::HookDone(const Now& now, size_t i, int attempt, HookKind kind, bool success,
                          const std::string& message) {
  Container& c = containers_[i];
  if (c.state != State::kRunning || attempt != c.attempt) return;
  if (kind == HookKind::kPostStart) {
    c.post_start_in_flight = false;
    c.post_start_done = true;
    if (!success) {
      Event(true, "FailedPostStartHook", message);
      BeginStop(now, i, spec_.grace, "FailedPostStartHook");
    }
  } else if (c.stop == Stop::kHook) {
    if (!success) Event(true, "FailedPreStopHook", message);
    c.stop = Stop::kAsked;
    c.kill_at = std::max(c.kill_at, now.monotonic + kMinimumGrace);
    actions_.push_back({.type = Action::Type::kStop, .container = i, .attempt = c.attempt});
  }
  Advance(now);
}

void PodMachine::Delete(const Now& now, absl::Duration grace) {
  const absl::Duration end_by = now.monotonic + std::max(grace, absl::ZeroDuration());
  if (deleting_ && end_by >= end_by_) return;
  deleting_ = true;
  ending_ = true;
  end_by_ = std::min(end_by_, end_by);
  Advance(now);
}

void PodMachine::Retry(const Now& now) {
  if (!preparing_ && !prepared_) prepare_at_ = now.monotonic;
  for (Container& c : containers_) {
    if (c.state == State::kWaiting && c.waiting_reason == "CreateContainerConfigError") c.retry_at = now.monotonic;
  }
  Advance(now);
}

void PodMachine::SeenConditions(const Now& now, const Json& pod) {
  for (auto& [type, holds] : gates_) holds = false;
  if (const Json* conditions = kube::Field(pod, "status.conditions"); conditions != nullptr && conditions->is_array()) {
    for (const Json& condition : conditions->get_array()) {
      for (auto& [type, holds] : gates_) {
        if (type == kube::Text(condition, "type")) holds = kube::Text(condition, "status") == "True";
      }
    }
  }
  Advance(now);
}

void PodMachine::SetFaults(const Now& now, const Faults& faults) {
  const bool crash_is_new = faults.crash_after.has_value() && !spec_.faults.crash_after.has_value();
  spec_.faults = faults;
  for (size_t i = 0; i < containers_.size(); ++i) {
    Container& c = containers_[i];
    if (!faults.crash_after) c.crash_at = absl::InfiniteDuration();
    if (crash_is_new && c.state == State::kRunning && !spec_.containers[i].init) {
      c.crash_at = now.monotonic + *faults.crash_after;
    }
  }
  Advance(now);
}

void PodMachine::Tick(const Now& now) { Advance(now); }

std::vector<Action> PodMachine::Take() { return std::exchange(actions_, {}); }

void PodMachine::Wake(absl::Duration at) { next_wake_ = std::min(next_wake_, at); }

void PodMachine::Event(bool warning, std::string reason, std::string message) {
  actions_.push_back(
      {.type = Action::Type::kEvent, .warning = warning, .reason = std::move(reason), .message = std::move(message)});
}

bool PodMachine::Restarts(size_t i) const {
  const ContainerSpec& spec = spec_.containers[i];
  const int code = containers_[i].ended ? containers_[i].ended->code : 0;
  if (spec.sidecar) return true;
  if (spec.init) return code != 0 && spec_.restart != RestartPolicy::kNever;
  return spec_.restart == RestartPolicy::kAlways || (spec_.restart == RestartPolicy::kOnFailure && code != 0);
}

bool PodMachine::Done(size_t i) const { return containers_[i].state == State::kExited && !Restarts(i); }

void PodMachine::Advance(const Now& now) {
  next_wake_ = absl::InfiniteDuration();
  if (start_time_ == absl::InfinitePast()) {
    start_time_ = now.wall;
    start_mono_ = now.monotonic;
  }
  if (!released_) {
    if (spec_.active_deadline && !ending_) {
      if (now.monotonic >= start_mono_ + *spec_.active_deadline) {
        ending_ = true;
        reason_ = "DeadlineExceeded";
        message_ = "Pod was active on the node longer than the specified deadline";
        end_by_ = now.monotonic + spec_.grace;
        Event(false, reason_, message_);
      } else {
        Wake(start_mono_ + *spec_.active_deadline);
      }
    }
    for (size_t i = 0; i < containers_.size(); ++i) {
      Container& c = containers_[i];
      if (c.state == State::kWaiting && c.reason_until != absl::InfiniteDuration()) {
        if (now.monotonic < c.reason_until) {
          Wake(c.reason_until);
        } else {
          c.reason_until = absl::InfiniteDuration();
          if (c.waiting_reason == "ErrImagePull") {
            c.waiting_reason = "ImagePullBackOff";
            c.waiting_message =
                absl::StrCat("Back-off pulling image \"", spec_.containers[i].image, "\": ", c.waiting_message);
          }
        }
      }
      if (c.state != State::kRunning) continue;
      if (!c.crashed && now.monotonic >= c.crash_at) {
        c.crashed = true;
        c.crash_at = absl::InfiniteDuration();
        c.stop = Stop::kKilled;
        actions_.push_back({.type = Action::Type::kKill, .container = i, .attempt = c.attempt});
      }
      Wake(c.crash_at);
      ContinueStop(now, i);
      RunProbes(now, i);
    }
    if (!ending_) Forward(now);
    if (ending_) Ending(now);
  }
  if (released_ && deleting_ && !delete_asked_) {
    delete_asked_ = true;
    actions_.push_back({.type = Action::Type::kDelete});
  }
  phase_ = DecidePhase();
}

void PodMachine::Forward(const Now& now) {
  if (!prepared_) {
    if (preparing_) return;
    if (now.monotonic < prepare_at_) return Wake(prepare_at_);
    preparing_ = true;
    actions_.push_back({.type = Action::Type::kPrepare});
    return;
  }
  const bool untouched = std::all_of(containers_.begin(), containers_.end(), [](const Container& c) {
    return c.next_attempt == 0 && c.state == State::kWaiting;
  });
  if (untouched && now.monotonic < prepared_at_ + spec_.faults.slow_start) {
    return Wake(prepared_at_ + spec_.faults.slow_start);
  }
  for (size_t i = 0; i < containers_.size() && spec_.containers[i].init && !initialized_; ++i) {
    const Container& c = containers_[i];
    if (spec_.containers[i].sidecar) {
      EnsureRuns(now, i);
      if (c.state != State::kRunning || !c.started) return;
      continue;
    }
    if (c.state == State::kExited && c.ended->code == 0) continue;
    if (Done(i)) {
      ending_ = true;
      end_by_ = now.monotonic + spec_.grace;
      return;
    }
    EnsureRuns(now, i);
    return;
  }
  initialized_ = true;
  bool all_done = true;
  for (size_t i = 0; i < containers_.size(); ++i) {
    const ContainerSpec& spec = spec_.containers[i];
    if (spec.init && !spec.sidecar) continue;
    EnsureRuns(now, i);
    if (!spec.init && !Done(i)) all_done = false;
  }
  if (all_done) {
    ending_ = true;
    end_by_ = now.monotonic + spec_.grace;
  }
}

void PodMachine::EnsureRuns(const Now& now, size_t i) {
  Container& c = containers_[i];
  if (c.state != State::kWaiting && !(c.state == State::kExited && Restarts(i))) return;
  if (now.monotonic < c.retry_at) return Wake(c.retry_at);
  if (c.state == State::kExited) {
    c.backoff = Doubled(c.backoff);
    c.last = std::move(c.ended);
    c.ended.reset();
  }
  c.state = State::kStarting;
  actions_.push_back({.type = Action::Type::kStart, .container = i, .attempt = c.next_attempt});
}

void PodMachine::RunProbes(const Now& now, size_t i) {
  Container& c = containers_[i];
  const ContainerSpec& spec = spec_.containers[i];
  const bool startup_passed = !spec.startup || c.probes[static_cast<int>(ProbeKind::kStartup)].result;
  c.started = startup_passed && c.post_start_done;
  c.ready = c.started && !spec_.faults.never_ready &&
            (!spec.readiness || c.probes[static_cast<int>(ProbeKind::kReadiness)].result);
  if (c.stop != Stop::kNo || ending_) return;
  for (const ProbeKind kind : {ProbeKind::kStartup, ProbeKind::kLiveness, ProbeKind::kReadiness}) {
    if (!ProbeOf(spec, kind) || (kind == ProbeKind::kStartup) == startup_passed) continue;
    ProbeState& state = c.probes[static_cast<int>(kind)];
    if (state.in_flight) continue;
    if (now.monotonic < state.due) {
      Wake(state.due);
      continue;
    }
    state.in_flight = true;
    actions_.push_back({.type = Action::Type::kProbe, .container = i, .attempt = c.attempt, .probe = kind});
  }
}

void PodMachine::BeginStop(const Now& now, size_t i, absl::Duration grace, const std::string& why) {
  Container& c = containers_[i];
  const absl::Duration kill_at = now.monotonic + std::max(grace, kMinimumGrace);
  if (c.stop != Stop::kNo) {
    if (c.stop != Stop::kKilled) c.kill_at = std::min(c.kill_at, kill_at);
    return;
  }
  c.kill_at = kill_at;
  if (!why.empty()) Event(false, "Killing", why);
  if (spec_.containers[i].pre_stop && !c.post_start_in_flight) {
    c.stop = Stop::kHook;
    actions_.push_back({.type = Action::Type::kHook, .container = i, .attempt = c.attempt, .hook = HookKind::kPreStop});
  } else {
    c.stop = Stop::kAsked;
    actions_.push_back({.type = Action::Type::kStop, .container = i, .attempt = c.attempt});
  }
}

void PodMachine::ContinueStop(const Now& now, size_t i) {
  Container& c = containers_[i];
  if (c.stop == Stop::kNo || c.stop == Stop::kKilled) return;
  if (now.monotonic >= c.kill_at && c.stop == Stop::kHook) {
    // The hook has used the time up; the process still gets a moment of its own.
    c.stop = Stop::kAsked;
    c.kill_at = now.monotonic + kMinimumGrace;
    actions_.push_back({.type = Action::Type::kStop, .container = i, .attempt = c.attempt});
  } else if (now.monotonic >= c.kill_at) {
    c.stop = Stop::kKilled;
    c.kill_at = absl::InfiniteDuration();
    actions_.push_back({.type = Action::Type::kKill, .container = i, .attempt = c.attempt});
  }
  Wake(c.kill_at);
}

void PodMachine::Ending(const Now& now) {
  const absl::Duration left = end_by_ == absl::InfiniteDuration() ? spec_.grace : end_by_ - now.monotonic;
  const auto alive = [&](size_t i) {
    return containers_[i].state == State::kRunning || containers_[i].state == State::kStarting;
  };
  const auto stop = [&](size_t i) {
    if (containers_[i].state != State::kRunning) return;
    BeginStop(now, i, left, absl::StrCat("Stopping container ", spec_.containers[i].name));
    ContinueStop(now, i);
  };
  bool others = false;
  for (size_t i = 0; i < containers_.size(); ++i) {
    if (!alive(i) || spec_.containers[i].sidecar) continue;
    others = true;
    stop(i);
  }
  if (!others || left <= absl::ZeroDuration()) {
    // Sidecars serve the others to the end, and one another in the order of their start.
    for (size_t i = containers_.size(); i-- > 0;) {
      if (!alive(i) || !spec_.containers[i].sidecar) continue;
      others = true;
      stop(i);
      if (left > absl::ZeroDuration()) break;
    }
  } else {
    Wake(end_by_);
  }
  if (others || preparing_) return;
  released_ = true;
  actions_.push_back({.type = Action::Type::kRelease});
}

bool PodMachine::Initialized() const {
  return initialized_ || std::none_of(spec_.containers.begin(), spec_.containers.end(),
                                      [](const ContainerSpec& container) { return container.init; });
}

std::string PodMachine::DecidePhase() const {
  if (phase_ == "Failed" || phase_ == "Succeeded") return phase_;
  bool waiting = false, all_succeeded = !containers_.empty();
  for (size_t i = 0; i < containers_.size(); ++i) {
    const Container& c = containers_[i];
    if (spec_.containers[i].init) continue;
    if (c.state != State::kExited || c.ended->code != 0) all_succeeded = false;
    if ((c.state == State::kWaiting || c.state == State::kStarting) && !c.last) waiting = true;
  }
  if (released_) return all_succeeded && reason_.empty() && initialized_ ? "Succeeded" : "Failed";
  if (!initialized_ || waiting) return "Pending";
  return "Running";
}

const char* PodMachine::WaitingReason(size_t i) const {
  const bool before_main = spec_.containers[i].init || !Initialized();
  return before_main ? "PodInitializing" : "ContainerCreating";
}

JsonObject PodMachine::ContainerStatus(const Now&, size_t i) const {
  const Container& c = containers_[i];
  const ContainerSpec& spec = spec_.containers[i];
  JsonObject status;
  status["name"] = spec.name;
  status["image"] = spec.image;
  status["imageID"] = c.attempt >= 0 ? absl::StrCat("process://", spec.image) : "";
  status["restartCount"] = std::max(c.attempt, 0);
  // An init container that has done its work is ready, for good.
  const bool completed_init = spec.init && !spec.sidecar && c.state == State::kExited && c.ended->code == 0;
  status["ready"] = completed_init || (c.state == State::kRunning && c.ready && (!spec.init || spec.sidecar));
  status["started"] = c.state == State::kRunning && c.started;
  if (!c.id.empty()) status["containerID"] = c.id;

  JsonObject state, last;
  if (c.state == State::kRunning) {
    state["running"] = JsonObject{{"startedAt", Stamp(c.started_at)}};
    if (c.last) last["terminated"] = TerminatedState(*c.last);
  } else if (c.state == State::kExited && (ending_ || !Restarts(i) || c.backoff_wait == absl::ZeroDuration())) {
    state["terminated"] = TerminatedState(*c.ended);
    if (c.last) last["terminated"] = TerminatedState(*c.last);
  } else if (c.state == State::kExited) {
    state["waiting"] = JsonObject{
        {"reason", "CrashLoopBackOff"},
        {"message", absl::StrCat("back-off ", absl::FormatDuration(c.backoff_wait), " restarting failed container=",
                                 spec.name, " pod=", spec_.key.name, "_", spec_.key.ns, "(", spec_.uid, ")")}};
    last["terminated"] = TerminatedState(*c.ended);
  } else {
    JsonObject waiting;
    waiting["reason"] = c.waiting_reason.empty() ? WaitingReason(i) : c.waiting_reason;
    if (!c.waiting_message.empty()) waiting["message"] = c.waiting_message;
    state["waiting"] = std::move(waiting);
    if (c.last) last["terminated"] = TerminatedState(*c.last);
  }
  status["state"] = std::move(state);
  status["lastState"] = std::move(last);
  return status;
}

JsonObject PodMachine::Status(const Now& now) {
  JsonObject status;
  status["phase"] = phase_;
  status["startTime"] = Stamp(start_time_);
  status["reason"] = reason_.empty() ? Json(nullptr) : Json(reason_);
  status["message"] = message_.empty() ? Json(nullptr) : Json(message_);
  if (!ip_.empty()) {
    status["podIP"] = ip_;
    status["podIPs"] = JsonArray{JsonObject{{"ip", ip_}}};
  }

  JsonArray init_statuses, statuses;
  std::vector<std::string> unready, incomplete;
  for (size_t i = 0; i < containers_.size(); ++i) {
    const ContainerSpec& spec = spec_.containers[i];
    JsonObject one = ContainerStatus(now, i);
    const bool ready = one["ready"].as_bool();
    if ((!spec.init || spec.sidecar) && !ready) unready.push_back(spec.name);
    if (spec.init && !(spec.sidecar ? containers_[i].started : ready)) incomplete.push_back(spec.name);
    (spec.init ? init_statuses : statuses).push_back(std::move(one));
  }
  if (!init_statuses.empty()) status["initContainerStatuses"] = std::move(init_statuses);
  status["containerStatuses"] = std::move(statuses);

  JsonArray conditions;
  const auto add = [&](const std::string& type, bool holds, const std::string& reason, const std::string& message) {
    auto at = std::find_if(conditions_.begin(), conditions_.end(), [&](const auto& one) { return one.first == type; });
    if (at == conditions_.end()) {
      at = conditions_.insert(conditions_.end(), {type, Condition{holds, now.wall}});
    } else if (at->second.status != holds) {
      at->second = {holds, now.wall};
    }
    JsonObject condition;
    condition["type"] = type;
    condition["status"] = holds ? "True" : "False";
    condition["lastProbeTime"] = nullptr;
    condition["lastTransitionTime"] = Stamp(at->second.since == absl::InfinitePast() ? start_time_ : at->second.since);
    condition["reason"] = reason.empty() ? Json(nullptr) : Json(reason);
    condition["message"] = message.empty() ? Json(nullptr) : Json(message);
    conditions.push_back(std::move(condition));
  };
  const bool succeeded = phase_ == "Succeeded", failed = phase_ == "Failed";
  add("PodReadyToStartContainers", prepared_ && !released_, "", "");
  if (Initialized()) {
    add("Initialized", true, succeeded ? "PodCompleted" : "", "");
  } else {
    add("Initialized", false, "ContainersNotInitialized",
        absl::StrCat("containers with incomplete status: [", absl::StrJoin(incomplete, " "), "]"));
  }
  const bool containers_ready = unready.empty() && !succeeded && !failed;
  const std::string not_ready = absl::StrCat("containers with unready status: [", absl::StrJoin(unready, " "), "]");
  const std::string why = succeeded ? "PodCompleted" : failed ? "PodFailed" : "ContainersNotReady";
  std::vector<std::string> closed;
  for (const auto& [gate, holds] : gates_) {
    if (!holds) closed.push_back(gate);
  }
  if (containers_ready && !closed.empty()) {
    add("Ready", false, "ReadinessGatesNotReady",
        absl::StrCat("the status of pod readiness gates is not True: [", absl::StrJoin(closed, " "), "]"));
  } else {
    add("Ready", containers_ready, containers_ready ? "" : why,
        containers_ready || succeeded || failed ? "" : not_ready);
  }
  add("ContainersReady", containers_ready, containers_ready ? "" : why,
      containers_ready || succeeded || failed ? "" : not_ready);
  status["conditions"] = std::move(conditions);
  return status;
}

}  // namespace tf::process_node
