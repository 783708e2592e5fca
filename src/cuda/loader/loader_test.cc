#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "cuda/loader/library.h"
#include "cuda/loader/monitor.h"
#include "cuda/loader/nvml_fixture.h"

namespace tf::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFolder[] = TF_NVML_FIXTURE;
constexpr char kFile[] = TF_NVML_FIXTURE "/libnvidia-ml.so.1";

class Loader : public ::testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { Clear(); }
  static void Clear() {
    for (const char* name : {"TF_CUDA_LIB_PATH", "TF_NVML_LIB_PATH", "CUDA_VISIBLE_DEVICES"}) unsetenv(name);
  }
};

TEST_F(Loader, FindsNvmlWhereItWasPut) {
  EXPECT_EQ(LoadNvml(kFile).value().path, kFile);
  EXPECT_EQ(LoadNvml(kFolder).value().path, kFile);
  setenv("TF_NVML_LIB_PATH", kFolder, 1);
  EXPECT_EQ(LoadNvml().value().path, kFile);
  unsetenv("TF_NVML_LIB_PATH");
  setenv("TF_CUDA_LIB_PATH", (std::string(kFolder) + "/libcuda.so.1").c_str(), 1);
  EXPECT_EQ(LoadNvml().value().path, kFile) << "beside the driver that was chosen";
  setenv("TF_CUDA_LIB_PATH", kFolder, 1);
  EXPECT_EQ(LoadNvml().value().path, kFile);
}

TEST_F(Loader, SaysWhatIsMissing) {
  const absl::Status driver = LoadDriver("/nowhere/libcuda.so.1").status();
  EXPECT_EQ(driver.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(driver.message()), HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_THAT(std::string(driver.message()), HasSubstr("set TF_CUDA_LIB_PATH"));
  EXPECT_THAT(std::string(LoadDriver(kFile).status().message()), HasSubstr("is not the CUDA driver: it has no cuInit"));
  EXPECT_THAT(std::string(LoadNvml("/nowhere").status().message()), HasSubstr("set TF_NVML_LIB_PATH"));
  EXPECT_THAT(std::string(LoadNvml("libdl.so.2").status().message()), HasSubstr("it has no nvmlInit_v2"));
}

TEST_F(Loader, ReadsBackWhatNvmlWasGiven) {
  const absl::StatusOr<NvmlLibrary> library = LoadNvml(kFolder);
  ASSERT_TRUE(library.ok()) << library.status();
  const absl::StatusOr<std::unique_ptr<NvmlSession>> session = NvmlSession::Start(library->functions);
  ASSERT_TRUE(session.ok()) << session.status();
  absl::StatusOr<MonitorReport> read = (*session)->Read();
  ASSERT_TRUE(read.ok()) << read.status();
  const MonitorReport expected = FixtureReport();
  EXPECT_EQ(read->driver_version, expected.driver_version);
  EXPECT_EQ(read->cuda_version, expected.cuda_version);
  ASSERT_EQ(read->devices.size(), 2u);
  ASSERT_EQ(read->reports.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    const DeviceFacts &facts = read->devices[i], &wanted = expected.devices[i];
    EXPECT_EQ(facts.name, wanted.name);
    EXPECT_EQ(facts.uuid, wanted.uuid);
    EXPECT_EQ(facts.pci_domain, wanted.pci_domain);
    EXPECT_EQ(facts.pci_bus, wanted.pci_bus);
    EXPECT_EQ(facts.pci_device, wanted.pci_device);
    EXPECT_EQ(facts.total_memory, wanted.total_memory);
    EXPECT_EQ(facts.attributes, wanted.attributes);
    EXPECT_GT(read->reports[i].time, 1600000000000000u);
    // Every number of a report, whatever it is called.
    const auto numbers = [](const DeviceReport& report) {
      std::vector<uint64_t> values;
      std::apply(
          [&](auto... fields) {
            const auto add = [&](const auto& value) {
              if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(value)>>) values.push_back(value);
            };
            (add(report.*fields), ...);
          },
          DeviceReport::kFields);
      return values;
    };
    read->reports[i].time = expected.reports[i].time;
    EXPECT_EQ(numbers(read->reports[i]), numbers(expected.reports[i]));
    ASSERT_EQ(read->reports[i].processes.size(), expected.reports[i].processes.size());
    for (size_t p = 0; p < expected.reports[i].processes.size(); ++p) {
      EXPECT_EQ(read->reports[i].processes[p].pid, expected.reports[i].processes[p].pid);
      EXPECT_EQ(read->reports[i].processes[p].memory, expected.reports[i].processes[p].memory);
      EXPECT_EQ(read->reports[i].processes[p].busy_percent, expected.reports[i].processes[p].busy_percent);
    }
  }
}

