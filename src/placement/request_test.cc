#include "placement/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <map>

namespace tf::placement {
namespace {

using testing::HasSubstr;

kube::Json Pod(const std::map<std::string, std::string>& annotations) {
  kube::JsonObject all{{"tensor-fusion.ai/gpupool", "gold"}};
  for (const auto& [name, value] : annotations) all["tensor-fusion.ai/" + name] = value;
  return kube::JsonObject{{"metadata", kube::JsonObject{{"name", "p"}, {"namespace", "n"}, {"annotations", all}}}};
}

TEST(Request, IsReadFromAnnotations) {
  const auto request = RequestOf(Pod({{"tflops-request", "20"},
                                      {"tflops-limit", "40500m"},
                                      {"vram-request", "4Gi"},
                                      {"vram-limit", "8Gi"},
                                      {"gpu-count", "2"},
                                      {"gpu-model", "A100"},
                                      {"vendor", "NVIDIA"},
                                      {"isolation", "hard"}}));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(*request, (Request{.pool = "gold",
                               .vendor = "NVIDIA",
                               .model = "A100",
                               .request = {20'000, int64_t{4} << 30},
                               .limit = {40'500, int64_t{8} << 30},
                               .count = 2,
                               .isolation = Isolation::kHard}));
  EXPECT_EQ(Text(*request), "2 cards of model A100 of vendor NVIDIA with 20 TFLOPS and 4Gi");
}

TEST(Request, WhatIsMissingIsTheOtherOne) {
  const auto limits = RequestOf(Pod({{"tflops-limit", "40"}, {"vram-limit", "8Gi"}}));
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(limits->request, limits->limit);
  const auto percent = RequestOf(Pod({{"compute-percent-request", "12.5"}, {"vram-request", "1Gi"}}));
  ASSERT_TRUE(percent.ok());
  EXPECT_EQ(percent->request_millipercent, 12'500);
  EXPECT_EQ(percent->limit_millipercent, 12'500);
  EXPECT_EQ(percent->isolation, Isolation::kSoft);
}

TEST(Request, IndicesAreTheCount) {
  const auto request = RequestOf(Pod({{"vram-request", "1Gi"}, {"gpu-indices", "0, 3"}}));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->count, 2);
  EXPECT_EQ(request->indices, (std::vector<int32_t>{0, 3}));
}

TEST(Request, TheWholeCardNeedsNoAmount) {
  const auto request = RequestOf(Pod({{"isolation", "shared"}}));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(Text(*request), "1 card, whole");
}

TEST(Request, WhatIsWrongIsNamed) {
  const struct {
    std::map<std::string, std::string> annotations;
    const char* said;
  } cases[] = {
      {{{"tflops-request", "many"}}, "annotation tensor-fusion.ai/tflops-request: expected TFLOPS"},
      {{{"vram-request", "-1Gi"}}, "annotation tensor-fusion.ai/vram-request: expected bytes"},
      {{{"vram-request", "2Gi"}, {"vram-limit", "1Gi"}}, "no more than tensor-fusion.ai/vram-limit, which is 1Gi"},
      {{{"compute-percent-request", "101"}}, "expected percent from 0 to 100, found \"101\""},
      {{{"tflops-request", "1"}, {"compute-percent-limit", "10"}}, "expected one of them, found both"},
      {{{"vram-request", "1Gi"}, {"gpu-count", "0"}}, "expected a number from 1 to 128, found \"0\""},
      {{{"vram-request", "1Gi"}, {"gpu-count", "129"}}, "found \"129\""},
      {{{"vram-request", "1Gi"}, {"gpu-indices", "1,1"}}, "different numbers"},
      {{{"vram-request", "1Gi"}, {"gpu-indices", "1,2"}, {"gpu-count", "3"}}, "expected 2, as many as"},
      {{{"vram-request", "1Gi"}, {"isolation", "partitioned"}}, "not supported"},
      {{{"vram-request", "1Gi"}, {"isolation", "firm"}}, "expected soft, hard or shared, found \"firm\""},
      {{{"gpupool", ""}, {"vram-request", "1Gi"}}, "the name of a GPUPool"},
      {{{"gpu-count", "2"}}, "above 0, found none"},
  };
  for (const auto& one : cases) {
    const auto request = RequestOf(Pod(one.annotations));
    ASSERT_FALSE(request.ok()) << one.said;
    EXPECT_THAT(std::string(request.status().message()), HasSubstr(one.said));
  }
}

TEST(Request, AbsurdAmountsAreBounded) {
  const auto request = RequestOf(Pod({{"tflops-request", "9E"}, {"vram-request", "7Ei"}}));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->request, (Amount{kMostMilliTflops, kMostVram}));
}

TEST(Cards, AreSeparatedByCommas) {
  EXPECT_EQ(CardsOf(Pod({{"gpu-ids", "gpu-a, gpu-b"}})), (std::vector<std::string>{"gpu-a", "gpu-b"}));
  EXPECT_TRUE(CardsOf(Pod({})).empty());
}

}  // namespace
}  // namespace tf::placement
