#include "gpu/quota.h"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tf::gpu {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Digits only: no sign, no blanks, no leading zeros, no overflow.
std::optional<uint64_t> ParseWhole(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string Quoted(std::string_view text) { return absl::StrCat("\"", std::string(text), "\""); }

absl::StatusOr<uint64_t> ParseMemoryLimit(const char* name, const std::string& text) {
  const std::optional<uint64_t> mib = ParseWhole(text);
  if (!mib || *mib == 0 || *mib > std::numeric_limits<uint64_t>::max() / kMiB) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected a whole number of MiB of at least 1, such as 4096; found ", Quoted(text),
                     ". Correct it or unset it for no limit"));
  }
  return *mib * kMiB;
}

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

absl::StatusOr<Quota> ParseQuota(const QuotaVariables& variables) {
  Quota quota;
  if (variables.cuda_memory_limit) {
    const absl::StatusOr<uint64_t> limit = ParseMemoryLimit("TF_CUDA_MEMORY_LIMIT", *variables.cuda_memory_limit);
    if (!limit.ok()) return limit.status();
    quota.memory_bytes = *limit;
  }
  if (variables.gpu_memory_limit) {
    const absl::StatusOr<uint64_t> limit = ParseMemoryLimit("TF_GPU_MEMORY_LIMIT", *variables.gpu_memory_limit);
    if (!limit.ok()) return limit.status();
    if (quota.memory_bytes && *quota.memory_bytes != *limit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "TF_GPU_MEMORY_LIMIT is ", *variables.gpu_memory_limit, " and TF_CUDA_MEMORY_LIMIT, its older name, is ",
          *variables.cuda_memory_limit, ": expected one of them, or the same value"));
    }
    quota.memory_bytes = *limit;
  }
  if (variables.cuda_sm_percent_limit) {
    const std::string& text = *variables.cuda_sm_percent_limit;
    const std::optional<uint64_t> percent = ParseWhole(text);
    if (!percent || *percent < 1 || *percent > 100) {
      return absl::InvalidArgumentError(
          absl::StrCat("TF_CUDA_SM_PERCENT_LIMIT: expected a whole number of percent from 1 to 100; found ",
                       Quoted(text), ". Correct it or unset it for no limit"));
    }
    quota.compute_percent = static_cast<uint32_t>(*percent);
  }
  return quota;
}

absl::StatusOr<Quota> QuotaFromEnvironment() {
  return ParseQuota({.gpu_memory_limit = Variable("TF_GPU_MEMORY_LIMIT"),
                     .cuda_memory_limit = Variable("TF_CUDA_MEMORY_LIMIT"),
                     .cuda_sm_percent_limit = Variable("TF_CUDA_SM_PERCENT_LIMIT")});
}

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  static constexpr struct {
    std::string_view suffix;
    uint64_t factor;
  } kUnits[] = {{"Ki", 1ull << 10}, {"Mi", 1ull << 20}, {"Gi", 1ull << 30}, {"Ti", 1ull << 40},
                {"k", 1000},        {"M", 1000000},     {"G", 1000000000},  {"T", 1000000000000}};
  std::string_view digits = text;
  uint64_t factor = 1;
  for (const auto& unit : kUnits) {
    if (text.ends_with(unit.suffix)) {
      digits = text.substr(0, text.size() - unit.suffix.size());
      factor = unit.factor;
      break;
    }
  }
  const std::optional<uint64_t> number = ParseWhole(digits);
  if (!number || *number == 0 || *number > std::numeric_limits<uint64_t>::max() / factor) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a size such as 2Gi, 512Mi or 1500M (whole numbers, at least 1); found ", Quoted(text)));
  }
  return *number * factor;
}

absl::StatusOr<uint32_t> ParsePercent(std::string_view text) {
  const std::optional<uint64_t> number = ParseWhole(text.ends_with('%') ? text.substr(0, text.size() - 1) : text);
  if (!number || *number < 1 || *number > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a share from 1% to 100%, such as 25%; found ", Quoted(text)));
  }
  return static_cast<uint32_t>(*number);
}

}  // namespace tf::gpu
