#include "process_node/pod_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace tf::process_node {
namespace {

using kube::Json;
using kube::JsonObject;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kHead[] =
    R"("apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"u"ANNOTATIONS})";

Json Pod(const std::string& spec, const std::string& annotations = "") {
  std::string head = kHead;
  head.replace(head.find("ANNOTATIONS"), 11, annotations.empty() ? "" : ",\"annotations\":{" + annotations + "}");
  absl::StatusOr<Json> pod = kube::ParseJson("{" + head + ",\"spec\":" + spec + "}");
  EXPECT_TRUE(pod.ok()) << pod.status() << spec;
  return pod.ok() ? *pod : Json();
}

// A machine, the time, and what it asked for, as text.
class Life {
 public:
  explicit Life(const std::string& spec, const std::string& annotations = "")
      : pod_(Pod(spec, annotations)), machine_(ReadPodSpec(pod_)) {
    machine_.Tick(At());
  }

  Now At() const { return {clock_.Now(), clock_.Monotonic()}; }

  void Prepare() { machine_.Prepared(At(), "127.9.0.1"); }
  // Answers a start.
  void Start(size_t i, int attempt = 0) {
    machine_.Started(At(), i, attempt, absl::StrCat("process://", i, "/", attempt));
  }
  void Exit(size_t i, int code, int attempt = 0) { machine_.Exited(At(), i, attempt, Termination{.code = code}); }
  void Probe(size_t i, ProbeKind kind, bool ok, int attempt = 0) { machine_.Probed(At(), i, attempt, kind, ok, "no"); }

  // Time goes on from wake-up to wake-up, as in a loop.
  void Pass(absl::Duration by) {
    const absl::Duration end = clock_.Monotonic() + by;
    while (machine_.next_wake() <= end) {
      clock_.Advance(std::max(absl::ZeroDuration(), machine_.next_wake() - clock_.Monotonic()));
      machine_.Tick(At());
      if (machine_.next_wake() <= clock_.Monotonic()) {
        ADD_FAILURE() << "it wakes for ever";
        return;
      }
    }
    clock_.Advance(end - clock_.Monotonic());
    machine_.Tick(At());
  }

  // What it asked for since the last call, without events.
  std::vector<std::string> Asked() {
    std::vector<std::string> asked;
    for (const Action& action : machine_.Take()) {
      const std::string at = absl::StrCat(action.container, "/", action.attempt);
      switch (action.type) {
        case Action::Type::kPrepare:
          asked.push_back("prepare");
          break;
        case Action::Type::kStart:
          asked.push_back("start " + at);
          break;
        case Action::Type::kStop:
          asked.push_back("stop " + at);
          break;
        case Action::Type::kKill:
          asked.push_back("kill " + at);
          break;
        case Action::Type::kProbe:
          asked.push_back(absl::StrCat("probe ", at, " ", static_cast<int>(action.probe)));
          break;
        case Action::Type::kHook:
          asked.push_back(absl::StrCat("hook ", at, " ", static_cast<int>(action.hook)));
          break;
        case Action::Type::kEvent:
          events_.push_back(absl::StrCat(action.reason, ": ", action.message));
          break;
        case Action::Type::kRelease:
          asked.push_back("release");
          break;
        case Action::Type::kDelete:
          asked.push_back("delete");
          break;
      }
    }
    return asked;
  }

  JsonObject Status() { return machine_.Status(At()); }
  std::string Phase() { return std::string(Status()["phase"].as_string()); }
  // "Ready=True", "Ready=False/ContainersNotReady".
  std::string Condition(const std::string& type) {
    JsonObject status = Status();
    for (const Json& one : status["conditions"].as_array()) {
      if (kube::Text(one, "type") != type) continue;
      const std::string reason(kube::Text(one, "reason"));
      return absl::StrCat(std::string(kube::Text(one, "status")), reason.empty() ? "" : "/", reason);
    }
    return "none";
  }
  // "running", "waiting/CrashLoopBackOff", "terminated/Error/3".
  std::string State(size_t i, const char* which = "state") {
    const JsonObject status = Container(i);
    const Json& state = status.at(which);
    for (const auto& item : state.as_object()) {
      std::string text(item.key());
      const std::string reason(kube::Text(item.value(), "reason"));
      if (!reason.empty()) absl::StrAppend(&text, "/", reason);
      if (kube::Field(item.value(), "exitCode")) absl::StrAppend(&text, "/", kube::Number(item.value(), "exitCode"));
      return text;
    }
    return "";
  }
  int64_t Restarts(size_t i) { return Container(i).at("restartCount").as_int64(); }
  bool Ready(size_t i) { return Container(i).at("ready").as_bool(); }

