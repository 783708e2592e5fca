#include "hypervisor/gpu_objects.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/names.h"

namespace tf::hypervisor {
namespace {

using api::Json;
using api::JsonArray;
using api::JsonObject;

api::OwnerReference OwnerOf(const api::GPUNode& owner) {
  return {.apiVersion = api::GPUNode::kResource.ApiVersion(),
          .kind = api::GPUNode::kResource.kind,
          .name = owner.metadata.name,
          .uid = owner.metadata.uid,
          .controller = true,
          .blockOwnerDeletion = true};
}

std::map<std::string, std::string> LabelsOf(const Place& place) {
  return {{api::kManagedByLabel, place.node}, {api::kPoolLabel, place.pool}};
}

// The members of `after` that are not so in `before`.
JsonObject Changed(const Json& before, const Json& after) {
  JsonObject changed;
  for (const auto& member : after.get_object()) {
    const Json* known = before.get_object().if_contains(member.key());
    if (known == nullptr || *known != member.value()) changed[member.key()] = member.value();
  }
  return changed;
}

Json StatusOf(const api::GPU& gpu) {
  const Json json = api::ToJson(gpu);
  const Json* status = kube::Field(json, "status");
  return status != nullptr && status->is_object() ? *status : Json(JsonObject());
}

}  // namespace

std::vector<Card> CardsOf(const cuda::MonitorReport& report,
                          const std::function<std::optional<int32_t>(const cuda::DeviceFacts&)>& numa_node) {
  std::vector<Card> cards;
  for (size_t i = 0; i < report.devices.size() && i < report.reports.size(); ++i) {
    if (report.devices[i].uuid.empty()) continue;
    cards.push_back({.uuid = report.devices[i].uuid,
                     .name = report.devices[i].name,
                     .index = static_cast<int32_t>(i),
                     .memory = report.reports[i].memory_total,
                     .numa_node = numa_node(report.devices[i])});
  }
  return cards;
}

std::string GpuName(const std::string& uuid) { return absl::AsciiStrToLower(uuid); }

api::GPU NewGpu(const Card& card, const Place& place, const api::GPUNode& owner) {
  api::GPU gpu;
  gpu.metadata.name = GpuName(card.uuid);
  gpu.metadata.labels = LabelsOf(place);
  gpu.metadata.ownerReferences = {OwnerOf(owner)};
  return gpu;
}

JsonObject MetadataPatch(const api::GPU& gpu, const Place& place, const api::GPUNode& owner) {
  JsonObject patch, labels;
  for (const auto& [name, value] : LabelsOf(place)) {
    if (gpu.metadata.Label(name) != value) labels[name] = value;
  }
  if (!labels.empty()) patch["labels"] = std::move(labels);
  const api::OwnerReference* controller = gpu.metadata.Controller();
  if (controller == nullptr || controller->uid != owner.metadata.uid) {
    const api::OwnerReference ours = OwnerOf(owner);
    patch["ownerReferences"] = JsonArray{JsonObject{{"apiVersion", ours.apiVersion},
                                                    {"kind", ours.kind},
                                                    {"name", ours.name},
                                                    {"uid", ours.uid},
                                                    {"controller", true},
                                                    {"blockOwnerDeletion", true}}};
  }
  if (!gpu.metadata.Annotation(api::kGpuMissingAnnotation).empty()) {
    patch["annotations"] = JsonObject{{api::kGpuMissingAnnotation, nullptr}};
  }
  return patch;
}

JsonObject MissingPatch(const api::GPU& gpu, absl::Time now) {
  if (!gpu.metadata.Annotation(api::kGpuMissingAnnotation).empty()) return {};
  return {{"annotations",
           JsonObject{{api::kGpuMissingAnnotation, absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now, absl::UTCTimeZone())}}}};
}

JsonObject StatusPatch(const api::GPU& gpu, const Card& card, const Place& place, const HardwareTable& hardware) {
  const Hardware known = hardware.Of(card.name);
  api::GPU wanted = gpu;
  api::GPUStatus& status = wanted.status;
  status.vendor = place.vendor;
  status.model = card.name;
  status.gpuModel = known.model;
  status.uuid = card.uuid;
  status.index = card.index;
  status.numaNode = card.numa_node;
  status.nodeSelector = {{"kubernetes.io/hostname", place.node}};
  status.capacity.tflops = known.tflops;
  status.capacity.vram = api::Quantity::FromBytes(static_cast<int64_t>(card.memory));
  status.message = known.known
                       ? ""
                       : absl::StrCat("the TFLOPS of \"", card.name, "\" are not known; a ProviderConfig of vendor ",
                                      place.vendor, " can name them in hardwareMetadata");
  if (status.phase.empty()) {
    status.phase = "Pending";
    status.available = status.capacity;
  } else {
    // What is taken of the card stays taken.
    status.available.tflops += status.capacity.tflops - gpu.status.capacity.tflops;
    status.available.vram += status.capacity.vram - gpu.status.capacity.vram;
  }
  return Changed(StatusOf(gpu), StatusOf(wanted));
}

JsonObject NodeStatusPatch(const api::GPUNode& gpu_node, const NodeFacts& facts, const std::vector<Card>& cards) {
  JsonObject patch;
  const api::Quantity memory = api::Quantity::FromBytes(static_cast<int64_t>(facts.memory));
  const api::Quantity disk = api::Quantity::FromBytes(static_cast<int64_t>(facts.disk));
  if (gpu_node.status.nodeInfo.ramSize != memory || gpu_node.status.nodeInfo.dataDiskSize != disk) {
    patch["nodeInfo"] = JsonObject{{"ramSize", memory.Text()}, {"dataDiskSize", disk.Text()}};
  }
  std::vector<std::string> names;
  for (const Card& card : cards) names.push_back(GpuName(card.uuid));
  if (names != gpu_node.status.managedGPUDeviceIDs) {
    JsonArray list;
    for (const std::string& name : names) list.emplace_back(name);
    patch["managedGPUDeviceIDs"] = std::move(list);
  }
  return patch;
}

}  // namespace tf::hypervisor
