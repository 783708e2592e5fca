#include "operator/pool_rollouts.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/gpu.h"
#include "api/names.h"
#include "api/workload.h"
#include "operator/pod_view.h"
#include "rollout/policy.h"
#include "rollout/status.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonArray;

// Pods change in swarms; one plan speaks of all that changed within this time.
constexpr absl::Duration kGather = absl::Milliseconds(250);
// A batch of a large pool is hundreds of restarts; one after another they take as long as the server's answers.
constexpr size_t kAtOnce = 8;
// What is missing wakes us when it comes; this is for what the API server does not let us read.
constexpr absl::Duration kLookForMissing = absl::Minutes(10);
// A worker that refuses its licence ends with this (license/gate.h).
constexpr int64_t kRefusedExit = 78;

constexpr size_t Index(Component component) { return static_cast<size_t>(component); }

constexpr const char* kSyncedConditions[] = {"HypervisorSynced", "WorkerSynced", "ClientSynced"};

std::string Text(std::string_view text) { return std::string(text); }

std::string DefaultVendor(const api::GPUPool& pool) {
  return pool.spec.nodeManagerConfig.defaultVendor.value_or("NVIDIA");
}

struct Readiness {
  bool up = false;
  absl::Time since = absl::InfiniteFuture();
  std::string reason = {};
  std::string message = {};
};

Readiness ReadinessOf(const Json* node) {
  if (node == nullptr) return {.reason = "NodeMissing", .message = "there is no such node"};
  Readiness readiness{.reason = "NodeNotReady", .message = "the node is not ready"};
  const Json* conditions = kube::Field(*node, "status.conditions");
  if (conditions != nullptr && conditions->is_array()) {
    for (const Json& condition : conditions->get_array()) {
      if (kube::Text(condition, "type") != "Ready") continue;
      readiness.up = kube::Text(condition, "status") == "True";
      const auto since = api::Time::Parse(kube::Text(condition, "lastTransitionTime"));
      if (since.ok()) readiness.since = since->at();
      const std::string reason(kube::Text(condition, "reason"));
      if (!reason.empty()) readiness.message = absl::StrCat("the node is not ready: ", reason);
    }
  }
  if (kube::IsBeingDeleted(*node)) readiness = {.reason = "NodeDeleted", .message = "the node is being deleted"};
  return readiness;
}

// What a node says of itself that a plan depends on.
bool ReadinessChanged(const kube::ChangeView& change) {
  if (change.before == nullptr) return true;
  const Readiness before = ReadinessOf(change.before), now = ReadinessOf(&change.object);
  return before.up != now.up || before.reason != now.reason || before.since != now.since;
}

absl::Time CreatedAt(const Json& object) {
  const auto time = api::Time::Parse(kube::Text(object, "metadata.creationTimestamp"));
  return time.ok() ? time->at() : absl::InfinitePast();
}

std::vector<kube::Key> PoolOfLabel(const Json& object) {
  const std::string_view pool = kube::Label(object, api::kPoolLabel);
  return pool.empty() ? std::vector<kube::Key>() : std::vector<kube::Key>{{"", Text(pool)}};
}

}  // namespace

// ---- What is there --------------------------------------------------------------------------------------------------

struct PoolRollouts::Unit {
  Component component = Component::kHypervisor;
  rollout::PodSeen pod = {};
  Revision revision = {};  // that it was started with; blank of what is not there yet
  std::string vendor = {};
  size_t node = 0;  // of Gathered::nodes; kNoNode: none yet

  static constexpr size_t kNoNode = ~size_t{0};
};

struct PoolRollouts::Gathered {
  std::vector<rollout::NodeSeen> nodes = {};
  std::vector<std::string> vendors = {};  // of the nodes
  std::map<std::string, size_t, std::less<>> by_name = {};
  std::vector<Unit> units = {};
  // Where pods of a component are or are to be: vendor and namespace, with the EXTRAs that pods there were started
  // with.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> places[rollout::kComponents] = {};
  std::set<std::string> worker_nodes = {};
  std::map<std::string, int32_t> workers = {};  // by state

  void Add(Unit unit) {
    std::set<std::string>& extras = places[Index(unit.component)][{unit.vendor, unit.pod.ns}];
    if (!unit.pod.uid.empty()) extras.insert(unit.revision.extras.begin(), unit.revision.extras.end());
    units.push_back(std::move(unit));
  }
};

