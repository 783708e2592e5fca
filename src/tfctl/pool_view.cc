#include "tfctl/pool_view.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "api/defaults.h"
#include "tfctl/output.h"

namespace tf::tfctl {
namespace {

using api::GPUPool;
using api::GPUPoolStatus;
using api::Json;
using api::JsonArray;
using api::JsonObject;
using api::LicenseStatus;
using api::RollingUpdatePolicy;
using api::RolloutStatus;

constexpr int kShownDigits = 8;  // of each part of a revision
constexpr int kBarWidth = 24;

RollingUpdatePolicy PolicyOf(const api::GPUPoolSpec& spec) {
  return api::WithDefaults(spec.nodeManagerConfig.nodePoolRollingUpdatePolicy.value_or(RollingUpdatePolicy{}));
}

bool HasComponent(const api::GPUPoolSpec& spec, std::string_view component) {
  if (!spec.componentConfig) return false;
  if (component == "hypervisor") return spec.componentConfig->hypervisor.has_value();
  if (component == "worker") return spec.componentConfig->worker.has_value();
  return spec.componentConfig->client.has_value();
}

// Of "CONFIG-EXTRA.EXTRA" the beginning of each part: the parts change for different reasons.
std::string Short(const std::string& revision) {
  std::string text;
  int digits = 0;
  for (const char c : revision) {
    const bool separator = c == '-' || c == '.';
    digits = separator ? 0 : digits + 1;
    if (digits <= kShownDigits) text += c;
  }
  return text;
}

std::string Percent(int percent) { return absl::StrCat(percent, " %"); }

// "3/8 updated, 1 failed"
std::string Nodes(const RolloutStatus& rollout) {
  std::string text = absl::StrCat(rollout.nodes.updated, "/", rollout.nodes.total, " updated");
  if (rollout.nodes.ready < rollout.nodes.updated) absl::StrAppend(&text, ", ", rollout.nodes.ready, " ready");
  if (rollout.nodes.failed > 0) absl::StrAppend(&text, ", ", rollout.nodes.failed, " failed");
  if (rollout.nodes.skipped > 0) absl::StrAppend(&text, ", ", rollout.nodes.skipped, " set aside");
  return text;
}

std::string Batch(const RolloutStatus& rollout) {
  return rollout.batches > 0 ? absl::StrCat(rollout.batch, " of ", rollout.batches) : "";
}

std::string Left(const RolloutStatus& rollout, absl::Time now) {
  const std::optional<absl::Duration> left = TimeLeft(rollout, now);
  return left ? absl::StrCat("about ", ShortDuration(*left)) : "";
}

// "Progressing: BatchOpen"; either may be missing.
std::string PhaseAndReason(const RolloutStatus& rollout) {
  if (rollout.reason.empty() || rollout.reason == rollout.phase) return rollout.phase;
  return absl::StrCat(rollout.phase, rollout.phase.empty() ? "" : ": ", rollout.reason);
}

// What stands below a component's line: why, when it goes on, and what it waits for.
std::string Details(const GPUPool& pool, const std::string& component, absl::Time now) {
  const RolloutStatus* rollout = FindRollout(pool.status, component);
  if (rollout == nullptr) return "";
  std::string text;
  if (!rollout->message.empty()) absl::StrAppend(&text, "  ", component, ": ", rollout->message, "\n");
  if (OutlookOf(pool, component) == Outlook::kComplete) return text;
  if (rollout->nextActionAt && rollout->nextActionAt->IsSet() && rollout->nextActionAt->at() > now) {
    absl::StrAppend(&text, "  ", component, ": goes on in ", ShortDuration(rollout->nextActionAt->at() - now), "\n");
  }
  if (rollout->nextWindowAt && rollout->nextWindowAt->IsSet()) {
    absl::StrAppend(&text, "  ", component, ": the next window opens ", rollout->nextWindowAt->Text(),
                    rollout->nextWindowLocalTime.empty() ? "" : absl::StrCat(" (", rollout->nextWindowLocalTime, ")"),
                    "\n");
  }
  for (const api::RolloutUnit& unit : rollout->stuckUnits) {
    absl::StrAppend(&text, "    ", unit.name, "  ", unit.reason, unit.message.empty() ? "" : ": ", unit.message, "\n");
  }
  return text;
}

std::string PolicyLine(const GPUPool& pool) {
  const RollingUpdatePolicy policy = PolicyOf(pool.spec);
  std::vector<std::string> automatic;
  for (std::string_view component : kComponents) {
    if (AutoUpdate(pool.spec, component)) automatic.emplace_back(component);
  }
  std::string text =
      absl::StrCat("policy: ", *policy.batchPercentage, " % of the nodes in a batch, ", *policy.batchInterval,
                   " between batches; auto update: ", automatic.empty() ? "off" : absl::StrJoin(automatic, ", "));
  if (!policy.maintenanceWindow->includes.empty()) {
    absl::StrAppend(&text, "; window ", *policy.maintenanceWindow->enforced ? "enforced" : "set, not enforced");
  }
  if (*policy.paused) text += "; PAUSED";
  return text;
}

// "2027-11-30T00:00:00Z (in 365d)"
std::string Expiry(const LicenseStatus& license, absl::Time now) {
  if (!license.expires || !license.expires->IsSet()) return "";
  const absl::Time at = license.expires->at();
  return absl::StrCat(license.expires->Text(), at >= now ? " (in " : " (ended ",
                      ShortDuration(at >= now ? at - now : now - at), at >= now ? ")" : " ago)");
}

std::string Cards(const LicenseStatus& license) {
  if (!license.licensedGPUs) return "";
  return absl::StrCat(*license.licensedGPUs, " of ", license.maxGPUs ? absl::StrCat(*license.maxGPUs) : "any number");
}

// "3 valid, 1 rejected"
std::string Workers(const LicenseStatus& license) {
  return absl::StrJoin(license.workers, ", ",
                       [](std::string* out, const auto& pair) { absl::StrAppend(out, pair.second, " ", pair.first); });
}

std::string LicenseState(const GPUPool& pool) {
  if (!pool.status.license) return "";
  const LicenseStatus& license = *pool.status.license;
  return license.reason.empty() ? license.state : absl::StrCat(license.state, " (", license.reason, ")");
}

// "12480 of 62400"
std::string Of(const api::Quantity& available, const api::Quantity& total) {
  return absl::StrCat(available.Text(), " of ", total.Text());
}

std::string Age(const GPUPool& pool, absl::Time now) {
  return pool.metadata.creationTimestamp.IsSet() ? ShortDuration(now - pool.metadata.creationTimestamp.at()) : "";
}

const Json* Member(const Json& object, std::string_view path) { return kube::Field(object, path); }

}  // namespace

ComponentProgress ProgressOf(const GPUPoolStatus& status, std::string_view component) {
  const api::ComponentStatus& of = status.componentStatus;
  if (component == "hypervisor") return {of.hypervisor, of.hypervisorConfigSynced, of.hypervisorUpdateProgress};
  if (component == "worker") return {of.worker, of.workerConfigSynced, of.workerUpdateProgress};
  return {of.client, of.clientConfigSynced, of.clientUpdateProgress};
}

const RolloutStatus* FindRollout(const GPUPoolStatus& status, std::string_view component) {
  for (const RolloutStatus& rollout : status.rollouts) {
    if (rollout.component == component) return &rollout;
  }
  return nullptr;
}

bool AutoUpdate(const api::GPUPoolSpec& spec, std::string_view component) {
  const RollingUpdatePolicy policy = PolicyOf(spec);
  if (component == "hypervisor") return *policy.autoUpdateHypervisor;
  if (component == "worker") return *policy.autoUpdateWorker;
  return *policy.autoUpdateClient;
}

bool Paused(const api::GPUPoolSpec& spec) { return *PolicyOf(spec).paused; }

Outlook OutlookOf(const GPUPool& pool, std::string_view component) {
  if (!HasComponent(pool.spec, component)) return Outlook::kComplete;
  const RolloutStatus* rollout = FindRollout(pool.status, component);
  // Pending: auto update is off. RolledBack: every node runs the last good revision, and that is not the wanted one.
  static constexpr std::string_view kStopped[] = {"Pending", "Blocked", "Failed", "RolledBack"};
  if (rollout != nullptr &&
      (absl::c_linear_search(kStopped, rollout->phase) || rollout->reason == "ManualRestartNeeded")) {
    return Outlook::kStopped;
  }
  const ComponentProgress progress = ProgressOf(pool.status, component);
  return progress.synced && progress.percent == 100 ? Outlook::kComplete : Outlook::kUnderWay;
}

std::string WhyStopped(const GPUPool& pool, std::string_view component) {
  const std::string name(component);
  const RolloutStatus* rollout = FindRollout(pool.status, component);
  if (rollout == nullptr) return name;
  return absl::StrCat(name, ": ", PhaseAndReason(*rollout), rollout->message.empty() ? "" : ": ", rollout->message);
}

std::optional<absl::Duration> TimeLeft(const RolloutStatus& rollout, absl::Time now) {
  const int32_t done = std::min(rollout.nodes.ready, rollout.nodes.updated), rest = rollout.nodes.total - done;
  if (done <= 0 || rest <= 0 || !rollout.startedAt || !rollout.startedAt->IsSet() || rollout.startedAt->at() > now) {
    return std::nullopt;
  }
  return (now - rollout.startedAt->at()) * rest / done;
}

std::string RolloutText(const GPUPool& pool, const std::vector<std::string>& components, absl::Time now) {
  std::vector<std::vector<std::string>> rows = {
      {"COMPONENT", "REVISION", "PROGRESS", "SYNCED", "NODES", "BATCH", "TIME LEFT", "PHASE"}};
  std::string details;
  for (const std::string& component : components) {
    const ComponentProgress progress = ProgressOf(pool.status, component);
    const RolloutStatus* rollout = FindRollout(pool.status, component);
    std::vector<std::string> row = {component, Short(progress.revision), Percent(progress.percent),
                                    progress.synced ? "true" : "false"};
    if (rollout == nullptr) {
      row.insert(row.end(), {"", "", "", ""});
    } else {
      row.insert(row.end(), {Nodes(*rollout), Batch(*rollout), Left(*rollout, now), PhaseAndReason(*rollout)});
    }
    rows.push_back(std::move(row));
    details += Details(pool, component, now);
  }
  return absl::StrCat("pool/", pool.metadata.name, "  ", PolicyLine(pool), "\n", Columns(rows), details);
}

std::string LiveText(const GPUPool& pool, const std::vector<std::string>& components, absl::Time now) {
  std::string text;
  for (const std::string& component : components) {
    const ComponentProgress progress = ProgressOf(pool.status, component);
    const int filled = std::clamp(progress.percent, 0, 100) * kBarWidth / 100;
    absl::StrAppendFormat(&text, "%-10s [%s%s] %3d %%", component, std::string(static_cast<size_t>(filled), '#'),
                          std::string(static_cast<size_t>(kBarWidth - filled), '.'), progress.percent);
    if (const RolloutStatus* rollout = FindRollout(pool.status, component)) {
      if (rollout->batches > 0) absl::StrAppend(&text, "  batch ", Batch(*rollout));
      absl::StrAppend(&text, "  nodes ", Nodes(*rollout));
      if (const std::string left = Left(*rollout, now); !left.empty()) absl::StrAppend(&text, "  ", left, " left");
      if (const std::string phase = PhaseAndReason(*rollout); !phase.empty()) absl::StrAppend(&text, "  ", phase);
    }
    absl::StrAppend(&text, "\n", Details(pool, component, now));
  }
  return text;
}

std::string PlainLine(const GPUPool& pool, std::string_view component) {
  const std::string name(component);
  const ComponentProgress progress = ProgressOf(pool.status, component);
  std::string text = absl::StrCat(name, ": ", Percent(progress.percent));
  const RolloutStatus* rollout = FindRollout(pool.status, component);
  if (rollout != nullptr) {
    if (rollout->batches > 0) absl::StrAppend(&text, ", batch ", Batch(*rollout));
    absl::StrAppend(&text, ", nodes ", Nodes(*rollout));
    if (const std::string phase = PhaseAndReason(*rollout); !phase.empty()) absl::StrAppend(&text, ", ", phase);
    if (!rollout->message.empty()) absl::StrAppend(&text, " (", rollout->message, ")");
    for (const api::RolloutUnit& unit : rollout->stuckUnits) {
      absl::StrAppend(&text, "; ", unit.name, " ", unit.reason);
    }
  }
  return text;
}

std::string PoolTable(const std::vector<GPUPool>& pools, absl::Time now) {
  if (pools.empty()) return "No pools.\n";
  std::vector<std::vector<std::string>> rows = {{"NAME", "PHASE", "NODES", "GPUS", "TFLOPS FREE", "VRAM FREE",
                                                 "HYPERVISOR", "WORKER", "CLIENT", "LICENCE", "AGE"}};
  for (const GPUPool& pool : pools) {
    const GPUPoolStatus& status = pool.status;
    std::vector<std::string> row = {pool.metadata.name,
                                    status.phase,
                                    absl::StrCat(status.readyNodes, "/", status.totalNodes),
                                    absl::StrCat(status.totalGPUs),
                                    Of(status.availableTFlops, status.totalTFlops),
                                    Of(status.availableVRAM, status.totalVRAM)};
    for (std::string_view component : kComponents) {
      row.push_back(Percent(ProgressOf(status, component).percent));
    }
    row.push_back(LicenseState(pool));
    row.push_back(Age(pool, now));
    rows.push_back(std::move(row));
  }
  return Columns(rows);
}

std::string PoolText(const GPUPool& pool, const std::vector<std::pair<std::string, std::string>>& nodes,
                     absl::Time now) {
  const GPUPoolStatus& status = pool.status;
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    if (!value.empty()) absl::StrAppendFormat(&text, "%-14s%s\n", name, value);
  };
  line("pool", pool.metadata.name);
  const api::OwnerReference* owner = pool.metadata.Controller();
  line("of", owner != nullptr ? absl::StrCat(owner->kind, " ", owner->name) : "nobody: this GPUPool is edited itself");
  line("phase", status.phase);
  line("age", Age(pool, now));
  line("nodes", absl::StrCat(status.readyNodes, " of ", status.totalNodes, " ready"));
  line("gpus", absl::StrCat(status.totalGPUs));
  line("tflops", absl::StrCat(Of(status.availableTFlops, status.totalTFlops), " free, ", status.virtualTFlops.Text(),
                              " with oversubscription"));
  line("vram", absl::StrCat(Of(status.availableVRAM, status.totalVRAM), " free, ", status.virtualVRAM.Text(),
                            " with oversubscription"));
  if (status.license) {
    const LicenseStatus& license = *status.license;
    line("licence", LicenseState(pool));
    line("  id", license.id);
    line("  edition", license.edition);
    line("  customer", license.customer);
    line("  expires", Expiry(license, now));
    line("  cards", Cards(license));
    line("  workers", Workers(license));
    line("  message", license.message);
  }
  absl::StrAppend(&text, "\n", RolloutText(pool, {std::begin(kComponents), std::end(kComponents)}, now));
  if (!status.conditions.empty()) {
    std::vector<std::vector<std::string>> rows = {{"CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"}};
    for (const api::Condition& condition : status.conditions) {
      const api::Time& since = condition.lastTransitionTime;
      rows.push_back({condition.type, condition.status, since.IsSet() ? ShortDuration(now - since.at()) : "",
                      condition.reason, condition.message});
    }
    absl::StrAppend(&text, "\n", Columns(rows));
  }
  if (!nodes.empty()) {
    std::vector<std::vector<std::string>> rows = {{"NODE", "PHASE"}};
    for (const auto& [name, phase] : nodes) rows.push_back({name, phase});
    absl::StrAppend(&text, "\n", Columns(rows));
  }
  return text;
}

