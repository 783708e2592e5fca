#include "cuda/nvml/session.h"

#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdio>

#include "cuda/nvml/front.h"

namespace tf::cuda::nvml {
namespace {

constexpr uintptr_t kHandleBase = 0x4e564d4c0000;
constexpr uintptr_t kHandleStep = 0x100;
constexpr size_t kMaxDevices = 256;

struct State {
  std::mutex mutex;
  int starts = 0;
  std::shared_ptr<Session> session;
};

// The C interface has no object to hang this on. Never destroyed: programs call NVML while they exit.
State& Global() {
  static State* state = new State;
  return *state;
}

nvmlReturn_t ToReturn(const absl::Status& status) {
  if (status.ok()) return NVML_SUCCESS;
  spdlog::debug("NVML: {}", std::string(status.message()));
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return NVML_ERROR_GPU_IS_LOST;
    case absl::StatusCode::kPermissionDenied:
      return NVML_ERROR_NO_PERMISSION;
    case absl::StatusCode::kUnimplemented:
      return NVML_ERROR_NOT_SUPPORTED;
    default:
      return NVML_ERROR_UNKNOWN;
  }
}

}  // namespace

nvmlReturn_t Session::Read(size_t index, Card* card) {
  std::lock_guard lock(mutex_);
  absl::StatusOr<MonitorReport> report = source_->Read();
  if (!report.ok()) return ToReturn(report.status());
  if (index >= report->devices.size() || index >= report->reports.size()) return NVML_ERROR_GPU_IS_LOST;
  card->index = index;
  card->facts = std::move(report->devices[index]);
  card->report = std::move(report->reports[index]);
  return NVML_SUCCESS;
}

nvmlReturn_t Session::Samples(size_t index, uint64_t since, std::vector<ProcessSample>* samples) {
  std::lock_guard lock(mutex_);
  absl::StatusOr<std::vector<ProcessSample>> read = source_->ProcessSamples(index, since);
  if (!read.ok()) return ToReturn(read.status());
  *samples = *std::move(read);
  return NVML_SUCCESS;
}

std::shared_ptr<Session> CurrentSession() {
  State& state = Global();
  std::lock_guard lock(state.mutex);
  return state.session;
}

nvmlReturn_t StartSession() {
  State& state = Global();
  std::lock_guard lock(state.mutex);
  if (state.starts > 0) {
    ++state.starts;
    return NVML_SUCCESS;
  }
  absl::StatusOr<std::unique_ptr<NvmlSource>> source = MakeSource();
  absl::StatusOr<MonitorReport> identity = source.ok() ? (*source)->Read() : source.status();
  if (!identity.ok()) {
    // Standard error, and only here: whoever sees "driver not loaded" has no other way to learn the reason.
    std::fprintf(stderr, "tensor-fusion: NVML has no cards: %s\n", std::string(identity.status().message()).c_str());
    return identity.status().code() == absl::StatusCode::kPermissionDenied ? NVML_ERROR_NO_PERMISSION
                                                                           : NVML_ERROR_DRIVER_NOT_LOADED;
  }
  if (identity->devices.size() != identity->reports.size() || identity->devices.size() > kMaxDevices) {
    std::fprintf(stderr, "tensor-fusion: NVML: %zu cards with %zu reports; expected as many, at most %zu\n",
                 identity->devices.size(), identity->reports.size(), kMaxDevices);
    return NVML_ERROR_UNKNOWN;
  }
  state.session = std::make_shared<Session>(*std::move(source), *std::move(identity));
  state.starts = 1;
  return NVML_SUCCESS;
}

nvmlReturn_t EndSession() {
  State& state = Global();
  std::shared_ptr<Session> last;  // closed after the lock is free
  std::lock_guard lock(state.mutex);
  if (state.starts == 0) return NVML_ERROR_UNINITIALIZED;
  if (--state.starts == 0) last = std::move(state.session);
  return NVML_SUCCESS;
}

nvmlDevice_t HandleOf(size_t index) { return reinterpret_cast<nvmlDevice_t>(kHandleBase + (index + 1) * kHandleStep); }

std::optional<size_t> IndexOf(nvmlDevice_t device) {
  const uintptr_t value = reinterpret_cast<uintptr_t>(device);
  if (value <= kHandleBase || (value - kHandleBase) % kHandleStep != 0) return std::nullopt;
  const size_t index = (value - kHandleBase) / kHandleStep - 1;
  return index < kMaxDevices ? std::optional(index) : std::nullopt;
}

bool Initialized() { return CurrentSession() != nullptr; }

nvmlReturn_t NotSupported(const char* symbol) {
  if (!Initialized()) return NVML_ERROR_UNINITIALIZED;
  // Monitoring programs ask for everything and ask again: not a warning.
  spdlog::debug("{} is not supported", symbol);
  return NVML_ERROR_NOT_SUPPORTED;
}

}  // namespace tf::cuda::nvml
