// The link key: 32 random bytes known to a worker and to who may use it. TLS 1.3 takes it as external pre-shared key,
// so it authenticates both ends. Written as 64 hexadecimal digits; error messages never contain it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tf::link {

struct LinkKey {
  std::array<std::byte, 32> bytes;

  static absl::StatusOr<LinkKey> Generate();
};

// White space around the digits is ignored.
absl::StatusOr<LinkKey> ParseLinkKey(std::string_view hex);
std::string FormatLinkKey(const LinkKey& key);

// Reads a key from a regular file that only its owner (this user or root) can read, mode 0600 or 0400.
absl::StatusOr<LinkKey> ReadLinkKeyFile(const std::string& path);

}  // namespace tf::link
