// Why a pod has no card, for people: in the words that a pod's event carries.
#pragma once

#include <string>

#include "placement/finder.h"

namespace tf::placement {

// "no room in pool gold for 1 card with 20 TFLOPS: of its 12 cards on 3 nodes 4 are not ready, 8 have ...". Counts
// only, no names: the same situation gives the same text.
std::string Explain(const Request& request, const Decision& decision);

// Of one node, as the scheduler sums nodes up by it: "GPU: too little memory free".
std::string ExplainNode(Filter verdict);

}  // namespace tf::placement
