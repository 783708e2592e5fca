#include "operator/scheduler_extender.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/gpu.h"
#include "api/gpu_node.h"
#include "api/gpu_pool.h"
#include "api/names.h"
#include "api/scheduling.h"
#include "api/typed.h"
#include "kube/error.h"
#include "placement/card_of.h"
#include "spdlog/spdlog.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr char kJson[] = "application/json";
constexpr char kNoRoom[] = "GPUQuotaOrCapacityNotEnough";
constexpr absl::Duration kAuditEvery = absl::Minutes(1);
// A bind is three calls at most, and kube-scheduler is told to wait for 10 s.
constexpr absl::Duration kBindLimit = absl::Seconds(3);
constexpr size_t kMostBytes = 8 << 20;  // a pod and the names of 5,000 nodes are far less

// Go's JSON takes field names in any case, but writes them as they are declared.
std::vector<std::string> NodeNamesOf(const Json& asked) {
  std::vector<std::string> names;
  const Json* list = kube::Field(asked, "NodeNames");
  if (list == nullptr || !list->is_array()) return names;
  for (const Json& name : list->get_array()) {
    if (name.is_string()) names.emplace_back(std::string_view(name.get_string()));
  }
  return names;
}

const Json& PodOf(const Json& asked) {
  static const Json kNone = JsonObject();
  const Json* pod = kube::Field(asked, "Pod");
  return pod != nullptr && pod->is_object() ? *pod : kNone;
}

Json Failure(std::string_view message) { return JsonObject{{"Error", message}}; }

}  // namespace

SchedulerExtender::SchedulerExtender(kube::Manager& manager, Caches& caches, PodCaches& pods, Options options)
    : manager_(manager),
      caches_(caches),
      pods_(pods),
      options_(std::move(options)),
      templates_(manager.Cache(api::SchedulingConfigTemplate::kResource, {.keep = {"spec.placement"}})),
      corrections_(manager.metrics().Counter("tensor_fusion_card_books_corrections_total",
                                             "Pods whose cards were not in the books as the API server has them", {})),
      books_(manager.clock(), [this](const std::string& pool) { return ModeOf(pool); }) {
  const auto key_of = [](const kube::ObjectPtr& object) { return std::string(kube::Name(*object)); };
  const auto set_card = [this](const kube::ObjectPtr& gpu) { SetCard(kube::KeyOf(*gpu)); };
  caches.gpus.AddHandler({.added = [set_card](const kube::ObjectPtr& gpu, bool) { set_card(gpu); },
                          .updated = [set_card](const kube::ObjectPtr&, const kube::ObjectPtr& gpu) { set_card(gpu); },
                          .deleted = [set_card](const kube::ObjectPtr& gpu, bool) { set_card(gpu); }});
  // What is known of cards beside themselves.
  const auto cards_of = [this, key_of](const char* index) {
    return kube::Handler{
        .added = [this, key_of, index](const kube::ObjectPtr& object, bool) { SetCardsOf(index, key_of(object)); },
        .updated = [this, key_of, index](const kube::ObjectPtr&,
                                         const kube::ObjectPtr& object) { SetCardsOf(index, key_of(object)); },
        .deleted = [this, key_of, index](const kube::ObjectPtr& object, bool) { SetCardsOf(index, key_of(object)); }};
  };
  caches.pools.AddHandler(cards_of(kByPool));
  caches.gpu_nodes.AddHandler(cards_of(kGpusByNode));
  pods.components.AddHandler(
      {.added = [this](const kube::ObjectPtr& pod, bool) { books_.SetPod(*pod); },
       .updated = [this](const kube::ObjectPtr&, const kube::ObjectPtr& pod) { books_.SetPod(*pod); },
       .deleted = [this](const kube::ObjectPtr& pod, bool) { books_.RemovePod(kube::Uid(*pod)); }});
  manager.Add({.name = "scheduler extender", .start = [this] { return Start(); }, .stop = [this] { Stop(); }});
}

SchedulerExtender::~SchedulerExtender() { Stop(); }

absl::Status SchedulerExtender::Start() {
  http::ServerOptions options;
  options.address = options_.address;
  options.port = options_.port;
  options.max_body = kMostBytes;
  options.name = "extender";
  auto server = http::Server::Start(
      std::move(options),
      [this](const http::ServerRequest& request, http::ResponseWriter& writer) { Answer(request, writer); });
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  auditor_ = std::thread([this] { AuditNowAndThen(); });
  return absl::OkStatus();
}

