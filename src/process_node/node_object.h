// What a node says of itself: its Node object, the status that it keeps up, and its lease. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "kube/object.h"
#include "process_node/environment.h"

namespace tf::process_node {

// On a Node, "true": it falls silent, as a machine that lost power. Its pods go on running.
inline constexpr std::string_view kGoneAnnotation = "process-node.tensor-fusion.ai/gone";
// On a Node: its simulated GPUs, as TF_SIM_GPUS takes them.
inline constexpr std::string_view kGpusAnnotation = "process-node.tensor-fusion.ai/gpus";
// On a Node, "true": pods are processes here.
inline constexpr std::string_view kNodeLabel = "process-node.tensor-fusion.ai/node";

struct NodeSpec {
  NodeFacts facts = {};
  std::string gpus = {};
  int64_t pods = 110;
  int kubelet_port = 0;
  int64_t storage_bytes = 0;
  std::string machine_id = {};
  std::string boot_id = {};
  std::string kernel = {};
  std::string os_image = {};
  std::string version = {};  // of this build
};

kube::Json NodeObject(const NodeSpec& spec);
// `before`: the Node as it is, whose transition times are kept where nothing changed.
kube::Json NodeStatus(const NodeSpec& spec, absl::Time now, const kube::Json& before);

inline const kube::Resource kNodes{"", "v1", "nodes", "Node", false};
inline const kube::Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease", true};
inline const kube::Resource kPods{"", "v1", "pods", "Pod", true};
inline const kube::Resource kSecrets{"", "v1", "secrets", "Secret", true};
inline const kube::Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
inline const kube::Resource kServiceAccounts{"", "v1", "serviceaccounts", "ServiceAccount", true};
inline const kube::Resource kEvents{"", "v1", "events", "Event", true};

inline constexpr char kLeaseNamespace[] = "kube-node-lease";
kube::Json LeaseObject(const std::string& node, const std::string& node_uid, absl::Time now);

}  // namespace tf::process_node
