#include "operator/gpunode_controller.h"

#include <boost/json/object.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "api/typed.h"
#include "kube/error.h"
#include "kube/finalizers.h"
#include "operator/hypervisor_pod.h"
#include "operator/providers.h"
#include "operator/status_patch.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonObject;

// A hypervisor that is back within this time was not away: a rollout restarts all of them, and would otherwise write
// three times of each node and twice of each of its GPUs what nobody needs to act on. The rollout itself looks at pods.
constexpr absl::Duration kRestart = absl::Seconds(10);

std::vector<kube::Key> ToGpuNode(const Json& gpu) {
  const std::string name(kube::Label(gpu, api::kManagedByLabel));
  return name.empty() ? std::vector<kube::Key>() : std::vector<kube::Key>{{"", name}};
}

std::string_view ReadyOf(const Json& node) {
  const Json* conditions = kube::Field(node, "status.conditions");
  if (conditions == nullptr || !conditions->is_array()) return "";
  for (const Json& condition : conditions->get_array()) {
    if (kube::Text(condition, "type") == "Ready") return kube::Text(condition, "status");
  }
  return "";
}

bool NodeReadinessChanged(const kube::ChangeView& change) {
  return change.before == nullptr || ReadyOf(*change.before) != ReadyOf(change.object) ||
         kube::IsBeingDeleted(*change.before) != kube::IsBeingDeleted(change.object);
}

}  // namespace

GpuNodeController::GpuNodeController(kube::Manager& manager, Caches& caches, PodCaches& pods,
                                     ComponentRevisions& revisions, std::string ns)
    : manager_(manager),
      caches_(caches),
      revisions_(revisions),
      pods_(pods.components),
      gpus_(caches.gpus),
      providers_(Providers(manager)),
      ns_(std::move(ns)),
      backoff_(manager.clock()),
      away_(manager.clock(), kRestart) {
  kube::Controller& controller = manager.AddController(
      {.name = "gpunode", .workers = 4, .reconcile = [this](const kube::Key& key) { return Reconcile(key); }});
  controller.Watch(caches.gpu_nodes);
  controller.Watch(caches.nodes, kube::ToItself(), NodeReadinessChanged);
  controller.Watch(pods_, kube::ToController(api::GPUNode::kResource));
  controller.Watch(gpus_, ToGpuNode);
  controller.Watch(
      caches.pools,
      [this](const Json& pool) {
        std::vector<kube::Key> keys;
        for (const kube::ObjectPtr& node : caches_.gpu_nodes.ByIndex(kByPool, kube::Name(pool))) {
          keys.push_back(kube::KeyOf(*node));
        }
        return keys;
      },
      kube::GenerationChanged());
  controller.AddSource([this](absl::Duration limit) { return providers_.WaitForSync(limit); });
  // A Secret that hypervisors waited for may have come: not after as long as the last tries have taken.
  revisions.OnChange([this, &queue = controller.queue()] {
    for (const kube::ObjectPtr& node : caches_.gpu_nodes.All()) {
      const kube::Key key = kube::KeyOf(*node);
      if (pods_.Get({ns_, HypervisorPodName(key.name)}) == nullptr) queue.Add(key);
    }
  });
}

