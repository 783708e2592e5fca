// A container's life through the real shim: records, logs, ends, adoption, and what is left behind.
#include "process_node/container.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"

namespace tf::process_node {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ContainerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "container.", getpid(), ".",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    marker_ = folder_;
  }
  void TearDown() override {
    KillMarked(marker_);
    fs::remove_all(folder_);
  }

  RunOptions Shell(const std::string& script) {
    RunOptions options;
    options.shim = TF_SHIM;
    options.folder = absl::StrCat(folder_, "/0");
    options.program = "/bin/sh";
    options.argv = {"sh", "-c", script};
    options.env = {"PATH=/usr/local/bin:/usr/bin:/bin", absl::StrCat(kMarkerVariable, "=", marker_)};
    return options;
  }
  static void Await(int fd) {
    pollfd ready{fd, POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 30'000), 1) << "nothing in 30 s";
  }
  absl::Status Report(ContainerRun& run) {
    while (true) {
      Await(run.report_fd());
      if (std::optional<absl::Status> report = run.ReadReport()) return *report;
    }
  }
  std::unique_ptr<ContainerRun> Start(const RunOptions& options) {
    absl::StatusOr<std::unique_ptr<ContainerRun>> run = ContainerRun::Start(options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }
  ExitRecord End(ContainerRun& run) {
    Await(run.pidfd());
    run.Reap();
    absl::StatusOr<ExitRecord> record = ReadExitRecord(run.folder());
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? *record : ExitRecord{};
  }
  // The log without times.
  std::vector<std::string> Log(const std::string& name = "log") {
    std::vector<std::string> lines;
    absl::StatusOr<std::string> text = ReadFile(absl::StrCat(folder_, "/0/", name), 64 << 20);
    EXPECT_TRUE(text.ok()) << text.status();
    for (absl::string_view line : absl::StrSplit(text.value_or(""), '\n', absl::SkipEmpty())) {
      lines.emplace_back(line.substr(line.find(' ') + 1));
    }
    return lines;
  }
  // Waits until a file has something in it: the program is that far.
  std::string AwaitFile(const std::string& path) {
    for (int i = 0; i < 3000; ++i) {
      absl::StatusOr<std::string> text = ReadFile(path, 4096);
      if (text.ok() && absl::StrContains(*text, '\n')) return *text;
      poll(nullptr, 0, 10);
    }
    ADD_FAILURE() << path << " stays empty";
    return "";
  }

  std::string folder_;
  std::string marker_;
};

TEST_F(ContainerTest, OutputAndExitCode) {
  std::unique_ptr<ContainerRun> run = Start(Shell("echo one; echo two >&2; printf end; exit 7"));
  ASSERT_TRUE(Report(*run).ok());
  EXPECT_GT(run->pid(), 0);
  const ExitRecord end = End(*run);
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(end.signal, 0);
  EXPECT_GT(end.finished, absl::Now() - absl::Minutes(5));
  EXPECT_THAT(Log(), testing::UnorderedElementsAre("stdout F one", "stderr F two", "stdout F end"));
}

TEST_F(ContainerTest, ARunIsClaimedOnce) {
  std::unique_ptr<ContainerRun> run = Start(Shell("exit 0"));
  ASSERT_TRUE(Report(*run).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(ContainerRun::Start(Shell("exit 0")).status()));
  End(*run);
}

TEST_F(ContainerTest, ProgramThatIsNone) {
  RunOptions options = Shell("");
  options.program = absl::StrCat(folder_, "/nothing");
  std::unique_ptr<ContainerRun> run = Start(options);
  EXPECT_THAT(Report(*run).message(), HasSubstr("nothing: No such file or directory"));
  End(*run);
}

TEST_F(ContainerTest, StopIsASignalAndKillTakesAllChildren) {
  const std::string pids = absl::StrCat(folder_, "/pids");
  // Ignores SIGTERM, and has a grandchild in a session of its own.
  std::unique_ptr<ContainerRun> run =
      Start(Shell(absl::StrCat("trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1000 & wait' & echo $! >", pids,
                               "; while :; do sleep 1000; done")));
  ASSERT_TRUE(Report(*run).ok());
  int child = 0;
  ASSERT_TRUE(absl::SimpleAtoi(AwaitFile(pids), &child));
  run->Stop();
  pollfd ended{run->pidfd(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 200), 0) << "it ignores SIGTERM";
  run->Kill();
  const ExitRecord end = End(*run);
  EXPECT_EQ(end.code, 137);
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_EQ(kill(child, 0), -1);
  EXPECT_EQ(errno, ESRCH) << "the grandchild went with it";
  EXPECT_EQ(KillMarked(marker_), 0);
}

TEST_F(ContainerTest, StopSignalOfItsOwn) {
  RunOptions options =
      Shell(absl::StrCat("trap 'exit 5' USR1; echo ready >", folder_, "/ready; while :; do sleep 0.01; done"));
  options.stop_signal = SIGUSR1;
  std::unique_ptr<ContainerRun> run = Start(options);
  ASSERT_TRUE(Report(*run).ok());
  AwaitFile(absl::StrCat(folder_, "/ready"));
  run->Stop();
  EXPECT_EQ(End(*run).code, 5);
}

TEST_F(ContainerTest, AdoptedByTheNextAgent) {
  const std::string ready = absl::StrCat(folder_, "/ready");
  RunOptions options = Shell(absl::StrCat("trap 'exit 3' TERM; echo ready >", ready, "; while :; do sleep 0.01; done"));
  pid_t pid = 0;
  // The first agent's handle goes away while the container runs.
  std::unique_ptr<ContainerRun> first = Start(options);
  ASSERT_TRUE(Report(*first).ok());
  pid = first->pid();
  AwaitFile(ready);
  absl::StatusOr<std::unique_ptr<ContainerRun>> second = ContainerRun::Adopt(options.folder);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->pid(), pid);
  EXPECT_EQ(StartTicks(pid), (*second)->record().start_ticks);
  (*second)->Stop();
  Await((*second)->pidfd());
  first->Reap();
  EXPECT_EQ(ReadExitRecord(options.folder)->code, 3);
  EXPECT_TRUE(absl::IsNotFound(ContainerRun::Adopt(options.folder).status()));
}

