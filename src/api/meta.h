// What all objects have: metadata, owners, conditions, label selectors.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/values.h"

namespace tf::api {

struct OwnerReference {
  JsonObject extra = {};
  std::string apiVersion = {};
  std::string kind = {};
  std::string name = {};
  std::string uid = {};
  std::optional<bool> controller = {};
  std::optional<bool> blockOwnerDeletion = {};
};
BOOST_DESCRIBE_STRUCT(OwnerReference, (), (apiVersion, kind, name, uid, controller, blockOwnerDeletion))

struct ObjectMeta {
  JsonObject extra = {};
  std::string name = {};
  std::string generateName = {};
  std::string namespace_ = {};
  std::string uid = {};
  std::string resourceVersion = {};
  int64_t generation = 0;
  Time creationTimestamp = {};
  std::optional<Time> deletionTimestamp = {};
  std::optional<int64_t> deletionGracePeriodSeconds = {};
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> annotations = {};
  std::vector<OwnerReference> ownerReferences = {};
  std::vector<std::string> finalizers = {};

  kube::Key Key() const { return {namespace_, name}; }
  // "" when there is none.
  std::string_view Label(const std::string& key) const;
  std::string_view Annotation(const std::string& key) const;
  bool HasFinalizer(std::string_view finalizer) const;
  // The one owner that is the controller; null when there is none.
  const OwnerReference* Controller() const;
};
BOOST_DESCRIBE_STRUCT(ObjectMeta, (),
                      (name, generateName, namespace_, uid, resourceVersion, generation, creationTimestamp,
                       deletionTimestamp, deletionGracePeriodSeconds, labels, annotations, ownerReferences, finalizers))

// metav1.Condition.
struct Condition {
  JsonObject extra = {};
  std::string type = {};
  std::string status = {};  // "True", "False", "Unknown"
  std::string reason = {};
  std::string message = {};
  Time lastTransitionTime = {};
  int64_t observedGeneration = 0;

  static constexpr std::string_view kAlways[] = {"message"};
};
BOOST_DESCRIBE_STRUCT(Condition, (), (type, status, reason, message, lastTransitionTime, observedGeneration))

// Null when there is none.
const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);
// Adds or changes the condition of that type; lastTransitionTime is `now` where the status changes, and stays
// otherwise. True when anything changed.
bool SetCondition(std::vector<Condition>& conditions, Condition condition, absl::Time now);

struct LabelSelectorRequirement {
  JsonObject extra = {};
  std::string key = {};
  std::string operator_ = {};  // In, NotIn, Exists, DoesNotExist
  std::vector<std::string> values = {};
};
BOOST_DESCRIBE_STRUCT(LabelSelectorRequirement, (), (key, operator_, values))

// Empty: matches everything.
struct LabelSelector {
  JsonObject extra = {};
  std::map<std::string, std::string> matchLabels = {};
  std::vector<LabelSelectorRequirement> matchExpressions = {};
};
BOOST_DESCRIBE_STRUCT(LabelSelector, (), (matchLabels, matchExpressions))

}  // namespace tf::api
