// What NVML says about the cards of this machine, in our own terms. NVML has to be initialized (NvmlSession does it);
// none of this creates a context on a card.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/backend.h"
#include "cuda/nvml_functions.h"

namespace tf::cuda {

// NVML initialized for as long as this lives. `nvml` is copied.
class NvmlSession {
 public:
  static absl::StatusOr<std::unique_ptr<NvmlSession>> Start(const NvmlFunctions& nvml);
  ~NvmlSession();
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;

  // UUIDs of all cards, in NVML's order.
  absl::StatusOr<std::vector<std::string>> Uuids() const;

  // Identity and state of all cards. Of a card's attributes NVML knows compute capability, clocks, bus width, compute
  // mode and PCI address; the others are -1. What a card does not report is 4294967295.
  absl::StatusOr<MonitorReport> Read() const;

  const NvmlFunctions& nvml() const { return nvml_; }

 private:
  explicit NvmlSession(const NvmlFunctions& nvml) : nvml_(nvml) {}

  const NvmlFunctions nvml_;
};

// The UUIDs of the cards that a program of this process can open: those of NVML (which is started and stopped for it)
// that CUDA_VISIBLE_DEVICES leaves, as far as it names them by UUID (or its beginning). Where it names them by number,
// which depends on the driver's order, all remain.
absl::StatusOr<std::vector<std::string>> VisibleGpuUuids(const NvmlFunctions& nvml);

// The same without the environment: `visible` is the value of CUDA_VISIBLE_DEVICES.
std::vector<std::string> KeepVisible(const std::vector<std::string>& uuids, const std::string& visible);

// How long a card has executed for one process. Each call adds what NVML counted since the last one. Not thread-safe.
class BusyClock {
 public:
  // `session` outlives the clock. NOT_FOUND when there is no card of this UUID.
  static absl::StatusOr<BusyClock> Make(const NvmlSession& session, const std::string& uuid, pid_t pid);

  // Nanoseconds since the clock was made. Stands still while NVML has no new sample.
  uint64_t Nanoseconds();

 private:
  BusyClock(const NvmlFunctions& nvml, nvmlDevice_t device, pid_t pid, uint64_t now)
      : nvml_(&nvml), device_(device), pid_(pid), seen_(now) {}

  const NvmlFunctions* nvml_;
  nvmlDevice_t device_;
  pid_t pid_;
  uint64_t seen_;  // microseconds since 1970
  uint64_t busy_ns_ = 0;
};

}  // namespace tf::cuda
