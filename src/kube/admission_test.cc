#include "kube/admission.h"

#include <boost/json/serialize.hpp>
#include <stdexcept>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kube/json_patch.h"

namespace tf::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kReview[] = R"({
  "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
  "request": {
    "uid": "u-1", "operation": "CREATE", "name": "p", "namespace": "ns", "dryRun": true,
    "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
    "resource": {"group": "apps", "version": "v1", "resource": "deployments"}, "subResource": "scale",
    "userInfo": {"username": "alice", "groups": ["dev", "system:authenticated"]},
    "object": {"metadata": {"name": "p"}, "spec": {"replicas": 1}}, "oldObject": null, "options": {"kind": "CreateOptions"}
  }})";

Json Answer(const Reviewed& reviewed) {
  const Json review = ParseJson(reviewed.body).value();
  EXPECT_EQ(Text(review, "apiVersion"), "admission.k8s.io/v1");
  EXPECT_EQ(Text(review, "kind"), "AdmissionReview");
  return *Field(review, "response");
}

Reviewed Ask(const AdmissionHandler& handler, std::string_view body = kReview,
             std::string_view type = "application/json") {
  return Review(type, body, absl::Seconds(7), handler);
}

TEST(Admission, TheHandlerSeesTheRequest) {
  AdmissionRequest seen;
  Ask([&](const AdmissionRequest& request) {
    seen = request;
    return Allow();
  });
  EXPECT_EQ(seen.uid, "u-1");
  EXPECT_EQ(seen.operation, "CREATE");
  EXPECT_EQ(seen.resource, (Resource{"apps", "v1", "deployments", "Deployment", true}));
  EXPECT_EQ(seen.subresource, "scale");
  EXPECT_EQ(seen.ns, "ns");
  EXPECT_EQ(seen.name, "p");
  EXPECT_EQ(seen.user, "alice");
  EXPECT_THAT(seen.groups, ElementsAre("dev", "system:authenticated"));
  EXPECT_TRUE(seen.dry_run);
  EXPECT_EQ(Number(seen.object, "spec.replicas"), 1);
  EXPECT_TRUE(seen.old_object.is_null());
  EXPECT_EQ(seen.deadline, absl::Seconds(7));
}

TEST(Admission, AllowsWithTheUidOfTheQuestion) {
  const Reviewed reviewed =
      Ask([](const AdmissionRequest&) { return Allow(); }, kReview, "Application/JSON; charset=utf-8");
  EXPECT_EQ(reviewed.code, 200);
  EXPECT_EQ(Answer(reviewed), Json(JsonObject{{"uid", "u-1"}, {"allowed", true}}));
}

TEST(Admission, DeniesWithTheMessage) {
  const Reviewed reviewed = Ask([](const AdmissionRequest&) { return Deny("no more than 4 GPUs"); });
  EXPECT_EQ(reviewed.code, 403);
  EXPECT_EQ(Answer(reviewed),
            Json(JsonObject{
                {"uid", "u-1"}, {"allowed", false}, {"status", {{"code", 403}, {"message", "no more than 4 GPUs"}}}}));
}

TEST(Admission, ChangesByAPatch) {
  const Reviewed reviewed = Ask([](const AdmissionRequest& request) {
    Json object = request.object;
    EnsureField(object, "spec.replicas") = 3;
    AdmissionResponse response = PatchTo(request, object);
    response.warnings = {"replicas were raised"};
    return response;
  });
  const Json answer = Answer(reviewed);
  EXPECT_EQ(Text(answer, "patchType"), "JSONPatch");
  // [{"op":"replace","path":"/spec/replicas","value":3}]
  EXPECT_EQ(Text(answer, "patch"), "W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9zcGVjL3JlcGxpY2FzIiwidmFsdWUiOjN9XQ==");
  EXPECT_EQ(*Field(answer, "warnings"), Json(JsonArray{"replicas were raised"}));
}

TEST(Admission, NoPatchWhenNothingChanges) {
  EXPECT_EQ(Field(Answer(Ask([](const AdmissionRequest& r) { return PatchTo(r, r.object); })), "patch"), nullptr);
}

TEST(Admission, AnExceptionIsNoAllowance) {
  for (const AdmissionHandler& handler :
       {AdmissionHandler(
            [](const AdmissionRequest&) -> AdmissionResponse { throw std::runtime_error("secret detail"); }),
        AdmissionHandler([](const AdmissionRequest&) -> AdmissionResponse { throw 7; })}) {
    const Reviewed reviewed = Ask(handler);
    EXPECT_EQ(reviewed.code, 500);
    const Json answer = Answer(reviewed);
    EXPECT_EQ(Text(answer, "uid"), "u-1");
    EXPECT_FALSE(Flag(answer, "allowed", true));
    EXPECT_EQ(Number(answer, "status.code"), 500);
    EXPECT_THAT(reviewed.body, ::testing::Not(HasSubstr("secret detail")));
  }
}

TEST(Admission, WhatIsNoReviewIsRefusedWithAReview) {
  auto never = [](const AdmissionRequest&) -> AdmissionResponse {
    ADD_FAILURE() << "the handler must not run";
    return Allow();
  };
  for (const auto& [body, type, message] :
       {std::tuple{kReview, "text/plain", "expected application/json"},
        {kReview, "", "expected application/json"},
        {"{", "application/json", ""},
        {R"({"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}})",
         "application/json", "v1beta1"},
        {R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"})", "application/json", "request.uid"}}) {
    const Reviewed reviewed = Ask(never, body, type);
    EXPECT_EQ(reviewed.code, 400);
    const Json answer = Answer(reviewed);
    EXPECT_FALSE(Flag(answer, "allowed", true));
    EXPECT_THAT(std::string(Text(answer, "status.message")), HasSubstr(message));
  }
}

}  // namespace
}  // namespace tf::kube
