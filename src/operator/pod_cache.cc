#include "operator/pod_cache.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/names.h"

namespace tf::operators {
namespace {

using kube::Json;

std::string InNamespaceOf(const Json& pod, std::string_view name) {
  return absl::StrCat(std::string(kube::Namespace(pod)), "/", std::string(name));
}

kube::InformerOptions Options(std::string label_selector) {
  kube::InformerOptions options;
  options.label_selector = std::move(label_selector);
  options.keep = {"metadata.labels",
                  "metadata.annotations",
                  "metadata.ownerReferences",
                  "metadata.creationTimestamp",
                  "metadata.deletionTimestamp",
                  "spec.nodeName",
                  "spec.containers.name",
                  "spec.initContainers.name",
                  "status.phase",
                  "status.reason",
                  "status.message",
                  "status.podIP",
                  "status.conditions.type",
                  "status.conditions.status",
                  "status.conditions.reason",
                  "status.conditions.message",
                  "status.conditions.lastTransitionTime"};
  for (const char* containers : {"status.containerStatuses", "status.initContainerStatuses"}) {
    for (const char* field : {"name", "image", "ready", "restartCount", "state.waiting", "state.terminated.exitCode",
                              "state.terminated.reason", "state.terminated.message", "state.running",
                              "lastState.terminated.exitCode", "lastState.terminated.reason"}) {
      options.keep.push_back(absl::StrCat(containers, ".", field));
    }
  }
  options.indexes = {
      {kPodsByNode,
       [](const Json& pod) { return std::vector<std::string>{std::string(kube::Text(pod, "spec.nodeName"))}; }},
      {kPodsByPool,
       [](const Json& pod) { return std::vector<std::string>{std::string(kube::Label(pod, api::kPoolLabel))}; }},
      {kPodsByWorkload,
       [](const Json& pod) {
         std::string_view workload = kube::Label(pod, api::kWorkloadLabel);
         if (workload.empty()) workload = kube::Annotation(pod, api::kSelectedWorkloadAnnotation);
         return std::vector<std::string>{InNamespaceOf(pod, workload)};
       }},
      {kPodsByConnection, [](const Json& pod) {
         return std::vector<std::string>{InNamespaceOf(pod, kube::Annotation(pod, api::kConnectionAnnotation))};
       }}};
  return options;
}

}  // namespace

PodCaches::PodCaches(kube::Manager& manager)
    : components(
          manager.Cache(kube::core::kPod, Options(absl::StrCat(api::kComponentLabel, " in (", api::kHypervisorComponent,
                                                               ",", api::kWorkerComponent, ")")))),
      applications(manager.Cache(kube::core::kPod, Options(absl::StrCat(api::kEnabledLabel, "=true")))) {}

}  // namespace tf::operators
