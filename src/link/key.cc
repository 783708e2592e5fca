#include "link/key.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/encoding.h"
#include "link/fd.h"

namespace tf::link {

absl::StatusOr<LinkKey> LinkKey::Generate() {
  LinkKey key;
  if (getrandom(key.bytes.data(), key.bytes.size(), 0) != static_cast<ssize_t>(key.bytes.size())) {
    return absl::InternalError("the system gives no random bytes for a link key");
  }
  return key;
}

absl::StatusOr<LinkKey> ParseLinkKey(std::string_view hex) {
  const absl::string_view digits = absl::StripAsciiWhitespace(absl::string_view(hex.data(), hex.size()));
  const std::optional<std::string> bytes = HexDecode(absl::AsciiStrToLower(digits));
  LinkKey key;
  if (!bytes || bytes->size() != key.bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a link key is 64 hexadecimal digits; found ", digits.size(), " characters that are not"));
  }
  std::memcpy(key.bytes.data(), bytes->data(), key.bytes.size());
  return key;
}

std::string FormatLinkKey(const LinkKey& key) {
  return HexEncode(std::string_view(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()));
}

absl::StatusOr<LinkKey> ReadLinkKeyFile(const std::string& path) {
  const auto failed = [&](int error) {
    const std::string text = absl::StrCat("cannot read the link key in ", path, ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(text) : absl::PermissionDeniedError(text);
  };
  // O_NONBLOCK: opening a pipe in place of the file must not hang.
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return failed(errno);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return failed(errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("the link key ", path, " is not a regular file"));
  }
  if ((info.st_mode & 0177) != 0 || (info.st_uid != geteuid() && info.st_uid != 0)) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "the link key %s has mode %04o and owner %d; it must have mode 0600 and belong to this user (%d) or root: "
        "chmod 600 %s",
        path, info.st_mode & 07777, static_cast<int>(info.st_uid), static_cast<int>(geteuid()), path));
  }
  char text[256];
  const ssize_t size = read(fd.get(), text, sizeof(text));
  if (size < 0) return failed(errno);
  absl::StatusOr<LinkKey> key = ParseLinkKey(std::string_view(text, static_cast<size_t>(size)));
  if (!key.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", key.status().message()));
  return key;
}

}  // namespace tf::link
