#include "operator/workload_controller.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "api/typed.h"
#include "kube/error.h"
#include "kube/finalizers.h"
#include "kube/owners.h"
#include "operator/providers.h"
#include "operator/status_patch.h"
#include "operator/worker_pod.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

using kube::Json;

// What the cache does not show yet brings us back as soon as it does; this is for what never comes.
constexpr absl::Duration kUnseen = absl::Seconds(30);
constexpr size_t kMostAtOnce = 50;  // pods made in one pass; the next one goes on

bool IsDefault(const Json& pool) { return kube::Annotation(pool, api::kDefaultPoolAnnotation) == "true"; }

}  // namespace

WorkloadController::WorkloadController(kube::Manager& manager, Caches& caches, PodCaches& pods,
                                       ComponentRevisions& revisions, bool choose_cards)
    : manager_(manager),
      caches_(caches),
      revisions_(revisions),
      workloads_(caches.workloads),
      pods_(pods.components),
      connections_(caches.connections),
      providers_(Providers(manager)),
      expectations_(manager.clock()),
      backoff_(manager.clock()),
      choose_cards_(choose_cards) {
  kube::Controller& controller = manager.AddController(
      {.name = "workload", .workers = 4, .reconcile = [this](const kube::Key& key) { return Reconcile(key); }});
  // Before Watch: what was expected is seen before the key is looked at.
  const auto owners = kube::ToController(api::TensorFusionWorkload::kResource);
  pods_.AddHandler({.added =
                        [this, owners](const kube::ObjectPtr& pod, bool) {
                          for (const kube::Key& key : owners(*pod)) expectations_.CreationSeen(key);
                        },
                    .updated =
                        [this, owners](const kube::ObjectPtr&, const kube::ObjectPtr& pod) {
                          if (!kube::IsBeingDeleted(*pod)) return;
                          for (const kube::Key& key : owners(*pod)) {
                            expectations_.DeletionSeen(key, std::string(kube::Uid(*pod)));
                          }
                        },
                    .deleted =
                        [this, owners](const kube::ObjectPtr& pod, bool) {
                          for (const kube::Key& key : owners(*pod)) {
                            expectations_.DeletionSeen(key, std::string(kube::Uid(*pod)));
                          }
                        }});
  controller.Watch(workloads_, kube::ToItself(), ChangedBySomebody());
  controller.Watch(pods_, owners);
  // What its status says is ours, and does not matter here.
  controller.Watch(
      connections_,
      [](const Json& connection) {
        return std::vector<kube::Key>{
            {std::string(kube::Namespace(connection)), std::string(kube::Text(connection, "spec.workloadName"))}};
      },
      ChangedBySomebody());
  controller.Watch(
      caches.pools,
      [this](const Json& pool) {
        std::vector<kube::Key> keys;
        for (const std::string_view name : {kube::Name(pool), std::string_view(IsDefault(pool) ? "" : "-")}) {
          for (const kube::ObjectPtr& workload : workloads_.ByIndex(kByPool, name)) {
            keys.push_back(kube::KeyOf(*workload));
          }
        }
        return keys;
      },
      kube::AnyOf({kube::GenerationChanged(), kube::AnnotationsChanged()}));
  controller.AddSource([this](absl::Duration limit) { return providers_.WaitForSync(limit); });
  // A Secret that its workers waited for may have come: not after as long as the last tries have taken.
  revisions.OnChange([this, &queue = controller.queue()] {
    for (const kube::ObjectPtr& workload : workloads_.All()) {
      if (kube::Number(*workload, "status.workerCount") < kube::Number(*workload, "spec.replicas")) {
        queue.Add(kube::KeyOf(*workload));
      }
    }
  });
}

