#include "placement/card_of.h"

#include <gtest/gtest.h>

#include "api/names.h"

namespace tf::placement {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

api::GPU A100() {
  api::GPU gpu;
  gpu.metadata.name = "gpu-a";
  gpu.metadata.labels = {{api::kManagedByLabel, "n0"}, {api::kPoolLabel, "gold"}};
  gpu.status.phase = "Running";
  gpu.status.vendor = "NVIDIA";
  gpu.status.model = "NVIDIA A100-SXM4-80GB";
  gpu.status.gpuModel = "A100";
  gpu.status.index = 3;
  gpu.status.capacity.tflops = api::Quantity(312);
  gpu.status.capacity.vram = api::Quantity::FromBytes(80 * kGib);
  return gpu;
}

TEST(CardOf, IsWhatTheHypervisorAndThePoolSay) {
  api::Oversubscription oversubscription;
  oversubscription.tflopsOversellRatio = 250;
  oversubscription.vramExpandToHostMem = 50;
  oversubscription.vramExpandToHostDisk = 10;
  const Card card = CardOf(A100(), oversubscription, {.memory = 100 * kGib, .disk = 100 * kGib, .cards = 2});
  EXPECT_EQ(card.name, "gpu-a");
  EXPECT_EQ(card.node, "n0");
  EXPECT_EQ(card.pool, "gold");
  EXPECT_EQ(card.index, 3);
  EXPECT_TRUE(card.usable);
  EXPECT_EQ(card.capacity, (Amount{312'000, 80 * kGib}));
  EXPECT_EQ(card.limit_capacity, (Amount{780'000, 110 * kGib}));
  EXPECT_TRUE(card.one_at_a_time);
}

TEST(CardOf, WhoseIsItIsItReady) {
  const struct {
    const char* what;
    void (*change)(api::GPU&);
  } cases[] = {
      {"phase", [](api::GPU& gpu) { gpu.status.phase = "Pending"; }},
      {"used by", [](api::GPU& gpu) { gpu.status.usedBy = "nvidia-device-plugin"; }},
      {"missing", [](api::GPU& gpu) { gpu.metadata.annotations[api::kGpuMissingAnnotation] = "2026-01-01T00:00:00Z"; }},
      {"partitions", [](api::GPU& gpu) { gpu.status.isolationMode = "partitioned"; }},
  };
  for (const auto& one : cases) {
    api::GPU gpu = A100();
    one.change(gpu);
    EXPECT_FALSE(CardOf(gpu, {}, {}).usable) << one.what;
  }
  api::GPU ours = A100();
  ours.status.usedBy = "tensor-fusion";
  EXPECT_TRUE(CardOf(ours, {}, {}).usable);
}

TEST(CardOf, IsolationIsForGoodOnlyWhereItIsSaid) {
  api::GPU gpu = A100();
  gpu.status.isolationMode = "soft";  // what the API server writes where nobody says anything
  for (const char* policy : {"", "Dynamic"}) {
    gpu.status.isolationPolicy = policy;
    const Card card = CardOf(gpu, {}, {});
    EXPECT_TRUE(card.one_at_a_time) << policy;
    EXPECT_FALSE(card.only.has_value()) << policy;
  }
  gpu.status.isolationPolicy = "Static";
  gpu.status.isolationMode = "hard";
  EXPECT_EQ(CardOf(gpu, {}, {}).only, Isolation::kHard);
  EXPECT_FALSE(CardOf(gpu, {}, {}).one_at_a_time);
}

TEST(CardOf, AbsurdNumbersAreBounded) {
  api::GPU gpu = A100();
  gpu.status.capacity.tflops = api::Quantity::Parse("9E").value();
  gpu.status.capacity.vram = api::Quantity(-5);
  api::Oversubscription oversubscription;
  oversubscription.tflopsOversellRatio = 2'000'000'000;
  const Card card = CardOf(gpu, oversubscription, {.memory = INT64_MAX, .disk = -1, .cards = 0});
  EXPECT_EQ(card.capacity, (Amount{kMostMilliTflops, 0}));
  EXPECT_GT(card.limit_capacity.millitflops, 0);
}

}  // namespace
}  // namespace tf::placement
