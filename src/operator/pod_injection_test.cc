#include "operator/pod_injection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "absl/strings/str_cat.h"
#include "kube/json_patch.h"

namespace tf::operators {
namespace {

using testing::HasSubstr;

api::Pod Parse(std::string_view text) {
  const auto json = kube::ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.status();
  const auto pod = api::FromJson<api::Pod>(*json);
  EXPECT_TRUE(pod.ok()) << pod.status();
  return *pod;
}

api::Pod Plain() {
  return Parse(R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "apps",
    "labels": {"tensor-fusion.ai/enabled": "true"}, "annotations": {"tensor-fusion.ai/vram-limit": "1Gi"}},
    "spec": {"containers": [{"name": "app", "image": "i"}]}})");
}

struct Rig {
  Rig() {
    client.revision = "r1";
    client.config.client.emplace();
    client.config.client->image = "client:1";
    client.config.client->operatorEndpoint = "http://operator:8080/";
    pool.metadata.name = "shared";
    pool.spec.defaultUsingLocalGPU = false;
  }
  absl::StatusOr<api::Pod> Do(const api::Pod& pod) const {
    const auto request = ReadPodRequest({.pod = pod, .pool = pool, .native_resources = {"nvidia.com/gpu"}});
    if (!request.ok()) return request.status();
    return Inject({.pod = pod,
                   .request = *request,
                   .client = client,
                   .workload = "w",
                   .connection = "p-tf-vgpu-1234567890",
                   .native_resources = {"nvidia.com/gpu"},
                   .choose_cards = choose_cards});
  }
  bool choose_cards = false;
  PodRevision client;
  api::GPUPool pool;
};

std::string Difference(const api::Pod& before, const api::Pod& after) {
  std::string text;
  for (const kube::Json& one : kube::DiffPatch(api::ToJson(before), api::ToJson(after))) {
    text += boost::json::serialize(one) + "\n";
  }
  return text;
}

TEST(PodInjectionTest, RemoteModeAsItIsWritten) {
  const Rig rig;
  const api::Pod pod = Plain();
  const auto made = rig.Do(pod);
  ASSERT_TRUE(made.ok()) << made.status();
  const api::Container& app = made->spec.containers[0];
  EXPECT_EQ(boost::json::serialize(api::ToJson(app)),
            R"({"name":"app","image":"i","env":[)"
            R"({"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},)"
            R"({"name":"POD_NAMESPACE","valueFrom":{"fieldRef":{"fieldPath":"metadata.namespace"}}},)"
            R"({"name":"CONTAINER_NAME","value":"app"},)"
            R"({"name":"LD_LIBRARY_PATH","value":"/tensor-fusion/client:/tensor-fusion/cudart"},)"
            R"({"name":"TENSOR_FUSION_CONNECTION_NAME","value":"p-tf-vgpu-1234567890"},)"
            R"({"name":"TENSOR_FUSION_CONNECTION_NAMESPACE","value":"apps"},)"
            R"({"name":"TENSOR_FUSION_OPERATOR_GET_CONNECTION_URL","value":)"
            R"("http://operator:8080/api/connection?name=p-tf-vgpu-1234567890&namespace=apps"}],)"
            R"("volumeMounts":[{"name":"tf-libs","readOnly":true,"mountPath":"/tensor-fusion"},)"
            R"({"name":"tf-token","readOnly":true,"mountPath":"/var/run/secrets/tensor-fusion.ai"}]})");
  ASSERT_EQ(made->spec.initContainers.size(), 1u);
  EXPECT_EQ(made->spec.initContainers[0].image, "client:1");
  EXPECT_EQ(made->metadata.labels.at("tensor-fusion.ai/pod-template-hash"), "r1");
  EXPECT_EQ(made->metadata.labels.at("tensor-fusion.ai/gpupool"), "shared");
  EXPECT_EQ(made->metadata.labels.at("tensor-fusion.ai/component"), "client");
  EXPECT_EQ(made->metadata.annotations.at("tensor-fusion.ai/vram-request"), "1Gi");
  EXPECT_EQ(made->metadata.annotations.at("tensor-fusion.ai/qos"), "medium");
  EXPECT_EQ(made->metadata.annotations.at("tensor-fusion.ai/selected-workload"), "w");
}

