#include "kube/lease_candidate.h"

#include <functional>
#include <memory>
#include <queue>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;
using Kind = LeaseCandidate::Kind;

constexpr absl::Time kWall = absl::FromUnixSeconds(1'800'000'000);
const Key kLease{"system", "leader"};

absl::Duration At(double seconds) { return absl::Seconds(seconds); }

Json Record(std::string_view holder, int version, int seconds = 15) {
  return Json(JsonObject{
      {"metadata", {{"namespace", "system"}, {"name", "leader"}, {"resourceVersion", absl::StrCat(version)}}},
      {"spec", {{"holderIdentity", holder}, {"leaseDurationSeconds", seconds}, {"leaseTransitions", 4}}}});
}

LeaseCandidate Candidate(double random = 0) {
  return LeaseCandidate({}, kLease, "me", [random] { return random; });
}

// A candidate that has led since `sent`.
LeaseCandidate Leader(absl::Duration sent) {
  LeaseCandidate us = Candidate();
  EXPECT_EQ(us.Next(sent, kWall).kind, Kind::kRead);
  us.Answer(sent, sent, absl::NotFoundError("no"));
  EXPECT_EQ(us.Next(sent, kWall).kind, Kind::kCreate);
  us.Answer(sent, sent, Record("me", 1));
  EXPECT_TRUE(us.Leading(sent));
  return us;
}

TEST(LeaseSettings, MustLeaveNoTimeForTwo) {
  EXPECT_TRUE(Check({}).ok());
  EXPECT_TRUE(Check({.duration = At(3), .renew_deadline = At(2), .retry = At(0.4), .request_limit = At(0.5)}).ok());
  EXPECT_THAT(Check({.request_limit = At(3)}).message(), HasSubstr("two could write at a time"));
  EXPECT_THAT(Check({.renew_deadline = At(15)}).message(), HasSubstr("two could write at a time"));
  EXPECT_THAT(Check({.retry = At(9)}).message(), HasSubstr("no time for a second try"));
  EXPECT_THAT(Check({.duration = At(15.5)}).message(), HasSubstr("whole seconds"));
  EXPECT_FALSE(Check({.request_limit = At(0)}).ok());
}

TEST(LeaseCandidate, MakesALeaseThatIsNotThere) {
  LeaseCandidate us = Candidate();
  EXPECT_EQ(us.Next(At(0), kWall).kind, Kind::kRead);
  us.Answer(At(0), At(0), absl::NotFoundError("no"));
  const LeaseCandidate::Step step = us.Next(At(0), kWall);
  ASSERT_EQ(step.kind, Kind::kCreate);
  EXPECT_EQ(Text(step.lease, "spec.holderIdentity"), "me");
  EXPECT_EQ(Number(step.lease, "spec.leaseDurationSeconds"), 15);
  EXPECT_EQ(Number(step.lease, "spec.leaseTransitions", -1), 0);
  EXPECT_EQ(Text(step.lease, "spec.renewTime"), "2027-01-15T08:00:00.000000Z");
  EXPECT_EQ(Name(step.lease), "leader");
  EXPECT_EQ(Namespace(step.lease), "system");
  EXPECT_EQ(step.limit, absl::Milliseconds(2500));
  EXPECT_FALSE(us.Leading(At(1)));
  us.Answer(At(0), At(1), step.lease);
  EXPECT_TRUE(us.Leading(At(1)));
  EXPECT_EQ(us.write_until(), At(10)) << "counts from the moment before the request was sent";
  EXPECT_EQ(us.over_by(), At(13));
}

TEST(LeaseCandidate, TakesWhatNobodyHoldsAtOnce) {
  LeaseCandidate us = Candidate();
  us.Next(At(0), kWall);
  us.Answer(At(0), At(0), Record("", 7, 1));
  const LeaseCandidate::Step step = us.Next(At(0), kWall);
  ASSERT_EQ(step.kind, Kind::kUpdate);
  EXPECT_EQ(ResourceVersion(step.lease), "7");
  EXPECT_EQ(Number(step.lease, "spec.leaseTransitions"), 5);
}

TEST(LeaseCandidate, JudgesExpiryByItsOwnTimeSinceTheRecordChanged) {
  LeaseCandidate us = Candidate();
  us.Next(At(0), kWall);
  Json record = Record("other", 7);
  EnsureField(record, "spec.renewTime") = "1999-01-01T00:00:00.000000Z";  // says nothing to us
  us.Answer(At(0), At(0), record);
  absl::Duration now = At(0);
  int looks = 0;
  for (;;) {
    LeaseCandidate::Step step = us.Next(now, kWall);
    if (step.kind == Kind::kWait) {
      ASSERT_GT(step.until, now);
      now = step.until;
      continue;
    }
    if (step.kind == Kind::kUpdate) break;
    ASSERT_EQ(step.kind, Kind::kRead);
    ++looks;
    if (now == At(4)) EnsureField(record, "metadata.resourceVersion") = "8";
    us.Answer(now, now, record);
  }
  EXPECT_EQ(now, At(19)) << "15 s after it was last seen to change";
  EXPECT_EQ(looks, 10);
}

TEST(LeaseCandidate, ObeysTheDurationThatTheHolderWrote) {
  LeaseCandidate us = Candidate();
  us.Next(At(0), kWall);
  us.Answer(At(0), At(0), Record("other", 7, 60));
  absl::Duration now = At(0);
  for (;;) {
    LeaseCandidate::Step step = us.Next(now, kWall);
    if (step.kind == Kind::kUpdate) break;
    if (step.kind == Kind::kWait) now = step.until;
    if (step.kind == Kind::kRead) us.Answer(now, now, Record("other", 7, 60));
  }
  EXPECT_EQ(now, At(60));
}

TEST(LeaseCandidate, LooksAreJittered) {
  LeaseCandidate us = Candidate(0.5);
  us.Next(At(0), kWall);
  us.Answer(At(0), At(0), Record("other", 7));
  EXPECT_EQ(us.Next(At(0), kWall).until, At(2 * (1 + 1.2 * 0.5)));
}

TEST(LeaseCandidate, LooksAtOnceWhenToldAndOnlyWithoutTheLease) {
  LeaseCandidate us = Candidate(0.5);
  us.Next(At(0), kWall);
  us.Answer(At(0), At(0), Record("other", 7));
  EXPECT_EQ(us.Next(At(1), kWall).kind, Kind::kWait);
  us.Look();
  ASSERT_EQ(us.Next(At(1), kWall).kind, Kind::kRead);
  us.Answer(At(1), At(1), Record("other", 8));
  EXPECT_EQ(us.Next(At(15), kWall).kind, Kind::kWait) << "the change was seen at 1";

  LeaseCandidate leader = Leader(At(0));
  leader.Look();
  EXPECT_EQ(leader.Next(At(1), kWall).kind, Kind::kWait);
}

TEST(LeaseCandidate, RenewsEveryRetryAndCountsFromTheSending) {
  LeaseCandidate us = Leader(At(0));
  EXPECT_EQ(us.Next(At(0), kWall).until, At(2));
  const LeaseCandidate::Step step = us.Next(At(2), kWall);
  ASSERT_EQ(step.kind, Kind::kUpdate);
  EXPECT_EQ(ResourceVersion(step.lease), "1");
  EXPECT_EQ(Number(step.lease, "spec.leaseTransitions"), 4) << "renewing is no transition";
  us.Answer(At(2), At(4), Record("me", 2));
  EXPECT_EQ(us.write_until(), At(12));
}

TEST(LeaseCandidate, IsLostAtTheDeadlineAndRequestsEndBefore) {
  LeaseCandidate us = Leader(At(0));
  absl::Duration now = At(0);
  LeaseCandidate::Step step;
  for (;;) {
    step = us.Next(now, kWall);
    if (step.kind == Kind::kLost) break;
    if (step.kind == Kind::kWait) {
      now = step.until;
    } else {
      EXPECT_LE(now + step.limit, At(10));
      now += step.limit;
      us.Answer(now - step.limit, now, absl::UnavailableError("connection refused"));
    }
  }
  EXPECT_EQ(now, At(10));
  EXPECT_THAT(step.reason, HasSubstr("connection refused"));
  EXPECT_FALSE(us.Leading(now));
}

TEST(LeaseCandidate, IsLostWhenSomebodyElseHoldsIt) {
  LeaseCandidate us = Leader(At(0));
  ASSERT_EQ(us.Next(At(2), kWall).kind, Kind::kUpdate);
  us.Answer(At(2), At(2), absl::AbortedError("conflict"));
  ASSERT_EQ(us.Next(At(2), kWall).kind, Kind::kRead) << "at once";
  us.Answer(At(2), At(2), Record("other", 9));
  const LeaseCandidate::Step step = us.Next(At(2), kWall);
  EXPECT_EQ(step.kind, Kind::kLost);
  EXPECT_THAT(step.reason, HasSubstr("\"other\""));
}

TEST(LeaseCandidate, ALeaderThatWasFrozenHasLostIt) {
  LeaseCandidate us = Leader(At(0));
  ASSERT_EQ(us.Next(At(2), kWall).kind, Kind::kUpdate);
  EXPECT_FALSE(us.Leading(At(62)));
  us.Answer(At(2), At(62), Record("me", 2));  // the answer had been in the socket for a minute
  EXPECT_FALSE(us.Leading(At(62)));
  const LeaseCandidate::Step step = us.Next(At(62), kWall);
  EXPECT_EQ(step.kind, Kind::kLost);
  EXPECT_THAT(step.reason, HasSubstr("was the process stopped"));
}

TEST(LeaseCandidate, AnAcquisitionWhoseAnswerCameTooLateIsWrittenAgain) {
  LeaseCandidate us = Candidate();
  us.Next(At(0), kWall);
  us.Answer(At(0), At(0), absl::NotFoundError("no"));
  ASSERT_EQ(us.Next(At(0), kWall).kind, Kind::kCreate);
  us.Answer(At(0), At(62), Record("me", 2));
  EXPECT_FALSE(us.Leading(At(62)));
  absl::Duration now = us.Next(At(62), kWall).until;
  ASSERT_EQ(us.Next(now, kWall).kind, Kind::kRead);
  us.Answer(now, now, Record("other", 3));
  EXPECT_EQ(us.Next(now, kWall).kind, Kind::kWait) << "it never led, so nothing is lost";
}

TEST(LeaseCandidate, ALostAnswerCountsForNothingUntilItIsWrittenAgain) {
  LeaseCandidate us = Candidate();
  us.Next(At(0), kWall);
  us.Answer(At(0), At(0), absl::NotFoundError("no"));
  ASSERT_EQ(us.Next(At(0), kWall).kind, Kind::kCreate);
  us.Answer(At(0), At(2.5), absl::DeadlineExceededError("no answer"));
  EXPECT_FALSE(us.Leading(At(2.5)));
  absl::Duration now = us.Next(At(2.5), kWall).until;
  ASSERT_EQ(us.Next(now, kWall).kind, Kind::kRead);
  us.Answer(now, now, Record("me", 1));  // it had taken effect
  EXPECT_FALSE(us.Leading(now));
  const LeaseCandidate::Step step = us.Next(now, kWall);
  ASSERT_EQ(step.kind, Kind::kUpdate);
  EXPECT_EQ(Number(step.lease, "spec.leaseTransitions"), 4);
  us.Answer(now, now, Record("me", 2));
  EXPECT_TRUE(us.Leading(now));
  EXPECT_EQ(us.write_until(), now + At(10));
}

TEST(LeaseCandidate, ARecordThatVanishesMayStillHaveALeader) {
  LeaseCandidate us = Candidate();
  us.Next(At(0), kWall);
  us.Answer(At(0), At(0), Record("other", 7));
  absl::Duration now = us.Next(At(0), kWall).until;
  const absl::Duration vanished = now;
  for (;;) {
    LeaseCandidate::Step step = us.Next(now, kWall);
    if (step.kind == Kind::kCreate) break;
    if (step.kind == Kind::kWait) now = step.until;
    if (step.kind == Kind::kRead) us.Answer(now, now, absl::NotFoundError("gone"));
  }
  EXPECT_EQ(now, vanished + At(15));
}

TEST(LeaseCandidate, TheLeaderMakesAVanishedRecordAnew) {
  LeaseCandidate us = Leader(At(0));
  ASSERT_EQ(us.Next(At(2), kWall).kind, Kind::kUpdate);
  us.Answer(At(2), At(2), absl::NotFoundError("gone"));
  ASSERT_EQ(us.Next(At(2), kWall).kind, Kind::kRead);
  us.Answer(At(2), At(2), absl::NotFoundError("gone"));
  EXPECT_EQ(us.Next(At(2), kWall).kind, Kind::kCreate);
}

TEST(LeaseCandidate, GivesBackWithAnEmptyHolderAndOneSecond) {
  LeaseCandidate us = Leader(At(0));
  const std::optional<LeaseCandidate::Step> step = us.Release(At(1), kWall);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->kind, Kind::kUpdate);
  EXPECT_EQ(Text(step->lease, "spec.holderIdentity"), "");
  EXPECT_EQ(Number(step->lease, "spec.leaseDurationSeconds"), 1);
  EXPECT_EQ(ResourceVersion(step->lease), "1");
  EXPECT_FALSE(us.Leading(At(1)));
}

