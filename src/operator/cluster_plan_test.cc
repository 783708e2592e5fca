#include "operator/cluster_plan.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "absl/strings/str_cat.h"
#include "api/defaults.h"
#include "api/names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kube/merge_patch.h"
#include "kube/owners.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::ObjectPtr;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

constexpr char kTemplate[] = R"({"nodeManagerConfig":{"nodePoolRollingUpdatePolicy":{"batchPercentage":20}},)"
                             R"("componentConfig":{"worker":{"image":"w:1"},"hypervisor":{"image":"h:1"}}})";

Json Cluster(const std::string& pools) {
  return boost::json::parse(absl::StrCat(
      R"({"apiVersion":"tensor-fusion.ai/v1","kind":"TensorFusionCluster","metadata":{"name":"tf","uid":"u1",)",
      R"("generation":3,"labels":{"team":"a","tensor-fusion.ai/managed-by":"me"}},"spec":{"gpuPools":)", pools, "}}"));
}

std::string One(const std::string& name, const std::string& spec = kTemplate, bool is_default = false) {
  return absl::StrCat(R"({"name":")", name, R"(","isDefault":)", is_default ? "true" : "false", R"(,"specTemplate":)",
                      spec, "}");
}

// As the API server makes it of what was sent: with defaults.
ObjectPtr Served(Json object, std::string_view version = "10") {
  api::GPUPool pool = *api::FromJson<api::GPUPool>(object);
  pool.spec = api::WithDefaults(pool.spec);
  object.as_object()["spec"] = api::ToJson(pool).at("spec");
  kube::EnsureField(object, "metadata.uid") = absl::StrCat("uid-", std::string(kube::Name(object)));
  kube::EnsureField(object, "metadata.resourceVersion") = version;
  kube::EnsureField(object, "metadata.generation") = 1;
  return std::make_shared<const Json>(std::move(object));
}

ObjectPtr With(const ObjectPtr& object, std::string_view path, Json value) {
  Json copy = *object;
  kube::EnsureField(copy, path) = std::move(value);
  return std::make_shared<const Json>(std::move(copy));
}

// The pools after the plan's creations.
std::vector<ObjectPtr> Made(const ClusterPlan& plan) {
  std::vector<ObjectPtr> pools;
  for (const PoolAction& action : plan.actions) {
    if (action.kind == PoolAction::Kind::kCreate) pools.push_back(Served(action.body));
  }
  return pools;
}

TEST(ClusterPlanTest, MakesThePoolsThatAreMissing) {
  const Json cluster = Cluster(absl::StrCat("[", One("shared", kTemplate, true), ",", One("b"), "]"));
  const ClusterPlan plan = PlanPools(cluster, {});
  EXPECT_THAT(plan.wanted, ElementsAre("tf-shared", "tf-b"));
  EXPECT_THAT(plan.problems, IsEmpty());
  ASSERT_EQ(plan.actions.size(), 2u);
  const Json& pool = plan.actions[0].body;
  EXPECT_EQ(plan.actions[0].kind, PoolAction::Kind::kCreate);
  EXPECT_EQ(kube::Name(pool), "tf-shared");
  EXPECT_EQ(kube::Text(pool, "apiVersion"), "tensor-fusion.ai/v1");
  EXPECT_EQ(kube::Text(pool, "kind"), "GPUPool");
  EXPECT_EQ(kube::Label(pool, api::kManagedByLabel), "tf");
  EXPECT_EQ(kube::Label(pool, "team"), "a");
  EXPECT_EQ(kube::Annotation(pool, api::kDefaultPoolAnnotation), "true");
  EXPECT_EQ(kube::Annotation(plan.actions[1].body, api::kDefaultPoolAnnotation), "false");
  EXPECT_TRUE(kube::IsControlledBy(pool, cluster));
  EXPECT_EQ(pool.at("metadata").at("finalizers"), (boost::json::array{api::kFinalizer}));
  EXPECT_EQ(pool.at("spec"), boost::json::parse(kTemplate));
}

TEST(ClusterPlanTest, WhatTheServerFillsInIsNoDifference) {
  const Json cluster =
      Cluster(absl::StrCat("[", One("shared"), ",", One("bare", "{}"), ",", R"({"name":"none"})", "]"));
  const std::vector<ObjectPtr> pools = Made(PlanPools(cluster, {}));
  ASSERT_EQ(pools.size(), 3u);
  const ClusterPlan again = PlanPools(cluster, pools);
  EXPECT_THAT(again.actions, IsEmpty());
  EXPECT_THAT(again.problems, IsEmpty());
}

