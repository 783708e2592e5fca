// Pods' processes outlive the process node, so that one that was killed finds them again. When the whole cluster is to
// end and nobody is there who knows them, they are found by what they left in the data folder.
#pragma once

#include <string>

namespace tf::standalone {

// Ends every process of the pods below `folder` (the process node's data folder), with SIGKILL. The process node must
// not run. Returns how many containers it found running.
int EndLeftPods(const std::string& folder);

}  // namespace tf::standalone