TEST_F(ContainerTest, DeathOfTheShimEndsTheProgram) {
  const std::string pids = absl::StrCat(folder_, "/pids");
  std::unique_ptr<ContainerRun> run = Start(Shell(absl::StrCat("sleep 1000 & echo $! >", pids, "; sleep 1000")));
  ASSERT_TRUE(Report(*run).ok());
  int child = 0;
  ASSERT_TRUE(absl::SimpleAtoi(AwaitFile(pids), &child));
  const int program = static_cast<int>(syscall(SYS_pidfd_open, run->pid(), 0U));
  kill(run->record().shim, SIGKILL);
  Await(run->pidfd());
  run->Reap();
  EXPECT_TRUE(absl::IsNotFound(ReadExitRecord(run->folder()).status()));
  // What the program had started is found by its marker.
  KillMarked(marker_);
  EXPECT_EQ(KillMarked(marker_), 0);
  Await(program);
  close(program);
}

TEST_F(ContainerTest, LogsAreBounded) {
  // 25 MB in lines of 1000 bytes, and one line of 40,000.
  std::unique_ptr<ContainerRun> run = Start(
      Shell("head -c 40000 /dev/zero | tr '\\0' y; echo; yes $(head -c 999 /dev/zero | tr '\\0' x) | head -n 25000"));
  ASSERT_TRUE(Report(*run).ok());
  EXPECT_EQ(End(*run).code, 0);
  EXPECT_LE(fs::file_size(absl::StrCat(folder_, "/0/log")), 10U << 20);
  EXPECT_LE(fs::file_size(absl::StrCat(folder_, "/0/log.1")), 10U << 20);
  EXPECT_FALSE(fs::exists(absl::StrCat(folder_, "/0/log.2")));
  EXPECT_THAT(Log().back(), testing::StartsWith("stdout F xxx"));
}

TEST_F(ContainerTest, LongLinesAreSplit) {
  std::unique_ptr<ContainerRun> run = Start(Shell("head -c 40000 /dev/zero | tr '\\0' y; echo"));
  ASSERT_TRUE(Report(*run).ok());
  End(*run);
  std::vector<size_t> sizes;
  std::string tags;
  for (const std::string& line : Log()) {
    tags += line[7];
    sizes.push_back(line.size() - 9);
  }
  EXPECT_EQ(tags, "PPF");
  EXPECT_THAT(sizes, ElementsAre(16384U, 16384U, 40000U - 32768U));
}

TEST_F(ContainerTest, AttachTakesInputAndGivesOutput) {
  RunOptions options = Shell("read x; echo \"got $x\"; cat");
  options.input = true;
  std::unique_ptr<ContainerRun> run = Start(options);
  ASSERT_TRUE(Report(*run).ok());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const int folder = open(options.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/attach", folder);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(send(fd, "Ihello\n", 7, 0), 7);
  char message[64];
  const ssize_t got = recv(fd, message, sizeof(message), 0);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(message, static_cast<size_t>(got)), "\1got hello\n");
  ASSERT_EQ(send(fd, "E", 1, 0), 1);
  EXPECT_EQ(End(*run).code, 0);
  close(fd);
  close(folder);
}

TEST_F(ContainerTest, VolumesAtTheirPaths) {
  RunOptions options = Shell(
      "cat /var/run/secrets/x/file /tensor-fusion-test/a/b/file; echo new >/tensor-fusion-test/a/b/out; "
      "echo no >/var/run/secrets/x/out || echo read-only");
  const std::string volume = absl::StrCat(folder_, "/volume");
  ASSERT_TRUE(WriteFile(absl::StrCat(volume, "/file"), "content\n", 0644).ok());
  options.mounts = {Mount{"v", volume, "/var/run/secrets/x", true},
                    Mount{"v", volume, "/tensor-fusion-test/a/b", false}};
  std::unique_ptr<ContainerRun> run = Start(options);
  const absl::Status report = Report(*run);
  End(*run);
  if (absl::StrContains(report.message(), "mount namespace"))
    GTEST_SKIP() << "this machine permits no namespaces: " << report;
  ASSERT_TRUE(report.ok()) << report;
  EXPECT_THAT(Log(), testing::IsSupersetOf({"stdout F content", "stdout F content", "stdout F read-only"}));
  EXPECT_EQ(*ReadFile(absl::StrCat(volume, "/out"), 100), "new\n");
  EXPECT_FALSE(fs::exists("/tensor-fusion-test")) << "the machine's own folders are not written to";
}

}  // namespace
}  // namespace tf::process_node
