#include "tfctl/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tf::tfctl {
namespace {

cuda::MonitorReport Two() {
  cuda::MonitorReport report;
  report.driver_version = "580.65.06";
  report.cuda_version = 12080;
  report.devices.resize(2);
  report.reports.resize(2);
  report.devices[0].name = "NVIDIA \"A100\"";
  report.devices[0].uuid = "GPU-aa";
  report.devices[1].name = "Tesla T4";
  report.devices[1].uuid = "GPU-bb";
  report.reports[0].memory_total = 80ull << 30;
  report.reports[0].memory_used = (3ull << 20) + 17;
  report.reports[0].busy_percent = 100;
  report.reports[0].temperature = 41;
  report.reports[0].power = 60000;
  report.reports[0].processes = {{.pid = 7, .memory = 5, .busy_percent = 0xffffffff}};
  report.reports[1].busy_percent = report.reports[1].temperature = report.reports[1].power = 0xffffffff;
  return report;
}

TEST(Gpus, Table) {
  EXPECT_EQ(GpuTable(Two(), true),
            "GPU  NAME           MEMORY         BUSY  TEMP  UUID\n"
            "0    NVIDIA \"A100\"  3 / 81920 MiB  100%  41 C  GPU-aa\n"
            "1    Tesla T4       0 / 0 MiB      N/A   N/A   GPU-bb\n"
            "2 GPUs, simulated driver 580.65.06, CUDA 12.8\n");
  EXPECT_EQ(GpuTable({.driver_version = "1", .cuda_version = 0, .devices = {}, .reports = {}}, false),
            "No GPUs (driver 1).\n");
}

TEST(Gpus, Json) {
  EXPECT_EQ(GpuJson(Two(), false), R"({
  "source": "driver",
  "driver_version": "580.65.06",
  "cuda_version": "12.8",
  "gpus": [
    {"index": 0, "name": "NVIDIA \"A100\"", "uuid": "GPU-aa", "memory_total": 85899345920, "memory_used": 3145745, "utilization": 100, "temperature": 41, "power": 60000, "processes": [{"pid": 7, "memory": 5, "utilization": null}]},
    {"index": 1, "name": "Tesla T4", "uuid": "GPU-bb", "memory_total": 0, "memory_used": 0, "utilization": null, "temperature": null, "power": null, "processes": []}
  ]
}
)");
  EXPECT_THAT(GpuJson({}, true), ::testing::HasSubstr("\"gpus\": []\n}\n"));
}

}  // namespace
}  // namespace tf::tfctl
