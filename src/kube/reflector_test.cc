#include "kube/reflector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "kube/error.h"

namespace tf::kube {
namespace {

using Kind = Reflector::Step::Kind;
using testing::Pair;
using testing::UnorderedElementsAre;

absl::Status Answer(absl::StatusCode code, int http_status, const std::string& reason, ErrorDetails details = {}) {
  details.http_status = http_status;
  details.reason = reason;
  return WithDetails(absl::Status(code, absl::StrCat("injected ", http_status)), details);
}

const absl::Status kGone = Answer(absl::StatusCode::kOutOfRange, 410, "Expired");
const absl::Status kTooLarge =
    Answer(absl::StatusCode::kUnavailable, 504, "Timeout", {.causes = {{.reason = "ResourceVersionTooLarge"}}});
const absl::Status kInvalid = Answer(absl::StatusCode::kInvalidArgument, 422, "Invalid");
const absl::Status kBusy =
    Answer(absl::StatusCode::kResourceExhausted, 429, "TooManyRequests", {.retry_after = absl::Seconds(7)});
const absl::Status kInternal = Answer(absl::StatusCode::kUnavailable, 500, "InternalError");
const absl::Status kCut = absl::UnavailableError("cut");
const absl::Status kSilent = absl::DeadlineExceededError("silent");
const absl::Status kOlder = absl::FailedPreconditionError("older than what is known");

// Of the first failure, with jitter.
#define EXPECT_FIRST_DELAY(waited)               \
  do {                                           \
    EXPECT_GE(waited, absl::Milliseconds(800));  \
    EXPECT_LE(waited, absl::Milliseconds(1600)); \
  } while (false)

class ReflectorTest : public testing::Test {
 protected:
  explicit ReflectorTest(bool watch_list = true)
      : reflector_(std::make_unique<Reflector>(ReflectorOptions{.watch_list = watch_list}, 1)) {}

  // Waits for the next step's time. `waited_`: how long that was.
  void Next() {
    step_ = reflector_->Next(now_);
    waited_ = step_.at - now_;
    now_ = step_.at;
  }
  void End(const absl::Status& status, absl::Duration after = absl::Seconds(5)) {
    now_ += after;
    reflector_->Ended(status, now_);
  }
  void Filled(uint64_t version) { reflector_->Filled(version, now_); }
  void Event(uint64_t version) { reflector_->Heard(version, false, now_); }
  void Bookmark(uint64_t version) { reflector_->Heard(version, true, now_); }
  // Until it has read all, as of version 100, and is in a plain watch.
  void Watching() {
    Next();
    Filled(100);
    End(absl::OkStatus());
    Next();
    ASSERT_EQ(step_.kind, Kind::kWatch);
    ASSERT_EQ(step_.resource_version, "100");
    ASSERT_EQ(waited_, absl::ZeroDuration());
  }
  void ExpectWatch(const std::string& version) {
    EXPECT_EQ(step_.kind, Kind::kWatch);
    EXPECT_EQ(step_.resource_version, version);
  }
  void ExpectFill(Kind kind, const std::string& version, const std::string& cause) {
    EXPECT_EQ(step_.kind, kind);
    EXPECT_EQ(step_.resource_version, version);
    EXPECT_EQ(step_.cause, cause);
  }

