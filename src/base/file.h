// Whole files: read with a bound, written so that a reader sees the old or the new contents and never a mixture.
// Errors name the path and the reason of the system; a path that does not exist gives NotFound.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tf {

// At most max_bytes; a longer file is an error and is not read to its end.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);

// Writes a new file beside `path` with exactly this mode and renames it over `path`. Makes missing parent folders.
absl::Status WriteFile(const std::string& path, std::string_view contents, mode_t mode);

// Like WriteFile, and AlreadyExists when there is something at `path`.
absl::Status CreateFile(const std::string& path, std::string_view contents, mode_t mode);

}  // namespace tf