TEST(LeaseCandidate, HasNothingToGiveBackThatIsNotItsOwn) {
  LeaseCandidate us = Candidate();
  us.Next(At(0), kWall);
  us.Answer(At(0), At(0), Record("other", 7));
  EXPECT_FALSE(us.Release(At(1), kWall));
  LeaseCandidate late = Leader(At(0));
  EXPECT_FALSE(late.Release(At(10), kWall));
}

// Two replicas and a server in simulated time. Requests and answers are delayed or lost, replicas freeze for up to a
// minute at any point and restart, wall and monotonic clocks are hours apart.
// Each replica writes while the candidate says that it leads. What arrives at the server must never go back to an
// earlier tenure.
class World {
 public:
  explicit World(unsigned seed) : random_(seed) {}

  void Run(absl::Duration length) {
    for (int i = 0; i < 2; ++i) {
      replicas_[i].offset = At(3600.0 * (1 + i * 5));
      Restart(i);
    }
    while (!events_.empty() && events_.top().at < length) {
      Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.run();
    }
  }

  int tenures() const { return tenures_; }
  int writes() const { return writes_; }
  int lost() const { return lost_; }
  bool went_back() const { return went_back_; }

 private:
  struct Replica {
    int life = 0;
    absl::Duration offset;
    absl::Duration frozen_until;
    std::unique_ptr<LeaseCandidate> candidate;
    bool led = false;
    bool stopping = false;
    absl::Duration last_write_over;
  };
  struct Event {
    absl::Duration at;
    int order;
    std::function<void()> run;
    bool operator<(const Event& other) const { return std::tie(other.at, other.order) < std::tie(at, order); }
  };

