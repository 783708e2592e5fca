#include "operator/gpunode_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/names.h"
#include "operator/away.h"

namespace tf::operators {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

api::Quantity Q(std::string_view text) { return *api::Quantity::Parse(text); }

class GpuNodePlanTest : public ::testing::Test {
 protected:
  GpuNodePlanTest() {
    gpu_node.metadata.name = "node-1";
    gpu_node.metadata.uid = "gpu-node-uid";
    node.metadata.name = "node-1";
    NodeReady(true);
    pod.metadata.name = "hypervisor-node-1";
    pod.metadata.namespace_ = "tensor-fusion-sys";
    pod.metadata.ownerReferences = {{.uid = "gpu-node-uid", .controller = true}};
  }

  void NodeReady(bool ready) { node.status.conditions = {{.type = "Ready", .status = ready ? "True" : "Unknown"}}; }
  void PodIs(std::string phase, bool ready, int32_t restarts = 0) {
    has_pod = true;
    pod.status.phase = std::move(phase);
    pod.status.conditions = {{.type = "Ready", .status = ready ? "True" : "False"}};
    pod.status.containerStatuses = {{.name = "tensorfusion-hypervisor", .restartCount = restarts}};
  }
  api::GPU& AddGpu(std::string_view tflops, std::string_view vram) {
    api::GPU gpu;
    gpu.status.capacity = gpu.status.available = {.tflops = Q(tflops), .vram = Q(vram)};
    gpus.push_back(gpu);
    return gpus.back();
  }

  GpuNodeView View() const {
    return {.gpu_node = gpu_node,
            .pool = has_pool ? &pool : nullptr,
            .node = has_node ? &node : nullptr,
            .hypervisor = has_pod ? &pod : nullptr,
            .gpus = gpus};
  }
  HypervisorPlan Plan() const { return PlanHypervisor(View()); }
  api::GPUNodeStatus Status() const { return StatusOf(View(), Plan(), kNow); }

