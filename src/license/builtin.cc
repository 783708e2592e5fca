#include "license/builtin.h"

#include <cstdlib>

namespace tf::license {
namespace {

// Written by make_keyring: kKeyringText, which has passed Keyring::Parse then, and kKeyringIsDevelopment.
#include "keyring.inc"

}  // namespace

const Keyring& BuiltinKeyring() {
  static const Keyring* const ring = [] {
    absl::StatusOr<Keyring> parsed = Keyring::Parse(kKeyringText, kKeyringIsDevelopment);
    if (!parsed.ok()) std::abort();
    return new Keyring(*std::move(parsed));
  }();
  return *ring;
}

absl::Time BuildTime() { return absl::FromUnixSeconds(TF_BUILD_TIME); }

}  // namespace tf::license
