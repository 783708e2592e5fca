#include "remoting/worker/status_file.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tf::remoting {

namespace {

std::string FileName(int pid) { return absl::StrCat(StatusFolder(), "/workers/", pid, ".status"); }

template <class T>
bool Get(const std::map<std::string, std::string>& values, const std::string& key, T* out) {
  auto found = values.find(key);
  return found != values.end() && absl::SimpleAtoi(found->second, out);
}

}  // namespace

std::string StatusFolder() {
  if (const char* folder = std::getenv("TF_RUN_DIR"); folder != nullptr && *folder != '\0') return folder;
  if (const char* folder = std::getenv("XDG_RUNTIME_DIR"); folder != nullptr && *folder != '\0') {
    return absl::StrCat(folder, "/tensor-fusion");
  }
  return absl::StrCat("/tmp/tensor-fusion-", getuid());
}

std::string FormatStatus(const WorkerStatus& s) {
  return absl::StrCat("pid=", s.pid, "\nconnection=", s.connection, "\ncard=", s.card, "\nlicense=", s.license,
                      "\nstarted=", s.started, "\nsessions=", s.sessions, "\ncalls=", s.calls,
                      "\nmemory_used=", s.memory_used, "\nmemory_limit=", s.memory_limit,
                      "\ncompute_percent=", s.compute_percent, "\nbusy_ns=", s.busy_ns, "\ntime_ns=", s.time_ns, "\n");
}

absl::StatusOr<WorkerStatus> ParseStatus(std::string_view text) {
  std::map<std::string, std::string> values;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    size_t equals = line.find('=');
    if (equals != std::string_view::npos) values.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  WorkerStatus s;
  s.connection = values["connection"];
  s.card = values["card"];
  s.license = values["license"];
  if (!Get(values, "pid", &s.pid) || !Get(values, "started", &s.started) || !Get(values, "sessions", &s.sessions) ||
      !Get(values, "calls", &s.calls) || !Get(values, "memory_used", &s.memory_used) ||
      !Get(values, "memory_limit", &s.memory_limit) || !Get(values, "compute_percent", &s.compute_percent) ||
      !Get(values, "busy_ns", &s.busy_ns) || !Get(values, "time_ns", &s.time_ns)) {
    return absl::InvalidArgumentError("not the status of a worker");
  }
  return s;
}

absl::Status WriteStatus(const WorkerStatus& status) {
  std::string folder = StatusFolder();
  mkdir(folder.c_str(), 0700);
  struct stat info;
  // Another user's folder in /tmp would be a trap.
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid()) {
    return absl::PermissionDeniedError(absl::StrCat(folder, " is not a folder of this user; set TF_RUN_DIR"));
  }
  mkdir(absl::StrCat(folder, "/workers").c_str(), 0700);
  std::string name = FileName(status.pid), fresh = name + ".new";
  {
    std::ofstream file(fresh, std::ios::trunc);
    file << FormatStatus(status);
    if (!file.flush()) return absl::InternalError(absl::StrCat("cannot write ", fresh));
  }
  if (std::rename(fresh.c_str(), name.c_str()) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("rename ", fresh));
  return absl::OkStatus();
}

void RemoveStatus(int pid) { unlink(FileName(pid).c_str()); }

std::vector<WorkerStatus> ReadAllStatus() {
  std::vector<WorkerStatus> all;
  std::string folder = absl::StrCat(StatusFolder(), "/workers");
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return all;
  while (dirent* entry = readdir(directory)) {
    if (!std::string_view(entry->d_name).ends_with(".status")) continue;
    std::ifstream file(absl::StrCat(folder, "/", entry->d_name));
    std::stringstream text;
    text << file.rdbuf();
    absl::StatusOr<WorkerStatus> status = ParseStatus(text.str());
    if (!status.ok()) continue;
    if (kill(status->pid, 0) != 0 && errno == ESRCH) {
      RemoveStatus(status->pid);
      continue;
    }
    all.push_back(*std::move(status));
  }
  closedir(directory);
  return all;
}

}  // namespace tf::remoting
