#include "operator/cluster_plan.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/defaults.h"
#include "api/names.h"
#include "kube/merge_patch.h"
#include "kube/owners.h"
#include "operator/capacity.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonObject;
using kube::ObjectPtr;

// "tensor-fusion.ai/pool-" + the name is a label of nodes, and what follows the slash has at most 63 characters.
constexpr size_t kLongestName = 58;

absl::StatusOr<Json> SpecWithDefaults(const Json* spec) {
  Json object = JsonObject();
  if (spec != nullptr) object.get_object()["spec"] = *spec;
  absl::StatusOr<api::GPUPool> pool = api::FromJson<api::GPUPool>(object);
  if (!pool.ok()) return pool.status();
  pool->spec = api::WithDefaults(std::move(pool->spec));
  return api::ToJson(*pool).at("spec");
}

std::string_view DefaultFlag(const Json& definition) { return kube::Flag(definition, "isDefault") ? "true" : "false"; }

Json NewPool(const Json& cluster, const Json& definition, const std::string& name) {
  JsonObject labels;
  if (const Json* own = kube::Field(cluster, "metadata.labels"); own != nullptr && own->is_object()) {
    labels = own->get_object();
  }
  labels[api::kManagedByLabel] = kube::Name(cluster);
  Json pool = JsonObject{{"apiVersion", api::GPUPool::kResource.ApiVersion()},
                         {"kind", api::GPUPool::kResource.kind},
                         {"metadata",
                          {{"name", name},
                           {"labels", std::move(labels)},
                           {"annotations", {{api::kDefaultPoolAnnotation, DefaultFlag(definition)}}},
                           {"finalizers", boost::json::array{api::kFinalizer}}}},
                         {"spec", JsonObject()}};
  if (const Json* spec = kube::Field(definition, "specTemplate")) pool.at("spec") = *spec;
  return pool;
}

// Is the pool one that its cluster lost by a restore or a deletion that left it behind?
bool IsOrphanOf(const Json& pool, const Json& cluster) {
  const Json* controller = kube::ControllerOf(pool);
  if (controller == nullptr) return kube::Label(pool, api::kManagedByLabel) == kube::Name(cluster);
  return kube::Text(*controller, "kind") == api::TensorFusionCluster::kResource.kind &&
         kube::Text(*controller, "name") == kube::Name(cluster);
}

// Without references to earlier incarnations of the cluster.
absl::StatusOr<Json> OwnersWith(const Json& pool, const Json& cluster) {
  Json object = JsonObject{{"metadata", {{"ownerReferences", boost::json::array()}}}};
  boost::json::array& owners = object.at("metadata").at("ownerReferences").get_array();
  if (const Json* known = kube::Field(pool, "metadata.ownerReferences"); known != nullptr && known->is_array()) {
    for (const Json& owner : known->get_array()) {
      if (kube::Text(owner, "kind") != api::TensorFusionCluster::kResource.kind) owners.push_back(owner);
    }
  }
  if (absl::Status set = kube::SetController(object, cluster); !set.ok()) return set;
  return object.at("metadata").at("ownerReferences");
}

JsonObject& ObjectAt(Json& object, std::string_view path) {
  Json& place = kube::EnsureField(object, path);
  return place.is_object() ? place.get_object() : place.emplace_object();
}

// The merge patch for a pool that is there; {}: it is as it should be.
absl::StatusOr<Json> PoolPatch(const Json& cluster, const Json& definition, const Json& pool) {
  Json patch = JsonObject();
  const absl::StatusOr<Json> wanted = SpecWithDefaults(kube::Field(definition, "specTemplate"));
  if (!wanted.ok()) return wanted.status();
  const Json* spec = kube::Field(pool, "spec");
  const absl::StatusOr<Json> present = SpecWithDefaults(spec);
  const Json change = kube::MergePatch(present.ok() ? *present : spec == nullptr ? Json(JsonObject()) : *spec, *wanted);
  if (!kube::IsEmptyPatch(change)) patch.get_object()["spec"] = change;

  if (const Json* labels = kube::Field(cluster, "metadata.labels"); labels != nullptr && labels->is_object()) {
    const Json* have = kube::Field(pool, "metadata.labels");
    for (const auto& label : labels->get_object()) {
      if (label.key() == api::kManagedByLabel) continue;
      if (have != nullptr && have->is_object() && have->get_object().contains(label.key())) continue;
      ObjectAt(patch, "metadata.labels")[label.key()] = label.value();
    }
  }
  if (kube::Label(pool, api::kManagedByLabel) != kube::Name(cluster)) {
    ObjectAt(patch, "metadata.labels")[api::kManagedByLabel] = kube::Name(cluster);
  }
  if (kube::Annotation(pool, api::kDefaultPoolAnnotation) != DefaultFlag(definition)) {
    ObjectAt(patch, "metadata.annotations")[api::kDefaultPoolAnnotation] = DefaultFlag(definition);
  }
  if (!kube::IsControlledBy(pool, cluster)) {
    absl::StatusOr<Json> owners = OwnersWith(pool, cluster);
    if (!owners.ok()) return owners.status();
    kube::EnsureField(patch, "metadata.ownerReferences") = *std::move(owners);
  }
  if (!kube::IsEmptyPatch(patch)) {
    kube::EnsureField(patch, "metadata.resourceVersion") = kube::ResourceVersion(pool);
  }
  return patch;
}

