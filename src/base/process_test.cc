#include "base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace tf {
namespace {

// What `sh -c script` writes.
std::string Output(const std::string& script, ProcessOptions options = {}) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  options.argv = {"sh", "-c", script};
  options.stdout_fd = ends[1];
  absl::StatusOr<Process> process = Process::Start(options);
  EXPECT_TRUE(process.ok()) << process.status();
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  EXPECT_EQ(process->Wait()->code, 0);
  return text;
}

TEST(Process, GivesTheExitCodeAndTheSignal) {
  absl::StatusOr<Process> seven = Process::Start({.argv = {"sh", "-c", "exit 7"}});
  ASSERT_TRUE(seven.ok()) << seven.status();
  EXPECT_EQ(seven->Wait()->code, 7);
  EXPECT_EQ(seven->Wait()->code, 7) << "the answer is kept";

  absl::StatusOr<Process> sleeper = Process::Start({.argv = {"sleep", "1000"}});
  ASSERT_TRUE(sleeper.ok()) << sleeper.status();
  EXPECT_EQ(sleeper->Wait(absl::Milliseconds(1)), std::nullopt);
  ASSERT_TRUE(sleeper->Signal(SIGTERM).ok());
  const ExitStatus ended = *sleeper->Wait();
  EXPECT_EQ(ended.signal, SIGTERM);
  EXPECT_EQ(ended.code, 128 + SIGTERM);
  EXPECT_TRUE(sleeper->Signal(SIGTERM).ok()) << "signalling what has ended is no error";
}

TEST(Process, AProgramThatCannotStartIsAnErrorAtStart) {
  EXPECT_TRUE(absl::IsNotFound(Process::Start({.argv = {"no-such-program"}}).status()));
  EXPECT_TRUE(absl::IsNotFound(Process::Start({.argv = {"/no/such/program"}}).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(Process::Start({.argv = {"/etc/passwd"}}).status()));
  EXPECT_TRUE(absl::IsNotFound(Process::Start({.argv = {"true"}, .working_folder = "/no/such/folder"}).status()));
  EXPECT_FALSE(Process::Start({}).ok());
}

TEST(Process, TheChildHasOnlyWhatItWasGiven) {
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as libraries do
  ASSERT_GE(leaked, 3);
  EXPECT_EQ(Output("ls /proc/self/fd | tr '\\n' ' '"), "0 1 2 3 ") << "3 is the folder that ls reads";
  EXPECT_EQ(Output("env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | tr '\\n' ' '", {.env = {"A=b c"}}),
            "A=b c ");
  EXPECT_EQ(Output("pwd", {.working_folder = "/tmp"}), "/tmp\n");
  EXPECT_EQ(Output("cat"), "") << "standard input is /dev/null";
  close(leaked);
}

TEST(Process, SignalGroupReachesTheGrandchildren) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  absl::StatusOr<Process> process =
      Process::Start({.argv = {"sh", "-c", "sleep 1000 & echo started; wait"}, .stdout_fd = ends[1]});
  ASSERT_TRUE(process.ok()) << process.status();
  close(ends[1]);
  char buffer[64];
  ASSERT_GT(read(ends[0], buffer, sizeof(buffer)), 0);
  ASSERT_TRUE(process->SignalGroup(SIGKILL).ok());
  EXPECT_EQ(process->Wait()->signal, SIGKILL);
  EXPECT_EQ(read(ends[0], buffer, sizeof(buffer)), 0) << "nobody holds the other end any more";
  close(ends[0]);
}

}  // namespace
}  // namespace tf
