// Issuing a licence: the text of its fields and the signature over it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "license/keys.h"
#include "license/license.h"

namespace tf::license {

struct Issued {
  std::string text;       // TF_LICENSE
  std::string signature;  // TF_LICENSE_SIGN: base64url without padding, 86 characters
};

// The bytes that are signed. The line in front keeps the signature from meaning anything elsewhere.
std::string SignedBytes(std::string_view text);

// license.kid is replaced by the key's. InvalidArgument when a field cannot be written.
absl::StatusOr<Issued> Issue(License license, const SigningKey& key);

}  // namespace tf::license
