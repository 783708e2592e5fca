#include "hypervisor/publisher.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "api/typed.h"
#include "kube/error.h"
#include "spdlog/spdlog.h"

namespace tf::hypervisor {
namespace {

using kube::Json;
using kube::JsonObject;

constexpr uint32_t kNotReported = 0xffffffff;

// Objects that are gone meanwhile, or are others of the same name, are looked at again when that is known here.
absl::Status UnlessGone(absl::Status status) {
  return kube::IsNotFound(status) || kube::IsConflict(status) ? absl::OkStatus() : status;
}

}  // namespace

Publisher::Publisher(kube::Manager& manager, PublisherOptions options)
    : manager_(manager),
      options_(std::move(options)),
      gpus_(manager.Cache(api::GPU::kResource,
                          {.label_selector = absl::StrCat(api::kManagedByLabel, "=", options_.place.node)})),
      gpu_nodes_(manager.Cache(api::GPUNode::kResource,
                               {.field_selector = absl::StrCat("metadata.name=", options_.place.node)})) {
  kube::Controller& controller =
      manager.AddController({.name = "gpus", .reconcile = [this](const kube::Key&) { return Reconcile(); }});
  const kube::MapFunction to_node = [this](const Json&) { return std::vector<kube::Key>{{"", options_.place.node}}; };
  controller.Watch(gpu_nodes_, to_node);
  controller.Watch(gpus_, to_node);
  controller.queue().Add({"", options_.place.node});
  manager.health().AddReady("gpus", [this] {
    std::lock_guard lock(mutex_);
    return ready_;
  });
}

bool Publisher::IsReady() {
  std::lock_guard lock(mutex_);
  return ready_.ok();
}

void Publisher::SetReady(absl::Status status) {
  {
    std::lock_guard lock(mutex_);
    std::swap(ready_, status);
    if (status == ready_) return;
    if (ready_.ok()) {
      spdlog::info("the GPUs of node {} are published", options_.place.node);
      return;
    }
    status = ready_;
  }
  spdlog::warn("{}", std::string(status.message()));
  if (const kube::ObjectPtr gpu_node = gpu_nodes_.Get({"", options_.place.node}); gpu_node != nullptr) {
    manager_.events().Warning(*gpu_node, "GPUsNotPublished", "Publish", std::string(status.message()));
  }
}

absl::StatusOr<kube::Result> Publisher::Reconcile() {
  const absl::StatusOr<cuda::MonitorReport> report = options_.read_driver();
  if (!report.ok()) {
    SetReady(report.status());
    return kube::Result{.requeue_after = options_.interval};
  }
  Measure(*report);
  const kube::ObjectPtr object = gpu_nodes_.Get({"", options_.place.node});
  if (object == nullptr || kube::IsBeingDeleted(*object)) {
    SetReady(absl::UnavailableError(absl::StrCat("there is no GPUNode ", options_.place.node, " (any more)")));
    return kube::Result{.requeue_after = options_.interval};
  }
  const absl::StatusOr<api::GPUNode> gpu_node = api::FromObject<api::GPUNode>(*object);
  if (!gpu_node.ok()) {
    SetReady(gpu_node.status());
    return kube::Terminal(gpu_node.status());
  }
  if (absl::Status published = Publish(*gpu_node, *report); !published.ok()) {
    // Once it was published, that it cannot be renewed at the moment is no reason to be taken out of service.
    if (!IsReady()) SetReady(published);
    return published;
  }
  SetReady(absl::OkStatus());
  return kube::Result{.requeue_after = options_.interval};
}

absl::Status Publisher::Publish(const api::GPUNode& gpu_node, const cuda::MonitorReport& report) {
  const std::vector<Card> cards = CardsOf(report, options_.numa_node);
  absl::Status done;
  for (const Card& card : cards) done.Update(Write(gpu_node, card));
  for (const kube::ObjectPtr& object : gpus_.All()) {
    const bool present = std::any_of(cards.begin(), cards.end(),
                                     [&](const Card& card) { return GpuName(card.uuid) == kube::Name(*object); });
    if (present || kube::IsBeingDeleted(*object)) continue;
    const absl::StatusOr<api::GPU> gpu = api::FromObject<api::GPU>(*object);
    if (!gpu.ok()) {
      done.Update(gpu.status());
      continue;
    }
    const JsonObject patch = MissingPatch(*gpu, manager_.clock().Now());
    if (patch.empty()) continue;
    spdlog::warn("GPU {} has vanished from node {}", gpu->metadata.name, options_.place.node);
    done.Update(UnlessGone(
        manager_.client().Patch(api::GPU::kResource, gpu->metadata.Key(), JsonObject{{"metadata", patch}}).status()));
  }
  // The operator writes the first status; what must be in one is its.
  if (!gpu_node.status.phase.empty()) {
    if (JsonObject patch = NodeStatusPatch(gpu_node, options_.read_node(), cards); !patch.empty()) {
      done.Update(UnlessGone(manager_.client()
                                 .Patch(api::GPUNode::kResource, gpu_node.metadata.Key(),
                                        JsonObject{{"metadata", {{"uid", gpu_node.metadata.uid}}}, {"status", patch}},
                                        {}, "status")
                                 .status()));
    }
  }
  return done;
}

absl::Status Publisher::Write(const api::GPUNode& gpu_node, const Card& card) {
  const kube::Key key{"", GpuName(card.uuid)};
  const kube::ObjectPtr object = gpus_.Get(key);
  if (object != nullptr && kube::IsBeingDeleted(*object)) return absl::OkStatus();  // its end brings us back
  absl::StatusOr<api::GPU> gpu = object != nullptr ? api::FromObject<api::GPU>(*object) : Create(gpu_node, card);
  if (!gpu.ok()) return gpu.status();
  if (JsonObject patch = MetadataPatch(*gpu, options_.place, gpu_node); !patch.empty()) {
    patch["uid"] = gpu->metadata.uid;
    if (absl::Status patched =
            manager_.client().Patch(api::GPU::kResource, key, JsonObject{{"metadata", patch}}).status();
        !patched.ok()) {
      return UnlessGone(patched);
    }
  }
  if (JsonObject patch = StatusPatch(*gpu, card, options_.place, options_.hardware); !patch.empty()) {
    const Json body = JsonObject{{"metadata", {{"uid", gpu->metadata.uid}}}, {"status", patch}};
    return UnlessGone(manager_.client().Patch(api::GPU::kResource, key, body, {}, "status").status());
  }
  return absl::OkStatus();
}

absl::StatusOr<api::GPU> Publisher::Create(const api::GPUNode& gpu_node, const Card& card) {
  absl::StatusOr<api::GPU> made = api::Create(manager_.client(), NewGpu(card, options_.place, gpu_node));
  if (made.ok()) spdlog::info("GPU {}: {}, {} MiB", made->metadata.name, card.name, card.memory >> 20);
  if (!kube::IsAlreadyExists(made.status())) return made;
  absl::StatusOr<api::GPU> known = api::Get<api::GPU>(manager_.client(), {"", GpuName(card.uuid)});
  if (!known.ok()) return known;
  if (absl::Status may = MayTake(*known); !may.ok()) return may;
  return known;
}

absl::Status Publisher::MayTake(const api::GPU& gpu) {
  const std::string other(gpu.metadata.Label(api::kManagedByLabel));
  if (other == options_.place.node || other.empty()) return absl::OkStatus();
  if (!gpu.metadata.Annotation(api::kGpuMissingAnnotation).empty()) return absl::OkStatus();
  const absl::StatusOr<api::GPUNode> node = api::Get<api::GPUNode>(manager_.client(), {"", other});
  if (kube::IsNotFound(node.status())) return absl::OkStatus();
  if (!node.ok()) return node.status();
  return absl::FailedPreconditionError(
      absl::StrCat("GPU ", gpu.metadata.name, " is published by node ", other, "; two nodes cannot have one card"));
}

void Publisher::Measure(const cuda::MonitorReport& report) {
  for (size_t i = 0; i < report.devices.size() && i < report.reports.size(); ++i) {
    const cuda::DeviceReport& card = report.reports[i];
    const kube::MetricLabels labels{{"uuid", report.devices[i].uuid}, {"model", report.devices[i].name}};
    const auto set = [&](const char* name, const char* help, double value) {
      manager_.metrics().Gauge(name, help, labels).Set(value);
    };
    set("tensor_fusion_gpu_memory_bytes", "Memory of a card", static_cast<double>(card.memory_total));
    set("tensor_fusion_gpu_memory_used_bytes", "Memory of a card that is in use",
        static_cast<double>(card.memory_used));
    if (card.busy_percent != kNotReported) {
      set("tensor_fusion_gpu_busy_ratio", "Share of the time in which a card executed", card.busy_percent / 100.0);
    }
    if (card.power != kNotReported) {
      set("tensor_fusion_gpu_power_watts", "Power that a card takes", card.power / 1000.0);
    }
    if (card.temperature != kNotReported) {
      set("tensor_fusion_gpu_temperature_celsius", "Temperature of a card", card.temperature);
    }
  }
}

}  // namespace tf::hypervisor
