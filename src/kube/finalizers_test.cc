#include "kube/finalizers.h"

#include "gtest/gtest.h"

namespace tf::kube {
namespace {

TEST(Finalizers, AddAndRemoveOnObjects) {
  Json object(JsonObject{{"metadata", {{"name", "a"}}}});
  EXPECT_FALSE(HasFinalizer(object, "x.io/a"));
  EXPECT_FALSE(RemoveFinalizer(object, "x.io/a"));
  EXPECT_TRUE(AddFinalizer(object, "x.io/a"));
  EXPECT_FALSE(AddFinalizer(object, "x.io/a"));
  EXPECT_TRUE(AddFinalizer(object, "x.io/b"));
  EXPECT_TRUE(HasFinalizer(object, "x.io/a"));
  EXPECT_TRUE(RemoveFinalizer(object, "x.io/a"));
  EXPECT_EQ(*Field(object, "metadata.finalizers"), Json(JsonArray{"x.io/b"}));
}

TEST(Finalizers, StrangeObjectsDoNoHarm) {
  Json object(JsonObject{{"metadata", {{"finalizers", "none"}}}});
  EXPECT_FALSE(HasFinalizer(object, "x.io/a"));
  EXPECT_FALSE(RemoveFinalizer(object, "x.io/a"));
  EXPECT_TRUE(AddFinalizer(object, "x.io/a"));
  Json numbers(JsonObject{{"metadata", {{"finalizers", {1, "x.io/a", nullptr}}}}});
  EXPECT_TRUE(RemoveFinalizer(numbers, "x.io/a"));
  EXPECT_EQ(*Field(numbers, "metadata.finalizers"), Json(JsonArray{1, nullptr}));
}

}  // namespace
}  // namespace tf::kube
