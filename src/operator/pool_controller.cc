#include "operator/pool_controller.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "api/gpu_node.h"
#include "api/names.h"
#include "api/typed.h"
#include "kube/error.h"
#include "kube/finalizers.h"
#include "operator/capacity.h"
#include "operator/pool_status.h"
#include "operator/status_patch.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

// Nodes change in swarms; one pass speaks of all that changed within this time.
constexpr absl::Duration kGather = absl::Milliseconds(250);

kube::Handler LookAfterAWhile(kube::WorkQueue& queue) {
  const auto look = [&queue](const kube::Json& node) {
    if (const std::string_view pool = kube::Label(node, api::kManagedByLabel); !pool.empty()) {
      queue.AddAfter({"", std::string(pool)}, kGather);
    }
  };
  return {.added = [look](const kube::ObjectPtr& node, bool) { look(*node); },
          .updated =
              [look](const kube::ObjectPtr& before, const kube::ObjectPtr& node) {
                look(*node);
                if (kube::Label(*before, api::kManagedByLabel) != kube::Label(*node, api::kManagedByLabel)) {
                  look(*before);
                }
              },
          .deleted = [look](const kube::ObjectPtr& node, bool) { look(*node); }};
}

}  // namespace

PoolController::PoolController(kube::Manager& manager, Caches& caches, PoolRollouts& rollouts)
    : manager_(manager), caches_(caches), rollouts_(rollouts) {
  kube::Controller& controller =
      manager.AddController({.name = "pool", .reconcile = [this](const kube::Key& key) { return Reconcile(key); }});
  controller.Watch(caches.pools, kube::ToItself(), ChangedBySomebody());
  caches.gpu_nodes.AddHandler(LookAfterAWhile(controller.queue()));
  controller.AddSource([&caches](absl::Duration limit) { return caches.gpu_nodes.WaitForSync(limit); });
  rollouts.Watch(controller);
}

absl::StatusOr<kube::Result> PoolController::Reconcile(const kube::Key& key) {
  const kube::ObjectPtr object = caches_.pools.Get(key);
  if (object == nullptr) {
    rollouts_.Forget(key.name);
    return kube::Result{};
  }
  absl::StatusOr<api::GPUPool> pool = api::FromObject<api::GPUPool>(*object);
  if (!pool.ok()) return kube::Terminal(pool.status());
  if (kube::IsBeingDeleted(*object)) return Destroy(*object, *std::move(pool));
  if (!pool->metadata.HasFinalizer(api::kFinalizer)) {
    const absl::Status added =
        kube::AddFinalizer(manager_.client(), api::GPUPool::kResource, key, api::kFinalizer).status();
    return EndWith(added);  // the event of the addition comes
  }
  const absl::Time now = manager_.clock().Now();
  SetCapacity(SumOfNodes(caches_.gpu_nodes.ByIndex(kByPool, key.name)), *pool, now);
  const RolloutPlan plan = rollouts_.Plan(*object, *pool, now);
  // What is planned stands on what was written: not on an older state, which a conflict says.
  if (const absl::Status written = Write(*object, *pool, plan.must_write()); !written.ok()) return EndWith(written);
  if (rollouts_.Act(*object, plan)) return kube::Result{.requeue_after = kGather};
  if (plan.next_look == absl::InfiniteFuture()) return kube::Result{};
  return kube::Result{.requeue_after = std::max(kGather, plan.next_look - now)};
}

absl::StatusOr<kube::Result> PoolController::Destroy(const kube::Json& object, api::GPUPool pool) {
  if (!pool.metadata.HasFinalizer(api::kFinalizer)) return kube::Result{};
  const std::vector<kube::ObjectPtr> nodes = caches_.gpu_nodes.ByIndex(kByPool, pool.metadata.name);
  if (nodes.empty()) {
    spdlog::info("GPUPool {} is done: none of its GPUNodes is left", pool.metadata.name);
    return EndWith(
        kube::RemoveFinalizer(manager_.client(), api::GPUPool::kResource, pool.metadata.Key(), api::kFinalizer));
  }
  absl::Status failed;
  std::vector<std::string> names;
  for (const kube::ObjectPtr& node : nodes) {
    names.emplace_back(kube::Name(*node));
    if (kube::IsBeingDeleted(*node)) continue;
    kube::DeleteOptions options;
    options.uid = kube::Uid(*node);
    const absl::Status deleted = manager_.client().Delete(api::GPUNode::kResource, kube::KeyOf(*node), options);
    if (!kube::IsConflict(deleted) && !kube::IsNotFound(deleted)) failed.Update(deleted);
  }
  std::sort(names.begin(), names.end());
  SetDestroying(SumOfNodes(nodes), names, pool, manager_.clock().Now());
  failed.Update(Write(object, pool));
  return EndWith(failed);
}

absl::Status PoolController::Write(const kube::Json& object, const api::GPUPool& pool, bool always) {
  return PatchStatus(manager_.client(), api::GPUPool::kResource, object, api::ToJson(pool).at("status"), always)
      .status();
}

}  // namespace tf::operators
