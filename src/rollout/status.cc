#include "rollout/status.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::rollout {
namespace {

std::optional<api::Time> Written(const std::optional<absl::Time>& time) {
  if (!time) return std::nullopt;
  return api::Time(*time);
}

std::optional<absl::Time> Read(const std::optional<api::Time>& time) {
  if (!time || !time->IsSet()) return std::nullopt;
  return time->at();
}

std::vector<api::RolloutNode> Written(const std::vector<OpenNode>& nodes) {
  std::vector<api::RolloutNode> written;
  for (const OpenNode& node : nodes) written.push_back({.name = node.node, .since = api::Time(node.since)});
  return written;
}

std::vector<OpenNode> Read(const std::vector<api::RolloutNode>& nodes) {
  std::vector<OpenNode> read;
  for (const api::RolloutNode& node : nodes) read.push_back({node.name, Read(node.since).value_or(absl::UnixEpoch())});
  std::sort(read.begin(), read.end(), [](const OpenNode& a, const OpenNode& b) { return a.node < b.node; });
  return read;
}

// Where componentStatus has a component.
struct Fields {
  std::string api::ComponentStatus::* revision;
  bool api::ComponentStatus::* synced;
  int32_t api::ComponentStatus::* progress;
};

Fields FieldsOf(Component component) {
  using Status = api::ComponentStatus;
  switch (component) {
    case Component::kHypervisor:
      return {&Status::hypervisor, &Status::hypervisorConfigSynced, &Status::hypervisorUpdateProgress};
    case Component::kWorker:
      return {&Status::worker, &Status::workerConfigSynced, &Status::workerUpdateProgress};
    case Component::kClient:
      break;
  }
  return {&Status::client, &Status::clientConfigSynced, &Status::clientUpdateProgress};
}

int32_t Small(int64_t number) { return static_cast<int32_t>(std::clamp<int64_t>(number, 0, INT32_MAX)); }

ComponentState ReadComponent(const api::RolloutStatus& status) {
  ComponentState state;
  state.target = status.toRevision;
  state.from = status.fromRevision;
  state.last_good = status.lastGoodRevision;
  state.started = Read(status.startedAt);
  state.batch = status.batch;
  state.batch_size = status.batchSize;
  state.batch_started = Read(status.lastBatchAt);
  if (!status.memory) return state;
  const api::RolloutMemory& memory = *status.memory;
  state.rejected = memory.rejectedRevision;
  state.complete = memory.complete;
  state.announced = memory.announced;
  state.halted_for = memory.haltedFor;
  state.batch_open = memory.batchOpen;
  state.batch_opened = memory.batchOpened;
  state.batch_healthy = Read(memory.batchHealthyAt);
  state.open = Read(memory.openNodes);
  state.awaited = Read(memory.awaitedNodes);
  for (const api::RolloutNode& node : memory.failedNodes) {
    state.failed.push_back({node.name, Read(node.since).value_or(absl::UnixEpoch()), node.reason, node.message});
  }
  std::sort(state.failed.begin(), state.failed.end(),
            [](const FailedNode& a, const FailedNode& b) { return a.node < b.node; });
  for (const auto& [owner, pods] : memory.excused) state.excused.push_back({owner, pods});
  return state;
}

api::RolloutStatus WriteComponent(Component component, const ComponentState& state, const Report& report) {
  api::RolloutStatus status;
  status.component = Name(component);
  status.phase = Name(report.phase);
  status.reason = report.reason;
  status.message = report.message;
  status.fromRevision = state.from;
  status.toRevision = state.target;
  status.lastGoodRevision = state.last_good;
  status.nodes.total = Small(report.total);
  status.nodes.updated = Small(report.updated);
  status.nodes.ready = Small(report.ready);
  status.nodes.failed = Small(report.failed);
  status.nodes.skipped = Small(report.skipped);
  status.batch = Small(state.batch);
  status.batches = Small(report.batches);
  status.batchSize = Small(state.batch_size);
  status.maxUnavailable = Small(report.max_unavailable);
  status.startedAt = Written(state.started);
  status.lastBatchAt = Written(state.batch_started);
  status.nextActionAt = Written(report.next_action);
  status.nextWindowAt = Written(report.next_window);
  status.nextWindowLocalTime = report.next_window_local;
  for (const Stuck& stuck : report.stuck) {
    status.stuckUnits.push_back({.name = stuck.name, .reason = stuck.reason, .message = stuck.message});
  }
  api::RolloutMemory& memory = status.memory.emplace();
  memory.rejectedRevision = state.rejected;
  memory.complete = state.complete;
  memory.announced = state.announced;
  memory.haltedFor = state.halted_for;
  memory.batchOpen = state.batch_open;
  memory.batchOpened = Small(state.batch_opened);
  memory.batchHealthyAt = Written(state.batch_healthy);
  memory.openNodes = Written(state.open);
  memory.awaitedNodes = Written(state.awaited);
  for (const FailedNode& failed : state.failed) {
    memory.failedNodes.push_back(
        {.name = failed.node, .since = api::Time(failed.since), .reason = failed.reason, .message = failed.message});
  }
  for (const Excused& excused : state.excused) memory.excused[excused.owner] = Small(excused.pods);
  return status;
}

}  // namespace

