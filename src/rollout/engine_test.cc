#include "rollout/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tf::rollout {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr size_t kHypervisor = 0;
constexpr size_t kWorker = 1;
constexpr size_t kClient = 2;

// A pool whose controllers are quick: what is restarted is there again at once, of the newest revision, and not ready
// until Ready() says so.
class Pool {
 public:
  explicit Pool(int nodes) {
    policy.auto_update = {true, true, true};
    for (int i = 0; i < nodes; ++i) AddNode("n" + std::to_string(i));
    Target(kHypervisor, "a");
    Look();
    events.clear();
    Pass(absl::Hours(1));
  }

  NodeSeen& AddNode(const std::string& name) {
    NodeSeen& node = seen.nodes.emplace_back();
    node.name = name;
    node.joined = now;
    Add(kHypervisor, name);
    return node;
  }

  PodSeen& Add(size_t component, const std::string& node, const std::string& owner = "") {
    PodSeen pod;
    pod.ns = "x";
    pod.name = "p" + std::to_string(++uids_);
    pod.uid = std::to_string(uids_);
    pod.resource_version = "1";
    pod.revisions = {for_new_pods[component]};
    pod.ready = true;
    pod.since = pod.created = now;
    pod.owner = owner;
    pod.replace = component == kClient ? Replace::kEvict : Replace::kDelete;
    std::vector<PodSeen>& pods = node.empty() ? seen.components[component].unplaced : Node(node).pods[component];
    return pods.emplace_back(pod);
  }

  void Target(size_t component, const std::string& revision) { seen.components[component].target = revision; }

  NodeSeen& Node(const std::string& name) {
    for (NodeSeen& node : seen.nodes) {
      if (node.name == name) return node;
    }
    ADD_FAILURE() << name;
    return seen.nodes.front();
  }
  PodSeen& Hypervisor(const std::string& node) { return Node(node).pods[kHypervisor].at(0); }

  const Decision& Decide() {
    decision = rollout::Decide(policy, seen, state, now);
    return decision;
  }

  // Decides, writes and acts. Returns the nodes that were restarted.
  std::vector<std::string> Look() {
    Decide();
    state = decision.state;
    events.insert(events.end(), decision.events.begin(), decision.events.end());
    std::vector<std::string> nodes;
    for (size_t c = 0; c < kComponents; ++c) {
      if (!seen.components[c].target.empty()) for_new_pods[c] = decision.reports[c].for_new_pods;
    }
    for (const Action& action : decision.actions) {
      nodes.push_back(action.node);
      const size_t c = static_cast<size_t>(action.component);
      std::vector<PodSeen>& pods = action.node.empty() ? seen.components[c].unplaced : Node(action.node).pods[c];
      const std::string owner = [&] {
        for (const PodSeen& pod : pods) {
          if (pod.uid == action.uid) return pod.owner;
        }
        return std::string();
      }();
      std::erase_if(pods, [&](const PodSeen& pod) { return pod.uid == action.uid; });
      PodSeen& pod = Add(c, action.node, owner);
      pod.ready = false;
      pod.owner_created = absl::InfinitePast();
    }
    return nodes;
  }

  // Everything that is not ready becomes so.
  void Ready() {
    for (NodeSeen& node : seen.nodes) {
      for (auto& pods : node.pods) {
        for (PodSeen& pod : pods) {
          if (!pod.ready) pod.since = now;
          pod.ready = true;
          pod.trouble.clear();
        }
      }
    }
  }

  void Pass(absl::Duration time) { now += time; }

  // Looks and waits until nothing is restarted any more; the sizes of the batches.
  std::vector<size_t> Finish() {
    std::vector<size_t> batches;
    for (int i = 0; i < 200; ++i) {
      const size_t restarted = Look().size();
      if (restarted > 0) batches.push_back(restarted);
      Ready();
      Pass(policy.batch_interval + absl::Seconds(1));
    }
    return batches;
  }

  std::vector<std::string> EventNames() const {
    std::vector<std::string> names;
    for (const Event& event : events) names.push_back(Name(event.type));
    return names;
  }
  const Report& report(size_t component = kHypervisor) const { return decision.reports[component]; }

  absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  Policy policy = {};
  Observation seen = {};
  State state = {};
  Decision decision = {};
  std::vector<Event> events = {};
  std::array<std::string, kComponents> for_new_pods = {"a", "a", "a"};

