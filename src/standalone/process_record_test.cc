#include "standalone/process_record.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

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
