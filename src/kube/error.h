// What the API server said no with, carried in an absl::Status.
//
// A Status answer of the server becomes: code by reason (NotFound → NotFound, AlreadyExists → AlreadyExists, Conflict →
// Aborted, Invalid and BadRequest → InvalidArgument, Expired/Gone → OutOfRange, TooManyRequests → ResourceExhausted,
// Forbidden → PermissionDenied, Unauthorized → Unauthenticated, Timeout/ServerTimeout/5xx → Unavailable,
// MethodNotAllowed → Unimplemented), the server's message, and a payload with the rest. What failed before an answer
// has no payload.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tf::kube {

struct Cause {
  std::string reason = {};  // "FieldValueInvalid"
  std::string message = {};
  std::string field = {};  // "spec.replicas"
};

struct ErrorDetails {
  int http_status = 0;
  std::string reason = {};  // as the server names it: "NotFound", "Conflict", "Invalid", "Expired" …
  std::vector<Cause> causes = {};
  absl::Duration retry_after = absl::ZeroDuration();  // from Retry-After or details.retryAfterSeconds; 0: not said
};

// Attaches and reads the details. DetailsOf: nullopt when the server did not answer.
absl::Status WithDetails(absl::Status status, const ErrorDetails& details);
std::optional<ErrorDetails> DetailsOf(const absl::Status& status);

// The Status object (apiVersion v1, kind Status) of an answer or of an ERROR event, as absl::Status. `body` may be
// anything: what is no Status object is quoted in part.
absl::Status StatusFromBody(int http_status, std::string_view body, absl::Duration retry_after);

bool IsNotFound(const absl::Status& status);
bool IsAlreadyExists(const absl::Status& status);
bool IsConflict(const absl::Status& status);
bool IsInvalid(const absl::Status& status);
bool IsExpired(const absl::Status& status);          // 410: the resource version is too old
bool IsTooManyRequests(const absl::Status& status);  // 429
// Nobody knows whether it took effect: cut connections, time limits, 5xx. Read before doing it again.
bool IsUnclear(const absl::Status& status);

}  // namespace tf::kube
