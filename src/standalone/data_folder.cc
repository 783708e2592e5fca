#include "standalone/data_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file.h"

namespace tf::standalone {
namespace {

constexpr char kLock[] = "lock";
constexpr char kVersion[] = "version";
constexpr char kProcesses[] = "processes";
constexpr size_t kMaxFile = 1 << 20;

absl::Status Failed(const std::string& what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status WriteAll(int fd, const std::string& text, const std::string& path) {
  const ssize_t written = write(fd, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  if (written >= 0) errno = ENOSPC;
  return Failed(absl::StrCat("cannot write ", path));
}

}  // namespace

struct DataFolder::Children {
  std::mutex mutex;
  std::map<std::string, std::string> records;  // by name, as lines
};

absl::StatusOr<DataFolder> DataFolder::Open(const std::string& path) {
  std::error_code failed;
  const std::string absolute = std::filesystem::absolute(path, failed).lexically_normal().string();
  if (!failed) std::filesystem::create_directories(absolute, failed);
  if (failed) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the data folder ", path, ": ", failed.message(), "; name another with --data-dir"));
  }
  // Private keys and the whole store lie below.
  if (chmod(absolute.c_str(), 0700) != 0) {
    return Failed(absl::StrCat("the data folder ", absolute, " is not ours; name another with --data-dir"));
  }
  const std::string lock_path = absl::StrCat(absolute, "/", kLock);
  const int lock = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return Failed(absl::StrCat("cannot open ", lock_path));
  DataFolder folder(absolute, lock);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed(absl::StrCat("cannot lock ", lock_path));
    const absl::StatusOr<ProcessRecord> owner = OwnerOf(absolute);
    return absl::FailedPreconditionError(
        absl::StrCat("the data folder ", absolute, " is in use by ",
                     owner.ok() ? absl::StrCat("process ", owner->pid) : std::string("another process"),
                     "; end that with `tfctl down --data-dir ", absolute, "`, or name another folder with --data-dir"));
  }
  if (absl::Status status = folder.CheckVersion(); !status.ok()) return status;

  const absl::StatusOr<ProcessRecord> self = RecordOf(getpid());
  if (!self.ok()) return self.status();
  if (ftruncate(lock, 0) != 0) return Failed(absl::StrCat("cannot write ", lock_path));
  if (absl::Status status = WriteAll(lock, FormatRecord(*self) + "\n", lock_path); !status.ok()) return status;

  if (absl::Status status = folder.EndLeftBehind(); !status.ok()) return status;
  return folder;
}

absl::Status DataFolder::CheckVersion() {
  const std::string path = Path(kVersion);
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxFile);
  if (absl::IsNotFound(text.status())) return WriteFile(path, absl::StrCat(kDataVersion, "\n"), 0600);
  if (!text.ok()) return text.status();
  int version = 0;
  if (!absl::SimpleAtoi(absl::StripSuffix(*text, "\n"), &version) || version < 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " holds no version number: is ", path_, " a data folder? Name another with --data-dir"));
  }
  if (version > kDataVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the data folder ", path_, " was written by a newer program (format ", version,
                     ", this one knows ", kDataVersion, "): use that program, or name another folder with --data-dir"));
  }
  return version == kDataVersion ? absl::OkStatus() : WriteFile(path, absl::StrCat(kDataVersion, "\n"), 0600);
}

absl::Status DataFolder::EndLeftBehind() {
  const std::string path = Path(kProcesses);
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxFile);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  for (absl::string_view line : absl::StrSplit(text.value_or(""), '\n', absl::SkipEmpty())) {
    const std::optional<ProcessRecord> record = ParseRecord(std::string_view(line.data(), line.size()));
    if (!record || !IsRunning(*record)) continue;
    ++left_behind_;
    if (absl::Status status = SignalRecord(*record, SIGKILL); !status.ok()) return status;
    if (!AwaitEnd(*record, absl::Seconds(10))) {
      return absl::FailedPreconditionError(absl::StrCat("process ", record->pid, " of an earlier start in ", path_,
                                                        " does not end, though it was killed; end it, then try again"));
    }
  }
  return WriteFile(path, "", 0600);
}

void DataFolder::ClearRun() const {
  if (path_.empty()) return;  // given away
  std::error_code ignored;    // what stays is replaced by the next start, or named by whoever cannot
  std::filesystem::remove_all(Path("run"), ignored);
}

absl::Status DataFolder::RecordChild(const std::string& name, pid_t pid) {
  const absl::StatusOr<ProcessRecord> record = RecordOf(pid);
  if (absl::IsNotFound(record.status())) return absl::OkStatus();  // ended already
  if (!record.ok()) return record.status();
  std::lock_guard<std::mutex> lock(children_->mutex);
  children_->records[name] = FormatRecord(*record);
  std::string text;
  for (const auto& [child, line] : children_->records) absl::StrAppend(&text, line, "\n");
  return WriteFile(Path(kProcesses), text, 0600);
}

DataFolder::DataFolder(std::string path, int lock)
    : path_(std::move(path)), lock_(lock), children_(std::make_unique<Children>()) {}

DataFolder::DataFolder(DataFolder&& other) noexcept { *this = std::move(other); }

DataFolder& DataFolder::operator=(DataFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  std::swap(children_, other.children_);
  std::swap(left_behind_, other.left_behind_);
  return *this;
}

DataFolder::~DataFolder() {
  if (lock_ >= 0) close(lock_);
}

std::string DefaultDataFolder() {
  const char* data = getenv("XDG_DATA_HOME");
  const char* home = getenv("HOME");
  if (data != nullptr && *data != '\0') return absl::StrCat(data, "/tensor-fusion");
  return absl::StrCat(home == nullptr ? "" : home, "/.local/share/tensor-fusion");
}

absl::StatusOr<ProcessRecord> OwnerOf(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(path, "/", kLock), kMaxFile);
  const std::optional<ProcessRecord> record = ParseRecord(std::string(absl::StripSuffix(text.value_or(""), "\n")));
  if (!record || !IsRunning(*record)) return absl::NotFoundError(absl::StrCat("nothing runs in ", path));
  return *record;
}

}  // namespace tf::standalone
