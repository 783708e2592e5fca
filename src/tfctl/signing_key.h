// The private keys that tfctl signs licences with.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "license/keys.h"

namespace tf::tfctl {

// Of the build folder that this program lies in, as bin/tfctl. NOT_FOUND in an installation.
absl::StatusOr<std::string> DevelopmentKeyFile();

// Reads a key file; the development key when `file` is empty.
absl::StatusOr<license::SigningKey> LoadSigningKey(std::string file);

}  // namespace tf::tfctl
