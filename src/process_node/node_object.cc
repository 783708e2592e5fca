#include "process_node/node_object.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "absl/strings/str_cat.h"

namespace tf::process_node {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

std::string Stamp(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone()); }

#if defined(__aarch64__)
constexpr char kArchitecture[] = "arm64";
#else
constexpr char kArchitecture[] = "amd64";
#endif

}  // namespace

Json NodeObject(const NodeSpec& spec) {
  JsonObject labels{{"kubernetes.io/hostname", spec.facts.name},
                    {"kubernetes.io/os", "linux"},
                    {"kubernetes.io/arch", kArchitecture}};
  labels[std::string(kNodeLabel)] = "true";
  JsonObject annotations;
  if (!spec.gpus.empty()) annotations[std::string(kGpusAnnotation)] = spec.gpus;
  return JsonObject{
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata", JsonObject{{"name", spec.facts.name}, {"labels", labels}, {"annotations", annotations}}}};
}

Json NodeStatus(const NodeSpec& spec, absl::Time now, const Json& before) {
  JsonObject capacity{{"cpu", absl::StrCat(spec.facts.cpu_millis, "m")},
                      {"memory", absl::StrCat(spec.facts.memory_bytes / 1024, "Ki")},
                      {"ephemeral-storage", absl::StrCat(spec.storage_bytes / 1024, "Ki")},
                      {"pods", absl::StrCat(spec.pods)}};
  JsonArray conditions;
  const auto add = [&](const char* type, const char* value, const char* reason, const char* message) {
    std::string since = Stamp(now);
    const Json* old = kube::Field(before, "status.conditions");
    if (old != nullptr && old->is_array()) {
      for (const Json& one : old->get_array()) {
        if (kube::Text(one, "type") == type && kube::Text(one, "status") == value) {
          since = kube::Text(one, "lastTransitionTime");
        }
      }
    }
    conditions.push_back(JsonObject{{"type", type},
                                    {"status", value},
                                    {"reason", reason},
                                    {"message", message},
                                    {"lastHeartbeatTime", Stamp(now)},
                                    {"lastTransitionTime", since}});
  };
  add("MemoryPressure", "False", "KubeletHasSufficientMemory", "process nodes do not watch the machine's memory");
  add("DiskPressure", "False", "KubeletHasNoDiskPressure", "process nodes do not watch the machine's disk");
  add("PIDPressure", "False", "KubeletHasSufficientPID", "process nodes do not count the machine's processes");
  add("Ready", "True", "KubeletReady", "process node is posting ready status");
  return JsonObject{{"capacity", capacity},
                    {"allocatable", capacity},
                    {"conditions", conditions},
                    {"addresses", JsonArray{JsonObject{{"type", "InternalIP"}, {"address", spec.facts.ip}},
                                            JsonObject{{"type", "Hostname"}, {"address", spec.facts.name}}}},
                    {"daemonEndpoints", JsonObject{{"kubeletEndpoint", JsonObject{{"Port", spec.kubelet_port}}}}},
                    // The API server hands WebSockets for exec, attach and port-forward on to nodes that declare this.
                    {"declaredFeatures", JsonArray{"ExtendWebSocketsToKubelet"}},
                    {"nodeInfo", JsonObject{{"machineID", spec.machine_id},
                                            {"systemUUID", spec.machine_id},
                                            {"bootID", spec.boot_id},
                                            {"kernelVersion", spec.kernel},
                                            {"osImage", spec.os_image},
                                            {"containerRuntimeVersion", absl::StrCat("process://", spec.version)},
                                            {"kubeletVersion", absl::StrCat("v1.36.3-process-node-", spec.version)},
                                            {"kubeProxyVersion", ""},
                                            {"operatingSystem", "linux"},
                                            {"architecture", kArchitecture}}}};
}

Json LeaseObject(const std::string& node, const std::string& node_uid, absl::Time now) {
  JsonObject metadata{{"name", node}, {"namespace", kLeaseNamespace}};
  if (!node_uid.empty()) {
    metadata["ownerReferences"] =
        JsonArray{JsonObject{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}, {"uid", node_uid}}};
  }
  return JsonObject{
      {"apiVersion", "coordination.k8s.io/v1"},
      {"kind", "Lease"},
      {"metadata", metadata},
      {"spec", JsonObject{{"holderIdentity", node},
                          {"leaseDurationSeconds", 40},
                          {"renewTime", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", now, absl::UTCTimeZone())}}}};
}

}  // namespace tf::process_node
