#include "operator/pod_template_check.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tf::operators {
namespace {

// The members of core/v1 objects as of Kubernetes 1.36, down to where mistakes are made. `name` is any value, `name=X`
// one of type X, `name=[X]` a list of them; Text is a string, Texts a map of strings.
constexpr std::string_view kTypes = R"(
PodTemplate: apiVersion kind metadata=Meta template=PodTemplateSpec
PodTemplateSpec: metadata=Meta spec=PodSpec
Pod: apiVersion kind metadata=Meta spec=PodSpec status
Meta: name generateName namespace labels=Texts annotations=Texts ownerReferences finalizers uid resourceVersion
  generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds selfLink managedFields
PodSpec: activeDeadlineSeconds affinity automountServiceAccountToken containers=[Container] dnsConfig dnsPolicy
  enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride
  imagePullSecrets initContainers=[Container] nodeName=Text nodeSelector=Texts os overhead preemptionPolicy priority
  priorityClassName=Text readinessGates resourceClaims resources=Resources restartPolicy=Text runtimeClassName=Text
  schedulerName=Text schedulingGates schedulingGroup securityContext=PodSecurity serviceAccount serviceAccountName=Text
  setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations=[Toleration]
  topologySpreadConstraints volumes=[Volume] workloadRef
Container: name=Text image=Text imagePullPolicy=Text command=[Text] args=[Text] workingDir=Text env=[Env]
  envFrom=[EnvFrom] ports=[Port] resources=Resources resizePolicy restartPolicy=Text restartPolicyRules
  volumeMounts=[Mount] volumeDevices livenessProbe=Probe readinessProbe=Probe startupProbe=Probe lifecycle=Lifecycle
  securityContext=Security stdin stdinOnce tty terminationMessagePath terminationMessagePolicy
Env: name=Text value=Text valueFrom=EnvSource
EnvSource: fieldRef=FieldRef resourceFieldRef=ResourceRef configMapKeyRef=KeyRef secretKeyRef=KeyRef fileKeyRef
FieldRef: apiVersion fieldPath=Text
ResourceRef: containerName resource=Text divisor
KeyRef: name=Text key=Text optional
EnvFrom: prefix=Text configMapRef=NameRef secretRef=NameRef
NameRef: name=Text optional
Port: name=Text containerPort hostPort hostIP protocol=Text
Resources: limits requests claims
Mount: name=Text mountPath=Text subPath=Text subPathExpr=Text readOnly recursiveReadOnly mountPropagation=Text
Probe: exec httpGet=HttpGet tcpSocket=TcpSocket grpc initialDelaySeconds periodSeconds timeoutSeconds successThreshold
  failureThreshold terminationGracePeriodSeconds
HttpGet: path=Text port host=Text scheme=Text httpHeaders
TcpSocket: port host=Text
Lifecycle: postStart preStop stopSignal
Security: allowPrivilegeEscalation appArmorProfile capabilities privileged procMount readOnlyRootFilesystem runAsGroup
  runAsNonRoot runAsUser seLinuxOptions seccompProfile windowsOptions
PodSecurity: appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy
  seLinuxOptions seccompProfile supplementalGroups supplementalGroupsPolicy sysctls windowsOptions
Toleration: key=Text operator=Text value=Text effect=Text tolerationSeconds
Volume: name=Text awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir ephemeral fc
  flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath image iscsi nfs persistentVolumeClaim
  photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret storageos vsphereVolume
)";

struct Member {
  std::string type = {};  // "": any value
  bool list = false;
};
using Members = std::map<std::string, Member, std::less<>>;

const std::map<std::string, Members, std::less<>>& Types() {
  static const auto* types = [] {
    auto* read = new std::map<std::string, Members, std::less<>>;
    Members* current = nullptr;
    for (const auto word :
         absl::StrSplit(absl::string_view(kTypes.data(), kTypes.size()), absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
      std::string text(word);
      if (text.back() == ':') {
        text.pop_back();
        current = &(*read)[text];
        continue;
      }
      const size_t equals = text.find('=');
      Member member;
      if (equals != std::string::npos) {
        member.type = text.substr(equals + 1);
        if (member.type.front() == '[') {
          member.list = true;
          member.type = member.type.substr(1, member.type.size() - 2);
        }
      }
      current->emplace(text.substr(0, equals), std::move(member));
    }
    return read;
  }();
  return *types;
}

// Letters to insert, delete, replace or swap with their neighbours.
int Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string DidYouMean(std::string_view key, const Members& members) {
  const std::string lower =
      absl::AsciiStrToLower(absl::string_view(key.substr(0, 64).data(), key.substr(0, 64).size()));
  std::string best;
  int least = 3;  // more letters than that are another word
  for (const auto& [name, member] : members) {
    const int distance = Distance(lower, absl::AsciiStrToLower(name));
    if (distance < least && distance < static_cast<int>(name.size())) least = distance, best = name;
  }
  return best.empty() ? "" : absl::StrCat("; did you mean \"", best, "\"?");
}

std::string Kind(const kube::Json& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "nothing";
    case boost::json::kind::bool_:
      return value.get_bool() ? "the boolean true" : "the boolean false";
    case boost::json::kind::array:
      return "a list";
    case boost::json::kind::object:
      return "an object";
    case boost::json::kind::string:
      return "a text";
    default:
      return absl::StrCat("the number ", boost::json::serialize(value));
  }
}

void CheckText(const kube::Json& value, const std::string& field, Findings& findings) {
  if (value.is_string() || value.is_null()) return;
  const bool scalar = !value.is_array() && !value.is_object();
  findings.errors.push_back(
      absl::StrCat(field, ": expected a text, found ", Kind(value),
                   scalar ? absl::StrCat("; put it in quotes: \"", boost::json::serialize(value), "\"") : ""));
}

void Check(const kube::Json& value, std::string_view type, const std::string& field, Findings& findings) {
  if (type.empty() || value.is_null()) return;
  if (type == "Text") return CheckText(value, field, findings);
  if (!value.is_object()) {
    findings.errors.push_back(absl::StrCat(field, ": expected an object, found ", Kind(value)));
    return;
  }
  if (type == "Texts") {
    for (const auto& member : value.get_object()) {
      CheckText(member.value(), absl::StrCat(field, "[\"", std::string(member.key()), "\"]"), findings);
    }
    return;
  }
  const Members& members = Types().find(type)->second;
  for (const auto& member : value.get_object()) {
    const std::string_view key = member.key();
    const std::string where = absl::StrCat(field, ".", std::string(key));
    const auto found = members.find(key);
    if (found == members.end()) {
      findings.warnings.push_back(
          absl::StrCat(where, ": there is no such field, it has no effect", DidYouMean(key, members)));
      continue;
    }
    if (!found->second.list) {
      Check(member.value(), found->second.type, where, findings);
      continue;
    }
    if (member.value().is_null()) continue;
    if (!member.value().is_array()) {
      findings.errors.push_back(absl::StrCat(where, ": expected a list, found ", Kind(member.value())));
      continue;
    }
    size_t index = 0;
    for (const kube::Json& element : member.value().get_array()) {
      Check(element, found->second.type, absl::StrCat(where, "[", index++, "]"), findings);
    }
  }
}

}  // namespace

void CheckPodTemplate(const kube::Json& value, TemplateShape shape, const std::string& field, Findings& findings) {
  constexpr const char* kNames[] = {"PodTemplate", "PodTemplateSpec", "Pod", "Container"};
  Check(value, kNames[static_cast<int>(shape)], field, findings);
}

}  // namespace tf::operators