  double Uniform() { return std::uniform_real_distribution<double>()(random_); }
  bool Chance(double p) { return Uniform() < p; }
  void After(absl::Duration delay, std::function<void()> run) {
    events_.push({now_ + delay, order_++, std::move(run)});
  }

  // In the time of replica i, and not while it is frozen or after it has been replaced.
  void In(int i, absl::Duration delay, std::function<void()> run) {
    After(delay, [this, i, life = replicas_[i].life, run = std::move(run)] {
      Replica& replica = replicas_[i];
      if (replica.life != life) return;
      if (Chance(0.01)) replica.frozen_until = now_ + At(60 * Uniform() * Uniform());
      if (now_ < replica.frozen_until) {
        In(i, replica.frozen_until - now_, run);
      } else {
        run();
      }
    });
  }

  void Restart(int i) {
    Replica& replica = replicas_[i];
    ++replica.life;
    replica.led = replica.stopping = false;
    replica.last_write_over = now_;
    replica.frozen_until = now_;
    replica.candidate = std::make_unique<LeaseCandidate>(
        LeaseSettings{}, kLease, absl::StrCat("replica", i, "-", replica.life), [this] { return Uniform(); });
    In(i, At(Uniform()), [this, i] { Think(i); });
  }

  absl::Duration Local(int i) const { return now_ + replicas_[i].offset; }