 private:
  int uids_ = 0;
};

auto Named(const std::string& name, const std::string& reason) {
  return Contains(::testing::AllOf(Field(&Stuck::name, name), Field(&Stuck::reason, reason)));
}

TEST(Decide, AnEmptyPoolIsSyncedAtOnce) {
  for (const bool automatic : {true, false}) {
    Pool pool(0);
    pool.policy.auto_update = {automatic, automatic, automatic};
    pool.Target(kHypervisor, "b");
    pool.Target(kWorker, "b");
    pool.Target(kClient, "b");
    pool.Look();
    for (const Report& report : pool.decision.reports) {
      EXPECT_TRUE(report.synced);
      EXPECT_EQ(report.progress, 100);
      EXPECT_EQ(report.revision, "b");
      EXPECT_EQ(report.phase, Phase::kComplete);
    }
    EXPECT_THAT(pool.events, IsEmpty());
    EXPECT_EQ(pool.decision.next_look, std::nullopt);
  }
}

TEST(Decide, AComponentThatIsNotConfiguredIsLeftAlone) {
  Pool pool(2);
  pool.Target(kHypervisor, "");
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_TRUE(pool.report().synced);
  EXPECT_EQ(pool.report().reason, "NotConfigured");
}

TEST(Decide, APoolThatIsUpToDateNeedsNoBatch) {
  Pool pool(5);
  pool.policy.batch_percentage = 20;
  EXPECT_EQ(pool.report().progress, 100);
  EXPECT_TRUE(pool.report().synced);
  EXPECT_EQ(pool.report().reason, "UpToDate");
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_THAT(pool.events, IsEmpty());
  EXPECT_EQ(pool.state.components[kHypervisor].last_good, "a");
}

// As upstream's arithmetic has it, where the outcome is the same.
TEST(Decide, BatchesAreACeiledShareOfTheNodes) {
  struct Case {
    int nodes;
    int percent;
    std::vector<size_t> batches;
  };
  const Case kCases[] = {
      {10, 20, {2, 2, 2, 2, 2}}, {10, 30, {3, 3, 3, 1}}, {7, 20, {2, 2, 2, 1}}, {10, 33, {4, 4, 2}}, {5, 60, {3, 2}},
      {3, 20, {1, 1, 1}},        {1, 20, {1}},           {4, 50, {2, 2}},       {3, 100, {3}},       {4, 100, {4}}};
  for (const Case& c : kCases) {
    Pool pool(c.nodes);
    pool.policy.batch_percentage = c.percent;
    pool.Target(kHypervisor, "b");
    EXPECT_EQ(pool.Finish(), c.batches) << c.nodes << " nodes, " << c.percent << " %";
    EXPECT_EQ(pool.report().progress, 100);
    EXPECT_TRUE(pool.report().synced);
    EXPECT_EQ(pool.state.components[kHypervisor].batch, static_cast<int64_t>(c.batches.size()));
  }
}

TEST(Decide, TheNextBatchWaitsForHealthAndThenForTheInterval) {
  Pool pool(4);
  pool.policy.batch_percentage = 50;
  pool.policy.batch_interval = absl::Minutes(10);
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), ElementsAre("n0", "n1"));
  EXPECT_EQ(pool.report().phase, Phase::kProgressing);
  EXPECT_EQ(pool.report().progress, 0);
  EXPECT_FALSE(pool.report().synced);
  pool.Pass(absl::Minutes(5));  // half of the deadline
  pool.Hypervisor("n0").ready = true;
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().progress, 25);
  EXPECT_EQ(pool.decision.next_look, pool.now + absl::Minutes(5));  // n1's deadline
  pool.Ready();
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().progress, 50);
  EXPECT_EQ(pool.report().phase, Phase::kWaiting);
  EXPECT_EQ(pool.report().reason, "BatchInterval");
  EXPECT_EQ(pool.decision.next_look, pool.now + absl::Minutes(10));
  pool.Pass(absl::Minutes(10) - absl::Milliseconds(1));
  EXPECT_THAT(pool.Look(), IsEmpty());
  pool.Pass(absl::Milliseconds(1));
  EXPECT_THAT(pool.Look(), ElementsAre("n2", "n3"));
  pool.Ready();
  pool.Look();
  EXPECT_EQ(pool.report().progress, 100);
  EXPECT_TRUE(pool.report().synced);
  EXPECT_THAT(pool.EventNames(), ElementsAre("RolloutStarted", "BatchStarted", "BatchHealthy", "BatchStarted",
                                             "BatchHealthy", "RolloutComplete"));
}

