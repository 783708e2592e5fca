#include "cuda/nvml/source.h"

namespace tf::cuda::nvml {

absl::StatusOr<std::vector<ProcessSample>> NvmlSource::ProcessSamples(size_t device, uint64_t since) {
  absl::StatusOr<MonitorReport> report = Read();
  if (!report.ok()) return report.status();
  std::vector<ProcessSample> samples;
  if (device >= report->reports.size()) return samples;
  const DeviceReport& card = report->reports[device];
  if (card.time <= since) return samples;
  for (const ProcessFacts& process : card.processes) {
    if (process.busy_percent == kNotReported) continue;
    samples.push_back({.pid = process.pid, .time = card.time, .busy_percent = process.busy_percent});
  }
  return samples;
}

DeviceReport EmptyReport() {
  DeviceReport report;
  report.busy_percent = report.memory_busy_percent = report.power = report.power_limit = report.temperature =
      report.clock_sm = report.clock_memory = report.fan_percent = report.power_default = report.power_min =
          report.power_max = report.temperature_slowdown = report.temperature_shutdown = report.performance_state =
              report.persistence = report.pcie_generation = report.pcie_width = report.pci_device_id =
                  report.pci_subsystem_id = kNotReported;
  return report;
}

}  // namespace tf::cuda::nvml
