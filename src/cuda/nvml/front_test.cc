// The exported functions over a source of this test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver_types.h"
#include "cuda/nvml/exports.h"
#include "cuda/nvml/source.h"
#include "cuda/nvml_functions.h"

namespace tf::cuda::nvml {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Not;

// What the next source reads. A test changes it between calls.
struct World {
  std::mutex mutex;
  absl::Status opening;
  absl::Status reading;
  MonitorReport report;
  int open_sources = 0;
};

World& TheWorld() {
  static World* world = new World;
  return *world;
}

class TestSource : public NvmlSource {
 public:
  TestSource() {
    std::lock_guard lock(TheWorld().mutex);
    ++TheWorld().open_sources;
  }
  ~TestSource() override {
    std::lock_guard lock(TheWorld().mutex);
    --TheWorld().open_sources;
  }
  absl::StatusOr<MonitorReport> Read() override {
    std::lock_guard lock(TheWorld().mutex);
    if (!TheWorld().reading.ok()) return TheWorld().reading;
    return TheWorld().report;
  }
};

DeviceFacts Facts(const std::string& name, const std::string& uuid, uint32_t bus, int major, int minor) {
  DeviceFacts facts;
  facts.name = name;
  facts.uuid = uuid;
  facts.pci_domain = 0x1;
  facts.pci_bus = bus;
  facts.pci_device = 4;
  facts.total_memory = 1000;
  facts.attributes.assign(120, 0);
  facts.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = major;
  facts.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = minor;
  facts.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 10;
  facts.attributes[CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1410000;
  facts.attributes[CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 1593000;
  facts.attributes[CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 5120;
  return facts;
}

constexpr char kFirstUuid[] = "GPU-00112233-4455-6677-8899-aabbccddeeff";
constexpr char kSecondUuid[] = "GPU-10112233-4455-6677-8899-aabbccddeeff";

MonitorReport TwoCards() {
  MonitorReport report;
  report.driver_version = "575.10";
  report.cuda_version = 12080;
  report.devices = {Facts("NVIDIA A100-SXM4-80GB", kFirstUuid, 0x3b, 8, 0), Facts("Tesla T4", kSecondUuid, 0x86, 7, 5)};
  DeviceReport card = EmptyReport();
  card.memory_total = 1000;
  card.memory_used = 400;
  card.time = 5000;
  report.reports = {card, card};
  report.reports[1].memory_used = 0;
  DeviceReport& first = report.reports[0];
  first.busy_percent = 61;
  first.memory_busy_percent = 12;
  first.power = 123000;
  first.power_limit = 400000;
  first.power_default = 400000;
  first.power_min = 100000;
  first.power_max = 400000;
  first.temperature = 41;
  first.temperature_slowdown = 89;
  first.temperature_shutdown = 92;
  first.clock_sm = 1200;
  first.clock_memory = 1593;
  first.fan_percent = 30;
  first.performance_state = 2;
  first.persistence = 1;
  first.pcie_generation = 4;
  first.pcie_width = 16;
  first.pci_device_id = 0x20b210de;
  first.pci_subsystem_id = 0x146310de;
  first.processes = {{.pid = 11, .memory = 100, .busy_percent = 40}, {.pid = 12, .memory = 300, .busy_percent = 21}};
  return report;
}

NvmlFunctions Exports() {
  const std::map<std::string, void*> symbols = {
#define TF_ENTRY(name, symbol, since, per_thread, supported) {#symbol, reinterpret_cast<void*>(&exports::symbol)},
#include "cuda/nvml_entries.inc"
#undef TF_ENTRY
  };
  NvmlFunctions functions;
  functions.Load([&](const char* symbol) { return symbols.at(symbol); });
  return functions;
}

class NvmlFront : public ::testing::Test {
 protected:
  void SetUp() override { Change(TwoCards()); }
  void TearDown() override {
    while (nvml.nvmlShutdown() == NVML_SUCCESS) {
    }
    EXPECT_EQ(TheWorld().open_sources, 0);
    TheWorld().opening = TheWorld().reading = absl::OkStatus();
  }
  static void Change(MonitorReport report) {
    std::lock_guard lock(TheWorld().mutex);
    TheWorld().report = std::move(report);
  }
  nvmlDevice_t Start(unsigned int index = 0) {
    EXPECT_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
    nvmlDevice_t device = nullptr;
    EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
  }

  const NvmlFunctions nvml = Exports();
};

TEST_F(NvmlFront, CountsInitAndShutdown) {
  unsigned int count = 77;
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(nullptr), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(exports::nvmlDeviceGetEccMode(), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvml.nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(count, 77u);

  EXPECT_EQ(nvml.nvmlInit(), NVML_SUCCESS);
  EXPECT_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
  EXPECT_EQ(nvml.nvmlInitWithFlags(NVML_INIT_FLAG_NO_ATTACH), NVML_SUCCESS);
  EXPECT_EQ(nvml.nvmlInitWithFlags(8), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(TheWorld().open_sources, 1);
  for (int left = 3; left > 0; --left) {
    EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    EXPECT_EQ(nvml.nvmlShutdown(), NVML_SUCCESS);
  }
  EXPECT_EQ(TheWorld().open_sources, 0);
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvml.nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvml.nvmlInit(), NVML_SUCCESS);
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 2u);
}

TEST_F(NvmlFront, StartFailsWithoutCards) {
  TheWorld().opening = absl::NotFoundError("no worker answers");
  EXPECT_EQ(nvml.nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
  TheWorld().opening = absl::PermissionDeniedError("not yours");
  EXPECT_EQ(nvml.nvmlInit_v2(), NVML_ERROR_NO_PERMISSION);
  TheWorld().opening = absl::OkStatus();
  TheWorld().reading = absl::UnavailableError("gone");
  EXPECT_EQ(nvml.nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
  TheWorld().reading = absl::OkStatus();
  MonitorReport uneven = TwoCards();
  uneven.reports.pop_back();
  Change(uneven);
  EXPECT_EQ(nvml.nvmlInit_v2(), NVML_ERROR_UNKNOWN);
  unsigned int count;
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
}

TEST_F(NvmlFront, LostCardsAnswerSo) {
  nvmlDevice_t device = Start(1);
  {
    std::lock_guard lock(TheWorld().mutex);
    TheWorld().reading = absl::UnavailableError("the worker is gone");
  }
  nvmlMemory_t memory;
  EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo(device, &memory), NVML_ERROR_GPU_IS_LOST);
  char name[96];
  EXPECT_EQ(nvml.nvmlDeviceGetName(device, name, sizeof(name)), NVML_SUCCESS) << "does not change, so it stays known";
  {
    std::lock_guard lock(TheWorld().mutex);
    TheWorld().reading = absl::OkStatus();
    TheWorld().report.devices.pop_back();
    TheWorld().report.reports.pop_back();
  }
  EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo(device, &memory), NVML_ERROR_GPU_IS_LOST);
}

TEST_F(NvmlFront, SystemAnswers) {
  Start();
  char text[80];
  EXPECT_EQ(nvml.nvmlSystemGetDriverVersion(text, sizeof(text)), NVML_SUCCESS);
  EXPECT_STREQ(text, "575.10");
  EXPECT_EQ(nvml.nvmlSystemGetNVMLVersion(text, sizeof(text)), NVML_SUCCESS);
  EXPECT_STREQ(text, "12.575.10");
  int version = 0;
  EXPECT_EQ(nvml.nvmlSystemGetCudaDriverVersion(&version), NVML_SUCCESS);
  EXPECT_EQ(version, 12080);
  version = 0;
  EXPECT_EQ(nvml.nvmlSystemGetCudaDriverVersion_v2(&version), NVML_SUCCESS);
  EXPECT_EQ(version, 12080);
  unsigned int count = 5;
  EXPECT_EQ(nvml.nvmlUnitGetCount(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(exports::nvmlSystemGetHicVersion(), NVML_ERROR_NOT_SUPPORTED);

  const unsigned int self = static_cast<unsigned int>(getpid());
  char name[4096];
  EXPECT_EQ(nvml.nvmlSystemGetProcessName(self, name, sizeof(name)), NVML_SUCCESS);
  EXPECT_THAT(name, ::testing::HasSubstr("nvml_front_test"));
  char cut[4] = "zzz";
  EXPECT_EQ(nvml.nvmlSystemGetProcessName(self, cut, sizeof(cut)), NVML_SUCCESS) << "documented: cut";
  EXPECT_EQ(std::string(cut), std::string(name).substr(0, 3));
  EXPECT_EQ(nvml.nvmlSystemGetProcessName(self, name, 0), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvml.nvmlSystemGetProcessName(0x7fffffff, name, sizeof(name)), NVML_ERROR_NOT_FOUND);
}

TEST_F(NvmlFront, BuffersTooSmallAnswerSoAndStayUntouched) {
  nvmlDevice_t device = Start(1);
  struct Case {
    const char* what;
    std::function<nvmlReturn_t(char*, unsigned int)> call;
    std::string expected;
  };
  const Case cases[] = {
      {"name", [&](char* b, unsigned int n) { return nvml.nvmlDeviceGetName(device, b, n); }, "Tesla T4"},
      {"uuid", [&](char* b, unsigned int n) { return nvml.nvmlDeviceGetUUID(device, b, n); }, kSecondUuid},
      {"driver", [&](char* b, unsigned int n) { return nvml.nvmlSystemGetDriverVersion(b, n); }, "575.10"},
      {"nvml", [&](char* b, unsigned int n) { return nvml.nvmlSystemGetNVMLVersion(b, n); }, "12.575.10"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const unsigned int exact = static_cast<unsigned int>(c.expected.size() + 1);
    std::vector<char> buffer(exact + 1, '#');
    EXPECT_EQ(c.call(buffer.data(), exact - 1), NVML_ERROR_INSUFFICIENT_SIZE);
    EXPECT_EQ(c.call(buffer.data(), 0), NVML_ERROR_INSUFFICIENT_SIZE);
    EXPECT_THAT(buffer, Each('#'));
    EXPECT_EQ(c.call(buffer.data(), exact), NVML_SUCCESS);
    EXPECT_EQ(std::string(buffer.data()), c.expected);
    EXPECT_EQ(buffer[exact], '#');
    EXPECT_EQ(c.call(nullptr, exact), NVML_ERROR_INVALID_ARGUMENT);
  }
}

TEST_F(NvmlFront, FindsDevices) {
  nvmlDevice_t first = Start(0);
  nvmlDevice_t second = Start(1);
  EXPECT_NE(first, second);
  nvmlDevice_t found = nullptr;
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex(1, &found), NVML_SUCCESS);
  EXPECT_EQ(found, second);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(2, &found), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, nullptr), NVML_ERROR_INVALID_ARGUMENT);

  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUID(kFirstUuid, &found), NVML_SUCCESS);
  EXPECT_EQ(found, first);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUID("GPU-0", &found), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUID(nullptr, &found), NVML_ERROR_INVALID_ARGUMENT);

  nvmlUUID_t uuid = {};
  uuid.version = nvmlUUID_v1;
  uuid.type = NVML_UUID_TYPE_ASCII;
  std::memcpy(uuid.value.str, kSecondUuid, sizeof(kSecondUuid));
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUIDV(&uuid, &found), NVML_SUCCESS);
  EXPECT_EQ(found, second);
  uuid.type = NVML_UUID_TYPE_BINARY;
  for (int i = 0; i < 16; ++i) uuid.value.bytes[i] = static_cast<unsigned char>(i * 0x11);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUIDV(&uuid, &found), NVML_SUCCESS);
  EXPECT_EQ(found, first);
  uuid.type = 3;
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUIDV(&uuid, &found), NVML_ERROR_INVALID_ARGUMENT);
  uuid.version = nvmlUUID_v1 + 1;
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUIDV(&uuid, &found), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);

  const std::pair<const char*, nvmlReturn_t> ids[] = {
      {"00000001:86:04.0", NVML_SUCCESS},
      {"0001:86:04.0", NVML_SUCCESS},
      {"1:86:4", NVML_SUCCESS},
      {"86:04.0", NVML_ERROR_NOT_FOUND},
      {"0001:87:04.0", NVML_ERROR_NOT_FOUND},
      {"0001:86:04.1", NVML_ERROR_INVALID_ARGUMENT},
      {"0001:86:", NVML_ERROR_INVALID_ARGUMENT},
      {"0001:86:0g.0", NVML_ERROR_INVALID_ARGUMENT},
      {"", NVML_ERROR_INVALID_ARGUMENT},
      {"1:2:3:4", NVML_ERROR_INVALID_ARGUMENT},
      {"-1:86:4", NVML_ERROR_INVALID_ARGUMENT},
      {"100000000:86:04.0", NVML_ERROR_INVALID_ARGUMENT},
  };
  for (const auto& [id, expected] : ids) {
    SCOPED_TRACE(id);
    found = nullptr;
    EXPECT_EQ(nvml.nvmlDeviceGetHandleByPciBusId_v2(id, &found), expected);
    EXPECT_EQ(nvml.nvmlDeviceGetHandleByPciBusId(id, &found), expected);
    EXPECT_EQ(found, expected == NVML_SUCCESS ? second : nullptr);
  }
  EXPECT_EQ(exports::nvmlDeviceGetHandleBySerial(), NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(NvmlFront, RefusesHandlesThatItDidNotGive) {
  nvmlDevice_t first = Start(0);
  unsigned int index = 0;
  for (nvmlDevice_t device : {nvmlDevice_t{nullptr}, reinterpret_cast<nvmlDevice_t>(uintptr_t{1}),
                              reinterpret_cast<nvmlDevice_t>(reinterpret_cast<uintptr_t>(first) + 1),
                              reinterpret_cast<nvmlDevice_t>(reinterpret_cast<uintptr_t>(first) + 0x200),
                              reinterpret_cast<nvmlDevice_t>(~uintptr_t{0})}) {
    EXPECT_EQ(nvml.nvmlDeviceGetIndex(device, &index), NVML_ERROR_INVALID_ARGUMENT);
    nvmlMemory_t memory;
    EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo(device, &memory), NVML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(device, nullptr, &index, 0), NVML_ERROR_INVALID_ARGUMENT);
  }
}

