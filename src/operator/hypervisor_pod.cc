#include "operator/hypervisor_pod.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/defaults.h"
#include "base/encoding.h"
#include "operator/pod_parts.h"
#include "operator/provider_settings.h"

namespace tf::operators {
namespace {

constexpr char kField[] = "spec.componentConfig.hypervisor";
constexpr char kPort[] = "api";
constexpr int32_t kDefaultPort = 8000;

api::Container& HypervisorContainer(std::vector<api::Container>& containers) {
  for (const char* name : {api::kHypervisorContainer, "tensor-fusion-hypervisor"}) {
    for (api::Container& container : containers) {
      if (container.name == name) return container;
    }
  }
  if (containers.empty()) containers.emplace_back();
  api::Container& first = containers.front();
  if (first.name.empty()) first.name = api::kHypervisorContainer;
  return first;
}

api::OwnerReference OwnerOf(const kube::Resource& resource, const api::ObjectMeta& meta, bool controller) {
  return {.apiVersion = resource.ApiVersion(),
          .kind = resource.kind,
          .name = meta.name,
          .uid = meta.uid,
          .controller = controller ? std::optional<bool>(true) : std::nullopt,
          .blockOwnerDeletion = controller ? std::optional<bool>(true) : std::nullopt};
}

void AddProvider(const api::ProviderConfig& provider, api::PodSpec& spec, api::Container& container) {
  const api::Json settings = HypervisorSettings(provider.spec);
  if (const api::Json* hardware = kube::Field(settings, "hardware")) {
    AddEnv(container, {Env("TF_PROVIDER_HARDWARE_METADATA", boost::json::serialize(*hardware))});
  }
  if (!provider.spec.hypervisor) return;
  const api::ProviderHypervisor& hypervisor = *provider.spec.hypervisor;
  std::vector<api::EnvVar> variables;
  for (const api::ProviderEnvVar& variable : hypervisor.extraEnv) {
    variables.push_back(Env(variable.name, variable.value));
  }
  if (!hypervisor.ldLibraryPath.empty()) variables.push_back(Env("LD_LIBRARY_PATH", hypervisor.ldLibraryPath));
  AddEnv(container, variables);
  if (hypervisor.privilegedHypervisor) {
    if (!container.securityContext) container.securityContext.emplace();
    if (!container.securityContext->privileged) container.securityContext->privileged = true;
  }
  for (const api::ProviderHostPathMount& mount : hypervisor.hostPathMounts) {
    // A volume or a path that the template has already is the template's.
    const bool mounted = std::any_of(container.volumeMounts.begin(), container.volumeMounts.end(),
                                     [&](const api::VolumeMount& known) { return known.mountPath == mount.mountPath; });
    const bool known = std::any_of(spec.volumes.begin(), spec.volumes.end(),
                                   [&](const api::Volume& volume) { return volume.name == mount.name; });
    if (!known && !mounted) {
      api::Volume volume{.name = mount.name};
      volume.hostPath = {.path = mount.hostPath};
      spec.volumes.push_back(std::move(volume));
    }
    if (!mounted) {
      container.volumeMounts.push_back({.name = mount.name, .readOnly = mount.readOnly, .mountPath = mount.mountPath});
    }
  }
}

}  // namespace

std::string HypervisorPodName(const std::string& node) {
  constexpr size_t kLongest = 63;
  const std::string name = absl::StrCat("hypervisor-", node);
  if (name.size() <= kLongest) return name;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(node.data()), node.size(), hash.data());
  const std::string end = HexEncode({reinterpret_cast<const char*>(hash.data()), 4});
  std::string start = name.substr(0, kLongest - 1 - end.size());
  while (start.back() == '-' || start.back() == '.') start.pop_back();
  return absl::StrCat(start, "-", end);
}

std::string VendorOf(const api::GPUNode& gpu_node, const api::GPUPool& pool) {
  const std::string label(gpu_node.metadata.Label(api::kVendorLabel));
  return label.empty() ? pool.spec.nodeManagerConfig.defaultVendor.value_or("NVIDIA") : label;
}