PoolRollouts::Gathered PoolRollouts::Gather(const Json& object, const api::GPUPool& pool) const {
  Gathered gathered;
  const std::string& name = pool.metadata.name;
  const std::string default_vendor = DefaultVendor(pool);
  for (const kube::ObjectPtr& gpu_node : caches_.gpu_nodes.ByIndex(kByPool, name)) {
    if (kube::IsBeingDeleted(*gpu_node)) continue;
    const kube::ObjectPtr node = caches_.nodes.Get({"", Text(kube::Name(*gpu_node))});
    const Readiness readiness = ReadinessOf(node.get());
    rollout::NodeSeen seen;
    seen.name = Text(kube::Name(*gpu_node));
    seen.up = readiness.up;
    seen.up_since = readiness.since;
    if (!readiness.up) seen.down_reason = readiness.reason;
    seen.joined = CreatedAt(*gpu_node);
    const std::string vendor = Text(kube::Label(*gpu_node, api::kVendorLabel));
    gathered.by_name[seen.name] = gathered.nodes.size();
    gathered.nodes.push_back(std::move(seen));
    gathered.vendors.push_back(vendor.empty() ? default_vendor : vendor);
  }

  const auto add = [&](const Json& pod, Component component, std::string_view revision_label) {
    const std::string_view revision = kube::Label(pod, revision_label);
    // Without it nobody could tell when the pod is up to date: it is none that this system made.
    if (revision.empty()) return;
    const std::string node(kube::Text(pod, "spec.nodeName"));
    const auto place = gathered.by_name.find(node);
    // On a node that has left the pool: its controllers end it.
    if (!node.empty() && place == gathered.by_name.end()) return;
    const bool placed = place != gathered.by_name.end();
    Unit unit;
    unit.component = component;
    unit.node = placed ? place->second : Unit::kNoNode;
    const bool node_up = !placed || gathered.nodes[unit.node].up;
    unit.pod = Seen(pod, node_up);
    unit.revision = Revision::Parse(revision);
    unit.vendor = component == Component::kHypervisor && placed ? gathered.vendors[unit.node] : default_vendor;
    if (component == Component::kWorker) {
      const bool sidecar = kube::Label(pod, api::kComponentLabel) != api::kWorkerComponent;
      if (!sidecar) {
        const kube::ObjectPtr workload = workloads_.Get({unit.pod.ns, Text(kube::Label(pod, api::kWorkloadLabel))});
        if (workload != nullptr) {
          unit.pod.owner_created = CreatedAt(*workload);
          if (const std::string_view vendor = kube::Text(*workload, "spec.vendor"); !vendor.empty()) {
            unit.vendor = Text(vendor);
          }
        }
      }
      if (placed) gathered.worker_nodes.insert(node);
      ++gathered.workers[unit.pod.ready                                         ? "running"
                         : LastExit(pod, api::kWorkerContainer) == kRefusedExit ? "refused"
                                                                                : "waiting"];
    }
    if (!node_up) {
      unit.pod.trouble = gathered.nodes[unit.node].down_reason;
      unit.pod.trouble_message = absl::StrCat("node ", node, " is not ready");
    }
    gathered.Add(std::move(unit));
  };
  for (const kube::ObjectPtr& pod : pods_.components.ByIndex(kPodsByPool, name)) {
    if (IsFinished(*pod)) continue;
    const bool worker = kube::Label(*pod, api::kComponentLabel) == api::kWorkerComponent;
    add(*pod, worker ? Component::kWorker : Component::kHypervisor, api::kRevisionLabel);
  }
  for (const kube::ObjectPtr& pod : pods_.applications.ByIndex(kPodsByPool, name)) {
    if (IsFinished(*pod)) continue;
    if (const std::string_view component = kube::Label(*pod, api::kComponentLabel);
        component == api::kWorkerComponent || component == api::kHypervisorComponent) {
      continue;
    }
    add(*pod, Component::kClient, api::kRevisionLabel);
    if (HasContainer(*pod, api::kWorkerContainer)) add(*pod, Component::kWorker, api::kWorkerRevisionLabel);
  }

  // Where hypervisors are to be; the engine itself misses those that are not there.
  for (const std::string& vendor : gathered.vendors) {
    gathered.places[Index(Component::kHypervisor)].try_emplace({vendor, revisions_.ns()});
  }
  AddWorkloads(object, pool, gathered);
  return gathered;
}

