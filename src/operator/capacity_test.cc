#include "operator/capacity.h"

#include <boost/json/parse.hpp>

#include "gtest/gtest.h"

namespace tf::operators {
namespace {

kube::ObjectPtr Object(const char* json) { return std::make_shared<const kube::Json>(boost::json::parse(json)); }

TEST(CapacityTest, SumsTheNodesThatStay) {
  const Capacity sum = SumOfNodes(
      {Object(
           R"({"metadata":{"name":"b"},"status":{"phase":"Running","totalGPUs":2,"totalGPUPods":3,"totalTFlops":"624",
               "totalVRAM":"160Gi","virtualTFlops":"3120","virtualVRAM":"200Gi","availableTFlops":"500500m",
               "availableVRAM":"100Gi","virtualAvailableTFlops":"3000","virtualAvailableVRAM":"-1Gi"}})"),
       Object(
           R"({"metadata":{"name":"a"},"status":{"phase":"Pending","totalGPUs":1,"totalTFlops":312,"totalVRAM":"no"}})"),
       Object(R"({"metadata":{"name":"c"}})"),
       Object(R"({"metadata":{"name":"d","deletionTimestamp":"2026-01-01T00:00:00Z"},
               "status":{"phase":"Running","totalGPUs":100,"totalTFlops":"100"}})")});
  EXPECT_EQ(sum.nodes, 3);
  EXPECT_EQ(sum.ready_nodes, 1);
  EXPECT_EQ(sum.gpus, 3);
  EXPECT_EQ(sum.apps, 3);
  EXPECT_EQ(sum.not_ready, (std::vector<std::string>{"a", "c"}));
  api::GPUPoolStatus status;
  Write(sum, status);
  EXPECT_EQ(status.totalNodes, 3);
  EXPECT_EQ(status.readyNodes, 1);
  EXPECT_EQ(status.notReadyNodes, 2);
  EXPECT_EQ(status.totalGPUs, 3);
  EXPECT_EQ(status.runningAppsCnt, 3);
  EXPECT_EQ(status.totalTFlops.Text(), "936");
  EXPECT_EQ(status.totalVRAM.Text(), "160Gi");
  EXPECT_EQ(status.virtualTFlops.Text(), "3120");
  EXPECT_EQ(status.virtualVRAM.Text(), "200Gi");
  EXPECT_EQ(status.availableTFlops.Text(), "500500m");
  EXPECT_EQ(status.availableVRAM.Text(), "100Gi");
  EXPECT_EQ(status.virtualAvailableTFlops->Text(), "3k");
  EXPECT_EQ(status.virtualAvailableVRAM->Text(), "-1Gi");
}

TEST(CapacityTest, SumsPoolsInAnyPhase) {
  const Capacity sum = SumOfPools(
      {Object(
           R"({"status":{"phase":"Running","totalNodes":2,"totalGPUs":4,"totalTFlops":"100","availableVRAM":"1Gi"}})"),
       Object(
           R"({"status":{"phase":"Updating","totalNodes":3,"totalGPUs":1,"totalTFlops":"50","availableVRAM":"1Gi"}})"),
       Object(R"({"metadata":{"name":"new"}})")});
  api::TensorFusionClusterStatus status;
  Write(sum, status);
  EXPECT_EQ(status.totalNodes, 5);
  EXPECT_EQ(status.totalGPUs, 5);
  EXPECT_EQ(status.totalTFlops.Text(), "150");
  EXPECT_EQ(status.availableVRAM.Text(), "2Gi");
}

TEST(CapacityTest, NamesSome) {
  EXPECT_EQ(Some({}), "");
  EXPECT_EQ(Some({"a", "b"}), "a, b");
  EXPECT_EQ(Some({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

}  // namespace
}  // namespace tf::operators