absl::Status PlanPool(const Json& cluster, const Json& definition, const std::string& name, const Json* pool,
                      std::vector<PoolAction>& actions) {
  if (name.size() > kLongestName) {
    return absl::InvalidArgumentError(absl::StrCat("the name has ", name.size(),
                                                   " characters; it becomes part of a "
                                                   "label of nodes, where CLUSTER-POOL has room for ",
                                                   kLongestName));
  }
  if (pool == nullptr) {
    const absl::StatusOr<Json> readable = SpecWithDefaults(kube::Field(definition, "specTemplate"));
    if (!readable.ok()) return readable.status();
    Json object = NewPool(cluster, definition, name);
    if (absl::Status set = kube::SetController(object, cluster); !set.ok()) return set;
    actions.push_back({.kind = PoolAction::Kind::kCreate, .name = name, .body = std::move(object)});
    return absl::OkStatus();
  }
  if (kube::IsBeingDeleted(*pool)) return absl::OkStatus();
  if (!kube::IsControlledBy(*pool, cluster) && !IsOrphanOf(*pool, cluster)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a GPUPool of this name is there that the cluster did not make; delete it, or give it the label ",
        api::kManagedByLabel, "=", std::string(kube::Name(cluster)), " and no controller, to hand it over"));
  }
  absl::StatusOr<Json> patch = PoolPatch(cluster, definition, *pool);
  if (!patch.ok()) return patch.status();
  if (kube::IsEmptyPatch(*patch)) return absl::OkStatus();
  actions.push_back({.kind = PoolAction::Kind::kPatch, .name = name, .body = *std::move(patch)});
  return absl::OkStatus();
}

const Json* Find(const std::vector<ObjectPtr>& pools, std::string_view name) {
  for (const ObjectPtr& pool : pools) {
    if (kube::Name(*pool) == name) return pool.get();
  }
  return nullptr;
}

// Running with the spec that is there now.
bool IsReady(const Json& pool) {
  return !kube::IsBeingDeleted(pool) && kube::Text(pool, "status.phase") == "Running" &&
         kube::Number(pool, "status.observedGeneration") >= kube::Number(pool, "metadata.generation");
}

// Why it is not ready, as its own condition says.
std::string Why(const Json* pool) {
  if (pool == nullptr) return "is not there yet";
  if (kube::IsBeingDeleted(*pool)) return "is being deleted";
  if (const Json* conditions = kube::Field(*pool, "status.conditions");
      conditions != nullptr && conditions->is_array()) {
    for (const Json& condition : conditions->get_array()) {
      if (kube::Text(condition, "type") == "Ready" && kube::Text(condition, "status") == "False") {
        return std::string(kube::Text(condition, "message"));
      }
    }
  }
  const std::string_view phase = kube::Text(*pool, "status.phase");
  return absl::StrCat("is ", phase.empty() ? "Pending" : std::string(phase));
}

void SetCloudCondition(const api::TensorFusionCluster& cluster, api::TensorFusionClusterStatus& status,
                       absl::Time now) {
  static constexpr char kType[] = "CloudVendorConnectionReady";
  const bool asked = cluster.spec.computingVendor && cluster.spec.computingVendor->enable.value_or(true);
  if (!asked) {
    std::erase_if(status.conditions, [](const api::Condition& one) { return one.type == kType; });
    return;
  }
  api::SetCondition(
      status.conditions,
      {.type = kType,
       .status = "False",
       .reason = "CloudVendorConnectionFailed",
       .message = absl::StrCat("spec.computingVendor: making nodes at a cloud (", cluster.spec.computingVendor->type,
                               ") is not supported; pools take the nodes that their selectors match"),
       .observedGeneration = cluster.metadata.generation},
      now);
}

}  // namespace

ClusterPlan PlanPools(const Json& cluster, const std::vector<ObjectPtr>& pools) {
  ClusterPlan plan;
  const Json* definitions = kube::Field(cluster, "spec.gpuPools");
  if (definitions != nullptr && !definitions->is_array()) {
    plan.problems.push_back({"spec.gpuPools", absl::InvalidArgumentError("expected a list of pools")});
    return plan;
  }
  if (definitions != nullptr) {
    for (const Json& definition : definitions->get_array()) {
      const std::string name =
          absl::StrCat(std::string(kube::Name(cluster)), "-", std::string(kube::Text(definition, "name")));
      plan.wanted.push_back(name);
      if (absl::Status planned = PlanPool(cluster, definition, name, Find(pools, name), plan.actions); !planned.ok()) {
        plan.problems.push_back({name, std::move(planned)});
      }
    }
  }
  for (const ObjectPtr& pool : PoolsOf(cluster, pools)) {
    const std::string name(kube::Name(*pool));
    if (kube::IsBeingDeleted(*pool) || std::find(plan.wanted.begin(), plan.wanted.end(), name) != plan.wanted.end()) {
      continue;
    }
    plan.actions.push_back({.kind = PoolAction::Kind::kDelete, .name = name, .uid = std::string(kube::Uid(*pool))});
  }
  return plan;
}

