#include "operator/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "http/server.h"
#include "kube/config.h"

namespace tf::operators {
namespace {

using rollout::Action;
using rollout::Replace;
using testing::ElementsAre;
using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

// As kube-apiserver says it.
constexpr char kBudgetSays[] =
    R"({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429,
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{"reason": "DisruptionBudget",
          "message": "The disruption budget web needs 2 healthy pods and has 2 currently"}]}})";
constexpr char kConflict[] =
    R"({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409, "message": "uid"})";
constexpr char kOk[] = R"({"kind": "Status", "apiVersion": "v1", "status": "Success"})";

class RestartsTest : public testing::Test {
 protected:
  RestartsTest() {
    auto server = http::Server::Start({}, [this](const http::ServerRequest& request, http::ResponseWriter& writer) {
      std::pair<int, std::string> answer{200, kOk};
      {
        const std::lock_guard lock(mutex_);
        asked_.push_back(absl::StrCat(request.method, " ", request.target, " ", request.body));
        if (!answers_.empty()) {
          answer = answers_.front();
          answers_.pop_front();
        }
      }
      writer.Send(answer.first, "application/json", answer.second, {}).IgnoreError();
    });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    kube::Config config;
    config.server = absl::StrCat("http://127.0.0.1:", server_->port());
    client_ = std::make_unique<kube::Client>(std::make_shared<kube::Config>(std::move(config)), "test/1");
    restarts_ = std::make_unique<Restarts>(*client_);
  }

  void Answer(int status, std::string body) { answers_.emplace_back(status, std::move(body)); }
  rollout::PodSeen Amended() {
    rollout::PodSeen pod{.ns = "apps", .name = "web-1", .uid = "u1", .ready = true};
    restarts_->Amend(pod);
    return pod;
  }
  static Action Of(Replace how) {
    return {.component = rollout::Component::kClient, .ns = "apps", .pod = "web-1", .uid = "u1", .how = how};
  }

  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::deque<std::pair<int, std::string>> answers_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<Restarts> restarts_;
};

TEST_F(RestartsTest, DeletesOnlyThePodThatWasMeant) {
  Action action = Of(Replace::kDelete);
  action.if_unchanged = "77";
  EXPECT_TRUE(restarts_->Restart(action, kNow));
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_THAT(asked_[0], testing::StartsWith("DELETE /api/v1/namespaces/apps/pods/web-1"));
  EXPECT_THAT(asked_[0], HasSubstr(R"("uid":"u1")"));
  EXPECT_THAT(asked_[0], HasSubstr(R"("resourceVersion":"77")"));
  // Until the caches have caught up.
  EXPECT_TRUE(Amended().terminating);
  EXPECT_FALSE(Amended().ready);
  restarts_->Forget("u1");
  EXPECT_FALSE(Amended().terminating);
}

TEST_F(RestartsTest, ABudgetsRefusalIsNamedAndWaitedFor) {
  Answer(429, kBudgetSays);
  Answer(429, kBudgetSays);
  EXPECT_FALSE(restarts_->Restart(Of(Replace::kEvict), kNow));
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_THAT(asked_[0], testing::StartsWith("POST /api/v1/namespaces/apps/pods/web-1/eviction"));
  EXPECT_THAT(asked_[0], HasSubstr(R"("preconditions":{"uid":"u1"})"));
  EXPECT_EQ(Amended().refused_by,
            "PodDisruptionBudget apps/web: The disruption budget web needs 2 healthy pods and has 2 currently");
  EXPECT_EQ(Amended().retry_after, kNow + absl::Seconds(5));
  EXPECT_FALSE(Amended().terminating);
  EXPECT_FALSE(restarts_->Restart(Of(Replace::kEvict), kNow));
  EXPECT_EQ(Amended().retry_after, kNow + absl::Seconds(10));
  EXPECT_TRUE(restarts_->Restart(Of(Replace::kEvict), kNow));
  EXPECT_EQ(Amended().refused_by, "");
  EXPECT_TRUE(Amended().terminating);
}

TEST_F(RestartsTest, AnotherPodOfThatNameIsLeftAlone) {
  Answer(409, kConflict);
  EXPECT_TRUE(restarts_->Restart(Of(Replace::kDelete), kNow));
  EXPECT_FALSE(Amended().terminating);
}

TEST_F(RestartsTest, WhatOnlyAPersonMayRestartIsNotTouched) {
  EXPECT_FALSE(restarts_->Restart(Of(Replace::kManual), kNow));
  EXPECT_TRUE(asked_.empty());
}

}  // namespace
}  // namespace tf::operators
