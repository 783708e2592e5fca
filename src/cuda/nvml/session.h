// Between the first nvmlInit and the last nvmlShutdown: the source, and which cards it has.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/backend.h"
#include "cuda/nvml/source.h"
#include "cuda/nvml_types.h"

namespace tf::cuda::nvml {

// One card, as one reading found it.
struct Card {
  size_t index = 0;
  DeviceFacts facts;
  DeviceReport report;
};

class Session {
 public:
  Session(std::unique_ptr<NvmlSource> source, MonitorReport identity)
      : source_(std::move(source)), identity_(std::move(identity)) {}

  // Who the cards are does not change: from the first reading.
  const MonitorReport& identity() const { return identity_; }

  // A fresh reading.
  nvmlReturn_t Read(size_t index, Card* card);
  nvmlReturn_t Samples(size_t index, uint64_t since, std::vector<ProcessSample>* samples);

 private:
  // std::mutex, not absl::Mutex: ThreadSanitizer sees only the former in the packaged libraries.
  std::mutex mutex_;  // of source_
  const std::unique_ptr<NvmlSource> source_;
  const MonitorReport identity_;
};

// Null when NVML is not initialized. Shared, so that a shutdown on another thread does not pull it away from a running
// call.
std::shared_ptr<Session> CurrentSession();

// Counted: the first StartSession opens the source, the matching EndSession closes it.
nvmlReturn_t StartSession();
nvmlReturn_t EndSession();

// Handles are numbers in disguise and stay valid over shutdown and init.
nvmlDevice_t HandleOf(size_t index);
std::optional<size_t> IndexOf(nvmlDevice_t device);

}  // namespace tf::cuda::nvml
