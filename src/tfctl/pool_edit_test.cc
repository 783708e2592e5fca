#include "tfctl/pool_edit.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::tfctl {
namespace {

using kube::Json;
using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'796'000'000);

Json Pool(const std::string& name, const std::string& cluster) {
  Json pool = {{"metadata", {{"name", name}, {"uid", "pool-uid"}}}};
  if (!cluster.empty()) {
    pool.at("metadata").get_object()["ownerReferences"] = {{{"apiVersion", "tensor-fusion.ai/v1"},
                                                            {"kind", "TensorFusionCluster"},
                                                            {"name", cluster},
                                                            {"uid", "cluster-uid"},
                                                            {"controller", true}}};
  }
  return pool;
}

TEST(Source, IsTheClusterThatOwnsThePool) {
  const auto source = SourceOf(Pool("tensor-fusion-shared-a", "tensor-fusion"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->resource.kind, "TensorFusionCluster");
  EXPECT_EQ(source->name, "tensor-fusion");
  EXPECT_EQ(source->entry, "shared-a");
  EXPECT_EQ(source->ToString(), "TensorFusionCluster tensor-fusion, pool shared-a");
}

TEST(Source, IsThePoolThatNobodyOwns) {
  const auto source = SourceOf(Pool("mine", ""));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->ToString(), "GPUPool mine");
  Json object = Pool("mine", "");
  ASSERT_TRUE(PoolSpecIn(object, *source).ok());
}

TEST(Source, NamesMustFit) {
  for (const char* name : {"other-shared", "tensor-fusion", "tensor-fusion-", "tensor-fusionshared"}) {
    EXPECT_THAT(SourceOf(Pool(name, "tensor-fusion")).status().message(),
                HasSubstr("expected a name of the form tensor-fusion-POOL"))
        << name;
  }
}

TEST(Edit, ChangesThatPoolAndNothingElse) {
  Json cluster = boost::json::parse(R"({"spec": {"gpuPools": [
      {"name": "a", "specTemplate": {"x": 1}},
      {"name": "b", "specTemplate": {"componentConfig": {"worker": {"image": "w:2"}, "client": {"image": "c:1"}}}}]}})");
  const Source source = *SourceOf(Pool("tf-b", "tf"));
  absl::StatusOr<Json*> spec = PoolSpecIn(cluster, source);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(SetPaused(**spec, true));
  EXPECT_FALSE(SetPaused(**spec, true));
  EXPECT_TRUE(SetComponent(**spec, "worker", {{"image", "w:1"}}));
  EXPECT_FALSE(SetComponent(**spec, "worker", {{"image", "w:1"}}));
  EXPECT_EQ(cluster, boost::json::parse(R"({"spec": {"gpuPools": [
      {"name": "a", "specTemplate": {"x": 1}},
      {"name": "b", "specTemplate": {"componentConfig": {"worker": {"image": "w:1"}, "client": {"image": "c:1"}},
        "nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {"paused": true}}}}]}})"));
  EXPECT_TRUE(SetPaused(**spec, false));
  EXPECT_FALSE(kube::Flag(**spec, "nodeManagerConfig.nodePoolRollingUpdatePolicy.paused", true));

  Json without = {{"spec", {{"gpuPools", boost::json::array{}}}}};
  EXPECT_THAT(PoolSpecIn(without, source).status().message(), HasSubstr("has no pool b in spec.gpuPools"));
  Json empty = boost::json::object{};
  EXPECT_FALSE(PoolSpecIn(empty, source).ok());
}

TEST(Edit, NotPausedIsWhatAnAbsentPolicyIs) {
  Json spec = boost::json::object{};
  EXPECT_FALSE(SetPaused(spec, false));
  EXPECT_EQ(spec, Json(boost::json::object{}));
}

kube::ObjectPtr Entry(int64_t number, const std::string& component, const std::string& image,
                      const std::string& owner = "pool-uid") {
  return std::make_shared<const Json>(
      Json{{"metadata",
            {{"name", "tf-b-" + component + "-d" + std::to_string(number)},
             {"labels",
              {{"tensor-fusion.ai/component", component},
               {"tensor-fusion.ai/pod-template-hash", "d" + std::to_string(number)}}},
             {"creationTimestamp", "2026-11-30T00:33:20Z"},
             {"ownerReferences", {{{"uid", owner}, {"controller", true}, {"kind", "GPUPool"}}}}}},
           {"revision", number},
           {"data", {{"image", image}}}});
}

TEST(History, HasTheRevisionsOfThisPoolAndComponentInOrder) {
  const Json pool = Pool("tf-b", "tf");
  const std::vector<Revision> revisions =
      RevisionsOf({Entry(10, "worker", "w:3"), Entry(9, "worker", "w:2"), Entry(1, "client", "c:1"),
                   Entry(2, "worker", "w:1", "another-uid"),
                   std::make_shared<const Json>(Json{{"metadata", {{"name", "no labels"}}}})},
                  pool, "worker");
  ASSERT_EQ(revisions.size(), 2u);
  EXPECT_EQ(revisions[0].number, 9);
  EXPECT_EQ(revisions[0].digest, "d9");
  EXPECT_EQ(revisions[0].image, "w:2");
  EXPECT_EQ(revisions[1].number, 10);
}

TEST(History, TheImageMayBeThatOfTheTemplate) {
  const Json block =
      boost::json::parse(R"({"podTemplate": {"template": {"spec": {"containers": [{"image": "w:9"}]}}}})");
  Json entry = *Entry(1, "worker", "");
  entry.get_object()["data"] = block;
  const auto revisions = RevisionsOf({std::make_shared<const Json>(entry)}, Pool("tf-b", "tf"), "worker");
  ASSERT_EQ(revisions.size(), 1u);
  EXPECT_EQ(revisions[0].image, "w:9");
}

TEST(History, IsATableThatTellsWhatRunsAndWhatRan) {
  Json pool = Pool("tf-b", "tf");
  pool.get_object()["spec"] = {{"componentConfig", {{"worker", {{"image", "w:3"}}}}}};
  pool.get_object()["status"] = {{"rollouts", {{{"component", "worker"}, {"lastGoodRevision", "d9-e1.e2"}}}}};
  const auto revisions = RevisionsOf({Entry(9, "worker", "w:2"), Entry(10, "worker", "w:3")}, pool, "worker");
  EXPECT_EQ(HistoryTable(revisions, pool, "worker", kNow),
            "REVISION  DIGEST  IMAGE  AGE  STATE\n"
            "9         d9      w:2    20m  last good\n"
            "10        d10     w:3    20m  current\n");
  EXPECT_EQ(HistoryTable({}, pool, "worker", kNow), "No revisions of the worker.\n");
  EXPECT_EQ(
      boost::json::serialize(HistoryJson({revisions[0]})),
      R"([{"revision":9,"digest":"d9","image":"w:2","created":"2026-11-30T00:33:20Z","config":{"image":"w:2"}}])");
}

TEST(Undo, TakesTheNewestThatDiffersFromWhatIsThere) {
  const Json pool = Pool("tf-b", "tf");
  const auto revisions =
      RevisionsOf({Entry(1, "worker", "w:1"), Entry(2, "worker", "w:2"), Entry(3, "worker", "w:3")}, pool, "worker");
  const auto undo = [&](const std::string& image, std::optional<int64_t> number = std::nullopt) {
    return RevisionToUndoTo(revisions, {{"componentConfig", {{"worker", {{"image", image}}}}}}, "worker", number);
  };
  EXPECT_EQ(undo("w:3")->number, 2);
  EXPECT_EQ(undo("w:4")->number, 3);  // an edit that the operator has not seen yet
  EXPECT_EQ(undo("w:3", 1)->number, 1);
  EXPECT_EQ(undo("w:3", 3)->number, 3);
  EXPECT_THAT(undo("w:3", 4).status().message(), HasSubstr("no revision 4; there are: 1, 2, 3"));
  EXPECT_THAT(RevisionToUndoTo({}, Json(), "worker", std::nullopt).status().message(), HasSubstr("has no history"));
  EXPECT_THAT(
      RevisionToUndoTo({revisions[0]}, {{"componentConfig", {{"worker", {{"image", "w:1"}}}}}}, "worker", std::nullopt)
          .status()
          .message(),
      HasSubstr("has the configuration that is there now"));
}

}  // namespace
}  // namespace tf::tfctl