TEST(Decide, AShorterIntervalCountsAtOnce) {
  Pool pool(2);
  pool.policy.batch_percentage = 50;
  pool.policy.batch_interval = absl::Minutes(10);
  pool.Target(kHypervisor, "b");
  pool.Look();
  pool.Ready();
  pool.Pass(absl::Seconds(2));
  EXPECT_THAT(pool.Look(), IsEmpty());
  pool.policy.batch_interval = absl::Seconds(1);
  pool.Pass(absl::Seconds(1));
  EXPECT_THAT(pool.Look(), ElementsAre("n1"));
}

TEST(Decide, WithAutoUpdateOffTheRevisionIsRecordedAndNothingRestarts) {
  Pool pool(2);
  pool.policy.auto_update[kHypervisor] = false;
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().revision, "b");
  EXPECT_EQ(pool.report().phase, Phase::kPending);
  EXPECT_EQ(pool.report().reason, "AutoUpdateOff");
  EXPECT_EQ(pool.report().progress, 0);
  EXPECT_FALSE(pool.report().synced);
  EXPECT_EQ(pool.report().for_new_pods, "b");
  EXPECT_THAT(pool.events, IsEmpty());
  pool.policy.auto_update[kHypervisor] = true;
  EXPECT_THAT(pool.Look(), ElementsAre("n0", "n1"));
}

TEST(Decide, PausedNothingRestartsAndWhatIsInFlightIsAwaited) {
  Pool pool(4);
  pool.policy.batch_percentage = 50;
  pool.Target(kHypervisor, "b");
  pool.Look();
  pool.policy.paused = true;
  pool.Look();
  EXPECT_EQ(pool.report().phase, Phase::kPaused);
  EXPECT_EQ(pool.report().reason, "Paused");
  pool.Ready();
  pool.Pass(absl::Hours(1));
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().progress, 50);
  EXPECT_THAT(pool.EventNames(), ElementsAre("RolloutStarted", "BatchStarted", "RolloutPaused", "BatchHealthy"));
  // A newer edit while it is paused: nothing passes through the one that is no longer wanted.
  pool.Target(kHypervisor, "c");
  EXPECT_THAT(pool.Look(), IsEmpty());
  pool.policy.paused = false;
  EXPECT_THAT(pool.Finish(), ElementsAre(2, 2));
  EXPECT_EQ(pool.Hypervisor("n3").revisions, std::vector<std::string>{"c"});
}

TEST(Decide, WhatWasNotRestartedBeforeThePauseGivesItsPlaceBack) {
  Pool pool(2);
  pool.Target(kHypervisor, "b");
  pool.state = pool.Decide().state;  // written, and the operator died before it acted
  EXPECT_THAT(pool.state.components[kHypervisor].open, SizeIs(2));
  pool.policy.paused = true;
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_THAT(pool.state.components[kHypervisor].open, IsEmpty());
}

TEST(Decide, AWindowThatIsEnforcedOpensBatchesOnlyInside) {
  Pool pool(2);
  pool.policy.batch_percentage = 50;
  pool.policy.window_enforced = true;
  pool.policy.window = *ParseWindow({"0 2 * * *"}, "Europe/Berlin", absl::Hours(1));
  pool.now = absl::FromCivil(absl::CivilHour(2026, 3, 28, 12), absl::UTCTimeZone());
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().phase, Phase::kPaused);
  EXPECT_EQ(pool.report().reason, "WindowClosed");
  const absl::Time opening = absl::FromCivil(absl::CivilHour(2026, 3, 29, 1), absl::UTCTimeZone());
  EXPECT_EQ(pool.decision.next_look, opening);
  EXPECT_EQ(pool.report().next_window, opening);
  EXPECT_EQ(pool.report().next_window_local, "2026-03-29 03:00:00 +0200 (Europe/Berlin)");
  pool.now = opening;
  EXPECT_THAT(pool.Look(), SizeIs(1));
  pool.now = opening + absl::Hours(1);
  pool.Ready();
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().reason, "WindowClosed");
}