std::vector<ObjectPtr> PoolsOf(const Json& cluster, const std::vector<ObjectPtr>& pools) {
  std::vector<ObjectPtr> own;
  std::copy_if(pools.begin(), pools.end(), std::back_inserter(own),
               [&](const ObjectPtr& pool) { return kube::IsControlledBy(*pool, cluster); });
  std::sort(own.begin(), own.end(),
            [](const ObjectPtr& a, const ObjectPtr& b) { return kube::Name(*a) < kube::Name(*b); });
  return own;
}

api::TensorFusionClusterStatus ClusterStatus(const api::TensorFusionCluster& cluster, const ClusterPlan& plan,
                                             const std::vector<ObjectPtr>& pools,
                                             const std::vector<PoolProblem>& problems, absl::Time now) {
  api::TensorFusionClusterStatus status = cluster.status;
  status.observedGeneration = cluster.metadata.generation;
  status.totalPools = static_cast<int32_t>(plan.wanted.size());
  Write(SumOfPools(pools), status);
  status.retryCount = problems.empty() ? 0 : cluster.status.retryCount + 1;
  status.readyGPUPools.clear();
  status.notReadyGPUPools.clear();
  std::vector<std::string> waiting;
  for (const std::string& name : plan.wanted) {
    const Json* pool = Find(pools, name);
    const auto problem =
        std::find_if(problems.begin(), problems.end(), [&](const PoolProblem& one) { return one.name == name; });
    if (pool != nullptr && IsReady(*pool) && problem == problems.end()) {
      status.readyGPUPools.push_back(name);
      continue;
    }
    status.notReadyGPUPools.push_back(name);
    if (problem == problems.end()) waiting.push_back(absl::StrCat(name, ": ", Why(pool)));
  }
  for (const ObjectPtr& pool : pools) {
    const std::string name(kube::Name(*pool));
    if (std::find(plan.wanted.begin(), plan.wanted.end(), name) == plan.wanted.end()) {
      waiting.push_back(absl::StrCat(name, ": is being deleted"));
    }
  }
  std::vector<std::string> failed;
  for (const PoolProblem& problem : problems) {
    failed.push_back(absl::StrCat(problem.name, ": ", std::string(problem.status.message())));
  }

  const bool ready = waiting.empty() && failed.empty();
  const bool new_cluster = cluster.status.phase.empty() || cluster.status.phase == "Pending";
  status.phase = ready ? "Running" : new_cluster ? "Pending" : "Updating";
  std::vector<std::string> all = failed;
  all.insert(all.end(), waiting.begin(), waiting.end());
  const std::string message = ready ? "all pools are Running" : Some(all);
  const auto set = [&](const char* type, const char* state, const char* reason, std::string text) {
    api::SetCondition(status.conditions,
                      {.type = type,
                       .status = state,
                       .reason = reason,
                       .message = std::move(text),
                       .observedGeneration = cluster.metadata.generation},
                      now);
  };
  set("GPUPoolReady", ready ? "True" : "False",
      ready            ? "CheckPassed"
      : failed.empty() ? "StillChecking"
                       : "PoolError",
      message);
  set("TimeSeriesDatabaseReady", "True", "CheckPassed", "none is needed: metrics are served to whoever asks for them");
  SetCloudCondition(cluster, status, now);
  const bool unknown = std::any_of(problems.begin(), problems.end(), [](const PoolProblem& problem) {
    return !absl::IsInvalidArgument(problem.status) && !absl::IsFailedPrecondition(problem.status);
  });
  set("Ready",
      ready     ? "True"
      : unknown ? "Unknown"
                : "False",
      ready         ? "CheckPassed"
      : unknown     ? "UnknownState"
      : new_cluster ? "NewCreation"
                    : "ResourcesUpdated",
      message);
  return status;
}

api::TensorFusionClusterStatus DestroyingStatus(const api::TensorFusionCluster& cluster,
                                                const std::vector<ObjectPtr>& pools, absl::Time now) {
  api::TensorFusionClusterStatus status = cluster.status;
  status.observedGeneration = cluster.metadata.generation;
  status.phase = "Destroying";
  Write(SumOfPools(pools), status);
  status.totalPools = static_cast<int32_t>(pools.size());
  status.readyGPUPools.clear();
  status.notReadyGPUPools.clear();
  for (const ObjectPtr& pool : pools) status.notReadyGPUPools.emplace_back(kube::Name(*pool));
  api::SetCondition(status.conditions,
                    {.type = "Ready",
                     .status = "False",
                     .reason = "Destroying",
                     .message = pools.empty() ? "all pools are gone"
                                              : absl::StrCat("waits for the end of ", Some(status.notReadyGPUPools)),
                     .observedGeneration = cluster.metadata.generation},
                    now);
  return status;
}

}  // namespace tf::operators
