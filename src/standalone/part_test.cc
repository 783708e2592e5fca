#include "standalone/part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "base/file.h"
#include "standalone/process_record.h"
#include "standalone/temporary_folder.h"

namespace tf::standalone {
namespace {

using testing::HasSubstr;

class PartTest : public testing::Test {
 protected:
  PartOptions Shell(const std::string& script) {
    return {.name = "part",
            .argv = {"/bin/sh", "-c", script},
            .env = {"PATH=/usr/bin:/bin"},
            .working_folder = folder_.path(),
            .log_file = folder_.Path("log"),
            .started = [this](pid_t pid) { last_started_ = pid; },
            .changed =
                [this] {
                  std::lock_guard<std::mutex> lock(mutex_);
                  changed_.notify_all();
                }};
  }

  // Until the part has started `count` times again.
  void AwaitRestarts(const Part& part, int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return part.restarts() >= count && (part.pid() != 0 || !part.last_end().empty()); });
  }

  // The part has ended: it starts again once `delay` is over, not earlier.
  void ExpectNextStartAfter(const Part& part, absl::Duration delay) {
    clock_.AwaitWaiters(1);
    const int restarts = part.restarts();
    clock_.Advance(delay - absl::Milliseconds(1));
    EXPECT_EQ(part.restarts(), restarts);
    clock_.Advance(absl::Milliseconds(1));
    AwaitRestarts(part, restarts + 1);
  }

  TemporaryFolder folder_;
  SimulatedClock clock_;
  std::atomic<pid_t> last_started_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

TEST_F(PartTest, AFirstStartThatFailsIsTheAnswer) {
  PartOptions options = Shell("");
  options.argv = {"/no/such/program"};
  Part part(options, clock_);
  const absl::Status status = part.Start();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/program"));
  EXPECT_EQ(part.pid(), 0);
}

TEST_F(PartTest, RunsAndStops) {
  Part part(Shell("exec sleep 1000"), clock_);
  ASSERT_TRUE(part.Start().ok());
  const auto record = RecordOf(last_started_);
  ASSERT_TRUE(record.ok());
  part.Stop();
  EXPECT_FALSE(IsRunning(*record));
  EXPECT_EQ(part.pid(), 0);
  EXPECT_EQ(part.restarts(), 0);
  part.Stop();  // twice does no harm
}

TEST_F(PartTest, OneThatIgnoresSigtermIsKilledAfterItsGrace) {
  PartOptions options = Shell("trap '' TERM; echo deaf > ready; while :; do sleep 1000; done");
  options.grace = absl::Seconds(7);
  ASSERT_EQ(mkfifo(folder_.Path("ready").c_str(), 0600), 0);
  Part part(options, clock_);
  ASSERT_TRUE(part.Start().ok());
  std::string word;
  std::ifstream(folder_.Path("ready")) >> word;
  ASSERT_EQ(word, "deaf");
  const auto record = RecordOf(part.pid());
  ASSERT_TRUE(record.ok());

  std::thread stop([&] { part.Stop(); });
  clock_.AwaitWaiters(1);
  clock_.Advance(absl::Seconds(7) - absl::Milliseconds(1));
  EXPECT_TRUE(IsRunning(*record));
  clock_.Advance(absl::Milliseconds(1));
  stop.join();
  EXPECT_FALSE(IsRunning(*record));
}

TEST_F(PartTest, IsStartedAgainAfterAGrowingWhile) {
  Part part(Shell("echo going down; exit 3"), clock_);
  ASSERT_TRUE(part.Start().ok());
  for (const int seconds : {1, 2, 4, 8, 16, 30, 30}) ExpectNextStartAfter(part, absl::Seconds(seconds));
  clock_.AwaitWaiters(1);
  EXPECT_EQ(part.restarts(), 7);
  EXPECT_EQ(part.last_end(), "ended with status 3: going down");
}

TEST_F(PartTest, AKilledOneComesBackAtOnceAfterItHasRunForAWhile) {
  Part part(Shell("exec sleep 1000"), clock_);
  ASSERT_TRUE(part.Start().ok());
  for (int round = 0; round < 3; ++round) {
    const pid_t pid = last_started_;
    clock_.Advance(absl::Seconds(10));
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    ExpectNextStartAfter(part, absl::Seconds(1));
    EXPECT_NE(part.pid(), pid);
    EXPECT_EQ(part.last_end(), "was ended by signal 9");
  }
  EXPECT_EQ(part.restarts(), 3);
}

TEST_F(PartTest, StopsWhileItWaitsForTheNextStart) {
  Part part(Shell("exit 0"), clock_);
  ASSERT_TRUE(part.Start().ok());
  clock_.AwaitWaiters(1);
  part.Stop();
  EXPECT_EQ(part.restarts(), 0);
}

TEST_F(PartTest, LastLine) {
  const std::string file = folder_.Path("text");
  EXPECT_EQ(LastLine(file), "");
  ASSERT_TRUE(WriteFile(file, "", 0600).ok());
  EXPECT_EQ(LastLine(file), "");
  ASSERT_TRUE(WriteFile(file, "one\n  two \n \n", 0600).ok());
  EXPECT_EQ(LastLine(file), "two");
  ASSERT_TRUE(WriteFile(file, "one\n" + std::string(5000, 'x'), 0600).ok());
  EXPECT_EQ(LastLine(file), std::string(400, 'x'));
}

TEST_F(PartTest, ALogThatGrewLargeBeginsAnew) {
  const std::string file = folder_.Path("text");
  CutLog(file, 3);  // none there: fine
  ASSERT_TRUE(WriteFile(file, "abc", 0600).ok());
  CutLog(file, 3);
  EXPECT_EQ(ReadFile(file, 100).value_or("?"), "abc");
  std::ofstream writer(file, std::ios::app);
  writer << "d" << std::flush;
  CutLog(file, 3);
  writer << "e" << std::flush;
  EXPECT_EQ(ReadFile(file, 100).value_or("?"), "e");
  EXPECT_EQ(ReadFile(file + ".1", 100).value_or("?"), "abcd");
}

}  // namespace
}  // namespace tf::standalone
