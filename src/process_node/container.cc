#include "process_node/container.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file.h"

namespace tf::process_node {
namespace {

int OpenPidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0U)); }

// The environment block of a process; "" when it cannot be read.
std::string EnvironmentOf(pid_t pid) {
  std::string path = absl::StrCat("/proc/", pid, "/environ"), text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char buffer[16 << 10];
  ssize_t got;
  while ((got = read(fd, buffer, sizeof(buffer))) > 0 && text.size() < (1 << 20))
    text.append(buffer, static_cast<size_t>(got));
  close(fd);
  return text;
}

bool HasMarker(pid_t pid, const std::string& line) {
  const std::string env = EnvironmentOf(pid);
  size_t at = 0;
  while ((at = env.find(line, at)) != std::string::npos) {
    const size_t end = at + line.size();
    if ((at == 0 || env[at - 1] == '\0') && (end == env.size() || env[end] == '\0')) return true;
    ++at;
  }
  return false;
}

}  // namespace

uint64_t StartTicks(pid_t pid) {
  char path[64], text[1024];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = '\0';
  const char* at = std::strrchr(text, ')');
  if (at == nullptr) return 0;
  ++at;
  for (int field = 3; field <= 22; ++field) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return 0;
    ++at;
  }
  return std::strtoull(at, nullptr, 10);
}

absl::StatusOr<StartRecord> ReadStartRecord(const std::string& folder) {
  absl::StatusOr<std::string> text = ReadFile(absl::StrCat(folder, "/started"), 1024);
  if (!text.ok()) return text.status();
  StartRecord record;
  unsigned long long ticks = 0, shim_ticks = 0;
  long long started = 0;
  if (std::sscanf(text->c_str(), "%d %llu %d %llu %lld", &record.pid, &ticks, &record.shim, &shim_ticks, &started) !=
      5) {
    return absl::DataLossError(absl::StrCat(folder, "/started is no record of a start"));
  }
  record.start_ticks = ticks;
  record.shim_ticks = shim_ticks;
  record.started = absl::FromUnixNanos(started);
  return record;
}

absl::StatusOr<ExitRecord> ReadExitRecord(const std::string& folder) {
  absl::StatusOr<std::string> text = ReadFile(absl::StrCat(folder, "/exit"), 1024);
  if (!text.ok()) return text.status();
  ExitRecord record;
  long long finished = 0;
  int oom = 0;
  if (std::sscanf(text->c_str(), "%d %d %lld %d", &record.code, &record.signal, &finished, &oom) != 4) {
    return absl::DataLossError(absl::StrCat(folder, "/exit is no record of an end"));
  }
  record.finished = absl::FromUnixNanos(finished);
  record.out_of_memory = oom != 0;
  return record;
}