  JsonObject Container(size_t i) {
    JsonObject status = Status();
    const std::string& name = machine_.spec().containers[i].name;
    for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
      if (!status.contains(list)) continue;
      for (const Json& one : status[list].as_array()) {
        if (kube::Text(one, "name") == name) return one.as_object();
      }
    }
    ADD_FAILURE() << "no status of " << name;
    return {};
  }

  PodMachine& machine() { return machine_; }
  std::vector<std::string>& events() { return events_; }

 private:
  SimulatedClock clock_;
  Json pod_;
  PodMachine machine_;
  std::vector<std::string> events_;
};

constexpr char kPlain[] = R"({"containers":[{"name":"a","image":"i"}]})";

TEST(PodMachine, RunsAndIsReady) {
  Life life(kPlain);
  EXPECT_THAT(life.Asked(), ElementsAre("prepare"));
  EXPECT_EQ(life.Phase(), "Pending");
  EXPECT_EQ(life.State(0), "waiting/ContainerCreating");
  EXPECT_EQ(life.Condition("PodReadyToStartContainers"), "False");
  EXPECT_EQ(life.Condition("Initialized"), "True");
  EXPECT_EQ(life.Condition("Ready"), "False/ContainersNotReady");
  life.Prepare();
  EXPECT_THAT(life.Asked(), ElementsAre("start 0/0"));
  EXPECT_EQ(life.Condition("PodReadyToStartContainers"), "True");
  life.Start(0);
  EXPECT_THAT(life.Asked(), IsEmpty());
  EXPECT_EQ(life.Phase(), "Running");
  EXPECT_EQ(life.State(0), "running");
  EXPECT_EQ(life.Condition("Ready"), "True");
  EXPECT_EQ(life.Condition("ContainersReady"), "True");
  EXPECT_EQ(life.machine().next_wake(), absl::InfiniteDuration()) << "a pod at rest is not looked at";
}

TEST(PodMachine, PreparationIsTriedAgainLaterAndLater) {
  Life life(kPlain);
  EXPECT_THAT(life.Asked(), ElementsAre("prepare"));
  life.machine().PrepareFailed(life.At(), "FailedMount", "secret \"s\" not found");
  EXPECT_THAT(life.Asked(), IsEmpty());
  EXPECT_THAT(life.events(), ElementsAre("FailedMount: secret \"s\" not found"));
  life.Pass(absl::Milliseconds(500));
  EXPECT_THAT(life.Asked(), ElementsAre("prepare"));
  life.machine().PrepareFailed(life.At(), "FailedMount", "secret \"s\" not found");
  life.Pass(absl::Milliseconds(900));
  EXPECT_THAT(life.Asked(), IsEmpty());
  life.machine().Retry(life.At());
  EXPECT_THAT(life.Asked(), ElementsAre("prepare"));
}