// Surrounds a structure with bytes that nobody may touch.
template <class Struct>
struct Guarded {
  unsigned char before[64];
  Struct value;
  unsigned char after[64];
  Guarded() { std::memset(static_cast<void*>(this), 0xee, sizeof(*this)); }
  ~Guarded() {
    EXPECT_THAT(before, Each(0xee));
    EXPECT_THAT(after, Each(0xee));
  }
};

TEST_F(NvmlFront, EachPciFormFillsItsOwnLayout) {
  nvmlDevice_t device = Start(0);
  Guarded<nvmlPciInfo_v1_t> v1;
  EXPECT_EQ(nvml.nvmlDeviceGetPciInfo(device, &v1.value), NVML_SUCCESS);
  EXPECT_STREQ(v1.value.busId, "0001:3B:04.0");
  EXPECT_EQ(v1.value.pciDeviceId, 0x20b210deu);

  Guarded<nvmlPciInfo_v2_t> v2;
  EXPECT_EQ(nvml.nvmlDeviceGetPciInfo_v2(device, &v2.value), NVML_SUCCESS);
  EXPECT_STREQ(v2.value.busId, "0001:3B:04.0");
  EXPECT_EQ(v2.value.pciSubSystemId, 0x146310deu);
  EXPECT_THAT(v2.value.reserved, Each(0u));

  Guarded<nvmlPciInfo_t> v3;
  EXPECT_EQ(nvml.nvmlDeviceGetPciInfo_v3(device, &v3.value), NVML_SUCCESS);
  EXPECT_STREQ(v3.value.busIdLegacy, "0001:3B:04.0");
  EXPECT_STREQ(v3.value.busId, "00000001:3B:04.0");
  EXPECT_EQ(v3.value.domain, 1u);
  EXPECT_EQ(v3.value.bus, 0x3bu);
  EXPECT_EQ(v3.value.device, 4u);
  EXPECT_EQ(v3.value.pciSubSystemId, 0x146310deu);

  Guarded<nvmlPciInfoExt_t> extended;
  EXPECT_EQ(nvml.nvmlDeviceGetPciInfoExt(device, &extended.value), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  extended.value.version = nvmlPciInfoExt_v1;
  EXPECT_EQ(nvml.nvmlDeviceGetPciInfoExt(device, &extended.value), NVML_SUCCESS);
  EXPECT_STREQ(extended.value.busId, "00000001:3B:04.0");
}

TEST_F(NvmlFront, EachMemoryFormFillsItsOwnLayout) {
  nvmlDevice_t device = Start(0);
  Guarded<nvmlMemory_t> v1;
  EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo(device, &v1.value), NVML_SUCCESS);
  EXPECT_EQ(v1.value.total, 1000u);
  EXPECT_EQ(v1.value.used, 400u);
  EXPECT_EQ(v1.value.free, 600u);

  Guarded<nvmlMemory_v2_t> v2;
  for (unsigned int version : {0u, nvmlMemory_v2 + 1, NvmlVersion<nvmlMemory_v2_t>(1), NvmlVersion<nvmlMemory_t>(2)}) {
    v2.value.version = version;
    EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo_v2(device, &v2.value), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  }
  v2.value.version = nvmlMemory_v2;
  EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo_v2(device, &v2.value), NVML_SUCCESS);
  EXPECT_EQ(v2.value.total, 1000u);
  EXPECT_EQ(v2.value.reserved, 0u);
  EXPECT_EQ(v2.value.used, 400u);
  EXPECT_EQ(v2.value.free, 600u);

  MonitorReport over = TwoCards();
  over.reports[0].memory_used = 1001;
  Change(over);
  EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo(device, &v1.value), NVML_SUCCESS);
  EXPECT_EQ(v1.value.used, 1000u);
  EXPECT_EQ(v1.value.free, 0u) << "never wraps";
}

