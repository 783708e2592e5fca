// What people read of GPUPools: how far each component's rollout is, the pool's capacity, its licence. Pure: the time
// comes in. The operator's words (phase, reason, message) are shown as they are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "api/gpu_pool.h"

namespace tf::tfctl {

inline constexpr std::string_view kComponents[] = {"hypervisor", "worker", "client"};

struct ComponentProgress {
  std::string revision = {};
  bool synced = false;
  int percent = 0;
};
ComponentProgress ProgressOf(const api::GPUPoolStatus& status, std::string_view component);
// Null when the operator has said nothing yet.
const api::RolloutStatus* FindRollout(const api::GPUPoolStatus& status, std::string_view component);
// The policy's autoUpdateHypervisor, -Worker or -Client.
bool AutoUpdate(const api::GPUPoolSpec& spec, std::string_view component);
bool Paused(const api::GPUPoolSpec& spec);

enum class Outlook {
  kComplete,  // every node runs the revision and is ready, or the pool does not have the component
  kUnderWay,  // it goes on by itself, or when a pause or a window ends
  kStopped    // somebody must change something first; the reason says what
};
Outlook OutlookOf(const api::GPUPool& pool, std::string_view component);
// Of one that has stopped: "worker: LicenseRejected: …".
std::string WhyStopped(const api::GPUPool& pool, std::string_view component);

// Until every node is updated and ready, from the pace so far; nullopt before the first one is.
std::optional<absl::Duration> TimeLeft(const api::RolloutStatus& rollout, absl::Time now);

// tfctl rollout status: the policy, a line for each of these components, and below it what they wait for.
std::string RolloutText(const api::GPUPool& pool, const std::vector<std::string>& components, absl::Time now);
// The same for a view that is renewed: a bar, and what it waits for.
std::string LiveText(const api::GPUPool& pool, const std::vector<std::string>& components, absl::Time now);
// One line, without what changes with the time alone: "worker: 40 %, batch 2 of 5, …".
std::string PlainLine(const api::GPUPool& pool, std::string_view component);

// tfctl pool list and describe. `nodes`: name and phase of the pool's GPUNodes.
std::string PoolTable(const std::vector<api::GPUPool>& pools, absl::Time now);
std::string PoolText(const api::GPUPool& pool, const std::vector<std::pair<std::string, std::string>>& nodes,
                     absl::Time now);

// tfctl license usage.
std::string LicenseTable(const std::vector<api::GPUPool>& pools, absl::Time now);

// For programs, from the pools as the server has them: {"pool", "paused", "components": [{"component", "revision",
// "synced", "progress", "autoUpdate", "rollout"}]}; {"pool", "license"}, the licence null where the operator says
// nothing.
api::Json RolloutJson(const api::Json& pool, const std::vector<std::string>& components);
api::Json LicenseJson(const api::Json& pool);

}  // namespace tf::tfctl
