// Finds the worker that the environment names and connects to it.
//
//   TENSOR_FUSION_OPERATOR_CONNECTION_INFO   native+<ip>+<port>+<version> or shmem+<name>+<MiB>+<n>
//   TENSOR_FUSION_OPERATOR_GET_CONNECTION_URL  where the operator says so, when the first one is not set; asked at each
//                                            connection, with the token in TF_CONNECTION_TOKEN_FILE (default
//                                            /var/run/secrets/tensor-fusion.ai/token), for up to five minutes
//   TF_LINK_KEY_FILE                         file of mode 0600 with the link key (64 hexadecimal digits); TLS is used
//   when it is set TF_LINK_INSECURE_PLAINTEXT=1             permits an address that is not loopback without a key
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "link/connection.h"

namespace tf::remoting {

// purpose: "cuda" or "nvml"; the worker sees it. Errors as link::Connect; FAILED_PRECONDITION when the environment
// names no worker.
absl::StatusOr<std::unique_ptr<link::Connection>> ConnectFromEnvironment(std::string_view purpose);

}  // namespace tf::remoting
