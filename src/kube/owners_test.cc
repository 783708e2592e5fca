#include "kube/owners.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;

Json Object(std::string_view kind, std::string_view ns, std::string_view name, std::string_view uid) {
  Json object(JsonObject{{"apiVersion", "v1"}, {"kind", kind}, {"metadata", {{"name", name}, {"uid", uid}}}});
  if (!ns.empty()) EnsureField(object, "metadata.namespace") = ns;
  return object;
}

TEST(Owners, SetControllerWritesAReferenceOnce) {
  Json child = Object("Pod", "ns", "c", "u1");
  const Json owner = Object("ConfigMap", "ns", "o", "u2");
  EXPECT_EQ(ControllerOf(child), nullptr);
  EXPECT_FALSE(IsControlledBy(child, owner));
  ASSERT_TRUE(SetController(child, owner).ok());
  ASSERT_TRUE(SetController(child, owner).ok());
  EXPECT_EQ(Field(child, "metadata.ownerReferences")->as_array().size(), 1u);
  const Json* reference = ControllerOf(child);
  ASSERT_NE(reference, nullptr);
  EXPECT_EQ(*reference, Json(JsonObject{{"apiVersion", "v1"},
                                        {"kind", "ConfigMap"},
                                        {"name", "o"},
                                        {"uid", "u2"},
                                        {"controller", true},
                                        {"blockOwnerDeletion", true}}));
  EXPECT_TRUE(IsControlledBy(child, owner));
  EXPECT_FALSE(IsControlledBy(child, Object("ConfigMap", "ns", "o", "u3"))) << "the UID counts, not the name";
}

TEST(Owners, ThereIsOneController) {
  Json child = Object("Pod", "ns", "c", "u1");
  ASSERT_TRUE(SetController(child, Object("ConfigMap", "ns", "o", "u2")).ok());
  const absl::Status second = SetController(child, Object("ConfigMap", "ns", "p", "u3"));
  EXPECT_TRUE(absl::IsAlreadyExists(second));
  EXPECT_THAT(second.message(), HasSubstr("ConfigMap o"));
  EXPECT_TRUE(AddOwner(child, Object("ConfigMap", "ns", "p", "u3")).ok());
  EXPECT_EQ(Field(child, "metadata.ownerReferences")->as_array().size(), 2u);
}

TEST(Owners, AddOwnerLeavesTheControllerAsItIs) {
  Json child = Object("Pod", "ns", "c", "u1");
  const Json owner = Object("ConfigMap", "ns", "o", "u2");
  ASSERT_TRUE(SetController(child, owner).ok());
  ASSERT_TRUE(AddOwner(child, owner).ok());
  EXPECT_TRUE(IsControlledBy(child, owner));
}

TEST(Owners, NoOwnerAcrossNamespaces) {
  Json child = Object("Pod", "ns", "c", "u1");
  EXPECT_TRUE(absl::IsInvalidArgument(SetController(child, Object("ConfigMap", "other", "o", "u2"))));
  EXPECT_TRUE(SetController(child, Object("Node", "", "n", "u3")).ok()) << "cluster-scoped owners may";
  Json node = Object("Node", "", "n", "u4");
  EXPECT_TRUE(absl::IsInvalidArgument(SetController(node, Object("Pod", "ns", "o", "u5"))));
}

TEST(Owners, AnOwnerWithoutUidIsRefused) {
  Json child = Object("Pod", "ns", "c", "u1");
  EXPECT_TRUE(absl::IsInvalidArgument(SetController(child, Object("ConfigMap", "ns", "o", ""))));
}

}  // namespace
}  // namespace tf::kube
