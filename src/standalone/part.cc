#include "standalone/part.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tf::standalone {
namespace {

constexpr size_t kMaxLog = 16 << 20;

std::string Describe(const ExitStatus& status) {
  return status.signal != 0 ? absl::StrCat("was ended by signal ", status.signal)
                            : absl::StrCat("ended with status ", status.code);
}

}  // namespace

Part::Part(PartOptions options, Clock& clock) : options_(std::move(options)), clock_(clock) {}

Part::~Part() { Stop(); }

absl::Status Part::Start() {
  thread_ = std::thread([this] { Run(); });
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait(lock, [this] { return first_start_.has_value(); });
  return *first_start_;
}

void Part::Stop() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    if (running_ != nullptr) running_->Signal(SIGTERM).IgnoreError();
    const absl::Duration deadline = clock_.Monotonic() + options_.grace;
    if (!clock_.WaitUntil(lock, wake_, deadline, [this] { return running_ == nullptr; })) {
      running_->SignalGroup(SIGKILL).IgnoreError();
    }
  }
  thread_.join();
}

pid_t Part::pid() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return running_ == nullptr ? 0 : running_->pid();
}

int Part::restarts() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return starts_ > 1 ? starts_ - 1 : 0;
}

std::string Part::last_end() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_end_;
}

absl::StatusOr<Process> Part::StartOnce() {
  CutLog(options_.log_file, kMaxLog);
  const int log = open(options_.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", options_.log_file, ": ", std::strerror(errno)));
  }
  absl::Cleanup close_log = [log] { close(log); };
  absl::StatusOr<Process> process = Process::Start({.argv = options_.argv,
                                                    .env = options_.env,
                                                    .working_folder = options_.working_folder,
                                                    .stdout_fd = log,
                                                    .stderr_fd = log,
                                                    .signal_on_parent_end = SIGKILL});
  if (process.ok() && options_.started) options_.started(process->pid());
  return process;
}

ExitStatus Part::Await(Process& process) {
  while (true) {
    if (const std::optional<ExitStatus> status = process.Wait(absl::Minutes(1))) return *status;
    CutLog(options_.log_file, kMaxLog);
  }
}

// The child is told when the thread that started it ends: so this one starts it and stays.
void Part::Run() {
  Backoff backoff(options_.backoff);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const absl::Duration begin = clock_.Monotonic();
    absl::StatusOr<Process> process = StartOnce();
    lock.lock();
    if (!first_start_) {
      first_start_ = process.status();
      wake_.notify_all();
      if (!process.ok()) return;
    }
    std::string end(process.status().message());
    if (process.ok()) {
      ++starts_;
      running_ = &*process;
      // Stop() may have come while there was nothing to signal yet.
      if (stopping_) process->Signal(SIGTERM).IgnoreError();
      lock.unlock();
      if (options_.changed) options_.changed();
      end = Describe(Await(*process));
      if (const std::string line = LastLine(options_.log_file); !line.empty()) absl::StrAppend(&end, ": ", line);
      lock.lock();
    }
    running_ = nullptr;
    last_end_ = end;
    wake_.notify_all();
    if (stopping_) break;
    const absl::Duration now = clock_.Monotonic();
    lock.unlock();
    if (options_.changed) options_.changed();
    lock.lock();
    clock_.WaitUntil(lock, wake_, now + backoff.Next(now - begin), [this] { return stopping_; });
  }
}

std::string LastLine(const std::string& path) {
  constexpr std::streamoff kTail = 4096;
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const std::streamoff size = file.tellg();
  if (!file || size <= 0) return "";
  const std::streamoff begin = size > kTail ? size - kTail : 0;
  std::string text(static_cast<size_t>(size - begin), '\0');
  file.seekg(begin);
  file.read(text.data(), size - begin);
  text.resize(static_cast<size_t>(file.gcount()));
  std::string last;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    last = std::string(absl::StripAsciiWhitespace(line).substr(0, 400));
  }
  return last;
}

void CutLog(const std::string& path, size_t max_bytes) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || static_cast<size_t>(info.st_size) <= max_bytes) return;
  std::error_code ignored;  // a log that cannot be kept is still cut
  std::filesystem::copy_file(path, path + ".1", std::filesystem::copy_options::overwrite_existing, ignored);
  [[maybe_unused]] const int cut = truncate(path.c_str(), 0);
}

}  // namespace tf::standalone
