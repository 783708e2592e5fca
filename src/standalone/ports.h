// TCP ports of 127.0.0.1 for the parts of a cluster. They are chosen once and kept, so that addresses which people and
// programs wrote down stay good; only one that somebody else has taken meanwhile is replaced.
//
// They lie below the ports that the system gives to outgoing connections: else any program's connection could sit on
// one while the cluster is down. A port is ours for sure only once a part listens on it; whoever finds it busy then
// chooses again.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace tf::standalone {

// Nobody listens on it now.
bool IsPortFree(uint16_t port);

// As many ports as `wanted` has, all free and all different: those of `wanted` where they are free, others instead of 0
// and of the busy ones. ResourceExhausted when the system has none left.
absl::StatusOr<std::vector<uint16_t>> ChoosePorts(const std::vector<uint16_t>& wanted);

}  // namespace tf::standalone
