#include "process_node/shim/mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace tf::shim {
namespace {

struct Problem {
  char* text;
  unsigned size;
};

bool Fail(Problem problem, const char* what, const char* path) {
  snprintf(problem.text, problem.size, "%s %s: %s", what, path, strerror(errno));
  return false;
}

bool WriteTo(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text, strlen(text)) == static_cast<ssize_t>(strlen(text));
  close(fd);
  return written;
}

bool OwnNamespace(Problem problem) {
  if (unshare(CLONE_NEWNS) != 0) {
    const unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return Fail(problem, "cannot make", "a mount namespace");
    char map[64];
    snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
    if (!WriteTo("/proc/self/uid_map", map)) return Fail(problem, "cannot write", "/proc/self/uid_map");
    if (!WriteTo("/proc/self/setgroups", "deny")) return Fail(problem, "cannot write", "/proc/self/setgroups");
    snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
    if (!WriteTo("/proc/self/gid_map", map)) return Fail(problem, "cannot write", "/proc/self/gid_map");
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return Fail(problem, "cannot make private", "/");
  return true;
}

// An empty thing of the same kind at `path`, to bind onto.
bool MakePlace(const char* path, bool folder) {
  if (folder) return mkdir(path, 0755) == 0 || errno == EEXIST;
  const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return false;
  close(fd);
  return true;
}

// Covers `folder` by a tmpfs with the same entries, so that new ones can be made in it. The root itself cannot be
// covered: then the process moves into the copy.
bool Cover(const char* folder, const char* staging, Problem problem) {
  if (mount("tmpfs", staging, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m") != 0) {
    return Fail(problem, "cannot mount a tmpfs at", staging);
  }
  DIR* entries = opendir(folder);
  if (entries == nullptr) return Fail(problem, "cannot read", folder);
  bool fine = true;
  while (const dirent* entry = fine ? readdir(entries) : nullptr) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char from[PATH_MAX], to[PATH_MAX];
    if (snprintf(from, sizeof(from), "%s/%s", folder, entry->d_name) >= PATH_MAX ||
        snprintf(to, sizeof(to), "%s/%s", staging, entry->d_name) >= PATH_MAX) {
      continue;
    }
    struct stat about;
    if (lstat(from, &about) != 0) continue;  // gone meanwhile
    if (S_ISLNK(about.st_mode)) {
      char target[PATH_MAX];
      const ssize_t length = readlink(from, target, sizeof(target) - 1);
      if (length < 0) continue;
      target[length] = '\0';
      if (symlink(target, to) != 0) fine = Fail(problem, "cannot make", to);
      continue;
    }
    if (!MakePlace(to, S_ISDIR(about.st_mode))) {
      fine = Fail(problem, "cannot make", to);
    } else if (mount(from, to, nullptr, MS_BIND | MS_REC, nullptr) != 0 && errno != EACCES && errno != ENOENT) {
      fine = Fail(problem, "cannot bind", from);
    }
  }
  closedir(entries);
  if (!fine) return false;
  if (strcmp(folder, "/") == 0) {
    if (chdir(staging) != 0 || chroot(".") != 0 || chdir("/") != 0) return Fail(problem, "cannot enter", staging);
    return true;
  }
  if (mount(staging, folder, nullptr, MS_BIND | MS_REC, nullptr) != 0) return Fail(problem, "cannot cover", folder);
  umount2(staging, MNT_DETACH);
  return true;
}

// Folders in which things may be made: volumes with all that is below them, and the covers with what we made in them.
// What a cover binds in is the machine's again.
constexpr int kMaxOurs = 1024;
struct Ours {
  char* path;
  bool below;
};
Ours ours[kMaxOurs];
int ours_count = 0;

bool IsOurs(const char* path) {
  for (int i = 0; i < ours_count; ++i) {
    const size_t length = strlen(ours[i].path);
    if (strncmp(path, ours[i].path, length) != 0) continue;
    if (path[length] == '\0' || (ours[i].below && path[length] == '/')) return true;
  }
  return false;
}

void AddOurs(const char* path, bool below) {
  if (ours_count < kMaxOurs) ours[ours_count++] = {strdup(path), below};
}

// Makes `target` exist, as a folder or a file.
bool EnsureTarget(const char* target, bool folder, const char* staging, Problem problem) {
  struct stat about;
  if (stat(target, &about) == 0 && S_ISDIR(about.st_mode) == folder) return true;
  char path[PATH_MAX];
  if (snprintf(path, sizeof(path), "%s", target) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return Fail(problem, "cannot use", target);
  }
  // The deepest part that is there.
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/') path[--end] = '\0';
  char above[PATH_MAX], real[PATH_MAX];
  snprintf(above, sizeof(above), "%s", path);
  for (;;) {
    char* slash = strrchr(above, '/');
    if (slash == nullptr || slash == above) {
      strcpy(above, "/");
    } else {
      *slash = '\0';
    }
    if (stat(above, &about) == 0) break;
    if (strcmp(above, "/") == 0) return Fail(problem, "cannot find", "/");
  }
  if (!S_ISDIR(about.st_mode) || realpath(above, real) == nullptr) {
    errno = ENOTDIR;
    return Fail(problem, "cannot make a mount point in", above);
  }
  if (!IsOurs(real)) {
    if (!Cover(real, staging, problem)) return false;
    AddOurs(real, false);
  }
  // Now part by part.
  size_t at = strlen(above);
  if (at == 1) at = 0;
  while (path[at] != '\0') {
    size_t next = at + 1;
    while (path[next] != '\0' && path[next] != '/') ++next;
    const bool last = path[next] == '\0';
    const char kept = path[next];
    path[next] = '\0';
    if (!MakePlace(path, !last || folder)) return Fail(problem, "cannot make", path);
    if (!last && realpath(path, real) != nullptr) AddOurs(real, false);
    path[next] = kept;
    at = next;
  }
  return true;
}

int ByLength(const void* left, const void* right) {
  const size_t a = strlen(static_cast<const Bind*>(left)->target), b = strlen(static_cast<const Bind*>(right)->target);
  return a < b ? -1 : a > b ? 1 : 0;
}

}  // namespace