TEST(Decide, ABrokenWindowIsClosedAndNamed) {
  Pool pool(1);
  pool.policy.window_enforced = true;
  pool.policy.window = Window::Read({"* * * * *"}, "Mars/Olympus", absl::Hours(1));
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().reason, "WindowInvalid");
  EXPECT_THAT(pool.report().message, HasSubstr("'Mars/Olympus'"));
}

TEST(Decide, APolicyThatIsNotAllowedRestartsNothing) {
  Pool pool(1);
  PolicySource source;
  source.auto_update_hypervisor = true;
  source.batch_percentage = 0;
  pool.policy = ReadPolicy(source);
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().phase, Phase::kBlocked);
  EXPECT_EQ(pool.report().reason, "InvalidPolicy");
  EXPECT_THAT(pool.report().message, HasSubstr("batchPercentage: it is '0'"));
}

TEST(Decide, ANodeThatIsDownBeforeItsTurnIsSetAsideAndUpdatedWhenItIsBack) {
  Pool pool(3);
  pool.policy.max_unavailable = Share{1, false};
  pool.Node("n1").up = false;
  pool.Node("n1").down_reason = "KubeletStopped";
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
  EXPECT_EQ(pool.report().total, 2);
  EXPECT_EQ(pool.report().skipped, 1);
  EXPECT_THAT(pool.report().stuck, Named("n1", "KubeletStopped"));
  for (int i = 0; i < 5; ++i) {
    pool.Ready();
    pool.Pass(absl::Minutes(20));
    pool.Look();
  }
  EXPECT_EQ(pool.report().progress, 100);
  EXPECT_TRUE(pool.report().synced);
  EXPECT_EQ(pool.report().reason, "NodesSetAside");
  EXPECT_EQ(pool.report().failed, 0);
  pool.Node("n1").up = true;
  EXPECT_THAT(pool.Look(), ElementsAre("n1"));
  EXPECT_LT(pool.report().progress, 100);
  pool.Ready();
  pool.Look();
  EXPECT_EQ(pool.report().progress, 100);
  EXPECT_EQ(pool.report().total, 3);
}

TEST(Decide, WithEveryNodeDownNothingIsClaimed) {
  Pool pool(1);
  pool.Node("n0").up = false;
  pool.Target(kHypervisor, "b");
  pool.Look();
  EXPECT_LT(pool.report().progress, 100);
  EXPECT_FALSE(pool.report().synced);
  EXPECT_EQ(pool.report().reason, "NodesSetAside");
}

TEST(Decide, AUnitThatIsNotReadyInTimeAfterItsTurnHasFailed) {
  Pool pool(4);
  pool.policy.batch_percentage = 25;
  pool.Target(kHypervisor, "b");
  pool.Look();
  PodSeen& pod = pool.Hypervisor("n0");
  pod.trouble = "ImagePullBackOff";
  pod.trouble_message = "no such image x:2";
  pool.Look();
  EXPECT_EQ(pool.report().reason, "ImagePullBackOff");
  EXPECT_THAT(pool.report().message, HasSubstr("n0: no such image x:2"));
  EXPECT_THAT(pool.report().stuck, Named("n0", "ImagePullBackOff"));
  EXPECT_EQ(pool.decision.next_look, pool.now + absl::Minutes(10));
  pool.Pass(absl::Minutes(10));
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().phase, Phase::kFailed);
  EXPECT_EQ(pool.report().failed, 1);
  EXPECT_THAT(pool.report().message, HasSubstr("no such image x:2"));
  EXPECT_THAT(pool.EventNames(), ElementsAre("RolloutStarted", "BatchStarted", "BatchHealthy", "RolloutFailed"));
  pool.Pass(absl::Hours(1));
  EXPECT_THAT(pool.Look(), IsEmpty());
  // It is well after all.
  pool.Ready();
  EXPECT_THAT(pool.Look(), ElementsAre("n1"));
  EXPECT_EQ(pool.report().failed, 0);
}

TEST(Decide, FailuresUpToTheLimitDoNotStopTheOthers) {
  Pool pool(4);
  pool.policy.batch_percentage = 25;
  pool.policy.max_failures = 1;
  pool.Target(kHypervisor, "b");
  pool.Look();
  pool.Pass(absl::Minutes(10));
  pool.Look();  // n0 has failed, and with it the batch is over
  for (int i = 1; i < 4; ++i) {
    pool.Pass(absl::Seconds(2));
    EXPECT_THAT(pool.Look(), ElementsAre("n" + std::to_string(i)));
    pool.Hypervisor("n" + std::to_string(i)).ready = true;
    pool.Look();
  }
  EXPECT_EQ(pool.report().progress, 75);
  EXPECT_FALSE(pool.report().synced);
  EXPECT_EQ(pool.report().reason, "NodesFailed");
  EXPECT_THAT(pool.report().stuck, Named("n0", "ProgressDeadlineExceeded"));
}