TEST(PodMachine, CrashLoopBacksOffAsTheKubelet) {
  Life life(kPlain);
  life.Prepare();
  life.Asked();
  life.Start(0);
  life.Exit(0, 1);
  // The first restart comes at once, the next ones after 10 s, 20 s, 40 s, … 5 min.
  EXPECT_THAT(life.Asked(), ElementsAre("start 0/1"));
  int attempt = 1;
  for (const int seconds : {10, 20, 40, 80, 160, 300, 300}) {
    life.Start(0, attempt);
    EXPECT_EQ(life.Restarts(0), attempt);
    life.Exit(0, 1, attempt);
    EXPECT_THAT(life.Asked(), IsEmpty());
    EXPECT_EQ(life.State(0), "waiting/CrashLoopBackOff");
    EXPECT_EQ(life.State(0, "lastState"), "terminated/Error/1");
    EXPECT_EQ(life.Phase(), "Running");
    EXPECT_THAT(boost::json::serialize(life.Container(0)),
                HasSubstr(absl::StrCat("back-off ", absl::FormatDuration(absl::Seconds(seconds)), " restarting")));
    life.Pass(absl::Seconds(seconds) - absl::Milliseconds(1));
    EXPECT_THAT(life.Asked(), IsEmpty());
    life.Pass(absl::Milliseconds(1));
    ++attempt;
    EXPECT_THAT(life.Asked(), ElementsAre(absl::StrCat("start 0/", attempt)));
  }
  // Ten minutes of good conduct.
  life.Start(0, attempt);
  life.Pass(absl::Minutes(10) + absl::Seconds(1));
  life.Exit(0, 1, attempt);
  EXPECT_THAT(life.Asked(), ElementsAre(absl::StrCat("start 0/", attempt + 1)));
}

TEST(PodMachine, RestartPolicies) {
  struct Case {
    const char* policy;
    int code;
    bool restarts;
    const char* phase;
  };
  for (const Case& one : {Case{"Always", 0, true, "Running"}, Case{"Always", 3, true, "Running"},
                          Case{"OnFailure", 0, false, "Succeeded"}, Case{"OnFailure", 3, true, "Running"},
                          Case{"Never", 0, false, "Succeeded"}, Case{"Never", 3, false, "Failed"}}) {
    SCOPED_TRACE(absl::StrCat(one.policy, " ", one.code));
    Life life(absl::StrCat(R"({"restartPolicy":")", one.policy, R"(","containers":[{"name":"a","image":"i"}]})"));
    life.Prepare();
    life.Start(0);
    life.Asked();
    life.Exit(0, one.code);
    if (one.restarts) {
      EXPECT_THAT(life.Asked(), ElementsAre("start 0/1"));
    } else {
      EXPECT_THAT(life.Asked(), ElementsAre("release"));
      EXPECT_EQ(life.State(0), one.code == 0 ? "terminated/Completed/0" : "terminated/Error/3");
      EXPECT_EQ(life.Condition("Ready"), one.code == 0 ? "False/PodCompleted" : "False/PodFailed");
      EXPECT_FALSE(life.Ready(0));
    }
    EXPECT_EQ(life.Phase(), one.phase);
  }
}

TEST(PodMachine, UnmappedImage) {
  Life life(kPlain);
  life.Prepare();
  life.Asked();
  life.machine().StartFailed(life.At(), 0, 0, StartFailure::kImage, "no folder");
  EXPECT_EQ(life.State(0), "waiting/ErrImagePull");
  life.Pass(absl::Seconds(1));
  EXPECT_EQ(life.State(0), "waiting/ImagePullBackOff");
  EXPECT_EQ(life.Phase(), "Pending");
  life.Pass(absl::Seconds(9));
  EXPECT_THAT(life.Asked(), ElementsAre("start 0/0"));
  life.machine().StartFailed(life.At(), 0, 0, StartFailure::kImage, "no folder");
  life.Pass(absl::Seconds(19));
  EXPECT_THAT(life.Asked(), IsEmpty());
  life.Pass(absl::Seconds(1));
  EXPECT_THAT(life.Asked(), ElementsAre("start 0/0"));
  life.Start(0);
  EXPECT_EQ(life.Restarts(0), 0);
  EXPECT_EQ(life.Phase(), "Running");

  Life never(R"({"containers":[{"name":"a","image":"i","imagePullPolicy":"Never"}]})");
  never.Prepare();
  never.machine().StartFailed(never.At(), 0, 0, StartFailure::kImage, "no folder");
  EXPECT_EQ(never.State(0), "waiting/ErrImageNeverPull");
}

TEST(PodMachine, MissingConfigurationIsNoRestart) {
  Life life(kPlain);
  life.Prepare();
  life.Asked();
  life.machine().StartFailed(life.At(), 0, 0, StartFailure::kConfig, "configmap \"c\" not found");
  EXPECT_EQ(life.State(0), "waiting/CreateContainerConfigError");
  life.machine().Retry(life.At());
  EXPECT_THAT(life.Asked(), ElementsAre("start 0/0"));
}