TEST(PodInjectionTest, ASecondTimeChangesNothing) {
  Rig rig;
  rig.client.config.client->patchToContainer =
      kube::ParseJson(R"({"env": [{"name": "TF_ENABLE_LOG", "value": "0"}]})")->as_object();
  rig.client.config.client->patchToPod =
      kube::ParseJson(
          R"({"metadata": {"labels": {"a": "b"}}, "spec": {"initContainers": [{"name": "first", "image": "f"}],
                          "tolerations": [{"key": "k", "operator": "Exists"}]}})")
          ->as_object();
  const auto once = rig.Do(Plain());
  ASSERT_TRUE(once.ok()) << once.status();
  EXPECT_EQ(once->spec.initContainers.size(), 2u) << "the pool's and ours";
  const auto twice = rig.Do(*once);
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(Difference(*once, *twice), "");
}

TEST(PodInjectionTest, WhatTheServerFillsInIsNoDifference) {
  const Rig rig;
  auto once = rig.Do(Plain());
  ASSERT_TRUE(once.ok()) << once.status();
  for (api::Volume& volume : once->spec.volumes) {
    if (volume.projected) volume.projected->defaultMode = 420;
  }
  const auto twice = rig.Do(*once);
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(Difference(*once, *twice), "");
}

TEST(PodInjectionTest, ThePodsOwnStays) {
  Rig rig;
  rig.client.config.client->patchToContainer =
      kube::ParseJson(R"({"env": [{"name": "TF_ENABLE_LOG", "value": "0"}, {"name": "EXTRA", "value": "1"}]})")
          ->as_object();
  const auto made = rig.Do(Parse(R"({"metadata": {"name": "p", "namespace": "apps", "annotations": {
      "tensor-fusion.ai/vram-limit": "1Gi", "tensor-fusion.ai/inject-container": "app", "tensor-fusion.ai/gpu-ids": "g"}},
    "spec": {"volumes": [{"name": "data", "nfs": {"server": "s"}}], "containers": [
      {"name": "app", "env": [{"name": "TF_ENABLE_LOG", "value": "1"}, {"name": "LD_LIBRARY_PATH", "value": "/mine"},
        {"name": "POD_NAME", "value": "x"}], "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "1"}}},
      {"name": "side", "env": [{"name": "LD_LIBRARY_PATH", "value": "/side"}], "resources": {"limits": {"cpu": "2"}}}]}})"));
  ASSERT_TRUE(made.ok()) << made.status();
  const api::Container& app = made->spec.containers[0];
  EXPECT_EQ(api::FindEnv(app, "TF_ENABLE_LOG")->value, "1");
  EXPECT_EQ(api::FindEnv(app, "EXTRA")->value, "1");
  EXPECT_EQ(api::FindEnv(app, "POD_NAME")->value, "x");
  EXPECT_EQ(api::FindEnv(app, "LD_LIBRARY_PATH")->value, "/tensor-fusion/client:/tensor-fusion/cudart:/mine");
  EXPECT_EQ(app.resources.limits.size(), 1u);
  const api::Container& side = made->spec.containers[1];
  EXPECT_EQ(side.env.size(), 1u);
  EXPECT_TRUE(side.volumeMounts.empty());
  EXPECT_EQ(made->spec.volumes.size(), 3u);
  EXPECT_FALSE(made->metadata.annotations.contains("tensor-fusion.ai/gpu-ids")) << "of another pod";
}

TEST(PodInjectionTest, WhatStandsUnderOurNamesIsRefused) {
  const Rig rig;
  struct Case {
    const char* pod;
    const char* expected;
  };
  for (
      const Case& one : std::vector<Case>{
          {R"({"volumes": [{"name": "tf-libs", "hostPath": {"path": "/x"}}], "containers": [{"name": "app"}]})",
           "volume \"tf-libs\""},
          {R"({"initContainers": [{"name": "inject-lib"}], "containers": [{"name": "app"}]})",
           "initContainer \"inject-lib\""},
          {R"({"containers": [{"name": "app", "volumeMounts": [{"name": "x", "mountPath": "/tensor-fusion"}]}]})",
           "volumeMount of container app at \"/tensor-fusion\""},
          {R"({"containers": [{"name": "app", "env": [{"name": "TENSOR_FUSION_CONNECTION_NAME", "value": "x"}]}]})",
           "env of container app: \"TENSOR_FUSION_CONNECTION_NAME\""},
          {R"({"containers": [{"name": "app", "env": [{"name": "TENSOR_FUSION_OPERATOR_CONNECTION_INFO", "value": "x"}]}]})",
           "\"TENSOR_FUSION_OPERATOR_CONNECTION_INFO\""},
          {R"({"containers": [{"name": "app", "env": [{"name": "LD_LIBRARY_PATH", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]})",
           "comes from valueFrom"},
      }) {
    const auto made = rig.Do(Parse(std::string(R"({"metadata": {"name": "p", "namespace": "apps", "annotations": {
        "tensor-fusion.ai/vram-limit": "1Gi"}}, "spec": )") +
                                   one.pod + "}"));
    ASSERT_FALSE(made.ok()) << one.expected;
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(one.expected));
  }
}