  std::unique_ptr<Reflector> reflector_;
  absl::Duration now_ = absl::Hours(1);
  absl::Duration waited_;
  Reflector::Step step_{};
};

class ListingTest : public ReflectorTest {
 protected:
  ListingTest() : ReflectorTest(false) {}
};

TEST_F(ReflectorTest, BeginsWithAWatchThatTellsAllAndGoesOnWatching) {
  Next();
  ExpectFill(Kind::kWatchList, "", "start");
  EXPECT_EQ(waited_, absl::ZeroDuration());
  EXPECT_GE(step_.server_timeout, absl::Minutes(5));
  EXPECT_LT(step_.server_timeout, absl::Minutes(10));
  EXPECT_LT(step_.silence_limit, absl::Minutes(1));
  Filled(100);
  EXPECT_TRUE(reflector_->filled());
  Event(105);
  End(absl::OkStatus());
  Next();
  ExpectWatch("105");
  EXPECT_EQ(waited_, absl::ZeroDuration());
  EXPECT_EQ(reflector_->lists(), 1);
  EXPECT_EQ(reflector_->watches(), 2);
  EXPECT_EQ(reflector_->failures(), 0);
}

TEST_F(ReflectorTest, ServerTimeoutsDiffer) {
  Next();
  const absl::Duration first = step_.server_timeout;
  EXPECT_NE(first, Reflector({}, 2).Next(now_).server_timeout);
}

TEST_F(ListingTest, ListsWhatIsAtHandThenWatchesFromTheListsVersion) {
  Next();
  ExpectFill(Kind::kList, "0", "start");
  Filled(100);
  End(absl::OkStatus());
  Next();
  ExpectWatch("100");
  EXPECT_EQ(waited_, absl::ZeroDuration());
}

TEST_F(ReflectorTest, AServerWithoutWatchListIsAskedForAListAtOnce) {
  for (const absl::Status& refusal : {kInvalid, Answer(absl::StatusCode::kInvalidArgument, 400, "BadRequest"),
                                      Answer(absl::StatusCode::kUnimplemented, 405, "MethodNotAllowed")}) {
    reflector_ = std::make_unique<Reflector>(ReflectorOptions{}, 1);
    Next();
    End(refusal);
    Next();
    ExpectFill(Kind::kList, "0", "start");
    EXPECT_EQ(waited_, absl::ZeroDuration());
    EXPECT_EQ(reflector_->failures(), 0);
    Filled(100);
    End(absl::OkStatus());
    Next();
    End(kGone);
    Next();
    ExpectFill(Kind::kList, "100", "expired");  // and is not asked for a WatchList again
  }
}

TEST_F(ReflectorTest, AServerThatDoesNotKnowTheWordsOfWatchListEndsOrSaysNothing) {
  for (const absl::Status& end : {absl::OkStatus(), kSilent}) {
    reflector_ = std::make_unique<Reflector>(ReflectorOptions{}, 1);
    Next();
    End(end, absl::Minutes(1));
    Next();
    ExpectFill(Kind::kList, "0", "start");
    EXPECT_FIRST_DELAY(waited_);
    EXPECT_EQ(reflector_->failures(), 1);
  }
}

TEST_F(ReflectorTest, AFirstReadThatIsCutIsTriedAgainTheSameWay) {
  for (const absl::Status& end : {kCut, kBusy, kInternal}) {
    reflector_ = std::make_unique<Reflector>(ReflectorOptions{}, 1);
    Next();
    End(end);
    Next();
    ExpectFill(Kind::kWatchList, "", "start");
    EXPECT_GE(waited_, absl::Milliseconds(800));
  }
}

struct WatchEnd {
  const char* name;
  absl::Status status;
  Kind kind;
  const char* version;
  const char* cause;
  absl::Duration least, most;  // waited
};

class WatchEnds : public ReflectorTest, public testing::WithParamInterface<WatchEnd> {};

TEST_P(WatchEnds, AreAnsweredSo) {
  Watching();
  Event(107);
  End(GetParam().status, absl::Seconds(30));
  Next();
  EXPECT_EQ(step_.kind, GetParam().kind);
  EXPECT_EQ(step_.resource_version, GetParam().version);
  EXPECT_EQ(step_.cause, GetParam().cause);
  EXPECT_GE(waited_, GetParam().least);
  EXPECT_LE(waited_, GetParam().most);
}

constexpr absl::Duration kNone = absl::ZeroDuration();
const absl::Duration kFirst = absl::Milliseconds(800);
const absl::Duration kJittered = absl::Milliseconds(1600);

INSTANTIATE_TEST_SUITE_P(
    Table, WatchEnds,
    testing::Values(WatchEnd{"CleanEnd", absl::OkStatus(), Kind::kWatch, "107", "", kNone, kNone},
                    WatchEnd{"Cut", kCut, Kind::kWatch, "107", "", kFirst, kJittered},
                    WatchEnd{"Internal", kInternal, Kind::kWatch, "107", "", kFirst, kJittered},
                    WatchEnd{"Busy", kBusy, Kind::kWatch, "107", "", absl::Seconds(7), absl::Seconds(7)},
                    WatchEnd{"Broken", absl::DataLossError("no JSON"), Kind::kWatch, "107", "", kFirst, kJittered},
                    WatchEnd{"Forbidden", Answer(absl::StatusCode::kPermissionDenied, 403, "Forbidden"), Kind::kWatch,
                             "107", "", kFirst, kJittered},
                    WatchEnd{"NoConnectionInTime", absl::DeadlineExceededError("connect"), Kind::kWatch, "107", "",
                             kFirst, kJittered},
                    WatchEnd{"Gone", kGone, Kind::kWatchList, "107", "expired", kNone, kNone},
                    WatchEnd{"TooLarge", kTooLarge, Kind::kWatchList, "107", "ahead", kFirst, kJittered},
                    WatchEnd{"BadVersion", Answer(absl::StatusCode::kInvalidArgument, 400, "BadRequest"),
                             Kind::kWatchList, "", "refused", kFirst, kJittered}),
    [](const testing::TestParamInfo<WatchEnd>& info) { return info.param.name; });

TEST_F(ReflectorTest, BookmarksMoveTheVersion) {
  Watching();
  Bookmark(150);
  End(kCut);
  Next();
  ExpectWatch("150");
}

TEST_F(ReflectorTest, RepeatedEventsDoNotMoveItBack) {
  Watching();
  Event(150);
  Event(120);
  End(kCut);
  Next();
  ExpectWatch("150");
}

TEST_F(ReflectorTest, ACleanEndAtOnceIsAFailure) {
  Watching();
  End(absl::OkStatus(), absl::Milliseconds(900));
  Next();
  ExpectWatch("100");
  EXPECT_FIRST_DELAY(waited_);
  // With a bookmark in it, it is none.
  Bookmark(101);
  End(absl::OkStatus(), absl::Milliseconds(10));
  Next();
  EXPECT_EQ(waited_, absl::ZeroDuration());
  EXPECT_EQ(reflector_->failures(), 1);
}

TEST_F(ReflectorTest, DelaysGrowToTheLongestAndBeginAgainAfterQuiet) {
  Watching();
  absl::Duration expected = absl::Milliseconds(800);
  for (int i = 0; i < 12; ++i) {
    End(kCut, absl::Seconds(1));
    Next();
    EXPECT_GE(waited_, expected);
    EXPECT_LE(waited_, expected * 2);
    expected = std::min(expected * 2, absl::Seconds(30));
  }
  EXPECT_EQ(expected, absl::Seconds(30));
  // An event alone does not make a server well.
  Event(101);
  End(kCut, absl::Seconds(1));
  Next();
  EXPECT_GE(waited_, absl::Seconds(30));
  End(kCut, absl::Minutes(2));
  Next();
  EXPECT_FIRST_DELAY(waited_);
}

TEST_F(ReflectorTest, RetryAfterIsObeyedWithinReason) {
  Watching();
  End(Answer(absl::StatusCode::kUnavailable, 503, "ServiceUnavailable", {.retry_after = absl::Seconds(90)}));
  Next();
  EXPECT_EQ(waited_, absl::Seconds(90));
  End(Answer(absl::StatusCode::kUnavailable, 503, "ServiceUnavailable", {.retry_after = absl::Hours(10000)}));
  Next();
  EXPECT_EQ(waited_, absl::Minutes(5));
}

TEST_F(ReflectorTest, WhatExpiredIsReadFromTheLastVersionThenTheNewest) {
  Watching();
  Event(107);
  End(kGone);
  Next();
  ExpectFill(Kind::kWatchList, "107", "expired");
  End(kGone);
  Next();
  ExpectFill(Kind::kWatchList, "", "expired");
  EXPECT_EQ(waited_, absl::ZeroDuration());
  // No hot loop, whatever the server says.
  End(kGone);
  Next();
  ExpectFill(Kind::kWatchList, "", "expired");
  EXPECT_FIRST_DELAY(waited_);
  Filled(200);
  EXPECT_THAT(reflector_->causes(), UnorderedElementsAre(Pair("start", 1), Pair("expired", 1)));
}

TEST_F(ListingTest, AListWhoseVersionIsTooLargeIsAskedForTheNewest) {
  Watching();
  End(kGone);
  Next();
  ExpectFill(Kind::kList, "100", "expired");
  End(kTooLarge);
  Next();
  ExpectFill(Kind::kList, "", "expired");
  EXPECT_EQ(waited_, absl::ZeroDuration());
}

TEST_F(ListingTest, AFirstListThatExpiresOnItsWayIsAskedForTheNewest) {
  Next();
  End(kGone);
  Next();
  ExpectFill(Kind::kList, "", "start");
}

TEST_F(ListingTest, TooLargeIsAlsoKnownByItsWords) {
  Watching();
  End(WithDetails(absl::UnavailableError("Timeout: Too large resource version: 107, current: 90"),
                  {.http_status = 504, .reason = "Timeout"}));
  Next();
  ExpectFill(Kind::kList, "100", "ahead");
}

TEST_F(ReflectorTest, ExpiryAgainAndAgainSlowsDown) {  // snyk/kubernetes-monitor#1506, kubernetes-client/java#1628
  Watching();
  absl::Duration waited = absl::ZeroDuration();
  for (int i = 0; i < 10; ++i) {
    End(kGone, absl::Milliseconds(1));
    Next();
    ASSERT_EQ(step_.kind, Kind::kWatchList);
    waited += waited_;
    Filled(101 + static_cast<uint64_t>(i));
  }
  EXPECT_GE(waited, absl::Minutes(1));
  EXPECT_EQ(reflector_->lists(), 11);
}

TEST_F(ReflectorTest, AnOlderListIsRefusedUntilTheServerIsCertainlySetBack) {  // kubernetes/kubernetes#83520, #59848
  Watching();
  End(kGone);
  Next();
  EXPECT_EQ(step_.resource_version, "100");
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(step_.accept_older) << i;
    End(kOlder);
    Next();
    ExpectFill(Kind::kWatchList, "", "behind");
    EXPECT_GE(waited_, absl::Milliseconds(800));
  }
  EXPECT_TRUE(step_.accept_older);
  Filled(40);
  End(absl::OkStatus());
  Next();
  ExpectWatch("40");
  // Forgotten afterwards.
  Event(41);
  End(kGone);
  Next();
  EXPECT_FALSE(step_.accept_older);
}

TEST_F(ReflectorTest, AServerThatOnlyTellsOfThePastIsReadAgain) {
  Watching();
  Bookmark(60);
  Bookmark(70);
  End(absl::OkStatus(), absl::Minutes(5));
  Next();
  ExpectFill(Kind::kWatchList, "100", "ahead");
}

TEST_F(ReflectorTest, AReplicaThatCatchesUpIsNot) {
  Watching();
  Bookmark(60);
  Bookmark(130);
  End(absl::OkStatus(), absl::Minutes(5));
  Next();
  ExpectWatch("130");
  Event(120);  // repeated
  End(absl::OkStatus(), absl::Minutes(5));
  Next();
  ExpectWatch("130");
}

TEST_F(ReflectorTest, SilenceIsNoticedWithinAMinuteAndQuietIsNotTakenForDeath) {
  Watching();
  EXPECT_LT(step_.silence_limit, absl::Minutes(1));
  EXPECT_GE(step_.server_timeout, absl::Minutes(5));
  End(kSilent, step_.silence_limit);
  Next();
  // Quiet or dead? The next one, whose bookmark and end come before the limit, will tell.
  ExpectWatch("100");
  EXPECT_EQ(waited_, absl::ZeroDuration());
  EXPECT_EQ(reflector_->failures(), 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_LT(step_.server_timeout, step_.silence_limit);
    EXPECT_LT(step_.silence_limit, absl::Minutes(1));
    EXPECT_GE(step_.server_timeout, absl::Seconds(30));  // kind to the server
    Bookmark(110 + static_cast<uint64_t>(i));
    End(absl::OkStatus(), step_.server_timeout);
    Next();
    ExpectWatch(absl::StrCat(110 + i));
    EXPECT_EQ(waited_, absl::ZeroDuration());
  }
  // Silent although an end was due: dead.
  End(kSilent, step_.silence_limit);
  Next();
  ExpectWatch("114");
  EXPECT_FIRST_DELAY(waited_);
  EXPECT_EQ(reflector_->failures(), 1);
  // An event, and watches are long again.
  Event(120);
  End(kCut);
  Next();
  EXPECT_GE(step_.server_timeout, absl::Minutes(5));
}

TEST_F(ReflectorTest, AHalfDeadWatchListIsQuietOnceItHasToldAll) {
  Next();
  Filled(100);
  End(kSilent, step_.silence_limit);
  Next();
  ExpectWatch("100");
  EXPECT_EQ(waited_, absl::ZeroDuration());
  EXPECT_EQ(reflector_->failures(), 0);
}

// Whatever a server does: all is read again only for a cause, failures are spaced, versions do not go back.
class Properties : public testing::TestWithParam<uint64_t> {};

TEST_P(Properties, Hold) {
  std::mt19937_64 random(GetParam());
  const auto upto = [&](uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random); };
  const std::vector<absl::Status> ends = {
      absl::OkStatus(), kGone, kTooLarge, kInvalid, kBusy, kInternal, kCut, kSilent, absl::DataLossError("x")};
  Reflector reflector({.watch_list = upto(2) == 0}, GetParam());
  absl::Duration now = absl::Hours(1);
  uint64_t version = 0;
  int64_t failures = 0;
  int64_t excused = 0;  // ends that may lead to reading all
  int64_t fills = 0;
  for (int i = 0; i < 300; ++i) {
    const Reflector::Step step = reflector.Next(now);
    ASSERT_GE(step.at, now);
    ASSERT_LE(step.at - now, absl::Minutes(1));
    ASSERT_LT(step.silence_limit, absl::Minutes(1));
    if (reflector.failures() > failures) {
      ASSERT_GE(step.at - now, absl::Milliseconds(800));
    }
    failures = reflector.failures();
    now = step.at;
    const bool was_filled = reflector.filled();
    if (was_filled) {
      ASSERT_EQ(step.kind, Kind::kWatch);
      ASSERT_EQ(step.resource_version, absl::StrCat(version));
    } else {
      ASSERT_NE(step.kind, Kind::kWatch);
      ASSERT_FALSE(step.cause.empty());
    }
    const absl::Status& end = ends[upto(ends.size())];
    now += absl::Milliseconds(upto(3000));
    if (!was_filled && upto(2) == 0) {
      version += upto(5);
      if (version == 0) version = 1;
      reflector.Filled(version, now);
      ++fills;
    }
    if (reflector.filled() && step.kind != Kind::kList) {
      for (uint64_t events = upto(4); events > 0; --events) reflector.Heard(version += upto(2), upto(3) == 0, now);
    }
    if (step.kind == Kind::kList && reflector.filled()) {
      reflector.Ended(absl::OkStatus(), now);
      continue;
    }
    if (reflector.filled() && (IsExpired(end) || IsInvalid(end) || end == kTooLarge)) ++excused;
    reflector.Ended(end, now);
    ASSERT_TRUE(reflector.filled() || excused > 0 || fills == 0);
  }
  ASSERT_LE(reflector.lists(), excused + 1);
  ASSERT_EQ(reflector.lists(), fills);
  int64_t by_cause = 0;
  for (const auto& [cause, count] : reflector.causes()) by_cause += count;
  ASSERT_EQ(by_cause, fills);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Properties, testing::Range<uint64_t>(1, 101));

}  // namespace
}  // namespace tf::kube
