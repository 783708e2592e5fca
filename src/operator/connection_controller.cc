#include "operator/connection_controller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "api/typed.h"
#include "api/workload.h"
#include "kube/error.h"
#include "kube/owners.h"
#include "operator/connection_plan.h"
#include "operator/pod_request.h"
#include "operator/pod_view.h"
#include "operator/pod_webhook.h"
#include "operator/status_patch.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

using kube::Json;

std::string Text(std::string_view text) { return std::string(text); }

bool IsClient(const Json& pod) {
  return kube::Label(pod, api::kComponentLabel) == api::kClientComponent &&
         !kube::Annotation(pod, api::kConnectionAnnotation).empty() &&
         !kube::Annotation(pod, api::kSelectedWorkloadAnnotation).empty();
}

// Of what controls workers' pods, those of a TensorFusionWorkload.
std::string WorkloadOf(const Json& pod) { return Text(kube::Label(pod, api::kWorkloadLabel)); }

}  // namespace

ConnectionController::ConnectionController(kube::Manager& manager, Caches& caches, PodCaches& pods)
    : manager_(manager), caches_(caches), pods_(pods), workloads_(caches.workloads), profiles_(caches.profiles) {
  kube::Controller& clients = manager.AddController(
      {.name = "client", .workers = 4, .reconcile = [this](const kube::Key& key) { return ReconcileClient(key); }});
  clients.Watch(pods_.applications, kube::ToItself(), [](const kube::ChangeView& change) {
    return IsClient(change.object) && (change.before == nullptr || IsFinished(change.object));
  });
  // What somebody takes away is made again.
  clients.Watch(
      caches.connections,
      [](const Json& connection) {
        return std::vector<kube::Key>{
            {Text(kube::Namespace(connection)), Text(kube::Text(connection, "spec.clientPod"))}};
      },
      [](const kube::ChangeView& change) { return change.kind == kube::ChangeView::Kind::kDeleted; });
  clients.Watch(
      workloads_,
      [this](const Json& workload) {
        std::vector<kube::Key> keys;
        for (const kube::ObjectPtr& pod :
             pods_.applications.ByIndex(kPodsByWorkload, kube::KeyOf(workload).ToString())) {
          keys.push_back(kube::KeyOf(*pod));
        }
        return keys;
      },
      [](const kube::ChangeView& change) { return change.kind == kube::ChangeView::Kind::kDeleted; });
  clients.AddSource([this](absl::Duration limit) { return profiles_.WaitForSync(limit); });
  clients.AddSource([&caches](absl::Duration limit) { return caches.pools.WaitForSync(limit); });

  kube::Controller& connections =
      manager.AddController({.name = "connection", .workers = 4, .reconcile = [this](const kube::Key& key) {
                               return ReconcileConnection(key);
                             }});
  connections.Watch(caches.connections);
  connections.Watch(
      workloads_,
      [this](const Json& workload) {
        std::vector<kube::Key> keys;
        for (const kube::ObjectPtr& connection :
             caches_.connections.ByIndex(kConnectionsByWorkload, kube::KeyOf(workload).ToString())) {
          keys.push_back(kube::KeyOf(*connection));
        }
        return keys;
      },
      kube::GenerationChanged());
  connections.Watch(pods_.components, [this](const Json& pod) {
    std::vector<kube::Key> keys;
    if (kube::Label(pod, api::kComponentLabel) != api::kWorkerComponent) return keys;
    const std::string ns = Text(kube::Namespace(pod));
    if (const std::string own = Text(kube::Annotation(pod, api::kConnectionAnnotation)); !own.empty()) {
      keys.push_back({ns, own});
      return keys;
    }
    for (const kube::ObjectPtr& connection :
         caches_.connections.ByIndex(kConnectionsByWorkload, absl::StrCat(ns, "/", WorkloadOf(pod)))) {
      keys.push_back(kube::KeyOf(*connection));
    }
    return keys;
  });
}

