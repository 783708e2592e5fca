#include "kube/leader_lease.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;

// One Lease on a server in memory.
class Server {
 public:
  LeaseStore Store() {
    return {.read = [this](absl::Duration) { return Read(); },
            .create = [this](const Json& lease, absl::Duration) { return Write(lease, true); },
            .update = [this](const Json& lease, absl::Duration) { return Write(lease, false); }};
  }
  void Cut(bool cut) {
    std::lock_guard lock(mutex_);
    cut_ = cut;
  }
  // Until so many requests have come since the start.
  void AwaitRequests(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return requests_ >= count; });
  }
  int requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  Json lease() const {
    std::lock_guard lock(mutex_);
    return lease_.value_or(nullptr);
  }

 private:
  absl::StatusOr<Json> Read() {
    std::lock_guard lock(mutex_);
    ++requests_;
    changed_.notify_all();
    if (cut_) return absl::UnavailableError("cut");
    if (!lease_) return absl::NotFoundError("no");
    return *lease_;
  }
  absl::StatusOr<Json> Write(const Json& lease, bool create) {
    std::lock_guard lock(mutex_);
    ++requests_;
    changed_.notify_all();
    if (cut_) return absl::UnavailableError("cut");
    if (create && lease_) return absl::AlreadyExistsError("there");
    if (!create && !lease_) return absl::NotFoundError("no");
    if (!create && ResourceVersion(lease) != ResourceVersion(*lease_)) return absl::AbortedError("conflict");
    lease_ = lease;
    EnsureField(*lease_, "metadata.resourceVersion") = absl::StrCat(++version_);
    return *lease_;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int requests_ = 0;
  bool cut_ = false;
  int version_ = 0;
  std::optional<Json> lease_;
};

struct Candidate {
  std::mutex mutex;
  std::condition_variable changed;
  bool acquired = false;
  std::string lost;
  std::unique_ptr<LeaderLease> lease;

  Candidate(Server& server, Clock& clock, std::string identity, Metrics* metrics = nullptr) {
    auto made = LeaderLease::Make(server.Store(), {.lease = {"system", "leader"},
                                                   .identity = std::move(identity),
                                                   .acquired =
                                                       [this] {
                                                         std::lock_guard lock(mutex);
                                                         acquired = true;
                                                         changed.notify_all();
                                                       },
                                                   .lost =
                                                       [this](const std::string& reason) {
                                                         std::lock_guard lock(mutex);
                                                         lost = reason;
                                                         changed.notify_all();
                                                       },
                                                   .clock = &clock,
                                                   .metrics = metrics});
    EXPECT_TRUE(made.ok()) << made.status();
    lease = std::move(*made);
  }
  void AwaitAcquired() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return acquired; });
  }
  std::string AwaitLost() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !lost.empty(); });
    return lost;
  }
};

TEST(LeaderLease, RefusesSettingsThatCouldLetTwoLead) {
  Server server;
  EXPECT_TRUE(absl::IsInvalidArgument(
      LeaderLease::Make(server.Store(), {.settings = {.request_limit = absl::Seconds(30)}}).status()));
}

TEST(LeaderLease, OpensTheFenceWhileItLeadsAndGivesBackAtTheEnd) {
  Server server;
  SimulatedClock clock;
  Metrics metrics;
  Candidate a(server, clock, "a", &metrics);
  EXPECT_THAT(a.lease->fence().Admit().status().message(), HasSubstr("has not been acquired"));
  a.lease->Start();
  a.AwaitAcquired();
  EXPECT_TRUE(a.lease->leading());
  EXPECT_EQ(a.lease->holder(), "a");
  EXPECT_EQ(a.lease->fence().Admit().value(), absl::Seconds(13));
  EXPECT_THAT(metrics.Text(), HasSubstr("leader_election_master_status{name=\"leader\"} 1"));

  clock.AwaitWaiters(1);
  a.lease->Stop();
  EXPECT_TRUE(absl::IsFailedPrecondition(a.lease->fence().Admit().status()));
  EXPECT_EQ(Text(server.lease(), "spec.holderIdentity"), "");
  EXPECT_EQ(Number(server.lease(), "spec.leaseDurationSeconds"), 1);
  EXPECT_THAT(metrics.Text(), HasSubstr("leader_election_master_status{name=\"leader\"} 0"));

  Candidate b(server, clock, "b");
  b.lease->Start();
  b.AwaitAcquired();  // without a wait
}