TEST(ClusterPlanTest, SaysOnlyWhatDiffersAndForWhichVersion) {
  const std::vector<ObjectPtr> pools = Made(PlanPools(Cluster(absl::StrCat("[", One("shared"), "]")), {}));
  const Json changed = Cluster(absl::StrCat(
      "[", One("shared", R"({"nodeManagerConfig":{},"componentConfig":{"worker":{"image":"w:2"}}})", true), "]"));
  const ClusterPlan plan = PlanPools(changed, pools);
  ASSERT_EQ(plan.actions.size(), 1u);
  EXPECT_EQ(plan.actions[0].kind, PoolAction::Kind::kPatch);
  // What the template does not say any more has its default, and a component is gone.
  EXPECT_EQ(plan.actions[0].body, boost::json::parse(R"({
      "metadata":{"resourceVersion":"10","annotations":{"tensor-fusion.ai/is-default-pool":"true"}},
      "spec":{"nodeManagerConfig":{"nodePoolRollingUpdatePolicy":{"batchPercentage":100}},
              "componentConfig":{"worker":{"image":"w:2"},"hypervisor":null}}})"))
      << boost::json::serialize(plan.actions[0].body);
}

TEST(ClusterPlanTest, ZeroIsNoMissingValue) {
  // Upstream drops it, gets the default, and writes again for ever.
  const Json cluster = Cluster(absl::StrCat(
      "[", One("shared", R"({"nodeManagerConfig":{},"capacityConfig":{"oversubscription":{"vramExpandToHostMem":0}}})"),
      "]"));
  const std::vector<ObjectPtr> pools = Made(PlanPools(cluster, {}));
  EXPECT_EQ(kube::Number(*pools[0], "spec.capacityConfig.oversubscription.vramExpandToHostMem", -1), 0);
  EXPECT_THAT(PlanPools(cluster, pools).actions, IsEmpty());
}

TEST(ClusterPlanTest, ThePoolsMetadataIsAPersons) {
  const Json cluster = Cluster(absl::StrCat("[", One("shared"), "]"));
  const ObjectPtr pool = Made(PlanPools(cluster, {}))[0];
  Json edited = *pool;
  edited.at("metadata").at("labels") = {{api::kManagedByLabel, "tf"}, {"team", "mine"}, {"extra", "label"}};
  edited.at("metadata").at("annotations").as_object()["note"] = "hands off";
  EXPECT_THAT(PlanPools(cluster, {std::make_shared<const Json>(edited)}).actions, IsEmpty());

  // What is ours comes back, and a label of the cluster where there is none.
  edited.at("metadata").as_object().erase("labels");
  edited.at("metadata").as_object().erase("annotations");
  const ClusterPlan plan = PlanPools(cluster, {std::make_shared<const Json>(edited)});
  ASSERT_EQ(plan.actions.size(), 1u);
  EXPECT_EQ(plan.actions[0].body, boost::json::parse(R"({"metadata":{"resourceVersion":"10",
      "labels":{"tensor-fusion.ai/managed-by":"tf","team":"a"},
      "annotations":{"tensor-fusion.ai/is-default-pool":"false"}}})"));
}

TEST(ClusterPlanTest, DeletesItsOwnPoolsThatItDoesNotWantAnyMore) {
  const Json both = Cluster(absl::StrCat("[", One("a"), ",", One("b"), "]"));
  std::vector<ObjectPtr> pools = Made(PlanPools(both, {}));
  pools.push_back(With(pools[0], "metadata.name", "tf-other"));
  pools.back() = With(pools.back(), "metadata.ownerReferences", boost::json::array());
  const ClusterPlan plan = PlanPools(Cluster(absl::StrCat("[", One("a"), "]")), pools);
  ASSERT_EQ(plan.actions.size(), 1u);
  EXPECT_EQ(plan.actions[0].kind, PoolAction::Kind::kDelete);
  EXPECT_EQ(plan.actions[0].name, "tf-b");
  EXPECT_EQ(plan.actions[0].uid, "uid-tf-b");
  // Once.
  pools[1] = With(pools[1], "metadata.deletionTimestamp", "2026-01-01T00:00:00Z");
  EXPECT_THAT(PlanPools(Cluster(absl::StrCat("[", One("a"), "]")), pools).actions, IsEmpty());
  // One that is wanted and being deleted is made anew when it is gone.
  EXPECT_THAT(PlanPools(both, pools).actions, IsEmpty());
  pools.erase(pools.begin() + 1);
  EXPECT_EQ(PlanPools(both, pools).actions.size(), 1u);
}

