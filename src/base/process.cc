#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

extern char** environ;

namespace tf {
namespace {

absl::StatusOr<std::string> FindProgram(const ProcessOptions& options) {
  const std::string& name = options.argv.front();
  if (absl::StrContains(name, '/')) return name;
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& line : options.env) {
    if (absl::StartsWith(line, "PATH=")) path = line.substr(5);
  }
  for (absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    std::string file = absl::StrCat(folder, "/", name);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return absl::NotFoundError(absl::StrCat("exec: \"", name, "\": executable file not found in $PATH"));
}

std::vector<char*> Pointers(const std::vector<std::string>& lines) {
  std::vector<char*> pointers;
  for (const std::string& line : lines) pointers.push_back(const_cast<char*>(line.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Only async-signal-safe calls between fork and exec: other threads may hold any lock. Gives errno on failure.
int Become(const ProcessOptions& options, const char* program, char* const* argv, char* const* env, pid_t parent) {
  if (options.new_session && setsid() < 0) return errno;
  if (options.signal_on_parent_end != 0) {
    prctl(PR_SET_PDEATHSIG, options.signal_on_parent_end);
    if (getppid() != parent) raise(options.signal_on_parent_end);
  }
  int fds[3] = {options.stdin_fd, options.stdout_fd, options.stderr_fd};
  for (int i = 0; i < 3; ++i) {
    // Above the three first: one descriptor's place may be another's source.
    fds[i] = fds[i] < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    if (fds[i] < 0) return errno;
    if (fds[i] < 3 && (fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3)) < 0) return errno;
  }
  for (int i = 0; i < 3; ++i) {
    if (dup2(fds[i], i) < 0) return errno;
  }
  if (!options.working_folder.empty() && chdir(options.working_folder.c_str()) != 0) return errno;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    if (signal != SIGKILL && signal != SIGSTOP) sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Everything else closes at exec, whoever opened it and however. CLOSE_RANGE_CLOEXEC: the report pipe stays till
  // then.
  syscall(SYS_close_range, 3U, ~0U, 1U << 2);
  execve(program, argv, env);
  return errno;
}

}  // namespace

absl::StatusOr<Process> Process::Start(const ProcessOptions& options) {
  if (options.argv.empty()) return absl::InvalidArgumentError("no program given");
  absl::StatusOr<std::string> program = FindProgram(options);
  if (!program.ok()) return program.status();
  const std::vector<char*> argv = Pointers(options.argv);
  const std::vector<char*> env = Pointers(options.env);

  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  absl::Cleanup close_report = [&] { close(report[0]); };
  const pid_t parent = getpid();

  // No signal handler of ours runs in the child before it has its own dispositions.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) {
    const int error = Become(options, program->c_str(), argv.data(), env.data(), parent);
    [[maybe_unused]] const ssize_t written = write(report[1], &error, sizeof(error));
    _exit(127);
  }
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(report[1]);
  if (pid < 0) return absl::ErrnoToStatus(fork_error, absl::StrCat("cannot start ", *program));

  Process process(pid, static_cast<int>(syscall(SYS_pidfd_open, pid, 0U)), options.new_session);
  int error = 0;
  ssize_t got = 0;
  while ((got = read(report[0], &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got == sizeof(error)) {
    process.Wait();
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", *program));
  }
  if (process.pidfd_ < 0) {
    process.SignalGroup(SIGKILL).IgnoreError();
    waitpid(pid, nullptr, 0);
    return absl::ResourceExhaustedError(absl::StrCat("cannot watch ", *program, ": no descriptor left"));
  }
  return process;
}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(group_, other.group_);
  std::swap(status_, other.status_);
  return *this;
}

Process::~Process() {
  if (pidfd_ < 0) return;
  Wait(absl::ZeroDuration());
  close(pidfd_);
}

absl::Status Process::Signal(int signal) const {
  if (syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0U) == 0 || errno == ESRCH) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("signal ", signal, " to process ", pid_));
}

absl::Status Process::SignalGroup(int signal) const {
  if (!group_) return Signal(signal);
  if (kill(-pid_, signal) == 0 || errno == ESRCH) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("signal ", signal, " to process group ", pid_));
}

std::optional<ExitStatus> Process::Wait(absl::Duration timeout) {
  if (status_ || pidfd_ < 0) return status_;
  pollfd ended{pidfd_, POLLIN, 0};
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    const int wait_ms = timeout == absl::InfiniteDuration()
                            ? -1
                            : static_cast<int>(std::max<int64_t>(
                                  0, absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    const int ready = poll(&ended, 1, wait_ms);
    if (ready > 0) break;
    if (ready == 0) return std::nullopt;
  }
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
  status_ =
      info.si_code == CLD_EXITED ? ExitStatus{info.si_status, 0} : ExitStatus{128 + info.si_status, info.si_status};
  return status_;
}

std::vector<std::string> CurrentEnvironment() {
  std::vector<std::string> lines;
  for (char** line = environ; *line != nullptr; ++line) lines.emplace_back(*line);
  return lines;
}

}  // namespace tf