TEST(PodInjectionTest, APoolThatSaysTooLittle) {
  Rig rig;
  rig.client.config.client->operatorEndpoint.clear();
  EXPECT_THAT(std::string(rig.Do(Plain()).status().message()), HasSubstr("operatorEndpoint is empty"));
  rig.client.config.client->image.clear();
  rig.client.config.client->operatorEndpoint = "http://o";
  EXPECT_THAT(std::string(rig.Do(Plain()).status().message()), HasSubstr(".image is empty"));
  rig.client.config.client.reset();
  EXPECT_TRUE(absl::IsFailedPrecondition(rig.Do(Plain()).status()));
}

TEST(PodInjectionTest, WhatNothingCarriesOutIsRefused) {
  const Rig rig;
  struct Case {
    const char* annotation;
    const char* value;
    const char* allowed;
  };
  for (const Case& one :
       std::vector<Case>{{"is-local-gpu", "true", "false"},
                         {"isolation", "shared", "hard"},
                         {"tflops-limit", "10", "tensor-fusion.ai/compute-percent-limit in its place"},
                         {"gpu-count", "2", "1"},
                         {"gpu-indices", "0,1", "none"},
                         {"gpu-model", "H100", "none"}}) {
    api::Pod pod = Plain();
    pod.metadata.annotations[absl::StrCat("tensor-fusion.ai/", one.annotation)] = one.value;
    const absl::Status refused = rig.Do(pod).status();
    EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
    EXPECT_EQ(refused.message(),
              absl::StrCat("annotation tensor-fusion.ai/", one.annotation, ": \"", one.value,
                           "\" (or the same from a WorkloadProfile or the pool) is not supported yet; "
                           "allowed: ",
                           one.allowed));
  }
}

TEST(PodInjectionTest, WhereCardsAreChosenTheyMayBeAskedFor) {
  Rig rig;
  rig.choose_cards = true;
  for (const auto& [annotation, value] :
       {std::pair("isolation", "shared"), std::pair("tflops-limit", "10"), std::pair("gpu-count", "2"),
        std::pair("gpu-indices", "0,1"), std::pair("gpu-model", "H100")}) {
    api::Pod pod = Plain();
    const std::string name = absl::StrCat("tensor-fusion.ai/", annotation);
    pod.metadata.annotations[name] = value;
    const auto made = rig.Do(pod);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->metadata.annotations.at(name), value);
  }
  api::Pod local = Plain();
  local.metadata.annotations["tensor-fusion.ai/is-local-gpu"] = "true";
  EXPECT_TRUE(absl::IsUnimplemented(rig.Do(local).status()));
}

TEST(PodInjectionTest, ConnectionNames) {
  api::Pod pod = Plain();
  EXPECT_EQ(ConnectionNameOf(pod, "1234567890"), "p-tf-vgpu-1234567890");
  pod.metadata.annotations["tensor-fusion.ai/connection"] = "p-tf-vgpu-abcdefghij";
  EXPECT_EQ(ConnectionNameOf(pod, "1234567890"), "p-tf-vgpu-abcdefghij") << "its own stays";
  pod.metadata.name = "q";
  EXPECT_EQ(ConnectionNameOf(pod, "1234567890"), "q-tf-vgpu-1234567890") << "that of another pod does not";
  pod.metadata.name.clear();
  pod.metadata.generateName = "web-5d4f-";
  EXPECT_EQ(ConnectionNameOf(pod, "1234567890"), "web-5d4f-tf-vgpu-1234567890");
}

}  // namespace
}  // namespace tf::operators
