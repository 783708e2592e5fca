#include "simgpu/card_model.h"

#include <openssl/sha.h>

#include <array>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tf::simgpu {
namespace {

constexpr uint64_t kMiB = 1 << 20;

std::string Digest(const std::string& text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hex;
  for (unsigned char byte : digest) absl::StrAppendFormat(&hex, "%02x", byte);
  return hex;
}

std::string Uuid(const std::string& model, int index, const std::string& seed) {
  std::string h = Digest(absl::StrCat("simulated card|", model, "|", index, "|", seed));
  return absl::StrCat("GPU-", h.substr(0, 8), "-", h.substr(8, 4), "-", h.substr(12, 4), "-", h.substr(16, 4), "-",
                      h.substr(20, 12));
}

std::string ModelKeys() {
  return absl::StrJoin(CardModels(), ", ", [](std::string* out, const CardModel& model) { out->append(model.key); });
}

}  // namespace

const std::vector<CardModel>& CardModels() {
  // Figures as NVIDIA's data sheets and the driver report them.
  static const auto* models = new std::vector<CardModel>{
      {.key = "A100-80G",
       .name = "NVIDIA A100-SXM4-80GB",
       .memory = 81920 * kMiB,
       .multiprocessors = 108,
       .major = 8,
       .minor = 0,
       .clock_mhz = 1410,
       .memory_clock_mhz = 1593,
       .memory_bus_bits = 5120,
       .l2_cache = 40 << 20,
       .threads_per_multiprocessor = 2048,
       .blocks_per_multiprocessor = 32,
       .shared_per_multiprocessor = 164 << 10,
       .shared_per_block_optin = 163 << 10,
       .single_to_double_ratio = 2,
       .ecc = true,
       .power_limit = 400000,
       .idle_power = 60000,
       .pci_device = 0x20B210DE,
       .tflops_fp32 = 19.5,
       .tflops_fp16 = 312},
      {.key = "A100-40G",
       .name = "NVIDIA A100-SXM4-40GB",
       .memory = 40960 * kMiB,
       .multiprocessors = 108,
       .major = 8,
       .minor = 0,
       .clock_mhz = 1410,
       .memory_clock_mhz = 1215,
       .memory_bus_bits = 5120,
       .l2_cache = 40 << 20,
       .threads_per_multiprocessor = 2048,
       .blocks_per_multiprocessor = 32,
       .shared_per_multiprocessor = 164 << 10,
       .shared_per_block_optin = 163 << 10,
       .single_to_double_ratio = 2,
       .ecc = true,
       .power_limit = 400000,
       .idle_power = 52000,
       .pci_device = 0x20B010DE,
       .tflops_fp32 = 19.5,
       .tflops_fp16 = 312},
      {.key = "H100-80G",
       .name = "NVIDIA H100 80GB HBM3",
       .memory = 81559 * kMiB,
       .multiprocessors = 132,
       .major = 9,
       .minor = 0,
       .clock_mhz = 1980,
       .memory_clock_mhz = 2619,
       .memory_bus_bits = 5120,
       .l2_cache = 50 << 20,
       .threads_per_multiprocessor = 2048,
       .blocks_per_multiprocessor = 32,
       .shared_per_multiprocessor = 228 << 10,
       .shared_per_block_optin = 227 << 10,
       .single_to_double_ratio = 2,
       .ecc = true,
       .power_limit = 700000,
       .idle_power = 70000,
       .pci_device = 0x233010DE,
       .tflops_fp32 = 67,
       .tflops_fp16 = 989},
      {.key = "H200",
       .name = "NVIDIA H200",
       .memory = 143771 * kMiB,
       .multiprocessors = 132,
       .major = 9,
       .minor = 0,
       .clock_mhz = 1980,
       .memory_clock_mhz = 3201,
       .memory_bus_bits = 6144,
       .l2_cache = 60 << 20,
       .threads_per_multiprocessor = 2048,
       .blocks_per_multiprocessor = 32,
       .shared_per_multiprocessor = 228 << 10,
       .shared_per_block_optin = 227 << 10,
       .single_to_double_ratio = 2,
       .ecc = true,
       .power_limit = 700000,
       .idle_power = 75000,
       .pci_device = 0x233510DE,
       .tflops_fp32 = 67,
       .tflops_fp16 = 989},
      {.key = "V100-32G",
       .name = "Tesla V100-SXM2-32GB",
       .memory = 32768 * kMiB,
       .multiprocessors = 80,
       .major = 7,
       .minor = 0,
       .clock_mhz = 1530,
       .memory_clock_mhz = 877,
       .memory_bus_bits = 4096,
       .l2_cache = 6 << 20,
       .threads_per_multiprocessor = 2048,
       .blocks_per_multiprocessor = 32,
       .shared_per_multiprocessor = 96 << 10,
       .shared_per_block_optin = 96 << 10,
       .single_to_double_ratio = 2,
       .ecc = true,
       .power_limit = 300000,
       .idle_power = 42000,
       .pci_device = 0x1DB510DE,
       .tflops_fp32 = 15.7,
       .tflops_fp16 = 125},
      {.key = "T4",
       .name = "Tesla T4",
       .memory = 15360 * kMiB,
       .multiprocessors = 40,
       .major = 7,
       .minor = 5,
       .clock_mhz = 1590,
       .memory_clock_mhz = 5001,
       .memory_bus_bits = 256,
       .l2_cache = 4 << 20,
       .threads_per_multiprocessor = 1024,
       .blocks_per_multiprocessor = 16,
       .shared_per_multiprocessor = 64 << 10,
       .shared_per_block_optin = 64 << 10,
       .single_to_double_ratio = 32,
       .ecc = true,
       .power_limit = 70000,
       .idle_power = 10000,
       .pci_device = 0x1EB810DE,
       .tflops_fp32 = 8.1,
       .tflops_fp16 = 65},
      {.key = "A10",
       .name = "NVIDIA A10",
       .memory = 23028 * kMiB,
       .multiprocessors = 72,
       .major = 8,
       .minor = 6,
       .clock_mhz = 1695,
       .memory_clock_mhz = 6251,
       .memory_bus_bits = 384,
       .l2_cache = 6 << 20,
       .threads_per_multiprocessor = 1536,
       .blocks_per_multiprocessor = 16,
       .shared_per_multiprocessor = 100 << 10,
       .shared_per_block_optin = 99 << 10,
       .single_to_double_ratio = 32,
       .ecc = true,
       .power_limit = 150000,
       .idle_power = 20000,
       .pci_device = 0x223610DE,
       .tflops_fp32 = 31.2,
       .tflops_fp16 = 125},
      {.key = "L4",
       .name = "NVIDIA L4",
       .memory = 23034 * kMiB,
       .multiprocessors = 58,
       .major = 8,
       .minor = 9,
       .clock_mhz = 2040,
       .memory_clock_mhz = 6251,
       .memory_bus_bits = 192,
       .l2_cache = 48 << 20,
       .threads_per_multiprocessor = 1536,
       .blocks_per_multiprocessor = 24,
       .shared_per_multiprocessor = 100 << 10,
       .shared_per_block_optin = 99 << 10,
       .single_to_double_ratio = 64,
       .ecc = true,
       .power_limit = 72000,
       .idle_power = 13000,
       .pci_device = 0x27B810DE,
       .tflops_fp32 = 30.3,
       .tflops_fp16 = 121},
      {.key = "L40S",
       .name = "NVIDIA L40S",
       .memory = 46068 * kMiB,
       .multiprocessors = 142,
       .major = 8,
       .minor = 9,
       .clock_mhz = 2520,
       .memory_clock_mhz = 9001,
       .memory_bus_bits = 384,
       .l2_cache = 96 << 20,
       .threads_per_multiprocessor = 1536,
       .blocks_per_multiprocessor = 24,
       .shared_per_multiprocessor = 100 << 10,
       .shared_per_block_optin = 99 << 10,
       .single_to_double_ratio = 64,
       .ecc = true,
       .power_limit = 350000,
       .idle_power = 33000,
       .pci_device = 0x26B910DE,
       .tflops_fp32 = 91.6,
       .tflops_fp16 = 362},
      {.key = "RTX-3090",
       .name = "NVIDIA GeForce RTX 3090",
       .memory = 24576 * kMiB,
       .multiprocessors = 82,
       .major = 8,
       .minor = 6,
       .clock_mhz = 1695,
       .memory_clock_mhz = 9751,
       .memory_bus_bits = 384,
       .l2_cache = 6 << 20,
       .threads_per_multiprocessor = 1536,
       .blocks_per_multiprocessor = 16,
       .shared_per_multiprocessor = 100 << 10,
       .shared_per_block_optin = 99 << 10,
       .single_to_double_ratio = 32,
       .ecc = false,
       .power_limit = 350000,
       .idle_power = 25000,
       .pci_device = 0x220410DE,
       .tflops_fp32 = 35.6,
       .tflops_fp16 = 71},
      {.key = "RTX-4090",
       .name = "NVIDIA GeForce RTX 4090",
       .memory = 24564 * kMiB,
       .multiprocessors = 128,
       .major = 8,
       .minor = 9,
       .clock_mhz = 2520,
       .memory_clock_mhz = 10501,
       .memory_bus_bits = 384,
       .l2_cache = 72 << 20,
       .threads_per_multiprocessor = 1536,
       .blocks_per_multiprocessor = 24,
       .shared_per_multiprocessor = 100 << 10,
       .shared_per_block_optin = 99 << 10,
       .single_to_double_ratio = 64,
       .ecc = false,
       .power_limit = 450000,
       .idle_power = 22000,
       .pci_device = 0x268410DE,
       .tflops_fp32 = 82.6,
       .tflops_fp16 = 165},
  };
  return *models;
}