absl::StatusOr<kube::Result> GpuNodeController::Reconcile(const kube::Key& key) {
  const kube::ObjectPtr object = caches_.gpu_nodes.Get(key);
  if (object == nullptr) {
    backoff_.Forget(key);
    away_.Forget(key);
    return kube::Result{};
  }
  absl::StatusOr<api::GPUNode> gpu_node = api::FromObject<api::GPUNode>(*object);
  if (!gpu_node.ok()) return kube::Terminal(gpu_node.status());
  const std::string pool_name(gpu_node->metadata.Label(api::kManagedByLabel));
  const kube::ObjectPtr pool_object = caches_.pools.Get({"", pool_name});
  const kube::ObjectPtr node_object = caches_.nodes.Get(key);
  const kube::ObjectPtr pod_object = pods_.Get({ns_, HypervisorPodName(key.name)});
  std::optional<api::GPUPool> pool;
  std::optional<api::Node> node;
  std::optional<api::Pod> pod;
  std::vector<api::GPU> gpus;
  // What cannot be read is an error of this node alone.
  absl::Status unreadable;
  const auto read = [&unreadable]<typename T>(const kube::ObjectPtr& from, std::optional<T>& into) {
    if (from == nullptr) return;
    absl::StatusOr<T> value = api::FromObject<T>(*from);
    if (value.ok()) into = *std::move(value);
    unreadable.Update(value.status());
  };
  read(pool_object, pool);
  read(node_object, node);
  read(pod_object, pod);
  for (const kube::ObjectPtr& one : gpus_.ByIndex(kGpusByNode, key.name)) {
    std::optional<api::GPU> gpu;
    read(one, gpu);
    if (gpu) gpus.push_back(*std::move(gpu));
  }
  if (!unreadable.ok()) return kube::Terminal(unreadable);

  const GpuNodeView view{.gpu_node = *gpu_node,
                         .pool = pool ? &*pool : nullptr,
                         .node = node ? &*node : nullptr,
                         .hypervisor = pod ? &*pod : nullptr,
                         .gpus = gpus};
  if (gpu_node->metadata.deletionTimestamp) return Destroy(*object, *gpu_node, pod ? &*pod : nullptr, view);
  if (!gpu_node->metadata.HasFinalizer(api::kFinalizer)) {
    const absl::Status added =
        kube::AddFinalizer(manager_.client(), api::GPUNode::kResource, key, api::kFinalizer).status();
    if (!added.ok() && !kube::IsNotFound(added)) return added;
    return kube::Result{};  // the event of the addition comes
  }

  HypervisorPlan plan = PlanHypervisor(view);
  kube::Result result;
  absl::Status done;
  // The status is written before a pod is made: the hypervisor adds to a status that is there.
  const bool first = gpu_node->status.phase.empty();
  if (!first) {
    switch (plan.action) {
      case HypervisorAction::kNone:
        break;
      case HypervisorAction::kCreate:
        done = Create(view, plan);
        break;
      case HypervisorAction::kReplaceFinished:
      case HypervisorAction::kReplaceCrashLoop:
        result.requeue_after = backoff_.Remaining(key);
        if (result.requeue_after > absl::ZeroDuration()) break;
        if (plan.action == HypervisorAction::kReplaceCrashLoop) {
          manager_.events().Warning(*object, "HypervisorCrashLoopRecreate", "Recreate",
                                    absl::StrCat("the hypervisor's pod is made anew: ", plan.message));
        }
        spdlog::warn("the hypervisor of node {} is made anew: {}", key.name, plan.message);
        done = Delete(api::Pod::kResource, pod->metadata);
        if (done.ok()) backoff_.Replaced(key);
        break;
    }
  }
  if (!plan.passing || first) {
    away_.Forget(key);
  } else if (const absl::Duration left = away_.Left(key); left > absl::ZeroDuration()) {
    plan = AsShown(gpu_node->status, plan);
    result.requeue_after = left;
  }
  const api::GPUNodeStatus status = StatusOf(view, plan, manager_.clock().Now());
  api::GPUNode wanted = *gpu_node;
  wanted.status = status;
  done.Update(
      PatchStatus(manager_.client(), api::GPUNode::kResource, *object, api::ToJson(wanted).at("status")).status());
  done.Update(WritePhases(gpus, status.phase == "Running"));
  if (!done.ok()) return EndWith(done);
  return result;
}

