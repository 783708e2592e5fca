#include "placement/finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "placement/explain.h"

namespace tf::placement {
namespace {

using testing::ElementsAre;

constexpr int64_t kGib = int64_t{1} << 30;

class FinderTest : public testing::Test {
 protected:
  // n0: two A100, n1: two A100, n2: one H100; n3 without cards of the pool.
  void SetUp() override {
    for (const char* name : {"n0-0", "n0-1", "n1-0", "n1-1", "n2-0", "n3-0"}) {
      const std::string text(name);
      const bool h100 = text[1] == '2';
      ledger_.SetCard({.name = text,
                       .node = text.substr(0, 2),
                       .pool = text[1] == '3' ? "iron" : "gold",
                       .vendor = "NVIDIA",
                       .model = h100 ? "NVIDIA H100 80GB HBM3" : "NVIDIA A100-SXM4-80GB",
                       .short_model = h100 ? "H100" : "A100",
                       .index = text[3] - '0',
                       .usable = true,
                       .capacity = {h100 ? 989'000 : 312'000, 80 * kGib},
                       .limit_capacity = {h100 ? 989'000 : 312'000, 80 * kGib}});
    }
    for (const char* name : {"n0", "n1", "n2", "n3"}) nodes_.push_back(ledger_.FindNode(name));
    nodes_.push_back(kNoNode);
  }
  void Take(const std::string& card, int64_t tflops, int64_t gib) {
    ledger_.Observe(card + std::to_string(++pods_), "ns", "p", Of(tflops, gib), {card});
  }
  static Request Of(int64_t tflops, int64_t gib, int count = 1) {
    return {
        .pool = "gold", .request = {tflops * 1000, gib * kGib}, .limit = {tflops * 1000, gib * kGib}, .count = count};
  }
  std::vector<std::string> Place(const Request& request, Mode mode = Mode::kNodeCompactGpuLowLoad) {
    Find(ledger_, request, mode, nodes_, decision_);
    std::vector<std::string> names;
    for (const CardId card : decision_.cards) names.push_back(ledger_.CardName(card));
    return names;
  }