absl::StatusOr<CardList> ParseCards(const std::string& specification, const std::string& seed) {
  struct Run {
    const CardModel* model;
    int count;
  };
  std::vector<Run> runs;
  int total = 0;
  for (absl::string_view item : absl::StrSplit(specification, ',')) {
    item = absl::StripAsciiWhitespace(item);
    std::vector<absl::string_view> parts = absl::StrSplit(item, absl::MaxSplits(':', 1));
    const CardModel* found = nullptr;
    for (const CardModel& model : CardModels()) {
      if (absl::AsciiStrToLower(parts[0]) == absl::AsciiStrToLower(model.key)) found = &model;
    }
    if (!found) {
      return absl::InvalidArgumentError(absl::StrCat("TF_SIM_GPUS=\"", specification, "\": unknown model \"", parts[0],
                                                     "\"; expected MODEL[:COUNT],… with a model of ", ModelKeys()));
    }
    int count = 1;
    if (parts.size() == 2 && (!absl::SimpleAtoi(parts[1], &count) || count < 1 || count > kMaxCards)) {
      return absl::InvalidArgumentError(absl::StrCat("TF_SIM_GPUS=\"", specification, "\": the count \"", parts[1],
                                                     "\" of ", found->key, " is not a number from 1 to ", kMaxCards));
    }
    total += count;
    if (total > kMaxCards) {
      return absl::InvalidArgumentError(
          absl::StrCat("TF_SIM_GPUS=\"", specification, "\": more than ", kMaxCards, " cards; ask for fewer"));
    }
    if (!runs.empty() && runs.back().model == found) {
      runs.back().count += count;
    } else {
      runs.push_back({found, count});
    }
  }

  CardList list;
  list.canonical = absl::StrJoin(
      runs, ",", [](std::string* out, const Run& run) { absl::StrAppend(out, run.model->key, ":", run.count); });
  list.identity = Digest(absl::StrCat(list.canonical, "|", seed, "|", kSharedLayout)).substr(0, 16);
  for (const Run& run : runs) {
    for (int i = 0; i < run.count; ++i) {
      int index = static_cast<int>(list.cards.size());
      // Bus numbers rise with the index, so that NVML's order (by PCI address) is the order of the specification.
      list.cards.push_back(
          {run.model, index, Uuid(run.model->key, index, seed), 0, static_cast<uint32_t>(7 * (index + 1)), 0});
    }
  }
  return list;
}