std::vector<kube::ObjectPtr> WorkloadController::PodsOf(const api::TensorFusionWorkload& workload) const {
  std::vector<kube::ObjectPtr> pods = pods_.ByIndex(kPodsByWorkload, workload.metadata.Key().ToString());
  std::erase_if(pods, [&workload](const kube::ObjectPtr& pod) {
    const Json* owner = kube::ControllerOf(*pod);
    return owner == nullptr || kube::Text(*owner, "uid") != workload.metadata.uid;
  });
  return pods;
}

kube::ObjectPtr WorkloadController::PoolOf(const api::TensorFusionWorkload& workload, WorkloadProblem& problem) const {
  const std::string& name = workload.spec.poolName;
  if (!name.empty()) {
    kube::ObjectPtr pool = caches_.pools.Get({"", name});
    if (pool == nullptr) problem = {"PoolNotFound", absl::StrCat("spec.poolName: there is no GPUPool \"", name, "\"")};
    return pool;
  }
  kube::ObjectPtr found;
  for (const kube::ObjectPtr& pool : caches_.pools.All()) {
    if (IsDefault(*pool) && (found == nullptr || kube::Name(*pool) < kube::Name(*found))) found = pool;
  }
  if (found == nullptr) {
    problem = {"PoolNotFound", absl::StrCat("spec.poolName is empty, and no GPUPool is the default one (annotation ",
                                            api::kDefaultPoolAnnotation, ": \"true\")")};
  }
  return found;
}

std::vector<std::string> WorkloadController::ConnectionsOf(const kube::Key& workload) const {
  std::vector<std::string> names;
  for (const kube::ObjectPtr& connection : connections_.ByIndex(kConnectionsByWorkload, workload.ToString())) {
    if (!kube::IsBeingDeleted(*connection)) names.emplace_back(kube::Name(*connection));
  }
  return names;
}

absl::StatusOr<kube::Result> WorkloadController::Reconcile(const kube::Key& key) {
  const kube::ObjectPtr object = workloads_.Get(key);
  if (object == nullptr) {
    expectations_.Forget(key);
    backoff_.Forget(key);
    return kube::Result{};
  }
  absl::StatusOr<api::TensorFusionWorkload> read = api::FromObject<api::TensorFusionWorkload>(*object);
  if (!read.ok()) return kube::Terminal(read.status());
  const api::TensorFusionWorkload& workload = *read;
  if (workload.metadata.deletionTimestamp) {
    // The pods go with it, for it is their owner. A finalizer of ours on it is one that we did not put there.
    if (!workload.metadata.HasFinalizer(api::kFinalizer)) return kube::Result{};
    return EndWith(
        kube::RemoveFinalizer(manager_.client(), api::TensorFusionWorkload::kResource, key, api::kFinalizer));
  }
  const std::vector<kube::ObjectPtr> pods = PodsOf(workload);

  WorkloadProblem problem;
  absl::Status done;
  std::optional<api::GPUPool> pool;
  std::optional<PodRevision> revision;
  if (const kube::ObjectPtr found = PoolOf(workload, problem); found != nullptr) {
    absl::StatusOr<api::GPUPool> readable = api::FromObject<api::GPUPool>(*found);
    if (readable.ok() && readable->metadata.deletionTimestamp) {
      problem = {"PoolNotFound", absl::StrCat("GPUPool \"", readable->metadata.name, "\" is being deleted")};
    } else if (readable.ok()) {
      pool = *std::move(readable);
    } else {
      problem = {"InvalidPool", std::string(readable.status().message())};
    }
  }
  if (pool) {
    absl::StatusOr<PodRevision> newest =
        revisions_.ForNewPod(*pool, Component::kWorker, WorkerVendor(workload, *pool), key.ns);
    if (newest.ok()) {
      revision = *std::move(newest);
    } else {
      problem = {"NoRevision", std::string(newest.status().message())};
      // A pool that says nothing about workers is not asked again and again: its change wakes us.
      if (!absl::IsFailedPrecondition(newest.status())) done = newest.status();
    }
  }

  kube::Result result;
  if (!expectations_.Satisfied(key)) {
    result.requeue_after = kUnseen;
  } else {
    const WorkloadPlan plan =
        workload.spec.replicas
            ? PlanWorkers(workload, pods, WorkloadRevision(workload.spec, choose_cards_), backoff_.Remaining(key))
            : PlanDynamicWorkers(ConnectionsOf(key), pods, backoff_.Remaining(key));
    result.requeue_after = plan.look_again;
    done.Update(Delete(key, plan.remove));
    if (plan.failed > 0) backoff_.Replaced(key);
    // Those that all clients share belong to none.
    std::vector<std::string> missing = plan.create_for;
    missing.resize(missing.size() + static_cast<size_t>(plan.create));
    if (missing.size() > kMostAtOnce) missing.resize(kMostAtOnce);
    if (pool && revision) done.Update(Create(workload, *pool, *revision, missing, problem));
  }
  api::TensorFusionWorkload wanted = workload;
  wanted.status = StatusOf(workload, pods, revision ? revision->revision : "", problem, manager_.clock().Now());
  done.Update(
      PatchStatus(manager_.client(), api::TensorFusionWorkload::kResource, *object, api::ToJson(wanted).at("status"))
          .status());
  if (!done.ok()) return EndWith(done);
  return result;
}

