// The core kinds that we touch, with the members that we look at; the rest is kept (json.h). Blocks that we pass on and
// never look into are JSON.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/meta.h"
#include "api/quantity.h"
#include "api/values.h"

namespace tf::api {

// Selection of nodes. ------------------------------------------------------------------------------------------------

struct NodeSelectorRequirement {
  JsonObject extra = {};
  std::string key = {};
  std::string operator_ = {};  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values = {};
};
BOOST_DESCRIBE_STRUCT(NodeSelectorRequirement, (), (key, operator_, values))

// All requirements hold; a term without any matches nothing.
struct NodeSelectorTerm {
  JsonObject extra = {};
  std::vector<NodeSelectorRequirement> matchExpressions = {};  // on labels
  std::vector<NodeSelectorRequirement> matchFields = {};       // on metadata.name
};
BOOST_DESCRIBE_STRUCT(NodeSelectorTerm, (), (matchExpressions, matchFields))

// Any term matches.
struct NodeSelector {
  JsonObject extra = {};
  std::vector<NodeSelectorTerm> nodeSelectorTerms = {};

  static constexpr std::string_view kAlways[] = {"nodeSelectorTerms"};
};
BOOST_DESCRIBE_STRUCT(NodeSelector, (), (nodeSelectorTerms))

// Containers. --------------------------------------------------------------------------------------------------------

// Of a ConfigMap or Secret; `optional_`: absence of it is no error.
struct KeySelector {
  JsonObject extra = {};
  std::string name = {};
  std::string key = {};
  std::optional<bool> optional_ = {};
};
BOOST_DESCRIBE_STRUCT(KeySelector, (), (name, key, optional_))

struct ObjectFieldSelector {
  JsonObject extra = {};
  std::string apiVersion = {};
  std::string fieldPath = {};
};
BOOST_DESCRIBE_STRUCT(ObjectFieldSelector, (), (apiVersion, fieldPath))

struct ResourceFieldSelector {
  JsonObject extra = {};
  std::string containerName = {};
  std::string resource = {};
  std::optional<Quantity> divisor = {};
};
BOOST_DESCRIBE_STRUCT(ResourceFieldSelector, (), (containerName, resource, divisor))

struct EnvVarSource {
  JsonObject extra = {};
  std::optional<ObjectFieldSelector> fieldRef = {};
  std::optional<ResourceFieldSelector> resourceFieldRef = {};
  std::optional<KeySelector> configMapKeyRef = {};
  std::optional<KeySelector> secretKeyRef = {};
};
BOOST_DESCRIBE_STRUCT(EnvVarSource, (), (fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef))

struct EnvVar {
  JsonObject extra = {};
  std::string name = {};
  std::string value = {};
  std::optional<EnvVarSource> valueFrom = {};
};
BOOST_DESCRIBE_STRUCT(EnvVar, (), (name, value, valueFrom))

struct NameReference {
  JsonObject extra = {};
  std::string name = {};
  std::optional<bool> optional_ = {};
};
BOOST_DESCRIBE_STRUCT(NameReference, (), (name, optional_))

struct EnvFromSource {
  JsonObject extra = {};
  std::string prefix = {};
  std::optional<NameReference> configMapRef = {};
  std::optional<NameReference> secretRef = {};
};
BOOST_DESCRIBE_STRUCT(EnvFromSource, (), (prefix, configMapRef, secretRef))

struct ContainerPort {
  JsonObject extra = {};
  std::string name = {};
  std::optional<int32_t> hostPort = {};
  int32_t containerPort = 0;
  std::string protocol = {};
  std::string hostIP = {};
};
BOOST_DESCRIBE_STRUCT(ContainerPort, (), (name, hostPort, containerPort, protocol, hostIP))

struct VolumeMount {
  JsonObject extra = {};
  std::string name = {};
  bool readOnly = false;
  std::string mountPath = {};
  std::string subPath = {};
  std::string subPathExpr = {};
  std::string mountPropagation = {};
};
BOOST_DESCRIBE_STRUCT(VolumeMount, (), (name, readOnly, mountPath, subPath, subPathExpr, mountPropagation))

struct ResourceRequirements {
  JsonObject extra = {};
  std::map<std::string, Quantity> limits = {};
  std::map<std::string, Quantity> requests = {};
};
BOOST_DESCRIBE_STRUCT(ResourceRequirements, (), (limits, requests))

struct ExecAction {
  JsonObject extra = {};
  std::vector<std::string> command = {};
};
BOOST_DESCRIBE_STRUCT(ExecAction, (), (command))

struct HTTPHeader {
  JsonObject extra = {};
  std::string name = {};
  std::string value = {};
};
BOOST_DESCRIBE_STRUCT(HTTPHeader, (), (name, value))

struct HTTPGetAction {
  JsonObject extra = {};
  std::string path = {};
  IntOrString port = {};
  std::string host = {};
  std::string scheme = {};
  std::vector<HTTPHeader> httpHeaders = {};
};
BOOST_DESCRIBE_STRUCT(HTTPGetAction, (), (path, port, host, scheme, httpHeaders))

struct TCPSocketAction {
  JsonObject extra = {};
  IntOrString port = {};
  std::string host = {};
};
BOOST_DESCRIBE_STRUCT(TCPSocketAction, (), (port, host))

struct GRPCAction {
  JsonObject extra = {};
  int32_t port = 0;
  std::string service = {};
};
BOOST_DESCRIBE_STRUCT(GRPCAction, (), (port, service))

struct SleepAction {
  JsonObject extra = {};
  int64_t seconds = 0;