// Replicas of TensorFusionWorkloads that are not there.
void PoolRollouts::AddWorkloads(const Json& object, const api::GPUPool& pool, Gathered& gathered) const {
  std::map<std::string, int64_t> there;  // by owner
  for (const Unit& unit : gathered.units) {
    if (unit.component == Component::kWorker && !unit.pod.terminating) ++there[unit.pod.owner];
  }
  const bool is_default = kube::Annotation(object, api::kDefaultPoolAnnotation) == "true";
  const std::string& name = pool.metadata.name;
  for (const kube::ObjectPtr& workload : workloads_.All()) {
    const std::string_view pool_name = kube::Text(*workload, "spec.poolName");
    if (pool_name != name && !(pool_name.empty() && is_default)) continue;
    if (kube::IsBeingDeleted(*workload) || kube::Flag(*workload, "spec.isLocalGPU")) continue;
    const kube::Key key = kube::KeyOf(*workload);
    const std::string owner = absl::StrCat(key.ns, "/TensorFusionWorkload/", key.name);
    const std::string vendor(kube::Text(*workload, "spec.vendor"));
    for (int64_t i = there[owner]; i < kube::Number(*workload, "spec.replicas"); ++i) {
      Unit missing;
      missing.component = Component::kWorker;
      missing.pod.ns = key.ns;
      missing.pod.name = key.name;
      missing.pod.owner = owner;
      missing.pod.owner_created = CreatedAt(*workload);
      missing.pod.trouble = "PodMissing";
      missing.pod.trouble_message = absl::StrCat("a worker of workload ", key.ToString(), " has not been made yet");
      missing.vendor = vendor.empty() ? DefaultVendor(pool) : vendor;
      missing.node = Unit::kNoNode;
      gathered.Add(std::move(missing));
    }
  }
}

// ---- What is wanted -------------------------------------------------------------------------------------------------

class PoolRollouts::Wanted {
 public:
  Wanted(ServerRevisions& revisions, const api::GPUPool& pool, Component component, const Gathered& gathered,
         const rollout::ComponentState& state)
      : revisions_(revisions), pool_(pool), component_(component) {
    block_ = ServerRevisions::Block(pool.spec.componentConfig.value_or(api::ComponentConfig{}), component);
    if (block_.is_null()) return;
    const std::string config = ConfigDigest(block_);
    blocks_[config] = block_;
    std::vector<PlaceOfPods> places;
    for (const auto& [place, started_with] : gathered.places[Index(component)]) {
      const absl::StatusOr<std::string>& extra = Extra(config, place.first, place.second);
      if (extra.ok()) places.push_back({*extra, started_with});
    }
    target_ = NextRevision(Revision::Parse(state.rejected.empty() ? state.target : state.rejected), config, places,
                           state.complete && state.rejected.empty());
    for (const std::string& text : {state.target, state.last_good, state.from, state.rejected}) {
      if (!text.empty()) others_.insert(text);
    }
    others_.erase(target_.Text());
  }

  bool configured() const { return !block_.is_null(); }
  const Json& block() const { return block_; }
  const Revision& target() const { return target_; }
  const std::set<ReferencedObjects::Name>& used() const { return used_; }

  // Fills in `revisions`, and, where it cannot be said what the pod would be started with, why it is not restarted.
  void Judge(const Unit& unit, absl::Time now, rollout::PodSeen& pod) {
    if (!configured()) return;
    const absl::StatusOr<std::string>& extra = Extra(target_.config, unit.vendor, pod.ns);
    if (pod.uid.empty()) {
      // It will be made as whatever new pods are to be.
      pod.revisions.assign(others_.begin(), others_.end());
      pod.revisions.push_back(target_.Text());
      if (extra.ok()) return;
      pod.trouble = "ReferenceMissing";
      pod.trouble_message = std::string(extra.status().message());
      return;
    }
    if (extra.ok()) {
      if (unit.revision == Revision{target_.config, {*extra}}) pod.revisions.push_back(target_.Text());
    } else if (target_.Includes(unit.revision)) {
      pod.revisions.push_back(target_.Text());
    } else {
      pod.refused_by = std::string(extra.status().message());
      pod.retry_after = now + kLookForMissing;
    }
    for (const std::string& text : others_) {
      const Revision other = Revision::Parse(text);
      bool is = other.Includes(unit.revision);
      if (!is && unit.revision.config == other.config) {
        const absl::StatusOr<std::string>& present = Extra(other.config, unit.vendor, pod.ns);
        is = present.ok() && unit.revision == Revision{other.config, {*present}};
      }
      if (is) pod.revisions.push_back(text);
    }
  }

