// Connection strings, the public way to say where a worker is:
//
//   native+<ip>+<port>+<version>     TCP. IPv4 or IPv6 address (no brackets, no host names).
//   shmem+<name>+<MiB>+<version>     shared memory of one machine; the worker's socket is <folder>/<name>.sock
//
// Parsing is strict: Parse(Format(x)) == x, and what differs in any byte from a form above is refused with a message
// that says which field is wrong. `version` names the worker's generation and is not interpreted here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tf::link {

struct ConnectionString {
  enum class Kind { kNative, kShmem };

  Kind kind = Kind::kNative;
  std::string ip;       // native
  uint16_t port = 0;    // native; 0 only to listen on a free port
  std::string name;     // shmem: letters, digits, '_', '-', '.', at most 64, no leading '.'
  uint32_t mib = 0;     // shmem: most memory of one connection's rings (little more than 8 are ever used)
  std::string version;  // letters, digits, '_', '-', '.', 1 to 300

  static constexpr uint32_t kMinMib = 4;
  static constexpr uint32_t kMaxMib = 1024 * 1024;

  static ConnectionString Native(std::string ip, uint16_t port, std::string version = "0");
  static ConnectionString Shmem(std::string name, uint32_t mib, std::string version = "1");

  bool operator==(const ConnectionString&) const = default;
};

absl::StatusOr<ConnectionString> ParseConnectionString(std::string_view text);
std::string FormatConnectionString(const ConnectionString& value);

// OK if every field has a permitted value; `port 0` is permitted (listening on a free port).
absl::Status ValidateConnectionString(const ConnectionString& value);

// 127.0.0.0/8, ::1 and ::ffff:127.0.0.0/104: never leaves the machine. `ip` must be a valid address.
bool IsLoopback(std::string_view ip);

}  // namespace tf::link