  void Think(int i) {
    Replica& replica = replicas_[i];
    if (replica.led && replica.candidate->Leading(Local(i)) && Chance(0.005)) {
      // A clean stop: no more writes, those under way are waited for, then the lease is given back.
      replica.stopping = true;
      In(i, replica.last_write_over - now_, [this, i] {
        if (auto step = replicas_[i].candidate->Release(Local(i), kWall)) Send(i, *step, [] {});
        After(At(1), [this, i] { Restart(i); });
      });
      return;
    }
    const absl::Duration sent = Local(i);
    LeaseCandidate::Step step = replica.candidate->Next(sent, kWall + replica.offset);
    switch (step.kind) {
      case Kind::kLost:
        ++lost_;
        Restart(i);
        return;
      case Kind::kWait:
        In(i, step.until - sent, [this, i] { Think(i); });
        return;
      default:
        break;
    }
    auto answered = std::make_shared<bool>(false);
    Send(i, step, [this, i, sent, answered] {
      if (std::exchange(*answered, true)) return;
      replicas_[i].candidate->Answer(sent, Local(i), *answer_);
      if (replicas_[i].candidate->Leading(Local(i)) && !std::exchange(replicas_[i].led, true)) {
        ++tenures_;
        In(i, At(0), [this, i] { Write(i); });
      }
      Think(i);
    });
    In(i, step.limit, [this, i, sent, answered] {
      if (std::exchange(*answered, true)) return;
      replicas_[i].candidate->Answer(sent, Local(i), absl::DeadlineExceededError("no answer"));
      Think(i);
    });
  }

