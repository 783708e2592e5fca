#include "placement/finder.h"

#include <algorithm>

namespace tf::placement {

Mode ParseMode(std::string_view text) {
  if (text == "CompactFirst") return Mode::kCompactFirst;
  if (text == "LowLoadFirst") return Mode::kLowLoadFirst;
  return Mode::kNodeCompactGpuLowLoad;
}

namespace {

float Score(const Ledger::Node& node, Mode mode) {
  const auto available = static_cast<float>(std::clamp(node.available, 0.0, 100.0));
  return mode == Mode::kLowLoadFirst ? available : 100 - available;
}

}  // namespace

void Find(Ledger& ledger, const Request& request, Mode mode, std::span<const NodeId> nodes, Decision& out) {
  out.node = kNoNode;
  out.cards.clear();
  out.verdicts.assign(nodes.size(), Filter::kPool);
  out.scores.assign(nodes.size(), 0);
  out.nodes = out.cards_seen = out.nodes_fit = 0;
  out.cards_dropped = {};
  out.nodes_dropped = {};

  const std::vector<Ledger::Slot>& slots = ledger.slots();
  const std::vector<Ledger::Node>& known = ledger.nodes();
  const Ledger::Wanted wanted = ledger.Resolve(request);
  const bool compact_cards = mode == Mode::kCompactFirst;
  float best = -1;
  std::array<int, kFilters> dropped = {};
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] == kNoNode) continue;
    const Ledger::Node& node = known[nodes[i]];
    Filter furthest = Filter::kPool;
    int fitting = 0;
    // Once there are enough, the rest of the node's cards make no difference.
    for (uint32_t at = node.first; at < node.first + node.count && fitting < request.count; ++at) {
      const Filter verdict = Ledger::Check(slots[at], wanted);
      if (verdict == Filter::kFits) {
        ++fitting;
      } else {
        ++dropped[static_cast<size_t>(verdict)];
        furthest = std::max(furthest, verdict);
      }
    }
    if (fitting == 0 && furthest == Filter::kPool) continue;
    ++out.nodes;
    if (fitting < request.count) {
      if (fitting > 0) furthest = Filter::kCount;
      dropped[static_cast<size_t>(Filter::kCount)] += fitting;
      out.verdicts[i] = furthest;
      ++out.nodes_dropped[static_cast<size_t>(furthest)];
      continue;
    }
    ++out.nodes_fit;
    out.verdicts[i] = Filter::kFits;
    out.scores[i] = Score(node, mode);
    if (out.scores[i] > best) {
      best = out.scores[i];
      out.node = nodes[i];
    }
  }
  if (out.node == kNoNode) {
    dropped[static_cast<size_t>(Filter::kPool)] = 0;
    out.cards_dropped = dropped;
    for (const int count : dropped) out.cards_seen += count;
    return;
  }

  const Ledger::Node& node = known[out.node];
  out.scratch.clear();
  for (uint32_t at = node.first; at < node.first + node.count; ++at) {
    if (Ledger::Check(slots[at], wanted) == Filter::kFits) out.scratch.push_back(at);
  }
  std::sort(out.scratch.begin(), out.scratch.end(), [&](uint32_t a, uint32_t b) {
    const float left = slots[a].available, right = slots[b].available;
    if (left != right) return compact_cards ? left < right : left > right;
    return a < b;
  });
  for (int i = 0; i < request.count; ++i) out.cards.push_back(slots[out.scratch[static_cast<size_t>(i)]].id);
}

float NodeScore(Ledger& ledger, Mode mode, NodeId node) { return Score(ledger.nodes()[node], mode); }

int ExtenderScore(float score) { return std::clamp(static_cast<int>(score * 0.09F), 0, 9); }

}  // namespace tf::placement
