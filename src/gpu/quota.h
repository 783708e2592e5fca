// How much of a card a worker's sessions may use together. Memory in bytes, compute in percent 1..100 of the card's
// time.
//
// Strict: what is not exactly a limit is an INVALID_ARGUMENT error whose message says what was expected and what was
// found, and the program does not start. A limit that is absent means the whole card. Pure functions except
// QuotaFromEnvironment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tf::gpu {

struct Quota {
  std::optional<uint64_t> memory_bytes;
  std::optional<uint32_t> compute_percent;
};

// The variables of a worker as text, nullopt when unset.
struct QuotaVariables {
  std::optional<std::string> gpu_memory_limit = std::nullopt;       // TF_GPU_MEMORY_LIMIT, MiB
  std::optional<std::string> cuda_memory_limit = std::nullopt;      // TF_CUDA_MEMORY_LIMIT, MiB: the older name
  std::optional<std::string> cuda_sm_percent_limit = std::nullopt;  // TF_CUDA_SM_PERCENT_LIMIT, 1..100
};
absl::StatusOr<Quota> ParseQuota(const QuotaVariables& variables);
absl::StatusOr<Quota> QuotaFromEnvironment();

// A command line's size in bytes: a whole number and optionally Ki, Mi, Gi, Ti (powers of 1024) or k, M, G, T (powers
// of 1000).
absl::StatusOr<uint64_t> ParseSize(std::string_view text);
// A command line's share: 1..100, with or without a percent sign.
absl::StatusOr<uint32_t> ParsePercent(std::string_view text);

}  // namespace tf::gpu
