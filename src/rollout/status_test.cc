#include "rollout/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"

namespace tf::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

State Full() {
  State state;
  int i = 0;
  for (ComponentState& component : state.components) {
    component.target = "b";
    component.from = "a";
    component.last_good = "a";
    component.rejected = "c";
    component.started = kNow;
    component.complete = i == 1;
    component.announced = true;
    component.halted_for = "Paused";
    component.progress = 40 + i++;
    component.batch = 2;
    component.batch_size = 3;
    component.batch_opened = 1;
    component.batch_open = true;
    component.batch_started = kNow + absl::Seconds(1);
    component.batch_healthy = kNow + absl::Seconds(2);
    component.open = {{"n1", kNow}, {"n2", kNow + absl::Seconds(5)}};
    component.awaited = {{"n3", kNow}};
    component.failed = {{"n4", kNow, "ImagePullBackOff", "no such image"}};
    component.excused = {{"n5", 1}, {"x/ReplicaSet/web", 3}};
  }
  return state;
}

TEST(Status, TheStateComesBackAsItWasWritten) {
  for (const State& state : {State{}, Full()}) {
    Decision decision;
    decision.state = state;
    for (size_t c = 0; c < kComponents; ++c) decision.reports[c].progress = state.components[c].progress;
    api::GPUPool pool;
    WriteStatus(decision, pool.status.componentStatus, pool.status.rollouts);
    // By way of the API server.
    const absl::StatusOr<api::GPUPool> read = api::FromJson<api::GPUPool>(api::ToJson(pool));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(ReadState(read->status.componentStatus, read->status.rollouts) == state);
  }
}

TEST(Status, EntriesOfOthersStayAndEachComponentHasOne) {
  api::ComponentStatus components;
  std::vector<api::RolloutStatus> rollouts(1);
  rollouts[0].component = "other";
  Decision decision;
  decision.reports[1].revision = "w";
  decision.reports[1].progress = 60;
  decision.reports[1].synced = true;
  decision.reports[1].stuck = {{"n1", "R", "m"}};
  for (int i = 0; i < 2; ++i) WriteStatus(decision, components, rollouts);
  ASSERT_EQ(rollouts.size(), 4u);
  EXPECT_EQ(rollouts[0].component, "other");
  EXPECT_EQ(rollouts[1].component, "hypervisor");
  EXPECT_EQ(components.worker, "w");
  EXPECT_EQ(components.workerUpdateProgress, 60);
  EXPECT_TRUE(components.workerConfigSynced);
  EXPECT_FALSE(components.clientConfigSynced);
  EXPECT_EQ(rollouts[2].stuckUnits.size(), 1u);
}

TEST(Status, APolicyIsReadFromItsFields) {
  EXPECT_TRUE(ReadPolicy(std::nullopt).problems.empty());
  api::RollingUpdatePolicy source;
  source.autoUpdateWorker = true;
  source.batchPercentage = 20;
  source.maxUnavailable = api::IntOrString{std::string("25%")};
  source.maintenanceWindow.emplace().includes = {"0 2 * * *"};
  const Policy policy = ReadPolicy(source);
  EXPECT_THAT(policy.auto_update, ElementsAre(false, true, false));
  EXPECT_EQ(policy.batch_percentage, 20);
  ASSERT_TRUE(policy.max_unavailable);
  EXPECT_TRUE(policy.max_unavailable->percent);
  EXPECT_EQ(policy.max_unavailable->value, 25);
  EXPECT_TRUE(policy.window_set);
  EXPECT_FALSE(policy.window_enforced);
  source.maxUnavailable = api::IntOrString{int64_t{0}};
  EXPECT_THAT(ReadPolicy(source).problems, ElementsAre(HasSubstr("maxUnavailable: it is '0'")));
}

}  // namespace
}  // namespace tf::rollout
