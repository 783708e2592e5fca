#include "gpu/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tf::gpu {
namespace {

using ::testing::HasSubstr;

TEST(Quota, NothingGivenIsTheWholeCard) {
  const absl::StatusOr<Quota> quota = ParseQuota({});
  ASSERT_TRUE(quota.ok());
  EXPECT_EQ(quota->memory_bytes, std::nullopt);
  EXPECT_EQ(quota->compute_percent, std::nullopt);
}

TEST(Quota, BothNamesOfTheMemoryLimit) {
  const absl::StatusOr<Quota> newer = ParseQuota({.gpu_memory_limit = "1024"});
  ASSERT_TRUE(newer.ok());
  EXPECT_EQ(newer->memory_bytes, 1ull << 30);
  const absl::StatusOr<Quota> older = ParseQuota({.cuda_memory_limit = "1"});
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older->memory_bytes, 1ull << 20);
  EXPECT_TRUE(ParseQuota({.gpu_memory_limit = "7", .cuda_memory_limit = "7"}).ok());
  const absl::StatusOr<Quota> different = ParseQuota({.gpu_memory_limit = "7", .cuda_memory_limit = "8"});
  ASSERT_FALSE(different.ok());
  EXPECT_THAT(std::string(different.status().message()), HasSubstr("TF_CUDA_MEMORY_LIMIT, its older name, is 8"));
}

TEST(Quota, RefusesWhatIsNoMemoryLimit) {
  for (const char* text : {"", "0", "-1", "+1", " 1", "1 ", "1.5", "1Gi", "1024MiB", "0x10", "01", "1e3",
                           "17592186044416", "99999999999999999999", "lots", "1\n"}) {
    SCOPED_TRACE(text);
    const absl::StatusOr<Quota> newer = ParseQuota({.gpu_memory_limit = text});
    ASSERT_FALSE(newer.ok());
    EXPECT_THAT(std::string(newer.status().message()),
                HasSubstr("TF_GPU_MEMORY_LIMIT: expected a whole number of MiB"));
    EXPECT_THAT(std::string(newer.status().message()), HasSubstr(text));
    const absl::StatusOr<Quota> older = ParseQuota({.gpu_memory_limit = "5", .cuda_memory_limit = text});
    ASSERT_FALSE(older.ok());
    EXPECT_THAT(std::string(older.status().message()), HasSubstr("TF_CUDA_MEMORY_LIMIT: expected"));
  }
  EXPECT_TRUE(ParseQuota({.gpu_memory_limit = "17592186044415"}).ok());
}

TEST(Quota, ComputeShare) {
  for (const auto& [text, percent] : {std::pair("1", 1u), std::pair("25", 25u), std::pair("100", 100u)}) {
    const absl::StatusOr<Quota> quota = ParseQuota({.cuda_sm_percent_limit = text});
    ASSERT_TRUE(quota.ok());
    EXPECT_EQ(quota->compute_percent, percent);
  }
  for (const char* text : {"", "0", "101", "25%", "-5", "2.5", "all", "18446744073709551617"}) {
    SCOPED_TRACE(text);
    const absl::StatusOr<Quota> quota = ParseQuota({.cuda_sm_percent_limit = text});
    ASSERT_FALSE(quota.ok());
    EXPECT_THAT(std::string(quota.status().message()), HasSubstr("TF_CUDA_SM_PERCENT_LIMIT: expected"));
  }
}

TEST(Quota, SizesOfTheCommandLine) {
  const std::pair<const char*, uint64_t> sizes[] = {{"1", 1},
                                                    {"1000", 1000},
                                                    {"2Gi", 2ull << 30},
                                                    {"512Mi", 512ull << 20},
                                                    {"4Ki", 4096},
                                                    {"1Ti", 1ull << 40},
                                                    {"3k", 3000},
                                                    {"5M", 5000000},
                                                    {"80G", 80000000000ull},
                                                    {"2T", 2000000000000ull},
                                                    {"16777215Ti", 16777215ull << 40}};
  for (const auto& [text, bytes] : sizes) {
    const absl::StatusOr<uint64_t> size = ParseSize(text);
    ASSERT_TRUE(size.ok()) << text;
    EXPECT_EQ(*size, bytes) << text;
  }
  for (const char* text : {"", "0", "Gi", "1.5Gi", "2 Gi", "2GiB", "2gi", "-1Gi", "16777216Ti", "1GiGi", "2GB"}) {
    const absl::StatusOr<uint64_t> size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_THAT(std::string(size.status().message()), HasSubstr("such as 2Gi"));
  }
}

TEST(Quota, PercentOfTheCommandLine) {
  EXPECT_EQ(ParsePercent("25%").value(), 25u);
  EXPECT_EQ(ParsePercent("100").value(), 100u);
  for (const char* text : {"", "%", "0%", "101%", "25%%", "2.5%", " 25%"})
    EXPECT_FALSE(ParsePercent(text).ok()) << text;
}

}  // namespace
}  // namespace tf::gpu
