// What a build knows for itself: the keys that it trusts, compiled in, and when it was made. Nothing at run time
// replaces either.
#pragma once

#include "absl/time/time.h"
#include "license/keys.h"

namespace tf::license {

// The key ring of -DTF_LICENSE_KEYRING=FILE, or, without that, of the development key pair of this build folder.
const Keyring& BuiltinKeyring();

// SOURCE_DATE_EPOCH when it was set for the build, else when the build was configured.
absl::Time BuildTime();

}  // namespace tf::license
