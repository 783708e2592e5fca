#include "kube/trim.h"

#include <gtest/gtest.h>

namespace tf::kube {
namespace {

const ObjectPtr kPod =
    std::make_shared<Json>(Json{{"apiVersion", "v1"},
                                {"kind", "Pod"},
                                {"metadata",
                                 {{"name", "p"},
                                  {"namespace", "ns"},
                                  {"uid", "u"},
                                  {"resourceVersion", "7"},
                                  {"labels", {{"app.kubernetes.io/name", "x"}}},
                                  {"managedFields", JsonArray(50, Json("long"))}}},
                                {"spec",
                                 {{"nodeName", "n1"},
                                  {"containers", {{{"name", "a"}, {"image", "i"}}, {{"image", "j"}}, "no object"}},
                                  {"tolerations", JsonArray(9, Json("t"))}}},
                                {"status", {{"phase", "Running"}}}});

TEST(TrimTest, KeepsWhatIsNamedAndWhatNamesIt) {
  EXPECT_EQ(*Trim({"spec.nodeName", "status", "spec.nothing", "metadata.labels"})(kPod),
            (Json{{"metadata",
                   {{"name", "p"},
                    {"namespace", "ns"},
                    {"uid", "u"},
                    {"resourceVersion", "7"},
                    {"labels", {{"app.kubernetes.io/name", "x"}}}}},
                  {"spec", {{"nodeName", "n1"}}},
                  {"status", {{"phase", "Running"}}}}));
}

TEST(TrimTest, GoesThroughArrays) {
  const ObjectPtr trimmed = Trim({"spec.containers.name"})(kPod);
  EXPECT_EQ(trimmed->at("spec"), (Json{{"containers", JsonArray{Json{{"name", "a"}}, JsonObject(), nullptr}}}));
}

TEST(TrimTest, WithoutPathsAllIsKept) { EXPECT_EQ(Trim({})(kPod), kPod); }

TEST(TrimTest, TakesWhateverComes) {
  const Trim trim({"spec.nodeName"});
  for (const Json& odd : {Json(nullptr), Json("text"), Json(JsonArray{1, 2}), Json{{"metadata", 7}, {"spec", "x"}}}) {
    EXPECT_EQ(Name(*trim(std::make_shared<Json>(odd))), "");
  }
  // A path and one below it: the larger counts, in any order.
  EXPECT_EQ(Trim({"spec.nodeName", "spec"})(kPod)->at("spec"), kPod->at("spec"));
  EXPECT_EQ(Trim({"spec", "spec.nodeName"})(kPod)->at("spec"), kPod->at("spec"));
}

}  // namespace
}  // namespace tf::kube