template <class Info>
void ExpectProcesses(nvmlReturn_t (*call)(nvmlDevice_t, unsigned int*, Info*), nvmlDevice_t busy, nvmlDevice_t idle) {
  unsigned int count = 0;
  EXPECT_EQ(call(busy, &count, nullptr), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(call(busy, nullptr, nullptr), NVML_ERROR_INVALID_ARGUMENT);
  count = 3;
  EXPECT_EQ(call(busy, &count, nullptr), NVML_ERROR_INVALID_ARGUMENT);

  Info infos[3];
  std::memset(infos, 0xee, sizeof(infos));
  Info untouched;
  std::memset(&untouched, 0xee, sizeof(untouched));
  count = 1;
  EXPECT_EQ(call(busy, &count, infos), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(std::memcmp(&infos[0], &untouched, sizeof(Info)), 0);
  count = 3;
  EXPECT_EQ(call(busy, &count, infos), NVML_SUCCESS);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(infos[0].pid, 11u);
  EXPECT_EQ(infos[0].usedGpuMemory, 100u);
  EXPECT_EQ(infos[1].pid, 12u);
  EXPECT_EQ(infos[1].usedGpuMemory, 300u);
  EXPECT_EQ(std::memcmp(&infos[2], &untouched, sizeof(Info)), 0) << "stays within its own layout";

  count = 0;
  EXPECT_EQ(call(idle, &count, nullptr), NVML_SUCCESS);
  EXPECT_EQ(count, 0u);
}

TEST_F(NvmlFront, ProcessListsInTheirThreeForms) {
  nvmlDevice_t busy = Start(0);
  nvmlDevice_t idle = Start(1);
  ExpectProcesses(nvml.nvmlDeviceGetComputeRunningProcesses, busy, idle);
  ExpectProcesses(nvml.nvmlDeviceGetComputeRunningProcesses_v2, busy, idle);
  ExpectProcesses(nvml.nvmlDeviceGetComputeRunningProcesses_v3, busy, idle);
  nvmlProcessInfo_t infos[2];
  unsigned int count = 2;
  EXPECT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(busy, &count, infos), NVML_SUCCESS);
  EXPECT_EQ(infos[0].gpuInstanceId, 0xffffffffu);
  EXPECT_EQ(infos[0].computeInstanceId, 0xffffffffu);
  EXPECT_EQ(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(busy, &count, infos), NVML_SUCCESS);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(busy, &count, nullptr), NVML_SUCCESS);
}

