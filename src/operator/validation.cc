#include "operator/validation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/defaults.h"
#include "api/gpu_pool.h"
#include "api/names.h"
#include "api/scheduling.h"
#include "api/tensor_fusion_cluster.h"
#include "api/typed.h"
#include "api/values.h"
#include "api/workload.h"
#include "rollout/cron.h"
#include "rollout/window.h"

namespace tf::operators {
namespace {

constexpr size_t kLongestLabel = 63;  // the pool's name becomes a label's value
constexpr size_t kMostMessages = 20;  // of one answer

std::string Quoted(std::string_view text) { return absl::StrCat("\"", std::string(text.substr(0, 200)), "\""); }

// The errors of one call, each behind the field.
void AddError(const std::string& field, const absl::Status& status, std::vector<std::string>& to) {
  if (!status.ok()) to.push_back(absl::StrCat(field, ": ", status.message()));
}

void CheckWindow(const api::RollingUpdatePolicy& policy, const std::string& field, Findings& findings) {
  if (!policy.maintenanceWindow.has_value()) return;
  const api::MaintenanceWindow& window = *policy.maintenanceWindow;
  const std::string at = field + ".maintenanceWindow";
  const bool enforced = window.enforced.value_or(false);
  std::vector<std::string>& problems = enforced ? findings.errors : findings.warnings;
  if (!enforced && window.includes.empty()) return;
  absl::Duration duration = absl::Hours(1);
  if (policy.maxDuration.has_value()) {
    const auto read = api::ParseDuration(*policy.maxDuration);
    if (read.ok()) duration = *read;
    AddError(field + ".maxDuration", read.status(), problems);
  }
  const auto read = rollout::Window::Read(window.includes, window.timeZone.value_or("UTC"), duration);
  for (const std::string& problem : read.problems()) problems.push_back(absl::StrCat(field, ".", problem));
  if (!enforced) {
    findings.warnings.push_back(absl::StrCat(at,
                                             ": the window is set and not enforced, so updates do not wait for it; "
                                             "maintenanceWindow.enforced: true does that"));
  }
}

void CheckCron(const std::string& text, const std::string& field, std::vector<std::string>& to) {
  if (!text.empty()) AddError(field, rollout::CronEntry::Parse(text).status(), to);
}

void CheckDefrag(const api::NodeDefragConfig& defrag, const std::string& field, Findings& findings) {
  std::vector<std::string>& problems = defrag.enabled.value_or(false) ? findings.errors : findings.warnings;
  if (defrag.schedule.has_value()) CheckCron(*defrag.schedule, field + ".schedule", problems);
  if (!defrag.timezone.empty()) AddError(field + ".timezone", rollout::LoadZone(defrag.timezone).status(), problems);
}

template <typename Requirement>
void CheckRequirements(const std::vector<Requirement>& requirements, const std::string& field, Findings& findings) {
  for (size_t i = 0; i < requirements.size(); ++i) {
    const Requirement& requirement = requirements[i];
    const std::string at = absl::StrCat(field, "[", i, "]");
    const std::string& op = requirement.operator_;
    const size_t values = requirement.values.size();
    if (requirement.key.empty())
      findings.errors.push_back(absl::StrCat(at, ".key: it is empty; expected a label's name"));
    if (op == "In" || op == "NotIn") {
      if (values == 0)
        findings.errors.push_back(absl::StrCat(at, ".values: operator ", op, " needs at least one value"));
    } else if (op == "Exists" || op == "DoesNotExist") {
      if (values != 0)
        findings.errors.push_back(absl::StrCat(at, ".values: operator ", op, " takes no values, found ", values));
    } else if (op == "Gt" || op == "Lt") {
      if (values != 1)
        findings.errors.push_back(
            absl::StrCat(at, ".values: operator ", op, " needs one number, found ", values, " values"));
    } else {
      findings.errors.push_back(
          absl::StrCat(at, ".operator: expected In, NotIn, Exists, DoesNotExist, Gt or Lt, found ", Quoted(op)));
    }
  }
}

void CheckNodeSelector(const api::NodeSelector& selector, const std::string& field, Findings& findings) {
  for (size_t i = 0; i < selector.nodeSelectorTerms.size(); ++i) {
    const std::string at = absl::StrCat(field, ".nodeSelectorTerms[", i, "]");
    const api::NodeSelectorTerm& term = selector.nodeSelectorTerms[i];
    CheckRequirements(term.matchExpressions, at + ".matchExpressions", findings);
    CheckRequirements(term.matchFields, at + ".matchFields", findings);
    if (term.matchExpressions.empty() && term.matchFields.empty()) {
      findings.warnings.push_back(absl::StrCat(at, ": a term without requirements matches no node"));
    }
  }
}

void CheckNotMore(const api::Quantity& less, const api::Quantity& more, const std::string& field,
                  const std::string& less_name, const std::string& more_name, Findings& findings) {
  if (more.IsZero() || less <= more) return;
  findings.errors.push_back(
      absl::StrCat(field, ".", less_name, ": ", less.Text(), " is more than ", more_name, ", which is ", more.Text()));
}

// The env of the licence in one container: either of the two alone is refused by every worker.
void CheckLicenseEnv(const kube::Json& pod_template, const std::string& field, Findings& findings) {
  const kube::Json* containers = kube::Field(pod_template, "template.spec.containers");
  if (containers == nullptr || !containers->is_array()) return;
  for (size_t i = 0; i < containers->get_array().size(); ++i) {
    const kube::Json& container = containers->get_array()[i];
    const kube::Json* env = kube::Field(container, "env");
    if (env == nullptr || !env->is_array()) continue;
    std::set<std::string> names;
    for (const kube::Json& variable : env->get_array()) {
      const std::string name(kube::Text(variable, "name"));
      if (!name.empty() && !names.insert(name).second) {
        findings.warnings.push_back(absl::StrCat(field, ".template.spec.containers[", i, "].env: ", Quoted(name),
                                                 " is there twice; the last one counts"));
      }
    }
    if (names.contains("TF_LICENSE") != names.contains("TF_LICENSE_SIGN") &&
        kube::Field(container, "envFrom") == nullptr) {
      const bool text = names.contains("TF_LICENSE");
      findings.warnings.push_back(absl::StrCat(
          field, ".template.spec.containers[", i, "].env: ", text ? "TF_LICENSE" : "TF_LICENSE_SIGN", " is set and ",
          text ? "TF_LICENSE_SIGN" : "TF_LICENSE", " is not; a licence is both, from one issue"));
    }
  }
}

void CheckTemplate(const api::JsonObject& object, const char* container, const std::string& field, Findings& findings) {
  if (object.empty()) return;
  const kube::Json value = object;
  CheckPodTemplate(value, TemplateShape::kPodTemplate, field, findings);
  const kube::Json* spec = kube::Field(value, "template.spec");
  if (spec == nullptr) {
    findings.errors.push_back(absl::StrCat(
        field, ": expected template.spec with the pod's containers",
        kube::Field(value, "spec") != nullptr ? "; spec stands one level too high: it belongs below template" : ""));
    return;
  }
  const kube::Json* containers = kube::Field(*spec, "containers");
  std::vector<std::string> names;
  if (containers != nullptr && containers->is_array()) {
    for (const kube::Json& one : containers->get_array()) names.emplace_back(kube::Text(one, "name"));
  }
  const bool only_one = names.size() == 1 && names[0].empty();
  if (container != nullptr && !only_one && std::find(names.begin(), names.end(), container) == names.end()) {
    std::vector<std::string> quoted;
    for (const std::string& name : names) quoted.push_back(Quoted(name));
    findings.errors.push_back(absl::StrCat(field, ".template.spec.containers: expected a container named ",
                                           Quoted(container), ", found ",
                                           quoted.empty() ? "none" : absl::StrJoin(quoted, ", ")));
  }
  CheckLicenseEnv(value, field, findings);
}

void CheckComponents(const api::ComponentConfig& config, const std::string& field, Findings& findings) {
  if (config.worker.has_value()) {
    CheckTemplate(config.worker->podTemplate, api::kWorkerContainer, field + ".worker.podTemplate", findings);
  }
  if (config.hypervisor.has_value()) {
    // Any name will do there: the first container is the hypervisor.
    CheckTemplate(config.hypervisor->podTemplate, nullptr, field + ".hypervisor.podTemplate", findings);
  }
  if (config.client.has_value()) {
    if (!config.client->patchToPod.empty()) {
      CheckPodTemplate(config.client->patchToPod, TemplateShape::kPod, field + ".client.patchToPod", findings);
    }
    if (!config.client->patchToContainer.empty()) {
      CheckPodTemplate(config.client->patchToContainer, TemplateShape::kContainer, field + ".client.patchToContainer",
                       findings);
    }
  }
}

void CheckPool(const api::GPUPoolSpec& spec, const std::string& field, const Surroundings& around, Findings& findings) {
  const api::NodeManagerConfig& manager = spec.nodeManagerConfig;
  const std::string at = field + ".nodeManagerConfig";
  if (manager.nodePoolRollingUpdatePolicy.has_value()) {
    CheckWindow(*manager.nodePoolRollingUpdatePolicy, at + ".nodePoolRollingUpdatePolicy", findings);
  }
  if (manager.nodeCompaction.has_value() && manager.nodeCompaction->defrag.has_value()) {
    CheckDefrag(*manager.nodeCompaction->defrag, at + ".nodeCompaction.defrag", findings);
  }
  if (manager.nodeSelector.has_value()) CheckNodeSelector(*manager.nodeSelector, at + ".nodeSelector", findings);
  for (const auto& [vendor, selector] : manager.multiVendorNodeSelector) {
    CheckNodeSelector(selector, absl::StrCat(at, ".multiVendorNodeSelector[", Quoted(vendor), "]"), findings);
  }
  for (size_t i = 0; i < manager.isolationModeRules.size(); ++i) {
    CheckRequirements(manager.isolationModeRules[i].selector.matchExpressions,
                      absl::StrCat(at, ".isolationModeRules[", i, "].selector.matchExpressions"), findings);
  }
  if (spec.capacityConfig.has_value()) {
    const api::CapacityConfig& capacity = *spec.capacityConfig;
    if (capacity.minResources.has_value() && capacity.maxResources.has_value()) {
      const std::string least = field + ".capacityConfig.minResources";
      CheckNotMore(capacity.minResources->tflops, capacity.maxResources->tflops, least, "tflops", "maxResources.tflops",
                   findings);
      CheckNotMore(capacity.minResources->vram, capacity.maxResources->vram, least, "vram", "maxResources.vram",
                   findings);
    }
  }
  if (spec.componentConfig.has_value()) {
    CheckComponents(*spec.componentConfig, field + ".componentConfig", findings);
  } else {
    findings.warnings.push_back(
        absl::StrCat(field, ".componentConfig: it is not there, so no hypervisor, worker or client is made"));
  }
  if (!spec.schedulingConfigTemplate.empty() && around.has_scheduling_template &&
      !around.has_scheduling_template(spec.schedulingConfigTemplate)) {
    findings.warnings.push_back(absl::StrCat(field, ".schedulingConfigTemplate: there is no SchedulingConfigTemplate ",
                                             Quoted(spec.schedulingConfigTemplate),
                                             "; the defaults hold until there is one"));
  }
}

void CheckCluster(const api::TensorFusionCluster& cluster, const Surroundings& around, Findings& findings) {
  std::set<std::string> names;
  std::vector<std::string> defaults;
  for (size_t i = 0; i < cluster.spec.gpuPools.size(); ++i) {
    const api::GPUPoolDefinition& pool = cluster.spec.gpuPools[i];
    const std::string at = absl::StrCat("spec.gpuPools[", i, "]");
    if (!names.insert(pool.name).second) {
      findings.errors.push_back(
          absl::StrCat(at, ".name: ", Quoted(pool.name), " is there twice; each pool has a name of its own"));
    }
    const std::string object = absl::StrCat(cluster.metadata.name, "-", pool.name);
    if (object.size() > kLongestLabel) {
      findings.errors.push_back(absl::StrCat(at, ".name: the pool would be named ", Quoted(object), ", which has ",
                                             object.size(), " characters; at most ", kLongestLabel, " are allowed"));
    }
    if (pool.isDefault) defaults.push_back(Quoted(pool.name));
    CheckPool(pool.specTemplate, at + ".specTemplate", around, findings);
  }
  if (defaults.size() > 1) {
    findings.errors.push_back(absl::StrCat("spec.gpuPools: ", absl::StrJoin(defaults, " and "),
                                           " have isDefault: true; at most one pool is the default"));
  }
  if (defaults.size() == 1 && around.other_default_pools) {
    for (const std::string& other : around.other_default_pools(cluster.metadata.name)) {
      findings.warnings.push_back(absl::StrCat("spec.gpuPools: ", defaults[0],
                                               " has isDefault: true, and so has GPUPool ", Quoted(other),
                                               " of another cluster; which of them is used is not defined"));
    }
  }
}

void CheckScaling(const api::AutoScalingConfig& config, const std::string& field, Findings& findings) {
  for (size_t i = 0; i < config.cronScalingRules.size(); ++i) {
    const api::CronScalingRule& rule = config.cronScalingRules[i];
    const std::string at = absl::StrCat(field, ".cronScalingRules[", i, "]");
    std::vector<std::string>& problems = rule.enable ? findings.errors : findings.warnings;
    CheckCron(rule.start, at + ".start", problems);
    CheckCron(rule.end, at + ".end", problems);
  }
}

void CheckWorkload(const api::WorkloadProfileSpec& spec, const Surroundings& around, bool pool_counts,
                   Findings& findings) {
  if (spec.resources.has_value()) {
    const api::Resources& resources = *spec.resources;
    const std::string at = "spec.resources.requests";
    CheckNotMore(resources.requests.tflops, resources.limits.tflops, at, "tflops", "limits.tflops", findings);
    CheckNotMore(resources.requests.vram, resources.limits.vram, at, "vram", "limits.vram", findings);
    CheckNotMore(resources.requests.compute, resources.limits.compute, at, "compute", "limits.compute", findings);
  }
  if (spec.autoScalingConfig.has_value()) CheckScaling(*spec.autoScalingConfig, "spec.autoScalingConfig", findings);
  if (!spec.workerPodTemplate.empty()) {
    CheckPodTemplate(spec.workerPodTemplate, TemplateShape::kPodTemplateSpec, "spec.workerPodTemplate", findings);
  }
  if (pool_counts && !spec.poolName.empty() && around.has_pool && !around.has_pool(spec.poolName)) {
    findings.warnings.push_back(absl::StrCat("spec.poolName: there is no GPUPool ", Quoted(spec.poolName),
                                             "; no worker is made before there is one"));
  }
}

// An object of one kind, read and checked.
template <typename T>
void CheckAs(const kube::Json& object, Findings& findings, const std::function<void(const T&)>& check) {
  const absl::StatusOr<T> read = api::FromObject<T>(object);
  if (!read.ok()) {
    findings.errors.push_back(std::string(read.status().message()));
  } else {
    check(*read);
  }
}

}  // namespace

Findings CheckObject(const kube::Json& object, const Surroundings& around) {
  Findings findings;
  const std::string_view kind = kube::Text(object, "kind");
  if (kind == api::TensorFusionCluster::kResource.kind) {
    CheckAs<api::TensorFusionCluster>(object, findings,
                                      [&](const auto& cluster) { CheckCluster(cluster, around, findings); });
  } else if (kind == api::GPUPool::kResource.kind) {
    CheckAs<api::GPUPool>(object, findings, [&](const auto& pool) { CheckPool(pool.spec, "spec", around, findings); });
  } else if (kind == api::TensorFusionWorkload::kResource.kind) {
    CheckAs<api::TensorFusionWorkload>(object, findings, [&](const auto& workload) {
      CheckWorkload(workload.spec, around, /*pool_counts=*/true, findings);
    });
  } else if (kind == api::WorkloadProfile::kResource.kind) {
    CheckAs<api::WorkloadProfile>(object, findings, [&](const auto& profile) {
      CheckWorkload(profile.spec, around, /*pool_counts=*/false, findings);
    });
  } else if (kind == api::SchedulingConfigTemplate::kResource.kind) {
    CheckAs<api::SchedulingConfigTemplate>(object, findings, [&](const auto& scheduling) {
      for (size_t i = 0; i < scheduling.spec.verticalScalingRules.size(); ++i) {
        const api::VerticalScalingRule& rule = scheduling.spec.verticalScalingRules[i];
        const std::string at = absl::StrCat("spec.verticalScalingRules[", i, "]");
        CheckRequirements(rule.selector.matchExpressions, at + ".selector.matchExpressions", findings);
        if (rule.autoScaling.has_value()) CheckScaling(*rule.autoScaling, at + ".autoScaling", findings);
      }
    });
  }
  return findings;
}

kube::AdmissionResponse Validate(const kube::AdmissionRequest& request, const Surroundings& around) {
  if (request.operation != "CREATE" && request.operation != "UPDATE") return kube::Allow();
  if (!request.subresource.empty() || !request.object.is_object() || kube::IsBeingDeleted(request.object)) {
    return kube::Allow();
  }
  std::set<std::string> known;  // mistakes that were there before
  if (request.old_object.is_object()) {
    const kube::Json* before = kube::Field(request.old_object, "spec");
    const kube::Json* after = kube::Field(request.object, "spec");
    if ((before == nullptr) == (after == nullptr) && (before == nullptr || *before == *after)) return kube::Allow();
    for (std::string& error : CheckObject(request.old_object, around).errors) known.insert(std::move(error));
  }
  Findings findings = CheckObject(request.object, around);
  kube::AdmissionResponse response = kube::Allow();
  const std::string_view cluster = kube::Label(request.object, api::kManagedByLabel);
  if (kube::Text(request.object, "kind") == api::GPUPool::kResource.kind && !cluster.empty()) {
    // The operator must be able to write what its cluster says, also what got in while nobody looked.
    known.insert(findings.errors.begin(), findings.errors.end());
    if (request.operation == "UPDATE") {
      response.warnings.push_back(absl::StrCat("this pool is made from TensorFusionCluster ", Quoted(cluster),
                                               ", which overwrites its spec: make the change there"));
    }
  }
  std::vector<std::string> errors;
  for (std::string& error : findings.errors) {
    (known.contains(error) ? response.warnings : errors).push_back(std::move(error));
  }
  for (std::string& warning : findings.warnings) response.warnings.push_back(std::move(warning));
  if (response.warnings.size() > kMostMessages) response.warnings.resize(kMostMessages);
  if (errors.empty()) return response;
  if (errors.size() > kMostMessages) errors.resize(kMostMessages);
  kube::AdmissionResponse refusal = kube::Deny(absl::StrJoin(errors, "; "));
  refusal.code = 422;
  refusal.warnings = std::move(response.warnings);
  return refusal;
}

void AddValidation(kube::Manager& manager, kube::Informer& pools) {
  kube::Informer& templates = manager.Cache(api::SchedulingConfigTemplate::kResource, {.metadata_only = true});
  const Surroundings around{
      // Before the caches are filled nothing is known to be missing.
      .has_scheduling_template =
          [&templates](const std::string& name) { return !templates.synced() || templates.Get({"", name}) != nullptr; },
      .has_pool = [&pools](const std::string& name) { return !pools.synced() || pools.Get({"", name}) != nullptr; },
      .other_default_pools =
          [&pools](const std::string& cluster) {
            std::vector<std::string> names;
            for (const kube::ObjectPtr& pool : pools.All()) {
              if (kube::Annotation(*pool, api::kDefaultPoolAnnotation) == "true" &&
                  kube::Label(*pool, api::kManagedByLabel) != cluster) {
                names.emplace_back(kube::Name(*pool));
              }
            }
            return names;
          }};
  manager.AddWebhook("/validate",
                     [around](const kube::AdmissionRequest& request) { return Validate(request, around); });
}

}  // namespace tf::operators