TEST(PodMachine, ProgramThatCannotBeRun) {
  Life life(R"({"restartPolicy":"Never","containers":[{"name":"a","image":"i"}]})");
  life.Prepare();
  life.Asked();
  life.machine().StartFailed(life.At(), 0, 0, StartFailure::kRun, "exec: not found");
  EXPECT_EQ(life.State(0), "terminated/StartError/128");
  EXPECT_EQ(life.Phase(), "Failed");
  EXPECT_THAT(life.Asked(), ElementsAre("release"));
}

TEST(PodMachine, InitContainersInOrderThenMain) {
  Life life(
      R"({"initContainers":[{"name":"x","image":"i"},{"name":"y","image":"i"}],"containers":[{"name":"a","image":"i"}]})");
  life.Prepare();
  EXPECT_THAT(life.Asked(), ElementsAre("prepare", "start 0/0"));
  EXPECT_EQ(life.State(2), "waiting/PodInitializing");
  EXPECT_EQ(life.Condition("Initialized"), "False/ContainersNotInitialized");
  life.Start(0);
  EXPECT_THAT(life.Asked(), IsEmpty());
  life.Exit(0, 0);
  EXPECT_THAT(life.Asked(), ElementsAre("start 1/0"));
  EXPECT_TRUE(life.Ready(0));
  life.Start(1);
  life.Exit(1, 2);
  EXPECT_THAT(life.Asked(), ElementsAre("start 1/1")) << "a failed one is run again";
  EXPECT_EQ(life.Phase(), "Pending");
  life.Start(1, 1);
  life.Exit(1, 0, 1);
  EXPECT_THAT(life.Asked(), ElementsAre("start 2/0"));
  EXPECT_EQ(life.Condition("Initialized"), "True");
  life.Start(2);
  EXPECT_EQ(life.Phase(), "Running");
}

TEST(PodMachine, InitFailureIsFinalWithNever) {
  Life life(
      R"({"restartPolicy":"Never","initContainers":[{"name":"x","image":"i"}],"containers":[{"name":"a","image":"i"}]})");
  life.Prepare();
  life.Start(0);
  life.Asked();
  life.Exit(0, 1);
  EXPECT_THAT(life.Asked(), ElementsAre("release"));
  EXPECT_EQ(life.Phase(), "Failed");
}

constexpr char kSidecar[] = R"({"restartPolicy":"Never","initContainers":[
    {"name":"s","image":"i","restartPolicy":"Always","startupProbe":{"tcpSocket":{"port":1},"periodSeconds":1}},
    {"name":"t","image":"i","restartPolicy":"Always"}],"containers":[{"name":"a","image":"i"}]})";

TEST(PodMachine, SidecarsStartBeforeAndStopAfter) {
  Life life(kSidecar);
  life.Prepare();
  life.Asked();
  life.Start(0);
  EXPECT_THAT(life.Asked(), ElementsAre("probe 0/0 0"));
  life.Probe(0, ProbeKind::kStartup, false);
  EXPECT_THAT(life.Asked(), IsEmpty());
  life.Pass(absl::Seconds(1));
  EXPECT_THAT(life.Asked(), ElementsAre("probe 0/0 0"));
  life.Probe(0, ProbeKind::kStartup, true);
  EXPECT_THAT(life.Asked(), ElementsAre("start 1/0"));
  life.Start(1);
  EXPECT_THAT(life.Asked(), ElementsAre("start 2/0"));
  life.Start(2);
  EXPECT_EQ(life.Condition("Ready"), "True");
  // A sidecar that ends comes back whatever the pod's policy.
  life.Exit(1, 0);
  EXPECT_THAT(life.Asked(), ElementsAre("start 1/1"));
  life.Start(1, 1);
  // The work is done: sidecars end, last one first.
  life.Exit(2, 0);
  EXPECT_THAT(life.Asked(), ElementsAre("stop 1/1"));
  EXPECT_EQ(life.Phase(), "Running");
  life.Exit(1, 143, 1);
  EXPECT_THAT(life.Asked(), ElementsAre("stop 0/0"));
  life.Exit(0, 143);
  EXPECT_THAT(life.Asked(), ElementsAre("release"));
  EXPECT_EQ(life.Phase(), "Succeeded");
}

