// The rollouts in a GPUPool's spec and status: the policy as the engine reads it; its state and reports as they are
// stored and shown. ReadState(what WriteStatus wrote) is the state. Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "api/gpu_pool.h"
#include "rollout/engine.h"
#include "rollout/policy.h"

namespace tf::rollout {

// nullopt: all defaults.
Policy ReadPolicy(const std::optional<api::RollingUpdatePolicy>& policy);

// From status.componentStatus and status.rollouts. What is missing or cannot be read is as at the very beginning.
State ReadState(const api::ComponentStatus& components, const std::vector<api::RolloutStatus>& rollouts);

// All of status.componentStatus, and of status.rollouts the entries that the engine owns: one for each component.
void WriteStatus(const Decision& decision, api::ComponentStatus& components, std::vector<api::RolloutStatus>& rollouts);

}  // namespace tf::rollout
