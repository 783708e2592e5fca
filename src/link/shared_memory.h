// Memory shared between processes by descriptor: for the rings of a link, and for pinned host memory above it. It is an
// anonymous file whose size is sealed, so that no holder of the descriptor can shrink it and make the others fault, and
// whose pages are there from the start.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "link/fd.h"

namespace tf::link {

// A descriptor of `size` bytes (rounded up to pages). RESOURCE_EXHAUSTED when the machine lacks the memory.
absl::StatusOr<Fd> CreateSharedMemory(const char* name, size_t size);

// Size of memory that a peer sent. INVALID_ARGUMENT unless it is such a file, sealed against shrinking.
absl::StatusOr<size_t> CheckSharedMemory(int fd);

// A mapping with one owner. Not inherited by forked children.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Bytes [offset, offset + size) of the file, page-aligned. With `mirrored` they appear twice in a row, so that a
  // range that wraps around is contiguous; bytes() is then 2 * size long.
  static absl::StatusOr<Mapping> Map(int fd, size_t offset, size_t size, bool mirrored = false);

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  pid_t owner_ = 0;
};

}  // namespace tf::link
