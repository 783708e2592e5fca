#include "hypervisor/gpu_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "absl/strings/str_cat.h"
#include "api/names.h"

namespace tf::hypervisor {
namespace {

using api::Json;
using api::JsonObject;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
const Place kPlace{.node = "node-1", .pool = "shared", .vendor = "NVIDIA"};
const Card kCard{
    .uuid = "GPU-AA00", .name = "NVIDIA A100-SXM4-80GB", .index = 1, .memory = uint64_t{80} << 30, .numa_node = 0};

api::GPUNode Owner() {
  api::GPUNode node;
  node.metadata.name = "node-1";
  node.metadata.uid = "node-uid";
  return node;
}

// As the server has it after the patch.
api::GPU Applied(const api::GPU& gpu, const JsonObject& status) {
  Json json = api::ToJson(gpu);
  for (const auto& member : status)
    kube::EnsureField(json, absl::StrCat("status.", std::string(member.key()))) = member.value();
  return *api::FromJson<api::GPU>(json);
}

TEST(GpuObjects, ANewCard) {
  const api::GPU gpu = NewGpu(kCard, kPlace, Owner());
  EXPECT_EQ(gpu.metadata.name, "gpu-aa00");
  EXPECT_EQ(gpu.metadata.Label(api::kManagedByLabel), "node-1");
  EXPECT_EQ(gpu.metadata.Label(api::kPoolLabel), "shared");
  EXPECT_EQ(gpu.metadata.Controller()->uid, "node-uid");
  const JsonObject patch = StatusPatch(gpu, kCard, kPlace, {});
  EXPECT_EQ(Json(patch), *kube::ParseJson(R"({"phase":"Pending","vendor":"NVIDIA","model":"NVIDIA A100-SXM4-80GB",
    "capacity":{"tflops":"312","vram":"80Gi"},"available":{"tflops":"312","vram":"80Gi"},"uuid":"GPU-AA00","index":1,
    "numaNode":0,"nodeSelector":{"kubernetes.io/hostname":"node-1"},"gpuModel":"NVIDIA A100-SXM4-80GB","message":""})"))
      << boost::json::serialize(patch);
}

TEST(GpuObjects, NothingToWriteTwice) {
  api::GPU gpu = NewGpu(kCard, kPlace, Owner());
  gpu = Applied(gpu, StatusPatch(gpu, kCard, kPlace, {}));
  EXPECT_THAT(StatusPatch(gpu, kCard, kPlace, {}), ::testing::IsEmpty());
  EXPECT_THAT(MetadataPatch(gpu, kPlace, Owner()), ::testing::IsEmpty());
}

TEST(GpuObjects, WhatOthersWroteStays) {
  api::GPU gpu = NewGpu(kCard, kPlace, Owner());
  gpu = Applied(gpu, StatusPatch(gpu, kCard, kPlace, {}));
  gpu.status.phase = "Running";
  gpu.status.usedBy = "tensor-fusion";
  gpu.status.available = {.tflops = api::Quantity(12), .vram = api::Quantity(1)};
  Card moved = kCard;
  moved.index = 0;
  const JsonObject patch = StatusPatch(gpu, moved, kPlace, {});
  EXPECT_EQ(Json(patch), *kube::ParseJson(R"({"index":0})"));
}

TEST(GpuObjects, OtherTflopsLeaveWhatIsTaken) {
  api::GPU gpu = NewGpu(kCard, kPlace, Owner());
  gpu = Applied(gpu, StatusPatch(gpu, kCard, kPlace, {}));
  gpu.status.available.tflops = api::Quantity(300);
  const HardwareTable table =
      *HardwareTable::Parse(R"([{"model":"A","fullModelName":"NVIDIA A100-SXM4-80GB","fp16TFlops":"100"}])");
  gpu = Applied(gpu, StatusPatch(gpu, kCard, kPlace, table));
  EXPECT_EQ(gpu.status.capacity.tflops, api::Quantity(100));
  EXPECT_EQ(gpu.status.available.tflops, api::Quantity(88));
  EXPECT_THAT(StatusPatch(gpu, kCard, kPlace, table), ::testing::IsEmpty());
}

TEST(GpuObjects, AMissingCardIsMarkedOnceAndUnmarked) {
  api::GPU gpu = NewGpu(kCard, kPlace, Owner());
  const JsonObject mark = MissingPatch(gpu, kNow);
  EXPECT_EQ(boost::json::serialize(mark),
            R"({"annotations":{"tensor-fusion.ai/gpu-missing-since":"2027-01-15T08:00:00Z"}})");
  gpu.metadata.annotations[api::kGpuMissingAnnotation] = "2027-01-15T08:00:00Z";
  EXPECT_THAT(MissingPatch(gpu, kNow + absl::Hours(1)), ::testing::IsEmpty());
  EXPECT_EQ(boost::json::serialize(MetadataPatch(gpu, kPlace, Owner())),
            R"({"annotations":{"tensor-fusion.ai/gpu-missing-since":null}})");
}

TEST(GpuObjects, ACardThatMovedToAnotherNode) {
  api::GPU gpu = NewGpu(kCard, {.node = "node-0", .pool = "other"}, Owner());
  gpu.metadata.ownerReferences[0].uid = "node-0-uid";
  const JsonObject patch = MetadataPatch(gpu, kPlace, Owner());
  EXPECT_EQ(kube::Text(Json(patch), "labels"), "");
  EXPECT_THAT(boost::json::serialize(patch), HasSubstr("\"tensor-fusion.ai/managed-by\":\"node-1\""));
  EXPECT_THAT(boost::json::serialize(patch), HasSubstr("\"uid\":\"node-uid\""));
}

TEST(GpuObjects, AnUnknownCardSaysSo) {
  Card card = kCard;
  card.name = "NVIDIA Z1";
  const api::GPU gpu = Applied({}, StatusPatch({}, card, kPlace, {}));
  EXPECT_TRUE(gpu.status.capacity.tflops.IsZero());
  EXPECT_THAT(gpu.status.message, HasSubstr("the TFLOPS of \"NVIDIA Z1\" are not known"));
}

TEST(GpuObjects, CardsOfAReport) {
  cuda::MonitorReport report;
  report.devices.resize(2);
  report.reports.resize(2);
  report.devices[0].uuid = "";
  report.devices[1].uuid = "GPU-1";
  report.devices[1].name = "Tesla T4";
  report.reports[1].memory_total = 16;
  const std::vector<Card> cards = CardsOf(report, [](const cuda::DeviceFacts&) { return std::optional<int32_t>(3); });
  ASSERT_EQ(cards.size(), 1u);
  EXPECT_EQ(cards[0].index, 1);
  EXPECT_EQ(cards[0].memory, 16u);
  EXPECT_EQ(cards[0].numa_node, 3);
}

TEST(GpuObjects, StatusOfTheNode) {
  api::GPUNode node = Owner();
  const NodeFacts facts{.memory = uint64_t{64} << 30, .disk = uint64_t{100} << 30};
  EXPECT_EQ(boost::json::serialize(NodeStatusPatch(node, facts, {kCard})),
            R"({"nodeInfo":{"ramSize":"64Gi","dataDiskSize":"100Gi"},"managedGPUDeviceIDs":["gpu-aa00"]})");
  node.status.nodeInfo = {.ramSize = *api::Quantity::Parse("64Gi"), .dataDiskSize = *api::Quantity::Parse("100Gi")};
  node.status.managedGPUDeviceIDs = {"gpu-aa00"};
  EXPECT_THAT(NodeStatusPatch(node, facts, {kCard}), ::testing::IsEmpty());
}

TEST(Hardware, AProviderGoesFirst) {
  const absl::StatusOr<HardwareTable> table = HardwareTable::Parse(
      R"([{"model":"A100_SXM_80G","fullModelName":"NVIDIA A100-SXM4-80GB","fp16TFlops":"300"},
          {"model":"Z1","fp16TFlops":"1500m"}])");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->Of("NVIDIA A100-SXM4-80GB").model, "A100_SXM_80G");
  EXPECT_EQ(table->Of("NVIDIA A100-SXM4-80GB").tflops, api::Quantity(300));
  EXPECT_EQ(table->Of("Z1").tflops, api::Quantity::FromMilli(1500));
  EXPECT_EQ(table->Of("Tesla T4").tflops, api::Quantity(65));
  EXPECT_EQ(table->Of("Tesla T4").model, "Tesla T4");
  EXPECT_FALSE(table->Of("?").known);
  EXPECT_TRUE(HardwareTable::Parse("").ok());
  EXPECT_THAT(HardwareTable::Parse("{}").status().message(), HasSubstr("found no array"));
  EXPECT_THAT(HardwareTable::Parse(R"([{"model":"a"}])").status().message(), HasSubstr("of \"a\""));
}

}  // namespace
}  // namespace tf::hypervisor
