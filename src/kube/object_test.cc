#include "kube/object.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kube/parse_briefly.h"

namespace tf::kube {
namespace {

using testing::HasSubstr;

const Json kPod = {{"apiVersion", "v1"},
                   {"kind", "Pod"},
                   {"metadata",
                    {{"name", "a"},
                     {"namespace", "n"},
                     {"uid", "u"},
                     {"resourceVersion", "7"},
                     {"labels", {{"app.kubernetes.io/name", "x"}}},
                     {"annotations", {{"a.b/c", "d"}}},
                     {"deletionTimestamp", nullptr}}},
                   {"spec", {{"nodeName", "node-1"}, {"replicas", 3}, {"share", 1.0}, {"on", true}}}};

TEST(Object, Fields) {
  EXPECT_EQ(Text(kPod, "spec.nodeName"), "node-1");
  EXPECT_EQ(Text(kPod, "spec.replicas"), "");
  EXPECT_EQ(Text(kPod, "spec.nodeName.deeper"), "");
  EXPECT_EQ(Text(kPod, "absent.deeper"), "");
  EXPECT_EQ(Number(kPod, "spec.replicas"), 3);
  EXPECT_EQ(Number(kPod, "spec.share"), 1);
  EXPECT_EQ(Number(kPod, "spec.nodeName", 5), 5);
  EXPECT_TRUE(Flag(kPod, "spec.on"));
  EXPECT_TRUE(Flag(kPod, "spec.off", true));
  EXPECT_EQ(Field(kPod, ""), &kPod);
  EXPECT_EQ(Field(Json("text"), "a"), nullptr);
  EXPECT_EQ(Name(kPod), "a");
  EXPECT_EQ(Uid(kPod), "u");
  EXPECT_EQ(ResourceVersion(kPod), "7");
  EXPECT_EQ(Label(kPod, "app.kubernetes.io/name"), "x");
  EXPECT_EQ(Annotation(kPod, "a.b/c"), "d");
  EXPECT_EQ(Annotation(kPod, "a"), "");
  EXPECT_EQ(KeyOf(kPod), (Key{"n", "a"}));
  EXPECT_EQ(KeyOf(kPod).ToString(), "n/a");
  EXPECT_FALSE(IsBeingDeleted(kPod));
  Json going = kPod;
  EnsureField(going, "metadata.deletionTimestamp") = "2026-01-01T00:00:00Z";
  EXPECT_TRUE(IsBeingDeleted(going));
}

TEST(Object, EnsureField) {
  Json object = "was a text";
  EnsureField(object, "a.b.c") = 1;
  EnsureField(object, "a.d") = 2;
  EXPECT_EQ(boost::json::serialize(object), R"({"a":{"b":{"c":1},"d":2}})");
  EXPECT_EQ(&EnsureField(object, ""), &object);
}

TEST(Object, ParseLimits) {
  auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(ParseJson(nested(128)).ok());
  EXPECT_FALSE(ParseJson(nested(129)).ok());
  EXPECT_FALSE(ParseJson(nested(1000000)).ok());
  EXPECT_TRUE(ParseJson(" {} \n").ok());
  for (const char* text : {"", " ", "{", "{}{}", "nul", "\"\xff\"", "{\"a\":1,}", "01"}) {
    absl::Status status = ParseJson(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << status;
    EXPECT_TRUE(absl::IsInvalidArgument(ParseShared(text).status())) << text;
  }
  EXPECT_THAT(std::string(ParseJson("{\"a\":1,}").status().message()), HasSubstr("at byte 7 of 8"));
}

// Every shape survives the way into a block: short and long texts, empty containers, large objects with an index.
TEST(Object, CompactKeepsAll) {
  std::vector<std::string> texts = {"null", "true", "-1", "18446744073709551615",         "1E300",
                                    "\"\"", "{}",   "[]", R"(["",[],{},[[[{"a":{}}]]]])", boost::json::serialize(kPod)};
  for (int size : {1, 13, 14, 15, 16, 27, 28, 29, 100, 100000}) {
    texts.push_back(absl::StrCat("[\"", std::string(size, 'x'), "\"]"));
    texts.push_back(absl::StrCat("{\"", std::string(size, 'k'), "\":\"", std::string(size, 'x'), "\"}"));
  }
  for (int size : {1, 17, 18, 19, 20, 1000}) {
    std::string object = "{", array = "[";
    for (int i = 0; i < size; ++i) {
      absl::StrAppend(&object, i ? "," : "", "\"key", i, "\":{\"n\":\"", std::string(i % 40, 'v'), "\"}");
      absl::StrAppend(&array, i ? "," : "", i);
    }
    texts.push_back(object + "}");
    texts.push_back(array + "]");
  }
  for (const std::string& text : texts) {
    absl::StatusOr<ObjectPtr> shared = ParseShared(text);
    ASSERT_TRUE(shared.ok()) << shared.status();
    EXPECT_EQ(boost::json::serialize(**shared), text) << text.substr(0, 100);
    ObjectPtr copy = Compact(**shared);
    shared->reset();
    EXPECT_EQ(boost::json::serialize(*copy), text) << text.substr(0, 100);
    Json own = *copy;
    copy.reset();
    EXPECT_EQ(boost::json::serialize(own), text);
  }
}

TEST(Object, ParseBrieflyInside) {
  int outer = 0, inner = 0;
  EXPECT_TRUE(ParseBriefly("[1,2]", [&](Json& value) {
                return ParseBriefly("[3]", [&](Json& other) {
                  outer = static_cast<int>(value.as_array().size());
                  inner = static_cast<int>(other.as_array().size());
                  return absl::OkStatus();
                });
              }).ok());
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 1);
  EXPECT_TRUE(absl::IsAborted(ParseBriefly("1", [](Json&) { return absl::AbortedError("no"); })));
  EXPECT_THROW(ParseBriefly("1", [](Json&) -> absl::Status { throw 1; }).IgnoreError(), int);
  EXPECT_TRUE(ParseBriefly("1", [](Json&) { return absl::OkStatus(); }).ok());
}

}  // namespace
}  // namespace tf::kube
