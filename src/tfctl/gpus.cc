#include "tfctl/gpus.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace tf::tfctl {
namespace {

constexpr uint32_t kNotReported = 0xffffffff;

std::string OrNotAvailable(uint32_t value, absl::string_view unit) {
  return value == kNotReported ? "N/A" : absl::StrCat(value, unit);
}

std::string OrNull(uint32_t value) { return value == kNotReported ? "null" : absl::StrCat(value); }

std::string CudaVersion(int32_t version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

std::string GpuTable(const cuda::MonitorReport& report, bool simulated) {
  const char* source = simulated ? "simulated driver" : "driver";
  if (report.devices.empty()) return absl::StrCat("No GPUs (", source, " ", report.driver_version, ").\n");
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows = {{"GPU", "NAME", "MEMORY", "BUSY", "TEMP", "UUID"}};
  for (size_t i = 0; i < report.devices.size(); ++i) {
    const cuda::DeviceReport& card = report.reports[i];
    rows.push_back({absl::StrCat(i), report.devices[i].name,
                    absl::StrCat(card.memory_used >> 20, " / ", card.memory_total >> 20, " MiB"),
                    OrNotAvailable(card.busy_percent, "%"), OrNotAvailable(card.temperature, " C"),
                    report.devices[i].uuid});
  }
  std::array<size_t, 6> widths{};
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t c = 0; c + 1 < row.size(); ++c) text += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    text += row.back() + "\n";
  }
  absl::StrAppend(&text, report.devices.size(), report.devices.size() == 1 ? " GPU" : " GPUs", ", ", source, " ",
                  report.driver_version, ", CUDA ", CudaVersion(report.cuda_version), "\n");
  return text;
}

std::string GpuJson(const cuda::MonitorReport& report, bool simulated) {
  std::string text =
      absl::StrCat("{\n  \"source\": ", Quoted(simulated ? "simulated" : "driver"),
                   ",\n  \"driver_version\": ", Quoted(report.driver_version),
                   ",\n  \"cuda_version\": ", Quoted(CudaVersion(report.cuda_version)), ",\n  \"gpus\": [");
  for (size_t i = 0; i < report.devices.size(); ++i) {
    const cuda::DeviceFacts& facts = report.devices[i];
    const cuda::DeviceReport& card = report.reports[i];
    absl::StrAppend(&text, i == 0 ? "\n" : ",\n", "    {\"index\": ", i, ", \"name\": ", Quoted(facts.name),
                    ", \"uuid\": ", Quoted(facts.uuid), ", \"memory_total\": ", card.memory_total,
                    ", \"memory_used\": ", card.memory_used, ", \"utilization\": ", OrNull(card.busy_percent),
                    ", \"temperature\": ", OrNull(card.temperature), ", \"power\": ", OrNull(card.power),
                    ", \"processes\": [");
    for (size_t p = 0; p < card.processes.size(); ++p) {
      absl::StrAppend(&text, p == 0 ? "" : ", ", "{\"pid\": ", card.processes[p].pid,
                      ", \"memory\": ", card.processes[p].memory,
                      ", \"utilization\": ", OrNull(card.processes[p].busy_percent), "}");
    }
    text += "]}";
  }
  return text + (report.devices.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

}  // namespace tf::tfctl
