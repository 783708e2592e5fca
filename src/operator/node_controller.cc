#include "operator/node_controller.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/gpu_node.h"
#include "api/gpu_pool.h"
#include "api/names.h"
#include "api/typed.h"
#include "kube/error.h"
#include "kube/owners.h"
#include "operator/status_patch.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonObject;

// What decides about a node, and not its heartbeat.
bool NodeChanged(const kube::ChangeView& change) {
  if (change.before == nullptr) return true;
  for (const char* path : {"metadata.labels", "metadata.deletionTimestamp", "spec.unschedulable"}) {
    const Json* before = kube::Field(*change.before, path);
    const Json* now = kube::Field(change.object, path);
    if ((before == nullptr) != (now == nullptr) || (before != nullptr && *before != *now)) return true;
  }
  return false;
}

bool PoolSpecChanged(const kube::ChangeView& change) {
  return change.before == nullptr ||
         kube::Number(*change.before, "metadata.generation") != kube::Number(change.object, "metadata.generation") ||
         kube::IsBeingDeleted(*change.before) != kube::IsBeingDeleted(change.object);
}

// A pool may concern any node.
kube::MapFunction ToAllNodes(kube::Informer& nodes, kube::Informer& gpu_nodes) {
  return [&](const Json&) {
    std::vector<kube::Key> keys;
    for (kube::Informer* informer : {&nodes, &gpu_nodes}) {
      for (const kube::ObjectPtr& one : informer->All()) keys.push_back(kube::KeyOf(*one));
    }
    return keys;  // the queue has each once
  };
}

// Pools that cannot be read take nothing, and stop nobody.
std::vector<api::GPUPool> Readable(const std::vector<kube::ObjectPtr>& objects) {
  std::vector<api::GPUPool> pools;
  for (const kube::ObjectPtr& object : objects) {
    absl::StatusOr<api::GPUPool> pool = api::FromObject<api::GPUPool>(*object);
    if (pool.ok()) {
      pools.push_back(*std::move(pool));
    } else {
      spdlog::warn("it takes no nodes: {}", std::string(pool.status().message()));
    }
  }
  return pools;
}

std::string PoolLabel(std::string_view pool) { return absl::StrCat(api::kPoolLabelPrefix, std::string(pool)); }

// The pool that has it; "": none. Its controller counts, for labels are easily changed by hand.
std::string PoolOf(const Json& gpu_node) {
  const Json* controller = kube::ControllerOf(gpu_node);
  if (controller != nullptr && kube::Text(*controller, "kind") == api::GPUPool::kResource.kind) {
    return std::string(kube::Text(*controller, "name"));
  }
  return std::string(kube::Label(gpu_node, api::kManagedByLabel));
}

}  // namespace

NodeController::NodeController(kube::Manager& manager, Caches& caches) : manager_(manager), caches_(caches) {
  kube::Controller& controller = manager.AddController(
      {.name = "node", .workers = 4, .reconcile = [this](const kube::Key& key) { return Reconcile(key); }});
  controller.Watch(caches.nodes, kube::ToItself(), NodeChanged);
  controller.Watch(caches.gpu_nodes, kube::ToItself(), ChangedBySomebody());
  controller.Watch(caches.pools, ToAllNodes(caches.nodes, caches.gpu_nodes), PoolSpecChanged);
}

absl::StatusOr<kube::Result> NodeController::Reconcile(const kube::Key& key) {
  const kube::ObjectPtr node = caches_.nodes.Get(key);
  const kube::ObjectPtr gpu_node = caches_.gpu_nodes.Get(key);
  if (gpu_node != nullptr && kube::IsBeingDeleted(*gpu_node)) return kube::Result{};  // its end brings us back
  const std::string current = gpu_node == nullptr ? "" : PoolOf(*gpu_node);
  const std::string known_vendor(gpu_node == nullptr ? "" : kube::Label(*gpu_node, api::kVendorLabel));

  std::optional<PoolChoice> choice;
  if (node != nullptr && !kube::IsBeingDeleted(*node)) {
    choice = ChoosePool(Readable(caches_.pools.All()), FactsOf(*node), current);
    const bool newly = choice && choice->pool != current;
    if (newly && kube::Flag(*node, "spec.unschedulable")) choice.reset();
  }
  absl::Status done;
  if (!choice || (!current.empty() && choice->pool != current)) {
    if (gpu_node == nullptr) return kube::Result{};
    done = Delete(*gpu_node, node == nullptr ? "its node is gone"
                             : choice        ? "another pool takes its node"
                                             : "no pool takes its node");
    if (!choice) done.Update(SetVendor(node.get(), known_vendor, ""));
  } else {
    const kube::ObjectPtr pool = caches_.pools.Get({"", choice->pool});
    if (pool == nullptr) return kube::Result{};  // gone meanwhile; its end brings us back
    done = gpu_node == nullptr ? Create(*node, *pool, *choice) : KeepInStep(*gpu_node, *pool, *choice);
    done.Update(SetVendor(node.get(), known_vendor, choice->vendor));
  }
  if (!done.ok()) return done;
  return kube::Result{};
}

