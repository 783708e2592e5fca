#include "cuda/loader/monitor.h"

#include <sys/time.h>

#include <algorithm>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tf::cuda {
namespace {

constexpr uint32_t kNotReported = 0xffffffff;
constexpr size_t kAttributes = 160;  // all that CUdevice_attribute numbers

uint64_t Now() {
  timeval now;
  gettimeofday(&now, nullptr);
  return static_cast<uint64_t>(now.tv_sec) * 1000000 + static_cast<uint64_t>(now.tv_usec);
}

absl::Status ToStatus(const NvmlFunctions& nvml, nvmlReturn_t result, const char* call) {
  if (result == NVML_SUCCESS) return absl::OkStatus();
  const char* words = nvml.nvmlErrorString == nullptr ? "" : nvml.nvmlErrorString(result);
  return absl::UnavailableError(absl::StrCat(call, ": ", words, " (NVML error ", static_cast<int>(result), ")"));
}

// One number of a card, or kNotReported when the library or the card does not know it.
template <class Value>
uint32_t Ask(nvmlReturn_t (*function)(nvmlDevice_t, Value*), nvmlDevice_t device) {
  Value value{};
  if (function == nullptr || function(device, &value) != NVML_SUCCESS) return kNotReported;
  return static_cast<uint32_t>(value);
}

template <class Which, class Value>
uint32_t Ask(nvmlReturn_t (*function)(nvmlDevice_t, Which, Value*), nvmlDevice_t device, Which which) {
  Value value{};
  if (function == nullptr || function(device, which, &value) != NVML_SUCCESS) return kNotReported;
  return static_cast<uint32_t>(value);
}

void SetAttribute(DeviceFacts& facts, CUdevice_attribute attribute, uint32_t value, uint32_t factor = 1) {
  if (value != kNotReported) facts.attributes[static_cast<size_t>(attribute)] = static_cast<int32_t>(value * factor);
}

template <class Call>
std::string Text(Call&& call) {
  char buffer[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = {};
  return call(buffer, static_cast<unsigned int>(sizeof(buffer))) == NVML_SUCCESS ? buffer : "";
}

std::vector<nvmlProcessUtilizationSample_t> Samples(const NvmlFunctions& nvml, nvmlDevice_t device, uint64_t since) {
  std::vector<nvmlProcessUtilizationSample_t> samples;
  if (nvml.nvmlDeviceGetProcessUtilization == nullptr) return samples;
  unsigned int count = 0;
  nvmlReturn_t result = nvml.nvmlDeviceGetProcessUtilization(device, nullptr, &count, since);
  // Processes come and go between the two calls: ask again a few times.
  for (int tries = 0; result == NVML_ERROR_INSUFFICIENT_SIZE && tries < 4; ++tries) {
    count += 8;
    samples.resize(count);
    result = nvml.nvmlDeviceGetProcessUtilization(device, samples.data(), &count, since);
  }
  samples.resize(result == NVML_SUCCESS ? count : 0);
  return samples;
}

template <class Info>
bool ReadProcesses(nvmlReturn_t (*function)(nvmlDevice_t, unsigned int*, Info*), nvmlDevice_t device,
                   std::vector<ProcessFacts>* processes) {
  if (function == nullptr) return false;
  std::vector<Info> infos;
  unsigned int count = 0;
  nvmlReturn_t result = function(device, &count, nullptr);
  for (int tries = 0; result == NVML_ERROR_INSUFFICIENT_SIZE && tries < 4; ++tries) {
    count += 8;
    infos.resize(count);
    result = function(device, &count, infos.data());
  }
  if (result != NVML_SUCCESS) return false;
  for (unsigned int i = 0; i < count && i < infos.size(); ++i) {
    processes->push_back({.pid = infos[i].pid, .memory = infos[i].usedGpuMemory, .busy_percent = kNotReported});
  }
  return true;
}

DeviceFacts ReadFacts(const NvmlFunctions& nvml, nvmlDevice_t device, DeviceReport* report) {
  DeviceFacts facts;
  facts.attributes.assign(kAttributes, -1);
  facts.name = Text([&](char* b, unsigned int n) { return nvml.nvmlDeviceGetName(device, b, n); });
  facts.uuid = Text([&](char* b, unsigned int n) { return nvml.nvmlDeviceGetUUID(device, b, n); });
  nvmlPciInfo_t pci = {};
  if (nvml.nvmlDeviceGetPciInfo_v3 != nullptr && nvml.nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS) {
    facts.pci_domain = pci.domain;
    facts.pci_bus = pci.bus;
    facts.pci_device = pci.device;
    report->pci_device_id = pci.pciDeviceId;
    report->pci_subsystem_id = pci.pciSubSystemId;
    SetAttribute(facts, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, pci.domain);
    SetAttribute(facts, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, pci.bus);
    SetAttribute(facts, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, pci.device);
  }
  int major = 0, minor = 0;
  if (nvml.nvmlDeviceGetCudaComputeCapability != nullptr &&
      nvml.nvmlDeviceGetCudaComputeCapability(device, &major, &minor) == NVML_SUCCESS) {
    SetAttribute(facts, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, static_cast<uint32_t>(major));
    SetAttribute(facts, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, static_cast<uint32_t>(minor));
  }
  SetAttribute(facts, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, Ask(nvml.nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_SM), 1000);
  SetAttribute(facts, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
               Ask(nvml.nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_MEM), 1000);
  SetAttribute(facts, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, Ask(nvml.nvmlDeviceGetMemoryBusWidth, device));
  SetAttribute(facts, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, Ask(nvml.nvmlDeviceGetComputeMode, device));
  return facts;
}

void ReadState(const NvmlFunctions& nvml, nvmlDevice_t device, DeviceReport* report) {
  report->time = Now();
  nvmlMemory_t memory = {};
  if (nvml.nvmlDeviceGetMemoryInfo != nullptr && nvml.nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS) {
    report->memory_total = memory.total;
    report->memory_used = memory.used;
  }
  nvmlUtilization_t utilization = {};
  const bool used = nvml.nvmlDeviceGetUtilizationRates != nullptr &&
                    nvml.nvmlDeviceGetUtilizationRates(device, &utilization) == NVML_SUCCESS;
  report->busy_percent = used ? utilization.gpu : kNotReported;
  report->memory_busy_percent = used ? utilization.memory : kNotReported;
  report->power = Ask(nvml.nvmlDeviceGetPowerUsage, device);
  report->power_limit = Ask(nvml.nvmlDeviceGetEnforcedPowerLimit, device);
  report->power_default = Ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit, device);
  unsigned int least = 0, most = 0;
  const bool bounded = nvml.nvmlDeviceGetPowerManagementLimitConstraints != nullptr &&
                       nvml.nvmlDeviceGetPowerManagementLimitConstraints(device, &least, &most) == NVML_SUCCESS;
  report->power_min = bounded ? least : kNotReported;
  report->power_max = bounded ? most : kNotReported;
  report->temperature = Ask(nvml.nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU);
  report->temperature_slowdown =
      Ask(nvml.nvmlDeviceGetTemperatureThreshold, device, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN);
  report->temperature_shutdown =
      Ask(nvml.nvmlDeviceGetTemperatureThreshold, device, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN);
  report->clock_sm = Ask(nvml.nvmlDeviceGetClockInfo, device, NVML_CLOCK_SM);
  report->clock_memory = Ask(nvml.nvmlDeviceGetClockInfo, device, NVML_CLOCK_MEM);
  report->fan_percent = Ask(nvml.nvmlDeviceGetFanSpeed, device);
  report->performance_state = Ask(nvml.nvmlDeviceGetPerformanceState, device);
  report->persistence = Ask(nvml.nvmlDeviceGetPersistenceMode, device);
  report->pcie_generation = Ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration, device);
  report->pcie_width = Ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, device);

  if (!ReadProcesses(nvml.nvmlDeviceGetComputeRunningProcesses_v3, device, &report->processes) &&
      !ReadProcesses(nvml.nvmlDeviceGetComputeRunningProcesses_v2, device, &report->processes)) {
    ReadProcesses(nvml.nvmlDeviceGetComputeRunningProcesses, device, &report->processes);
  }
  if (report->processes.empty()) return;
  constexpr uint64_t kWindow = 1000000;  // the last second
  for (const nvmlProcessUtilizationSample_t& sample : Samples(nvml, device, report->time - kWindow)) {
    for (ProcessFacts& process : report->processes) {
      if (process.pid == sample.pid) process.busy_percent = sample.smUtil;
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvmlSession>> NvmlSession::Start(const NvmlFunctions& nvml) {
  if (nvml.nvmlInit_v2 == nullptr || nvml.nvmlShutdown == nullptr || nvml.nvmlDeviceGetCount_v2 == nullptr ||
      nvml.nvmlDeviceGetHandleByIndex_v2 == nullptr || nvml.nvmlDeviceGetUUID == nullptr ||
      nvml.nvmlDeviceGetName == nullptr || nvml.nvmlDeviceGetHandleByUUID == nullptr) {
    return absl::FailedPreconditionError(
        "this NVML is too old: expected nvmlInit_v2, nvmlDeviceGetCount_v2 and their like");
  }
  if (absl::Status status = ToStatus(nvml, nvml.nvmlInit_v2(), "nvmlInit"); !status.ok()) return status;
  return std::unique_ptr<NvmlSession>(new NvmlSession(nvml));
}

NvmlSession::~NvmlSession() { nvml_.nvmlShutdown(); }

absl::StatusOr<std::vector<std::string>> NvmlSession::Uuids() const {
  unsigned int count = 0;
  if (absl::Status status = ToStatus(nvml_, nvml_.nvmlDeviceGetCount_v2(&count), "nvmlDeviceGetCount"); !status.ok())
    return status;
  std::vector<std::string> uuids;
  for (unsigned int i = 0; i < count; ++i) {
    nvmlDevice_t device = nullptr;
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = {};
    absl::Status status =
        ToStatus(nvml_, nvml_.nvmlDeviceGetHandleByIndex_v2(i, &device), "nvmlDeviceGetHandleByIndex");
    if (status.ok()) status = ToStatus(nvml_, nvml_.nvmlDeviceGetUUID(device, uuid, sizeof(uuid)), "nvmlDeviceGetUUID");
    if (!status.ok()) return status;
    uuids.emplace_back(uuid);
  }
  return uuids;
}

absl::StatusOr<MonitorReport> NvmlSession::Read() const {
  MonitorReport report;
  report.driver_version = nvml_.nvmlSystemGetDriverVersion == nullptr
                              ? ""
                              : Text([&](char* b, unsigned int n) { return nvml_.nvmlSystemGetDriverVersion(b, n); });
  int version = 0;
  if (nvml_.nvmlSystemGetCudaDriverVersion_v2 != nullptr &&
      nvml_.nvmlSystemGetCudaDriverVersion_v2(&version) == NVML_SUCCESS) {
    report.cuda_version = version;
  }
  unsigned int count = 0;
  if (absl::Status status = ToStatus(nvml_, nvml_.nvmlDeviceGetCount_v2(&count), "nvmlDeviceGetCount"); !status.ok())
    return status;
  for (unsigned int i = 0; i < count; ++i) {
    nvmlDevice_t device = nullptr;
    absl::Status status =
        ToStatus(nvml_, nvml_.nvmlDeviceGetHandleByIndex_v2(i, &device), "nvmlDeviceGetHandleByIndex");
    if (!status.ok()) return status;
    DeviceReport state;
    state.pci_device_id = state.pci_subsystem_id = kNotReported;
    report.devices.push_back(ReadFacts(nvml_, device, &state));
    ReadState(nvml_, device, &state);
    report.devices.back().total_memory = state.memory_total;
    report.reports.push_back(std::move(state));
  }
  return report;
}

std::vector<std::string> KeepVisible(const std::vector<std::string>& uuids, const std::string& visible) {
  std::vector<std::string> kept;
  for (absl::string_view entry : absl::StrSplit(visible, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    if (!absl::StartsWith(entry, "GPU-")) return uuids;
    const auto found =
        std::find_if(uuids.begin(), uuids.end(), [&](const std::string& u) { return absl::StartsWith(u, entry); });
    // As the driver does: the list ends at the first entry that names nothing.
    if (found == uuids.end()) break;
    if (std::find(kept.begin(), kept.end(), *found) == kept.end()) kept.push_back(*found);
  }
  return kept;
}

absl::StatusOr<std::vector<std::string>> VisibleGpuUuids(const NvmlFunctions& nvml) {
  absl::StatusOr<std::unique_ptr<NvmlSession>> session = NvmlSession::Start(nvml);
  if (!session.ok()) return session.status();
  absl::StatusOr<std::vector<std::string>> uuids = (*session)->Uuids();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!uuids.ok() || visible == nullptr) return uuids;
  return KeepVisible(*uuids, visible);
}

absl::StatusOr<BusyClock> BusyClock::Make(const NvmlSession& session, const std::string& uuid, pid_t pid) {
  nvmlDevice_t device = nullptr;
  if (session.nvml().nvmlDeviceGetHandleByUUID(uuid.c_str(), &device) != NVML_SUCCESS) {
    return absl::NotFoundError(absl::StrCat("NVML has no card ", uuid));
  }
  return BusyClock(session.nvml(), device, pid, Now());
}

uint64_t BusyClock::Nanoseconds() {
  std::vector<nvmlProcessUtilizationSample_t> samples = Samples(*nvml_, device_, seen_);
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.timeStamp < b.timeStamp; });
  // A driver keeps samples of at most about a second each; after a time without any, the first one does not cover all
  // of it.
  constexpr uint64_t kLongestSample = 1000000;
  uint64_t counted = seen_;
  for (const nvmlProcessUtilizationSample_t& sample : samples) {
    if (sample.timeStamp <= seen_) continue;
    if (sample.pid == static_cast<unsigned int>(pid_)) {
      // Microseconds * percent * 10 are nanoseconds.
      busy_ns_ += std::min<uint64_t>(sample.timeStamp - counted, kLongestSample) * std::min(sample.smUtil, 100u) * 10;
      counted = sample.timeStamp;
    }
  }
  if (!samples.empty()) seen_ = std::max<uint64_t>(seen_, samples.back().timeStamp);
  return busy_ns_;
}

}  // namespace tf::cuda