absl::Status WorkloadController::Create(const api::TensorFusionWorkload& workload, const api::GPUPool& pool,
                                        const PodRevision& revision, const std::vector<std::string>& connections,
                                        WorkloadProblem& problem) {
  const std::optional<api::ProviderConfig> provider = ProviderOf(providers_, WorkerVendor(workload, pool));
  const kube::Key key = workload.metadata.Key();
  for (const std::string& connection : connections) {
    absl::StatusOr<api::Pod> pod = WorkerPod({.workload = workload,
                                              .pool = pool,
                                              .revision = revision,
                                              .provider = provider ? &*provider : nullptr,
                                              .name = NewName(workload.metadata.name),
                                              .connection = connection,
                                              .choose_cards = choose_cards_});
    if (!pod.ok()) {
      problem = {"InvalidTemplate", std::string(pod.status().message())};
      return absl::OkStatus();  // a change of pool or workload wakes us
    }
    expectations_.ExpectCreations(key, 1);
    const absl::Status made = api::Create(manager_.client(), *pod).status();
    if (made.ok()) {
      spdlog::info("workload {}: worker {} of revision {}", key.ToString(), pod->metadata.name, revision.revision);
      continue;
    }
    // Of one whose answer was lost: it may be one too many, which goes again as surplus.
    expectations_.CreationSeen(key);
    problem = {"CreateFailed", std::string(made.message())};
    if (kube::IsInvalid(made)) return absl::OkStatus();  // only a change helps
    return made;
  }
  return absl::OkStatus();
}

absl::Status WorkloadController::Delete(const kube::Key& workload,
                                        const std::vector<WorkloadPlan::Deletion>& deletions) {
  absl::Status done;
  for (const WorkloadPlan::Deletion& deletion : deletions) {
    expectations_.ExpectDeletions(workload, {deletion.uid});
    kube::DeleteOptions options;
    options.uid = deletion.uid;
    const absl::Status deleted = manager_.client().Delete(api::Pod::kResource, deletion.key, options);
    if (deleted.ok()) {
      spdlog::info("workload {}: worker {} is deleted: {}", workload.ToString(), deletion.key.name, deletion.why);
      continue;
    }
    expectations_.DeletionSeen(workload, deletion.uid);
    done.Update(UnlessGone(deleted));
  }
  return done;
}

std::string WorkloadController::NewName(const std::string& workload) {
  // Letters and digits that are not taken for one another, as in generated names of Kubernetes.
  static constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  thread_local absl::BitGen random;
  std::string name = absl::StrCat(workload.substr(0, 240), "-tf-worker-");
  for (int i = 0; i < 5; ++i) name += kAlphabet[absl::Uniform<size_t>(random, 0, kAlphabet.size())];
  return name;
}

}  // namespace tf::operators