  static constexpr std::string_view kAlways[] = {"seconds"};
};
BOOST_DESCRIBE_STRUCT(SleepAction, (), (seconds))

struct Probe {
  JsonObject extra = {};
  std::optional<ExecAction> exec = {};
  std::optional<HTTPGetAction> httpGet = {};
  std::optional<TCPSocketAction> tcpSocket = {};
  std::optional<GRPCAction> grpc = {};
  int32_t initialDelaySeconds = 0;
  std::optional<int32_t> timeoutSeconds = {};    // 1
  std::optional<int32_t> periodSeconds = {};     // 10
  std::optional<int32_t> successThreshold = {};  // 1
  std::optional<int32_t> failureThreshold = {};  // 3
  std::optional<int64_t> terminationGracePeriodSeconds = {};
};
BOOST_DESCRIBE_STRUCT(Probe, (),
                      (exec, httpGet, tcpSocket, grpc, initialDelaySeconds, timeoutSeconds, periodSeconds,
                       successThreshold, failureThreshold, terminationGracePeriodSeconds))

struct LifecycleHandler {
  JsonObject extra = {};
  std::optional<ExecAction> exec = {};
  std::optional<HTTPGetAction> httpGet = {};
  std::optional<TCPSocketAction> tcpSocket = {};
  std::optional<SleepAction> sleep = {};
};
BOOST_DESCRIBE_STRUCT(LifecycleHandler, (), (exec, httpGet, tcpSocket, sleep))

struct Lifecycle {
  JsonObject extra = {};
  std::optional<LifecycleHandler> postStart = {};
  std::optional<LifecycleHandler> preStop = {};
  std::string stopSignal = {};
};
BOOST_DESCRIBE_STRUCT(Lifecycle, (), (postStart, preStop, stopSignal))

struct Capabilities {
  JsonObject extra = {};
  std::vector<std::string> add = {};
  std::vector<std::string> drop = {};
};
BOOST_DESCRIBE_STRUCT(Capabilities, (), (add, drop))

struct SecurityContext {
  JsonObject extra = {};
  std::optional<Capabilities> capabilities = {};
  std::optional<bool> privileged = {};
  std::optional<int64_t> runAsUser = {};
  std::optional<int64_t> runAsGroup = {};
  std::optional<bool> runAsNonRoot = {};
  std::optional<bool> readOnlyRootFilesystem = {};
  std::optional<bool> allowPrivilegeEscalation = {};
};
BOOST_DESCRIBE_STRUCT(SecurityContext, (),
                      (capabilities, privileged, runAsUser, runAsGroup, runAsNonRoot, readOnlyRootFilesystem,
                       allowPrivilegeEscalation))

struct Container {
  JsonObject extra = {};
  std::string name = {};
  std::string image = {};
  std::vector<std::string> command = {};
  std::vector<std::string> args = {};
  std::string workingDir = {};
  std::vector<ContainerPort> ports = {};
  std::vector<EnvFromSource> envFrom = {};
  std::vector<EnvVar> env = {};
  ResourceRequirements resources = {};
  std::string restartPolicy = {};  // "Always" on an init container: a sidecar
  std::vector<VolumeMount> volumeMounts = {};
  std::optional<Probe> livenessProbe = {};
  std::optional<Probe> readinessProbe = {};
  std::optional<Probe> startupProbe = {};
  std::optional<Lifecycle> lifecycle = {};
  std::string terminationMessagePath = {};
  std::string terminationMessagePolicy = {};
  std::string imagePullPolicy = {};
  std::optional<SecurityContext> securityContext = {};
};
BOOST_DESCRIBE_STRUCT(Container, (),
                      (name, image, command, args, workingDir, ports, envFrom, env, resources, restartPolicy,
                       volumeMounts, livenessProbe, readinessProbe, startupProbe, lifecycle, terminationMessagePath,
                       terminationMessagePolicy, imagePullPolicy, securityContext))

// Null when there is none of that name.
const EnvVar* FindEnv(const Container& container, std::string_view name);
const Container* FindContainer(const std::vector<Container>& containers, std::string_view name);

// Volumes. -----------------------------------------------------------------------------------------------------------

struct KeyToPath {
  JsonObject extra = {};
  std::string key = {};
  std::string path = {};
  std::optional<int32_t> mode = {};
};
BOOST_DESCRIBE_STRUCT(KeyToPath, (), (key, path, mode))

struct EmptyDirVolume {
  JsonObject extra = {};
  std::string medium = {};  // "" or "Memory"
  std::optional<Quantity> sizeLimit = {};
};
BOOST_DESCRIBE_STRUCT(EmptyDirVolume, (), (medium, sizeLimit))

struct HostPathVolume {
  JsonObject extra = {};
  std::string path = {};
  std::string type = {};
};
BOOST_DESCRIBE_STRUCT(HostPathVolume, (), (path, type))

struct SecretVolume {
  JsonObject extra = {};
  std::string secretName = {};
  std::vector<KeyToPath> items = {};
  std::optional<int32_t> defaultMode = {};
  std::optional<bool> optional_ = {};
};
BOOST_DESCRIBE_STRUCT(SecretVolume, (), (secretName, items, defaultMode, optional_))

struct ConfigMapVolume {
  JsonObject extra = {};
  std::string name = {};
  std::vector<KeyToPath> items = {};
  std::optional<int32_t> defaultMode = {};
  std::optional<bool> optional_ = {};
};
BOOST_DESCRIBE_STRUCT(ConfigMapVolume, (), (name, items, defaultMode, optional_))

struct DownwardAPIFile {
  JsonObject extra = {};
  std::string path = {};
  std::optional<ObjectFieldSelector> fieldRef = {};
  std::optional<ResourceFieldSelector> resourceFieldRef = {};
  std::optional<int32_t> mode = {};
};
BOOST_DESCRIBE_STRUCT(DownwardAPIFile, (), (path, fieldRef, resourceFieldRef, mode))

struct DownwardAPIVolume {
  JsonObject extra = {};
  std::vector<DownwardAPIFile> items = {};
  std::optional<int32_t> defaultMode = {};
};
BOOST_DESCRIBE_STRUCT(DownwardAPIVolume, (), (items, defaultMode))

struct ServiceAccountTokenProjection {
  JsonObject extra = {};
  std::string audience = {};
  std::optional<int64_t> expirationSeconds = {};  // 3600
  std::string path = {};
};
BOOST_DESCRIBE_STRUCT(ServiceAccountTokenProjection, (), (audience, expirationSeconds, path))

// Secrets and ConfigMaps bear a `name` here.
struct ProjectedSource {
  JsonObject extra = {};
  std::optional<ConfigMapVolume> secret = {};
  std::optional<ConfigMapVolume> configMap = {};
  std::optional<DownwardAPIVolume> downwardAPI = {};
  std::optional<ServiceAccountTokenProjection> serviceAccountToken = {};
};
BOOST_DESCRIBE_STRUCT(ProjectedSource, (), (secret, configMap, downwardAPI, serviceAccountToken))

struct ProjectedVolume {
  JsonObject extra = {};
  std::vector<ProjectedSource> sources = {};
  std::optional<int32_t> defaultMode = {};
};
BOOST_DESCRIBE_STRUCT(ProjectedVolume, (), (sources, defaultMode))

struct Volume {
  JsonObject extra = {};
  std::string name = {};
  std::optional<EmptyDirVolume> emptyDir = {};
  std::optional<HostPathVolume> hostPath = {};
  std::optional<SecretVolume> secret = {};
  std::optional<ConfigMapVolume> configMap = {};
  std::optional<DownwardAPIVolume> downwardAPI = {};
  std::optional<ProjectedVolume> projected = {};
};
BOOST_DESCRIBE_STRUCT(Volume, (), (name, emptyDir, hostPath, secret, configMap, downwardAPI, projected))

// Pods. --------------------------------------------------------------------------------------------------------------

struct Toleration {
  JsonObject extra = {};
  std::string key = {};
  std::string operator_ = {};
  std::string value = {};
  std::string effect = {};
  std::optional<int64_t> tolerationSeconds = {};
};
BOOST_DESCRIBE_STRUCT(Toleration, (), (key, operator_, value, effect, tolerationSeconds))

struct PodSecurityContext {
  JsonObject extra = {};
  std::optional<int64_t> runAsUser = {};
  std::optional<int64_t> runAsGroup = {};
  std::optional<bool> runAsNonRoot = {};
  std::optional<int64_t> fsGroup = {};
};
BOOST_DESCRIBE_STRUCT(PodSecurityContext, (), (runAsUser, runAsGroup, runAsNonRoot, fsGroup))

struct SchedulingGate {
  JsonObject extra = {};
  std::string name = {};
};
BOOST_DESCRIBE_STRUCT(SchedulingGate, (), (name))

struct PodSpec {
  JsonObject extra = {};
  std::vector<Volume> volumes = {};
  std::vector<Container> initContainers = {};
  std::vector<Container> containers = {};
  std::string restartPolicy = {};
  std::optional<int64_t> terminationGracePeriodSeconds = {};  // 30
  std::optional<int64_t> activeDeadlineSeconds = {};
  std::string dnsPolicy = {};
  std::map<std::string, std::string> nodeSelector = {};
  std::string serviceAccountName = {};
  std::optional<bool> automountServiceAccountToken = {};
  std::string nodeName = {};
  bool hostNetwork = false;
  bool hostPID = false;
  bool hostIPC = false;
  std::optional<PodSecurityContext> securityContext = {};
  std::vector<NameReference> imagePullSecrets = {};
  std::string hostname = {};
  std::string subdomain = {};
  JsonObject affinity = {};
  std::string schedulerName = {};
  std::vector<Toleration> tolerations = {};
  std::vector<SchedulingGate> schedulingGates = {};
  std::string priorityClassName = {};
  std::optional<int32_t> priority = {};
  std::string runtimeClassName = {};
  std::optional<bool> enableServiceLinks = {};
};
BOOST_DESCRIBE_STRUCT(PodSpec, (),
                      (volumes, initContainers, containers, restartPolicy, terminationGracePeriodSeconds,
                       activeDeadlineSeconds, dnsPolicy, nodeSelector, serviceAccountName, automountServiceAccountToken,
                       nodeName, hostNetwork, hostPID, hostIPC, securityContext, imagePullSecrets, hostname, subdomain,
                       affinity, schedulerName, tolerations, schedulingGates, priorityClassName, priority,
                       runtimeClassName, enableServiceLinks))

struct PodTemplateSpec {
  JsonObject extra = {};
  ObjectMeta metadata = {};
  PodSpec spec = {};
};
BOOST_DESCRIBE_STRUCT(PodTemplateSpec, (), (metadata, spec))

// A podTemplate of a GPUPool.
struct PodTemplate {
  JsonObject extra = {};
  PodTemplateSpec template_ = {};
};
BOOST_DESCRIBE_STRUCT(PodTemplate, (), (template_))

struct PodCondition {
  JsonObject extra = {};
  std::string type = {};
  std::string status = {};
  std::string reason = {};
  std::string message = {};
  std::optional<Time> lastProbeTime = {};
  std::optional<Time> lastTransitionTime = {};
  int64_t observedGeneration = 0;
};
BOOST_DESCRIBE_STRUCT(PodCondition, (),
                      (type, status, reason, message, lastProbeTime, lastTransitionTime, observedGeneration))

struct ContainerStateWaiting {
  JsonObject extra = {};
  std::string reason = {};
  std::string message = {};
};
BOOST_DESCRIBE_STRUCT(ContainerStateWaiting, (), (reason, message))

struct ContainerStateRunning {
  JsonObject extra = {};
  std::optional<Time> startedAt = {};
};
BOOST_DESCRIBE_STRUCT(ContainerStateRunning, (), (startedAt))

struct ContainerStateTerminated {
  JsonObject extra = {};
  int32_t exitCode = 0;
  int32_t signal = 0;
  std::string reason = {};
  std::string message = {};
  std::optional<Time> startedAt = {};
  std::optional<Time> finishedAt = {};
  std::string containerID = {};

