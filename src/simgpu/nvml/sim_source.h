// What NVML says about the simulated cards: from the state that all processes of the machine share.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/nvml/source.h"
#include "simgpu/card_state.h"

namespace tf::simgpu {

class SimSource : public cuda::nvml::NvmlSource {
 public:
  explicit SimSource(std::shared_ptr<CardState> state);

  absl::StatusOr<cuda::MonitorReport> Read() override;

  // Exact when `since` is the time of an earlier answer (the usual way of asking): the share of the time in between.
  // Otherwise the share of the last second. Processes that hold the card and did nothing answer 0.
  absl::StatusOr<std::vector<cuda::nvml::ProcessSample>> ProcessSamples(size_t device, uint64_t since) override;

 private:
  // The busy time of each process at a time for which an answer was given.
  struct Moment {
    uint64_t time;
    std::map<pid_t, uint64_t> busy_ns;
  };

  const std::shared_ptr<CardState> state_;
  std::vector<int> order_;  // NVML's order of the cards
  std::vector<std::deque<Moment>> history_;
};

}  // namespace tf::simgpu
