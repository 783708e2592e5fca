#include "remoting/client/fetch_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "http/server.h"

namespace tf::remoting {
namespace {

using testing::HasSubstr;

class FetchConnectionTest : public ::testing::Test {
 protected:
  FetchConnectionTest() {
    token_ = testing::TempDir() + "fetch-token-" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ofstream(token_) << "first\n";
    auto server = http::Server::Start(
        {.address = "127.0.0.1"}, [this](const http::ServerRequest& request, http::ResponseWriter& writer) {
          std::lock_guard lock(mutex_);
          asked_.push_back(absl::StrCat(request.target, " ", std::string(request.Header("authorization"))));
          answer_(static_cast<int>(asked_.size()), writer);
        });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~FetchConnectionTest() override { std::filesystem::remove(token_); }

  absl::StatusOr<std::string> Fetch(absl::Duration limit = absl::Seconds(20)) {
    return FetchConnection(absl::StrCat("http://127.0.0.1:", server_->port(), "/api/connection?name=c&namespace=n"),
                           {.token_file = token_, .limit = limit, .pause = absl::Milliseconds(1)});
  }

  std::string token_;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::function<void(int, http::ResponseWriter&)> answer_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(FetchConnectionTest, TheAnswerIsTheConnection) {
  answer_ = [](int, http::ResponseWriter& writer) {
    (void)writer.Send(200, "text/plain", "native+127.0.0.1+8000+w\n");
  };
  EXPECT_EQ(*Fetch(), "native+127.0.0.1+8000+w");
  EXPECT_THAT(asked_, testing::ElementsAre("/api/connection?name=c&namespace=n Bearer first"));
}

TEST_F(FetchConnectionTest, ItAsksAgainWithTheTokenOfTheMoment) {
  answer_ = [this](int time, http::ResponseWriter& writer) {
    std::ofstream(token_) << "second";
    (void)writer.Send(time == 1 ? 503 : time == 2 ? 404 : 200, "text/plain", "shmem+a+8+1");
  };
  EXPECT_EQ(*Fetch(), "shmem+a+8+1");
  ASSERT_EQ(asked_.size(), 3u);
  EXPECT_THAT(asked_[2], HasSubstr("Bearer second"));
}

TEST_F(FetchConnectionTest, ARefusalIsFinal) {
  answer_ = [](int, http::ResponseWriter& writer) { (void)writer.Send(403, "text/plain", "of another pod"); };
  const absl::StatusOr<std::string> answer = Fetch();
  EXPECT_TRUE(absl::IsPermissionDenied(answer.status()));
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("403 of another pod"));
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(FetchConnectionTest, ALimitHasAnEndAndSaysWhatWasSaidLast) {
  answer_ = [](int, http::ResponseWriter& writer) { (void)writer.Send(503, "text/plain", "not ready yet"); };
  const absl::StatusOr<std::string> answer = Fetch(absl::Milliseconds(500));
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status()));
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("503 not ready yet"));
}

TEST_F(FetchConnectionTest, AnOperatorThatIsAwayIsWaitedFor) {
  const uint16_t port = server_->port();
  server_.reset();
  const auto answer =
      FetchConnection(absl::StrCat("http://127.0.0.1:", port, "/"),
                      {.token_file = token_, .limit = absl::Milliseconds(50), .pause = absl::Milliseconds(1)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
}

TEST_F(FetchConnectionTest, AnAnswerWithoutEndIsCut) {
  answer_ = [](int, http::ResponseWriter& writer) { (void)writer.Send(200, "text/plain", std::string(100000, 'x')); };
  EXPECT_THAT(std::string(Fetch(absl::Milliseconds(500)).status().message()), HasSubstr("more than 64 KiB"));
}

TEST_F(FetchConnectionTest, MistakesAreNamed) {
  for (const char* url : {"https://h/", "h:80/x", "http://", "http:///x", "http://h/a b", "http://h:/x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FetchConnection(url, {.token_file = token_}).status())) << url;
  }
  const auto missing = FetchConnection("http://127.0.0.1:1/", {.token_file = "/nowhere/token"});
  EXPECT_TRUE(absl::IsFailedPrecondition(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nowhere/token"));
}

}  // namespace
}  // namespace tf::remoting
