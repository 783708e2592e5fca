#include "standalone/bootstrap.h"

#include <algorithm>
#include <boost/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "kube/object.h"
#include "standalone/credentials.h"

namespace tf::standalone {
namespace {

const kube::Resource kClusterRole{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false};
const kube::Resource kClusterRoleBinding{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding",
                                         false};

// What a node does for its pods, for all nodes of this machine.
constexpr char kProcessNodeRole[] = R"({
  "apiVersion": "rbac.authorization.k8s.io/v1",
  "kind": "ClusterRole",
  "metadata": {"name": "tensor-fusion:process-node"},
  "rules": [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "get", "list", "watch", "update", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["update", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["update", "patch"]},
    {"apiGroups": [""], "resources": ["secrets", "configmaps", "services", "namespaces", "serviceaccounts"],
     "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "update", "patch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "update", "patch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
     "verbs": ["create", "get", "list", "watch", "update", "patch", "delete"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}
  ]
})";

constexpr char kProcessNodeBinding[] = R"({
  "apiVersion": "rbac.authorization.k8s.io/v1",
  "kind": "ClusterRoleBinding",
  "metadata": {"name": "tensor-fusion:process-node"},
  "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tensor-fusion:process-node"},
  "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tensor-fusion:process-node"}]
})";
static_assert(std::string_view(kProcessNodeUser) == "tensor-fusion:process-node");

bool IsReady(const kube::Json& node) {
  const kube::Json* conditions = kube::Field(node, "status.conditions");
  if (conditions == nullptr || !conditions->is_array()) return false;
  const kube::JsonArray& array = conditions->get_array();
  return std::any_of(array.begin(), array.end(), [](const kube::Json& condition) {
    return kube::Text(condition, "type") == "Ready" && kube::Text(condition, "status") == "True";
  });
}

}  // namespace

absl::Status ApplyBootstrapObjects(kube::Client& client) {
  kube::PatchOptions options;
  options.type = kube::PatchType::kApply;
  options.field_manager = "tensor-fusion-standalone";
  options.force = true;
  for (const auto& [resource, text] :
       {std::pair(kClusterRole, kProcessNodeRole), std::pair(kClusterRoleBinding, kProcessNodeBinding)}) {
    const absl::StatusOr<kube::Json> object = kube::ParseJson(text);
    if (!object.ok()) return object.status();
    const absl::Status applied = client.Patch(resource, kube::KeyOf(*object), *object, options).status();
    if (!applied.ok()) {
      return absl::Status(applied.code(), absl::StrCat("cannot give the nodes their rights (", resource.kind,
                                                       "): ", applied.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RemoveOtherProcessNodes(kube::Client& client,
                                                                 const std::vector<std::string>& names) {
  const absl::StatusOr<kube::ListPage> nodes = client.List(kube::core::kNode, "");
  if (!nodes.ok()) return nodes.status();
  std::vector<std::string> removed;
  for (const kube::ObjectPtr& node : nodes->items) {
    const std::string name(kube::Name(*node));
    const bool ours = kube::Text(*node, "status.nodeInfo.containerRuntimeVersion").starts_with("process://");
    if (!ours || std::find(names.begin(), names.end(), name) != names.end()) continue;
    kube::DeleteOptions options;
    options.uid = kube::Uid(*node);
    const absl::Status status = client.Delete(kube::core::kNode, {"", name}, options);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    removed.push_back(name);
  }
  return removed;
}

std::vector<std::string> NodeNames(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(absl::StrCat("node-", i));
  return names;
}

absl::StatusOr<int> CountReadyNodes(kube::Client& client, const std::vector<std::string>& names) {
  const absl::StatusOr<kube::ListPage> nodes = client.List(kube::core::kNode, "");
  if (!nodes.ok()) return nodes.status();
  return static_cast<int>(std::count_if(nodes->items.begin(), nodes->items.end(), [&](const kube::ObjectPtr& node) {
    return std::find(names.begin(), names.end(), kube::Name(*node)) != names.end() && IsReady(*node);
  }));
}

}  // namespace tf::standalone