  static constexpr std::string_view kAlways[] = {"exitCode"};
};
BOOST_DESCRIBE_STRUCT(ContainerStateTerminated, (),
                      (exitCode, signal, reason, message, startedAt, finishedAt, containerID))

struct ContainerState {
  JsonObject extra = {};
  std::optional<ContainerStateWaiting> waiting = {};
  std::optional<ContainerStateRunning> running = {};
  std::optional<ContainerStateTerminated> terminated = {};
};
BOOST_DESCRIBE_STRUCT(ContainerState, (), (waiting, running, terminated))

struct ContainerStatus {
  JsonObject extra = {};
  std::string name = {};
  ContainerState state = {};
  ContainerState lastState = {};
  bool ready = false;
  int32_t restartCount = 0;
  std::string image = {};
  std::string imageID = {};
  std::string containerID = {};
  std::optional<bool> started = {};

  static constexpr std::string_view kAlways[] = {"ready", "restartCount", "image", "imageID"};
};
BOOST_DESCRIBE_STRUCT(ContainerStatus, (),
                      (name, state, lastState, ready, restartCount, image, imageID, containerID, started))

struct PodIP {
  JsonObject extra = {};
  std::string ip = {};
};
BOOST_DESCRIBE_STRUCT(PodIP, (), (ip))

struct PodStatus {
  JsonObject extra = {};
  std::string phase = {};  // Pending, Running, Succeeded, Failed, Unknown
  int64_t observedGeneration = 0;
  std::vector<PodCondition> conditions = {};
  std::string message = {};
  std::string reason = {};
  std::string nominatedNodeName = {};
  std::string hostIP = {};
  std::string podIP = {};
  std::vector<PodIP> podIPs = {};
  std::optional<Time> startTime = {};
  std::vector<ContainerStatus> initContainerStatuses = {};
  std::vector<ContainerStatus> containerStatuses = {};
  std::string qosClass = {};
};
BOOST_DESCRIBE_STRUCT(PodStatus, (),
                      (phase, observedGeneration, conditions, message, reason, nominatedNodeName, hostIP, podIP, podIPs,
                       startTime, initContainerStatuses, containerStatuses, qosClass))

struct Pod {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"", "v1", "pods", "Pod", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  PodSpec spec = {};
  PodStatus status = {};
};
BOOST_DESCRIBE_STRUCT(Pod, (), (apiVersion, kind, metadata, spec, status))

bool IsReady(const Pod& pod);
bool IsFinished(const Pod& pod);  // Succeeded or Failed

// Nodes. -------------------------------------------------------------------------------------------------------------

struct Taint {
  JsonObject extra = {};
  std::string key = {};
  std::string value = {};
  std::string effect = {};
  std::optional<Time> timeAdded = {};
};
BOOST_DESCRIBE_STRUCT(Taint, (), (key, value, effect, timeAdded))

struct NodeSpec {
  JsonObject extra = {};
  std::string podCIDR = {};
  std::string providerID = {};
  bool unschedulable = false;
  std::vector<Taint> taints = {};
};
BOOST_DESCRIBE_STRUCT(NodeSpec, (), (podCIDR, providerID, unschedulable, taints))

struct NodeCondition {
  JsonObject extra = {};
  std::string type = {};
  std::string status = {};
  std::optional<Time> lastHeartbeatTime = {};
  std::optional<Time> lastTransitionTime = {};
  std::string reason = {};
  std::string message = {};
};
BOOST_DESCRIBE_STRUCT(NodeCondition, (), (type, status, lastHeartbeatTime, lastTransitionTime, reason, message))

struct NodeAddress {
  JsonObject extra = {};
  std::string type = {};
  std::string address = {};
};
BOOST_DESCRIBE_STRUCT(NodeAddress, (), (type, address))

struct NodeStatus {
  JsonObject extra = {};
  std::map<std::string, Quantity> capacity = {};
  std::map<std::string, Quantity> allocatable = {};
  std::vector<NodeCondition> conditions = {};
  std::vector<NodeAddress> addresses = {};
};
BOOST_DESCRIBE_STRUCT(NodeStatus, (), (capacity, allocatable, conditions, addresses))

struct Node {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"", "v1", "nodes", "Node", false};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  NodeSpec spec = {};
  NodeStatus status = {};
};
BOOST_DESCRIBE_STRUCT(Node, (), (apiVersion, kind, metadata, spec, status))

