// The cards that this machine pretends to have: models, and the list that TF_SIM_GPUS asks for.
//
// Everything here is a pure function of the environment, so that all processes of a machine see the same cards with the
// same UUIDs and PCI addresses. Immutable, thread-safe. Sizes are bytes, clocks MHz, power milliwatts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/backend.h"

namespace tf::simgpu {

struct CardModel {
  const char* key;   // as TF_SIM_GPUS names it
  const char* name;  // as the driver and NVML print it
  uint64_t memory;
  int multiprocessors;
  int major, minor;  // compute capability
  int clock_mhz, memory_clock_mhz, memory_bus_bits;
  int l2_cache;
  int threads_per_multiprocessor, blocks_per_multiprocessor;
  int shared_per_multiprocessor, shared_per_block_optin;
  int single_to_double_ratio;
  bool ecc;
  uint32_t power_limit, idle_power;
  uint32_t pci_device;  // device and vendor number
  double tflops_fp32, tflops_fp16;
};

// All models, for messages and listings.
const std::vector<CardModel>& CardModels();

// One simulated card.
struct Card {
  const CardModel* model;
  int index;
  std::string uuid;  // GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
  uint32_t pci_domain, pci_bus, pci_device;
};

struct CardList {
  std::vector<Card> cards;
  std::string canonical;  // the specification in its shortest form, e.g. "A100-80G:4,T4:2"
  std::string identity;   // a hash of canonical form, seed and kSharedLayout, hexadecimal: names what processes share
};

constexpr int kMaxCards = 32;
// Version of what processes share (card_state.cc). Programs of different versions share nothing.
constexpr int kSharedLayout = 2;
constexpr int kDriverVersion = 13050;                     // what cuDriverGetVersion answers
constexpr std::string_view kDriverRelease = "580.65.06";  // what NVML calls the driver version

// `specification` is MODEL[:COUNT],…; `seed` varies the UUIDs (may be empty). INVALID_ARGUMENT says what is wrong in
// one line.
absl::StatusOr<CardList> ParseCards(const std::string& specification, const std::string& seed);

// The cards of this machine: TF_SIM_GPUS (when unset one A100-80G) and TF_SIM_SEED.
absl::StatusOr<CardList> CardsFromEnvironment();

// A card as the driver describes it, with all attributes.
cuda::DeviceFacts DescribeCard(const Card& card);

}  // namespace tf::simgpu
