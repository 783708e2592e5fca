#include "kube/error.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using testing::HasSubstr;

std::string StatusJson(int code, std::string_view reason, std::string_view details = "{}") {
  return absl::StrCat(R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"it said no","code":)", code,
                      R"(,"reason":")", std::string(reason), R"(","details":)", std::string(details), "}");
}

TEST(Error, CodeByReason) {
  struct Row {
    int http_status;
    const char* reason;
    absl::StatusCode code;
  };
  for (const Row& row : {
           Row{404, "NotFound", absl::StatusCode::kNotFound},
           Row{409, "AlreadyExists", absl::StatusCode::kAlreadyExists},
           Row{409, "Conflict", absl::StatusCode::kAborted},
           Row{422, "Invalid", absl::StatusCode::kInvalidArgument},
           Row{400, "BadRequest", absl::StatusCode::kInvalidArgument},
           Row{410, "Expired", absl::StatusCode::kOutOfRange},
           Row{410, "Gone", absl::StatusCode::kOutOfRange},
           Row{429, "TooManyRequests", absl::StatusCode::kResourceExhausted},
           Row{403, "Forbidden", absl::StatusCode::kPermissionDenied},
           Row{401, "Unauthorized", absl::StatusCode::kUnauthenticated},
           Row{405, "MethodNotAllowed", absl::StatusCode::kUnimplemented},
           Row{500, "ServerTimeout", absl::StatusCode::kUnavailable},
           Row{504, "Timeout", absl::StatusCode::kUnavailable},
           Row{500, "InternalError", absl::StatusCode::kUnavailable},
           Row{503, "ServiceUnavailable", absl::StatusCode::kUnavailable},
           Row{422, "", absl::StatusCode::kInvalidArgument},
           Row{502, "NewReason", absl::StatusCode::kUnavailable},
           Row{418, "NewReason", absl::StatusCode::kUnknown},
       }) {
    absl::Status status = StatusFromBody(row.http_status, StatusJson(row.http_status, row.reason), absl::Seconds(0));
    EXPECT_EQ(status.code(), row.code) << row.reason;
    EXPECT_EQ(status.message(), "it said no");
    EXPECT_EQ(DetailsOf(status)->http_status, row.http_status);
    if (*row.reason != 0) {
      EXPECT_EQ(DetailsOf(status)->reason, row.reason);
    }
  }
}

TEST(Error, Details) {
  absl::Status status = StatusFromBody(422,
                                       StatusJson(422, "Invalid",
                                                  R"({"retryAfterSeconds":3,"causes":[
        {"reason":"FieldValueInvalid","message":"must be positive","field":"spec.replicas"},
        {"reason":"FieldValueRequired","message":"needed","field":"spec.selector"}]})"),
                                       absl::Seconds(0));
  EXPECT_TRUE(IsInvalid(status));
  std::optional<ErrorDetails> details = DetailsOf(status);
  ASSERT_TRUE(details.has_value());
  ASSERT_EQ(details->causes.size(), 2);
  EXPECT_EQ(details->causes[0].field, "spec.replicas");
  EXPECT_EQ(details->causes[1].reason, "FieldValueRequired");
  EXPECT_EQ(details->causes[1].message, "needed");
  EXPECT_EQ(details->retry_after, absl::Seconds(3));
  // The header wins.
  EXPECT_EQ(
      DetailsOf(StatusFromBody(429, StatusJson(429, "TooManyRequests", R"({"retryAfterSeconds":3})"), absl::Seconds(7)))
          ->retry_after,
      absl::Seconds(7));
}

TEST(Error, BodiesThatAreNoStatus) {
  for (const char* body : {"", "<html>\r\n<b>502 Bad Gateway\x01\xff", "{}", "[]",
                           "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}", "{\"kind\":\"Status\",\"apiVersion\":\"v1\"}"}) {
    absl::Status status = StatusFromBody(502, body, absl::ZeroDuration());
    EXPECT_TRUE(absl::IsUnavailable(status)) << body;
    EXPECT_THAT(std::string(status.message()), HasSubstr("502")) << body;
    EXPECT_TRUE(IsUnclear(status));
  }
  absl::Status status = StatusFromBody(500, std::string(10000, 'x'), absl::ZeroDuration());
  EXPECT_LT(status.message().size(), 400u);
}

TEST(Error, WithoutAnAnswerThereAreNoDetails) {
  EXPECT_FALSE(DetailsOf(absl::UnavailableError("cut")).has_value());
  EXPECT_FALSE(DetailsOf(absl::OkStatus()).has_value());
  EXPECT_TRUE(IsUnclear(absl::UnavailableError("cut")));
  EXPECT_TRUE(IsUnclear(absl::DeadlineExceededError("late")));
  EXPECT_FALSE(IsUnclear(absl::AbortedError("conflict")));
  // What we refused ourselves is not what the server refused.
  EXPECT_FALSE(IsInvalid(absl::InvalidArgumentError("ours")));
  EXPECT_FALSE(IsTooManyRequests(absl::ResourceExhaustedError("ours")));
}

}  // namespace
}  // namespace tf::kube
