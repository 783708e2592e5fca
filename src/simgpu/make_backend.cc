// The simulated libcuda.so.1: the driver front on simulated cards.
#include "cuda/driver/make_backend.h"

#include "simgpu/sim_backend.h"

namespace tf::cuda::driver {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend() {
  auto cards = simgpu::CardsFromEnvironment();
  if (!cards.ok()) return cards.status();
  return simgpu::SimBackend::Create(*std::move(cards));
}

}  // namespace tf::cuda::driver