TEST(PodMachine, ReadinessFollowsItsProbe) {
  Life life(R"({"containers":[{"name":"a","image":"i","readinessProbe":
      {"tcpSocket":{"port":1},"periodSeconds":5,"initialDelaySeconds":3,"failureThreshold":2,"successThreshold":2}}]})");
  life.Prepare();
  life.Start(0);
  life.Asked();
  EXPECT_EQ(life.Condition("Ready"), "False/ContainersNotReady");
  life.Pass(absl::Seconds(3));
  EXPECT_THAT(life.Asked(), ElementsAre("probe 0/0 2"));
  life.Pass(absl::Seconds(30));
  EXPECT_THAT(life.Asked(), IsEmpty()) << "no second probe while one runs";
  life.Probe(0, ProbeKind::kReadiness, true);
  EXPECT_FALSE(life.Ready(0));
  life.Pass(absl::Seconds(5));
  life.Probe(0, ProbeKind::kReadiness, true);
  EXPECT_TRUE(life.Ready(0));
  life.Pass(absl::Seconds(5));
  life.Probe(0, ProbeKind::kReadiness, false);
  EXPECT_TRUE(life.Ready(0));
  life.Pass(absl::Seconds(5));
  life.Probe(0, ProbeKind::kReadiness, false);
  EXPECT_FALSE(life.Ready(0));
  EXPECT_EQ(life.Phase(), "Running");
}

TEST(PodMachine, LivenessFailureRestartsAfterGrace) {
  Life life(R"({"terminationGracePeriodSeconds":7,"containers":[{"name":"a","image":"i","livenessProbe":
      {"tcpSocket":{"port":1},"periodSeconds":1,"failureThreshold":3}}]})");
  life.Prepare();
  life.Start(0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(life.Asked(), testing::Contains("probe 0/0 1"));
    life.Probe(0, ProbeKind::kLiveness, false);
    if (i < 2) life.Pass(absl::Seconds(1));
  }
  EXPECT_THAT(life.Asked(), ElementsAre("stop 0/0"));
  life.Pass(absl::Seconds(7) - absl::Milliseconds(1));
  EXPECT_THAT(life.Asked(), IsEmpty());
  life.Pass(absl::Milliseconds(1));
  EXPECT_THAT(life.Asked(), ElementsAre("kill 0/0"));
  life.Exit(0, 137);
  EXPECT_THAT(life.Asked(), ElementsAre("start 0/1"));
  EXPECT_EQ(life.State(0, "lastState"), "terminated/Error/137");
}

TEST(PodMachine, DeletionRunsPreStopThenAsksThenKills) {
  Life life(R"({"containers":[{"name":"a","image":"i","lifecycle":{"preStop":{"exec":{"command":["x"]}}}}]})");
  life.Prepare();
  life.Start(0);
  life.Asked();
  life.machine().Delete(life.At(), absl::Seconds(30));
  EXPECT_THAT(life.Asked(), ElementsAre("hook 0/0 1"));
  life.Pass(absl::Seconds(10));
  EXPECT_THAT(life.Asked(), IsEmpty());
  life.machine().HookDone(life.At(), 0, 0, HookKind::kPreStop, true, "");
  EXPECT_THAT(life.Asked(), ElementsAre("stop 0/0"));
  life.Pass(absl::Seconds(20));
  EXPECT_THAT(life.Asked(), ElementsAre("kill 0/0"));
  life.Exit(0, 137);
  EXPECT_THAT(life.Asked(), ElementsAre("release", "delete"));
  EXPECT_EQ(life.Phase(), "Failed");
}

TEST(PodMachine, PreStopThatTakesAllTheTimeLeavesTwoSeconds) {
  Life life(R"({"containers":[{"name":"a","image":"i","lifecycle":{"preStop":{"sleep":{"seconds":60}}}}]})");
  life.Prepare();
  life.Start(0);
  life.Asked();
  life.machine().Delete(life.At(), absl::Seconds(5));
  life.Asked();
  life.Pass(absl::Seconds(5));
  EXPECT_THAT(life.Asked(), ElementsAre("stop 0/0"));
  life.Pass(absl::Seconds(2));
  EXPECT_THAT(life.Asked(), ElementsAre("kill 0/0"));
}

