#include "operator/crd_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "api/crds.h"

namespace tf::operators {
namespace {

using kube::Json;

Json Definition(std::string_view schema, std::string_view more = "") {
  auto json = kube::ParseJson(absl::StrCat(R"({"metadata": {"name": "x"}, "spec": {"versions": [{"name": "v1", "schema":
    {"openAPIV3Schema": )",
                                           std::string(schema), "}", std::string(more), "}]}}"));
  EXPECT_TRUE(json.ok()) << json.status();
  return *std::move(json);
}

TEST(CrdCheck, WhatWeShipCoversItself) {
  EXPECT_EQ(api::CustomResourceDefinitions().size(), 12u);
  for (const std::string_view text : api::CustomResourceDefinitions()) {
    const auto json = kube::ParseJson(text);
    ASSERT_TRUE(json.ok()) << json.status();
    EXPECT_EQ(MissingFrom(*json, *json), "") << kube::Name(*json);
  }
}

TEST(CrdCheck, WhatIsTooOldIsNamed) {
  const struct {
    const char* installed;
    const char* ours;
    const char* missing;
  } cases[] = {
      {R"({"type": "object"})", R"({"type": "object", "properties": {"a": {"type": "string"}}})", ".a"},
      {R"({"properties": {"a": {"items": {"properties": {}}}}})",
       R"({"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}}}}})", ".a[].b"},
      {R"({"properties": {"a": {"enum": ["x"]}}})", R"({"properties": {"a": {"enum": ["x", "y"]}}})",
       ".a (value \"y\")"},
      {R"({"properties": {"a": {"maximum": 1}}})", R"({"properties": {"a": {"maximum": 2}}})", ".a (maximum)"},
      {R"({"properties": {"a": {"minimum": 1}}})", R"({"properties": {"a": {}}})", ".a (minimum)"},
      {R"({"required": ["a", "b"]})", R"({"required": ["a"]})", " (\"b\" not required)"},
      {R"({"properties": {"a": {"type": "object"}}})",
       R"({"properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})", ".a (free-form)"},
      {R"({"properties": {"a": {"type": "string"}}})", R"({"properties": {"a": {"type": "integer"}}})", ".a (type)"},
      {R"({"properties": {"a": {}}})", R"({"properties": {"a": {"default": 1}}})", ".a (default)"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(MissingFrom(Definition(one.installed), Definition(one.ours)), one.missing) << one.installed;
  }
  EXPECT_EQ(MissingFrom(Definition("{}"), Definition("{}", R"(, "subresources": {"status": {}})")),
            "the status subresource of version v1");
  EXPECT_EQ(MissingFrom(Definition("{}"), Definition("{}", R"(, "additionalPrinterColumns": [{"name": "Licence"}])")),
            "the column \"Licence\"");
}

// After a rollback the older operator meets newer definitions.
TEST(CrdCheck, ASupersetIsRecentEnough) {
  const Json ours =
      Definition(R"({"required": ["a"], "properties": {"a": {"enum": ["x"], "maximum": 1, "minLength": 2}}})");
  const Json newer =
      Definition(R"({"properties": {"a": {"enum": ["x", "y"], "maximum": 5, "minLength": 1, "default": "x"},
                                    "b": {"type": "string"}}})",
                 R"(, "additionalPrinterColumns": [{"name": "New"}])");
  EXPECT_EQ(MissingFrom(newer, ours), "");
  EXPECT_NE(MissingFrom(ours, newer), "");
}

}  // namespace
}  // namespace tf::operators
