#include "operator/revision_history.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "api/names.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonObject;

class History : public testing::Test {
 protected:
  const Json pool_ = JsonObject{{"apiVersion", "tensor-fusion.ai/v1"},
                                {"kind", "GPUPool"},
                                {"metadata", {{"name", "tensor-fusion-shared"}, {"uid", "u-1"}}}};
  std::vector<kube::ObjectPtr> known_;

  static Json Block(int version) { return JsonObject{{"image", absl::StrCat("worker:", version)}}; }
  static std::string Digest(int version) { return absl::StrCat("d", version); }

  HistoryChange Change(int version, std::set<std::string> in_use = {}) {
    return ChangeOfHistory(known_, pool_, Component::kWorker, "tensor-fusion-sys", Digest(version), Block(version),
                           in_use);
  }
  // Does what is asked for.
  void Apply(const HistoryChange& change) {
    std::vector<kube::ObjectPtr> after;
    for (const kube::ObjectPtr& one : known_) {
      bool removed = false;
      for (const Json& gone : change.remove) removed = removed || kube::Name(gone) == kube::Name(*one);
      if (removed) continue;
      Json copy = *one;
      if (change.renumber && kube::Name(copy) == *change.renumber) copy.as_object()["revision"] = change.revision;
      after.push_back(std::make_shared<const Json>(std::move(copy)));
    }
    if (change.create) after.push_back(std::make_shared<const Json>(*change.create));
    known_ = std::move(after);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const kube::ObjectPtr& one : known_) names.emplace_back(kube::Name(*one));
    return names;
  }
};

TEST_F(History, IsMadeOnceForEachBlockAndBelongsToThePool) {
  const HistoryChange change = Change(1);
  ASSERT_TRUE(change.create.has_value());
  EXPECT_EQ(kube::Name(*change.create), "tensor-fusion-shared-worker-d1");
  EXPECT_EQ(kube::Namespace(*change.create), "tensor-fusion-sys");
  EXPECT_EQ(kube::Label(*change.create, api::kPoolLabel), "tensor-fusion-shared");
  EXPECT_EQ(kube::Label(*change.create, api::kComponentLabel), "worker");
  EXPECT_EQ(*kube::Field(*change.create, "data"), Block(1));
  EXPECT_EQ(kube::Number(*change.create, "revision"), 1);
  const Json* owners = kube::Field(*change.create, "metadata.ownerReferences");
  ASSERT_NE(owners, nullptr);
  EXPECT_EQ(kube::Text(owners->as_array().at(0), "uid"), "u-1");
  Apply(change);
  EXPECT_TRUE(Change(1).empty());
}

TEST_F(History, AnOldBlockBecomesTheNewestAgain) {
  Apply(Change(1));
  Apply(Change(2));
  const HistoryChange change = Change(1);
  EXPECT_FALSE(change.create.has_value());
  EXPECT_EQ(change.renumber, "tensor-fusion-shared-worker-d1");
  EXPECT_EQ(change.revision, 3);
}

TEST_F(History, KeepsTenAndWhatIsInUse) {
  for (int version = 1; version <= 15; ++version) Apply(Change(version, {Digest(2)}));
  const std::vector<std::string> names = Names();
  ASSERT_EQ(names.size(), kHistoryLimit);
  EXPECT_EQ(names.front(), "tensor-fusion-shared-worker-d2");
  EXPECT_EQ(names[1], "tensor-fusion-shared-worker-d7");
  EXPECT_EQ(names.back(), "tensor-fusion-shared-worker-d15");
}

TEST_F(History, SurvivesAForeignObjectOfTheSameName) {
  known_.push_back(std::make_shared<const Json>(
      JsonObject{{"metadata", {{"name", "tensor-fusion-shared-worker-d1"}, {"uid", "foreign"}}},
                 {"data", Block(1)},
                 {"revision", 9}}));
  const HistoryChange change = Change(1);
  ASSERT_TRUE(change.create.has_value());
  EXPECT_EQ(kube::Name(*change.create), "tensor-fusion-shared-worker-d1-2");
  EXPECT_EQ(kube::Number(*change.create, "revision"), 1);
  Apply(change);
  EXPECT_TRUE(Change(1).empty());
  EXPECT_TRUE(change.remove.empty());
}

TEST_F(History, EqualDigestsAreComparedByContent) {
  Apply(Change(1));
  const HistoryChange change =
      ChangeOfHistory(known_, pool_, Component::kWorker, "tensor-fusion-sys", Digest(1), Block(77), {});
  ASSERT_TRUE(change.create.has_value());
  EXPECT_EQ(kube::Name(*change.create), "tensor-fusion-shared-worker-d1-2");
}

TEST_F(History, OfOtherComponentsAndPoolsIsLeftAlone) {
  Apply(Change(1));
  for (int version = 1; version <= 12; ++version) {
    const HistoryChange change =
        ChangeOfHistory(known_, pool_, Component::kClient, "tensor-fusion-sys", Digest(version), Block(version), {});
    Apply(change);
  }
  EXPECT_EQ(Names().front(), "tensor-fusion-shared-worker-d1");
}

}  // namespace
}  // namespace tf::operators