TEST(ClusterPlanTest, TakesOverWhatItLostAndNothingElse) {
  const Json cluster = Cluster(absl::StrCat("[", One("shared"), "]"));
  const ObjectPtr pool = Made(PlanPools(cluster, {}))[0];
  // Restored from a copy: the owner's UID is of an earlier life. Another owner of it stays.
  Json restored = *pool;
  restored.at("metadata").at("ownerReferences").as_array()[0].as_object()["uid"] = "earlier";
  restored.at("metadata")
      .at("ownerReferences")
      .as_array()
      .push_back(boost::json::parse(R"({"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"y"})"));
  ClusterPlan plan = PlanPools(cluster, {std::make_shared<const Json>(restored)});
  ASSERT_EQ(plan.actions.size(), 1u);
  const boost::json::array& owners = plan.actions[0].body.at("metadata").at("ownerReferences").as_array();
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(kube::Text(owners[0], "name"), "x");
  EXPECT_EQ(kube::Text(owners[1], "uid"), "u1");

  // Left behind by a deletion with --cascade=orphan.
  plan = PlanPools(cluster, {With(pool, "metadata.ownerReferences", boost::json::array())});
  EXPECT_EQ(plan.actions.size(), 1u);

  // A person's own pool of that name.
  Json foreign = *With(pool, "metadata.ownerReferences", boost::json::array());
  foreign.at("metadata").as_object().erase("labels");
  plan = PlanPools(cluster, {std::make_shared<const Json>(foreign)});
  EXPECT_THAT(plan.actions, IsEmpty());
  ASSERT_EQ(plan.problems.size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(plan.problems[0].status));
  EXPECT_THAT(std::string(plan.problems[0].status.message()), HasSubstr("tensor-fusion.ai/managed-by=tf"));
}

TEST(ClusterPlanTest, OneBadPoolStopsNoOther) {
  const Json cluster = Cluster(absl::StrCat("[", One("bad", R"({"nodeManagerConfig":{"defaultVendor":7}})"), ",",
                                            One(std::string(60, 'x')), ",", One("good"), "]"));
  const ClusterPlan plan = PlanPools(cluster, {});
  ASSERT_EQ(plan.actions.size(), 1u);
  EXPECT_EQ(plan.actions[0].name, "tf-good");
  ASSERT_EQ(plan.problems.size(), 2u);
  EXPECT_THAT(std::string(plan.problems[0].status.message()), HasSubstr("defaultVendor"));
  EXPECT_THAT(std::string(plan.problems[1].status.message()), HasSubstr("58"));
  // A pool that is there is not deleted because its template cannot be read any more.
  const ObjectPtr bad = Made(PlanPools(Cluster(absl::StrCat("[", One("bad"), "]")), {}))[0];
  EXPECT_EQ(PlanPools(cluster, {bad}).actions.size(), 1u);
}

TEST(ClusterPlanTest, NoPoolsAtAll) {
  Json cluster = Cluster("[]");
  EXPECT_THAT(PlanPools(cluster, {}).wanted, IsEmpty());
  cluster.as_object().erase("spec");
  EXPECT_THAT(PlanPools(cluster, {}).wanted, IsEmpty());
}

// Status. ------------------------------------------------------------------------------------------------------------

class ClusterStatusTest : public ::testing::Test {
 protected:
  ClusterStatusTest() {
    plan_ = PlanPools(json_, {});
    pools_ = Made(plan_);
    pools_[0] = Running(pools_[0]);
    pools_[1] = Running(pools_[1]);
  }

  static ObjectPtr Running(const ObjectPtr& pool) {
    return With(pool, "status",
                boost::json::parse(R"({"phase":"Running","observedGeneration":1,"totalNodes":2,"totalTFlops":"100"})"));
  }
  api::TensorFusionClusterStatus Status(const std::vector<PoolProblem>& problems = {}) {
    cluster_.status = ClusterStatus(cluster_, plan_, pools_, problems, kNow);
    return cluster_.status;
  }
  static std::string Of(const api::TensorFusionClusterStatus& status, const char* type) {
    const api::Condition* one = api::FindCondition(status.conditions, type);
    return one == nullptr ? "" : absl::StrCat(one->status, " ", one->reason, ": ", one->message);
  }

  Json json_ = Cluster(absl::StrCat("[", One("a"), ",", One("b"), "]"));
  api::TensorFusionCluster cluster_ = *api::FromJson<api::TensorFusionCluster>(json_);
  ClusterPlan plan_;
  std::vector<ObjectPtr> pools_;
};

