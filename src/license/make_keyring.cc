// A step of the build: writes the key ring that is compiled into the programs.
//
//   make_keyring OUTPUT --ring FILE             the keys of FILE; fails on a weak or malformed key
//   make_keyring OUTPUT --development KEY_FILE  the key pair in KEY_FILE, which is made when it is not there
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "license/keys.h"

namespace tf::license {
namespace {

constexpr size_t kMaxRingBytes = 1 << 20;

absl::StatusOr<std::string> DevelopmentRing(const std::string& key_file) {
  absl::StatusOr<std::string> text = ReadFile(key_file, kMaxRingBytes);
  if (absl::IsNotFound(text.status())) {
    const absl::StatusOr<SigningKey> made = SigningKey::Generate("", "development-");
    if (!made.ok()) return made.status();
    if (absl::Status created = CreateFile(key_file, made->ToFileText(), 0600); !created.ok()) return created;
    return made->KeyringLine();
  }
  if (!text.ok()) return text.status();
  const absl::StatusOr<SigningKey> key = SigningKey::FromFileText(*text);
  if (!key.ok()) return absl::InvalidArgumentError(absl::StrCat(key_file, ": ", key.status().message()));
  return key->KeyringLine();
}

absl::Status MakeKeyring(const std::string& output, bool development, const std::string& file) {
  const absl::StatusOr<std::string> ring = development ? DevelopmentRing(file) : ReadFile(file, kMaxRingBytes);
  if (!ring.ok()) return ring.status();
  const absl::StatusOr<Keyring> parsed = Keyring::Parse(*ring, development);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat(file, ": ", parsed.status().message()));
  return WriteFile(output,
                   absl::StrCat("constexpr bool kKeyringIsDevelopment = ", development ? "true" : "false",
                                ";\nconstexpr char kKeyringText[] = R\"ring(", *ring, ")ring\";\n"),
                   0644);
}

}  // namespace
}  // namespace tf::license

int main(int argc, char** argv) {
  const std::string kind = argc == 4 ? argv[2] : "";
  if (kind != "--ring" && kind != "--development") {
    std::fprintf(stderr, "usage: make_keyring OUTPUT --ring FILE | --development KEY_FILE\n");
    return 2;
  }
  const absl::Status status = tf::license::MakeKeyring(argv[1], kind == "--development", argv[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "make_keyring: %s\n", std::string(status.message()).c_str());
  return 1;
}
