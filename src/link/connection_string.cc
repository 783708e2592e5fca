#include "link/connection_string.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tf::link {
namespace {

constexpr char kForms[] = "expected native+<ip>+<port>+<version> or shmem+<name>+<MiB>+<version>";

bool IsWord(std::string_view text, size_t most) {
  if (text.empty() || text.size() > most) return false;
  for (const char c : text) {
    const bool good =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    if (!good) return false;
  }
  return true;
}

// Decimal digits without sign or leading zero.
std::optional<uint32_t> Number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || (text.size() > 1 && text[0] == '0')) {
    return std::nullopt;
  }
  return value;
}

// The one text of an address that inet_ntop writes; empty when `ip` is none.
std::string CanonicalIp(const std::string& ip) {
  char text[INET6_ADDRSTRLEN];
  in_addr v4;
  if (inet_pton(AF_INET, ip.c_str(), &v4) == 1) return inet_ntop(AF_INET, &v4, text, sizeof(text));
  in6_addr v6;
  if (inet_pton(AF_INET6, ip.c_str(), &v6) == 1) return inet_ntop(AF_INET6, &v6, text, sizeof(text));
  return "";
}

absl::Status Bad(absl::string_view field, absl::string_view found, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("connection string: ", field, " \"", found, "\" must be ", expected, "; ", kForms));
}

}  // namespace

ConnectionString ConnectionString::Native(std::string ip, uint16_t port, std::string version) {
  ConnectionString value;
  value.kind = Kind::kNative;
  value.ip = std::move(ip);
  value.port = port;
  value.version = std::move(version);
  return value;
}

ConnectionString ConnectionString::Shmem(std::string name, uint32_t mib, std::string version) {
  ConnectionString value;
  value.kind = Kind::kShmem;
  value.name = std::move(name);
  value.mib = mib;
  value.version = std::move(version);
  return value;
}

absl::Status ValidateConnectionString(const ConnectionString& value) {
  if (value.kind == ConnectionString::Kind::kNative) {
    // Text behind a NUL would be invisible to the system's parser.
    if (value.ip.find('\0') != std::string::npos || CanonicalIp(value.ip).empty()) {
      return Bad("address", value.ip, "an IPv4 or IPv6 address (no host name, no brackets)");
    }
  } else {
    if (!IsWord(value.name, 64) || value.name[0] == '.') {
      return Bad("name", value.name, "1 to 64 letters, digits, '_', '-', '.', not starting with '.'");
    }
    if (value.mib < ConnectionString::kMinMib || value.mib > ConnectionString::kMaxMib) {
      return Bad("size in MiB", absl::StrCat(value.mib),
                 absl::StrCat("from ", ConnectionString::kMinMib, " to ", ConnectionString::kMaxMib));
    }
  }
  if (!IsWord(value.version, 300)) return Bad("version", value.version, "1 to 300 letters, digits, '_', '-', '.'");
  return absl::OkStatus();
}

absl::StatusOr<ConnectionString> ParseConnectionString(std::string_view text) {
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(text.data(), text.size()), absl::MaxSplits('+', 4));
  if (fields[0] != "native" && fields[0] != "shmem") {
    return absl::InvalidArgumentError(absl::StrCat("connection string: kind \"", fields[0], "\" is unknown; ", kForms));
  }
  if (fields.size() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("connection string: found ",
                                                   fields.size() > 4 ? "more than 4" : absl::StrCat(fields.size()),
                                                   " fields between '+' signs; ", kForms));
  }
  ConnectionString value;
  const std::optional<uint32_t> number = Number(fields[2]);
  if (fields[0] == "native") {
    if (!number || *number == 0 || *number > 65535) return Bad("port", fields[2], "from 1 to 65535");
    value = ConnectionString::Native(fields[1], static_cast<uint16_t>(*number), fields[3]);
  } else {
    if (!number) return Bad("size in MiB", fields[2], "a whole number");
    value = ConnectionString::Shmem(fields[1], *number, fields[3]);
  }
  if (absl::Status status = ValidateConnectionString(value); !status.ok()) return status;
  return value;
}

std::string FormatConnectionString(const ConnectionString& value) {
  return value.kind == ConnectionString::Kind::kNative
             ? absl::StrCat("native+", value.ip, "+", value.port, "+", value.version)
             : absl::StrCat("shmem+", value.name, "+", value.mib, "+", value.version);
}

bool IsLoopback(std::string_view ip) {
  const std::string text(ip);
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_LOOPBACK(&v6)) return true;
  return IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127;
}

}  // namespace tf::link
