#include "operator/workload_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "api/core.h"
#include "api/names.h"
#include "operator/backoff.h"

namespace tf::operators {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class WorkloadPlanTest : public ::testing::Test {
 protected:
  WorkloadPlanTest() {
    workload.metadata.name = "w";
    workload.metadata.namespace_ = "apps";
    workload.spec.replicas = 2;
  }

  api::Pod& Add(std::string phase, bool ready, std::string revision = "new", int age = 10) {
    api::Pod pod;
    pod.metadata.name = absl::StrCat("p", pods.size());
    pod.metadata.namespace_ = "apps";
    pod.metadata.uid = absl::StrCat("u", pods.size());
    pod.metadata.creationTimestamp = api::Time(kNow - absl::Seconds(age));
    pod.metadata.annotations[api::kWorkloadRevisionAnnotation] = revision;
    pod.spec.nodeName = "n";
    pod.status.phase = std::move(phase);
    pod.status.conditions = {{.type = "Ready", .status = ready ? "True" : "False"}};
    pods.push_back(pod);
    return pods.back();
  }

  WorkloadPlan Plan(absl::Duration wait = absl::ZeroDuration()) {
    return PlanWorkers(workload, Objects(), "new", wait);
  }
  std::vector<kube::ObjectPtr> Objects() const {
    std::vector<kube::ObjectPtr> objects;
    for (const api::Pod& pod : pods) objects.push_back(std::make_shared<const kube::Json>(api::ToJson(pod)));
    return objects;
  }
  std::vector<std::string> Removed(absl::Duration wait = absl::ZeroDuration()) {
    std::vector<std::string> names;
    for (const WorkloadPlan::Deletion& deletion : Plan(wait).remove) names.push_back(deletion.key.name);
    return names;
  }
  std::string Ready(const WorkloadProblem& problem = {}) {
    const api::TensorFusionWorkloadStatus status = StatusOf(workload, Objects(), "rev", problem, kNow);
    const api::Condition* condition = api::FindCondition(status.conditions, "Ready");
    return absl::StrCat(status.phase, " ", condition->status, " ", condition->reason, ": ", condition->message);
  }