TEST(PodMachine, SecondDeletionShortens) {
  Life life(kPlain);
  life.Prepare();
  life.Start(0);
  life.Asked();
  life.machine().Delete(life.At(), absl::Seconds(300));
  EXPECT_THAT(life.Asked(), ElementsAre("stop 0/0"));
  life.machine().Delete(life.At(), absl::ZeroDuration());
  life.Pass(absl::Seconds(2));
  EXPECT_THAT(life.Asked(), ElementsAre("kill 0/0"));
}

TEST(PodMachine, DeletedBeforeItStarted) {
  Life life(kPlain);
  life.Asked();
  life.machine().Delete(life.At(), absl::Seconds(30));
  EXPECT_THAT(life.Asked(), IsEmpty()) << "preparation is under way";
  life.Prepare();
  EXPECT_THAT(life.Asked(), ElementsAre("release", "delete"));

  Life starting(kPlain);
  starting.Prepare();
  starting.Asked();
  starting.machine().Delete(starting.At(), absl::Seconds(30));
  EXPECT_THAT(starting.Asked(), IsEmpty()) << "a start is under way";
  starting.Start(0);
  EXPECT_THAT(starting.Asked(), ElementsAre("stop 0/0"));
  starting.Exit(0, 143);
  EXPECT_THAT(starting.Asked(), ElementsAre("release", "delete"));
}

TEST(PodMachine, ActiveDeadline) {
  Life life(R"({"activeDeadlineSeconds":30,"restartPolicy":"OnFailure","containers":[{"name":"a","image":"i"}]})");
  life.Prepare();
  life.Start(0);
  life.Asked();
  life.Pass(absl::Seconds(30));
  EXPECT_THAT(life.Asked(), ElementsAre("stop 0/0"));
  life.Exit(0, 143);
  EXPECT_THAT(life.Asked(), ElementsAre("release"));
  EXPECT_EQ(life.Phase(), "Failed");
  EXPECT_EQ(life.Status()["reason"].as_string(), "DeadlineExceeded");
}

TEST(PodMachine, ReadinessGates) {
  Life life(R"({"readinessGates":[{"conditionType":"g"}],"containers":[{"name":"a","image":"i"}]})");
  life.Prepare();
  life.Start(0);
  EXPECT_EQ(life.Condition("Ready"), "False/ReadinessGatesNotReady");
  EXPECT_EQ(life.Condition("ContainersReady"), "True");
  life.machine().SeenConditions(life.At(),
                                *kube::ParseJson(R"({"status":{"conditions":[{"type":"g","status":"True"}]}})"));
  EXPECT_EQ(life.Condition("Ready"), "True");
}

TEST(PodMachine, FailedPostStartEndsTheContainer) {
  Life life(R"({"containers":[{"name":"a","image":"i","lifecycle":{"postStart":{"exec":{"command":["x"]}}}}]})");
  life.Prepare();
  life.Asked();
  life.Start(0);
  EXPECT_THAT(life.Asked(), ElementsAre("hook 0/0 0"));
  EXPECT_FALSE(life.Ready(0));
  life.machine().HookDone(life.At(), 0, 0, HookKind::kPostStart, false, "it failed");
  EXPECT_THAT(life.Asked(), ElementsAre("stop 0/0"));
  life.Exit(0, 143);
  EXPECT_THAT(life.Asked(), ElementsAre("start 0/1"));
}