Policy ReadPolicy(const std::optional<api::RollingUpdatePolicy>& policy) {
  PolicySource source;
  if (!policy) return ReadPolicy(source);
  source.auto_update_hypervisor = policy->autoUpdateHypervisor;
  source.auto_update_worker = policy->autoUpdateWorker;
  source.auto_update_client = policy->autoUpdateClient;
  source.batch_percentage = policy->batchPercentage;
  source.batch_interval = policy->batchInterval;
  source.max_duration = policy->maxDuration;
  source.paused = policy->paused;
  source.min_ready_seconds = policy->minReadySeconds;
  source.progress_deadline_seconds = policy->progressDeadlineSeconds;
  source.on_failure = policy->onFailure;
  source.max_failures = policy->maxFailures;
  if (policy->maintenanceWindow) {
    source.window_includes = policy->maintenanceWindow->includes;
    source.window_enforced = policy->maintenanceWindow->enforced;
    source.window_time_zone = policy->maintenanceWindow->timeZone;
  }
  if (policy->maxUnavailable) {
    const auto& value = policy->maxUnavailable->value;
    source.max_unavailable = std::holds_alternative<int64_t>(value) ? std::to_string(std::get<int64_t>(value))
                                                                    : std::get<std::string>(value);
  }
  return ReadPolicy(source);
}

State ReadState(const api::ComponentStatus& components, const std::vector<api::RolloutStatus>& rollouts) {
  State state;
  for (const Component component : kAllComponents) {
    const auto found = std::find_if(rollouts.begin(), rollouts.end(), [&](const api::RolloutStatus& status) {
      return status.component == Name(component);
    });
    if (found == rollouts.end()) continue;
    ComponentState& read = state.components[static_cast<size_t>(component)];
    read = ReadComponent(*found);
    read.progress = components.*FieldsOf(component).progress;
  }
  return state;
}

void WriteStatus(const Decision& decision, api::ComponentStatus& components,
                 std::vector<api::RolloutStatus>& rollouts) {
  for (const Component component : kAllComponents) {
    const ComponentState& state = decision.state.components[static_cast<size_t>(component)];
    const Report& report = decision.reports[static_cast<size_t>(component)];
    const Fields fields = FieldsOf(component);
    components.*fields.revision = report.revision;
    components.*fields.synced = report.synced;
    components.*fields.progress = Small(report.progress);
    api::RolloutStatus status = WriteComponent(component, state, report);
    const auto found = std::find_if(rollouts.begin(), rollouts.end(), [&](const api::RolloutStatus& other) {
      return other.component == status.component;
    });
    if (found == rollouts.end()) {
      rollouts.push_back(std::move(status));
    } else {
      *found = std::move(status);
    }
  }
}

}  // namespace tf::rollout