absl::StatusOr<kube::Result> ConnectionController::ReconcileClient(const kube::Key& key) {
  const kube::ObjectPtr pod = pods_.applications.Get(key);
  if (pod == nullptr || !IsClient(*pod)) return kube::Result{};  // what it owns goes with it
  if (IsFinished(*pod)) {
    const kube::Key name{key.ns, Text(kube::Annotation(*pod, api::kConnectionAnnotation))};
    const kube::ObjectPtr connection = caches_.connections.Get(name);
    if (connection == nullptr || !kube::IsControlledBy(*connection, *pod)) return kube::Result{};
    kube::DeleteOptions options;
    options.uid = Text(kube::Uid(*connection));
    return EndWith(manager_.client().Delete(api::TensorFusionConnection::kResource, name, options));
  }
  if (kube::IsBeingDeleted(*pod)) return kube::Result{};
  absl::Status done = EnsureWorkload(*pod);
  if (done.ok()) done = EnsureConnection(*pod);
  if (absl::IsInvalidArgument(done) || absl::IsFailedPrecondition(done)) {
    manager_.events().Warning(*pod, "VgpuRequestInvalid", "Connect", std::string(done.message()));
    return kube::Terminal(done);
  }
  if (!done.ok()) return EndWith(done);
  return kube::Result{};
}

absl::Status ConnectionController::EnsureWorkload(const Json& object) {
  absl::StatusOr<api::Pod> pod = api::FromObject<api::Pod>(object);
  if (!pod.ok()) return pod.status();
  const kube::Key key{pod->metadata.namespace_, Text(pod->metadata.Annotation(api::kSelectedWorkloadAnnotation))};
  const kube::ObjectPtr known = workloads_.Get(key);
  if (known != nullptr && kube::IsBeingDeleted(*known)) {
    return absl::UnavailableError(absl::StrCat("TensorFusionWorkload ", key.ToString(), " is being deleted"));
  }
  const absl::StatusOr<api::GPUPool> pool =
      FindPool(caches_.pools.All(), Text(pod->metadata.Annotation(api::kPoolAnnotation)));
  if (!pool.ok()) return pool.status();
  std::optional<api::WorkloadProfile> profile;
  if (const std::string name = Text(pod->metadata.Annotation(api::kProfileAnnotation)); !name.empty()) {
    if (const kube::ObjectPtr found = profiles_.Get({key.ns, name})) {
      absl::StatusOr<api::WorkloadProfile> read = api::FromObject<api::WorkloadProfile>(found);
      if (!read.ok()) return read.status();
      profile = *std::move(read);
    }
  }
  const absl::StatusOr<PodRequest> request =
      ReadPodRequest({.pod = *pod, .pool = *pool, .profile = profile ? &*profile : nullptr});
  if (!request.ok()) return request.status();
  bool youngest = true;
  for (const kube::ObjectPtr& other : pods_.applications.ByIndex(kPodsByWorkload, key.ToString())) {
    if (IsYounger(*other, object) && !kube::IsBeingDeleted(*other)) youngest = false;
  }
  const WorkloadChange change = ChangeOfWorkload(object, request->spec, youngest, known.get());
  switch (change.kind) {
    case WorkloadChange::Kind::kNone:
      return absl::OkStatus();
    case WorkloadChange::Kind::kCreate: {
      const absl::Status made = manager_.client().Create(api::TensorFusionWorkload::kResource, change.body).status();
      if (made.ok()) spdlog::info("workload {} is made for pod {}", key.ToString(), pod->metadata.name);
      // Another pod of the same owner was faster: the cache shows it in a moment.
      return kube::IsAlreadyExists(made) ? absl::AbortedError(made.message()) : made;
    }
    case WorkloadChange::Kind::kPatch:
      return manager_.client().Patch(api::TensorFusionWorkload::kResource, key, change.body).status();
  }
  return absl::OkStatus();
}