  api::GPUNode gpu_node;
  api::GPUPool pool;
  api::Node node;
  api::Pod pod;
  std::vector<api::GPU> gpus;
  bool has_pool = true, has_node = true, has_pod = false;
};

TEST_F(GpuNodePlanTest, MakesWhatIsMissing) {
  EXPECT_EQ(Plan().action, HypervisorAction::kCreate);
  EXPECT_EQ(Status().phase, "Pending");
}

TEST_F(GpuNodePlanTest, StartsNothingOnANodeThatIsNotReady) {
  NodeReady(false);
  EXPECT_EQ(Plan().action, HypervisorAction::kNone);
  EXPECT_EQ(Plan().reason, "NodeNotReady");
  PodIs("Pending", false);
  EXPECT_EQ(Plan().action, HypervisorAction::kNone);
}

TEST_F(GpuNodePlanTest, StartsNothingWhereSomethingEnds) {
  has_pool = false;
  EXPECT_EQ(Plan().action, HypervisorAction::kNone);
  has_pool = true;
  has_node = false;
  EXPECT_EQ(Plan().action, HypervisorAction::kNone);
  has_node = true;
  pool.metadata.deletionTimestamp = api::Time(kNow);
  EXPECT_EQ(Plan().reason, "NoPool");
  pool.metadata.deletionTimestamp.reset();
  PodIs("Running", true);
  pod.metadata.deletionTimestamp = api::Time(kNow);
  EXPECT_EQ(Plan().action, HypervisorAction::kNone);
  EXPECT_FALSE(Plan().ready);
}

TEST_F(GpuNodePlanTest, ReplacesAPodThatHasEnded) {
  for (const char* phase : {"Succeeded", "Failed"}) {
    PodIs(phase, false);
    EXPECT_EQ(Plan().action, HypervisorAction::kReplaceFinished) << phase;
  }
}

TEST_F(GpuNodePlanTest, ReplacesAPodThatCrashesAgainAndAgain) {
  PodIs("Running", false, 5);
  EXPECT_EQ(Plan().action, HypervisorAction::kNone);
  PodIs("Running", false, 6);
  pod.status.containerStatuses[0].state.waiting = {.reason = "CrashLoopBackOff", .message = "back-off 5m"};
  EXPECT_EQ(Plan().action, HypervisorAction::kReplaceCrashLoop);
  EXPECT_THAT(Plan().message,
              HasSubstr("restarted 6 times: CrashLoopBackOff: container tensorfusion-hypervisor ends again and again"));
  PodIs("Running", true, 60);
  EXPECT_EQ(Plan().action, HypervisorAction::kNone);
  EXPECT_TRUE(Plan().ready);
}

TEST_F(GpuNodePlanTest, WhatGoesAndComesIsPassing) {
  EXPECT_TRUE(Plan().passing);
  PodIs("Running", true);
  EXPECT_FALSE(Plan().passing);
  pod.metadata.deletionTimestamp = api::Time(kNow);
  EXPECT_TRUE(Plan().passing);
  NodeReady(false);
  EXPECT_FALSE(Plan().passing);
  NodeReady(true);
  pod.metadata.deletionTimestamp.reset();
  PodIs("Pending", false);
  EXPECT_TRUE(Plan().passing);
  pod.status.conditions[0].reason = "ContainersNotReady";
  EXPECT_TRUE(Plan().passing);
  pod.status.containerStatuses[0].state.waiting = {.reason = "ImagePullBackOff", .message = "no such image"};
  EXPECT_FALSE(Plan().passing);
}

TEST_F(GpuNodePlanTest, ARestartThatIsNotToldShowsWhatWasShown) {
  PodIs("Running", true);
  AddGpu("312", "80Gi");
  gpu_node.status = Status();
  ASSERT_EQ(gpu_node.status.phase, "Running");
  pod.metadata.deletionTimestamp = api::Time(kNow);
  const HypervisorPlan shown = AsShown(gpu_node.status, Plan());
  EXPECT_EQ(api::ToJson(StatusOf(View(), shown, kNow)), api::ToJson(gpu_node.status));
  // What is counted is counted all the same.
  AddGpu("312", "80Gi");
  EXPECT_EQ(StatusOf(View(), shown, kNow).totalGPUs, 2);
}

TEST(AwayTest, CountsFromTheFirstTimeUntilItIsBack) {
  SimulatedClock clock;
  Away away(clock, absl::Seconds(10));
  const kube::Key key{"", "node-1"};
  EXPECT_EQ(away.Left(key), absl::Seconds(10));
  clock.Advance(absl::Seconds(4));
  EXPECT_EQ(away.Left(key), absl::Seconds(6));
  EXPECT_EQ(away.Left({"", "node-2"}), absl::Seconds(10));
  clock.Advance(absl::Seconds(7));
  EXPECT_EQ(away.Left(key), absl::ZeroDuration());
  away.Forget(key);
  EXPECT_EQ(away.Left(key), absl::Seconds(10));
}

TEST_F(GpuNodePlanTest, LeavesPodsOfOthersAlone) {
  PodIs("Failed", false);
  pod.metadata.ownerReferences[0].uid = "other";
  EXPECT_EQ(Plan().action, HypervisorAction::kNone);
  EXPECT_EQ(Plan().reason, "NameTaken");
}

TEST_F(GpuNodePlanTest, SaysWhyItIsNotReady) {
  PodIs("Pending", false);
  pod.status.containerStatuses[0].state.waiting = {.reason = "ImagePullBackOff", .message = "no such image"};
  const api::GPUNodeStatus status = Status();
  const api::Condition* condition = api::FindCondition(status.conditions, "HypervisorReady");
  ASSERT_NE(condition, nullptr);
  EXPECT_EQ(condition->status, "False");
  EXPECT_EQ(condition->reason, "NotReady");
  EXPECT_THAT(condition->message, HasSubstr("ImagePullBackOff: image"));
}

TEST_F(GpuNodePlanTest, RunsWhenItsHypervisorIsReadyAndThereAreGpus) {
  PodIs("Running", true);
  EXPECT_EQ(Status().phase, "Pending");
  AddGpu("312", "80Gi");
  EXPECT_EQ(Status().phase, "Running");
  EXPECT_EQ(PhaseOf(gpus[0], true), "Running");
  EXPECT_EQ(PhaseOf(gpus[0], false), "Pending");
  PodIs("Running", false);
  EXPECT_EQ(Status().phase, "Pending");
  gpu_node.metadata.deletionTimestamp = api::Time(kNow);
  EXPECT_EQ(Status().phase, "Destroying");
}

TEST_F(GpuNodePlanTest, CapacityWithoutOversubscription) {
  PodIs("Running", true);
  AddGpu("312", "80Gi");
  AddGpu("312", "80Gi").status.available = {.tflops = Q("300"), .vram = Q("70Gi")};
  AddGpu("100", "10Gi").metadata.annotations[api::kGpuMissingAnnotation] = "2026-11-30T00:00:00Z";
  const api::GPUNodeStatus status = Status();
  EXPECT_EQ(status.totalGPUs, 2);
  EXPECT_EQ(status.managedGPUs, 2);
  EXPECT_EQ(status.totalTFlops, Q("624"));
  EXPECT_EQ(status.totalVRAM, Q("160Gi"));
  EXPECT_EQ(status.availableTFlops, Q("612"));
  EXPECT_EQ(status.availableVRAM, Q("150Gi"));
  EXPECT_EQ(status.virtualTFlops, Q("624"));
  EXPECT_EQ(status.virtualVRAM, Q("160Gi"));
  EXPECT_EQ(*status.virtualAvailableTFlops, Q("612"));
  EXPECT_EQ(PhaseOf(gpus[2], true), "");
}

TEST_F(GpuNodePlanTest, CapacityWithOversubscription) {
  PodIs("Running", true);
  AddGpu("100", "80Gi").status.available = {.tflops = Q("90"), .vram = Q("70Gi")};
  gpu_node.status.nodeInfo = {.ramSize = Q("100Gi"), .dataDiskSize = Q("1000Gi")};
  pool.spec.capacityConfig.emplace().oversubscription.emplace();
  api::Oversubscription& over = *pool.spec.capacityConfig->oversubscription;
  over.tflopsOversellRatio = 200;
  over.vramExpandToHostMem = 50;
  over.vramExpandToHostDisk = 10;
  EXPECT_EQ(Status().virtualTFlops, Q("200"));
  EXPECT_EQ(Status().virtualVRAM, Q("230Gi"));
  EXPECT_EQ(*Status().virtualAvailableTFlops, Q("190"));
  EXPECT_EQ(*Status().virtualAvailableVRAM, Q("220Gi"));
  over = {};
  EXPECT_EQ(Status().virtualTFlops, Q("500"));
  EXPECT_EQ(Status().virtualVRAM, Q("830Gi"));
}

TEST_F(GpuNodePlanTest, WhatOthersWroteStays) {
  gpu_node.status.managedGPUDeviceIDs = {"a"};
  gpu_node.status.nodeInfo.ramSize = Q("1Gi");
  gpu_node.status.totalGPUPods = 3;
  const api::GPUNodeStatus status = Status();
  EXPECT_EQ(status.managedGPUDeviceIDs, std::vector<std::string>{"a"});
  EXPECT_EQ(status.nodeInfo.ramSize, Q("1Gi"));
  EXPECT_EQ(status.totalGPUPods, 3);
}

}  // namespace
}  // namespace tf::operators
