// Which pool a node belongs to. Pure functions.
//
// A selector reads as in Kubernetes ("NodeSelector" of the API reference): any term matches, all requirements of a term
// hold, a selector or term without any matches nothing, and neither does what cannot be understood (an unknown operator
// or field, Gt without a number).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core.h"
#include "api/gpu_pool.h"
#include "kube/object.h"

namespace tf::operators {

// What is looked at of a node.
struct NodeFacts {
  std::string name = {};
  std::map<std::string, std::string> labels = {};
};
NodeFacts FactsOf(const kube::Json& node);

bool Matches(const api::NodeSelector& selector, const NodeFacts& node);

// The vendor under which a pool takes the node; nullopt: it does not. Where there are selectors by vendor they decide
// alone, in the order of the vendors' names; otherwise nodeSelector does, and the vendor is defaultVendor. A pool
// without any selector takes no node.
std::optional<std::string> VendorFor(const api::NodeManagerConfig& config, const NodeFacts& node);

struct PoolChoice {
  std::string pool = {};
  std::string vendor = {};
};

// The pool that has the node keeps it as long as it matches (`current`, "": none has it). Otherwise the oldest pool
// that matches gets it, of equally old ones the first by name: so a new pool never takes nodes from another. Pools that
// are being deleted take and keep nothing. nullopt: no pool matches.
std::optional<PoolChoice> ChoosePool(const std::vector<api::GPUPool>& pools, const NodeFacts& node,
                                     std::string_view current);

}  // namespace tf::operators
