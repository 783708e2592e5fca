#include "simgpu/nvml/sim_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tf::simgpu {
namespace {

const std::atomic<bool> kNever{false};

class SimSourceTest : public ::testing::Test {
 protected:
  SimSourceTest()
      : list_(ParseCards("A100-80G:1,T4:1", absl::StrCat("sim_source_test ", getpid())).value()),
        state_(CardState::Open(list_).value()),
        source_(state_) {}
  ~SimSourceTest() override {
    unlink(absl::StrCat("/dev/shm/tensor-fusion-sim-", geteuid(), "-", list_.identity).c_str());
  }

  // Keeps the card busy until the clock has moved by this much.
  static void Work(CardMember& member, absl::Duration duration) {
    ASSERT_TRUE(member.Acquire(kNever));
    Pass(duration);
    member.Yield();
  }
  static void Pass(absl::Duration duration) {
    const absl::Time end = absl::Now() + duration;
    while (absl::Now() < end) {
    }
  }

  const CardList list_;
  const std::shared_ptr<CardState> state_;
  SimSource source_;
};

TEST_F(SimSourceTest, ReportsTheCards) {
  const cuda::MonitorReport report = source_.Read().value();
  EXPECT_EQ(report.cuda_version, kDriverVersion);
  EXPECT_EQ(report.driver_version, kDriverRelease);
  ASSERT_EQ(report.devices.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(report.devices[i].uuid, list_.cards[i].uuid);
    EXPECT_EQ(report.devices[i].total_memory, report.reports[i].memory_total) << "driver and NVML agree";
    EXPECT_EQ(report.reports[i].memory_used, 0u);
    EXPECT_EQ(report.reports[i].busy_percent, 0u);
    EXPECT_THAT(report.reports[i].processes, ::testing::IsEmpty());
    EXPECT_GT(report.reports[i].power, 0u);
    EXPECT_LE(report.reports[i].power, report.reports[i].power_limit);
  }
  EXPECT_EQ(report.reports[0].fan_percent, cuda::nvml::kNotReported);
}

TEST_F(SimSourceTest, ReportsWhoHoldsMemory) {
  const std::unique_ptr<CardMember> member = state_->Join(1).value();
  ASSERT_TRUE(member->Reserve(5 << 20));
  const cuda::MonitorReport report = source_.Read().value();
  EXPECT_EQ(report.reports[0].memory_used, 0u);
  EXPECT_EQ(report.reports[1].memory_used, 5u << 20);
  ASSERT_EQ(report.reports[1].processes.size(), 1u);
  EXPECT_EQ(report.reports[1].processes[0].pid, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(report.reports[1].processes[0].memory, 5u << 20);
}

TEST_F(SimSourceTest, SamplesAreExactBetweenTwoAnswers) {
  EXPECT_THAT(source_.ProcessSamples(0, 0).value(), ::testing::IsEmpty());
  const std::unique_ptr<CardMember> member = state_->Join(0).value();
  const std::vector<cuda::nvml::ProcessSample> first = source_.ProcessSamples(0, 0).value();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].busy_percent, 0u);
  Work(*member, absl::Milliseconds(30));
  const std::vector<cuda::nvml::ProcessSample> busy = source_.ProcessSamples(0, first[0].time).value();
  ASSERT_EQ(busy.size(), 1u);
  EXPECT_EQ(busy[0].pid, static_cast<uint32_t>(getpid()));
  EXPECT_GT(busy[0].busy_percent, 0u);
  Pass(absl::Milliseconds(5));
  const std::vector<cuda::nvml::ProcessSample> idle = source_.ProcessSamples(0, busy[0].time).value();
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_EQ(idle[0].busy_percent, 0u) << "only what came after";
  EXPECT_GT(idle[0].time, busy[0].time);
  // The same question again answers about the longer time. Times of busy and window differ by the pauses of this
  // machine only.
  const std::vector<cuda::nvml::ProcessSample> whole = source_.ProcessSamples(0, first[0].time).value();
  const double window = static_cast<double>(whole[0].time - first[0].time) / 1000;
  const double share = static_cast<double>(state_->Read(0).busy_ns) / 1e6 / window * 100;
  EXPECT_NEAR(whole[0].busy_percent, share, 1.0);
  EXPECT_THAT(source_.ProcessSamples(0, whole[0].time + 1000000000).value(), ::testing::IsEmpty())
      << "nothing is newer than the future";
}

}  // namespace
}  // namespace tf::simgpu