 private:
  const absl::StatusOr<std::string>& Extra(const std::string& config, const std::string& vendor,
                                           const std::string& ns) {
    const auto [place, is_new] =
        extras_.try_emplace({config, vendor, ns}, absl::NotFoundError("the history does not have it"));
    if (!is_new) return place->second;
    auto block = blocks_.find(config);
    if (block == blocks_.end()) {
      block = blocks_.emplace(config, revisions_.BlockOf(pool_, component_, config)).first;
    }
    if (block->second) {
      place->second = revisions_.Extra(pool_, component_, *block->second, vendor, ns);
      for (const Reference& reference : ReferencesOf(*block->second))
        used_.insert({reference.kind, ns, reference.name});
    }
    return place->second;
  }

  ServerRevisions& revisions_;
  const api::GPUPool& pool_;
  const Component component_;
  Json block_ = {};
  Revision target_ = {};
  std::set<ReferencedObjects::Name> used_ = {};
  std::set<std::string> others_ = {};  // revisions that pods may run beside the target
  std::map<std::string, std::optional<Json>> blocks_ = {};
  std::map<std::tuple<std::string, std::string, std::string>, absl::StatusOr<std::string>> extras_ = {};
};

// ---- The plan -------------------------------------------------------------------------------------------------------

PoolRollouts::PoolRollouts(kube::Manager& manager, Caches& caches, PodCaches& pods, ServerRevisions& revisions)
    : manager_(manager),
      caches_(caches),
      pods_(pods),
      revisions_(revisions),
      workloads_(manager.Cache(api::TensorFusionWorkload::kResource,
                               {.keep = {"metadata.creationTimestamp", "metadata.deletionTimestamp", "spec.poolName",
                                         "spec.replicas", "spec.vendor", "spec.isLocalGPU"}})),
      gpus_(caches.gpus),
      restarts_(manager.client()) {}

void PoolRollouts::Watch(kube::Controller& pools) {
  kube::WorkQueue& queue = pools.queue();
  const auto wake = [&queue](const std::vector<kube::Key>& keys) {
    for (const kube::Key& key : keys) queue.AddAfter(key, kGather);
  };
  const auto wake_all = [this, &queue] {
    for (const kube::ObjectPtr& pool : caches_.pools.All()) queue.AddAfter(kube::KeyOf(*pool), kGather);
  };
  for (kube::Informer* informer : {&pods_.components, &pods_.applications}) {
    informer->AddHandler({.added = [wake](const kube::ObjectPtr& pod, bool) { wake(PoolOfLabel(*pod)); },
                          .updated =
                              [wake](const kube::ObjectPtr& before, const kube::ObjectPtr& pod) {
                                wake(PoolOfLabel(*pod));
                                if (kube::Label(*before, api::kPoolLabel) != kube::Label(*pod, api::kPoolLabel)) {
                                  wake(PoolOfLabel(*before));
                                }
                              },
                          .deleted =
                              [this, wake](const kube::ObjectPtr& pod, bool) {
                                restarts_.Forget(Text(kube::Uid(*pod)));
                                wake(PoolOfLabel(*pod));
                              }});
    pools.AddSource([informer](absl::Duration limit) { return informer->WaitForSync(limit); });
  }
  pools.Watch(
      caches_.nodes,
      [this](const Json& node) {
        const kube::ObjectPtr gpu_node = caches_.gpu_nodes.Get({"", Text(kube::Name(node))});
        if (gpu_node == nullptr) return std::vector<kube::Key>();
        return std::vector<kube::Key>{{"", Text(kube::Label(*gpu_node, api::kManagedByLabel))}};
      },
      ReadinessChanged);
  pools.Watch(
      workloads_,
      [this](const Json& workload) {
        std::vector<kube::Key> keys;
        for (const kube::ObjectPtr& pool : caches_.pools.All()) {
          const std::string_view wanted = kube::Text(workload, "spec.poolName");
          if (wanted == kube::Name(*pool) || wanted.empty()) keys.push_back(kube::KeyOf(*pool));
        }
        return keys;
      },
      // Of its status only its own controller speaks.
      [](const kube::ChangeView& change) {
        if (change.before == nullptr) return true;
        const Json* before = kube::Field(*change.before, "spec");
        const Json* now = kube::Field(change.object, "spec");
        return (before == nullptr) != (now == nullptr) || (before != nullptr && *before != *now) ||
               kube::IsBeingDeleted(*change.before) != kube::IsBeingDeleted(change.object);
      });
  pools.AddSource([this](absl::Duration limit) { return gpus_.WaitForSync(limit); });
  pools.AddSource([this](absl::Duration limit) { return revisions_.WaitForSync(limit); });
  revisions_.OnChange(wake_all);
}