TEST(Decide, TooManyFailuresRollBackToTheLastGoodRevision) {
  Pool pool(4);
  pool.policy.batch_percentage = 50;
  pool.policy.on_failure = OnFailure::kRollback;
  pool.Target(kHypervisor, "b");
  pool.Look();
  pool.Hypervisor("n1").ready = true;
  pool.Pass(absl::Minutes(10));
  // n0 is down already: it is replaced first, at no cost, with its own precondition.
  EXPECT_THAT(pool.Look(), UnorderedElementsAre("n0", "n1"));
  EXPECT_THAT(pool.EventNames(), Contains("RolloutFailed"));
  EXPECT_EQ(pool.report().phase, Phase::kRollingBack);
  EXPECT_EQ(pool.report().revision, "a");
  EXPECT_EQ(pool.report().for_new_pods, "a");
  pool.Finish();
  EXPECT_EQ(pool.report().phase, Phase::kRolledBack);
  EXPECT_EQ(pool.report().progress, 100);
  EXPECT_FALSE(pool.report().synced);  // the spec asks for another one
  EXPECT_EQ(pool.EventNames().back(), "RolledBack");
  // The same spec is not tried again; another one is.
  EXPECT_THAT(pool.Look(), IsEmpty());
  pool.Target(kHypervisor, "c");
  EXPECT_THAT(pool.Finish(), ElementsAre(2, 2));
  EXPECT_TRUE(pool.report().synced);
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), SizeIs(2));
}

TEST(Decide, WithoutAGoodRevisionThereIsNoWayBack) {
  Pool pool(1);
  pool.state.components[kHypervisor].last_good.clear();
  pool.policy.on_failure = OnFailure::kRollback;
  pool.Target(kHypervisor, "b");
  pool.Look();
  pool.Pass(absl::Minutes(10));
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().phase, Phase::kFailed);
  EXPECT_THAT(pool.report().message, HasSubstr("no good revision"));
}

TEST(Decide, WhatWasBrokenBeforeIsReplacedFirstAndIsNoEvidence) {
  Pool pool(5);
  pool.policy.batch_percentage = 20;
  pool.policy.max_unavailable = Share{1, false};
  for (const char* node : {"n3", "n4"}) pool.Hypervisor(node).ready = false;
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), UnorderedElementsAre("n3", "n4", "n0"));
  for (const Action& action : pool.decision.actions) {
    EXPECT_EQ(action.if_unchanged, action.node == "n0" ? "" : "1");
  }
  // They stay broken, and nobody minds.
  pool.Hypervisor("n0").ready = true;
  for (int i = 1; i < 3; ++i) {
    pool.Pass(absl::Minutes(11));
    pool.Look();
    pool.Pass(absl::Seconds(2));
    pool.Look();
    pool.Hypervisor("n" + std::to_string(i)).ready = true;
  }
  pool.Look();
  EXPECT_EQ(pool.report().failed, 0);
  EXPECT_EQ(pool.report().progress, 100);
  EXPECT_EQ(pool.report().skipped, 2);
  EXPECT_EQ(pool.report().total, 3);
}

TEST(Decide, OneThatBreaksAfterItsTurnIsEvidence) {
  Pool pool(3);
  pool.policy.batch_percentage = 34;
  pool.policy.batch_interval = absl::Seconds(5);
  pool.Target(kHypervisor, "b");
  pool.Look();
  pool.Ready();
  pool.Look();
  pool.Hypervisor("n0").ready = false;  // it had its turn and was well
  pool.Pass(absl::Seconds(6));
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_THAT(pool.state.components[kHypervisor].awaited, SizeIs(1));
  pool.Pass(absl::Minutes(10));
  pool.Look();
  EXPECT_EQ(pool.report().phase, Phase::kFailed);
}