TEST_F(NvmlFront, ProcessDetails) {
  nvmlDevice_t device = Start(0);
  nvmlProcessDetail_v1_t details[2];
  nvmlProcessDetailList_t list = {
      .version = 1, .mode = NVML_PROCESS_MODE_COMPUTE, .numProcArrayEntries = 0, .procArray = nullptr};
  EXPECT_EQ(nvml.nvmlDeviceGetRunningProcessDetailList(device, &list), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  list.version = nvmlProcessDetailList_v1;
  EXPECT_EQ(nvml.nvmlDeviceGetRunningProcessDetailList(device, &list), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(list.numProcArrayEntries, 2u);
  list.procArray = details;
  EXPECT_EQ(nvml.nvmlDeviceGetRunningProcessDetailList(device, &list), NVML_SUCCESS);
  EXPECT_EQ(details[1].pid, 12u);
  EXPECT_EQ(details[1].usedGpuMemory, 300u);
  list.mode = NVML_PROCESS_MODE_GRAPHICS;
  EXPECT_EQ(nvml.nvmlDeviceGetRunningProcessDetailList(device, &list), NVML_SUCCESS);
  EXPECT_EQ(list.numProcArrayEntries, 0u);
  list.mode = 9;
  EXPECT_EQ(nvml.nvmlDeviceGetRunningProcessDetailList(device, &list), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlFront, ProcessUtilization) {
  nvmlDevice_t busy = Start(0);
  nvmlDevice_t idle = Start(1);
  unsigned int count = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(busy, nullptr, &count, 0), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 2u);
  nvmlProcessUtilizationSample_t samples[2] = {};
  count = 1;
  EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(busy, samples, &count, 0), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(samples[0].pid, 0u);
  EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(busy, samples, &count, 0), NVML_SUCCESS);
  EXPECT_EQ(samples[0].pid, 11u);
  EXPECT_EQ(samples[0].smUtil, 40u);
  EXPECT_EQ(samples[0].timeStamp, 5000u);
  EXPECT_EQ(samples[1].smUtil, 21u);
  EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(busy, samples, &count, 5000), NVML_ERROR_NOT_FOUND) << "nothing newer";
  EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(idle, nullptr, &count, 0), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(busy, samples, nullptr, 0), NVML_ERROR_INVALID_ARGUMENT);

  nvmlProcessUtilizationInfo_v1_t infos[2] = {};
  nvmlProcessesUtilizationInfo_t info = {
      .version = 0, .processSamplesCount = 0, .lastSeenTimeStamp = 0, .procUtilArray = nullptr};
  EXPECT_EQ(nvml.nvmlDeviceGetProcessesUtilizationInfo(busy, &info), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  info.version = nvmlProcessesUtilizationInfo_v1;
  EXPECT_EQ(nvml.nvmlDeviceGetProcessesUtilizationInfo(busy, &info), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(info.processSamplesCount, 2u);
  info.procUtilArray = infos;
  EXPECT_EQ(nvml.nvmlDeviceGetProcessesUtilizationInfo(busy, &info), NVML_SUCCESS);
  EXPECT_EQ(infos[1].pid, 12u);
  EXPECT_EQ(infos[1].smUtil, 21u);
}

TEST_F(NvmlFront, ReportsOfACard) {
  nvmlDevice_t device = Start(0);
  using One = nvmlReturn_t (*)(nvmlDevice_t, unsigned int*);
  const std::pair<One, unsigned int> numbers[] = {
      {nvml.nvmlDeviceGetPowerUsage, 123000},
      {nvml.nvmlDeviceGetPowerManagementLimit, 400000},
      {nvml.nvmlDeviceGetPowerManagementDefaultLimit, 400000},
      {nvml.nvmlDeviceGetEnforcedPowerLimit, 400000},
      {nvml.nvmlDeviceGetFanSpeed, 30},
      {nvml.nvmlDeviceGetNumFans, 1},
      {nvml.nvmlDeviceGetCurrPcieLinkGeneration, 4},
      {nvml.nvmlDeviceGetMaxPcieLinkGeneration, 4},
      {nvml.nvmlDeviceGetCurrPcieLinkWidth, 16},
      {nvml.nvmlDeviceGetMaxPcieLinkWidth, 16},
      {nvml.nvmlDeviceGetIndex, 0},
      {nvml.nvmlDeviceGetMinorNumber, 0},
      {nvml.nvmlDeviceGetBoardId, 0x13b04},
      {nvml.nvmlDeviceGetMultiGpuBoard, 0},
      {nvml.nvmlDeviceGetMemoryBusWidth, 5120},
      {nvml.nvmlDeviceGetNumGpuCores, 640},
      {nvml.nvmlDeviceGetArchitecture, NVML_DEVICE_ARCH_AMPERE},
      {nvml.nvmlDeviceGetBusType, NVML_BUS_TYPE_PCIE},
      {nvml.nvmlDeviceIsMigDeviceHandle, 0},
      {nvml.nvmlDeviceGetMaxMigDeviceCount, 0},
  };
  for (size_t i = 0; i < std::size(numbers); ++i) {
    SCOPED_TRACE(i);
    unsigned int value = 99;
    EXPECT_EQ(numbers[i].first(device, &value), NVML_SUCCESS);
    EXPECT_EQ(value, numbers[i].second);
    EXPECT_EQ(numbers[i].first(device, nullptr), NVML_ERROR_INVALID_ARGUMENT);
  }
  nvmlUtilization_t utilization;
  EXPECT_EQ(nvml.nvmlDeviceGetUtilizationRates(device, &utilization), NVML_SUCCESS);
  EXPECT_EQ(utilization.gpu, 61u);
  EXPECT_EQ(utilization.memory, 12u);
  unsigned int low = 0, high = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetPowerManagementLimitConstraints(device, &low, &high), NVML_SUCCESS);
  EXPECT_EQ(low, 100000u);
  EXPECT_EQ(high, 400000u);
  unsigned int degrees = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &degrees), NVML_SUCCESS);
  EXPECT_EQ(degrees, 41u);
  EXPECT_EQ(nvml.nvmlDeviceGetTemperature(device, static_cast<nvmlTemperatureSensors_t>(7), &degrees),
            NVML_ERROR_INVALID_ARGUMENT);
  nvmlTemperature_t temperature = {.version = 1, .sensorType = NVML_TEMPERATURE_GPU, .temperature = 0};
  EXPECT_EQ(nvml.nvmlDeviceGetTemperatureV(device, &temperature), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  temperature.version = nvmlTemperature_v1;
  EXPECT_EQ(nvml.nvmlDeviceGetTemperatureV(device, &temperature), NVML_SUCCESS);
  EXPECT_EQ(temperature.temperature, 41);
  const std::pair<int, std::pair<nvmlReturn_t, unsigned int>> thresholds[] = {{0, {NVML_SUCCESS, 92}},
                                                                              {1, {NVML_SUCCESS, 89}},
                                                                              {2, {NVML_ERROR_NOT_SUPPORTED, 0}},
                                                                              {8, {NVML_ERROR_INVALID_ARGUMENT, 0}},
                                                                              {-1, {NVML_ERROR_INVALID_ARGUMENT, 0}}};
  for (const auto& [kind, expected] : thresholds) {
    degrees = 0;
    EXPECT_EQ(nvml.nvmlDeviceGetTemperatureThreshold(device, static_cast<nvmlTemperatureThresholds_t>(kind), &degrees),
              expected.first);
    EXPECT_EQ(degrees, expected.second);
  }
  struct Clock {
    nvmlClockType_t type;
    nvmlReturn_t result;
    unsigned int now, max;
  };
  for (const Clock& c :
       {Clock{NVML_CLOCK_GRAPHICS, NVML_SUCCESS, 1200, 1410}, Clock{NVML_CLOCK_SM, NVML_SUCCESS, 1200, 1410},
        Clock{NVML_CLOCK_MEM, NVML_SUCCESS, 1593, 1593}, Clock{NVML_CLOCK_VIDEO, NVML_ERROR_NOT_SUPPORTED, 0, 0},
        Clock{static_cast<nvmlClockType_t>(4), NVML_ERROR_INVALID_ARGUMENT, 0, 0}}) {
    unsigned int mhz = 0;
    EXPECT_EQ(nvml.nvmlDeviceGetClockInfo(device, c.type, &mhz), c.result);
    EXPECT_EQ(mhz, c.now);
    mhz = 0;
    EXPECT_EQ(nvml.nvmlDeviceGetClock(device, c.type, NVML_CLOCK_ID_CURRENT, &mhz), c.result);
    EXPECT_EQ(mhz, c.now);
    for (auto call : {nvml.nvmlDeviceGetMaxClockInfo, nvml.nvmlDeviceGetApplicationsClock,
                      nvml.nvmlDeviceGetDefaultApplicationsClock}) {
      mhz = 0;
      EXPECT_EQ(call(device, c.type, &mhz), c.result);
      EXPECT_EQ(mhz, c.max);
    }
  }
  nvmlPstates_t state;
  EXPECT_EQ(nvml.nvmlDeviceGetPerformanceState(device, &state), NVML_SUCCESS);
  EXPECT_EQ(state, 2);
  nvmlEnableState_t enabled;
  EXPECT_EQ(nvml.nvmlDeviceGetPersistenceMode(device, &enabled), NVML_SUCCESS);
  EXPECT_EQ(enabled, NVML_FEATURE_ENABLED);
  EXPECT_EQ(nvml.nvmlDeviceGetDisplayMode(device, &enabled), NVML_SUCCESS);
  EXPECT_EQ(enabled, NVML_FEATURE_DISABLED);
  nvmlComputeMode_t mode;
  EXPECT_EQ(nvml.nvmlDeviceGetComputeMode(device, &mode), NVML_SUCCESS);
  EXPECT_EQ(mode, NVML_COMPUTEMODE_DEFAULT);
  int major = 0, minor = -1;
  EXPECT_EQ(nvml.nvmlDeviceGetCudaComputeCapability(device, &major, &minor), NVML_SUCCESS);
  EXPECT_EQ(major, 8);
  EXPECT_EQ(minor, 0);
  nvmlBrandType_t brand;
  EXPECT_EQ(nvml.nvmlDeviceGetBrand(device, &brand), NVML_SUCCESS);
  EXPECT_EQ(brand, NVML_BRAND_NVIDIA);
  int same = 0;
  EXPECT_EQ(nvml.nvmlDeviceOnSameBoard(device, device, &same), NVML_SUCCESS);
  EXPECT_EQ(same, 1);
}

