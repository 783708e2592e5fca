#include "tfctl/output.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

namespace tf::tfctl {
namespace {

using kube::Json;

TEST(Columns, AreAsWideAsTheirWidestCellAndCountCharacters) {
  EXPECT_EQ(Columns({{"NAME", "CUSTOMER", "X"}, {"a", "Größe", ""}, {"longer", "", "1"}}),
            "NAME    CUSTOMER  X\n"
            "a       Größe     -\n"
            "longer  -         1\n");
  EXPECT_EQ(Columns({}), "");
}

TEST(PrettyJson, Indents) {
  EXPECT_EQ(PrettyJson(boost::json::parse(R"({"a":{"b":[1,"x"],"c":{}},"d":null})")),
            "{\n  \"a\": {\n    \"b\": [\n      1,\n      \"x\"\n    ],\n    \"c\": {}\n  },\n  \"d\": null\n}\n");
}

TEST(Yaml, IsBlockStyle) {
  EXPECT_EQ(
      Yaml(boost::json::parse(
          R"({"image":"a/b:1","env":[{"name":"TF_ENABLE_LOG","value":"1"},{"name":"X"}],"args":[["a","b"],"c"],"e":{}})")),
      "image: \"a/b:1\"\n"
      "env:\n"
      "- name: TF_ENABLE_LOG\n"
      "  value: \"1\"\n"
      "- name: X\n"
      "args:\n"
      "- - a\n"
      "  - b\n"
      "- c\n"
      "e: {}\n");
}

// What a YAML parser reads is what was written; `string` tells whether it must be one.
void ExpectSame(const YAML::Node& node, const Json& value) {
  if (value.is_object()) {
    ASSERT_TRUE(value.get_object().empty() || node.IsMap());
    ASSERT_EQ(node.size(), value.get_object().size());
    for (const auto& [key, member] : value.get_object()) ExpectSame(node[std::string(key)], member);
  } else if (value.is_array()) {
    ASSERT_TRUE(value.get_array().empty() || node.IsSequence());
    ASSERT_EQ(node.size(), value.get_array().size());
    for (size_t i = 0; i < value.get_array().size(); ++i) ExpectSame(node[i], value.get_array()[i]);
  } else if (value.is_string()) {
    EXPECT_EQ(node.Scalar(), std::string(value.get_string()));
    // Plain scalars have the tag "?": they must not look like anything but a string.
    if (node.Tag() == "?") {
      bool flag;
      double number;
      EXPECT_FALSE(YAML::convert<bool>::decode(node, flag)) << node.Scalar();
      EXPECT_FALSE(YAML::convert<double>::decode(node, number)) << node.Scalar();
      EXPECT_FALSE(node.IsNull()) << node.Scalar();
    }
  } else if (value.is_bool()) {
    EXPECT_EQ(node.as<bool>(), value.get_bool());
  } else if (value.is_null()) {
    EXPECT_TRUE(node.IsNull());
  } else {
    EXPECT_EQ(node.as<int64_t>(), value.to_number<int64_t>());
  }
}

TEST(Yaml, IsReadAsWhatWasWritten) {
  const Json value = boost::json::parse(R"({
    "strings": ["true", "No", "null", "~", "", " ", "1", "1e3", "0x10", "-", "- a", "a: b", "a #b", "*a", "&a", "a\nb\n",
                "Größe", "\"quoted\"", "2026-11-30", "1:30", ".inf", "NaN", "{}", "/bin/sh", "trap 'x' EXIT", "%a", "@b"],
    "others": [true, false, null, 0, -17, {}, [], [[]], [[1, [2]], {"a": [{"b": {"c": [1]}}, 3]}]],
    "1": "key", "a b": {"yes": 1}
  })");
  ExpectSame(YAML::Load(Yaml(value)), value);
}

TEST(ShortDuration, IsRough) {
  EXPECT_EQ(ShortDuration(absl::Seconds(-5)), "0s");
  EXPECT_EQ(ShortDuration(absl::Milliseconds(1900)), "1s");
  EXPECT_EQ(ShortDuration(absl::Seconds(200)), "3m20s");
  EXPECT_EQ(ShortDuration(absl::Minutes(5)), "5m");
  EXPECT_EQ(ShortDuration(absl::Minutes(61)), "61m");
  EXPECT_EQ(ShortDuration(absl::Hours(4) + absl::Minutes(7)), "4h7m");
  EXPECT_EQ(ShortDuration(absl::Hours(30)), "30h");
  EXPECT_EQ(ShortDuration(absl::Hours(49)), "2d1h");
  EXPECT_EQ(ShortDuration(absl::Hours(24 * 400)), "400d");
}

}  // namespace
}  // namespace tf::tfctl