TEST(LeaderLease, TheFenceShutsByTimeAlone) {
  Server server;
  SimulatedClock clock;
  Candidate a(server, clock, "a");
  a.lease->Start();
  a.AwaitAcquired();
  clock.AwaitWaiters(1);
  server.Cut(true);
  // As a frozen process finds the clock when it wakes, whatever its lease thread has got to by then.
  clock.Advance(absl::Seconds(60));
  EXPECT_TRUE(absl::IsFailedPrecondition(a.lease->fence().Admit().status()));
  EXPECT_THAT(a.AwaitLost(), HasSubstr("could not be renewed"));
  EXPECT_FALSE(a.lease->leading());
}

TEST(LeaderLease, LosesItAtTheDeadlineWhenTheServerIsOutOfReach) {
  Server server;
  SimulatedClock clock;
  Candidate a(server, clock, "a");
  a.lease->Start();
  a.AwaitAcquired();
  server.Cut(true);
  for (int i = 0; i < 5; ++i) {
    clock.AwaitWaiters(1);
    EXPECT_TRUE(a.lease->fence().Admit().ok());
    const int before = server.requests();
    clock.Advance(absl::Seconds(2));
    if (i < 4) server.AwaitRequests(before + 1);
  }
  EXPECT_THAT(a.AwaitLost(), HasSubstr("cut"));
  EXPECT_FALSE(a.lease->fence().Admit().ok());
}

TEST(LeaderLease, ASecondCandidateTakesOverWhenTheFirstIsSilent) {
  Server server;
  SimulatedClock clock_a;
  SimulatedClock clock_b(absl::FromUnixSeconds(1'800'003'600));  // an hour ahead
  Candidate a(server, clock_a, "a");
  a.lease->Start();
  a.AwaitAcquired();
  clock_a.AwaitWaiters(1);
  // a's clock stands still from here: a frozen process.
  Candidate b(server, clock_b, "b");
  b.lease->Start();
  for (int i = 0; i < 14; ++i) {
    clock_b.AwaitWaiters(1);
    clock_b.Advance(absl::Seconds(1));
    EXPECT_FALSE(b.lease->leading()) << i;
  }
  clock_b.AwaitWaiters(1);
  clock_b.Advance(absl::Seconds(1));
  b.AwaitAcquired();
  clock_a.Advance(absl::Seconds(60));
  a.AwaitLost();
  EXPECT_EQ(Text(server.lease(), "spec.holderIdentity"), "b");
}

TEST(LeaderLease, AStandbyThatIsToldLooksAtOnce) {
  Server server;
  SimulatedClock clock;
  Candidate a(server, clock, "a");
  a.lease->Start();
  a.AwaitAcquired();
  clock.AwaitWaiters(1);
  Candidate b(server, clock, "b");
  b.lease->Start();
  clock.AwaitWaiters(2);
  a.lease->Stop();
  b.lease->Look();
  b.AwaitAcquired();  // though the clock stands still
}

TEST(LeaderLeaseDeathTest, ALeaderThatIsStoppedIsKilledBeforeItWakes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Server server;
        auto lease = LeaderLease::Make(server.Store(), {.lease = {"system", "leader"},
                                                        .settings = {.duration = absl::Seconds(1),
                                                                     .renew_deadline = absl::Milliseconds(400),
                                                                     .retry = absl::Milliseconds(100),
                                                                     .request_limit = absl::Milliseconds(100)},
                                                        .kill_when_overdue = true,
                                                        .acquired = [] { raise(SIGSTOP); }});
        (*lease)->Start();
        for (;;) pause();
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(Fence, SaysWhyItIsShut) {
  SimulatedClock clock;
  Fence fence(clock);
  fence.Open(absl::Seconds(10), absl::Seconds(13));
  EXPECT_EQ(fence.Admit().value(), absl::Seconds(13));
  clock.Advance(absl::Seconds(9));
  EXPECT_EQ(fence.Admit().value(), absl::Seconds(4));
  clock.Advance(absl::Seconds(1));
  EXPECT_THAT(fence.Admit().status().message(), HasSubstr("was not renewed in time"));
  fence.Open(absl::Seconds(20), absl::Seconds(23));
  EXPECT_TRUE(fence.Admit().ok());
  fence.Shut("the lease is now held by \"b\"");
  EXPECT_THAT(fence.Admit().status().message(), HasSubstr("held by \"b\""));
}

}  // namespace
}  // namespace tf::kube
