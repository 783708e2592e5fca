#include "placement/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tf::placement {
namespace {

using testing::HasSubstr;

constexpr int64_t kGib = int64_t{1} << 30;

Card A100(const std::string& name, const std::string& node = "n0", int32_t index = 0) {
  return {.name = name,
          .node = node,
          .pool = "gold",
          .vendor = "NVIDIA",
          .model = "NVIDIA A100-SXM4-80GB",
          .short_model = "A100",
          .index = index,
          .usable = true,
          .capacity = {312'000, 80 * kGib},
          .limit_capacity = {5 * 312'000, 120 * kGib}};
}

Request Of(int64_t tflops, int64_t gib, int count = 1) {
  return {.pool = "gold", .request = {tflops * 1000, gib * kGib}, .limit = {tflops * 1000, gib * kGib}, .count = count};
}

class LedgerTest : public testing::Test {
 protected:
  void SetUp() override {
    ledger_.SetCard(A100("a", "n0", 0));
    ledger_.SetCard(A100("b", "n0", 1));
    ledger_.SetCard(A100("c", "n1", 0));
  }
  CardId Id(const std::string& name) {
    for (const Ledger::Slot& slot : ledger_.slots()) {
      if (ledger_.CardName(slot.id) == name) return slot.id;
    }
    ADD_FAILURE() << name;
    return 0;
  }
  absl::Status Hold(const std::string& uid, const Request& request, const std::vector<std::string>& cards,
                    absl::Time until = absl::InfiniteFuture()) {
    Entry entry{.ns = "ns", .name = uid, .request = request, .until = until};
    for (const std::string& card : cards) entry.cards.push_back(Id(card));
    return ledger_.Hold(uid, std::move(entry));
  }

  Ledger ledger_;
};

TEST_F(LedgerTest, GivesNoMoreThanThereIs) {
  ASSERT_TRUE(Hold("1", Of(200, 40), {"a"}).ok());
  EXPECT_THAT(std::string(Hold("2", Of(113, 1), {"a"}).message()), HasSubstr("card a: too little compute free"));
  EXPECT_THAT(std::string(Hold("2", Of(1, 41), {"a"}).message()), HasSubstr("card a: too little memory free"));
  EXPECT_TRUE(Hold("2", Of(112, 40), {"a"}).ok());
  EXPECT_EQ(ledger_.FreeOf("a"), Amount{});
  EXPECT_EQ(ledger_.FreeOf("b"), (Amount{312'000, 80 * kGib}));
}

TEST_F(LedgerTest, LimitsShareTheOversubscribedCapacity) {
  Request request = Of(10, 10);
  request.limit = {800'000, 50 * kGib};
  ASSERT_TRUE(Hold("1", request, {"a"}).ok());
  EXPECT_THAT(std::string(Hold("2", request, {"a"}).message()), HasSubstr("for the limit"));
  request.limit.millitflops = 700'000;
  ASSERT_TRUE(Hold("2", request, {"a"}).ok());
  request.limit.millitflops = 10'000;
  EXPECT_THAT(std::string(Hold("3", request, {"a"}).message()), HasSubstr("oversubscribed memory"));
}

TEST_F(LedgerTest, AHoldThatIsRefusedLeavesTheLastOne) {
  ASSERT_TRUE(Hold("1", Of(100, 10), {"a"}).ok());
  EXPECT_FALSE(Hold("1", Of(400, 10), {"b"}).ok());
  EXPECT_EQ(ledger_.FreeOf("a").millitflops, 212'000);
  ASSERT_TRUE(Hold("1", Of(100, 10), {"b"}).ok());  // moves
  EXPECT_EQ(ledger_.FreeOf("a").millitflops, 312'000);
  EXPECT_EQ(ledger_.FreeOf("b").millitflops, 212'000);
}

TEST_F(LedgerTest, SeveralCardsAreDifferentOnesOfOneNode) {
  EXPECT_TRUE(Hold("1", Of(100, 10, 2), {"a", "b"}).ok());
  EXPECT_FALSE(Hold("2", Of(100, 10, 2), {"a", "a"}).ok());
  EXPECT_FALSE(Hold("2", Of(100, 10, 2), {"a", "c"}).ok());
  EXPECT_FALSE(Hold("2", Of(100, 10, 2), {"a"}).ok());
  EXPECT_EQ(ledger_.UsageOf("a").pods, 1);
}

TEST_F(LedgerTest, AHoldRunsOutAndACommitmentDoesNot) {
  const absl::Time start = absl::UnixEpoch();
  ASSERT_TRUE(Hold("1", Of(100, 10), {"a"}, start + absl::Seconds(30)).ok());
  ASSERT_TRUE(Hold("2", Of(100, 10), {"a"}, start + absl::Seconds(30)).ok());
  ASSERT_TRUE(ledger_.Commit("2").ok());
  EXPECT_EQ(ledger_.ExpireHolds(start + absl::Seconds(29)), 0);
  EXPECT_EQ(ledger_.ExpireHolds(start + absl::Seconds(30)), 1);
  EXPECT_EQ(ledger_.FreeOf("a").millitflops, 212'000);
  EXPECT_TRUE(absl::IsNotFound(ledger_.Commit("1")));
  EXPECT_TRUE(absl::IsAlreadyExists(Hold("2", Of(1, 1), {"b"})));
}

TEST_F(LedgerTest, ReleaseIsIdempotent) {
  ASSERT_TRUE(Hold("1", Of(100, 10), {"a"}).ok());
  ledger_.Release("1");
  ledger_.Release("1");
  ledger_.Release("never");
  EXPECT_EQ(ledger_.FreeOf("a"), (Amount{312'000, 80 * kGib}));
}

TEST_F(LedgerTest, ALateDeletionOfAnOldPodFreesNothingOfTheNewOne) {
  ledger_.Observe("old", "ns", "p", Of(100, 10), {"a"});
  ledger_.Release("old");
  ledger_.Observe("new", "ns", "p", Of(100, 10), {"a"});
  ledger_.Release("old");
  EXPECT_EQ(ledger_.UsageOf("a").pods, 1);
}

TEST_F(LedgerTest, WhatIsBoundIsWrittenDownEvenWhereItDoesNotFit) {
  ledger_.Observe("1", "ns", "p", Of(300, 10), {"a"});
  ledger_.Observe("2", "ns", "q", Of(300, 10), {"a"});
  EXPECT_EQ(ledger_.UsageOf("a").requests.millitflops, 600'000);
  EXPECT_EQ(ledger_.FreeOf("a").millitflops, 0);
  EXPECT_FALSE(Hold("3", Of(1, 1), {"a"}).ok());
}

TEST_F(LedgerTest, AWholeCardIsNobodyElses) {
  Request whole{.pool = "gold", .isolation = Isolation::kShared};
  ASSERT_TRUE(Hold("1", whole, {"a"}).ok());
  EXPECT_THAT(std::string(Hold("2", Of(1, 1), {"a"}).message()), HasSubstr("not free as a whole"));
  ASSERT_TRUE(Hold("2", Of(1, 1), {"b"}).ok());
  EXPECT_FALSE(Hold("3", whole, {"b"}).ok());
  EXPECT_EQ(ledger_.FreeOf("a"), Amount{});
}

TEST_F(LedgerTest, IsolationsThatDoNotGoTogether) {
  Card dynamic = A100("d", "n2");
  dynamic.one_at_a_time = true;
  ledger_.SetCard(dynamic);
  Card fixed = A100("e", "n2", 1);
  fixed.only = Isolation::kHard;
  ledger_.SetCard(fixed);
  Request hard = Of(1, 1);
  hard.isolation = Isolation::kHard;
  const Request soft = Of(1, 1);
  ASSERT_TRUE(Hold("1", hard, {"d"}).ok());
  EXPECT_THAT(std::string(Hold("2", soft, {"d"}).message()), HasSubstr("another isolation mode"));
  ledger_.Release("1");
  EXPECT_TRUE(Hold("2", soft, {"d"}).ok());
  EXPECT_FALSE(Hold("3", soft, {"e"}).ok());
  EXPECT_TRUE(Hold("3", hard, {"e"}).ok());
  EXPECT_TRUE(Hold("4", soft, {"a"}).ok());
  EXPECT_TRUE(Hold("5", hard, {"a"}).ok()) << "a card without a rule takes both";
}

TEST_F(LedgerTest, PercentIsOfTheCardAsItIs) {
  Request half{.pool = "gold", .request_millipercent = 50'000, .limit_millipercent = 50'000};
  ASSERT_TRUE(Hold("1", half, {"a"}).ok());
  EXPECT_EQ(ledger_.FreeOf("a").millitflops, 156'000);
  Card grown = A100("a");
  grown.capacity.millitflops = 400'000;
  ledger_.SetCard(grown);
  EXPECT_EQ(ledger_.FreeOf("a").millitflops, 200'000);
  ledger_.Release("1");
  EXPECT_EQ(ledger_.FreeOf("a").millitflops, 400'000);
}

TEST_F(LedgerTest, ACardThatComesBackIsAsTakenAsItWas) {
  ledger_.Observe("1", "ns", "p", Of(100, 10), {"a"});
  ledger_.RemoveCard("a");
  EXPECT_EQ(ledger_.FindCard("a"), nullptr);
  EXPECT_EQ(ledger_.FreeOf("a"), Amount{});
  ledger_.SetCard(A100("a"));
  EXPECT_EQ(ledger_.FreeOf("a").millitflops, 212'000);
  // A pod that is seen before its card.
  ledger_.Observe("2", "ns", "q", Of(12, 8), {"late"});
  ledger_.SetCard(A100("late", "n3"));
  EXPECT_EQ(ledger_.FreeOf("late"), (Amount{300'000, 72 * kGib}));
}

TEST_F(LedgerTest, ResizeNeedsRoomAndChangesNothingWithoutIt) {
  ASSERT_TRUE(Hold("1", Of(100, 10), {"a"}).ok());
  ASSERT_TRUE(Hold("2", Of(200, 10), {"a"}).ok());
  EXPECT_FALSE(ledger_.Resize("1", Of(113, 10)).ok());
  EXPECT_EQ(ledger_.FreeOf("a").millitflops, 12'000);
  EXPECT_TRUE(ledger_.Resize("1", Of(112, 10)).ok());
  EXPECT_TRUE(ledger_.Resize("1", Of(10, 70)).ok());
  EXPECT_EQ(ledger_.FreeOf("a"), (Amount{102'000, 0}));
  EXPECT_FALSE(ledger_.Resize("1", Of(1, 1, 2)).ok());
  EXPECT_TRUE(absl::IsNotFound(ledger_.Resize("3", Of(1, 1))));
}

}  // namespace
}  // namespace tf::placement
