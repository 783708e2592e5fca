#include "operator/cluster_controller.h"

#include <boost/json/object.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "api/tensor_fusion_cluster.h"
#include "kube/error.h"
#include "kube/finalizers.h"
#include "operator/status_patch.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

// Its pools are looked at one by one (cluster_plan.h), so that one that cannot be read does not hide the rest.
absl::StatusOr<api::TensorFusionCluster> WithoutPools(const kube::Json& object) {
  kube::Json copy = object;
  kube::Json& spec = kube::EnsureField(copy, "spec");
  if (spec.is_object()) spec.get_object().erase("gpuPools");
  return api::FromJson<api::TensorFusionCluster>(copy);
}

// The cluster that controls the pool, and those that would have a pool of this name: they wait for its end.
kube::MapFunction ToClusters(kube::Informer& clusters) {
  return [&clusters, owner = kube::ToController(api::TensorFusionCluster::kResource)](const kube::Json& pool) {
    std::vector<kube::Key> keys = owner(pool);
    for (const kube::ObjectPtr& cluster : clusters.All()) {
      if (kube::Name(pool).starts_with(absl::StrCat(std::string(kube::Name(*cluster)), "-"))) {
        keys.push_back(kube::KeyOf(*cluster));
      }
    }
    return keys;
  };
}

// Only a change of the spec or of the pool helps, and that wakes us.
bool WillNotHelpAgain(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
}

}  // namespace

ClusterController::ClusterController(kube::Manager& manager, Caches& caches) : manager_(manager), caches_(caches) {
  kube::Controller& controller =
      manager.AddController({.name = "cluster", .reconcile = [this](const kube::Key& key) { return Reconcile(key); }});
  controller.Watch(caches.clusters, kube::ToItself(), ChangedBySomebody());
  controller.Watch(caches.pools, ToClusters(caches.clusters));
}

absl::Status ClusterController::Carry(const PoolAction& action) {
  kube::Client& client = manager_.client();
  const kube::Resource& resource = api::GPUPool::kResource;
  const kube::Key key{"", action.name};
  switch (action.kind) {
    case PoolAction::Kind::kCreate: {
      spdlog::info("GPUPool {} is made", action.name);
      const absl::Status made = client.Create(resource, action.body).status();
      // The cache does not have it yet, or somebody was faster: the event of its creation comes.
      return kube::IsAlreadyExists(made) ? absl::OkStatus() : made;
    }
    case PoolAction::Kind::kPatch: {
      spdlog::info("GPUPool {} is brought in step", action.name);
      const absl::Status patched = client.Patch(resource, key, action.body).status();
      // Conflict and not found: what we looked at is old, and the event of what is new comes.
      return kube::IsConflict(patched) || kube::IsNotFound(patched) ? absl::OkStatus() : patched;
    }
    case PoolAction::Kind::kDelete: {
      spdlog::info("GPUPool {} is deleted", action.name);
      kube::DeleteOptions options;
      options.uid = action.uid;
      const absl::Status deleted = client.Delete(resource, key, options);
      return kube::IsConflict(deleted) || kube::IsNotFound(deleted) ? absl::OkStatus() : deleted;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<kube::Result> ClusterController::Reconcile(const kube::Key& key) {
  const kube::ObjectPtr object = caches_.clusters.Get(key);
  if (object == nullptr) return kube::Result{};
  absl::StatusOr<api::TensorFusionCluster> cluster = WithoutPools(*object);
  if (!cluster.ok()) return kube::Terminal(cluster.status());
  if (kube::IsBeingDeleted(*object)) return Destroy(*object, *cluster);
  if (!cluster->metadata.HasFinalizer(api::kFinalizer)) {
    const absl::Status added =
        kube::AddFinalizer(manager_.client(), api::TensorFusionCluster::kResource, key, api::kFinalizer).status();
    return EndWith(added);  // the event of the addition comes
  }

  const ClusterPlan plan = PlanPools(*object, caches_.pools.All());
  std::vector<PoolProblem> problems = plan.problems;
  for (const PoolAction& action : plan.actions) {
    if (absl::Status carried = Carry(action); !carried.ok()) problems.push_back({action.name, std::move(carried)});
  }
  cluster->status =
      ClusterStatus(*cluster, plan, PoolsOf(*object, caches_.pools.All()), problems, manager_.clock().Now());
  if (const absl::Status written = Write(*object, *cluster); !written.ok()) return EndWith(written);
  for (const PoolProblem& problem : problems) {
    if (!WillNotHelpAgain(problem.status)) {
      return absl::Status(problem.status.code(),
                          absl::StrCat(problem.name, ": ", std::string(problem.status.message())));
    }
  }
  return kube::Result{};
}

// Pools go in any order, each as its own controller sees fit; ours is the waiting.
absl::StatusOr<kube::Result> ClusterController::Destroy(const kube::Json& object, api::TensorFusionCluster cluster) {
  if (!cluster.metadata.HasFinalizer(api::kFinalizer)) return kube::Result{};
  const std::vector<kube::ObjectPtr> pools = PoolsOf(object, caches_.pools.All());
  absl::Status failed;
  for (const kube::ObjectPtr& pool : pools) {
    if (kube::IsBeingDeleted(*pool)) continue;
    failed.Update(Carry({.kind = PoolAction::Kind::kDelete,
                         .name = std::string(kube::Name(*pool)),
                         .uid = std::string(kube::Uid(*pool))}));
  }
  if (pools.empty()) {
    return EndWith(kube::RemoveFinalizer(manager_.client(), api::TensorFusionCluster::kResource, cluster.metadata.Key(),
                                         api::kFinalizer));
  }
  cluster.status = DestroyingStatus(cluster, pools, manager_.clock().Now());
  failed.Update(Write(object, cluster));
  return EndWith(failed);
}

absl::Status ClusterController::Write(const kube::Json& object, const api::TensorFusionCluster& cluster) {
  return PatchStatus(manager_.client(), api::TensorFusionCluster::kResource, object, api::ToJson(cluster).at("status"))
      .status();
}

}  // namespace tf::operators
