// Whether an etcd that listens on a socket of the file system is ready: it has a leader and answers.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace tf::standalone {

// Unavailable: not yet. The folder's path may be long, the socket's name in it may not.
absl::Status AskEtcdHealth(const std::string& folder, const std::string& socket_name);

}  // namespace tf::standalone