std::string LicenseTable(const std::vector<GPUPool>& pools, absl::Time now) {
  if (pools.empty()) return "No pools.\n";
  std::vector<std::vector<std::string>> rows = {
      {"POOL", "LICENCE", "EDITION", "CUSTOMER", "STATE", "EXPIRES", "CARDS", "WORKERS"}};
  std::string below;
  struct Use {
    int pools = 0;
    int64_t cards = 0;
    std::optional<int32_t> most = {};
  };
  std::map<std::string, Use> uses;
  for (const GPUPool& pool : pools) {
    if (!pool.status.license) {
      rows.push_back({pool.metadata.name, "", "", "", "", "", "", ""});
      continue;
    }
    const LicenseStatus& license = *pool.status.license;
    rows.push_back({pool.metadata.name, license.id, license.edition, license.customer, LicenseState(pool),
                    Expiry(license, now), Cards(license), Workers(license)});
    if (!license.message.empty()) absl::StrAppend(&below, "  ", pool.metadata.name, ": ", license.message, "\n");
    if (license.id.empty()) continue;
    Use& use = uses[license.id];
    use.pools += 1;
    use.cards += license.licensedGPUs.value_or(0);
    use.most = license.maxGPUs;
  }
  for (const auto& [id, use] : uses) {
    if (use.pools > 1) {
      absl::StrAppend(&below, "  ", id, ": ", use.cards, " cards in ", use.pools, " pools",
                      use.most ? absl::StrCat(", ", *use.most, " licensed") : "", "\n");
    }
    if (use.most && use.cards > *use.most) {
      absl::StrAppend(&below, "  ", id, ": more cards are in use than the licence covers (max-gpus=", *use.most, ")\n");
    }
  }
  return Columns(rows) + below;
}

