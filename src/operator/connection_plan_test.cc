#include "operator/connection_plan.h"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>

#include "absl/strings/str_cat.h"
#include "kube/merge_patch.h"

namespace tf::operators {
namespace {

using kube::Json;

kube::ObjectPtr Worker(const std::string& name, const std::string& phase = "Running", const std::string& ready = "True",
                       const std::string& more = "") {
  return *kube::ParseShared(absl::StrCat(
      R"({"metadata": {"name": ")", name, R"(", "uid": "uid-of-)", name, "\"", more, R"(}, "status": {"phase": ")",
      phase, R"(", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": ")", ready, R"("}]}})"));
}

std::string Chosen(std::string_view present, const std::vector<kube::ObjectPtr>& workers,
                   const std::map<std::string, int, std::less<>>& clients = {}) {
  const Json* chosen = ChooseWorker(present, workers, clients);
  return chosen == nullptr ? "none" : std::string(kube::Name(*chosen));
}

TEST(ConnectionPlanTest, TheLeastUsedOfThoseThatCanServe) {
  const std::vector<kube::ObjectPtr> workers = {
      Worker("a", "Pending"),
      Worker("b", "Running", "False"),
      Worker("c"),
      Worker("d"),
      Worker("e", "Running", "True", R"(, "deletionTimestamp": "2026-01-01T00:00:00Z")"),
      Worker("f", "Failed")};
  EXPECT_EQ(Chosen("", workers), "c");
  EXPECT_EQ(Chosen("", workers, {{"c", 2}, {"d", 1}}), "d");
  EXPECT_EQ(Chosen("c", workers, {{"c", 2}, {"d", 1}}), "c") << "what serves stays";
  EXPECT_EQ(Chosen("e", workers), "c") << "what goes does not";
  EXPECT_EQ(Chosen("b", {workers[0], workers[1]}), "none");
}

TEST(ConnectionPlanTest, Urls) {
  const kube::ObjectPtr worker = Worker("w");
  EXPECT_EQ(ConnectionUrl(*worker), "native+10.0.0.1+8000+w-uid-of-w");
  const api::TensorFusionConnectionStatus status = ConnectionStatusOf(worker.get());
  EXPECT_EQ(status.phase, "Running");
  EXPECT_EQ(status.workerName, "w");
  EXPECT_EQ(ConnectionStatusOf(nullptr).phase, "Pending");
  EXPECT_EQ(ConnectionStatusOf(nullptr).connectionURL, "");
}

Json Pod(const std::string& name, const std::string& owner = "") {
  return *kube::ParseJson(absl::StrCat(
      R"({"metadata": {"name": ")", name, R"(", "namespace": "apps", "uid": "uid-of-)", name,
      R"(", "annotations": {"tensor-fusion.ai/selected-workload": "web", "tensor-fusion.ai/connection": "c1"})",
      owner.empty() ? ""
                    : absl::StrCat(R"(, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": ")",
                                   owner, R"(", "uid": "uid-of-)", owner, R"(", "controller": true}])"),
      "}}"));
}

api::WorkloadProfileSpec Spec(int vram) {
  api::WorkloadProfileSpec spec;
  spec.poolName = "shared";
  spec.isolation = "hard";
  spec.resources.emplace();
  spec.resources->limits.vram = api::Quantity::FromBytes(int64_t{vram} << 30);
  return spec;
}

// The workload as the server has it after the change.
Json After(const WorkloadChange& change, const Json* known) {
  Json object = known == nullptr ? change.body : *known;
  if (known != nullptr && change.kind == WorkloadChange::Kind::kPatch) {
    for (const auto& member : change.body.as_object()) {
      if (member.key() == "spec") {
        for (const auto& field : member.value().as_object())
          object.as_object()["spec"].as_object()[field.key()] = field.value();
      } else if (member.key() == "metadata" && member.value().as_object().contains("ownerReferences")) {
        object.as_object()["metadata"].as_object()["ownerReferences"] = member.value().at("ownerReferences");
      }
    }
  }
  object.as_object()["metadata"].as_object()["resourceVersion"] = "7";
  return object;
}

TEST(ConnectionPlanTest, AWorkloadIsMadeOnceAndFollowsTheYoungestPod) {
  const WorkloadChange made = ChangeOfWorkload(Pod("p1", "web-1"), Spec(1), true, nullptr);
  ASSERT_EQ(made.kind, WorkloadChange::Kind::kCreate);
  const Json known = After(made, nullptr);
  EXPECT_EQ(kube::Name(known), "web");
  EXPECT_EQ(kube::Namespace(known), "apps");
  EXPECT_EQ(known.at("metadata").at("ownerReferences").at(0).at("name").as_string(), "web-1");
  EXPECT_EQ(kube::Field(known, "spec.replicas"), nullptr);

  EXPECT_EQ(ChangeOfWorkload(Pod("p2", "web-1"), Spec(1), true, &known).kind, WorkloadChange::Kind::kNone);
  EXPECT_EQ(ChangeOfWorkload(Pod("p2", "web-1"), Spec(2), false, &known).kind, WorkloadChange::Kind::kNone);

  const WorkloadChange changed = ChangeOfWorkload(Pod("p3", "web-2"), Spec(2), true, &known);
  ASSERT_EQ(changed.kind, WorkloadChange::Kind::kPatch);
  EXPECT_EQ(changed.body.at("metadata").at("resourceVersion").as_string(), "7");
  const Json now = After(changed, &known);
  EXPECT_EQ(now.at("metadata").at("ownerReferences").as_array().size(), 2u);
  EXPECT_EQ(ChangeOfWorkload(Pod("p3", "web-2"), Spec(2), true, &now).kind, WorkloadChange::Kind::kNone);
}

TEST(ConnectionPlanTest, AWorkloadOfPeopleIsOnlyUsed) {
  const Json known = *kube::ParseJson(R"({"metadata": {"name": "web", "namespace": "apps", "resourceVersion": "1"},
                                          "spec": {"replicas": 3}})");
  EXPECT_EQ(ChangeOfWorkload(Pod("p"), Spec(1), true, &known).kind, WorkloadChange::Kind::kNone);
}

TEST(ConnectionPlanTest, ThePodOwnsItsConnection) {
  const api::TensorFusionConnection connection = ConnectionOf(Pod("p"));
  EXPECT_EQ(connection.metadata.name, "c1");
  EXPECT_EQ(connection.spec.workloadName, "web");
  EXPECT_EQ(connection.spec.clientPod, "p");
  EXPECT_EQ(connection.metadata.ownerReferences[0].uid, "uid-of-p");
  EXPECT_EQ(connection.metadata.ownerReferences[0].controller, true);
}

TEST(ConnectionPlanTest, YoungerPods) {
  const auto pod = [](const char* name, const char* made) {
    return *kube::ParseJson(
        absl::StrCat(R"({"metadata": {"name": ")", name, R"(", "creationTimestamp": ")", made, "\"}}"));
  };
  EXPECT_TRUE(IsYounger(pod("a", "2026-01-01T00:00:01Z"), pod("b", "2026-01-01T00:00:00Z")));
  EXPECT_TRUE(IsYounger(pod("b", "2026-01-01T00:00:00Z"), pod("a", "2026-01-01T00:00:00Z")));
  EXPECT_FALSE(IsYounger(pod("a", "2026-01-01T00:00:00Z"), pod("a", "2026-01-01T00:00:00Z")));
}

}  // namespace
}  // namespace tf::operators
