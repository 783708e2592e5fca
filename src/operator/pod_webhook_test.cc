#include "operator/pod_webhook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "kube/json_patch.h"

namespace tf::operators {
namespace {

using kube::Json;
using testing::HasSubstr;

kube::ObjectPtr Shared(std::string_view text) {
  const auto object = kube::ParseShared(text);
  EXPECT_TRUE(object.ok()) << object.status();
  return object.value_or(nullptr);
}

class PodWebhookTest : public ::testing::Test {
 protected:
  PodWebhookTest() {
    around.pools = [this] { return pools; };
    around.profile = [](const kube::Key& key) {
      return key.name == "small" ? Shared(R"({"metadata": {"name": "small"}, "spec": {"resources": {
          "requests": {"compute": "1", "vram": "1Gi"}, "limits": {"compute": "1", "vram": "1Gi"}}}})")
                                 : nullptr;
    };
    around.client = [this](const api::GPUPool& pool, const std::string&) -> absl::StatusOr<PodRevision> {
      if (!client_status.ok()) return client_status;
      return PodRevision{.revision = "r1", .config = *pool.spec.componentConfig};
    };
    around.native_resources = [] { return std::vector<std::string>{"nvidia.com/gpu"}; };
    around.endpoint = "http://127.0.0.1:8080";
  }

  kube::AdmissionRequest Request(std::string_view pod) const {
    kube::AdmissionRequest request;
    request.uid = "0b8a";
    request.operation = "CREATE";
    request.ns = "apps";
    request.object = *kube::ParseJson(pod);
    return request;
  }

  std::vector<kube::ObjectPtr> pools = {
      Shared(R"({"metadata": {"name": "a"}, "spec": {"nodeManagerConfig": {}, "defaultUsingLocalGPU": false,
                 "componentConfig": {"client": {"image": "c:1"}}}})"),
      Shared(R"({"metadata": {"name": "b", "annotations": {"tensor-fusion.ai/is-default-pool": "true"}},
                 "spec": {"nodeManagerConfig": {}, "defaultUsingLocalGPU": false,
                 "componentConfig": {"client": {"image": "c:1"}}}})")};
  absl::Status client_status;
  PodSurroundings around;
};

constexpr char kPod[] = R"({"metadata": {"generateName": "web-5d4f-", "labels": {"tensor-fusion.ai/enabled": "true",
    "pod-template-hash": "5d4f"}, "annotations": {"tensor-fusion.ai/vram-limit": "1Gi"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f", "uid": "u", "controller": true}]},
    "spec": {"containers": [{"name": "app"}]}})";

TEST_F(PodWebhookTest, APodThatDidNotAskIsLeftAlone) {
  for (const char* pod : {R"({"metadata": {}, "spec": {"containers": []}})",
                          R"({"metadata": {"labels": {"tensor-fusion.ai/enabled": "false"}}, "spec": 7})",
                          R"({"metadata": {"labels": {"tensor-fusion.ai/enabled": "true",
                              "tensor-fusion.ai/component": "worker"}}, "spec": {}})"}) {
    const kube::AdmissionResponse response = AdmitPod(Request(pod), around);
    EXPECT_TRUE(response.allowed);
    EXPECT_TRUE(response.patch.empty());
  }
}

TEST_F(PodWebhookTest, APodThatAskedGetsWhatItNeedsOnce) {
  kube::AdmissionRequest request = Request(kPod);
  const kube::AdmissionResponse response = AdmitPod(request, around);
  ASSERT_TRUE(response.allowed) << response.message;
  const auto made = kube::ApplyPatch(request.object, response.patch);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(kube::Namespace(*made), "") << "what it did not say stays unsaid";
  EXPECT_EQ(kube::Annotation(*made, "tensor-fusion.ai/gpupool"), "b") << "the default one";
  EXPECT_EQ(kube::Annotation(*made, "tensor-fusion.ai/selected-workload"), "web");
  const std::string connection(kube::Annotation(*made, "tensor-fusion.ai/connection"));
  EXPECT_THAT(connection, testing::MatchesRegex("web-5d4f-tf-vgpu-[1-9a-y]+"));
  const Json& env = made->at("spec").at("containers").at(0).at("env");
  EXPECT_EQ(env.as_array().back().at("value").as_string(),
            "http://127.0.0.1:8080/api/connection?name=" + connection + "&namespace=apps");

  request.object = *made;
  request.uid = "another";
  const kube::AdmissionResponse again = AdmitPod(request, around);
  EXPECT_TRUE(again.allowed) << again.message;
  EXPECT_TRUE(again.patch.empty());
}

TEST_F(PodWebhookTest, MistakesAre422AndOurTroubleIs503) {
  const auto refused = [&](std::string_view pod) {
    const kube::AdmissionResponse response = AdmitPod(Request(pod), around);
    EXPECT_FALSE(response.allowed);
    return std::to_string(response.code) + " " + response.message;
  };
  EXPECT_THAT(refused(R"({"metadata": {"labels": {"tensor-fusion.ai/enabled": "true"}}, "spec": {"containers": 5}})"),
              HasSubstr("422 the pod cannot be read"));
  EXPECT_THAT(
      refused(R"({"metadata": {"labels": {"tensor-fusion.ai/enabled": "true"},
                          "annotations": {"tensor-fusion.ai/gpupool": "c"}}, "spec": {"containers": [{"name": "app"}]}})"),
      HasSubstr(
          "422 annotation tensor-fusion.ai/gpupool: \"c\" is not allowed: there is no such GPUPool; allowed: a, b"));
  EXPECT_THAT(
      refused(R"({"metadata": {"labels": {"tensor-fusion.ai/enabled": "true"},
                          "annotations": {"tensor-fusion.ai/workload-profile": "big"}}, "spec": {"containers": [{"name": "app"}]}})"),
      HasSubstr("422 annotation tensor-fusion.ai/workload-profile: \"big\" is not allowed; allowed: the name of a "
                "WorkloadProfile in namespace apps"));
  client_status = absl::UnavailableError("Secret apps/x cannot be read");
  EXPECT_THAT(refused(kPod), HasSubstr("503 Secret apps/x cannot be read"));
  pools.clear();
  EXPECT_THAT(refused(kPod), HasSubstr("no GPUPool is the default one; allowed: none"));
}

TEST_F(PodWebhookTest, AProfileIsEnough) {
  const kube::AdmissionRequest request =
      Request(R"({"metadata": {"name": "p", "labels": {"tensor-fusion.ai/enabled": "true"},
                  "annotations": {"tensor-fusion.ai/workload-profile": "small"}}, "spec": {"containers": [{"name": "app"}]}})");
  const kube::AdmissionResponse response = AdmitPod(request, around);
  ASSERT_TRUE(response.allowed) << response.message;
  const auto made = kube::ApplyPatch(request.object, response.patch);
  EXPECT_EQ(kube::Annotation(*made, "tensor-fusion.ai/vram-limit"), "1Gi");
  EXPECT_EQ(kube::Annotation(*made, "tensor-fusion.ai/selected-workload"), "p");
}

}  // namespace
}  // namespace tf::operators
