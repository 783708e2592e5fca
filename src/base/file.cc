#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tf {
namespace {

absl::Status SystemError(int error, absl::string_view doing, const std::string& path) {
  return absl::ErrnoToStatus(error, absl::StrCat(doing, " ", path));
}

absl::Status WriteAll(int fd, std::string_view contents, const std::string& path) {
  while (!contents.empty()) {
    const ssize_t written = write(fd, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(errno, "writing", path);
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// A complete file with a name of its own, in the folder of `path`; the caller gives it its final name.
absl::StatusOr<std::string> WriteBeside(const std::string& path, std::string_view contents, mode_t mode) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!parent.empty()) std::filesystem::create_directories(parent, failed);
  if (failed) return SystemError(failed.value(), "making the folder", parent.string());

  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return SystemError(errno, "creating a file beside", path);
  absl::Status status = WriteAll(fd, contents, path);
  if (status.ok() && fchmod(fd, mode) != 0) status = SystemError(errno, "setting the mode of", path);
  if (status.ok() && fsync(fd) != 0) status = SystemError(errno, "writing", path);
  if (close(fd) != 0 && status.ok()) status = SystemError(errno, "writing", path);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return temporary;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError(errno, "opening", path);
  absl::Cleanup closer = [fd] { close(fd); };
  std::string contents;
  char chunk[4096];
  while (true) {
    const ssize_t count = read(fd, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "reading", path);
    if (count == 0) return contents;
    contents.append(chunk, static_cast<size_t>(count));
    if (contents.size() > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(path, " is longer than ", max_bytes, " bytes"));
    }
  }
}

absl::Status WriteFile(const std::string& path, std::string_view contents, mode_t mode) {
  absl::StatusOr<std::string> temporary = WriteBeside(path, contents, mode);
  if (!temporary.ok()) return temporary.status();
  if (rename(temporary->c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(temporary->c_str());
  return SystemError(error, "replacing", path);
}

absl::Status CreateFile(const std::string& path, std::string_view contents, mode_t mode) {
  absl::StatusOr<std::string> temporary = WriteBeside(path, contents, mode);
  if (!temporary.ok()) return temporary.status();
  absl::Cleanup remover = [&temporary] { unlink(temporary->c_str()); };
  // link() refuses to replace, in one step.
  if (link(temporary->c_str(), path.c_str()) != 0) return SystemError(errno, "creating", path);
  return absl::OkStatus();
}

}  // namespace tf
