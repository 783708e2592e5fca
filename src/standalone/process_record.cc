#include "standalone/process_record.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file.h"

namespace tf::standalone {
namespace {

const std::string& BootId() {
  static const std::string id = [] {
    const absl::StatusOr<std::string> text = ReadFile("/proc/sys/kernel/random/boot_id", 256);
    return text.ok() ? std::string(absl::StripSuffix(*text, "\n")) : std::string("unknown");
  }();
  return id;
}

// A descriptor of the recorded process; -1 when there is none.
int Open(const ProcessRecord& record) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, record.pid, 0U));
  // The descriptor holds on to whatever has the number now: look who that is after it is open.
  const absl::StatusOr<ProcessRecord> now = RecordOf(record.pid);
  if (fd >= 0 && !(now.ok() && *now == record)) {
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

absl::StatusOr<ProcessRecord> RecordOf(pid_t pid) {
  const absl::StatusOr<std::string> stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"), 4096);
  if (!stat.ok()) return absl::NotFoundError(absl::StrCat("there is no process ", pid));
  // The name, in parentheses, may contain anything; the fields after it are plain, from number 3 on. 22 is the start.
  const size_t name_end = stat->rfind(')');
  const std::vector<std::string> fields =
      absl::StrSplit(name_end == std::string::npos ? "" : stat->substr(name_end + 1), ' ', absl::SkipEmpty());
  ProcessRecord record{.pid = pid, .boot = BootId()};
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &record.start)) {
    return absl::InternalError(absl::StrCat("/proc/", pid, "/stat is not understood: ", *stat));
  }
  return record;
}

std::string FormatRecord(const ProcessRecord& record) {
  return absl::StrCat(record.pid, " ", record.start, " ", record.boot);
}

std::optional<ProcessRecord> ParseRecord(std::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(absl::string_view(line.data(), line.size()), ' ');
  ProcessRecord record;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &record.pid) || record.pid <= 0 ||
      !absl::SimpleAtoi(words[1], &record.start)) {
    return std::nullopt;
  }
  record.boot = words[2];
  return record;
}

// The state in /proc is that of the first thread; others may still hold ports and files. The descriptor knows of all.
bool IsRunning(const ProcessRecord& record) { return !AwaitEnd(record, absl::ZeroDuration()); }

absl::Status SignalRecord(const ProcessRecord& record, int signal) {
  const int fd = Open(record);
  if (fd < 0) return absl::OkStatus();
  absl::Cleanup close_fd = [fd] { close(fd); };
  if (syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0U) == 0 || errno == ESRCH) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot signal process ", record.pid));
}

bool AwaitEnd(const ProcessRecord& record, absl::Duration timeout) {
  const int fd = Open(record);
  if (fd < 0) return true;
  absl::Cleanup close_fd = [fd] { close(fd); };
  const absl::Time deadline = absl::Now() + timeout;
  pollfd ended{fd, POLLIN, 0};
  while (true) {
    const absl::Duration left = std::max(absl::ZeroDuration(), deadline - absl::Now());
    const int ready = poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(std::min(left, absl::Hours(1)))));
    if (ready > 0) return true;
    if (absl::Now() >= deadline) return false;
  }
}

}  // namespace tf::standalone
