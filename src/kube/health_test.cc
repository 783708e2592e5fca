#include "kube/health.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Subject {
  Health health;
  absl::Status cache;
  Subject() {
    health.AddReady("cache", [this] { return cache; });
    health.AddReady("webhook", [] { return absl::OkStatus(); });
  }
};

TEST(Health, OkWhenAllAre) {
  Subject s;
  EXPECT_EQ(s.health.Answer("/readyz").status, 200);
  EXPECT_EQ(s.health.Answer("/readyz").body, "ok");
  EXPECT_EQ(s.health.Answer("/healthz").status, 200);
}

TEST(Health, OneThatFailsFailsThePageAndKeepsItsReason) {
  Subject s;
  s.cache = absl::UnavailableError("10.0.0.1 refused");
  const Health::Page page = s.health.Answer("/readyz");
  EXPECT_EQ(page.status, 500);
  EXPECT_EQ(page.body, "[+]ping ok\n[-]cache failed: reason withheld\n[+]webhook ok\nreadyz check failed\n");
  EXPECT_EQ(s.health.Answer("/healthz").status, 200) << "not ready is not dead";
}

TEST(Health, VerboseAndExclude) {
  Subject s;
  EXPECT_EQ(s.health.Answer("/readyz", true).body, "[+]ping ok\n[+]cache ok\n[+]webhook ok\nreadyz check passed\n");
  s.cache = absl::UnavailableError("no");
  EXPECT_EQ(s.health.Answer("/readyz", false, {"cache"}).status, 200);
}

TEST(Health, OneCheckAlone) {
  Subject s;
  s.cache = absl::UnavailableError("no");
  EXPECT_EQ(s.health.Answer("/readyz/webhook").status, 200);
  EXPECT_EQ(s.health.Answer("/readyz/cache").status, 500);
  EXPECT_EQ(s.health.Answer("/readyz/nothing").status, 404);
  EXPECT_EQ(s.health.Answer("/").status, 404);
}

}  // namespace
}  // namespace tf::kube