bool BindVolumes(Bind* binds, int count, const char* staging, char* problem_text, unsigned problem_size) {
  const Problem problem{problem_text, problem_size};
  if (count == 0) return true;
  if (!OwnNamespace(problem)) return false;
  // Outer ones first: /data before /data/cache.
  qsort(binds, static_cast<size_t>(count), sizeof(Bind), ByLength);
  // Sources are opened first: what is mounted may cover them.
  for (int i = 0; i < count; ++i) {
    const Bind& bind = binds[i];
    const int source = open(bind.source, O_PATH | O_CLOEXEC);
    if (source < 0) return Fail(problem, "cannot open the volume", bind.source);
    struct stat about;
    if (fstat(source, &about) != 0) return Fail(problem, "cannot read", bind.source);
    char from[64];
    snprintf(from, sizeof(from), "/proc/self/fd/%d", source);
    if (!EnsureTarget(bind.target, S_ISDIR(about.st_mode), staging, problem)) return false;
    if (mount(from, bind.target, nullptr, MS_BIND | MS_REC, nullptr) != 0) {
      return Fail(problem, "cannot mount at", bind.target);
    }
    close(source);
    char real[PATH_MAX];
    if (realpath(bind.target, real) != nullptr) AddOurs(real, true);
    if (bind.read_only) {
      // Flags that the mount has already are locked in a user namespace: they are repeated.
      struct statvfs flags;
      unsigned long keep = 0;
      if (statvfs(bind.target, &flags) == 0) {
        if (flags.f_flag & ST_NOSUID) keep |= MS_NOSUID;
        if (flags.f_flag & ST_NODEV) keep |= MS_NODEV;
        if (flags.f_flag & ST_NOEXEC) keep |= MS_NOEXEC;
        if (flags.f_flag & ST_RELATIME) keep |= MS_RELATIME;
        if (flags.f_flag & ST_NOATIME) keep |= MS_NOATIME;
      }
      if (mount(nullptr, bind.target, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | keep, nullptr) != 0) {
        return Fail(problem, "cannot make read-only", bind.target);
      }
    }
  }
  return true;
}

}  // namespace tf::shim
