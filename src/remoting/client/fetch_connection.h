// Asks the operator which worker this pod has: GET of TENSOR_FUSION_OPERATOR_GET_CONNECTION_URL with the pod's token.
//
// A client library goes into any program, so this is a small HTTP/1.1 client of its own on blocking sockets, without
// other libraries: http only, answers of up to 64 KiB. An operator that is away or has no worker yet is asked again
// until `limit` is over; a refusal (401, 403, 400) ends it at once. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tf::remoting {

struct FetchOptions {
  std::string token_file = {};  // read for each question: tokens are renewed
  absl::Duration limit = absl::Minutes(5);
  absl::Duration pause = absl::Seconds(1);  // between questions, and up to half as long again
};

// The connection string. DeadlineExceeded says what the last answer was.
absl::StatusOr<std::string> FetchConnection(std::string_view url, const FetchOptions& options);

}  // namespace tf::remoting