TEST_F(Loader, VisibleGpus) {
  const NvmlLibrary library = LoadNvml(kFolder).value();
  const std::string first = FixtureReport().devices[0].uuid, second = FixtureReport().devices[1].uuid;
  EXPECT_THAT(VisibleGpuUuids(library.functions).value(), ElementsAre(first, second));
  setenv("CUDA_VISIBLE_DEVICES", "GPU-bb", 1);
  EXPECT_THAT(VisibleGpuUuids(library.functions).value(), ElementsAre(second));
  unsigned int count = 0;
  EXPECT_EQ(library.functions.nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED) << "left as it was found";

  const std::vector<std::string> both = {first, second};
  EXPECT_THAT(KeepVisible(both, second + "," + first), ElementsAre(second, first));
  EXPECT_THAT(KeepVisible(both, " GPU-aa , GPU-aa"), ElementsAre(first));
  EXPECT_THAT(KeepVisible(both, "GPU-bb,GPU-cc,GPU-aa"), ElementsAre(second));
  EXPECT_THAT(KeepVisible(both, "GPU-cc"), IsEmpty());
  EXPECT_THAT(KeepVisible(both, "0"), ElementsAre(first, second)) << "numbers are the driver's: all may be meant";
  EXPECT_THAT(KeepVisible(both, "GPU-aa,1"), ElementsAre(first, second));
  EXPECT_THAT(KeepVisible(both, ""), ElementsAre(first, second));
}

TEST_F(Loader, AnNvmlWithoutTheBasicsIsRefused) {
  EXPECT_EQ(NvmlSession::Start(NvmlFunctions()).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Samples that a fake NVML has, the newest last.
std::vector<nvmlProcessUtilizationSample_t> samples;

nvmlReturn_t FakeSamples(nvmlDevice_t, nvmlProcessUtilizationSample_t* out, unsigned int* count,
                         unsigned long long since) {
  std::vector<nvmlProcessUtilizationSample_t> newer;
  for (const auto& sample : samples) {
    if (sample.timeStamp > since) newer.push_back(sample);
  }
  if (newer.empty()) return NVML_ERROR_NOT_FOUND;
  const unsigned int room = out == nullptr ? 0 : *count;
  *count = static_cast<unsigned int>(newer.size());
  if (room < newer.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::copy(newer.begin(), newer.end(), out);
  return NVML_SUCCESS;
}

TEST_F(Loader, BusyClockAddsUpTheSamplesOfItsProcess) {
  NvmlFunctions fake = LoadNvml(kFolder).value().functions;
  fake.nvmlDeviceGetProcessUtilization = FakeSamples;
  samples.clear();
  const std::unique_ptr<NvmlSession> session = NvmlSession::Start(fake).value();
  EXPECT_EQ(BusyClock::Make(*session, "GPU-nobody", 11).status().code(), absl::StatusCode::kNotFound);
  BusyClock clock = BusyClock::Make(*session, FixtureReport().devices[0].uuid, 11).value();
  EXPECT_EQ(clock.Nanoseconds(), 0u);

  // Far in the future, so that the time at which the clock was made does not matter: the first sample counts for one
  // second at most.
  constexpr unsigned long long kStart = 1ull << 60;
  const auto add = [](unsigned int pid, unsigned long long time, unsigned int percent) {
    samples.push_back({.pid = pid, .timeStamp = time, .smUtil = percent, .memUtil = 0, .encUtil = 0, .decUtil = 0});
  };
  add(11, kStart, 10);
  EXPECT_EQ(clock.Nanoseconds(), 100000000u);
  EXPECT_EQ(clock.Nanoseconds(), 100000000u) << "no sample counts twice";
  add(12, kStart + 500, 90);
  add(11, kStart + 1000, 50);
  EXPECT_EQ(clock.Nanoseconds(), 100500000u);
  add(12, kStart + 2000, 100);
  EXPECT_EQ(clock.Nanoseconds(), 100500000u) << "others do not count";
  add(11, kStart + 3000, 100);
  add(11, kStart + 4000, 25);
  EXPECT_EQ(clock.Nanoseconds(), 100500000u + 1000000u + 250000u);
}

}  // namespace
}  // namespace tf::cuda