absl::Status ConnectionController::EnsureConnection(const Json& pod) {
  const api::TensorFusionConnection wanted = ConnectionOf(pod);
  const kube::Key key = wanted.metadata.Key();
  const kube::ObjectPtr known = caches_.connections.Get(key);
  if (known != nullptr) {
    if (kube::IsControlledBy(*known, pod)) return absl::OkStatus();
    // That of an earlier pod of the same name, which is being collected; its deletion brings us back.
    return absl::UnavailableError(absl::StrCat("TensorFusionConnection ", key.ToString(), " belongs to another pod"));
  }
  const absl::Status made = api::Create(manager_.client(), wanted).status();
  return kube::IsAlreadyExists(made) ? absl::AbortedError(made.message()) : made;
}

const Json* ConnectionController::Choose(const kube::Key& key, const Json& connection, const Json& workload,
                                         const std::vector<kube::ObjectPtr>& workers) {
  std::lock_guard lock(mutex_);
  std::map<std::string, int, std::less<>> clients;
  if (kube::Field(workload, "spec.replicas") != nullptr) {
    for (const kube::ObjectPtr& other :
         caches_.connections.ByIndex(kConnectionsByWorkload, kube::KeyOf(workload).ToString())) {
      const kube::Key other_key = kube::KeyOf(*other);
      if (other_key == key || kube::IsBeingDeleted(*other)) continue;
      const auto chosen = chosen_.find(other_key);
      ++clients[chosen != chosen_.end() ? chosen->second : Text(kube::Text(*other, "status.workerName"))];
    }
  }
  const Json* worker = ChooseWorker(kube::Text(connection, "status.workerName"), workers, clients);
  chosen_[key] = worker == nullptr ? "" : Text(kube::Name(*worker));
  return worker;
}

absl::StatusOr<kube::Result> ConnectionController::ReconcileConnection(const kube::Key& key) {
  const kube::ObjectPtr connection = caches_.connections.Get(key);
  if (connection == nullptr || kube::IsBeingDeleted(*connection)) {
    std::lock_guard lock(mutex_);
    chosen_.erase(key);
    return kube::Result{};
  }
  const kube::Key workload_key{key.ns, Text(kube::Text(*connection, "spec.workloadName"))};
  const kube::ObjectPtr workload = workloads_.Get(workload_key);
  std::vector<kube::ObjectPtr> workers;
  if (workload != nullptr) {
    const bool shared = kube::Field(*workload, "spec.replicas") != nullptr;
    workers = pods_.components.ByIndex(shared ? kPodsByWorkload : kPodsByConnection,
                                       shared ? workload_key.ToString() : key.ToString());
    // Labels are anybody's to write; a controller is not.
    std::erase_if(workers, [&](const kube::ObjectPtr& worker) { return !kube::IsControlledBy(*worker, *workload); });
  }
  const Json* worker = workload == nullptr ? nullptr : Choose(key, *connection, *workload, workers);
  absl::StatusOr<api::TensorFusionConnection> read = api::FromObject<api::TensorFusionConnection>(connection);
  if (!read.ok()) return kube::Terminal(read.status());
  const std::string before = read->status.connectionURL;
  api::TensorFusionConnectionStatus status = ConnectionStatusOf(worker);
  status.extra = read->status.extra;
  read->status = std::move(status);
  const absl::StatusOr<bool> written = PatchStatus(manager_.client(), api::TensorFusionConnection::kResource,
                                                   *connection, api::ToJson(*read).at("status"));
  if (!written.ok()) return EndWith(written.status());
  if (*written && worker != nullptr) {
    manager_.events().Normal(*connection, "ConnectionReady", "Connect",
                             absl::StrCat("its worker is ", read->status.workerName));
  } else if (*written && !before.empty()) {
    manager_.events().Warning(*connection, "WorkerLost", "Connect", "its worker is gone; the next one is waited for");
  }
  return kube::Result{};
}

}  // namespace tf::operators