absl::Status GpuNodeController::Create(const GpuNodeView& view, HypervisorPlan& plan) {
  const std::string vendor = VendorOf(view.gpu_node, *view.pool);
  absl::StatusOr<PodRevision> revision = revisions_.ForNewPod(*view.pool, Component::kHypervisor, vendor, ns_);
  const auto refused = [&plan](const char* reason, const absl::Status& why) {
    plan.passing = false;
    plan.reason = reason;
    plan.message = std::string(why.message());
  };
  if (!revision.ok()) {
    refused("NoRevision", revision.status());
    // A pool that says nothing about hypervisors is not asked again and again: its change wakes us.
    return absl::IsFailedPrecondition(revision.status()) ? absl::OkStatus() : revision.status();
  }
  const std::optional<api::ProviderConfig> provider = ProviderOf(providers_, vendor);
  absl::StatusOr<api::Pod> pod = HypervisorPod({.pool = *view.pool,
                                                .gpu_node = view.gpu_node,
                                                .node = *view.node,
                                                .revision = *revision,
                                                .provider = provider ? &*provider : nullptr,
                                                .ns = ns_});
  if (!pod.ok()) {
    refused("InvalidTemplate", pod.status());
    return absl::OkStatus();
  }
  const absl::Status made = api::Create(manager_.client(), *pod).status();
  if (kube::IsAlreadyExists(made)) return absl::OkStatus();
  if (!made.ok()) {
    refused("CreateFailed", made);
    if (kube::IsInvalid(made)) return absl::OkStatus();                             // only a change helps
    return kube::IsNotFound(made) ? absl::UnavailableError(made.message()) : made;  // its namespace may come
  }
  spdlog::info("node {}: hypervisor {} of revision {}", view.gpu_node.metadata.name, pod->metadata.name,
               revision->revision);
  return absl::OkStatus();
}

absl::StatusOr<kube::Result> GpuNodeController::Destroy(const Json& object, const api::GPUNode& gpu_node,
                                                        const api::Pod* pod, const GpuNodeView& view) {
  if (!gpu_node.metadata.HasFinalizer(api::kFinalizer)) return kube::Result{};
  const bool ours = pod != nullptr && pod->metadata.Controller() != nullptr &&
                    pod->metadata.Controller()->uid == gpu_node.metadata.uid;
  const bool node_lives = view.node != nullptr && api::IsReady(*view.node);
  absl::Status done;
  bool waits = false;
  if (ours) {
    if (!pod->metadata.deletionTimestamp) done = Delete(api::Pod::kResource, pod->metadata);
    waits = node_lives;
  }
  if (!waits) {
    for (const api::GPU& gpu : view.gpus) {
      waits = true;
      if (!gpu.metadata.deletionTimestamp) done.Update(Delete(api::GPU::kResource, gpu.metadata));
    }
  }
  if (done.ok() && !waits) {
    return EndWith(
        kube::RemoveFinalizer(manager_.client(), api::GPUNode::kResource, gpu_node.metadata.Key(), api::kFinalizer));
  }
  HypervisorPlan plan{.reason = "Destroying", .message = "the GPUNode is being deleted"};
  api::GPUNode wanted = gpu_node;
  wanted.status = StatusOf(view, plan, manager_.clock().Now());
  done.Update(
      PatchStatus(manager_.client(), api::GPUNode::kResource, object, api::ToJson(wanted).at("status")).status());
  return EndWith(done);
}

absl::Status GpuNodeController::Delete(const kube::Resource& resource, const api::ObjectMeta& meta) {
  kube::DeleteOptions options;
  options.uid = meta.uid;
  return UnlessGone(manager_.client().Delete(resource, meta.Key(), options));
}

absl::Status GpuNodeController::WritePhases(const std::vector<api::GPU>& gpus, bool running) {
  absl::Status done;
  for (const api::GPU& gpu : gpus) {
    if (gpu.metadata.deletionTimestamp) continue;
    JsonObject status;
    if (const std::string phase = PhaseOf(gpu, running); !phase.empty() && phase != gpu.status.phase) {
      status["phase"] = phase;
    }
    if (gpu.status.usedBy.empty()) status["usedBy"] = "tensor-fusion";
    if (status.empty()) continue;
    const Json patch = JsonObject{{"metadata", {{"uid", gpu.metadata.uid}}}, {"status", std::move(status)}};
    done.Update(
        UnlessGone(manager_.client().Patch(api::GPU::kResource, gpu.metadata.Key(), patch, {}, "status").status()));
  }
  return done;
}

}  // namespace tf::operators