TEST(PodMachine, FaultsByAnnotation) {
  Life slow(kPlain, R"("process-node.tensor-fusion.ai/slow-start":"5s")");
  slow.Prepare();
  slow.Asked();
  slow.Pass(absl::Seconds(4));
  EXPECT_THAT(slow.Asked(), IsEmpty());
  slow.Pass(absl::Seconds(1));
  EXPECT_THAT(slow.Asked(), ElementsAre("start 0/0"));

  Life unready(kPlain, R"("process-node.tensor-fusion.ai/never-ready":"true")");
  unready.Prepare();
  unready.Start(0);
  EXPECT_EQ(unready.Condition("Ready"), "False/ContainersNotReady");

  Life crash(kPlain, R"("process-node.tensor-fusion.ai/crash":"5s:7")");
  crash.Prepare();
  crash.Start(0);
  crash.Asked();
  crash.Pass(absl::Seconds(5));
  EXPECT_THAT(crash.Asked(), ElementsAre("kill 0/0"));
  crash.Exit(0, 137);
  EXPECT_EQ(crash.State(0, "lastState"), "terminated/Error/7");
}

TEST(PodMachine, AdoptsWhatRuns) {
  Life life(kPlain);
  life.Asked();
  PodMachine next(ReadPodSpec(Pod(kPlain)));
  AdoptedContainer a;
  a.attempt = 3;
  a.id = "process://u/a/3";
  a.running = true;
  a.started = life.At().wall - absl::Seconds(30);
  a.backoff = absl::Seconds(40);
  a.last = Termination{.code = 9};
  next.Adopt(life.At(), *kube::ParseJson(R"({"startTime":"2026-01-01T00:00:00Z","conditions":[
      {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:09Z"}]})"),
             true, "127.9.0.1", {a});
  for (const Action& action : next.Take()) EXPECT_EQ(action.type, Action::Type::kEvent) << "nothing is started again";
  JsonObject status = next.Status(life.At());
  EXPECT_EQ(status["phase"].as_string(), "Running");
  EXPECT_EQ(status["startTime"].as_string(), "2026-01-01T00:00:00Z");
  const Json& container = status["containerStatuses"].as_array()[0];
  EXPECT_EQ(kube::Number(container, "restartCount"), 3);
  EXPECT_EQ(kube::Number(container, "lastState.terminated.exitCode"), 9);
  EXPECT_THAT(boost::json::serialize(status), HasSubstr("2026-01-01T00:00:09Z")) << "ready since then";
  next.Exited(life.At(), 0, 3, Termination{.code = 1});
  EXPECT_EQ(next.next_wake(), life.At().monotonic + absl::Seconds(40));
}

// Whatever happens in whatever order: no run begins twice, nothing starts after the end began, a deleted pod always
// gets to its deletion, and at rest nobody waits for ever.
TEST(PodMachine, RandomHistories) {
  const std::vector<std::string> specs = {
      kPlain, kSidecar,
      R"({"restartPolicy":"OnFailure","activeDeadlineSeconds":500,"initContainers":[{"name":"x","image":"i"}],"containers":[
          {"name":"a","image":"i","livenessProbe":{"tcpSocket":{"port":1}},"lifecycle":{"preStop":{"exec":{"command":["x"]}},
           "postStart":{"exec":{"command":["x"]}}}},{"name":"b","image":"i","readinessProbe":{"tcpSocket":{"port":1}}}]})"};
  for (uint32_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto roll = [&](uint32_t sides) { return random() % sides; };
    SimulatedClock clock;
    PodMachine machine(ReadPodSpec(Pod(specs[seed % specs.size()])));
    const auto now = [&] { return Now{clock.Now(), clock.Monotonic()}; };
    std::set<std::pair<size_t, int>> begun, running, killed;
    std::vector<Action> open;
    bool deleted = false, released = false, asked_delete = false;
    machine.Tick(now());
    for (int step = 0; step < 400 && !asked_delete; ++step) {
      for (Action& action : machine.Take()) {
        const std::pair<size_t, int> run{action.container, action.attempt};
        if (released) {
          ASSERT_TRUE(action.type == Action::Type::kDelete || action.type == Action::Type::kEvent);
        }
        switch (action.type) {
          case Action::Type::kStart:
            ASSERT_FALSE(deleted);
            ASSERT_FALSE(running.contains(run));
            for (const auto& [container, attempt] : running) ASSERT_NE(container, action.container);
            open.push_back(action);
            break;
          case Action::Type::kPrepare:
          case Action::Type::kProbe:
          case Action::Type::kHook:
            open.push_back(action);
            break;
          case Action::Type::kStop:
            ASSERT_TRUE(running.contains(run));
            break;
          case Action::Type::kKill:
            ASSERT_TRUE(running.contains(run));
            killed.insert(run);
            break;
          case Action::Type::kRelease:
            ASSERT_TRUE(running.empty());
            ASSERT_FALSE(released);
            released = true;
            break;
          case Action::Type::kDelete:
            ASSERT_TRUE(released && deleted);
            asked_delete = true;
            break;
          case Action::Type::kEvent:
            break;
        }
      }
      ASSERT_FALSE(boost::json::serialize(machine.Status(now())).empty());
      const uint32_t what = roll(10);
      if (what < 5 && !open.empty()) {
        const size_t at = roll(static_cast<uint32_t>(open.size()));
        const Action action = open[at];
        open.erase(open.begin() + static_cast<long>(at));
        const std::pair<size_t, int> run{action.container, action.attempt};
        if (action.type == Action::Type::kPrepare) {
          roll(4) ? machine.Prepared(now(), "127.9.0.1") : machine.PrepareFailed(now(), "FailedMount", "no");
        } else if (action.type == Action::Type::kProbe) {
          machine.Probed(now(), action.container, action.attempt, action.probe, roll(3) > 0, "no");
        } else if (action.type == Action::Type::kHook) {
          machine.HookDone(now(), action.container, action.attempt, action.hook, roll(3) > 0, "no");
        } else if (roll(4) > 0) {
          ASSERT_TRUE(begun.insert(run).second) << "a run began twice";
          running.insert(run);
          machine.Started(now(), action.container, action.attempt, "id");
        } else {
          const StartFailure why = static_cast<StartFailure>(roll(3));
          if (why == StartFailure::kRun) {
            ASSERT_TRUE(begun.insert(run).second);
          }
          machine.StartFailed(now(), action.container, action.attempt, why, "no");
        }
      } else if (what < 7 && !running.empty()) {
        auto at = running.begin();
        std::advance(at, roll(static_cast<uint32_t>(running.size())));
        const auto run = *at;
        running.erase(at);
        machine.Exited(now(), run.first, run.second, Termination{.code = static_cast<int>(roll(3))});
      } else if (what == 7 && roll(8) == 0) {
        deleted = true;
        machine.Delete(now(), absl::Seconds(roll(60)));
      } else if (machine.next_wake() != absl::InfiniteDuration()) {
        clock.Advance(std::max(absl::ZeroDuration(), machine.next_wake() - clock.Monotonic()));
        machine.Tick(now());
        ASSERT_GT(machine.next_wake(), clock.Monotonic());
      }
    }
    // Whatever it is in the middle of: it can be deleted, and then comes to its end by itself.
    for (Action& action : machine.Take()) {
      if (action.type == Action::Type::kKill) killed.insert({action.container, action.attempt});
      if (action.type == Action::Type::kDelete) asked_delete = true;
      open.push_back(action);
    }
    if (!deleted) machine.Delete(now(), absl::Seconds(1));
    for (int step = 0; step < 200 && !asked_delete; ++step) {
      for (Action& action : machine.Take()) {
        ASSERT_NE(action.type, Action::Type::kStart);
        if (action.type == Action::Type::kKill) killed.insert({action.container, action.attempt});
        if (action.type == Action::Type::kDelete) asked_delete = true;
        if (action.type == Action::Type::kPrepare) open.push_back(action);
      }
      for (const Action& action : open) {
        if (action.type == Action::Type::kPrepare) machine.Prepared(now(), "127.9.0.1");
        if (action.type == Action::Type::kStart) {
          machine.StartFailed(now(), action.container, action.attempt, StartFailure::kConfig, "no");
        }
      }
      open.clear();
      if (!killed.empty()) {
        const auto run = *killed.begin();
        killed.erase(killed.begin());
        if (running.erase(run) > 0) machine.Exited(now(), run.first, run.second, Termination{.code = 137});
      } else if (machine.next_wake() != absl::InfiniteDuration()) {
        clock.Advance(std::max(absl::ZeroDuration(), machine.next_wake() - clock.Monotonic()));
        machine.Tick(now());
      }
    }
    ASSERT_TRUE(asked_delete);
  }
}

}  // namespace
}  // namespace tf::process_node
