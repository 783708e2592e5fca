#include "operator/card_books.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace tf::operators {
namespace {

using kube::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kGib = int64_t{1} << 30;

class CardBooksTest : public ::testing::Test {
 protected:
  CardBooksTest() {
    for (const auto& [name, node, index] :
         {std::tuple("a0", "a", 0), std::tuple("a1", "a", 1), std::tuple("b0", "b", 0)}) {
      books.SetCard(Card(name, node, index));
    }
  }

  static placement::Card Card(const std::string& name, const std::string& node, int32_t index) {
    return {.name = name,
            .node = node,
            .pool = "gold",
            .vendor = "NVIDIA",
            .index = index,
            .usable = true,
            .capacity = {300'000, 80 * kGib},
            .limit_capacity = {1'500'000, 120 * kGib},
            .one_at_a_time = true};
  }

  static Json Pod(const std::string& uid, const std::string& more = "", const std::string& spec = "{}",
                  const std::string& phase = "Pending", const std::string& tflops = "200") {
    const absl::StatusOr<Json> pod = kube::ParseJson(
        absl::StrCat(R"({"metadata":{"name":")", uid, R"(","namespace":"apps","uid":")", uid,
                     R"(","annotations":{"tensor-fusion.ai/gpupool":"gold","tensor-fusion.ai/tflops-limit":")", tflops,
                     R"(","tensor-fusion.ai/vram-limit":"10Gi")", more, R"(}},"spec":)", spec,
                     R"(,"status":{"phase":")", phase, "\"}}"));
    EXPECT_TRUE(pod.ok()) << pod.status();
    return *pod;
  }
  // Bound to cards of node a.
  static Json Bound(const std::string& uid, const std::string& cards, const std::string& phase = "Running") {
    return Pod(uid, absl::StrCat(R"(,"tensor-fusion.ai/gpu-ids":")", cards, "\""), R"({"nodeName":"a"})", phase);
  }

  SimulatedClock clock;
  placement::Mode mode = placement::Mode::kCompactFirst;
  CardBooks books{clock, [this](const std::string&) { return mode; }};
  const std::vector<std::string> both = {"a", "b"};
};

TEST_F(CardBooksTest, WhatIsOfferedIsHeldAWhile) {
  ASSERT_THAT(books.Offer(Pod("1"), {"b"})->nodes, ElementsAre("b"));
  const auto second = books.Offer(Pod("2"), {"b"});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(second->nodes, IsEmpty());
  EXPECT_THAT(
      second->why_none,
      HasSubstr(
          "no room in pool gold for 1 card with 200 TFLOPS and 10Gi: of 1 card on 1 node 1: too little compute free"));
  EXPECT_EQ(second->failed.at("b"), "GPU: too little compute free");
  EXPECT_THAT(books.Offer(Pod("1"), {"b"})->nodes, ElementsAre("b")) << "its own hold is not in its way";
  clock.Advance(absl::Seconds(6));
  EXPECT_THAT(books.Offer(Pod("2"), {"b"})->nodes, ElementsAre("b"));
}

TEST_F(CardBooksTest, TheNodeWhoseCardsAreHeldHasTheHighestScore) {
  books.SetPod(Bound("old", "a0"));
  ASSERT_THAT(books.Offer(Pod("1"), both)->nodes, ElementsAre("a", "b"));
  EXPECT_THAT(*books.Scores(Pod("1"), both), ElementsAre(10, 0)) << "a is the fuller one";
  mode = placement::Mode::kLowLoadFirst;
  ASSERT_TRUE(books.Offer(Pod("2"), both).ok());
  EXPECT_EQ(books.Scores(Pod("2"), both)->at(1), 10);
  EXPECT_THAT(*books.Scores(Pod("2"), {"nowhere"}), ElementsAre(0));
}