TEST_F(NvmlFront, WhatACardDoesNotReportIsNotSupported) {
  nvmlDevice_t device = Start(1);
  unsigned int value = 99;
  for (auto call :
       {nvml.nvmlDeviceGetPowerUsage, nvml.nvmlDeviceGetPowerManagementLimit, nvml.nvmlDeviceGetEnforcedPowerLimit,
        nvml.nvmlDeviceGetFanSpeed, nvml.nvmlDeviceGetNumFans, nvml.nvmlDeviceGetCurrPcieLinkWidth}) {
    EXPECT_EQ(call(device, &value), NVML_ERROR_NOT_SUPPORTED);
  }
  EXPECT_EQ(nvml.nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &value), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(value, 99u);
  nvmlUtilization_t utilization;
  EXPECT_EQ(nvml.nvmlDeviceGetUtilizationRates(device, &utilization), NVML_ERROR_NOT_SUPPORTED);
  nvmlFieldValue_t fields[2] = {};
  EXPECT_EQ(nvml.nvmlDeviceGetFieldValues(device, 2, fields), NVML_SUCCESS);
  EXPECT_EQ(fields[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(nvml.nvmlDeviceGetFieldValues(device, -1, fields), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(exports::nvmlDeviceGetEccMode(), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(exports::nvmlEventSetCreate(), NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(NvmlFront, KnowsCardsByNameAndCapability) {
  struct Case {
    const char* name;
    int major, minor;
    nvmlBrandType_t brand;
    unsigned int architecture, cores;
  };
  const Case cases[] = {
      {"NVIDIA A100-SXM4-80GB", 8, 0, NVML_BRAND_NVIDIA, NVML_DEVICE_ARCH_AMPERE, 640},
      {"Tesla T4", 7, 5, NVML_BRAND_TESLA, NVML_DEVICE_ARCH_TURING, 640},
      {"Tesla V100-SXM2-16GB", 7, 0, NVML_BRAND_TESLA, NVML_DEVICE_ARCH_VOLTA, 640},
      {"NVIDIA GeForce RTX 3090", 8, 6, NVML_BRAND_GEFORCE, NVML_DEVICE_ARCH_AMPERE, 1280},
      {"NVIDIA L4", 8, 9, NVML_BRAND_NVIDIA, NVML_DEVICE_ARCH_ADA, 1280},
      {"NVIDIA H100 80GB HBM3", 9, 0, NVML_BRAND_NVIDIA, NVML_DEVICE_ARCH_HOPPER, 1280},
      {"NVIDIA RTX A6000", 8, 6, NVML_BRAND_NVIDIA_RTX, NVML_DEVICE_ARCH_AMPERE, 1280},
      {"Quadro RTX 8000", 7, 5, NVML_BRAND_QUADRO_RTX, NVML_DEVICE_ARCH_TURING, 640},
      {"NVIDIA B200", 10, 0, NVML_BRAND_NVIDIA, NVML_DEVICE_ARCH_BLACKWELL, 1280},
      {"Something else", 99, 0, NVML_BRAND_UNKNOWN, NVML_DEVICE_ARCH_UNKNOWN, 1280},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    MonitorReport report = TwoCards();
    report.devices[0] = Facts(c.name, kFirstUuid, 1, c.major, c.minor);
    Change(report);
    nvmlDevice_t device = Start(0);
    nvmlBrandType_t brand;
    unsigned int architecture = 0, cores = 0;
    EXPECT_EQ(nvml.nvmlDeviceGetBrand(device, &brand), NVML_SUCCESS);
    EXPECT_EQ(brand, c.brand);
    EXPECT_EQ(nvml.nvmlDeviceGetArchitecture(device, &architecture), NVML_SUCCESS);
    EXPECT_EQ(architecture, c.architecture);
    EXPECT_EQ(nvml.nvmlDeviceGetNumGpuCores(device, &cores), NVML_SUCCESS);
    EXPECT_EQ(cores, c.cores);
    EXPECT_EQ(nvml.nvmlShutdown(), NVML_SUCCESS);
  }
}

TEST_F(NvmlFront, EveryErrorHasWords) {
  for (int code = 0; code <= 30; ++code) {
    EXPECT_STRNE(nvml.nvmlErrorString(static_cast<nvmlReturn_t>(code)), nvml.nvmlErrorString(NVML_ERROR_UNKNOWN))
        << code;
  }
  EXPECT_STRNE(nvml.nvmlErrorString(static_cast<nvmlReturn_t>(12345)), "");
}

TEST_F(NvmlFront, ShutdownWhileOthersCall) {
  Start(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
        nvmlDevice_t device = nullptr;
        nvmlMemory_t memory;
        EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
        EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
        EXPECT_EQ(nvml.nvmlShutdown(), NVML_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvmlSource>> MakeSource() {
  if (!TheWorld().opening.ok()) return TheWorld().opening;
  return std::make_unique<TestSource>();
}

}  // namespace tf::cuda::nvml