TEST(Decide, TheBudgetCountsWhateverIsUnavailable) {
  Pool pool(4);
  pool.policy.max_unavailable = Share{50, true};
  pool.policy.max_failures = 4;
  pool.policy.batch_percentage = 50;
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), SizeIs(2));
  EXPECT_EQ(pool.report().max_unavailable, 2);
  pool.Pass(absl::Minutes(10));
  pool.Look();  // both have failed
  pool.Pass(absl::Seconds(2));
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().reason, "MaxUnavailable");
  EXPECT_THAT(pool.report().message, HasSubstr("n0, n1"));
  pool.Hypervisor("n0").ready = true;
  EXPECT_THAT(pool.Look(), ElementsAre("n2"));
}

TEST(Decide, AUnitCountsWhenItHasBeenReadyForLongEnough) {
  Pool pool(2);
  pool.policy.batch_percentage = 50;
  pool.policy.batch_interval = absl::ZeroDuration();
  pool.policy.min_ready = absl::Seconds(30);
  pool.Target(kHypervisor, "b");
  pool.Look();
  pool.Pass(absl::Seconds(5));
  pool.Ready();
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().progress, 0);
  EXPECT_EQ(pool.decision.next_look, pool.now + absl::Seconds(30));
  pool.Pass(absl::Seconds(30));
  EXPECT_THAT(pool.Look(), ElementsAre("n1"));
}

TEST(Decide, AnEvictionThatABudgetRefusesIsShownAndTheOthersGoOn) {
  Pool pool(3);
  pool.policy.batch_percentage = 33;
  for (const char* node : {"n0", "n1", "n2"}) pool.Add(kClient, node, std::string("web/") + node);
  pool.Target(kClient, "a");
  pool.Look();
  pool.Target(kClient, "b");
  pool.Decide();
  ASSERT_THAT(pool.decision.actions, SizeIs(1));
  EXPECT_EQ(pool.decision.actions[0].how, Replace::kEvict);
  pool.state = pool.decision.state;
  PodSeen& refused = pool.Node("n0").pods[kClient][0];
  refused.refused_by = "PodDisruptionBudget x/frontend";
  refused.retry_after = pool.now + absl::Minutes(1);
  EXPECT_THAT(pool.Look(), ElementsAre("n1"));
  EXPECT_THAT(pool.report(kClient).stuck, Named("n0", "EvictionRefused"));
  EXPECT_THAT(pool.report(kClient).stuck[0].message + pool.report(kClient).stuck.back().message,
              HasSubstr("PodDisruptionBudget x/frontend"));
  pool.Ready();
  pool.Look();
  pool.Pass(absl::Seconds(5));
  EXPECT_THAT(pool.Look(), ElementsAre("n2"));
  pool.Ready();
  pool.Look();
  pool.Pass(absl::Seconds(5));
  pool.Look();
  EXPECT_EQ(pool.report(kClient).reason, "EvictionRefused");
  EXPECT_EQ(pool.decision.next_look, refused.retry_after);
  EXPECT_LT(pool.report(kClient).progress, 100);
  pool.Pass(absl::Minutes(1));
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
  pool.Ready();
  pool.Look();
  EXPECT_EQ(pool.report(kClient).progress, 100);
}

TEST(Decide, APodThatNobodyWouldMakeAgainIsNeverTouched) {
  Pool pool(1);
  pool.Add(kClient, "n0").replace = Replace::kManual;
  pool.Target(kClient, "a");
  pool.Look();
  pool.Target(kClient, "b");
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report(kClient).reason, "ManualRestartNeeded");
  EXPECT_EQ(pool.report(kClient).manual, 1);
  EXPECT_THAT(pool.report(kClient).stuck, Named("x/p2", "ManualRestartNeeded"));
  EXPECT_LT(pool.report(kClient).progress, 100);
  pool.Node("n0").pods[kClient][0].revisions = {"b"};
  pool.Look();
  EXPECT_EQ(pool.report(kClient).progress, 100);
}

