#include "tfctl/pool_edit.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/names.h"
#include "api/tensor_fusion_cluster.h"
#include "api/values.h"
#include "kube/owners.h"
#include "tfctl/output.h"

namespace tf::tfctl {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

// The image of the block, else of its template's first container.
std::string ImageOf(const Json& block) {
  if (const std::string_view image = kube::Text(block, "image"); !image.empty()) return std::string(image);
  const Json* containers = kube::Field(block, "podTemplate.template.spec.containers");
  if (containers == nullptr || !containers->is_array() || containers->get_array().empty()) return "";
  return std::string(kube::Text(containers->get_array()[0], "image"));
}

const Json* BlockIn(const Json& spec, std::string_view component) {
  return kube::FieldAt(spec, {"componentConfig", component});
}

JsonObject& ObjectAt(Json& value, std::string_view path) {
  Json& found = kube::EnsureField(value, path);
  return found.is_object() ? found.get_object() : found.emplace_object();
}

std::string Numbers(const std::vector<Revision>& revisions) {
  return absl::StrJoin(revisions, ", ",
                       [](std::string* out, const Revision& one) { absl::StrAppend(out, one.number); });
}

}  // namespace

std::string Source::ToString() const {
  return entry.empty() ? absl::StrCat(resource.kind, " ", name)
                       : absl::StrCat(resource.kind, " ", name, ", pool ", entry);
}

absl::StatusOr<Source> SourceOf(const Json& pool) {
  const std::string name(kube::Name(pool));
  const Json* owner = kube::ControllerOf(pool);
  if (owner == nullptr || kube::Text(*owner, "kind") != api::TensorFusionCluster::kResource.kind) {
    return Source{api::GPUPool::kResource, name, ""};
  }
  const std::string cluster(kube::Text(*owner, "name"));
  if (name.size() <= cluster.size() + 1 || name.compare(0, cluster.size() + 1, cluster + "-") != 0) {
    return absl::InvalidArgumentError(absl::StrCat("GPUPool ", name, " belongs to TensorFusionCluster ", cluster,
                                                   "; expected a name of the form ", cluster, "-POOL"));
  }
  return Source{api::TensorFusionCluster::kResource, cluster, name.substr(cluster.size() + 1)};
}

absl::StatusOr<Json*> PoolSpecIn(Json& object, const Source& source) {
  if (source.entry.empty()) return &kube::EnsureField(object, "spec");
  const Json* found = kube::Field(object, "spec.gpuPools");
  if (found != nullptr && found->is_array()) {
    for (Json& pool : kube::EnsureField(object, "spec").get_object()["gpuPools"].get_array()) {
      if (kube::Text(pool, "name") == source.entry) return &kube::EnsureField(pool, "specTemplate");
    }
  }
  return absl::NotFoundError(absl::StrCat("TensorFusionCluster ", source.name, " has no pool ", source.entry,
                                          " in spec.gpuPools; its GPUPool is about to go"));
}

bool SetPaused(Json& spec, bool paused) {
  const std::string path = "nodeManagerConfig.nodePoolRollingUpdatePolicy";
  if (kube::Flag(spec, path + ".paused") == paused) return false;
  ObjectAt(spec, path)["paused"] = paused;
  return true;
}

bool SetComponent(Json& spec, std::string_view component, const Json& block) {
  if (const Json* now = BlockIn(spec, component); now != nullptr && *now == block) return false;
  ObjectAt(spec, "componentConfig")[component] = block;
  return true;
}

std::vector<Revision> RevisionsOf(const std::vector<kube::ObjectPtr>& controller_revisions, const Json& pool,
                                  std::string_view component) {
  std::vector<Revision> revisions;
  for (const kube::ObjectPtr& object : controller_revisions) {
    if (kube::Label(*object, api::kComponentLabel) != component || !kube::IsControlledBy(*object, pool)) continue;
    const Json* data = kube::Field(*object, "data");
    if (data == nullptr || !data->is_object()) continue;
    Revision revision{.number = kube::Number(*object, "revision"), .image = ImageOf(*data), .block = *data};
    revision.digest = kube::Label(*object, api::kRevisionLabel);
    const auto created = api::Time::Parse(kube::Text(*object, "metadata.creationTimestamp"));
    if (created.ok()) revision.created = created->at();
    revisions.push_back(std::move(revision));
  }
  std::sort(revisions.begin(), revisions.end(),
            [](const Revision& a, const Revision& b) { return a.number < b.number; });
  return revisions;
}

absl::StatusOr<Revision> RevisionToUndoTo(const std::vector<Revision>& revisions, const Json& spec,
                                          std::string_view component, std::optional<int64_t> number) {
  const std::string name(component);
  if (revisions.empty()) {
    return absl::NotFoundError(absl::StrCat("the ", name,
                                            " has no history: the operator records a revision when it first "
                                            "sees a configuration"));
  }
  if (number) {
    for (const Revision& revision : revisions) {
      if (revision.number == *number) return revision;
    }
    return absl::NotFoundError(
        absl::StrCat("the ", name, " has no revision ", *number, "; there are: ", Numbers(revisions)));
  }
  const Json* now = BlockIn(spec, component);
  for (auto revision = revisions.rbegin(); revision != revisions.rend(); ++revision) {
    if (now == nullptr || revision->block != *now) return *revision;
  }
  return absl::NotFoundError(
      absl::StrCat("every revision of the ", name, " (", Numbers(revisions),
                   ") has the configuration that is there now; where they "
                   "differ is a Secret or ConfigMap that the template references, a provider setting, or a restart"));
}

std::string HistoryTable(const std::vector<Revision>& revisions, const Json& pool, std::string_view component,
                         absl::Time now) {
  if (revisions.empty()) return absl::StrCat("No revisions of the ", std::string(component), ".\n");
  const Json* current = kube::FieldAt(pool, {"spec", "componentConfig", component});
  std::string_view last_good;  // a digest of the configuration, then what else reaches a pod
  if (const Json* rollouts = kube::Field(pool, "status.rollouts"); rollouts != nullptr && rollouts->is_array()) {
    for (const Json& one : rollouts->get_array()) {
      if (kube::Text(one, "component") == component) last_good = kube::Text(one, "lastGoodRevision");
    }
  }
  std::vector<std::vector<std::string>> rows = {{"REVISION", "DIGEST", "IMAGE", "AGE", "STATE"}};
  for (const Revision& revision : revisions) {
    std::vector<std::string> states;
    if (current != nullptr && revision.block == *current) states.emplace_back("current");
    if (!last_good.empty() && revision.digest == last_good.substr(0, last_good.find('-'))) {
      states.emplace_back("last good");
    }
    rows.push_back({absl::StrCat(revision.number), revision.digest, revision.image,
                    revision.created == absl::InfinitePast() ? "" : ShortDuration(now - revision.created),
                    absl::StrJoin(states, ", ")});
  }
  return Columns(rows);
}

Json HistoryJson(const std::vector<Revision>& revisions) {
  JsonArray list;
  for (const Revision& revision : revisions) {
    list.push_back(JsonObject{{"revision", revision.number},
                              {"digest", revision.digest},
                              {"image", revision.image},
                              {"created", api::Time(revision.created).Text()},
                              {"config", revision.block}});
  }
  return list;
}

}  // namespace tf::tfctl
