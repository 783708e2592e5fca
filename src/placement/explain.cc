#include "placement/explain.h"

#include "absl/strings/str_cat.h"

namespace tf::placement {

std::string Explain(const Request& request, const Decision& decision) {
  std::string text = absl::StrCat("no room in pool ", request.pool, " for ", Text(request), ": ");
  if (decision.cards_seen == 0) {
    return absl::StrCat(text, "it has no cards on the ", decision.verdicts.size(), " nodes that are open to the pod");
  }
  absl::StrAppend(&text, "of ", decision.cards_seen, decision.cards_seen == 1 ? " card on " : " cards on ",
                  decision.nodes, decision.nodes == 1 ? " node" : " nodes");
  const char* between = " ";
  for (size_t i = 0; i < kFilters; ++i) {
    if (decision.cards_dropped[i] == 0) continue;
    absl::StrAppend(&text, between, decision.cards_dropped[i], ": ", std::string(Text(static_cast<Filter>(i))));
    between = ", ";
  }
  return text;
}

std::string ExplainNode(Filter verdict) {
  if (verdict == Filter::kPool) return "no GPU of its pool";
  return absl::StrCat("GPU: ", std::string(Text(verdict)));
}

}  // namespace tf::placement