TEST(Decide, ANodeGetsOneComponentAtATimeInTheirOrder) {
  Pool pool(2);
  pool.policy.batch_percentage = 50;
  for (const char* node : {"n0", "n1"}) {
    pool.Add(kWorker, node, "w");
    pool.Add(kClient, node, "c");
  }
  pool.Target(kWorker, "a");
  pool.Target(kClient, "a");
  pool.Look();
  for (size_t c = 0; c < kComponents; ++c) pool.Target(c, "b");
  std::vector<std::string> order;
  for (int i = 0; i < 20; ++i) {
    pool.Look();
    std::map<std::string, int> components;
    for (const Action& action : pool.decision.actions) {
      order.push_back(std::string(Name(action.component)) + " " + action.node);
      EXPECT_EQ(++components[action.node], 1);
    }
    pool.Ready();
    pool.Pass(absl::Seconds(2));
  }
  EXPECT_THAT(order, UnorderedElementsAre("hypervisor n0", "hypervisor n1", "worker n0", "worker n1", "client n0",
                                          "client n1"));
  const auto at = [&](const std::string& what) { return std::find(order.begin(), order.end(), what) - order.begin(); };
  for (const std::string node : {" n0", " n1"}) {
    EXPECT_LT(at("hypervisor" + node), at("worker" + node));
    EXPECT_LT(at("worker" + node), at("client" + node));
  }
  for (const Report& report : pool.decision.reports) EXPECT_TRUE(report.synced);
}

TEST(Decide, AComponentThatDoesNotGoOnHoldsUpNoOther) {
  Pool pool(1);
  pool.Add(kWorker, "n0", "w");
  pool.Target(kWorker, "a");
  pool.Look();
  pool.policy.auto_update[kHypervisor] = false;
  pool.Target(kHypervisor, "b");
  pool.Target(kWorker, "b");
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
  EXPECT_EQ(pool.decision.actions[0].component, Component::kWorker);
}

TEST(Decide, ARevisionThatPreflightRefusesRestartsNothing) {
  Pool pool(1);
  pool.Add(kWorker, "n0", "w");
  pool.Target(kWorker, "a");
  pool.Look();
  pool.Target(kWorker, "b");
  pool.seen.components[kWorker].refusal = Refusal{"LicenseRejected", "expired: the licence expired"};
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report(kWorker).phase, Phase::kBlocked);
  EXPECT_EQ(pool.report(kWorker).reason, "LicenseRejected");
  EXPECT_THAT(pool.report(kWorker).message, HasSubstr("expired"));
  EXPECT_EQ(pool.report(kWorker).for_new_pods, "a");
  ASSERT_THAT(pool.EventNames(), ElementsAre("RolloutPaused"));
  EXPECT_THAT(pool.events[0].message, HasSubstr("LicenseRejected: expired"));
  pool.Look();
  EXPECT_THAT(pool.events, SizeIs(1));
  pool.seen.components[kWorker].refusal.reset();
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
}

TEST(Decide, ANewerEditTakesOverWithWhatIsInFlight) {
  Pool pool(4);
  pool.policy.batch_percentage = 50;
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), ElementsAre("n0", "n1"));
  pool.Target(kHypervisor, "c");
  // Both are in flight: they go on to the newer one, and nobody else is restarted meanwhile.
  EXPECT_THAT(pool.Look(), UnorderedElementsAre("n0", "n1"));
  EXPECT_EQ(pool.state.components[kHypervisor].from, "a");
  // for_new_pods has followed only now.
  for (const char* node : {"n0", "n1"}) pool.Hypervisor(node).revisions = {"c"};
  pool.Ready();
  pool.Look();
  pool.Pass(absl::Seconds(2));
  EXPECT_THAT(pool.Look(), ElementsAre("n2", "n3"));
  pool.Ready();
  pool.Look();
  EXPECT_TRUE(pool.report().synced);
}

TEST(Decide, AnUndoneEditTouchesNothingThatIsOfTheRevision) {
  Pool pool(4);
  pool.policy.batch_percentage = 25;
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
  pool.Target(kHypervisor, "a");
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
  pool.Hypervisor("n0").revisions = {"a"};
  pool.Ready();
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_TRUE(pool.report().synced);
}

TEST(Decide, APodOfSeveralRevisionsIsOfEach) {
  Pool pool(2);
  pool.Hypervisor("n1").revisions = {"a", "b"};  // another vendor's settings changed
  pool.Target(kHypervisor, "b");
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
}

TEST(Decide, NodesThatJoinDoNotEnlargeARunningBatch) {
  Pool pool(4);
  pool.policy.batch_percentage = 25;
  pool.Target(kHypervisor, "b");
  pool.Look();
  for (int i = 4; i < 12; ++i) pool.AddNode("n" + std::to_string(i)).joined = pool.now;
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_EQ(pool.report().batch_size, 1);
  EXPECT_EQ(pool.Hypervisor("n7").revisions, std::vector<std::string>{"b"});
}