  Ledger ledger_;
  std::vector<NodeId> nodes_;
  Decision decision_;
  int pods_ = 0;
};

TEST_F(FinderTest, TheModesOfPlacement) {
  Take("n1-1", 100, 20);
  Take("n0-0", 20, 4);
  EXPECT_THAT(Place(Of(10, 1), Mode::kCompactFirst), ElementsAre("n1-1"));
  EXPECT_THAT(Place(Of(10, 1), Mode::kLowLoadFirst), ElementsAre("n2-0"));
  EXPECT_THAT(Place(Of(10, 1), Mode::kNodeCompactGpuLowLoad), ElementsAre("n1-0"));
  EXPECT_EQ(ParseMode("CompactFirst"), Mode::kCompactFirst);
  EXPECT_EQ(ParseMode("LowLoadFirst"), Mode::kLowLoadFirst);
  EXPECT_EQ(ParseMode(""), Mode::kNodeCompactGpuLowLoad);
}

TEST_F(FinderTest, ModelVendorAndIndex) {
  Request request = Of(10, 1);
  request.model = "H100";
  EXPECT_THAT(Place(request), ElementsAre("n2-0"));
  request.model = "NVIDIA H100 80GB HBM3";
  EXPECT_THAT(Place(request), ElementsAre("n2-0"));
  request.model = "B200";
  EXPECT_THAT(Place(request), ElementsAre());
  EXPECT_EQ(Explain(request, decision_),
            "no room in pool gold for 1 card of model B200 with 10 TFLOPS and 1Gi: of 5 cards on 3 nodes 5: another "
            "model");
  request = Of(10, 1);
  request.vendor = "AMD";
  EXPECT_THAT(Place(request), ElementsAre());
  EXPECT_EQ(decision_.cards_dropped[static_cast<size_t>(Filter::kVendor)], 5);
  request = Of(10, 1);
  request.indices = {1};
  EXPECT_THAT(Place(request), ElementsAre("n0-1"));
  request.indices = {0, 1};
  request.count = 2;
  EXPECT_THAT(Place(request), ElementsAre("n0-0", "n0-1"));
}

TEST_F(FinderTest, SeveralCardsAreOfOneNode) {
  Take("n0-0", 310, 1);
  EXPECT_THAT(Place(Of(100, 1, 2)), ElementsAre("n1-0", "n1-1"));
  Take("n1-1", 310, 1);
  EXPECT_THAT(Place(Of(100, 1, 2)), ElementsAre());
  EXPECT_EQ(Explain(Of(100, 1, 2), decision_),
            "no room in pool gold for 2 cards with 100 TFLOPS and 1Gi: of 5 cards on 3 nodes 2: too little compute "
            "free, 3: too few such cards on one node");
  EXPECT_THAT(decision_.verdicts,
              ElementsAre(Filter::kCount, Filter::kCount, Filter::kCount, Filter::kPool, Filter::kPool));
}

TEST_F(FinderTest, ReasonsAreCountedFilterByFilter) {
  Card card = *ledger_.FindCard("n0-0");
  card.usable = false;
  ledger_.SetCard(card);
  Take("n0-1", 300, 1);
  Take("n1-0", 1, 79);
  Take("n1-1", 1, 79);
  Request request = Of(50, 4);
  request.model = "A100";
  EXPECT_THAT(Place(request), ElementsAre());
  EXPECT_EQ(Explain(request, decision_),
            "no room in pool gold for 1 card of model A100 with 50 TFLOPS and 4Gi: of 5 cards on 3 nodes 1: not ready, "
            "1: another model, 1: too little compute free, 2: too little memory free");
  EXPECT_THAT(decision_.verdicts,
              ElementsAre(Filter::kTflops, Filter::kVram, Filter::kModel, Filter::kPool, Filter::kPool));
  EXPECT_EQ(ExplainNode(decision_.verdicts[1]), "GPU: too little memory free");
  EXPECT_EQ(ExplainNode(decision_.verdicts[3]), "no GPU of its pool");
}

TEST_F(FinderTest, APoolWithoutCards) {
  Request request = Of(1, 1);
  request.pool = "silver";
  EXPECT_THAT(Place(request), ElementsAre());
  EXPECT_EQ(Explain(request, decision_),
            "no room in pool silver for 1 card with 1 TFLOPS and 1Gi: it has no cards on the 5 nodes that are open to "
            "the pod");
}

TEST_F(FinderTest, AWholeCardIsOneThatNobodyIsOn) {
  Take("n0-0", 1, 1);
  Take("n0-1", 1, 1);
  Take("n1-1", 1, 1);
  EXPECT_THAT(Place({.pool = "gold", .isolation = Isolation::kShared}), ElementsAre("n1-0"));
  EXPECT_EQ(decision_.nodes_fit, 2);
}

TEST_F(FinderTest, ScoresOfNodes) {
  Place(Of(10, 1), Mode::kLowLoadFirst);
  EXPECT_EQ(decision_.node, nodes_[0]) << "the first of equals";
  EXPECT_EQ(ExtenderScore(decision_.scores[0]), 9);
  Take("n0-0", 312, 80);
  EXPECT_FLOAT_EQ(NodeScore(ledger_, Mode::kLowLoadFirst, nodes_[0]), 50);
  EXPECT_FLOAT_EQ(NodeScore(ledger_, Mode::kCompactFirst, nodes_[2]), 0);
  EXPECT_EQ(ExtenderScore(50), 4);
  EXPECT_EQ(ExtenderScore(0), 0);
}

TEST_F(FinderTest, WhatIsHeldIsNotThereForOthers) {
  Request half = Of(200, 10);
  half.model = "H100";
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(Place(half).size(), 1u);
    ASSERT_TRUE(ledger_.Hold(std::to_string(i), {.request = half, .cards = decision_.cards}).ok());
  }
  EXPECT_THAT(Place(half), ElementsAre());
  ledger_.Release("2");
  EXPECT_EQ(Place(half).size(), 1u);
}

}  // namespace
}  // namespace tf::placement