absl::Status NodeController::Create(const Json& node, const Json& pool, const PoolChoice& choice) {
  Json object = JsonObject{
      {"apiVersion", api::GPUNode::kResource.ApiVersion()},
      {"kind", api::GPUNode::kResource.kind},
      {"metadata",
       {{"name", kube::Name(node)},
        {"finalizers", boost::json::array{api::kFinalizer}},  // here, and not in a second request
        {"labels",
         {{api::kManagedByLabel, choice.pool}, {PoolLabel(choice.pool), "true"}, {api::kVendorLabel, choice.vendor}}}}},
      {"spec", {{"manageMode", "AutoSelect"}}}};
  if (absl::Status set = kube::SetController(object, pool); !set.ok()) return set;
  const absl::Status made = manager_.client().Create(api::GPUNode::kResource, object).status();
  if (made.ok()) {
    spdlog::info("node {} is taken by pool {} ({})", std::string(kube::Name(node)), choice.pool, choice.vendor);
    manager_.events().Normal(pool, "NodeTaken", "Take",
                             absl::StrCat("node ", std::string(kube::Name(node)), " is in this pool now"));
  }
  return kube::IsAlreadyExists(made) ? absl::OkStatus() : made;
}

absl::Status NodeController::KeepInStep(const Json& gpu_node, const Json& pool, const PoolChoice& choice) {
  JsonObject labels;
  for (const auto& [name, value] : {std::pair<std::string, std::string>{api::kManagedByLabel, choice.pool},
                                    {PoolLabel(choice.pool), "true"},
                                    {api::kVendorLabel, choice.vendor}}) {
    if (kube::Label(gpu_node, name) != value) labels[name] = value;
  }
  Json metadata = JsonObject();
  if (!labels.empty()) metadata.get_object()["labels"] = std::move(labels);
  if (!kube::IsControlledBy(gpu_node, pool)) {
    // A pool of the same name that was deleted and made again: its nodes are its own.
    Json object = JsonObject{{"metadata", JsonObject()}};
    if (absl::Status set = kube::SetController(object, pool); !set.ok()) return set;
    metadata.get_object()["ownerReferences"] = object.at("metadata").at("ownerReferences");
  }
  if (metadata.get_object().empty()) return absl::OkStatus();
  metadata.get_object()["resourceVersion"] = kube::ResourceVersion(gpu_node);
  const Json patch = JsonObject{{"metadata", std::move(metadata)}};
  return UnlessGone(manager_.client().Patch(api::GPUNode::kResource, kube::KeyOf(gpu_node), patch).status());
}

absl::Status NodeController::Delete(const Json& gpu_node, const char* why) {
  spdlog::info("GPUNode {} is deleted: {}", std::string(kube::Name(gpu_node)), why);
  kube::DeleteOptions options;
  options.uid = kube::Uid(gpu_node);
  return UnlessGone(manager_.client().Delete(api::GPUNode::kResource, kube::KeyOf(gpu_node), options));
}

absl::Status NodeController::SetVendor(const Json* node, std::string_view before, std::string_view vendor) {
  if (node == nullptr || kube::IsBeingDeleted(*node)) return absl::OkStatus();
  const std::string_view have = kube::Label(*node, api::kVendorLabel);
  const bool ours = have.empty() || have == before;
  if (have == vendor || !ours) return absl::OkStatus();
  Json patch = JsonObject{{"metadata", {{"labels", {{api::kVendorLabel, nullptr}}}}}};
  if (!vendor.empty()) patch.at("metadata").at("labels").at(api::kVendorLabel) = vendor;
  return UnlessGone(manager_.client().Patch(kube::core::kNode, kube::KeyOf(*node), patch).status());
}

}  // namespace tf::operators
