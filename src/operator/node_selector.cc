#include "operator/node_selector.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <cstdint>
#include <tuple>

#include "absl/strings/numbers.h"

namespace tf::operators {
namespace {

bool Contains(const std::vector<std::string>& values, const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// `value`: null when the node has none.
bool Holds(const api::NodeSelectorRequirement& requirement, const std::string* value) {
  if (requirement.operator_ == "Exists") return value != nullptr;
  if (requirement.operator_ == "DoesNotExist") return value == nullptr;
  if (requirement.operator_ == "In") return value != nullptr && Contains(requirement.values, *value);
  if (requirement.operator_ == "NotIn") return value == nullptr || !Contains(requirement.values, *value);
  if (requirement.operator_ == "Gt" || requirement.operator_ == "Lt") {
    int64_t have = 0;
    int64_t bound = 0;
    if (value == nullptr || requirement.values.size() != 1 || !absl::SimpleAtoi(*value, &have) ||
        !absl::SimpleAtoi(requirement.values[0], &bound)) {
      return false;
    }
    return requirement.operator_ == "Gt" ? have > bound : have < bound;
  }
  return false;
}

bool FieldHolds(const api::NodeSelectorRequirement& requirement, const NodeFacts& node) {
  if (requirement.key != "metadata.name") return false;
  if (requirement.operator_ != "In" && requirement.operator_ != "NotIn") return false;
  return Holds(requirement, &node.name);
}

bool TermMatches(const api::NodeSelectorTerm& term, const NodeFacts& node) {
  if (term.matchExpressions.empty() && term.matchFields.empty()) return false;
  const auto label_holds = [&](const api::NodeSelectorRequirement& requirement) {
    const auto label = node.labels.find(requirement.key);
    return Holds(requirement, label == node.labels.end() ? nullptr : &label->second);
  };
  return std::all_of(term.matchExpressions.begin(), term.matchExpressions.end(), label_holds) &&
         std::all_of(term.matchFields.begin(), term.matchFields.end(),
                     [&](const api::NodeSelectorRequirement& one) { return FieldHolds(one, node); });
}

}  // namespace

NodeFacts FactsOf(const kube::Json& node) {
  NodeFacts facts{.name = std::string(kube::Name(node))};
  const kube::Json* labels = kube::Field(node, "metadata.labels");
  if (labels == nullptr || !labels->is_object()) return facts;
  for (const auto& label : labels->get_object()) {
    if (label.value().is_string()) facts.labels.emplace(label.key(), label.value().get_string());
  }
  return facts;
}

bool Matches(const api::NodeSelector& selector, const NodeFacts& node) {
  return std::any_of(selector.nodeSelectorTerms.begin(), selector.nodeSelectorTerms.end(),
                     [&](const api::NodeSelectorTerm& term) { return TermMatches(term, node); });
}

std::optional<std::string> VendorFor(const api::NodeManagerConfig& config, const NodeFacts& node) {
  for (const auto& [vendor, selector] : config.multiVendorNodeSelector) {
    if (Matches(selector, node)) return vendor;
  }
  if (!config.multiVendorNodeSelector.empty()) return std::nullopt;
  if (!config.nodeSelector || !Matches(*config.nodeSelector, node)) return std::nullopt;
  return config.defaultVendor.value_or("NVIDIA");
}

std::optional<PoolChoice> ChoosePool(const std::vector<api::GPUPool>& pools, const NodeFacts& node,
                                     std::string_view current) {
  const auto rank = [&](const api::GPUPool& pool) {
    return std::tuple(pool.metadata.name != current, pool.metadata.creationTimestamp.at(),
                      std::string_view(pool.metadata.name));
  };
  const api::GPUPool* best = nullptr;
  PoolChoice choice;
  for (const api::GPUPool& pool : pools) {
    if (pool.metadata.deletionTimestamp || (best != nullptr && rank(*best) < rank(pool))) continue;
    std::optional<std::string> vendor = VendorFor(pool.spec.nodeManagerConfig, node);
    if (!vendor) continue;
    best = &pool;
    choice = {.pool = pool.metadata.name, .vendor = *std::move(vendor)};
  }
  if (best == nullptr) return std::nullopt;
  return choice;
}

}  // namespace tf::operators