RolloutPlan PoolRollouts::Plan(const Json& object, api::GPUPool& pool, absl::Time now) {
  RolloutPlan plan;
  Gathered gathered = Gather(object, pool);
  const rollout::State state = rollout::ReadState(pool.status.componentStatus, pool.status.rollouts);
  rollout::Observation seen;

  std::vector<std::unique_ptr<Wanted>> wanted;
  for (const Component component : rollout::kAllComponents) {
    wanted.push_back(
        std::make_unique<Wanted>(revisions_, pool, component, gathered, state.components[Index(component)]));
    if (wanted.back()->configured()) seen.components[Index(component)].target = wanted.back()->target().Text();
  }

  const std::vector<std::string> cards = CardsOf(gathered.worker_nodes);
  const std::vector<NamespaceLicense> licenses = Licenses(pool, gathered, cards, now);
  if (const std::optional<LicenseObjection> objection = Objection(pool, licenses, state)) {
    seen.components[Index(Component::kWorker)].refusal =
        rollout::Refusal{kLicenseRejected, absl::StrCat(objection->code, ": ", objection->text)};
  }

  seen.nodes = std::move(gathered.nodes);
  for (Unit& unit : gathered.units) {
    restarts_.Amend(unit.pod);
    wanted[Index(unit.component)]->Judge(unit, now, unit.pod);
    std::vector<rollout::PodSeen>& pods = unit.node == Unit::kNoNode
                                              ? seen.components[Index(unit.component)].unplaced
                                              : seen.nodes[unit.node].pods[Index(unit.component)];
    pods.push_back(std::move(unit.pod));
  }

  rollout::Decision decision =
      rollout::Decide(rollout::ReadPolicy(pool.spec.nodeManagerConfig.nodePoolRollingUpdatePolicy), seen, state, now);
  rollout::WriteStatus(decision, pool.status.componentStatus, pool.status.rollouts);
  for (const Component component : rollout::kAllComponents) {
    const rollout::Report& report = decision.reports[Index(component)];
    api::Condition condition;
    condition.type = kSyncedConditions[Index(component)];
    condition.status = report.synced ? "True" : "False";
    condition.reason = report.reason.empty() ? rollout::Name(report.phase) : report.reason;
    condition.message = report.message;
    condition.observedGeneration = pool.metadata.generation;
    api::SetCondition(pool.status.conditions, condition, now);

    const Wanted& of = *wanted[Index(component)];
    if (!of.configured()) continue;
    RolloutPlan::HistoryRecord record{component, of.target().config, of.block(), {}};
    const rollout::ComponentState& after = decision.state.components[Index(component)];
    for (const std::string& text : {after.target, after.last_good, after.from, after.rejected}) {
      if (!text.empty()) record.in_use.insert(Revision::Parse(text).config);
    }
    if (revisions_.history().NeedsRecord(object, component, record.digest, record.block, record.in_use)) {
      plan.history.push_back(std::move(record));
    }
  }
  ShowLicense(licenses, gathered, static_cast<int>(cards.size()), pool, now, plan);
  std::set<ReferencedObjects::Name> used;
  for (const std::unique_ptr<Wanted>& one : wanted) used.insert(one->used().begin(), one->used().end());
  revisions_.objects().Keep(pool.metadata.name, std::move(used));
  Count(pool.metadata.name, decision, now);
  CountLicense(pool.metadata.name, licenses, plan.license);

  plan.actions = std::move(decision.actions);
  plan.events = std::move(decision.events);
  plan.next_look = std::min(plan.license.next_look, decision.next_look.value_or(absl::InfiniteFuture()));
  return plan;
}

