#include "operator/revision_history.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/names.h"
#include "kube/error.h"
#include "kube/owners.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonObject;
using kube::ObjectPtr;

constexpr int kNames = 20;  // that are tried before somebody has to look

bool IsOf(const Json& revision, std::string_view pool_uid, Component component) {
  const Json* owner = kube::ControllerOf(revision);
  return owner != nullptr && kube::Text(*owner, "uid") == pool_uid &&
         kube::Label(revision, api::kComponentLabel) == Name(component);
}

bool Has(const Json& revision, std::string_view digest, const Json& block) {
  const Json* data = kube::Field(revision, "data");
  return kube::Label(revision, api::kRevisionLabel) == digest && data != nullptr && *data == block;
}

}  // namespace

HistoryChange ChangeOfHistory(const std::vector<ObjectPtr>& known, const Json& pool, Component component,
                              const std::string& ns, const std::string& digest, const Json& block,
                              const std::set<std::string>& in_use, const std::set<std::string>& taken) {
  HistoryChange change;
  std::vector<ObjectPtr> ours;
  std::set<std::string> names = taken;
  for (const ObjectPtr& one : known) {
    names.emplace(kube::Name(*one));
    if (IsOf(*one, kube::Uid(pool), component) && !kube::IsBeingDeleted(*one)) ours.push_back(one);
  }
  std::sort(ours.begin(), ours.end(), [](const ObjectPtr& a, const ObjectPtr& b) {
    return kube::Number(*a, "revision") < kube::Number(*b, "revision");
  });
  const int64_t newest = ours.empty() ? 0 : kube::Number(*ours.back(), "revision");
  const auto current =
      std::find_if(ours.begin(), ours.end(), [&](const ObjectPtr& one) { return Has(*one, digest, block); });
  size_t others = ours.size();
  if (current == ours.end()) {
    const std::string base = absl::StrCat(std::string(kube::Name(pool)), "-", Name(component), "-", digest);
    std::string name = base;
    for (int i = 2; names.contains(name) && i <= kNames; ++i) name = absl::StrCat(base, "-", i);
    Json revision = JsonObject{{"apiVersion", "apps/v1"},
                               {"kind", "ControllerRevision"},
                               {"metadata",
                                {{"name", name},
                                 {"namespace", ns},
                                 {"labels",
                                  {{api::kPoolLabel, kube::Name(pool)},
                                   {api::kComponentLabel, Name(component)},
                                   {api::kRevisionLabel, digest}}}}},
                               {"data", block},
                               {"revision", newest + 1}};
    if (kube::SetController(revision, pool).ok()) change.create = std::move(revision);
  } else {
    --others;
    if (kube::Number(**current, "revision") < newest) {
      change.renumber = std::string(kube::Name(**current));
      change.revision = newest + 1;
    }
  }
  for (const ObjectPtr& one : ours) {
    if (others < kHistoryLimit) break;
    if (current != ours.end() && one == *current) continue;
    if (in_use.contains(std::string(kube::Label(*one, api::kRevisionLabel)))) continue;
    change.remove.push_back(*one);
    --others;
  }
  return change;
}

RevisionHistory::RevisionHistory(kube::Manager& manager, std::string ns)
    : manager_(manager),
      ns_(std::move(ns)),
      revisions_(manager.Cache(kube::core::kControllerRevision,
                               {.ns = ns_,
                                .label_selector = api::kPoolLabel,
                                .keep = {"metadata.labels", "metadata.ownerReferences", "metadata.deletionTimestamp",
                                         "data", "revision"}})) {}

std::optional<Json> RevisionHistory::Find(const std::string& pool_uid, Component component,
                                          const std::string& digest) const {
  ObjectPtr newest;
  for (const ObjectPtr& one : revisions_.All()) {
    if (!IsOf(*one, pool_uid, component) || kube::Label(*one, api::kRevisionLabel) != digest) continue;
    if (newest == nullptr || kube::Number(*newest, "revision") < kube::Number(*one, "revision")) newest = one;
  }
  if (newest == nullptr || kube::Field(*newest, "data") == nullptr) return std::nullopt;
  return *kube::Field(*newest, "data");
}

bool RevisionHistory::NeedsRecord(const Json& pool, Component component, const std::string& digest, const Json& block,
                                  const std::set<std::string>& in_use) const {
  return !ChangeOfHistory(revisions_.All(), pool, component, ns_, digest, block, in_use).empty();
}

absl::Status RevisionHistory::Record(const Json& pool, Component component, const std::string& digest,
                                     const Json& block, const std::set<std::string>& in_use) {
  const kube::Resource& kind = kube::core::kControllerRevision;
  std::set<std::string> taken;
  HistoryChange change = ChangeOfHistory(revisions_.All(), pool, component, ns_, digest, block, in_use);
  while (change.create) {
    const auto created = manager_.client().Create(kind, *change.create);
    if (created.ok()) break;
    if (!kube::IsAlreadyExists(created.status()) || taken.size() >= kNames) return created.status();
    // It may be ours, and the cache not know it yet; or somebody else's, and then another name does.
    const std::string name(kube::Name(*change.create));
    const auto there = manager_.client().Get(kind, {ns_, name});
    if (!there.ok() && !kube::IsNotFound(there.status())) return there.status();
    if (there.ok() && IsOf(*there, kube::Uid(pool), component) && Has(*there, digest, block)) break;
    taken.insert(name);
    change = ChangeOfHistory(revisions_.All(), pool, component, ns_, digest, block, in_use, taken);
  }
  if (change.renumber) {
    const auto patched =
        manager_.client().Patch(kind, {ns_, *change.renumber}, JsonObject{{"revision", change.revision}});
    if (!patched.ok() && !kube::IsNotFound(patched.status())) return patched.status();
  }
  for (const Json& one : change.remove) {
    kube::DeleteOptions options;
    options.uid = std::string(kube::Uid(one));
    const absl::Status removed = manager_.client().Delete(kind, kube::KeyOf(one), options);
    if (!removed.ok() && !kube::IsNotFound(removed) && !kube::IsConflict(removed)) return removed;
  }
  return absl::OkStatus();
}

}  // namespace tf::operators