bool IsReady(const Node& node);

// Others. ------------------------------------------------------------------------------------------------------------

// Values are base64, as in JSON.
struct Secret {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"", "v1", "secrets", "Secret", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  std::string type = {};
  std::map<std::string, std::string> data = {};
  std::map<std::string, std::string> stringData = {};  // write only
  std::optional<bool> immutable = {};
};
BOOST_DESCRIBE_STRUCT(Secret, (), (apiVersion, kind, metadata, type, data, stringData, immutable))

struct ConfigMap {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"", "v1", "configmaps", "ConfigMap", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  std::map<std::string, std::string> data = {};
  std::map<std::string, std::string> binaryData = {};  // base64
  std::optional<bool> immutable = {};
};
BOOST_DESCRIBE_STRUCT(ConfigMap, (), (apiVersion, kind, metadata, data, binaryData, immutable))

struct LeaseSpec {
  JsonObject extra = {};
  std::optional<std::string> holderIdentity = {};
  std::optional<int32_t> leaseDurationSeconds = {};
  std::optional<Time> acquireTime = {};  // Time::Micro
  std::optional<Time> renewTime = {};    // Time::Micro
  std::optional<int32_t> leaseTransitions = {};
};
BOOST_DESCRIBE_STRUCT(LeaseSpec, (), (holderIdentity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions))