void SchedulerExtender::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    stopping_.notify_all();
  }
  if (auditor_.joinable()) auditor_.join();
  if (server_ != nullptr) server_->Stop();
}

void SchedulerExtender::AuditNowAndThen() {
  Clock& clock = manager_.clock();
  std::unique_lock lock(mutex_);
  while (!clock.WaitUntil(lock, stopping_, clock.Monotonic() + kAuditEvery, [this] { return stop_; })) {
    lock.unlock();
    if (Synced()) {
      if (const int wrong = books_.Audit(pods_.components.All()); wrong > 0) {
        spdlog::error("placement: the books had {} pods otherwise than the API server; they are right again", wrong);
        corrections_.Increment(wrong);
      }
    }
    lock.lock();
  }
}

// ---- what there is

void SchedulerExtender::SetCard(const kube::Key& key) {
  // What the caches have now, one after the other: the last to write has seen the newest of each.
  std::lock_guard lock(cards_);
  const kube::ObjectPtr gpu = caches_.gpus.Get(key);
  if (gpu == nullptr) return books_.RemoveCard(key.name);
  const absl::StatusOr<api::GPU> read = api::FromObject<api::GPU>(*gpu);
  if (!read.ok()) {
    spdlog::warn("placement: {}", std::string(read.status().message()));
    return books_.RemoveCard(key.name);
  }
  api::Oversubscription oversubscription;
  const std::string pool_name(read->metadata.Label(api::kPoolLabel));
  if (const kube::ObjectPtr object = caches_.pools.Get({"", pool_name}); object != nullptr) {
    const absl::StatusOr<api::GPUPool> pool = api::FromObject<api::GPUPool>(*object);
    if (pool.ok() && pool->spec.capacityConfig && pool->spec.capacityConfig->oversubscription) {
      oversubscription = *pool->spec.capacityConfig->oversubscription;
    }
  }
  placement::HostFacts host;
  const std::string node_name(read->metadata.Label(api::kManagedByLabel));
  if (const kube::ObjectPtr object = caches_.gpu_nodes.Get({"", node_name}); object != nullptr) {
    const absl::StatusOr<api::GPUNode> node = api::FromObject<api::GPUNode>(*object);
    if (node.ok()) {
      host.memory = node->status.nodeInfo.ramSize.Units();
      host.disk = node->status.nodeInfo.dataDiskSize.Units();
      host.cards = static_cast<int>(node->status.managedGPUDeviceIDs.size());
    }
  }
  books_.SetCard(placement::CardOf(*read, oversubscription, host));
}

void SchedulerExtender::SetCardsOf(const char* index, std::string_view value) {
  for (const kube::ObjectPtr& gpu : caches_.gpus.ByIndex(index, value)) SetCard(kube::KeyOf(*gpu));
}

placement::Mode SchedulerExtender::ModeOf(const std::string& pool) const {
  const kube::ObjectPtr object = caches_.pools.Get({"", pool});
  if (object == nullptr) return placement::ParseMode("");
  const std::string name(kube::Text(*object, "spec.schedulingConfigTemplate"));
  const kube::ObjectPtr found = name.empty() ? nullptr : templates_.Get({"", name});
  return placement::ParseMode(found == nullptr ? "" : kube::Text(*found, "spec.placement.mode"));
}

bool SchedulerExtender::Synced() const {
  return caches_.gpus.synced() && caches_.pools.synced() && caches_.gpu_nodes.synced() && templates_.synced() &&
         pods_.components.synced();
}

// ---- what the scheduler asks

void SchedulerExtender::Answer(const http::ServerRequest& request, http::ResponseWriter& writer) {
  if (request.method != "POST") return (void)writer.Send(405, "text/plain", "expected: POST\n");
  const absl::StatusOr<Json> asked = kube::ParseJson(request.body);
  if (!asked.ok()) return (void)writer.Send(400, "text/plain", std::string(asked.status().message()));
  if (!Synced())
    return (void)writer.Send(503, "text/plain", "the operator is starting: it has not seen everything yet\n");
  if (request.path == "/filter") {
    (void)writer.Send(200, kJson, boost::json::serialize(Filter(*asked)));
  } else if (request.path == "/prioritize") {
    const absl::StatusOr<Json> scores = Prioritize(*asked);
    if (!scores.ok()) return (void)writer.Send(422, "text/plain", std::string(scores.status().message()));
    (void)writer.Send(200, kJson, boost::json::serialize(*scores));
  } else if (request.path == "/bind") {
    const absl::Status bound = Bind(*asked);
    (void)writer.Send(200, kJson, boost::json::serialize(Failure(std::string(bound.message()))));
  } else {
    (void)writer.Send(404, "text/plain", "expected: /filter, /prioritize or /bind\n");
  }
}

