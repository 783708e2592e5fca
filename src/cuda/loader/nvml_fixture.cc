#include "cuda/loader/nvml_fixture.h"

#include "cuda/nvml/exports.h"
#include "cuda/nvml/source.h"

namespace tf::cuda::nvml {
namespace {

class FixtureSource : public NvmlSource {
 public:
  absl::StatusOr<MonitorReport> Read() override { return FixtureReport(); }

  absl::StatusOr<std::vector<ProcessSample>> ProcessSamples(size_t device, uint64_t since) override {
    std::vector<ProcessSample> samples;
    const MonitorReport report = FixtureReport();
    for (const ProcessFacts& process : report.reports[device].processes) {
      samples.push_back({.pid = process.pid, .time = since + 1, .busy_percent = process.busy_percent});
    }
    return samples;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<NvmlSource>> MakeSource() { return std::make_unique<FixtureSource>(); }

}  // namespace tf::cuda::nvml