  api::TensorFusionWorkload workload;
  std::vector<api::Pod> pods;
};

TEST_F(WorkloadPlanTest, MakesWhatIsMissing) {
  EXPECT_EQ(Plan().create, 2);
  Add("Pending", false);
  EXPECT_EQ(Plan().create, 1);
  Add("Running", true);
  EXPECT_EQ(Plan().create, 0);
  EXPECT_THAT(Removed(), IsEmpty());
}

TEST_F(WorkloadPlanTest, PodsThatAreEndingDoNotCount) {
  Add("Running", true);
  Add("Running", true).metadata.deletionTimestamp = api::Time(kNow);
  EXPECT_EQ(Plan().create, 1);
  EXPECT_THAT(Removed(), IsEmpty());
}

TEST_F(WorkloadPlanTest, SurplusGoesNotReadyFirstThenTheYoungest) {
  Add("Running", true, "new", 100);
  Add("Running", true, "new", 5);
  Add("Running", false, "new", 200);
  Add("Running", true, "new", 50);
  Add("Pending", false, "new", 1).spec.nodeName = "";
  EXPECT_THAT(Removed(), ElementsAre("p4", "p2", "p1"));
  workload.spec.replicas = 0;
  EXPECT_EQ(Removed().size(), 5u);
}

TEST_F(WorkloadPlanTest, ReplacesThoseThatHaveEnded) {
  Add("Running", true);
  Add("Failed", false);
  EXPECT_THAT(Removed(), ElementsAre("p1"));
  EXPECT_EQ(Plan().create, 1);
  EXPECT_EQ(Plan().failed, 1);
  // Later, when they have failed before; until then it holds its place.
  EXPECT_THAT(Removed(absl::Seconds(5)), IsEmpty());
  EXPECT_EQ(Plan(absl::Seconds(5)).create, 0);
  EXPECT_EQ(Plan(absl::Seconds(5)).look_again, absl::Seconds(5));
  // One that is too many waits for nothing.
  Add("Running", true);
  EXPECT_THAT(Removed(absl::Seconds(5)), ElementsAre("p1"));
}

TEST_F(WorkloadPlanTest, AChangeOfTheWorkloadReplacesOneAtATime) {
  Add("Running", true, "old");
  Add("Running", true, "old");
  EXPECT_EQ(Removed().size(), 1u);
  pods[0].metadata.annotations[api::kWorkloadRevisionAnnotation] = "new";
  pods[0].status.conditions[0].status = "False";
  EXPECT_THAT(Removed(), IsEmpty());  // the new one is not ready yet
  pods[0].status.conditions[0].status = "True";
  EXPECT_THAT(Removed(), ElementsAre("p1"));
}

TEST_F(WorkloadPlanTest, OldOnesThatDoNotServeGoAtOnce) {
  workload.spec.replicas = 3;
  Add("Running", true, "old");
  Add("Pending", false, "old");
  Add("Running", false, "old");
  EXPECT_THAT(Removed(), UnorderedElementsAre("p1", "p2"));
}

TEST_F(WorkloadPlanTest, TheComponentsRevisionIsNotItsBusiness) {
  Add("Running", true).metadata.labels[api::kRevisionLabel] = "a";
  Add("Running", true).metadata.labels[api::kRevisionLabel] = "b";
  EXPECT_THAT(Removed(), IsEmpty());
}

TEST_F(WorkloadPlanTest, WithoutReplicasNothingIsDone) {
  workload.spec.replicas.reset();
  Add("Failed", false);
  EXPECT_THAT(Removed(), IsEmpty());
  EXPECT_EQ(Plan().create, 0);
}

TEST_F(WorkloadPlanTest, Status) {
  EXPECT_EQ(Ready(), "Pending False WaitingForWorkers: Ready replicas: 0/2");
  Add("Running", true);
  Add("Pending", false).status.containerStatuses = {
      {.name = "tensorfusion-worker",
       .state = {.waiting = {{.reason = "ErrImagePull", .message = "gone"}}},
       .image = "w:1"}};
  EXPECT_EQ(Ready(),
            "Pending False WaitingForWorkers: Ready replicas: 1/2; p1: ErrImagePull: image w:1 of container "
            "tensorfusion-worker cannot be pulled: gone");
  EXPECT_EQ(Ready({"PoolNotFound", "no pool"}), "Pending False PoolNotFound: no pool");
  pods[1] = pods[0];
  EXPECT_EQ(Ready(), "Running True WorkloadReady: All workers are running");
  // What stands in the way of new ones does not hurt those that run.
  EXPECT_EQ(Ready({"PoolNotFound", "no pool"}), "Running True WorkloadReady: All workers are running");
  pods[1].status.phase = "Failed";
  EXPECT_THAT(Ready(), HasSubstr("Failed False WorkerFailed: Failed workers num: 1"));
  workload.spec.replicas = 0;
  pods.clear();
  EXPECT_EQ(Ready(), "Pending False ScaledToZero: replicas is 0");
  workload.spec.replicas.reset();
  EXPECT_EQ(Ready(), "Running True WorkloadReady: Workers come and go with the clients");
}

TEST_F(WorkloadPlanTest, StatusCounts) {
  Add("Running", true);
  Add("Running", false);
  Add("Running", true).metadata.deletionTimestamp = api::Time(kNow);
  workload.metadata.generation = 7;
  const api::TensorFusionWorkloadStatus status = StatusOf(workload, Objects(), "rev", {}, kNow);
  EXPECT_EQ(status.workerCount, 2);
  EXPECT_EQ(status.readyWorkers, 1);
  EXPECT_EQ(status.podTemplateHash, "rev");
  EXPECT_EQ(status.observedGeneration, 7);
  EXPECT_EQ(status.selector, "tensor-fusion.ai/component=worker,tensor-fusion.ai/workload=w");
  workload.status = status;
  EXPECT_EQ(StatusOf(workload, Objects(), "", {}, kNow).podTemplateHash, "rev");
}

TEST(Backoff, DoublesAndForgets) {
  SimulatedClock clock;
  Backoff backoff(clock, absl::Seconds(5), absl::Seconds(15));
  const kube::Key key{"a", "b"};
  EXPECT_EQ(backoff.Remaining(key), absl::ZeroDuration());
  backoff.Replaced(key);
  EXPECT_EQ(backoff.Remaining(key), absl::Seconds(5));
  EXPECT_EQ(backoff.Remaining({"a", "c"}), absl::ZeroDuration());
  clock.Advance(absl::Seconds(6));
  EXPECT_EQ(backoff.Remaining(key), absl::ZeroDuration());
  backoff.Replaced(key);
  EXPECT_EQ(backoff.Remaining(key), absl::Seconds(10));
  backoff.Replaced(key);
  EXPECT_EQ(backoff.Remaining(key), absl::Seconds(15));
  clock.Advance(absl::Seconds(50));
  backoff.Replaced(key);
  EXPECT_EQ(backoff.Remaining(key), absl::Seconds(5));
  backoff.Forget(key);
  EXPECT_EQ(backoff.Remaining(key), absl::ZeroDuration());
}

TEST_F(WorkloadPlanTest, EachClientOfADynamicWorkloadHasAWorker) {
  const auto plan = [this](std::vector<std::string> connections, absl::Duration wait = absl::ZeroDuration()) {
    return PlanDynamicWorkers(connections, Objects(), wait);
  };
  const auto removed = [](const WorkloadPlan& one) {
    std::vector<std::string> names;
    for (const WorkloadPlan::Deletion& deletion : one.remove) names.push_back(deletion.key.name);
    return names;
  };
  EXPECT_THAT(plan({"a", "b"}).create_for, ElementsAre("a", "b"));
  Add("Running", true, "old").metadata.annotations[api::kConnectionAnnotation] = "a";
  Add("Failed", false).metadata.annotations[api::kConnectionAnnotation] = "b";
  Add("Running", true).metadata.annotations[api::kConnectionAnnotation] = "gone";
  EXPECT_THAT(plan({"a", "b", "c"}).create_for, ElementsAre("b", "c"));
  EXPECT_THAT(removed(plan({"a", "b", "c"})), UnorderedElementsAre("p1", "p2")) << "another template is no reason";
  EXPECT_EQ(plan({"a", "b"}).failed, 1);
  EXPECT_THAT(plan({"a", "b", "c"}, absl::Seconds(5)).create_for, ElementsAre("c")) << "what failed waits";
  EXPECT_EQ(plan({"a", "b"}, absl::Seconds(5)).look_again, absl::Seconds(5));
  Add("Pending", false).metadata.annotations[api::kConnectionAnnotation] = "b";
  EXPECT_THAT(plan({"a", "b"}).create_for, IsEmpty());
  EXPECT_THAT(removed(plan({"a", "b"}, absl::Seconds(5))), UnorderedElementsAre("p1", "p2"))
      << "what failed and is replaced waits for nothing";
}

}  // namespace
}  // namespace tf::operators