absl::StatusOr<api::Pod> HypervisorPod(const HypervisorPodInput& input) {
  if (!input.revision.config.hypervisor) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPUPool ", input.pool.metadata.name, " has no ", kField, ": expected image or podTemplate"));
  }
  const api::HypervisorConfig& config = *input.revision.config.hypervisor;
  absl::StatusOr<api::PodTemplateSpec> read = ReadPodTemplate(config.podTemplate, absl::StrCat(kField, ".podTemplate"));
  if (!read.ok()) return read.status();
  const std::string& pool = input.pool.metadata.name;
  const std::string& node = input.node.metadata.name;
  const std::string vendor = VendorOf(input.gpu_node, input.pool);

  api::Pod pod;
  pod.metadata.name = HypervisorPodName(node);
  pod.metadata.namespace_ = input.ns;
  pod.metadata.labels = read->metadata.labels;
  pod.metadata.annotations = read->metadata.annotations;
  pod.metadata.labels[api::kComponentLabel] = api::kHypervisorComponent;
  pod.metadata.labels[api::kPoolLabel] = pool;
  pod.metadata.labels[absl::StrCat(api::kPoolLabelPrefix, pool)] = "true";
  pod.metadata.labels[api::kRevisionLabel] = input.revision.revision;
  pod.metadata.ownerReferences = {OwnerOf(api::GPUNode::kResource, input.gpu_node.metadata, true),
                                  OwnerOf(api::Node::kResource, input.node.metadata, false)};

  pod.spec = std::move(read->spec);
  api::PodSpec& spec = pod.spec;
  spec.nodeName = node;
  if (spec.serviceAccountName.empty()) spec.serviceAccountName = "tensor-fusion-hypervisor-sa";
  if (spec.priorityClassName.empty() && !spec.priority) spec.priorityClassName = "system-node-critical";
  if (!spec.terminationGracePeriodSeconds) spec.terminationGracePeriodSeconds = 5;
  if (!spec.enableServiceLinks) spec.enableServiceLinks = false;
  AddToleration(spec, {.key = "tensor-fusion.ai/used-by", .operator_ = "Exists"});
  AddToleration(spec, {.key = "node.kubernetes.io/not-ready", .operator_ = "Exists", .effect = "NoExecute"});
  AddToleration(spec, {.key = "node.kubernetes.io/unreachable", .operator_ = "Exists", .effect = "NoExecute"});

  api::Container& container = HypervisorContainer(spec.containers);
  if (!config.image.empty()) container.image = config.image;
  if (container.image.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("GPUPool ", pool, ": ", kField,
                                                   ".image is empty, and so is the image of container ", container.name,
                                                   " in ", kField, ".podTemplate; one of them is needed"));
  }
  if (container.command.empty()) container.command = {"tensor-fusion-hypervisor"};
  const int32_t port = config.portNumber.value_or(kDefaultPort);
  std::string port_name;
  for (const api::ContainerPort& known : container.ports) {
    if (known.containerPort == port && !known.name.empty()) port_name = known.name;
  }
  if (port_name.empty()) {
    std::erase_if(container.ports, [&](const api::ContainerPort& known) { return known.containerPort == port; });
    container.ports.push_back({.name = kPort, .containerPort = port, .protocol = "TCP"});
    port_name = kPort;
  }
  if (!container.livenessProbe) {
    container.livenessProbe = HttpProbe("/healthz", port_name);
    container.livenessProbe->initialDelaySeconds = 15;
    container.livenessProbe->periodSeconds = 20;
    container.livenessProbe->timeoutSeconds = 5;
    container.livenessProbe->failureThreshold = 5;
  }
  if (!container.readinessProbe) {
    // Often: a rollout waits for it.
    container.readinessProbe = HttpProbe("/readyz", port_name);
    container.readinessProbe->initialDelaySeconds = 1;
    container.readinessProbe->periodSeconds = 3;
    container.readinessProbe->timeoutSeconds = 3;
    container.readinessProbe->failureThreshold = 3;
  }
  if (container.resources.requests.empty() && container.resources.limits.empty()) {
    container.resources.requests = {{"cpu", api::Quantity::FromMilli(50)},
                                    {"memory", api::Quantity::FromBytes(int64_t{128} << 20)}};
    container.resources.limits = {{"cpu", api::Quantity(1)}, {"memory", api::Quantity::FromBytes(int64_t{256} << 20)}};
  }

  DropRepeatedEnv(container);
  AddEnv(container, {Env("TF_ENABLE_LOG", "1")});
  if (vendor == "NVIDIA") AddEnv(container, {Env("NVIDIA_VISIBLE_DEVICES", "all")});
  if (input.provider != nullptr) AddProvider(*input.provider, spec, container);
  SetEnv(container, {EnvFromField("POD_NAME", "metadata.name"), EnvFromField("POD_NAMESPACE", "metadata.namespace"),
                     EnvFromField("POD_IP", "status.podIP"), EnvFromField("GPU_NODE_NAME", "spec.nodeName"),
                     Env("TENSOR_FUSION_POOL_NAME", pool), Env("TF_HARDWARE_VENDOR", vendor),
                     Env("HYPERVISOR_PORT", absl::StrCat(port))});
  return pod;
}

}  // namespace tf::operators