TEST_F(CardBooksTest, TakenCardsStayWithThePod) {
  EXPECT_TRUE(absl::IsNotFound(books.TakeHeld("1", "a").status()));
  ASSERT_TRUE(books.Offer(Pod("1"), {"b"}).ok());
  EXPECT_TRUE(absl::IsNotFound(books.TakeHeld("1", "a").status())) << "held on another node";
  const auto grant = books.TakeHeld("1", "b");
  ASSERT_TRUE(grant.ok()) << grant.status();
  EXPECT_THAT(grant->cards, ElementsAre("b0"));
  EXPECT_EQ(grant->percent, 66) << "200 of 300 TFLOPS, and no more";
  clock.Advance(absl::Seconds(50));
  EXPECT_THAT(books.Offer(Pod("2"), {"b"})->nodes, IsEmpty());
  books.Commit("1");
  clock.Advance(absl::Hours(1));
  EXPECT_THAT(books.Offer(Pod("2"), {"b"})->nodes, IsEmpty());
  EXPECT_EQ(books.UseOf("b0").pods.at(0).name, "1");
  EXPECT_EQ(books.UseOf("b0").free, (placement::Amount{100'000, 70 * kGib}));
  EXPECT_TRUE(absl::IsAlreadyExists(books.Offer(Pod("1"), {"b"}).status()));
  books.Release("1");
  EXPECT_EQ(books.UseOf("b0").pods.size(), 1U) << "what is bound stays";
}

TEST_F(CardBooksTest, AnotherNodeThanTheOfferedOne) {
  ASSERT_TRUE(books.Offer(Pod("1"), {"b"}).ok());
  const auto grant = books.Take(Pod("1"), "a");
  ASSERT_TRUE(grant.ok()) << grant.status();
  EXPECT_THAT(grant->cards, ElementsAre("a0"));
  EXPECT_THAT(books.Offer(Pod("2"), {"b"})->nodes, ElementsAre("b")) << "what it held before is free again";
  EXPECT_THAT(std::string(books.Take(Pod("3", "", "{}", "Pending", "301"), "a").status().message()),
              HasSubstr("too little compute free"));
  EXPECT_FALSE(books.Take(Pod("3"), "nowhere").ok());
}

TEST_F(CardBooksTest, ThePodsOfTheServerAreTheBooks) {
  books.SetPod(Bound("1", "a0"));
  EXPECT_EQ(books.UseOf("a0").pods.size(), 1U);
  books.SetPod(Pod("1"));
  EXPECT_EQ(books.UseOf("a0").pods.size(), 1U) << "an older state of it changes nothing";
  books.RemovePod("another");
  books.SetPod(Bound("1", "a0", "Succeeded"));
  EXPECT_THAT(books.UseOf("a0").pods, IsEmpty()) << "what has ended holds nothing";
  books.SetPod(Bound("2", "a0"));
  books.RemovePod("2");
  EXPECT_THAT(books.UseOf("a0").pods, IsEmpty());
  EXPECT_EQ(books.UseOf("a0").free, (placement::Amount{300'000, 80 * kGib}));
}

TEST_F(CardBooksTest, TheAuditSetsRightWhatIsWrongTwice) {
  const auto shared = [](Json pod) { return std::make_shared<const Json>(std::move(pod)); };
  const std::vector<kube::ObjectPtr> pods = {shared(Bound("1", "a0")), shared(Bound("2", "a1")), shared(Pod("3"))};
  books.SetPod(Bound("1", "a1"));  // other cards than it has
  books.SetPod(Bound("gone", "b0"));
  ASSERT_TRUE(books.Offer(Pod("3"), {"a"}).ok()) << "held, which is no fault";
  EXPECT_EQ(books.Audit(pods), 0) << "the news may be on its way";
  EXPECT_EQ(books.Audit(pods), 3);
  EXPECT_EQ(books.UseOf("a0").pods.at(0).uid, "1");
  EXPECT_EQ(books.UseOf("a1").pods.at(0).uid, "2");
  EXPECT_THAT(books.UseOf("b0").pods, IsEmpty());
  EXPECT_EQ(books.Audit(pods), 0);
  EXPECT_EQ(books.Audit(pods), 0);
  // Wrong once, right the next time, wrong once more: never twice in a row.
  books.SetPod(Bound("4", "b0"));
  EXPECT_EQ(books.Audit(pods), 0);
  books.RemovePod("4");
  EXPECT_EQ(books.Audit(pods), 0);
  books.SetPod(Bound("4", "b0"));
  EXPECT_EQ(books.Audit(pods), 0);
}

TEST_F(CardBooksTest, NothingIsGivenTwiceWhoeverAsks) {
  std::vector<std::thread> schedulers;
  std::array<int, 4> taken = {};
  for (size_t t = 0; t < taken.size(); ++t) {
    schedulers.emplace_back([this, t, &taken] {
      for (int i = 0; i < 50; ++i) {
        const std::string uid = absl::StrCat(t, "-", i);
        const Json pod = Pod(uid, "", "{}", "Pending", "30");
        if (books.Offer(pod, both)->nodes.empty()) continue;
        const auto grant = i % 2 == 0 ? books.Take(pod, i % 4 == 0 ? "a" : "b") : books.TakeHeld(uid, "a");
        if (!grant.ok()) {
          books.Release(uid);
          continue;
        }
        books.Commit(uid);
        ++taken[t];
      }
    });
  }
  for (std::thread& one : schedulers) one.join();
  // Of each card eight pods' memory, for it is 80 GiB; their 240 TFLOPS fit.
  size_t bound = 0;
  for (const char* card : {"a0", "a1", "b0"}) {
    const CardBooks::CardUse use = books.UseOf(card);
    EXPECT_LE(use.pods.size(), 8U);
    EXPECT_EQ(use.free.vram, (80 - 10 * static_cast<int64_t>(use.pods.size())) * kGib);
    bound += use.pods.size();
  }
  EXPECT_EQ(bound, static_cast<size_t>(taken[0] + taken[1] + taken[2] + taken[3]));
  EXPECT_GT(bound, 0U);
}

}  // namespace
}  // namespace tf::operators
