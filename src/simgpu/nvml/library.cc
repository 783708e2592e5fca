// libnvidia-ml.so.1 of the simulated cards.
#include "cuda/nvml/exports.h"
#include "cuda/nvml/source.h"
#include "simgpu/nvml/sim_source.h"

namespace tf::cuda::nvml {

absl::StatusOr<std::unique_ptr<NvmlSource>> MakeSource() {
  absl::StatusOr<simgpu::CardList> cards = simgpu::CardsFromEnvironment();
  if (!cards.ok()) return cards.status();
  absl::StatusOr<std::shared_ptr<simgpu::CardState>> state = simgpu::CardState::Open(*std::move(cards));
  if (!state.ok()) return state.status();
  return std::make_unique<simgpu::SimSource>(*std::move(state));
}

}  // namespace tf::cuda::nvml
