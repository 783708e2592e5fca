#include "operator/references.h"

#include <gtest/gtest.h>

namespace tf::operators {
namespace {

using Kind = Reference::Kind;

std::vector<Reference> In(std::string_view text) { return ReferencesOf(*kube::ParseJson(text)); }

TEST(References, OfAllPlacesOfATemplate) {
  const std::vector<Reference> found = In(R"({"template": {"spec": {
    "imagePullSecrets": [{"name": "registry"}],
    "initContainers": [{"name": "a", "envFrom": [{"prefix": "P_", "secretRef": {"name": "all", "optional": true}}]}],
    "containers": [{"name": "b",
      "env": [{"name": "TF_LICENSE", "valueFrom": {"secretKeyRef": {"name": "license", "key": "text"}}},
              {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}},
              {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
      "envFrom": [{"configMapRef": {"name": "settings"}}]}],
    "volumes": [{"name": "v", "secret": {"secretName": "files", "items": [{"key": "k", "path": "p"}]}},
                {"name": "w", "configMap": {"name": "more"}},
                {"name": "x", "projected": {"sources": [{"secret": {"name": "one"}},
                                                        {"configMap": {"name": "two", "optional": true}}]}},
                {"name": "y", "emptyDir": {}}]}}})");
  const std::vector<Reference> expected = {
      {Kind::kSecret, "all", {}, true},
      {Kind::kSecret, "files", {"k"}, false},
      {Kind::kSecret, "license", {"text"}, false},
      {Kind::kSecret, "one", {}, false},
      {Kind::kConfigMap, "more", {}, false},
      {Kind::kConfigMap, "settings", {}, false},
      {Kind::kConfigMap, "settings", {"level"}, false},
      {Kind::kConfigMap, "two", {}, true},
  };
  EXPECT_EQ(found, expected);
}

TEST(References, OfAPatchAndWhatIsOfAnotherShapeIsNone) {
  EXPECT_EQ(In(R"({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]})").size(), 1u);
  EXPECT_TRUE(
      In(R"({"metadata": {"labels": {"secret": "x", "configMap": "y"}}, "secretRef": [], "secret": {}})").empty());
  EXPECT_TRUE(In("null").empty());
}

TEST(References, TheSameTwiceIsThereOnce) {
  EXPECT_EQ(In(R"([{"secretRef": {"name": "s"}}, {"secretRef": {"name": "s"}}])").size(), 1u);
}

}  // namespace
}  // namespace tf::operators
