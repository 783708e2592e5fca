// Which cards of which node a pod gets: every card goes through the filters (ledger.h) in their order, then the
// placement mode of the pool chooses among nodes, and among the cards of the best one.
//
// A decision allocates nothing once its buffers have grown to the size of the cluster. Pure; not thread-safe for one
// ledger.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "placement/ledger.h"
#include "placement/request.h"

namespace tf::placement {

// Nodes, then cards: the fullest (Compact) or the emptiest (LowLoad) that still fits.
enum class Mode : uint8_t { kCompactFirst, kLowLoadFirst, kNodeCompactGpuLowLoad };

// Of a SchedulingConfigTemplate's placement.mode; NodeCompactGPULowLoad for whatever is not one of the three.
Mode ParseMode(std::string_view text);

struct Decision {
  // The best of the nodes that fit, and its cards; kNoNode: none fits.
  NodeId node = kNoNode;
  std::vector<CardId> cards = {};

  // Of each node as given: kFits, or the filter that stopped the card that came furthest (kPool: it has no card of the
  // pool); and of those that fit what the mode makes of them, 0 to 100.
  std::vector<Filter> verdicts = {};
  std::vector<float> scores = {};

  int nodes = 0;  // that have cards of the pool
  int nodes_fit = 0;
  std::array<int, kFilters> nodes_dropped = {};  // by their verdict
  // Where no node fits: all cards of the pool on them, by the filter that stopped each.
  int cards_seen = 0;
  std::array<int, kFilters> cards_dropped = {};

  std::vector<uint32_t> scratch = {};
};

// Among `nodes` (kNoNode: one that has no cards); `out` is written over. A node's nodes are told apart by their place
// in `nodes`, and the first of equals wins.
void Find(Ledger& ledger, const Request& request, Mode mode, std::span<const NodeId> nodes, Decision& out);

// What the mode makes of a node, 0 to 100.
float NodeScore(Ledger& ledger, Mode mode, NodeId node);

// The same as a scheduler extender says it, which has 0 to 10 (MaxExtenderPriority): 0 to 9. The chosen node alone has
// 10, so that it is where the pod goes unless something else speaks against it.
inline constexpr int kChosenScore = 10;
int ExtenderScore(float score);

}  // namespace tf::placement