absl::StatusOr<CardList> CardsFromEnvironment() {
  const char* specification = std::getenv("TF_SIM_GPUS");
  const char* seed = std::getenv("TF_SIM_SEED");
  return ParseCards(specification ? specification : "A100-80G", seed ? seed : "");
}

cuda::DeviceFacts DescribeCard(const Card& card) {
  const CardModel& model = *card.model;
  cuda::DeviceFacts facts{.name = model.name,
                          .uuid = card.uuid,
                          .pci_domain = card.pci_domain,
                          .pci_bus = card.pci_bus,
                          .pci_device = card.pci_device,
                          .total_memory = model.memory,
                          .attributes = {}};
  facts.attributes.resize(CU_DEVICE_ATTRIBUTE_MAX);
  // What is not set is 0: not supported.
  auto set = [&](CUdevice_attribute attribute, int64_t value) {
    facts.attributes[attribute] = static_cast<int32_t>(value);
  };
  set(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64);
  set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647);
  set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535);
  set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535);
  set(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10);
  set(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 << 10);
  set(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32);
  set(CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647);
  set(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536);
  set(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, model.clock_mhz * 1000);
  set(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512);
  set(CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1);
  set(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, model.multiprocessors);
  set(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1);
  set(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048);
  set(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512);
  set(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1);
  set(CU_DEVICE_ATTRIBUTE_ECC_ENABLED, model.ecc);
  set(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, card.pci_bus);
  set(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, card.pci_device);
  set(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, card.pci_domain);
  set(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, model.memory_clock_mhz * 1000);
  set(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, model.memory_bus_bits);
  set(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, model.l2_cache);
  set(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, model.threads_per_multiprocessor);
  set(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3);
  set(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048);
  set(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 1 << 28);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000);
  set(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120);
  set(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, model.major);
  set(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, model.minor);
  set(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1);
  set(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1);
  set(CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1);
  set(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, model.shared_per_multiprocessor);
  set(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536);
  set(CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, model.single_to_double_ratio);
  set(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1);
  set(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, model.shared_per_block_optin);
  set(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, model.blocks_per_multiprocessor);
  set(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, model.major >= 8 ? 1024 : 0);
  set(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1);
  set(CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1);
  set(CU_DEVICE_ATTRIBUTE_NUMA_ID, -1);
  set(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
  set(CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID, model.pci_device);
  set(CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID, model.pci_device);
  return facts;
}

}  // namespace tf::simgpu
