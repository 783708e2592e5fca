#include "link/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::link {
namespace {

// The kernel would sooner kill a process than refuse pages of an anonymous file, so ask first.
size_t AvailableMemory() {
  size_t kib = SIZE_MAX / 1024;
  if (FILE* file = std::fopen("/proc/meminfo", "re")) {
    char line[128];
    while (std::fgets(line, sizeof(line), file) != nullptr) {
      if (std::sscanf(line, "MemAvailable: %zu kB", &kib) == 1) break;
    }
    std::fclose(file);
  }
  return kib * 1024;
}

std::string Errno(int error) { return std::strerror(error); }

}  // namespace

absl::StatusOr<Fd> CreateSharedMemory(const char* name, size_t size) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size = (size + page - 1) / page * page;
  const size_t available = AvailableMemory();
  if (size == 0 || size > available) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot share ", size, " bytes of memory between processes: ",
                                                     available, " are available; use a smaller size"));
  }
  Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return absl::InternalError(absl::StrCat("cannot create shared memory: ", Errno(errno)));
  // posix_fallocate sets the size too, and takes the pages now, so that nobody faults on a full machine later.
  if (const int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(size)); error != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot share ", size, " bytes of memory between processes: ",
                                                     Errno(error), "; use a smaller size or free memory"));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::InternalError(absl::StrCat("cannot seal the size of shared memory: ", Errno(errno)));
  }
  return fd;
}

absl::StatusOr<size_t> CheckSharedMemory(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("a descriptor that the peer sent is not shared memory sealed against shrinking");
  }
  struct stat info{};
  if (fstat(fd, &info) != 0 || info.st_size <= 0) {
    return absl::InvalidArgumentError("shared memory that the peer sent has no size");
  }
  return static_cast<size_t>(info.st_size);
}

Mapping::Mapping(Mapping&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), owner_(std::exchange(other.owner_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(owner_, other.owner_);
  return *this;
}

Mapping::~Mapping() {
  // A forked child does not have the mapping; something else may lie at this address by now.
  if (!bytes_.empty() && owner_ == getpid()) munmap(bytes_.data(), bytes_.size());
}

absl::StatusOr<Mapping> Mapping::Map(int fd, size_t offset, size_t size, bool mirrored) {
  const size_t span = mirrored ? 2 * size : size;
  // Reserve the addresses first, then put the file in place; on failure the destructor gives all of them back.
  void* base = mmap(nullptr, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot map ", span, " bytes of shared memory: ", Errno(errno)));
  }
  Mapping mapping;
  mapping.bytes_ = {static_cast<std::byte*>(base), span};
  mapping.owner_ = getpid();
  for (size_t at = 0; at < span; at += size) {
    if (mmap(mapping.bytes_.data() + at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             static_cast<off_t>(offset)) == MAP_FAILED) {
      return absl::ResourceExhaustedError(absl::StrCat("cannot map ", size, " bytes of shared memory: ", Errno(errno)));
    }
  }
  madvise(base, span, MADV_DONTFORK);
  return mapping;
}

}  // namespace tf::link