struct Lease {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"coordination.k8s.io", "v1", "leases", "Lease", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  LeaseSpec spec = {};
};
BOOST_DESCRIBE_STRUCT(Lease, (), (apiVersion, kind, metadata, spec))

struct ObjectReference {
  JsonObject extra = {};
  std::string apiVersion = {};
  std::string kind = {};
  std::string namespace_ = {};
  std::string name = {};
  std::string uid = {};
  std::string resourceVersion = {};
  std::string fieldPath = {};
};
BOOST_DESCRIBE_STRUCT(ObjectReference, (), (apiVersion, kind, namespace_, name, uid, resourceVersion, fieldPath))

struct EventSeries {
  JsonObject extra = {};
  int32_t count = 0;
  Time lastObservedTime = {};  // Time::Micro
};
BOOST_DESCRIBE_STRUCT(EventSeries, (), (count, lastObservedTime))

// events.k8s.io/v1.
struct Event {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"events.k8s.io", "v1", "events", "Event", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  std::optional<Time> eventTime = {};  // Time::Micro
  std::optional<EventSeries> series = {};
  std::string reportingController = {};
  std::string reportingInstance = {};
  std::string action = {};
  std::string reason = {};
  std::optional<ObjectReference> regarding = {};
  std::optional<ObjectReference> related = {};
  std::string note = {};
  std::string type = {};  // Normal, Warning
};
BOOST_DESCRIBE_STRUCT(Event, (),
                      (apiVersion, kind, metadata, eventTime, series, reportingController, reportingInstance, action,
                       reason, regarding, related, note, type))

struct ControllerRevision {
  JsonObject extra = {};
  static inline const kube::Resource kResource{"apps", "v1", "controllerrevisions", "ControllerRevision", true};

  std::string apiVersion = {};
  std::string kind = {};
  ObjectMeta metadata = {};
  Json data = {};
  int64_t revision = 0;

  static constexpr std::string_view kAlways[] = {"revision"};
};
BOOST_DESCRIBE_STRUCT(ControllerRevision, (), (apiVersion, kind, metadata, data, revision))

}  // namespace tf::api
