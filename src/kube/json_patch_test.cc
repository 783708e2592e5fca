#include "kube/json_patch.h"

#include <boost/json/serialize.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;

Json J(std::string_view text) { return ParseJson(text).value(); }
std::string Diffed(std::string_view before, std::string_view after) {
  return boost::json::serialize(DiffPatch(J(before), J(after)));
}

TEST(DiffPatch, NothingWhenNothingDiffers) {
  EXPECT_EQ(Diffed(R"({"a":1,"b":[1,2]})", R"({"b":[1,2],"a":1})"), "[]");
  EXPECT_EQ(Diffed("1", "1"), "[]");
}

TEST(DiffPatch, SaysWhatPeopleDo) {
  EXPECT_EQ(Diffed(R"({"a":1})", R"({"a":2})"), R"([{"op":"replace","path":"/a","value":2}])");
  EXPECT_EQ(Diffed(R"({"a":1})", R"({"a":1,"b":null})"), R"([{"op":"add","path":"/b","value":null}])");
  EXPECT_EQ(Diffed(R"({"a":1,"b":2})", R"({"b":2})"), R"([{"op":"remove","path":"/a"}])");
  EXPECT_EQ(Diffed(R"({"m":{"a/b":1,"c~d":1}})", R"({"m":{"a/b":2,"c~d":2}})"),
            R"([{"op":"replace","path":"/m/a~1b","value":2},{"op":"replace","path":"/m/c~0d","value":2}])");
  EXPECT_EQ(Diffed(R"({"l":[1,2]})", R"({"l":[1,2,3]})"), R"([{"op":"add","path":"/l/2","value":3}])");
  EXPECT_EQ(Diffed(R"({"l":[2,3]})", R"({"l":[1,2,3]})"), R"([{"op":"add","path":"/l/0","value":1}])");
  EXPECT_EQ(Diffed(R"({"l":[1,2,3]})", R"({"l":[3]})"),
            R"([{"op":"remove","path":"/l/1"},{"op":"remove","path":"/l/0"}])");
  EXPECT_EQ(Diffed(R"({"l":[{"n":1,"x":1}]})", R"({"l":[{"n":1,"x":2}]})"),
            R"([{"op":"replace","path":"/l/0/x","value":2}])");
  EXPECT_EQ(Diffed(R"({"a":1})", "[]"), R"([{"op":"replace","path":"","value":[]}])");
}

TEST(ApplyPatch, AllOperations) {
  const Json value = J(R"({"a":{"b":1},"l":[1,2]})");
  auto apply = [&](std::string_view patch) {
    const auto result = ApplyPatch(value, J(patch));
    return result.ok() ? boost::json::serialize(*result) : std::string(result.status().message());
  };
  EXPECT_EQ(apply(R"([{"op":"add","path":"/l/-","value":3}])"), R"({"a":{"b":1},"l":[1,2,3]})");
  EXPECT_EQ(apply(R"([{"op":"add","path":"/l/0","value":3}])"), R"({"a":{"b":1},"l":[3,1,2]})");
  EXPECT_EQ(apply(R"([{"op":"move","from":"/a/b","path":"/c"}])"), R"({"a":{},"l":[1,2],"c":1})");
  EXPECT_EQ(apply(R"([{"op":"copy","from":"/l","path":"/a/c"}])"), R"({"a":{"b":1,"c":[1,2]},"l":[1,2]})");
  EXPECT_EQ(apply(R"([{"op":"test","path":"/a/b","value":1},{"op":"remove","path":"/a"}])"), R"({"l":[1,2]})");
  EXPECT_EQ(apply(R"([{"op":"replace","path":"","value":7}])"), "7");
}

TEST(ApplyPatch, SaysWhatCannotBeApplied) {
  const Json value = J(R"({"a":{"b":1},"l":[1,2]})");
  auto fails = [&](std::string_view patch) { return std::string(ApplyPatch(value, J(patch)).status().message()); };
  EXPECT_THAT(fails("{}"), HasSubstr("expected a list"));
  EXPECT_THAT(fails(R"([{"op":"add","path":"/x/y","value":3}])"), HasSubstr("operation 0 (add /x/y)"));
  EXPECT_THAT(fails(R"([{"op":"remove","path":"/x"}])"), HasSubstr("nothing at this path"));
  EXPECT_THAT(fails(R"([{"op":"add","path":"/l/3","value":3}])"), HasSubstr("not so long"));
  EXPECT_THAT(fails(R"([{"op":"add","path":"/l/01","value":3}])"), HasSubstr("not so long"));
  EXPECT_THAT(fails(R"([{"op":"add","path":"l","value":3}])"), HasSubstr("begins with"));
  EXPECT_THAT(fails(R"([{"op":"add","path":"/~2","value":3}])"), HasSubstr("0 or 1"));
  EXPECT_THAT(fails(R"([{"op":"add","path":"/a"}])"), HasSubstr("\"value\" is missing"));
  EXPECT_THAT(fails(R"([{"op":"test","path":"/a","value":3}])"), HasSubstr("another"));
  EXPECT_THAT(fails(R"([{"op":"move","from":"/a","path":"/a/b/c"}])"), HasSubstr("into itself"));
  EXPECT_THAT(fails(R"([{"op":"frobnicate","path":"/a"}])"), HasSubstr("expected add"));
  EXPECT_THAT(fails("[7]"), HasSubstr("expected add"));
  EXPECT_TRUE(absl::IsFailedPrecondition(ApplyPatch(value, J(R"([{"op":"test","path":"/a","value":3}])")).status()));
}

Json RandomValue(std::mt19937& random, int depth) {
  static const char* const names[] = {"a", "b", "", "a/b", "~", "~1", "0", "-", "x.y"};
  switch (random() % (depth > 0 ? 8 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int64_t>(random() % 4);
    case 3:
      return 0.5 * (random() % 3);
    case 4:
      return names[random() % 9];
    case 5: {
      JsonArray array;
      for (int i = random() % 5; i > 0; --i) array.push_back(RandomValue(random, depth - 1));
      return array;
    }
    default: {
      JsonObject object;
      for (int i = random() % 5; i > 0; --i) object[names[random() % 9]] = RandomValue(random, depth - 1);
      return object;
    }
  }
}

// Changes a part of it, as a webhook does.
void Disturb(Json& value, std::mt19937& random) {
  if (value.is_object() && !value.get_object().empty() && random() % 4 != 0) {
    Disturb((value.get_object().begin() + random() % value.get_object().size())->value(), random);
  } else if (value.is_array() && !value.get_array().empty() && random() % 4 != 0) {
    JsonArray& array = value.get_array();
    const size_t at = random() % array.size();
    if (random() % 3 == 0) {
      array.erase(array.begin() + at);
    } else if (random() % 2 == 0) {
      array.insert(array.begin() + at, RandomValue(random, 1));
    } else {
      Disturb(array[at], random);
    }
  } else {
    value = RandomValue(random, 2);
  }
}

TEST(JsonPatch, ApplyingTheDifferenceGivesTheOther) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const Json before = RandomValue(random, 4);
    Json after = i % 2 == 0 ? RandomValue(random, 4) : before;
    if (i % 2 == 1) Disturb(after, random);
    const Json patch = DiffPatch(before, after);
    const auto applied = ApplyPatch(before, patch);
    ASSERT_TRUE(applied.ok()) << applied.status();
    ASSERT_EQ(*applied, after) << boost::json::serialize(before) << "\n" << boost::json::serialize(patch);
  }
}

}  // namespace
}  // namespace tf::kube
