#include "standalone/process_record.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/file.h"
#include "base/process.h"

namespace tf::standalone {
namespace {

absl::StatusOr<Process> Sleeper() { return Process::Start({.argv = {"sleep", "1000"}}); }

TEST(ProcessRecord, NamesOneProcessForGood) {
  auto process = Sleeper();
  ASSERT_TRUE(process.ok()) << process.status();
  const auto record = RecordOf(process->pid());
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(IsRunning(*record));
  EXPECT_FALSE(AwaitEnd(*record, absl::ZeroDuration()));

  ProcessRecord other = *record;
  other.start += 1;  // the number now names another process
  EXPECT_FALSE(IsRunning(other));
  EXPECT_TRUE(SignalRecord(other, SIGKILL).ok());
  EXPECT_TRUE(AwaitEnd(other, absl::ZeroDuration()));
  other = *record;
  other.boot = "before the restart of the machine";
  EXPECT_TRUE(SignalRecord(other, SIGKILL).ok());
  EXPECT_TRUE(IsRunning(*record));

  EXPECT_TRUE(SignalRecord(*record, SIGTERM).ok());
  EXPECT_TRUE(AwaitEnd(*record, absl::Seconds(60)));
  EXPECT_FALSE(IsRunning(*record)) << "ended, though its parent has not asked yet";
  EXPECT_EQ(process->Wait()->signal, SIGTERM);
  EXPECT_TRUE(absl::IsNotFound(RecordOf(record->pid).status()));
  EXPECT_TRUE(SignalRecord(*record, SIGKILL).ok());
}

// Its first thread is gone, and looks like a process that has ended; the other still holds whatever it held.
TEST(ProcessRecord, RunsUntilItsLastThreadHasEnded) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  auto process = Process::Start({.argv = {"python3", "-c",
                                          "import ctypes, os, sys, threading\n"
                                          "wait = lambda: (sys.stdin.read(), os._exit(0))\n"
                                          "threading.Thread(target=wait).start()\n"
                                          "ctypes.CDLL(None).syscall(int(sys.argv[1]), 0)\n",
                                          std::to_string(SYS_exit)},
                                 .env = CurrentEnvironment(),
                                 .stdin_fd = ends[0]});
  close(ends[0]);
  ASSERT_TRUE(process.ok()) << process.status();
  const auto record = RecordOf(process->pid());
  ASSERT_TRUE(record.ok()) << record.status();
  const std::string stat_file = "/proc/" + std::to_string(record->pid) + "/stat";
  while (ReadFile(stat_file, 4096).value_or(") Z").find(") Z") == std::string::npos) std::this_thread::yield();
  EXPECT_TRUE(IsRunning(*record));
  close(ends[1]);
  EXPECT_TRUE(AwaitEnd(*record, absl::Seconds(60)));
  EXPECT_FALSE(IsRunning(*record));
}

TEST(ProcessRecord, AsText) {
  const auto self = RecordOf(getpid());
  ASSERT_TRUE(self.ok()) << self.status();
  EXPECT_EQ(ParseRecord(FormatRecord(*self)), *self);
  for (const char* broken :
       {"", "12", "12 34", "x 34 boot", "12 x boot", "0 34 boot", "-3 34 boot", "12 34 boot more"}) {
    EXPECT_EQ(ParseRecord(broken), std::nullopt) << broken;
  }
}

}  // namespace
}  // namespace tf::standalone