Json SchedulerExtender::Filter(const Json& asked) {
  const Json& pod = PodOf(asked);
  const absl::StatusOr<CardBooks::Offered> offered = books_.Offer(pod, NodeNamesOf(asked));
  if (!offered.ok()) return Failure(std::string(offered.status().message()));
  JsonArray nodes;
  for (const std::string& node : offered->nodes) nodes.emplace_back(node);
  // Nothing that could be evicted makes room, as far as the scheduler knows: it does not see cards.
  JsonObject failed;
  for (const auto& [node, why] : offered->failed) failed[node] = why;
  if (!offered->why_none.empty()) {
    Json about = pod;
    about.get_object()["apiVersion"] = "v1";  // which what is sent leaves out
    about.get_object()["kind"] = "Pod";
    manager_.events().Warning(about, kNoRoom, "Scheduling", offered->why_none);
  }
  return JsonObject{{"NodeNames", std::move(nodes)}, {"FailedAndUnresolvableNodes", std::move(failed)}};
}

absl::StatusOr<Json> SchedulerExtender::Prioritize(const Json& asked) {
  const std::vector<std::string> nodes = NodeNamesOf(asked);
  const absl::StatusOr<std::vector<int>> scores = books_.Scores(PodOf(asked), nodes);
  if (!scores.ok()) return scores.status();
  JsonArray list;
  for (size_t i = 0; i < nodes.size(); ++i) list.push_back(JsonObject{{"Host", nodes[i]}, {"Score", (*scores)[i]}});
  return Json(std::move(list));
}

absl::Status SchedulerExtender::Bind(const Json& asked) {
  const kube::Key key{std::string(kube::Text(asked, "PodNamespace")), std::string(kube::Text(asked, "PodName"))};
  const std::string uid(kube::Text(asked, "PodUID")), node(kube::Text(asked, "Node"));
  if (key.ns.empty() || key.name.empty() || uid.empty() || node.empty()) {
    return absl::InvalidArgumentError("expected: PodName, PodNamespace, PodUID and Node");
  }
  kube::CallOptions call{.limit = kBindLimit};
  absl::StatusOr<CardBooks::Grant> grant = books_.TakeHeld(uid, node);
  if (!grant.ok()) {
    // What was held has run out, or the scheduler has chosen another node.
    const absl::StatusOr<Json> pod = manager_.client().Get(kube::core::kPod, key, call);
    if (!pod.ok()) return pod.status();
    if (kube::Uid(*pod) != uid) return absl::NotFoundError("the pod of this UID is gone");
    grant = books_.Take(*pod, node);
    if (!grant.ok()) return grant.status();
  }
  JsonObject annotations{{api::kGpuIdsAnnotation, absl::StrJoin(grant->cards, ",")}};
  if (grant->percent > 0) annotations[api::kSharePercentAnnotation] = absl::StrCat(grant->percent);
  // The server merges the annotations into the pod as it binds it, when it is the pod of this UID.
  const Json binding = JsonObject{
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata", {{"name", key.name}, {"namespace", key.ns}, {"uid", uid}, {"annotations", std::move(annotations)}}},
      {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
  kube::WriteOptions write;
  write.limit = kBindLimit;
  const absl::Status bound =
      manager_.client().CreateSubresource(kube::core::kPod, key, "binding", binding, write).status();
  if (bound.ok()) {
    books_.Commit(uid);
    return bound;
  }
  if (!kube::IsUnclear(bound)) {
    books_.Release(uid);
    return bound;
  }
  // Nobody knows: the pod itself does. Where it cannot be read, or is not bound yet, its cards stay held for a while.
  const absl::StatusOr<Json> pod = manager_.client().Get(kube::core::kPod, key, call);
  if (!pod.ok() || kube::Uid(*pod) != uid || kube::Text(*pod, "spec.nodeName") != node) return bound;
  books_.SetPod(*pod);  // with the cards that it has
  return absl::OkStatus();
}

}  // namespace tf::operators