Json RolloutJson(const Json& pool, const std::vector<std::string>& components) {
  const std::string policy = "spec.nodeManagerConfig.nodePoolRollingUpdatePolicy.";
  JsonArray list;
  for (const std::string& component : components) {
    const std::string status = "status.componentStatus." + component;
    std::string capital = component;
    capital[0] = static_cast<char>(capital[0] - 'a' + 'A');
    Json rollout = nullptr;
    if (const Json* rollouts = Member(pool, "status.rollouts"); rollouts != nullptr && rollouts->is_array()) {
      for (const Json& one : rollouts->get_array()) {
        if (kube::Text(one, "component") == component) rollout = one;
      }
    }
    list.push_back(JsonObject{{"component", component},
                              {"revision", kube::Text(pool, status)},
                              {"synced", kube::Flag(pool, status + "ConfigSynced")},
                              {"progress", kube::Number(pool, status + "UpdateProgress")},
                              {"autoUpdate", kube::Flag(pool, absl::StrCat(policy, "autoUpdate", capital))},
                              {"rollout", std::move(rollout)}});
  }
  return JsonObject{
      {"pool", kube::Name(pool)}, {"paused", kube::Flag(pool, policy + "paused")}, {"components", std::move(list)}};
}

Json LicenseJson(const Json& pool) {
  const Json* license = Member(pool, "status.license");
  return JsonObject{{"pool", kube::Name(pool)}, {"license", license == nullptr ? Json(nullptr) : *license}};
}

}  // namespace tf::tfctl
