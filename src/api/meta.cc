#include "api/meta.h"

#include <algorithm>

#include "api/convert.h"

namespace tf::api {
namespace {

std::string_view Find(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? std::string_view() : std::string_view(it->second);
}

}  // namespace

std::string_view ObjectMeta::Label(const std::string& key) const { return Find(labels, key); }

std::string_view ObjectMeta::Annotation(const std::string& key) const { return Find(annotations, key); }

bool ObjectMeta::HasFinalizer(std::string_view finalizer) const {
  return std::find(finalizers.begin(), finalizers.end(), finalizer) != finalizers.end();
}

const OwnerReference* ObjectMeta::Controller() const {
  for (const OwnerReference& owner : ownerReferences) {
    if (owner.controller.value_or(false)) return &owner;
  }
  return nullptr;
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto it = std::find_if(conditions.begin(), conditions.end(),
                               [&](const Condition& condition) { return condition.type == type; });
  return it == conditions.end() ? nullptr : &*it;
}

bool SetCondition(std::vector<Condition>& conditions, Condition condition, absl::Time now) {
  const auto it = std::find_if(conditions.begin(), conditions.end(),
                               [&](const Condition& one) { return one.type == condition.type; });
  if (it == conditions.end()) {
    condition.lastTransitionTime = Time(now);
    conditions.push_back(std::move(condition));
    return true;
  }
  if (it->status == condition.status && it->reason == condition.reason && it->message == condition.message &&
      it->observedGeneration == condition.observedGeneration) {
    return false;
  }
  if (it->status != condition.status) it->lastTransitionTime = Time(now);
  it->status = std::move(condition.status);
  it->reason = std::move(condition.reason);
  it->message = std::move(condition.message);
  it->observedGeneration = condition.observedGeneration;
  return true;
}

template absl::StatusOr<ObjectMeta> FromJson(const Json&);
template Json ToJson(const ObjectMeta&);
template absl::StatusOr<Condition> FromJson(const Json&);
template Json ToJson(const Condition&);
template absl::StatusOr<LabelSelector> FromJson(const Json&);
template Json ToJson(const LabelSelector&);

}  // namespace tf::api
