#include "tfctl/signing_key.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace tf::tfctl {

namespace {

constexpr size_t kMaxKeyFileBytes = 64 * 1024;

}  // namespace

using license::SigningKey;

absl::StatusOr<std::string> DevelopmentKeyFile() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path key = program.parent_path().parent_path() / "license" / "development.key";
  if (!failed && std::filesystem::exists(key, failed)) return key.string();
  return absl::NotFoundError(
      absl::StrCat("no --key FILE, and no development key at ", key.string(),
                   "; make a key with tfctl license keygen, or run the tfctl of a build folder"));
}

absl::StatusOr<SigningKey> LoadSigningKey(std::string file) {
  if (file.empty()) {
    absl::StatusOr<std::string> found = DevelopmentKeyFile();
    if (!found.ok()) return found.status();
    file = *std::move(found);
  }
  const absl::StatusOr<std::string> text = ReadFile(file, kMaxKeyFileBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<SigningKey> key = SigningKey::FromFileText(*text);
  if (!key.ok()) return absl::InvalidArgumentError(absl::StrCat(file, ": ", key.status().message()));
  return key;
}

}  // namespace tf::tfctl