  // The request may be stuck before it is sent (the replica freezes), on its way, or lost; so may the answer.
  void Send(int i, const LeaseCandidate::Step& step, std::function<void()> answered) {
    In(i, At(0), [this, i, step, answered = std::move(answered)] {
      if (Chance(0.03)) return;
      const absl::Duration transit = Chance(0.05) ? At(10 * Uniform()) : At(0.05 * Uniform());
      After(transit, [this, i, step, answered] {
        absl::StatusOr<Json> answer = Serve(step);
        if (Chance(0.05)) return;
        In(i, At(0.05 * Uniform()), [this, answered, answer] {
          answer_ = &answer;
          answered();
        });
      });
    });
  }

  absl::StatusOr<Json> Serve(const LeaseCandidate::Step& step) {
    if (step.kind == Kind::kRead) {
      if (!record_) return absl::NotFoundError("no");
      return *record_;
    }
    if (step.kind == Kind::kCreate) {
      if (record_) return absl::AlreadyExistsError("there is one");
    } else {
      if (!record_) return absl::NotFoundError("no");
      if (ResourceVersion(*record_) != ResourceVersion(step.lease)) return absl::AbortedError("conflict");
    }
    const std::string before = record_ ? std::string(Text(*record_, "spec.holderIdentity")) : "";
    record_ = step.lease;
    EnsureField(*record_, "metadata.resourceVersion") = absl::StrCat(++version_);
    const std::string after(Text(*record_, "spec.holderIdentity"));
    if (after != before && !after.empty()) tenure_of_[after] = ++tenure_;
    return *record_;
  }

  void Write(int i) {
    Replica& replica = replicas_[i];
    const absl::Duration now = Local(i);
    if (replica.stopping) return;
    if (replica.candidate->Leading(now)) {
      ++writes_;
      // As the fence has it: begun before write_until, over by over_by.
      const absl::Duration latest = replica.candidate->over_by() - now;
      const std::string identity = absl::StrCat("replica", i, "-", replica.life);
      const absl::Duration takes = Chance(0.2) ? latest : latest * Uniform();
      replica.last_write_over = std::max(replica.last_write_over, now_ + takes);
      After(takes, [this, identity] {
        const int tenure = tenure_of_[identity];
        if (tenure < last_tenure_) went_back_ = true;
        last_tenure_ = std::max(last_tenure_, tenure);
      });
    }
    In(i, At(0.5 * Uniform()), [this, i] { Write(i); });
  }

  std::mt19937 random_;
  absl::Duration now_;
  int order_ = 0;
  std::priority_queue<Event> events_;
  Replica replicas_[2];
  const absl::StatusOr<Json>* answer_ = nullptr;

  std::optional<Json> record_;
  int version_ = 0;
  int tenure_ = 0;
  std::map<std::string, int> tenure_of_;
  int last_tenure_ = 0;

  int tenures_ = 0, writes_ = 0, lost_ = 0;
  bool went_back_ = false;
};

TEST(LeaseCandidate, RandomHistoriesNeverHaveTwoWhoWrite) {
  int tenures = 0, writes = 0, lost = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    World world(seed);
    world.Run(absl::Hours(1));
    EXPECT_FALSE(world.went_back()) << "seed " << seed;
    tenures += world.tenures();
    writes += world.writes();
    lost += world.lost();
  }
  // The histories are worth something.
  EXPECT_GT(tenures, 500);
  EXPECT_GT(lost, 300);
  EXPECT_GT(writes, 100'000);
}

}  // namespace
}  // namespace tf::kube