int KillMarked(const std::string& marker, absl::Duration limit) {
  const std::string line = absl::StrCat(kMarkerVariable, "=", marker);
  const absl::Time deadline = absl::Now() + limit;
  int killed = 0;
  while (true) {
    int found = 0;
    DIR* processes = opendir("/proc");
    if (processes == nullptr) return killed;
    while (const dirent* entry = readdir(processes)) {
      const pid_t pid = std::atoi(entry->d_name);
      if (pid <= 1 || pid == getpid()) continue;
      // By descriptor: between the look and the signal the number may get another owner.
      const int pidfd = OpenPidfd(pid);
      if (pidfd < 0) continue;
      if (HasMarker(pid, line)) {
        ++found;
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0U);
      }
      close(pidfd);
    }
    closedir(processes);
    killed += found;
    // One more look: a process may have started another one meanwhile.
    if (found == 0 || absl::Now() >= deadline) return killed;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

absl::StatusOr<std::unique_ptr<ContainerRun>> ContainerRun::Start(const RunOptions& options) {
  if (mkdir(options.folder.c_str(), 0700) != 0) {
    if (errno == EEXIST) return absl::AlreadyExistsError(absl::StrCat(options.folder, " has been started before"));
    return absl::ErrnoToStatus(errno, absl::StrCat("mkdir ", options.folder));
  }
  const int lock = open(absl::StrCat(options.folder, "/lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock < 0) return absl::ErrnoToStatus(errno, absl::StrCat("open ", options.folder, "/lock"));
  absl::Cleanup close_lock = [&] { close(lock); };
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("lock ", options.folder));
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  absl::Cleanup close_report = [&] { close(report[1]); };

  ProcessOptions process;
  process.argv = {options.shim, "run", "--dir", options.folder};
  const auto add = [&](std::initializer_list<std::string> words) { process.argv.insert(process.argv.end(), words); };
  if (!options.working_folder.empty()) add({"--cwd", options.working_folder});
  if (options.input) add({"--stdin"});
  if (options.terminal) add({"--tty"});
  if (options.stop_signal != 0) add({"--stop-signal", absl::StrCat(options.stop_signal)});
  if (!options.oom_file.empty()) add({"--oom", options.oom_file});
  for (const std::string& cgroup : options.cgroups) add({"--cgroup", cgroup});
  for (const Mount& mount : options.mounts) add({"--bind", mount.source, mount.target, mount.read_only ? "ro" : "rw"});
  add({"--", options.program});
  process.argv.insert(process.argv.end(), options.argv.begin(), options.argv.end());
  process.env = options.env;
  process.stdin_fd = lock;
  process.stdout_fd = report[1];
  absl::StatusOr<Process> started = Process::Start(process);
  if (!started.ok()) {
    close(report[0]);
    return started.status();
  }
  auto run = std::unique_ptr<ContainerRun>(new ContainerRun(options.folder));
  run->child_.emplace(*std::move(started));
  run->pidfd_ = run->child_->pidfd();
  run->report_ = report[0];
  fcntl(run->report_, F_SETFL, O_NONBLOCK);
  return run;
}

std::optional<absl::Status> ContainerRun::ReadReport() {
  if (report_ < 0) return absl::OkStatus();
  char buffer[1024];
  while (true) {
    const ssize_t got = read(report_, buffer, sizeof(buffer));
    if (got > 0) {
      report_text_.append(buffer, static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    break;
  }
  close(report_);
  report_ = -1;
  const size_t error = report_text_.find("error ");
  if (error != std::string::npos) {
    std::string text = report_text_.substr(error + 6);
    return absl::FailedPreconditionError(absl::StripTrailingAsciiWhitespace(text));
  }
  if (report_text_.rfind("ok ", 0) != 0) return absl::InternalError("the shim ended before it started the program");
  absl::StatusOr<StartRecord> record = ReadStartRecord(folder_);
  if (!record.ok()) return record.status();
  record_ = *record;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ContainerRun>> ContainerRun::Adopt(const std::string& folder) {
  const int lock = open(absl::StrCat(folder, "/lock").c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0) return absl::NotFoundError(absl::StrCat(folder, " was never started"));
  absl::Cleanup close_lock = [&] { close(lock); };
  // A shim that has just begun writes its record in a moment.
  for (const absl::Time deadline = absl::Now() + absl::Seconds(5);; absl::SleepFor(absl::Milliseconds(5))) {
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) return absl::NotFoundError(absl::StrCat(folder, ": its shim has ended"));
    absl::StatusOr<StartRecord> record = ReadStartRecord(folder);
    if (record.ok()) {
      auto run = std::unique_ptr<ContainerRun>(new ContainerRun(folder));
      run->record_ = *record;
      run->pidfd_ = OpenPidfd(record->shim);
      if (run->pidfd_ < 0 || StartTicks(record->shim) != record->shim_ticks) continue;  // it is just ending
      return run;
    }
    if (absl::Now() >= deadline) return record.status();
  }
}

ContainerRun::~ContainerRun() {
  if (report_ >= 0) close(report_);
  if (!child_ && pidfd_ >= 0) close(pidfd_);
}

void ContainerRun::Reap() {
  if (child_) child_->Wait();
}

void ContainerRun::Signal(int signal) {
  if (pidfd_ >= 0) syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0U);
}

void ContainerRun::Stop() { Signal(SIGTERM); }
void ContainerRun::Kill() { Signal(SIGQUIT); }

}  // namespace tf::process_node
