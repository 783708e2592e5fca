// Admission reviews (admission.k8s.io/v1): what the API server asks a webhook, and the answer. Pure.
//
// Every question gets an answer that is a review, with its UID. What goes wrong on our side (a review that cannot be
// read, an exception) is answered allowed: false with code 500 or 400 and the reason, never by letting the object pass
// in silence; whether the API server then goes on without us is the failurePolicy's business, not ours.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kube/object.h"

namespace tf::kube {

struct AdmissionRequest {
  std::string uid = {};
  std::string operation = {};  // "CREATE", "UPDATE", "DELETE", "CONNECT"
  Resource resource = {};      // group, version, plural and kind as the object was converted for us
  std::string subresource = {};
  std::string ns = {};
  std::string name = {};  // "": the server will make one from generateName
  std::string user = {};
  std::vector<std::string> groups = {};
  bool dry_run = false;
  Json object = nullptr;      // null for DELETE
  Json old_object = nullptr;  // null for CREATE
  Json options = nullptr;
  absl::Duration deadline = absl::InfiniteDuration();  // Clock::Monotonic(): the API server waits no longer
};

struct AdmissionResponse {
  bool allowed = true;
  int code = 403;            // of a refusal
  std::string message = {};  // of a refusal, for the user
  std::vector<std::string> warnings = {};
  JsonArray patch = {};  // JSON Patch; empty: unchanged
};

AdmissionResponse Allow();
AdmissionResponse Deny(std::string message);
// The object as it should be; the answer holds the difference.
AdmissionResponse PatchTo(const AdmissionRequest& request, const Json& object);

using AdmissionHandler = std::function<AdmissionResponse(const AdmissionRequest&)>;

// The body of an AdmissionReview of v1. InvalidArgument says what is missing.
absl::StatusOr<AdmissionRequest> ParseReview(std::string_view body);
std::string WriteReview(std::string_view uid, const AdmissionResponse& response);

// What the handler says of it; never throws. Gives the code that metrics count: 200 allowed, else the response's.
struct Reviewed {
  int code;
  std::string body;
};
Reviewed Review(std::string_view content_type, std::string_view body, absl::Duration deadline,
                const AdmissionHandler& handler);

}  // namespace tf::kube
