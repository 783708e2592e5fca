// The environment, command and arguments of a container, from its pod, Secrets and ConfigMaps.
//
// Follows the kubelet: envFrom first, then env in order, where a value may name variables before it as $(NAME); `$$`
// stands for `$`; an unknown $(NAME) stays as it is. Errors are FailedPrecondition, in the kubelet's words: what is
// missing may come. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kube/object.h"

namespace tf::process_node {

// A Secret or ConfigMap of the pod's namespace; null when it does not exist.
using Lookup = std::function<kube::ObjectPtr(std::string_view kind, const std::string& name)>;

struct NodeFacts {
  std::string name = {};
  std::string ip = "127.0.0.1";
  int64_t cpu_millis = 0;
  int64_t memory_bytes = 0;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

// `first`: what is there before the container's own (and may be named by it); the container's own of the same name
// wins.
absl::StatusOr<Variables> ContainerEnvironment(const kube::Json& pod, const kube::Json& container,
                                               const std::string& pod_ip, const NodeFacts& node, const Lookup& lookup,
                                               Variables first);

std::string Expand(std::string_view text, const Variables& variables);

// A field that the downward API offers ("metadata.labels['a']", "status.podIP"); nullopt: it does not offer that.
std::optional<std::string> PodField(const kube::Json& pod, std::string_view path, const std::string& pod_ip,
                                    const NodeFacts& node);
// A container's resource ("limits.cpu") in units of the divisor, rounded up; the node's when it is not limited.
std::string ContainerResource(const kube::Json& container, std::string_view resource, std::string_view divisor,
                              const NodeFacts& node);

// "100m", "1.5", "2Gi", "1e3"; nullopt when it is no quantity.
std::optional<double> ParseQuantity(std::string_view text);

// The bytes of a key of a Secret (base64) or ConfigMap (data, binaryData).
std::optional<std::string> DataOf(const kube::Json& object, std::string_view key);
// All of them, sorted by key.
std::vector<std::pair<std::string, std::string>> AllData(const kube::Json& object);

}  // namespace tf::process_node
