#include "kube/merge_patch.h"

#include <boost/json/serialize.hpp>

#include "gtest/gtest.h"

namespace tf::kube {
namespace {

Json Parse(const char* text) { return *ParseJson(text); }

// RFC 7386, as a server applies it.
Json Merged(Json value, const Json& patch) {
  if (!patch.is_object()) return patch;
  if (!value.is_object()) value = JsonObject();
  for (const auto& member : patch.get_object()) {
    if (member.value().is_null()) {
      value.get_object().erase(member.key());
    } else {
      Json& place = value.get_object()[member.key()];
      place = Merged(place, member.value());
    }
  }
  return value;
}

struct Case {
  const char* before;
  const char* after;
  const char* patch;
};

TEST(MergePatchTest, SaysWhatDiffersAndNothingElse) {
  const Case cases[] = {
      {R"({"a":1})", R"({"a":1})", R"({})"},
      {R"({"a":1})", R"({"a":2})", R"({"a":2})"},
      {R"({"a":1,"b":2})", R"({"b":2})", R"({"a":null})"},
      {R"({})", R"({"a":{"b":{}}})", R"({"a":{"b":{}}})"},
      {R"({"a":{"b":1,"c":2}})", R"({"a":{"b":1,"c":3}})", R"({"a":{"c":3}})"},
      {R"({"a":{"b":1}})", R"({"a":{}})", R"({"a":{"b":null}})"},
      {R"({"a":[1,2,3]})", R"({"a":[1,2]})", R"({"a":[1,2]})"},
      {R"({"a":"x"})", R"({"a":{"b":1}})", R"({"a":{"b":1}})"},
      {R"({"a":{"b":1}})", R"({"a":"x"})", R"({"a":"x"})"},
      {R"({"a":[{"b":1}]})", R"({"a":{"b":1}})", R"({"a":{"b":1}})"},
      {R"({"a":{"b":{"c":{"d":1,"e":[]}}}})", R"({"a":{"b":{"c":{"d":1}}}})", R"({"a":{"b":{"c":{"e":null}}}})"},
  };
  for (const Case& one : cases) {
    const Json patch = MergePatch(Parse(one.before), Parse(one.after));
    EXPECT_EQ(patch, Parse(one.patch)) << boost::json::serialize(patch);
    EXPECT_EQ(Merged(Parse(one.before), patch), Parse(one.after)) << one.before << " " << one.after;
    EXPECT_EQ(IsEmptyPatch(patch), Parse(one.before) == Parse(one.after));
  }
}

TEST(MergePatchTest, NumbersAreEqualByValue) {
  const Json one = JsonObject{{"a", uint64_t{5}}};
  const Json other = JsonObject{{"a", int64_t{5}}};
  EXPECT_TRUE(IsEmptyPatch(MergePatch(one, other)));
}

}  // namespace
}  // namespace tf::kube
