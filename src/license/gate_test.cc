#include "license/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "license/test_licenses.h"

namespace tf::license {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class GateTest : public testing::Test {
 protected:
  GateTest() {
    std::string name = testing::TempDir() + "gate_test.XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/state/license-time";
    Install(IssueForTest(MinimalLicense()));
  }
  ~GateTest() override { std::filesystem::remove_all(folder_); }

  void Install(const Issued& issued) { env_ = {{"TF_LICENSE", issued.text}, {"TF_LICENSE_SIGN", issued.signature}}; }

  GateResult Check(const char* now) {
    FileTimeStore store(path_);
    GateInputs inputs;
    inputs.env = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = env_.find(name);
      if (found == env_.end()) return std::nullopt;
      return found->second;
    };
    inputs.now = At(now);
    inputs.list_gpus = [this]() -> absl::StatusOr<std::vector<std::string>> {
      ++lists_;
      return gpus_;
    };
    inputs.time_store = &store;
    inputs.keyring = &ring_;
    inputs.build_time = At("2026-11-30T00:00:00Z");
    return CheckWorkerLicense(inputs);
  }

  std::map<std::string, std::string> env_;
  std::vector<std::string> gpus_;
  int lists_ = 0;
  Keyring ring_ = TestRing();
  std::string folder_;
  std::string path_;
};

TEST_F(GateTest, PassLine) {
  const GateResult result = Check("2027-01-01T00:00:00Z");
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.line,
            "License verification passed: edition=enterprise expires=2027-11-30T00:00:00Z id=lic-7f3a gpus=any");
  EXPECT_THAT(result.warnings, IsEmpty());
  EXPECT_EQ(result.license->id, "lic-7f3a");
  EXPECT_EQ(lists_, 0) << "an unbound licence needs no driver";
}

TEST_F(GateTest, PassLineOfADevelopmentRing) {
  ring_ = *Keyring::Parse(TestKey().KeyringLine(), true);
  EXPECT_EQ(Check("2027-01-01T00:00:00Z").line,
            "License verification passed: edition=enterprise expires=2027-11-30T00:00:00Z id=lic-7f3a gpus=any "
            "keyring=development");
}

TEST_F(GateTest, RefusedLine) {
  env_.clear();
  const GateResult result = Check("2027-01-01T00:00:00Z");
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.exit_status, 78);
  EXPECT_EQ(result.reason, Reason::kMissingText);
  EXPECT_EQ(
      result.line,
      "License verification failed: missing_text: reading the text: TF_LICENSE is not set or empty; set it to the "
      "licence text");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(GateTest, BoundLicence) {
  Install(IssueForTest(FullLicense()));
  gpus_ = {kGpuB};
  EXPECT_THAT(Check("2027-01-01T00:00:00Z").line, testing::EndsWith(" gpus=2"));
  EXPECT_EQ(lists_, 1);
  gpus_ = {kGpuB, kGpuC};
  EXPECT_THAT(Check("2027-01-01T00:00:00Z").line, StartsWith("License verification failed: gpu_not_licensed: "));
  gpus_ = {};
  EXPECT_THAT(Check("2027-01-01T00:00:00Z").line, StartsWith("License verification failed: gpu_list_unavailable: "));
  EXPECT_EQ(lists_, 3);
  // Refused before the driver is asked.
  EXPECT_THAT(Check("2028-01-01T00:00:00Z").line, StartsWith("License verification failed: expired: "));
  EXPECT_EQ(lists_, 3);
}

TEST_F(GateTest, GraceWarns) {
  License license = MinimalLicense();
  license.grace_days = 14;
  Install(IssueForTest(license));
  const GateResult result = Check("2027-12-01T00:00:00Z");
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.verdict->state, State::kGrace);
  EXPECT_THAT(result.warnings,
              ElementsAre("License expired 2027-11-30T00:00:00Z; grace: 13 days left, then workers are "
                          "refused. Install a renewed licence"));
}

TEST_F(GateTest, RemembersTheLatestAcceptedTime) {
  EXPECT_TRUE(Check("2027-03-01T00:00:00Z").passed);
  EXPECT_EQ(*ReadFile(path_, 100), "2027-03-01T00:00:00Z\n");
  EXPECT_TRUE(Check("2027-02-28T12:00:00Z").passed) << "within the tolerance";
  EXPECT_EQ(*ReadFile(path_, 100), "2027-03-01T00:00:00Z\n");
  const GateResult back = Check("2027-02-01T00:00:00Z");
  EXPECT_EQ(back.reason, Reason::kClockRolledBack);
  EXPECT_THAT(back.line, HasSubstr("remove the file " + path_));
  std::filesystem::remove(path_);
  EXPECT_TRUE(Check("2027-02-01T00:00:00Z").passed) << "doing what the message says helps";
}

TEST_F(GateTest, AClockFarAheadLocksNobodyOut) {
  EXPECT_TRUE(Check("2027-03-01T00:00:00Z").passed);
  EXPECT_EQ(Check("2037-03-01T00:00:00Z").reason, Reason::kExpired);
  EXPECT_TRUE(Check("2027-03-01T00:00:01Z").passed);
}

TEST_F(GateTest, AStoredTimeThatCannotBeUsedIsNoFailure) {
  ASSERT_TRUE(WriteFile(path_, "yesterday\n", 0644).ok());
  GateResult result = Check("2027-03-01T00:00:00Z");
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(result.warnings, ElementsAre(HasSubstr(path_ + " holds no time")));
  EXPECT_EQ(*ReadFile(path_, 100), "2027-03-01T00:00:00Z\n");

  ASSERT_TRUE(WriteFile(path_, std::string(1 << 20, '2'), 0644).ok());
  EXPECT_TRUE(Check("2027-03-01T00:00:00Z").passed);

  path_ += "/below/a/file";
  result = Check("2027-03-01T00:00:00Z");
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(result.warnings, testing::Contains(HasSubstr("TF_LICENSE_STATE=FILE names another place")));
}

TEST(TimeStorePath, FromTheEnvironment) {
  std::map<std::string, std::string> env;
  const EnvLookup lookup = [&env](const std::string& name) -> std::optional<std::string> {
    const auto found = env.find(name);
    if (found == env.end()) return std::nullopt;
    return found->second;
  };
  EXPECT_EQ(TimeStorePath(lookup, true), "/var/lib/tensor-fusion/license-time");
  EXPECT_EQ(TimeStorePath(lookup, false), "/var/lib/tensor-fusion/license-time");
  env["HOME"] = "/home/a";
  EXPECT_EQ(TimeStorePath(lookup, true), "/var/lib/tensor-fusion/license-time");
  EXPECT_EQ(TimeStorePath(lookup, false), "/home/a/.local/state/tensor-fusion/license-time");
  env["XDG_STATE_HOME"] = "/state";
  EXPECT_EQ(TimeStorePath(lookup, true), "/state/tensor-fusion/license-time");
  env["TF_LICENSE_STATE"] = "/some/file";
  EXPECT_EQ(TimeStorePath(lookup, false), "/some/file");
}

TEST(Builtin, TheRingOfThisBuildHasKeysAndItsTimeHasPassed) {
  EXPECT_FALSE(BuiltinKeyring().KidList().empty());
  EXPECT_LE(BuildTime(), absl::Now());
  EXPECT_GT(BuildTime(), At("2020-01-01T00:00:00Z"));
}

}  // namespace
}  // namespace tf::license
