#include "placement/card_of.h"

#include <algorithm>

#include "api/names.h"

namespace tf::placement {
namespace {

Amount AmountOf(const api::Resource& resource) {
  return {.millitflops = std::clamp<int64_t>(resource.tflops.Milli(), 0, kMostMilliTflops),
          .vram = std::clamp<int64_t>(resource.vram.Units(), 0, kMostVram)};
}

// A percentage that the schema did not check is no more than this.
int64_t Percent(const std::optional<int32_t>& percent, int64_t otherwise) {
  return std::clamp<int64_t>(percent.value_or(static_cast<int32_t>(otherwise)), 0, 100'000);
}

}  // namespace

Card CardOf(const api::GPU& gpu, const api::Oversubscription& oversubscription, const HostFacts& host) {
  const api::GPUStatus& status = gpu.status;
  Card card{.name = gpu.metadata.name,
            .node = std::string(gpu.metadata.Label(api::kManagedByLabel)),
            .pool = std::string(gpu.metadata.Label(api::kPoolLabel)),
            .vendor = status.vendor,
            .model = status.model,
            .short_model = status.gpuModel,
            .index = status.index.value_or(-1)};
  card.usable = status.phase == "Running" && (status.usedBy.empty() || status.usedBy == "tensor-fusion") &&
                gpu.metadata.Annotation(api::kGpuMissingAnnotation).empty() && !gpu.metadata.deletionTimestamp;
  card.capacity = AmountOf(status.capacity);
  const int64_t ratio = std::max<int64_t>(100, Percent(oversubscription.tflopsOversellRatio, 500));
  card.limit_capacity.millitflops =
      card.capacity.millitflops / 100 * ratio + card.capacity.millitflops % 100 * ratio / 100;
  const int64_t memory = std::clamp<int64_t>(host.memory, 0, kMostVram);
  const int64_t disk = std::clamp<int64_t>(host.disk, 0, kMostVram);
  const int64_t more = memory / 100 * std::min<int64_t>(100, Percent(oversubscription.vramExpandToHostMem, 50)) +
                       disk / 100 * std::min<int64_t>(100, Percent(oversubscription.vramExpandToHostDisk, 70));
  card.limit_capacity.vram = card.capacity.vram + more / std::max(1, host.cards);
  const absl::StatusOr<Isolation> mode = ParseIsolation(status.isolationMode.value_or(""));
  if (!mode.ok() && status.isolationPolicy != "Dynamic") {
    card.usable = false;  // one that is cut into partitions is for none of our pods
  } else if (status.isolationPolicy == "Static" && status.isolationMode) {
    card.only = *mode;
  } else {
    // The mode has a default, so that it says nothing alone. Pods of one kind at a time, whichever comes first.
    card.one_at_a_time = true;
  }
  return card;
}

}  // namespace tf::placement