bool PoolRollouts::Act(const Json& object, const RolloutPlan& plan) {
  for (const RolloutPlan::HistoryRecord& record : plan.history) {
    const absl::Status recorded =
        revisions_.history().Record(object, record.component, record.digest, record.block, record.in_use);
    if (!recorded.ok()) {
      spdlog::warn("GPUPool {}: the history of {} cannot be kept: {}", kube::Name(object), Name(record.component),
                   std::string(recorded.message()));
    }
  }
  for (const rollout::Event& event : plan.events) {
    const std::string note = absl::StrCat(rollout::Name(event.component), ": ", event.message);
    spdlog::info("GPUPool {}: {}: {}", kube::Name(object), rollout::Name(event.type), note);
    if (rollout::IsWarning(event.type)) {
      manager_.events().Warning(object, rollout::Name(event.type), "Rollout", note);
    } else {
      manager_.events().Normal(object, rollout::Name(event.type), "Rollout", note);
    }
  }
  if (plan.license.tell) {
    if (plan.license.warning) {
      manager_.events().Warning(object, plan.license.event_reason, "CheckLicense", plan.license.event_text);
    } else {
      manager_.events().Normal(object, plan.license.event_reason, "CheckLicense", plan.license.event_text);
    }
  }
  std::atomic<size_t> next = 0;
  std::atomic<bool> refused = false;
  const auto restart = [&] {
    for (size_t i = next++; i < plan.actions.size(); i = next++) {
      const rollout::Action& action = plan.actions[i];
      const bool done = restarts_.Restart(action, manager_.clock().Now());
      spdlog::info("GPUPool {}: {} pod {}/{} on {}: {}", kube::Name(object), rollout::Name(action.component), action.ns,
                   action.pod, action.node, done ? "restarted" : "the restart was refused");
      if (!done) refused = true;
    }
  };
  std::vector<std::thread> others;
  while (others.size() + 1 < std::min(plan.actions.size(), kAtOnce)) others.emplace_back(restart);
  restart();
  for (std::thread& other : others) other.join();
  return refused;
}

void PoolRollouts::Forget(const std::string& pool) { revisions_.objects().Keep(pool, {}); }

// ---- The licence ----------------------------------------------------------------------------------------------------

std::vector<std::string> PoolRollouts::CardsOf(const std::set<std::string>& nodes) const {
  std::vector<std::string> cards;
  for (const std::string& node : nodes) {
    for (const kube::ObjectPtr& gpu : gpus_.ByIndex(kGpusByNode, node)) {
      if (!kube::Annotation(*gpu, api::kGpuMissingAnnotation).empty()) continue;
      const std::string_view uuid = kube::Text(*gpu, "status.uuid");
      cards.push_back(Text(uuid.empty() ? kube::Name(*gpu) : uuid));
    }
  }
  std::sort(cards.begin(), cards.end());
  return cards;
}

std::vector<NamespaceLicense> PoolRollouts::Licenses(const api::GPUPool& pool, const Gathered& gathered,
                                                     const std::vector<std::string>& cards, absl::Time now) {
  std::vector<NamespaceLicense> licenses;
  const Json block =
      ServerRevisions::Block(pool.spec.componentConfig.value_or(api::ComponentConfig{}), Component::kWorker);
  if (block.is_null()) return licenses;
  std::set<std::string> namespaces;
  for (const auto& [place, extras] : gathered.places[Index(Component::kWorker)]) namespaces.insert(place.second);
  // Where no worker is, a licence can be judged only if no Secret of a namespace is needed for it.
  if (namespaces.empty() && ReferencesOf(block).empty()) namespaces.insert("");
  for (const std::string& ns : namespaces) {
    licenses.push_back(revisions_.License(pool.metadata.name, block, ns, now, cards));
  }
  return licenses;
}

std::optional<LicenseObjection> PoolRollouts::Objection(const api::GPUPool& pool,
                                                        const std::vector<NamespaceLicense>& licenses,
                                                        const rollout::State& state) {
  for (const NamespaceLicense& license : licenses) {
    if (std::optional<LicenseObjection> objection = ObjectionOf(license)) return objection;
    if (!license.absent) continue;
    // Without a licence from the beginning, a worker image may need none. With one that was taken away, all stop.
    const std::string good = Revision::Parse(state.components[Index(Component::kWorker)].last_good).config;
    if (good.empty()) continue;
    const std::optional<Json> block = revisions_.BlockOf(pool, Component::kWorker, good);
    const Json* pod_template = block ? kube::Field(*block, "podTemplate") : nullptr;
    if (pod_template == nullptr || !MentionsLicense(*pod_template)) continue;
    return LicenseObjection{std::string(license::ReasonCode(license::Reason::kMissingText)),
                            "the worker template sets no TF_LICENSE any more, which the workers that run have; set it "
                            "and TF_LICENSE_SIGN in componentConfig.worker.podTemplate"};
  }
  return std::nullopt;
}

