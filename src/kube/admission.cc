#include "kube/admission.h"

#include <openssl/evp.h>

#include <boost/json/serialize.hpp>
#include <exception>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kube/json_patch.h"
#include "spdlog/spdlog.h"

namespace tf::kube {
namespace {

std::string Base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(length);
  return text;
}

Json Part(const Json& request, std::string_view name) {
  const Json* value = Field(request, name);
  return value == nullptr ? Json(nullptr) : *value;
}

AdmissionResponse Failure(int code, std::string message) {
  return {.allowed = false, .code = code, .message = std::move(message)};
}

AdmissionResponse Handle(const AdmissionRequest& request, const AdmissionHandler& handler) {
  try {
    return handler(request);
  } catch (const std::exception& error) {
    spdlog::error("webhook: exception at {} {}/{}: {}", request.resource.kind, request.ns, request.name, error.what());
    return Failure(500, "the webhook failed: an exception; its log says more");
  } catch (...) {
    spdlog::error("webhook: exception at {} {}/{}", request.resource.kind, request.ns, request.name);
    return Failure(500, "the webhook failed: an exception; its log says more");
  }
}

}  // namespace

AdmissionResponse Allow() { return {}; }

AdmissionResponse Deny(std::string message) { return Failure(403, std::move(message)); }

AdmissionResponse PatchTo(const AdmissionRequest& request, const Json& object) {
  return {.patch = DiffPatch(request.object, object)};
}

absl::StatusOr<AdmissionRequest> ParseReview(std::string_view body) {
  absl::StatusOr<Json> review = ParseJson(body);
  if (!review.ok()) return review.status();
  if (Text(*review, "apiVersion") != "admission.k8s.io/v1" || Text(*review, "kind") != "AdmissionReview") {
    return absl::InvalidArgumentError(absl::StrCat("expected an AdmissionReview of admission.k8s.io/v1, found \"",
                                                   std::string(Text(*review, "kind")), "\" of \"",
                                                   std::string(Text(*review, "apiVersion")), "\""));
  }
  const Json* asked = Field(*review, "request");
  if (asked == nullptr || Text(*asked, "uid").empty()) {
    return absl::InvalidArgumentError("expected an AdmissionReview with request.uid");
  }
  AdmissionRequest request{.uid = std::string(Text(*asked, "uid")),
                           .operation = std::string(Text(*asked, "operation")),
                           .resource = {.group = std::string(Text(*asked, "resource.group")),
                                        .version = std::string(Text(*asked, "resource.version")),
                                        .plural = std::string(Text(*asked, "resource.resource")),
                                        .kind = std::string(Text(*asked, "kind.kind")),
                                        .namespaced = !Text(*asked, "namespace").empty()},
                           .subresource = std::string(Text(*asked, "subResource")),
                           .ns = std::string(Text(*asked, "namespace")),
                           .name = std::string(Text(*asked, "name")),
                           .user = std::string(Text(*asked, "userInfo.username")),
                           .dry_run = Flag(*asked, "dryRun"),
                           .object = Part(*asked, "object"),
                           .old_object = Part(*asked, "oldObject"),
                           .options = Part(*asked, "options")};
  if (const Json* groups = Field(*asked, "userInfo.groups"); groups != nullptr && groups->is_array()) {
    for (const Json& group : groups->get_array()) {
      if (group.is_string()) request.groups.emplace_back(group.get_string());
    }
  }
  return request;
}

std::string WriteReview(std::string_view uid, const AdmissionResponse& response) {
  JsonObject answer{{"uid", uid}, {"allowed", response.allowed}};
  if (!response.allowed) {
    answer["status"] = JsonObject{{"code", response.code}, {"message", response.message}};
  }
  if (!response.warnings.empty()) {
    JsonArray warnings;
    for (const std::string& warning : response.warnings) warnings.emplace_back(warning);
    answer["warnings"] = std::move(warnings);
  }
  if (response.allowed && !response.patch.empty()) {
    answer["patchType"] = "JSONPatch";
    answer["patch"] = Base64(boost::json::serialize(response.patch));
  }
  return boost::json::serialize(
      JsonObject{{"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"response", std::move(answer)}});
}

Reviewed Review(std::string_view content_type, std::string_view body, absl::Duration deadline,
                const AdmissionHandler& handler) {
  std::string uid;
  AdmissionResponse response;
  if (const std::string type = absl::AsciiStrToLower(absl::string_view(content_type.data(), content_type.size()));
      type != "application/json" && !absl::StartsWith(type, "application/json;")) {
    response = Failure(400, absl::StrCat("content type \"", type, "\": expected application/json"));
  } else if (absl::StatusOr<AdmissionRequest> request = ParseReview(body); !request.ok()) {
    response = Failure(400, std::string(request.status().message()));
  } else {
    uid = request->uid;
    request->deadline = deadline;
    response = Handle(*request, handler);
  }
  const int code = response.allowed ? 200 : response.code;
  return {code, WriteReview(uid, response)};
}

}  // namespace tf::kube
