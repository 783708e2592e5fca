#include "kube/error.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "kube/object.h"

namespace tf::kube {
namespace {

constexpr char kPayload[] = "tensor-fusion.ai/kube-error";
constexpr size_t kQuoted = 300;  // bytes of an answer that nobody understands

absl::StatusCode CodeOf(int http_status, std::string_view reason) {
  struct Row {
    std::string_view reason;
    int http_status;
    absl::StatusCode code;
  };
  // AlreadyExists and Conflict share 409, so the reason decides; the number where the reason is missing or new.
  static constexpr Row kRows[] = {
      {"NotFound", 404, absl::StatusCode::kNotFound},
      {"Conflict", 409, absl::StatusCode::kAborted},
      {"AlreadyExists", 0, absl::StatusCode::kAlreadyExists},
      {"Invalid", 422, absl::StatusCode::kInvalidArgument},
      {"BadRequest", 400, absl::StatusCode::kInvalidArgument},
      {"RequestEntityTooLarge", 413, absl::StatusCode::kInvalidArgument},
      {"UnsupportedMediaType", 415, absl::StatusCode::kInvalidArgument},
      {"NotAcceptable", 406, absl::StatusCode::kInvalidArgument},
      {"Expired", 410, absl::StatusCode::kOutOfRange},
      {"Gone", 0, absl::StatusCode::kOutOfRange},
      {"TooManyRequests", 429, absl::StatusCode::kResourceExhausted},
      {"Forbidden", 403, absl::StatusCode::kPermissionDenied},
      {"Unauthorized", 401, absl::StatusCode::kUnauthenticated},
      {"MethodNotAllowed", 405, absl::StatusCode::kUnimplemented},
      {"Timeout", 0, absl::StatusCode::kUnavailable},
      {"ServerTimeout", 0, absl::StatusCode::kUnavailable},
      {"InternalError", 0, absl::StatusCode::kUnavailable},
      {"ServiceUnavailable", 0, absl::StatusCode::kUnavailable},
  };
  for (const Row& row : kRows) {
    if (row.reason == reason) return row.code;
  }
  for (const Row& row : kRows) {
    if (row.http_status == http_status) return row.code;
  }
  if (http_status >= 500) return absl::StatusCode::kUnavailable;
  return absl::StatusCode::kUnknown;
}

std::string_view ReasonOf(int http_status) {
  switch (http_status) {
    case 400:
      return "BadRequest";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 405:
      return "MethodNotAllowed";
    case 409:
      return "Conflict";
    case 410:
      return "Expired";
    case 422:
      return "Invalid";
    case 429:
      return "TooManyRequests";
    case 503:
      return "ServiceUnavailable";
    default:
      return http_status >= 500 ? "InternalError" : "";
  }
}

// The start of a text that may be anything, as one line of valid UTF-8.
std::string Quote(std::string_view body) {
  std::string text;
  for (char c : body.substr(0, kQuoted)) text += c >= 0x20 && c < 0x7f ? c : (c == '\n' || c == '\t' ? ' ' : '?');
  if (body.size() > kQuoted) text += " …";
  return text;
}

}  // namespace

absl::Status WithDetails(absl::Status status, const ErrorDetails& details) {
  JsonArray causes;
  for (const Cause& cause : details.causes) {
    causes.push_back({{"reason", cause.reason}, {"message", cause.message}, {"field", cause.field}});
  }
  const Json payload = {{"status", details.http_status},
                        {"reason", details.reason},
                        {"causes", std::move(causes)},
                        {"retryAfter", absl::ToInt64Milliseconds(details.retry_after)}};
  status.SetPayload(kPayload, absl::Cord(boost::json::serialize(payload)));
  return status;
}

std::optional<ErrorDetails> DetailsOf(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  absl::StatusOr<Json> json = ParseJson(std::string(*payload));
  if (!json.ok()) return std::nullopt;
  ErrorDetails details;
  details.http_status = static_cast<int>(Number(*json, "status"));
  details.reason = Text(*json, "reason");
  details.retry_after = absl::Milliseconds(Number(*json, "retryAfter"));
  if (const Json* causes = Field(*json, "causes"); causes != nullptr && causes->is_array()) {
    for (const Json& cause : causes->get_array()) {
      details.causes.push_back(
          {std::string(Text(cause, "reason")), std::string(Text(cause, "message")), std::string(Text(cause, "field"))});
    }
  }
  return details;
}

absl::Status StatusFromBody(int http_status, std::string_view body, absl::Duration retry_after) {
  ErrorDetails details{
      .http_status = http_status, .reason = std::string(ReasonOf(http_status)), .retry_after = retry_after};
  std::string message;
  absl::StatusOr<Json> json = ParseJson(body);
  if (json.ok() && Text(*json, "kind") == "Status" && Text(*json, "apiVersion") == "v1") {
    details.http_status = static_cast<int>(Number(*json, "code", http_status));
    if (std::string_view reason = Text(*json, "reason"); !reason.empty()) details.reason = reason;
    if (retry_after == absl::ZeroDuration()) {
      details.retry_after = absl::Seconds(std::max<int64_t>(0, Number(*json, "details.retryAfterSeconds")));
    }
    if (const Json* causes = Field(*json, "details.causes"); causes != nullptr && causes->is_array()) {
      for (const Json& cause : causes->get_array()) {
        details.causes.push_back({std::string(Text(cause, "reason")), std::string(Text(cause, "message")),
                                  std::string(Text(cause, "field"))});
      }
    }
    message = Text(*json, "message");
  }
  if (message.empty()) {
    message = absl::StrCat("the API server answered ", details.http_status,
                           body.empty() ? std::string() : ": " + Quote(body));
  }
  return WithDetails(absl::Status(CodeOf(details.http_status, details.reason), message), details);
}

bool IsNotFound(const absl::Status& status) { return absl::IsNotFound(status); }
bool IsAlreadyExists(const absl::Status& status) { return absl::IsAlreadyExists(status); }
bool IsConflict(const absl::Status& status) { return absl::IsAborted(status); }

bool IsInvalid(const absl::Status& status) {
  std::optional<ErrorDetails> details = DetailsOf(status);
  return details.has_value() && details->reason == "Invalid";
}

bool IsExpired(const absl::Status& status) { return absl::IsOutOfRange(status); }

bool IsTooManyRequests(const absl::Status& status) {
  std::optional<ErrorDetails> details = DetailsOf(status);
  return details.has_value() && absl::IsResourceExhausted(status);
}

bool IsUnclear(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace tf::kube
