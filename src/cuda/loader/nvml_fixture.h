// The cards of the NVML that the tests load.
#pragma once

#include "cuda/backend.h"

namespace tf::cuda {

inline MonitorReport FixtureReport() {
  constexpr uint32_t kNotReported = 0xffffffff;
  MonitorReport report;
  report.driver_version = "575.10";
  report.cuda_version = 12080;
  for (uint32_t i = 0; i < 2; ++i) {
    DeviceFacts facts;
    facts.name = i == 0 ? "NVIDIA A100-SXM4-80GB" : "Tesla T4";
    facts.uuid = i == 0 ? "GPU-aa000000-0000-0000-0000-000000000000" : "GPU-bb000000-0000-0000-0000-000000000000";
    facts.pci_domain = 1;
    facts.pci_bus = 0x3b + i;
    facts.pci_device = 4;
    facts.total_memory = 16000;
    facts.attributes.assign(160, -1);
    facts.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 8;
    facts.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0;
    facts.attributes[CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1410000;
    facts.attributes[CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 1593000;
    facts.attributes[CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 5120;
    facts.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_MODE] = 0;
    facts.attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID] = 1;
    facts.attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] = static_cast<int32_t>(facts.pci_bus);
    facts.attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID] = 4;
    report.devices.push_back(facts);
    report.reports.push_back({.memory_total = 16000,
                              .memory_used = 4000,
                              .busy_percent = 61,
                              .memory_busy_percent = 12,
                              .power = 123000,
                              .power_limit = 400000,
                              .temperature = 41,
                              .clock_sm = 1200,
                              .clock_memory = 1593,
                              .fan_percent = i == 0 ? kNotReported : 30,
                              .processes = {},
                              .time = 5000,
                              .power_default = 390000,
                              .power_min = 100000,
                              .power_max = 410000,
                              .temperature_slowdown = 89,
                              .temperature_shutdown = 92,
                              .performance_state = 2,
                              .persistence = 1,
                              .pcie_generation = 4,
                              .pcie_width = 16,
                              .pci_device_id = 0x20b210de,
                              .pci_subsystem_id = 0x146310de});
  }
  report.reports[0].processes = {{.pid = 11, .memory = 100, .busy_percent = 40},
                                 {.pid = 12, .memory = 300, .busy_percent = 21}};
  return report;
}

}  // namespace tf::cuda
