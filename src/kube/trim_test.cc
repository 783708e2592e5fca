#include "kube/trim.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <string>
#include <vector>

namespace tf::kube {
namespace {

const Json kPod = {{"apiVersion", "v1"},
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
                   {"status", {{"phase", "Running"}}}};

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

TEST(TrimTest, WithoutPathsAllIsKept) { EXPECT_EQ(*Trim({})(kPod), kPod); }

TEST(TrimTest, TakesWhateverComes) {
  const Trim trim({"spec.nodeName"});
  for (const Json& odd : {Json(nullptr), Json("text"), Json(JsonArray{1, 2}), Json{{"metadata", 7}, {"spec", "x"}}}) {
    EXPECT_EQ(Name(*trim(odd)), "");
  }
  // A path and one below it: the larger counts, in any order.
  EXPECT_EQ(Trim({"spec.nodeName", "spec"})(kPod)->at("spec"), kPod.at("spec"));
  EXPECT_EQ(Trim({"spec", "spec.nodeName"})(kPod)->at("spec"), kPod.at("spec"));
}

// Parsing with the filter must give what filtering after parsing gives.
absl::Status ParseBoth(const Trim& trim, const std::string& text) {
  absl::StatusOr<Json> whole = ParseJson(text);
  const absl::Status status = trim.ParseEvent(text, [&](Json& event) {
    if (!whole.ok()) {
      ADD_FAILURE() << "parsed although it is no JSON: " << text;
    } else if (const Json* object = Field(*whole, "object")) {
      EXPECT_EQ(event.at("object"), *trim(*object)) << text;
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(status.ok(), whole.ok()) << text << status;
  return status;
}

TEST(TrimTest, ParsesEventsAsItTrims) {
  for (const std::vector<std::string>& paths :
       {std::vector<std::string>{"spec.nodeName"}, {"spec.containers.name", "status"}, {"metadata"}, {"a.b.c.d"}, {}}) {
    const Trim trim(paths);
    for (const Json& object :
         {kPod, Json(JsonObject()), Json{{"metadata", 7}, {"spec", {{"containers", "x"}}}},
          Json{{"spec",
                {{"containers",
                  {{{"name", {{"deep", JsonArray{1, 2.5, true, nullptr}}}}}, 3, JsonArray{Json{{"name", "in"}}}}}}}}}) {
      const std::string text = boost::json::serialize(Json{{"type", "ADDED"}, {"object", object}, {"more", object}});
      EXPECT_TRUE(ParseBoth(trim, text).ok());
      // Cut anywhere it is no JSON, kept or not.
      for (size_t size = 0; size < text.size(); size += 3) ParseBoth(trim, text.substr(0, size)).IgnoreError();
    }
    for (const char* odd :
         {R"({"type":"ADDED","object":{"spec":{"node\u004eame":"esc\u00e4ped \ud83d\ude80","x":"\u0041"}}})",
          R"({"object":{"spec":{"nodeName":"a","nodeName":"b"},"spec":{"nodeName":"c"}},"type":"ADDED"})", "[1,2",
          "{}x", R"({"type":"ADDED","object":{"skipped":[}})", R"({"object":{"skipped":"\q"}})",
          R"({"object":{"spec":-1e5}})"}) {
      ParseBoth(trim, odd).IgnoreError();
    }
  }
}

TEST(TrimTest, DeepInputIsRefusedEvenWhereItIsNotKept) {
  const Trim trim({"spec.nodeName"});
  const std::string deep = R"({"object":{"x":)" + std::string(200, '[') + std::string(200, ']') + "}}";
  EXPECT_FALSE(trim.ParseEvent(deep, [](Json&) { return absl::OkStatus(); }).ok());
  // And the next one is read as ever.
  EXPECT_TRUE(ParseBoth(trim, R"({"type":"ADDED","object":{"spec":{"nodeName":"n"}}})").ok());
}

TEST(TrimTest, WhoUsesAnEventMayParseAnother) {
  const Trim trim({"spec.nodeName"});
  int parsed = 0;
  const auto inner = [&](Json& event) {
    parsed += Text(event, "object.spec.nodeName") == "n";
    return absl::OkStatus();
  };
  const std::string text = R"({"type":"ADDED","object":{"spec":{"nodeName":"n"}}})";
  EXPECT_TRUE(trim.ParseEvent(text,
                              [&](Json& event) {
                                EXPECT_TRUE(trim.ParseEvent(text, inner).ok());
                                return inner(event);
                              })
                  .ok());
  EXPECT_EQ(parsed, 2);
}

}  // namespace
}  // namespace tf::kube
