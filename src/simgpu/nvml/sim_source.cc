#include "simgpu/nvml/sim_source.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/time/clock.h"

namespace tf::simgpu {
namespace {

using cuda::nvml::kNotReported;

// Enough for several readers that ask in turns.
constexpr size_t kMoments = 64;

uint64_t NowMicroseconds() { return static_cast<uint64_t>(absl::GetCurrentTimeNanos() / 1000); }

cuda::DeviceReport Report(const CardModel& model, const CardUse& use) {
  cuda::DeviceReport report = cuda::nvml::EmptyReport();
  report.time = NowMicroseconds();
  report.memory_total = use.memory_total;
  report.memory_used = use.memory_used;
  report.busy_percent = use.busy_percent;
  report.memory_busy_percent = use.memory_busy_percent;
  report.power = use.power;
  report.power_limit = use.power_limit;
  report.power_default = model.power_limit;
  report.power_min = model.power_limit / 4;
  report.power_max = model.power_limit;
  report.temperature = use.temperature;
  report.temperature_slowdown = 89;
  report.temperature_shutdown = 92;
  report.clock_sm = use.clock_sm;
  report.clock_memory = use.clock_memory;
  // Cards with error correction are for servers, whose fans are not theirs.
  report.fan_percent = model.ecc ? kNotReported : use.fan_percent;
  report.performance_state = use.processes.empty() ? 8 : 0;
  report.persistence = 1;
  report.pcie_generation = model.major >= 9 ? 5 : model.major == 8 ? 4 : 3;
  report.pcie_width = 16;
  report.pci_device_id = model.pci_device;
  report.pci_subsystem_id = model.pci_device;
  for (const ProcessUse& process : use.processes) {
    report.processes.push_back(
        {.pid = static_cast<uint32_t>(process.pid), .memory = process.memory, .busy_percent = process.busy_percent});
  }
  return report;
}

}  // namespace

SimSource::SimSource(std::shared_ptr<CardState> state) : state_(std::move(state)) {
  const std::vector<Card>& cards = state_->list().cards;
  order_.resize(cards.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
    const auto address = [](const Card& card) { return std::tuple(card.pci_domain, card.pci_bus, card.pci_device); };
    return address(cards[a]) < address(cards[b]);
  });
  history_.resize(cards.size());
}

absl::StatusOr<cuda::MonitorReport> SimSource::Read() {
  cuda::MonitorReport report;
  report.driver_version = kDriverRelease;
  report.cuda_version = kDriverVersion;
  for (const int index : order_) {
    const Card& card = state_->list().cards[index];
    report.devices.push_back(DescribeCard(card));
    report.reports.push_back(Report(*card.model, state_->Read(index)));
  }
  return report;
}

absl::StatusOr<std::vector<cuda::nvml::ProcessSample>> SimSource::ProcessSamples(size_t device, uint64_t since) {
  std::vector<cuda::nvml::ProcessSample> samples;
  const CardUse use = state_->Read(order_.at(device));
  const uint64_t now = NowMicroseconds();
  if (now <= since) return samples;

  std::deque<Moment>& history = history_[device];
  const auto start =
      std::find_if(history.rbegin(), history.rend(), [&](const Moment& moment) { return moment.time == since; });
  Moment moment{.time = now, .busy_ns = {}};
  for (const ProcessUse& process : use.processes) {
    moment.busy_ns[process.pid] = process.busy_ns;
    uint32_t percent = process.busy_percent;
    if (start != history.rend()) {
      const auto before = start->busy_ns.find(process.pid);
      // Less than before: another process with the same number.
      const uint64_t base = before != start->busy_ns.end() && before->second <= process.busy_ns ? before->second : 0;
      const uint64_t window_ns = (now - since) * 1000;
      percent =
          static_cast<uint32_t>(std::min<uint64_t>(100, ((process.busy_ns - base) * 100 + window_ns / 2) / window_ns));
    }
    samples.push_back({.pid = static_cast<uint32_t>(process.pid), .time = now, .busy_percent = percent});
  }
  history.push_back(std::move(moment));
  if (history.size() > kMoments) history.pop_front();
  return samples;
}

}  // namespace tf::simgpu
