#include "operator/connection_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/defaults.h"
#include "api/names.h"
#include "api/typed.h"
#include "kube/client.h"
#include "kube/merge_patch.h"
#include "kube/owners.h"
#include "operator/pod_view.h"
#include "operator/worker_pod.h"

namespace tf::operators {
namespace {

using kube::Json;

constexpr char kDynamic[] = "dynamic";
constexpr size_t kUidPart = 8;

std::string Text(std::string_view text) { return std::string(text); }

// Neither its controller nor in the way of its deletion: one of perhaps several.
api::OwnerReference OwnerBehind(const Json& pod) {
  if (const Json* controller = kube::ControllerOf(pod)) {
    return {.apiVersion = Text(kube::Text(*controller, "apiVersion")),
            .kind = Text(kube::Text(*controller, "kind")),
            .name = Text(kube::Text(*controller, "name")),
            .uid = Text(kube::Text(*controller, "uid"))};
  }
  return {.apiVersion = "v1", .kind = "Pod", .name = Text(kube::Name(pod)), .uid = Text(kube::Uid(pod))};
}

}  // namespace

bool CanServe(const Json& worker) {
  return !kube::IsBeingDeleted(worker) && kube::Text(worker, "status.phase") == "Running" && IsReady(worker) &&
         !kube::Text(worker, "status.podIP").empty();
}

std::string ConnectionUrl(const Json& worker) {
  return absl::StrCat("native+", Text(kube::Text(worker, "status.podIP")), "+", kWorkerPort, "+",
                      Text(kube::Name(worker)), "-", Text(kube::Uid(worker).substr(0, kUidPart)));
}

const Json* ChooseWorker(std::string_view present, const std::vector<kube::ObjectPtr>& workers,
                         const std::map<std::string, int, std::less<>>& clients) {
  const auto count = [&](const Json& worker) {
    const auto found = clients.find(kube::Name(worker));
    return found == clients.end() ? 0 : found->second;
  };
  const Json* best = nullptr;
  for (const kube::ObjectPtr& worker : workers) {
    if (!CanServe(*worker)) continue;
    if (kube::Name(*worker) == present) return worker.get();
    if (best == nullptr ||
        std::make_pair(count(*worker), kube::Name(*worker)) < std::make_pair(count(*best), kube::Name(*best))) {
      best = worker.get();
    }
  }
  return best;
}

api::TensorFusionConnectionStatus ConnectionStatusOf(const Json* worker) {
  if (worker == nullptr) return {.phase = "Pending"};
  return {.phase = "Running", .connectionURL = ConnectionUrl(*worker), .workerName = Text(kube::Name(*worker))};
}

api::TensorFusionConnection ConnectionOf(const Json& pod) {
  const std::string workload = Text(kube::Annotation(pod, api::kSelectedWorkloadAnnotation));
  api::TensorFusionConnection connection;
  connection.metadata.namespace_ = Text(kube::Namespace(pod));
  connection.metadata.name = Text(kube::Annotation(pod, api::kConnectionAnnotation));
  connection.metadata.labels[api::kWorkloadLabel] = workload.substr(0, 63);
  connection.metadata.ownerReferences = {{.apiVersion = "v1",
                                          .kind = "Pod",
                                          .name = Text(kube::Name(pod)),
                                          .uid = Text(kube::Uid(pod)),
                                          .controller = true}};
  connection.spec = {.workloadName = workload, .clientPod = Text(kube::Name(pod))};
  return connection;
}

WorkloadChange ChangeOfWorkload(const Json& pod, const api::WorkloadProfileSpec& spec, bool youngest,
                                const Json* known) {
  const api::OwnerReference owner = OwnerBehind(pod);
  if (known == nullptr) {
    api::TensorFusionWorkload workload;
    workload.metadata.namespace_ = Text(kube::Namespace(pod));
    workload.metadata.name = Text(kube::Annotation(pod, api::kSelectedWorkloadAnnotation));
    workload.metadata.labels[api::kPoolLabel] = spec.poolName;
    workload.metadata.annotations[api::kWorkloadModeAnnotation] = kDynamic;
    workload.metadata.ownerReferences = {owner};
    workload.spec = spec;
    return {WorkloadChange::Kind::kCreate, api::ToJson(workload)};
  }
  if (kube::Annotation(*known, api::kWorkloadModeAnnotation) != kDynamic) return {};
  absl::StatusOr<api::TensorFusionWorkload> read = api::FromJson<api::TensorFusionWorkload>(*known);
  if (!read.ok()) return {};
  const Json before = api::ToJson(*read);
  auto& owners = read->metadata.ownerReferences;
  if (std::none_of(owners.begin(), owners.end(), [&](const auto& one) { return one.uid == owner.uid; })) {
    owners.push_back(owner);
  }
  if (youngest) {
    api::TensorFusionWorkload now, wanted;
    now.spec = api::WithDefaults(read->spec);
    wanted.spec = api::WithDefaults(spec);
    if (api::ToJson(now).at("spec") != api::ToJson(wanted).at("spec")) {
      read->spec = spec;
      read->metadata.labels[api::kPoolLabel] = spec.poolName;
    }
  }
  Json patch = kube::MergePatch(before, api::ToJson(*read));
  if (kube::IsEmptyPatch(patch)) return {};
  kube::EnsureField(patch, "metadata.resourceVersion") = Text(kube::ResourceVersion(*known));
  return {WorkloadChange::Kind::kPatch, std::move(patch)};
}

bool IsYounger(const Json& pod, const Json& other) {
  const auto key = [](const Json& one) {
    return std::make_pair(kube::Text(one, "metadata.creationTimestamp"), kube::Name(one));
  };
  return key(pod) > key(other);
}

}  // namespace tf::operators
