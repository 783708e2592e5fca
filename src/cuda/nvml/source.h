// Where NVML's answers come from: the cards of this machine, simulated ones, or those behind a worker.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/backend.h"

namespace tf::cuda::nvml {

// A value of DeviceReport that the card does not report.
inline constexpr uint32_t kNotReported = 0xffffffff;

// A report in which every value is kNotReported and the amounts are 0: a source fills in what it knows.
DeviceReport EmptyReport();

// The share of a card that a process used until `time` (microseconds since 1970), in percent.
struct ProcessSample {
  uint32_t pid = 0;
  uint64_t time = 0;
  uint32_t busy_percent = 0;
};

// The front calls a source from one thread at a time.
class NvmlSource {
 public:
  virtual ~NvmlSource() = default;

  // The cards in order of their PCI ids, the same ones each time; devices and reports have the same length.
  virtual absl::StatusOr<MonitorReport> Read() = 0;

  // One sample for each process that used the card after `since`, newest state. Sources that keep a history answer for
  // exactly the time since then; this default answers with what Read() reports.
  virtual absl::StatusOr<std::vector<ProcessSample>> ProcessSamples(size_t device, uint64_t since);
};

// Defined by the library that the front becomes part of; called at the first nvmlInit and after every last nvmlShutdown
// again.
absl::StatusOr<std::unique_ptr<NvmlSource>> MakeSource();

}  // namespace tf::cuda::nvml
