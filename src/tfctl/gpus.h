// Lists of the cards that NVML reports, for people and for programs. Pure.
#pragma once

#include <string>

#include "cuda/backend.h"

namespace tf::tfctl {

// One line per card under a heading; "N/A" for what a card does not report. No cards: one line that says so.
std::string GpuTable(const cuda::MonitorReport& report, bool simulated);

// {"source": "driver"|"simulated", "driver_version": ..., "cuda_version": "13.0", "gpus": [...]}: memory in bytes,
// utilization in percent, temperature in degrees Celsius, power in milliwatts; null for what a card does not report.
std::string GpuJson(const cuda::MonitorReport& report, bool simulated);

}  // namespace tf::tfctl
