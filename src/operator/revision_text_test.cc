#include "operator/revision_text.h"

#include <gtest/gtest.h>

namespace tf::operators {
namespace {

std::string Round(std::string_view text) { return Revision::Parse(text).Text(); }

TEST(RevisionText, IsReadAsItWasWritten) {
  for (const char* text : {"c0ffee", "c0ffee-aa", "c0ffee-aa.bb", "c0ffee-0.aa"}) EXPECT_EQ(Round(text), text);
  EXPECT_EQ(Revision::Parse("c0ffee").extras, std::set<std::string>{""});
  EXPECT_EQ(Revision::Parse("c0ffee-0.aa").extras, (std::set<std::string>{"", "aa"}));
  EXPECT_EQ(Revision::Parse("").config, "");
  EXPECT_EQ((Revision{"c", {}}).Text(), "c");
}

TEST(RevisionText, OfManyExtrasIsStillShort) {
  const Revision many{"c0ffee", {"a1", "a2", "a3", "a4", "a5", "a6"}};
  EXPECT_LT(many.Text().size(), 40u);
  EXPECT_EQ(many.Text(), (Revision{"c0ffee", {"a1", "a2", "a3", "a4", "a5", "a6"}}).Text());
  EXPECT_NE(many.Text(), (Revision{"c0ffee", {"a1", "a2", "a3", "a4", "a5", "a7"}}).Text());
}

TEST(RevisionText, IncludesThePodsThatWereStartedAsIt) {
  const Revision pool = Revision::Parse("c-aa.bb");
  EXPECT_TRUE(pool.Includes(Revision::Parse("c-aa")));
  EXPECT_FALSE(pool.Includes(Revision::Parse("c-cc")));
  EXPECT_FALSE(pool.Includes(Revision::Parse("c")));
  EXPECT_FALSE(pool.Includes(Revision::Parse("d-aa")));
}

std::string Next(std::string_view before, const std::vector<PlaceOfPods>& places, bool at_rest = true,
                 const std::string& config = "c") {
  return NextRevision(Revision::Parse(before), config, places, at_rest).Text();
}

TEST(NextRevision, ChangesWithTheConfigAndWithWhatPodsWereStartedWith) {
  EXPECT_EQ(Next("", {}), "c");
  EXPECT_EQ(Next("b-aa", {{"aa", {"aa"}}}), "c-aa");
  EXPECT_EQ(Next("c-aa", {{"aa", {"aa"}}}), "c-aa");
  EXPECT_EQ(Next("c-aa", {{"bb", {"aa"}}}), "c-bb");
  EXPECT_EQ(Next("c-aa", {{"bb", {"aa"}}}, false), "c-bb");
}

TEST(NextRevision, NamespacesThatComeAndGoAreNoChange) {
  EXPECT_EQ(Next("c-aa", {}), "c-aa");
  // A new one during a rollout, or after one was rolled back: nothing begins anew because of it.
  EXPECT_EQ(Next("c-aa", {{"aa", {"aa"}}, {"bb", {"bb"}}}, false), "c-aa");
  EXPECT_EQ(Next("c-aa", {{"aa", {"aa"}}, {"bb", {}}}, false), "c-aa");
  EXPECT_EQ(Next("c-aa", {{"aa", {"aa"}}, {"bb", {"bb"}}}, true), "c-aa.bb");
  EXPECT_EQ(Next("c-aa.bb", {{"aa", {"aa"}}}, true), "c-aa.bb");
}

TEST(NextRevision, OfManyPlacesIsStable) {
  std::vector<PlaceOfPods> places;
  for (const char* extra : {"a1", "a2", "a3", "a4", "a5"}) places.push_back({extra, {extra}});
  const std::string first = Next("", places);
  EXPECT_EQ(Next(first, places), first);
  places[2] = {"b3", {"a3"}};
  EXPECT_NE(Next(first, places), first);
}

TEST(ConfigDigest, DoesNotCoverWhatReachesNoPod) {
  const auto digest = [](std::string_view text) { return ConfigDigest(*kube::ParseJson(text)); };
  EXPECT_EQ(digest(R"({"image": "c:1", "remoteModeImage": "x"})"), digest(R"({"image": "c:1"})"));
  EXPECT_NE(digest(R"({"image": "c:1"})"), digest(R"({"image": "c:2"})"));
  EXPECT_EQ(ExtraDigest({}), "");
  EXPECT_EQ(ExtraDigest({{"restart", "x"}}).size(), 8u);
}

}  // namespace
}  // namespace tf::operators