void PoolRollouts::ShowLicense(const std::vector<NamespaceLicense>& licenses, const Gathered& gathered, int cards,
                               api::GPUPool& pool, absl::Time now, RolloutPlan& plan) {
  plan.license = ReportLicense(licenses, pool.status.license, cards, gathered.workers, now);
  pool.status.license = plan.license.status;
  if (plan.license.condition) {
    plan.license.condition->observedGeneration = pool.metadata.generation;
    api::SetCondition(pool.status.conditions, *plan.license.condition, now);
  } else {
    std::erase_if(pool.status.conditions, [](const api::Condition& one) { return one.type == kLicenseValidCondition; });
  }
}

// ---- What is counted ------------------------------------------------------------------------------------------------

void PoolRollouts::Count(const std::string& pool, const rollout::Decision& decision, absl::Time now) {
  kube::Metrics& metrics = manager_.metrics();
  for (const Component component : rollout::kAllComponents) {
    const rollout::Report& report = decision.reports[Index(component)];
    const rollout::ComponentState& state = decision.state.components[Index(component)];
    const kube::MetricLabels labels{{"pool", pool}, {"component", Name(component)}};
    metrics.Gauge("tensor_fusion_rollout_progress_ratio", "How far the rollout of a component is, from 0 to 1.", labels)
        .Set(static_cast<double>(report.progress) / 100);
    const std::pair<const char*, int64_t> units[] = {{"total", report.total},
                                                     {"updated", report.updated},
                                                     {"ready", report.ready},
                                                     {"failed", report.failed},
                                                     {"skipped", report.skipped}};
    for (const auto& [kind, count] : units) {
      kube::MetricLabels of_state = labels;
      of_state["state"] = kind;
      metrics.Gauge("tensor_fusion_rollout_units", "Nodes of a rollout by state.", of_state)
          .Set(static_cast<double>(count));
    }
    // Stands still when the rollout is complete.
    if (state.started && !state.complete) {
      metrics
          .Gauge("tensor_fusion_rollout_duration_seconds", "How long the last rollout took, or has taken so far.",
                 labels)
          .Set(absl::ToDoubleSeconds(now - *state.started));
    }
  }
}

void PoolRollouts::CountLicense(const std::string& pool, const std::vector<NamespaceLicense>& licenses,
                                const LicenseReport& report) {
  kube::Metrics& metrics = manager_.metrics();
  for (const char* state : license_state::kAll) {
    metrics
        .Gauge("tensor_fusion_license_state", "1 for the state of the pool's licence.",
               {{"pool", pool}, {"state", state}})
        .Set(report.status && report.status->state == state ? 1 : 0);
  }
  if (report.status && report.status->expires) {
    metrics
        .Gauge("tensor_fusion_license_expiry_timestamp_seconds", "When the pool's licence expires, in Unix time.",
               {{"pool", pool}})
        .Set(absl::ToDoubleSeconds(report.status->expires->at() - absl::UnixEpoch()));
  }
  for (const NamespaceLicense& license : licenses) {
    if (license.absent || !license.unreadable.ok()) continue;
    const std::optional<LicenseObjection> objection = ObjectionOf(license);
    const std::string result = objection ? "refused" : "passed";
    const std::string reason = objection ? objection->code : "";
    const std::string outcome =
        absl::StrCat(result, "/", reason, "/", license.check.license ? license.check.license->id : "");
    {
      const std::lock_guard lock(mutex_);
      std::string& last = checked_[absl::StrCat(pool, "/", license.ns)];
      if (last == outcome) continue;
      last = outcome;
    }
    metrics
        .Counter("tensor_fusion_license_checks_total", "Licences that were checked before a rollout, by result.",
                 {{"result", result}, {"reason", reason}})
        .Increment();
  }
}

}  // namespace tf::operators
