#include "process_node/cgroups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"

namespace tf::process_node {
namespace {

constexpr char kRoot[] = "/sys/fs/cgroup";
constexpr char kOurs[] = "tensor-fusion";

bool Put(const std::string& file, const std::string& text) {
  const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return written;
}

bool Folder(const std::string& path) { return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST; }

}  // namespace

Cgroups::Cgroups() {
  std::vector<std::string> missing;
  absl::StatusOr<std::string> own = ReadFile("/proc/self/cgroup", 64 << 10);
  std::string problem = "this machine has no cgroups";
  if (own.ok()) {
    for (absl::string_view line : absl::StrSplit(*own, '\n', absl::SkipEmpty())) {
      const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
      if (parts.size() != 3) continue;
      const std::string below = parts[2] == "/" ? "" : parts[2];
      if (parts[1].empty() && access(absl::StrCat(kRoot, "/cgroup.controllers").c_str(), R_OK) == 0) {
        const std::string mine = absl::StrCat(kRoot, below), ours = absl::StrCat(mine, "/", kOurs);
        if (!Folder(ours)) {
          problem = absl::StrCat("cannot make ", ours, ": ", std::strerror(errno));
          continue;
        }
        // Controllers reach a cgroup only when each one above hands them down.
        for (const char* controller : {"+memory", "+cpu"}) {
          Put(absl::StrCat(mine, "/cgroup.subtree_control"), controller);
          Put(absl::StrCat(ours, "/cgroup.subtree_control"), controller);
        }
        absl::StatusOr<std::string> handed = ReadFile(absl::StrCat(ours, "/cgroup.subtree_control"), 4096);
        unified_ = ours;
        unified_memory_ = handed.ok() && absl::StrContains(*handed, "memory");
        unified_cpu_ = handed.ok() && absl::StrContains(*handed, "cpu");
        if (!unified_memory_ || !unified_cpu_) problem = absl::StrCat(mine, " hands no controllers down");
      }
      for (absl::string_view controller : absl::StrSplit(parts[1], ',', absl::SkipEmpty())) {
        if (controller != "memory" && controller != "cpu") continue;
        std::string mount = absl::StrCat(kRoot, "/", parts[1]);
        if (access(mount.c_str(), R_OK) != 0) mount = absl::StrCat(kRoot, "/", controller);
        // In a container the path of the host is not to be seen: what is mounted is what there is.
        std::string mine = absl::StrCat(mount, below);
        if (access(mine.c_str(), R_OK) != 0) mine = mount;
        const std::string ours = absl::StrCat(mine, "/", kOurs);
        if (!Folder(ours) || access(ours.c_str(), W_OK) != 0) {
          problem = absl::StrCat("cannot make ", ours, ": ", std::strerror(errno));
          continue;
        }
        (controller == "memory" ? memory_ : cpu_) = ours;
      }
    }
  }
  if (!memory()) missing.emplace_back("memory");
  if (!cpu()) missing.emplace_back("cpu");
  if (!missing.empty()) {
    why_ = absl::StrCat("limits of ", absl::StrJoin(missing, " and "), " are not enforced: ", problem);
  }
}

Cgroups::Place Cgroups::Make(const std::string& name, int64_t memory_bytes, int64_t cpu_millis) const {
  Place place;
  if (memory_bytes > 0 && !memory_.empty()) {
    const std::string folder = absl::StrCat(memory_, "/", name);
    if (Folder(folder) && Put(absl::StrCat(folder, "/memory.limit_in_bytes"), absl::StrCat(memory_bytes))) {
      place.files.push_back(absl::StrCat(folder, "/cgroup.procs"));
      place.oom_file = absl::StrCat(folder, "/memory.oom_control");
    }
  }
  if (cpu_millis > 0 && !cpu_.empty()) {
    const std::string folder = absl::StrCat(cpu_, "/", name);
    if (Folder(folder) && Put(absl::StrCat(folder, "/cpu.cfs_period_us"), "100000") &&
        Put(absl::StrCat(folder, "/cpu.cfs_quota_us"), absl::StrCat(cpu_millis * 100))) {
      place.files.push_back(absl::StrCat(folder, "/cgroup.procs"));
    }
  }
  if ((memory_bytes > 0 && memory_.empty() && unified_memory_) || (cpu_millis > 0 && cpu_.empty() && unified_cpu_)) {
    const std::string folder = absl::StrCat(unified_, "/", name);
    if (Folder(folder)) {
      if (memory_bytes > 0 && unified_memory_) {
        Put(absl::StrCat(folder, "/memory.max"), absl::StrCat(memory_bytes));
        Put(absl::StrCat(folder, "/memory.swap.max"), "0");
        place.oom_file = absl::StrCat(folder, "/memory.events");
      }
      if (cpu_millis > 0 && unified_cpu_)
        Put(absl::StrCat(folder, "/cpu.max"), absl::StrCat(cpu_millis * 100, " 100000"));
      place.files.push_back(absl::StrCat(folder, "/cgroup.procs"));
    }
  }
  return place;
}

void Cgroups::Remove(const std::string& name) const {
  for (const std::string& ours : {memory_, cpu_, unified_}) {
    if (!ours.empty()) rmdir(absl::StrCat(ours, "/", name).c_str());
  }
}

}  // namespace tf::process_node