TEST_F(ClusterStatusTest, RunningWhenAllPoolsAre) {
  const api::TensorFusionClusterStatus status = Status();
  EXPECT_EQ(status.phase, "Running");
  EXPECT_EQ(status.observedGeneration, 3);
  EXPECT_EQ(status.totalPools, 2);
  EXPECT_EQ(status.totalNodes, 4);
  EXPECT_EQ(status.totalTFlops.Text(), "200");
  EXPECT_THAT(status.readyGPUPools, ElementsAre("tf-a", "tf-b"));
  EXPECT_THAT(status.notReadyGPUPools, IsEmpty());
  EXPECT_EQ(Of(status, "Ready"), "True CheckPassed: all pools are Running");
  EXPECT_EQ(Of(status, "GPUPoolReady"), "True CheckPassed: all pools are Running");
  EXPECT_THAT(Of(status, "TimeSeriesDatabaseReady"), HasSubstr("True CheckPassed"));
  EXPECT_EQ(Of(status, "CloudVendorConnectionReady"), "");
}

TEST_F(ClusterStatusTest, SumsStayRightWhileAPoolUpdates) {
  Status();
  pools_[1] = With(pools_[1], "status", boost::json::parse(R"({"phase":"Updating","observedGeneration":1,"totalNodes":5,
      "totalTFlops":"50","conditions":[{"type":"Ready","status":"False","message":"1 of 5 nodes are not Running: n1"}]})"));
  const api::TensorFusionClusterStatus status = Status();
  EXPECT_EQ(status.phase, "Updating");
  EXPECT_EQ(status.totalNodes, 7);
  EXPECT_EQ(status.totalTFlops.Text(), "150");
  EXPECT_THAT(status.notReadyGPUPools, ElementsAre("tf-b"));
  EXPECT_EQ(Of(status, "Ready"), "False ResourcesUpdated: tf-b: 1 of 5 nodes are not Running: n1");
  EXPECT_EQ(status.retryCount, 0);
}

TEST_F(ClusterStatusTest, WhatAPoolSaidOfAnOlderSpecDoesNotCount) {
  pools_[0] = With(pools_[0], "metadata.generation", 2);
  EXPECT_THAT(Status().notReadyGPUPools, ElementsAre("tf-a"));
}

TEST_F(ClusterStatusTest, ANewClusterIsPendingUntilItRuns) {
  pools_.clear();
  const api::TensorFusionClusterStatus status = Status();
  EXPECT_EQ(status.phase, "Pending");
  EXPECT_EQ(Of(status, "Ready"), "False NewCreation: tf-a: is not there yet, tf-b: is not there yet");
}

TEST_F(ClusterStatusTest, ProblemsAreNamed) {
  Status();
  api::TensorFusionClusterStatus status = Status({{"tf-b", absl::InvalidArgumentError("spec.x: wrong")}});
  EXPECT_EQ(status.phase, "Updating");
  EXPECT_EQ(status.retryCount, 1);
  EXPECT_THAT(status.readyGPUPools, ElementsAre("tf-a"));
  EXPECT_EQ(Of(status, "GPUPoolReady"), "False PoolError: tf-b: spec.x: wrong");
  status = Status({{"tf-b", absl::UnavailableError("no answer")}});
  EXPECT_EQ(status.retryCount, 2);
  EXPECT_EQ(Of(status, "Ready"), "Unknown UnknownState: tf-b: no answer");
  EXPECT_EQ(Status().retryCount, 0);
}

TEST_F(ClusterStatusTest, SaysThatCloudsAreNotSupported) {
  cluster_.spec.computingVendor = {.type = "aws"};
  EXPECT_THAT(Of(Status(), "CloudVendorConnectionReady"), HasSubstr("False CloudVendorConnectionFailed"));
  cluster_.spec.computingVendor->enable = false;
  EXPECT_EQ(Of(Status(), "CloudVendorConnectionReady"), "");
}

TEST_F(ClusterStatusTest, TheSameTwiceChangesNothing) {
  Status();
  const Json before = api::ToJson(cluster_);
  cluster_.status = ClusterStatus(cluster_, plan_, pools_, {}, kNow + absl::Hours(1));
  EXPECT_EQ(api::ToJson(cluster_), before);
}

TEST_F(ClusterStatusTest, DestroyingNamesWhatItWaitsFor) {
  const api::TensorFusionClusterStatus status = DestroyingStatus(cluster_, pools_, kNow);
  EXPECT_EQ(status.phase, "Destroying");
  EXPECT_EQ(Of(status, "Ready"), "False Destroying: waits for the end of tf-a, tf-b");
}

}  // namespace
}  // namespace tf::operators
