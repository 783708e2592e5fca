// The hypervisor's pod of a GPU node. Pure.
//
// The pool's template is kept whole (labels, sidecars, env, envFrom, volumes, resources, security contexts); what is
// added to it:
//  - name hypervisor-NODE (a long one is cut and ends in a hash of the node's name), on that node, owned by its GPUNode
//    and its Node, in the operator's namespace;
//  - the container named tensorfusion-hypervisor or tensor-fusion-hypervisor, else the first one, runs
//    `tensor-fusion-hypervisor` where the template gives no command. hypervisor.image, where it is set, is its image;
//  - port `api` (hypervisor.portNumber), probes of /healthz and /readyz, requests and limits, where the template has
//    none;
//  - env: what names the pod, its node and pool, and HYPERVISOR_PORT are ours whatever the template says;
//  TF_ENABLE_LOG,
//    the vendor's variables and the provider's extraEnv give way to the template's;
//  - tolerations: what keeps others off GPU nodes, and nodes that are not ready: a hypervisor stays where its node
//  does.
//
// Not here, for there is nothing in this system that needs it: the log shipper (hypervisor.vectorImage, enableVector),
// the middleware image and its init containers (our hypervisor is one program), the init container that makes shared
// memory, hostNetwork and hostPID (the hypervisor has the pod's own address and reads no other process). The device
// plugin's sockets and the workers' registry are mounted by those who bring them. A template can have all of these.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "api/core.h"
#include "api/gpu_node.h"
#include "api/gpu_pool.h"
#include "api/names.h"
#include "api/provider_config.h"
#include "operator/component_revision.h"

namespace tf::operators {

struct HypervisorPodInput {
  const api::GPUPool& pool;
  const api::GPUNode& gpu_node;
  const api::Node& node;
  const PodRevision& revision;
  const api::ProviderConfig* provider = nullptr;  // of the node's vendor; null: there is none
  std::string ns = api::kSystemNamespace;
};

// InvalidArgument names the field of the pool.
absl::StatusOr<api::Pod> HypervisorPod(const HypervisorPodInput& input);

std::string HypervisorPodName(const std::string& node);
// The vendor of a node's cards: its label, else the pool's default.
std::string VendorOf(const api::GPUNode& gpu_node, const api::GPUPool& pool);

}  // namespace tf::operators
