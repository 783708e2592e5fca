// What each function of NVML does. Argument checks here are those that the generated exports do not make (see
// nvml.table).
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "cuda/driver_types.h"
#include "cuda/nvml/session.h"
#include "cuda/nvml_api.h"

namespace tf::cuda::nvml::api {
namespace {

// The instance ids of a card that is not partitioned.
constexpr unsigned int kNoInstance = 0xffffffff;

// Who a handle names. Not null: the exports answered NVML_ERROR_UNINITIALIZED otherwise, unless a shutdown came in
// between.
nvmlReturn_t Find(nvmlDevice_t device, const DeviceFacts** facts, std::shared_ptr<Session>* session, size_t* index) {
  *session = CurrentSession();
  if (*session == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::optional<size_t> found = IndexOf(device);
  if (!found || *found >= (*session)->identity().devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
  *index = *found;
  *facts = &(*session)->identity().devices[*found];
  return NVML_SUCCESS;
}

// use(const DeviceFacts&, const DeviceReport& first, size_t index) answers from what does not change.
template <class Use>
nvmlReturn_t WithFacts(nvmlDevice_t device, Use&& use) {
  std::shared_ptr<Session> session;
  const DeviceFacts* facts = nullptr;
  size_t index = 0;
  if (nvmlReturn_t result = Find(device, &facts, &session, &index); result != NVML_SUCCESS) return result;
  return use(*facts, session->identity().reports[index], index);
}

// use(const Card&) answers from a fresh reading.
template <class Use>
nvmlReturn_t WithCard(nvmlDevice_t device, Use&& use) {
  std::shared_ptr<Session> session;
  const DeviceFacts* facts = nullptr;
  Card card;
  if (nvmlReturn_t result = Find(device, &facts, &session, &card.index); result != NVML_SUCCESS) return result;
  if (nvmlReturn_t result = session->Read(card.index, &card); result != NVML_SUCCESS) return result;
  return use(card);
}

template <class Value>
nvmlReturn_t Give(uint32_t reported, Value* value) {
  if (reported == kNotReported) return NVML_ERROR_NOT_SUPPORTED;
  *value = static_cast<Value>(reported);
  return NVML_SUCCESS;
}

// One value of the current report.
template <class Value>
nvmlReturn_t Report(nvmlDevice_t device, uint32_t DeviceReport::* field, Value* value) {
  return WithCard(device, [&](const Card& card) { return Give(card.report.*field, value); });
}

// Something that every card of this kind answers alike.
template <class Value>
nvmlReturn_t Constant(nvmlDevice_t device, Value wanted, Value* value) {
  return WithFacts(device, [&](const DeviceFacts&, const DeviceReport&, size_t) {
    *value = wanted;
    return NVML_SUCCESS;
  });
}

// Text into a buffer of the caller, with its final NUL.
nvmlReturn_t GiveText(absl::string_view text, char* buffer, unsigned int length) {
  if (text.size() + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return NVML_SUCCESS;
}

template <size_t size>
void FillText(absl::string_view text, char (&buffer)[size]) {
  std::memset(buffer, 0, size);
  std::memcpy(buffer, text.data(), std::min(text.size(), size - 1));
}

uint32_t Attribute(const DeviceFacts& facts, CUdevice_attribute attribute) {
  const size_t index = static_cast<size_t>(attribute);
  if (index >= facts.attributes.size() || facts.attributes[index] < 0) return kNotReported;
  return static_cast<uint32_t>(facts.attributes[index]);
}

uint32_t Major(const DeviceFacts& facts) { return Attribute(facts, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR); }
uint32_t Minor(const DeviceFacts& facts) { return Attribute(facts, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR); }

std::string ShortBusId(const DeviceFacts& facts) {
  return absl::StrFormat("%04X:%02X:%02X.0", facts.pci_domain & 0xffff, facts.pci_bus, facts.pci_device);
}

std::string LongBusId(const DeviceFacts& facts) {
  return absl::StrFormat("%08X:%02X:%02X.0", facts.pci_domain, facts.pci_bus, facts.pci_device);
}

// 0 is what a structure holds where the card does not say.
uint32_t OrZero(uint32_t reported) { return reported == kNotReported ? 0 : reported; }

template <class Info>
void FillPci(const DeviceFacts& facts, const DeviceReport& report, Info* pci) {
  pci->domain = facts.pci_domain;
  pci->bus = facts.pci_bus;
  pci->device = facts.pci_device;
  pci->pciDeviceId = OrZero(report.pci_device_id);
}

struct PciAddress {
  uint32_t domain = 0;
  uint32_t bus = 0;
  uint32_t device = 0;
};

// [DOMAIN:]BUS:DEVICE[.FUNCTION], hexadecimal.
std::optional<PciAddress> ParseBusId(absl::string_view text) {
  const size_t dot = text.find('.');
  if (dot != absl::string_view::npos) {
    if (text.substr(dot) != ".0") return std::nullopt;
    text = text.substr(0, dot);
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  if (parts.size() != 2 && parts.size() != 3) return std::nullopt;
  uint32_t numbers[3] = {};
  for (size_t i = 0; i < parts.size(); ++i) {
    const absl::string_view part = parts[i];
    const auto [end, error] =
        std::from_chars(part.data(), part.data() + part.size(), numbers[i + 3 - parts.size()], 16);
    if (part.empty() || error != std::errc() || end != part.data() + part.size()) return std::nullopt;
  }
  return PciAddress{.domain = numbers[0], .bus = numbers[1], .device = numbers[2]};
}

template <class Matches>
nvmlReturn_t FindDevice(Matches&& matches, nvmlDevice_t* device) {
  const std::shared_ptr<Session> session = CurrentSession();
  if (session == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::vector<DeviceFacts>& devices = session->identity().devices;
  const auto found = std::find_if(devices.begin(), devices.end(), matches);
  if (found == devices.end()) return NVML_ERROR_NOT_FOUND;
  *device = HandleOf(static_cast<size_t>(found - devices.begin()));
  return NVML_SUCCESS;
}

void FillProcess(const ProcessFacts& process, nvmlProcessInfo_v1_t* info) {
  info->pid = process.pid;
  info->usedGpuMemory = process.memory;
}

void FillProcess(const ProcessFacts& process, nvmlProcessInfo_v2_t* info) {
  info->pid = process.pid;
  info->usedGpuMemory = process.memory;
  info->gpuInstanceId = kNoInstance;
  info->computeInstanceId = kNoInstance;
}

// *count: in the room in `infos`, out the number of processes. Room for too few: nothing is written.
template <class Info>
nvmlReturn_t GiveProcesses(nvmlDevice_t device, unsigned int* count, Info* infos) {
  if (*count > 0 && infos == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return WithCard(device, [&](const Card& card) {
    const std::vector<ProcessFacts>& processes = card.report.processes;
    const unsigned int room = *count;
    *count = static_cast<unsigned int>(processes.size());
    if (room < processes.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (size_t i = 0; i < processes.size(); ++i) FillProcess(processes[i], &infos[i]);
    return NVML_SUCCESS;
  });
}

// All programs on these cards compute; none draw, and none go through a service that shares a context.
nvmlReturn_t GiveNoProcesses(nvmlDevice_t device, unsigned int* count, const void* infos) {
  if (*count > 0 && infos == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return Constant(device, 0u, count);
}

nvmlReturn_t ReadSamples(nvmlDevice_t device, uint64_t since, std::vector<ProcessSample>* samples) {
  std::shared_ptr<Session> session;
  const DeviceFacts* facts = nullptr;
  size_t index = 0;
  if (nvmlReturn_t result = Find(device, &facts, &session, &index); result != NVML_SUCCESS) return result;
  if (nvmlReturn_t result = session->Samples(index, since, samples); result != NVML_SUCCESS) return result;
  return samples->empty() ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}

nvmlReturn_t GiveMemory(const Card& card, unsigned long long* total, unsigned long long* free,
                        unsigned long long* used) {
  *total = card.report.memory_total;
  *used = std::min(card.report.memory_used, card.report.memory_total);
  *free = *total - *used;
  return NVML_SUCCESS;
}

nvmlReturn_t CurrentClock(const Card& card, nvmlClockType_t type, unsigned int* clock) {
  switch (type) {
    case NVML_CLOCK_GRAPHICS:
    case NVML_CLOCK_SM:
      return Give(card.report.clock_sm, clock);
    case NVML_CLOCK_MEM:
      return Give(card.report.clock_memory, clock);
    case NVML_CLOCK_VIDEO:
      return NVML_ERROR_NOT_SUPPORTED;
  }
  return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t MaxClock(const DeviceFacts& facts, nvmlClockType_t type, unsigned int* clock) {
  uint32_t khz = kNotReported;
  switch (type) {
    case NVML_CLOCK_GRAPHICS:
    case NVML_CLOCK_SM:
      khz = Attribute(facts, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
      break;
    case NVML_CLOCK_MEM:
      khz = Attribute(facts, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
      break;
    case NVML_CLOCK_VIDEO:
      return NVML_ERROR_NOT_SUPPORTED;
    default:
      return NVML_ERROR_INVALID_ARGUMENT;
  }
  return Give(khz == kNotReported || khz == 0 ? kNotReported : khz / 1000, clock);
}

nvmlReturn_t MaxClockOf(nvmlDevice_t device, nvmlClockType_t type, unsigned int* clock) {
  return WithFacts(device,
                   [&](const DeviceFacts& facts, const DeviceReport&, size_t) { return MaxClock(facts, type, clock); });
}

nvmlReturn_t GiveTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int* temperature) {
  if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  return Report(device, &DeviceReport::temperature, temperature);
}

}  // namespace

// Initialization and errors

nvmlReturn_t nvmlInit() { return StartSession(); }
nvmlReturn_t nvmlInit_v2() { return StartSession(); }

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
  if ((flags & ~(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH)) != 0) return NVML_ERROR_INVALID_ARGUMENT;
  return StartSession();
}

nvmlReturn_t nvmlShutdown() { return EndSession(); }

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "The call succeeded";
    case NVML_ERROR_UNINITIALIZED:
      return "NVML is not initialized: call nvmlInit first";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "An argument is not valid";
    case NVML_ERROR_NOT_SUPPORTED:
      return "This device does not support the call";
    case NVML_ERROR_NO_PERMISSION:
      return "This user may not make the call";
    case NVML_ERROR_ALREADY_INITIALIZED:
      return "NVML is initialized already";
    case NVML_ERROR_NOT_FOUND:
      return "Nothing was found that fits the query";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "The buffer is too small";
    case NVML_ERROR_INSUFFICIENT_POWER:
      return "A power cable of the device is missing";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "No driver is loaded";
    case NVML_ERROR_TIMEOUT:
      return "The call took too long";
    case NVML_ERROR_IRQ_ISSUE:
      return "An interrupt of a device does not arrive";
    case NVML_ERROR_LIBRARY_NOT_FOUND:
      return "A library that NVML needs was not found";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "This version of the library does not have the function";
    case NVML_ERROR_CORRUPTED_INFOROM:
      return "The information memory of the device is damaged";
    case NVML_ERROR_GPU_IS_LOST:
      return "The device cannot be reached any more";
    case NVML_ERROR_RESET_REQUIRED:
      return "The device has to be reset first";
    case NVML_ERROR_OPERATING_SYSTEM:
      return "The operating system blocks the device";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "Library and driver are of different versions";
    case NVML_ERROR_IN_USE:
      return "The device is in use";
    case NVML_ERROR_MEMORY:
      return "There is not enough memory";
    case NVML_ERROR_NO_DATA:
      return "There is no data";
    case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED:
      return "Error correction does not go with this virtual GPU";
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return "A resource other than memory has run out";
    case NVML_ERROR_FREQ_NOT_SUPPORTED:
      return "The device does not run at this frequency";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "The version in the structure is not one that this library knows";
    case NVML_ERROR_DEPRECATED:
      return "The function has been withdrawn";
    case NVML_ERROR_NOT_READY:
      return "The system is not ready for the call";
    case NVML_ERROR_GPU_NOT_FOUND:
      return "There is no device";
    case NVML_ERROR_INVALID_STATE:
      return "The call does not fit the present state";
    case NVML_ERROR_RESET_TYPE_NOT_SUPPORTED:
      return "The device does not support this kind of reset";
    case NVML_ERROR_UNKNOWN:
      break;
  }
  return "Something went wrong that has no error code of its own";
}

// System

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  const std::shared_ptr<Session> session = CurrentSession();
  if (session == nullptr) return NVML_ERROR_UNINITIALIZED;
  return GiveText(session->identity().driver_version, version, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  const std::shared_ptr<Session> session = CurrentSession();
  if (session == nullptr) return NVML_ERROR_UNINITIALIZED;
  const MonitorReport& identity = session->identity();
  return GiveText(absl::StrCat(identity.cuda_version / 1000, ".", identity.driver_version), version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* cudaDriverVersion) {
  const std::shared_ptr<Session> session = CurrentSession();
  if (session == nullptr) return NVML_ERROR_UNINITIALIZED;
  *cudaDriverVersion = session->identity().cuda_version;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* cudaDriverVersion) {
  return nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int length) {
  if (length == 0) return NVML_ERROR_INVALID_ARGUMENT;
  constexpr size_t kMaxCommandLine = 4 << 20;
  absl::StatusOr<std::string> command = ReadFile(absl::StrCat("/proc/", pid, "/cmdline"), kMaxCommandLine);
  if (!command.ok()) return NVML_ERROR_NOT_FOUND;
  absl::string_view text(command->c_str());  // the first argument
  if (text.empty()) {
    command = ReadFile(absl::StrCat("/proc/", pid, "/comm"), kMaxCommandLine);
    if (!command.ok()) return NVML_ERROR_NOT_FOUND;
    text = absl::StripTrailingAsciiWhitespace(*command);
  }
  // Documented: a name that is too long is cut.
  return GiveText(text.substr(0, length - 1), name, length);
}

nvmlReturn_t nvmlUnitGetCount(unsigned int* unitCount) {
  *unitCount = 0;  // S-class systems only
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int* deviceCount) {
  *deviceCount = 0;
  return NVML_SUCCESS;
}

// Finding devices

nvmlReturn_t nvmlDeviceGetCount(unsigned int* deviceCount) {
  const std::shared_ptr<Session> session = CurrentSession();
  if (session == nullptr) return NVML_ERROR_UNINITIALIZED;
  *deviceCount = static_cast<unsigned int>(session->identity().devices.size());
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* deviceCount) { return nvmlDeviceGetCount(deviceCount); }

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  const std::shared_ptr<Session> session = CurrentSession();
  if (session == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (index >= session->identity().devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = HandleOf(index);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (uuid == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return FindDevice([&](const DeviceFacts& facts) { return facts.uuid == uuid; }, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t* uuid, nvmlDevice_t* device) {
  if (uuid == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (uuid->version != nvmlUUID_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  std::string text;
  if (uuid->type == NVML_UUID_TYPE_ASCII) {
    text.assign(uuid->value.str, strnlen(uuid->value.str, sizeof(uuid->value.str)));
  } else if (uuid->type == NVML_UUID_TYPE_BINARY) {
    text = "GPU-";
    for (size_t i = 0; i < sizeof(uuid->value.bytes); ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
      absl::StrAppendFormat(&text, "%02x", uuid->value.bytes[i]);
    }
  } else {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  return FindDevice([&](const DeviceFacts& facts) { return facts.uuid == text; }, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* pciBusId, nvmlDevice_t* device) {
  if (pciBusId == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const std::optional<PciAddress> address = ParseBusId(pciBusId);
  if (!address) return NVML_ERROR_INVALID_ARGUMENT;
  return FindDevice(
      [&](const DeviceFacts& facts) {
        return facts.pci_domain == address->domain && facts.pci_bus == address->bus &&
               facts.pci_device == address->device;
      },
      device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* pciBusId, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId(pciBusId, device);
}

// Identity

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport&, size_t) {
    return GiveText(facts.name, name, length);
  });
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t* type) {
  static constexpr struct {
    absl::string_view part;
    nvmlBrandType_t brand;
  } kBrands[] = {{"GeForce", NVML_BRAND_GEFORCE},       {"TITAN", NVML_BRAND_TITAN},
                 {"Quadro RTX", NVML_BRAND_QUADRO_RTX}, {"Quadro", NVML_BRAND_QUADRO},
                 {"NVIDIA RTX", NVML_BRAND_NVIDIA_RTX}, {"Tesla", NVML_BRAND_TESLA},
                 {"NVIDIA", NVML_BRAND_NVIDIA}};
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport&, size_t) {
    *type = NVML_BRAND_UNKNOWN;
    for (const auto& [part, brand] : kBrands) {
      if (absl::StrContains(facts.name, part)) {
        *type = brand;
        break;
      }
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  return WithFacts(device, [&](const DeviceFacts&, const DeviceReport&, size_t found) {
    *index = static_cast<unsigned int>(found);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport&, size_t) {
    return GiveText(facts.uuid, uuid, length);
  });
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minorNumber) {
  return nvmlDeviceGetIndex(device, minorNumber);
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int* boardId) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport&, size_t) {
    *boardId = facts.pci_domain << 16 | facts.pci_bus << 8 | facts.pci_device;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int* multiGpuBool) {
  return Constant(device, 0u, multiGpuBool);
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device1, nvmlDevice_t device2, int* onSameBoard) {
  int ignored = 0;
  if (nvmlReturn_t result = Constant(device2, 0, &ignored); result != NVML_SUCCESS) return result;
  return Constant(device1, device1 == device2 ? 1 : 0, onSameBoard);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t* pci) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport& report, size_t) {
    FillPci(facts, report, pci);
    FillText(ShortBusId(facts), pci->busId);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t* pci) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport& report, size_t) {
    FillPci(facts, report, pci);
    pci->pciSubSystemId = OrZero(report.pci_subsystem_id);
    FillText(ShortBusId(facts), pci->busId);
    std::fill(std::begin(pci->reserved), std::end(pci->reserved), 0u);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport& report, size_t) {
    FillPci(facts, report, pci);
    pci->pciSubSystemId = OrZero(report.pci_subsystem_id);
    FillText(ShortBusId(facts), pci->busIdLegacy);
    FillText(LongBusId(facts), pci->busId);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t* pci) {
  if (pci->version != nvmlPciInfoExt_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport& report, size_t) {
    FillPci(facts, report, pci);
    pci->pciSubSystemId = OrZero(report.pci_subsystem_id);
    pci->baseClass = 3;  // display controller
    pci->subClass = 2;   // 3D controller
    FillText(LongBusId(facts), pci->busId);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t device, nvmlBusType_t* type) {
  return Constant(device, NVML_BUS_TYPE_PCIE, type);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int* currLinkGen) {
  return Report(device, &DeviceReport::pcie_generation, currLinkGen);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int* currLinkWidth) {
  return Report(device, &DeviceReport::pcie_width, currLinkWidth);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* maxLinkGen) {
  return Report(device, &DeviceReport::pcie_generation, maxLinkGen);
}

nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* maxLinkGenDevice) {
  return Report(device, &DeviceReport::pcie_generation, maxLinkGenDevice);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int* maxLinkWidth) {
  return Report(device, &DeviceReport::pcie_width, maxLinkWidth);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport&, size_t) {
    const nvmlReturn_t result = Give(Major(facts), major);
    return result != NVML_SUCCESS ? result : Give(Minor(facts), minor);
  });
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t* arch) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport&, size_t) {
    switch (Major(facts)) {
      case 3:
        *arch = NVML_DEVICE_ARCH_KEPLER;
        break;
      case 5:
        *arch = NVML_DEVICE_ARCH_MAXWELL;
        break;
      case 6:
        *arch = NVML_DEVICE_ARCH_PASCAL;
        break;
      case 7:
        *arch = Minor(facts) >= 5 ? NVML_DEVICE_ARCH_TURING : NVML_DEVICE_ARCH_VOLTA;
        break;
      case 8:
        *arch = Minor(facts) >= 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE;
        break;
      case 9:
        *arch = NVML_DEVICE_ARCH_HOPPER;
        break;
      case 10:
      case 12:
        *arch = NVML_DEVICE_ARCH_BLACKWELL;
        break;
      default:
        *arch = NVML_DEVICE_ARCH_UNKNOWN;
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int* numCores) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport&, size_t) {
    const uint32_t multiprocessors = Attribute(facts, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    const uint32_t major = Major(facts);
    if (multiprocessors == kNotReported || multiprocessors == 0 || major == kNotReported)
      return NVML_ERROR_NOT_SUPPORTED;
    // FP32 lanes of a multiprocessor: 64 on 6.0, 7.x and 8.0.
    const bool narrow = major == 7 || ((major == 6 || major == 8) && Minor(facts) == 0);
    const uint32_t lanes = major == 3 ? 192 : narrow ? 64 : 128;
    *numCores = multiprocessors * lanes;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int* busWidth) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport&, size_t) {
    return Give(Attribute(facts, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH), busWidth);
  });
}

// Memory, load and processes

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return WithCard(device,
                  [&](const Card& card) { return GiveMemory(card, &memory->total, &memory->free, &memory->used); });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return WithCard(device, [&](const Card& card) {
    memory->reserved = 0;
    return GiveMemory(card, &memory->total, &memory->free, &memory->used);
  });
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  return WithCard(device, [&](const Card& card) {
    utilization->memory = OrZero(card.report.memory_busy_percent);
    return Give(card.report.busy_percent, &utilization->gpu);
  });
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* infoCount,
                                                  nvmlProcessInfo_v1_t* infos) {
  return GiveProcesses(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* infoCount,
                                                     nvmlProcessInfo_v2_t* infos) {
  return GiveProcesses(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* infoCount,
                                                     nvmlProcessInfo_t* infos) {
  return GiveProcesses(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int* infoCount,
                                                   nvmlProcessInfo_v1_t* infos) {
  return GiveNoProcesses(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int* infoCount,
                                                      nvmlProcessInfo_v2_t* infos) {
  return GiveNoProcesses(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* infoCount,
                                                      nvmlProcessInfo_t* infos) {
  return GiveNoProcesses(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int* infoCount,
                                                     nvmlProcessInfo_v1_t* infos) {
  return GiveNoProcesses(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* infoCount,
                                                        nvmlProcessInfo_v2_t* infos) {
  return GiveNoProcesses(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* infoCount,
                                                        nvmlProcessInfo_t* infos) {
  return GiveNoProcesses(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t* plist) {
  if (plist->version != nvmlProcessDetailList_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (plist->mode > NVML_PROCESS_MODE_ALL) return NVML_ERROR_INVALID_ARGUMENT;
  if (plist->numProcArrayEntries > 0 && plist->procArray == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return WithCard(device, [&](const Card& card) {
    const bool compute = plist->mode == NVML_PROCESS_MODE_COMPUTE || plist->mode == NVML_PROCESS_MODE_ALL;
    const std::vector<ProcessFacts> processes = compute ? card.report.processes : std::vector<ProcessFacts>();
    const unsigned int room = plist->numProcArrayEntries;
    plist->numProcArrayEntries = static_cast<unsigned int>(processes.size());
    if (room < processes.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (size_t i = 0; i < processes.size(); ++i) {
      plist->procArray[i] = {.pid = processes[i].pid,
                             .usedGpuMemory = processes[i].memory,
                             .gpuInstanceId = kNoInstance,
                             .computeInstanceId = kNoInstance,
                             .usedGpuCcProtectedMemory = 0};
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t* utilization,
                                             unsigned int* processSamplesCount, unsigned long long lastSeenTimeStamp) {
  std::vector<ProcessSample> samples;
  if (nvmlReturn_t result = ReadSamples(device, lastSeenTimeStamp, &samples); result != NVML_SUCCESS) return result;
  const unsigned int room = utilization == nullptr ? 0 : *processSamplesCount;
  *processSamplesCount = static_cast<unsigned int>(samples.size());
  if (room < samples.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (size_t i = 0; i < samples.size(); ++i) {
    utilization[i] = {.pid = samples[i].pid,
                      .timeStamp = samples[i].time,
                      .smUtil = samples[i].busy_percent,
                      .memUtil = 0,
                      .encUtil = 0,
                      .decUtil = 0};
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   nvmlProcessesUtilizationInfo_t* procesesUtilInfo) {
  nvmlProcessesUtilizationInfo_t& info = *procesesUtilInfo;
  if (info.version != nvmlProcessesUtilizationInfo_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  std::vector<ProcessSample> samples;
  if (nvmlReturn_t result = ReadSamples(device, info.lastSeenTimeStamp, &samples); result != NVML_SUCCESS)
    return result;
  const unsigned int room = info.procUtilArray == nullptr ? 0 : info.processSamplesCount;
  info.processSamplesCount = static_cast<unsigned int>(samples.size());
  if (room < samples.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (size_t i = 0; i < samples.size(); ++i) {
    info.procUtilArray[i] = {.timeStamp = samples[i].time,
                             .pid = samples[i].pid,
                             .smUtil = samples[i].busy_percent,
                             .memUtil = 0,
                             .encUtil = 0,
                             .decUtil = 0,
                             .jpgUtil = 0,
                             .ofaUtil = 0};
  }
  return NVML_SUCCESS;
}

// Power, temperature, clocks, fans, modes

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* power) {
  return Report(device, &DeviceReport::power, power);
}

nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return WithCard(device, [&](const Card& card) {
    if (card.report.power_limit == kNotReported) return NVML_ERROR_NOT_SUPPORTED;
    *mode = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int* limit) {
  return Report(device, &DeviceReport::power_limit, limit);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int* minLimit,
                                                          unsigned int* maxLimit) {
  return WithCard(device, [&](const Card& card) {
    const nvmlReturn_t result = Give(card.report.power_min, minLimit);
    return result != NVML_SUCCESS ? result : Give(card.report.power_max, maxLimit);
  });
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int* defaultLimit) {
  return Report(device, &DeviceReport::power_default, defaultLimit);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* limit) {
  return Report(device, &DeviceReport::power_limit, limit);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int* temp) {
  return GiveTemperature(device, sensorType, temp);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t* temperature) {
  if (temperature->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  unsigned int value = 0;
  const nvmlReturn_t result = GiveTemperature(device, temperature->sensorType, &value);
  if (result == NVML_SUCCESS) temperature->temperature = static_cast<int>(value);
  return result;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t thresholdType,
                                               unsigned int* temp) {
  if (thresholdType < 0 || thresholdType >= NVML_TEMPERATURE_THRESHOLD_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  return WithCard(device, [&](const Card& card) {
    switch (thresholdType) {
      case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
        return Give(card.report.temperature_shutdown, temp);
      case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
        return Give(card.report.temperature_slowdown, temp);
      default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
  });
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* clock) {
  return WithCard(device, [&](const Card& card) { return CurrentClock(card, type, clock); });
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* clock) {
  return MaxClockOf(device, type, clock);
}

// These cards have no clocks that applications set: they may run at their maximum.
nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t clockType, unsigned int* clockMHz) {
  return MaxClockOf(device, clockType, clockMHz);
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t clockType,
                                                   unsigned int* clockMHz) {
  return MaxClockOf(device, clockType, clockMHz);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t clockType, nvmlClockId_t clockId,
                                unsigned int* clockMHz) {
  switch (clockId) {
    case NVML_CLOCK_ID_CURRENT:
      return nvmlDeviceGetClockInfo(device, clockType, clockMHz);
    case NVML_CLOCK_ID_APP_CLOCK_TARGET:
    case NVML_CLOCK_ID_APP_CLOCK_DEFAULT:
    case NVML_CLOCK_ID_CUSTOMER_BOOST_MAX:
      return MaxClockOf(device, clockType, clockMHz);
  }
  return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int* speed) {
  return Report(device, &DeviceReport::fan_percent, speed);
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int* speed) {
  if (fan > 0) return NVML_ERROR_INVALID_ARGUMENT;
  return Report(device, &DeviceReport::fan_percent, speed);
}

nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int* numFans) {
  return WithCard(device, [&](const Card& card) {
    if (card.report.fan_percent == kNotReported) return NVML_ERROR_NOT_SUPPORTED;
    *numFans = 1;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t* pState) {
  return Report(device, &DeviceReport::performance_state, pState);
}

nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, nvmlPstates_t* pState) {
  return Report(device, &DeviceReport::performance_state, pState);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  return WithFacts(device, [&](const DeviceFacts& facts, const DeviceReport&, size_t) {
    return Give(Attribute(facts, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE), mode);
  });
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return Report(device, &DeviceReport::persistence, mode);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t* display) {
  return Constant(device, NVML_FEATURE_DISABLED, display);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t* isActive) {
  return Constant(device, NVML_FEATURE_DISABLED, isActive);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* isMigDevice) {
  return Constant(device, 0u, isMigDevice);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  return Constant(device, 0u, count);
}

// Each value says for itself that it is not supported.
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t* values) {
  if (valuesCount < 0) return NVML_ERROR_INVALID_ARGUMENT;
  return WithFacts(device, [&](const DeviceFacts&, const DeviceReport&, size_t) {
    for (int i = 0; i < valuesCount; ++i) values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
  });
}

}  // namespace tf::cuda::nvml::api