TEST(Decide, ACrashBetweenTheWriteAndTheActionLosesNothing) {
  Pool pool(2);
  pool.policy.batch_percentage = 50;
  pool.Target(kHypervisor, "b");
  pool.state = pool.Decide().state;
  pool.Pass(absl::Hours(5));  // longer than the deadline
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
  EXPECT_EQ(pool.report().failed, 0);
  EXPECT_THAT(pool.Look(), IsEmpty());
  pool.Pass(absl::Minutes(9));
  pool.Look();
  EXPECT_EQ(pool.report().failed, 0);  // the deadline began with the restart
}

TEST(Decide, AClockThatIsSetBackDelaysByNoMoreThanItsTimes) {
  Pool pool(2);
  pool.policy.batch_percentage = 50;
  pool.policy.batch_interval = absl::Seconds(30);
  pool.Target(kHypervisor, "b");
  pool.Look();
  pool.Ready();
  pool.Look();
  pool.Pass(-absl::Hours(24));
  EXPECT_THAT(pool.Look(), IsEmpty());
  pool.Pass(absl::Seconds(31));
  EXPECT_THAT(pool.Look(), ElementsAre("n1"));
  pool.Pass(-absl::Hours(24));
  pool.Look();
  pool.Pass(absl::Minutes(10));
  pool.Look();
  EXPECT_EQ(pool.report().failed, 1);
}

TEST(Decide, ReplacementsElsewhereHoldTheBatch) {
  Pool pool(3);
  pool.policy.batch_percentage = 50;
  for (const char* node : {"n0", "n1", "n2"}) pool.Add(kWorker, node, "w");
  pool.Target(kWorker, "a");
  pool.Look();
  pool.Pass(absl::Minutes(1));
  pool.policy.batch_percentage = 1;
  pool.Target(kWorker, "b");
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
  // Its replacement has no node yet.
  pool.Node("n0").pods[kWorker].clear();
  PodSeen& replacement = pool.Add(kWorker, "", "w");
  replacement.ready = false;
  pool.Pass(absl::Minutes(1));
  EXPECT_THAT(pool.Look(), IsEmpty());
  EXPECT_THAT(pool.state.components[kWorker].awaited, SizeIs(1));
  pool.Pass(absl::Minutes(10));
  pool.Look();
  EXPECT_EQ(pool.report(kWorker).phase, Phase::kFailed);
  EXPECT_THAT(pool.report(kWorker).stuck, Named("x/" + replacement.name, "ProgressDeadlineExceeded"));
  // It finds one.
  replacement.ready = true;
  pool.Look();
  EXPECT_EQ(pool.report(kWorker).failed, 0);
}

TEST(Decide, ANewApplicationThatNeverWorkedIsNoEvidence) {
  Pool pool(2);
  pool.policy.batch_percentage = 50;
  for (const char* node : {"n0", "n1"}) pool.Add(kClient, node, "c");
  pool.Target(kClient, "a");
  pool.Look();
  pool.Pass(absl::Minutes(1));
  pool.Target(kClient, "b");
  EXPECT_THAT(pool.Look(), ElementsAre("n0"));
  PodSeen& other = pool.Add(kClient, "n0", "brand-new");
  other.owner_created = pool.now;
  other.ready = false;
  pool.Node("n0").pods[kClient][0].ready = true;
  pool.Pass(absl::Minutes(20));
  EXPECT_THAT(pool.Look(), IsEmpty());
  pool.Pass(absl::Seconds(2));
  EXPECT_THAT(pool.Look(), ElementsAre("n1"));
  EXPECT_EQ(pool.report(kClient).failed, 0);
}

TEST(Decide, AThousandNodesAreDecidedAboutQuickly) {
  Pool pool(1000);
  pool.policy.batch_percentage = 5;
  for (int i = 0; i < 1000; ++i) {
    const std::string node = "n" + std::to_string(i);
    pool.Add(kWorker, node, "w" + std::to_string(i % 10));
    pool.Add(kClient, node, "c" + std::to_string(i % 10));
  }
  for (size_t c = 0; c < kComponents; ++c) pool.Target(c, "a");
  pool.Look();
  for (size_t c = 0; c < kComponents; ++c) pool.Target(c, "b");
  EXPECT_THAT(pool.Look(), SizeIs(50));
}

}  // namespace
}  // namespace tf::rollout
