#include "operator/pool_status.h"

#include <boost/json/parse.hpp>

#include "gtest/gtest.h"

namespace tf::operators {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

api::GPUPool Pool(const char* spec) {
  kube::Json json = boost::json::parse(R"({"metadata":{"name":"p","generation":7}})");
  json.as_object()["spec"] = boost::json::parse(spec);
  return *api::FromJson<api::GPUPool>(json);
}

Capacity Nodes(int32_t ready, std::vector<std::string> not_ready = {}) {
  Capacity capacity{.nodes = ready + static_cast<int32_t>(not_ready.size()), .ready_nodes = ready};
  capacity.not_ready = std::move(not_ready);
  return capacity;
}

constexpr char kAsks[] = R"({"nodeManagerConfig":{},"capacityConfig":{"minResources":{"tflops":"20","vram":"0"}}})";
constexpr char kAsksNothing[] =
    R"({"nodeManagerConfig":{},"capacityConfig":{"minResources":{"tflops":"0","vram":"0","cpu":"5"}}})";

TEST(PoolStatusTest, IsRunningWhenAllNodesAre) {
  api::GPUPool pool = Pool(kAsks);
  SetCapacity(Nodes(2, {"b"}), pool, kNow);
  EXPECT_EQ(pool.status.phase, "Pending");
  EXPECT_EQ(pool.status.observedGeneration, 7);
  EXPECT_EQ(pool.status.notReadyNodes, 1);
  const api::Condition* ready = api::FindCondition(pool.status.conditions, "Ready");
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->status, "False");
  EXPECT_EQ(ready->reason, "NodesNotReady");
  EXPECT_EQ(ready->message, "1 of 3 nodes are not Running: b");
  EXPECT_EQ(ready->observedGeneration, 7);

  SetCapacity(Nodes(3), pool, kNow);
  EXPECT_EQ(pool.status.phase, "Running");
  EXPECT_EQ(api::FindCondition(pool.status.conditions, "Ready")->status, "True");
  // One that has been Running is no longer new.
  SetCapacity(Nodes(2, {"b"}), pool, kNow);
  EXPECT_EQ(pool.status.phase, "Updating");
}

TEST(PoolStatusTest, OneWithoutNodesIsRunningUnlessItAsksForCapacity) {
  for (const char* spec : {"{}", R"({"nodeManagerConfig":{}})", kAsksNothing}) {
    api::GPUPool pool = Pool(spec);
    SetCapacity(Nodes(0), pool, kNow);
    EXPECT_EQ(pool.status.phase, "Running") << spec;
  }
  api::GPUPool pool = Pool(kAsks);
  SetCapacity(Nodes(0), pool, kNow);
  EXPECT_EQ(pool.status.phase, "Pending");
  EXPECT_EQ(api::FindCondition(pool.status.conditions, "Ready")->reason, "NoNodes");
}

TEST(PoolStatusTest, SaysWhatItsEndWaitsFor) {
  api::GPUPool pool = Pool("{}");
  SetDestroying(Nodes(0), {"a", "b"}, pool, kNow);
  EXPECT_EQ(pool.status.phase, "Destroying");
  EXPECT_EQ(api::FindCondition(pool.status.conditions, "Ready")->message, "waits for the end of GPUNodes a, b");
}

TEST(PoolStatusTest, TheSameTwiceChangesNothing) {
  api::GPUPool pool = Pool(kAsks);
  SetCapacity(Nodes(1, {"b"}), pool, kNow);
  const kube::Json before = api::ToJson(pool);
  SetCapacity(Nodes(1, {"b"}), pool, kNow + absl::Hours(1));
  EXPECT_EQ(api::ToJson(pool), before);
}

}  // namespace
}  // namespace tf::operators
