#include "operator/hypervisor_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "operator/pod_parts.h"
#include "operator/provider_settings.h"

namespace tf::operators {
namespace {

using api::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
T From(std::string_view text) {
  absl::StatusOr<Json> json = kube::ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.status();
  absl::StatusOr<T> value = api::FromJson<T>(*json);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? *value : T();
}

class HypervisorPodTest : public ::testing::Test {
 protected:
  HypervisorPodTest() {
    pool.metadata.name = "tensor-fusion-shared";
    gpu_node.metadata.name = "node-1";
    gpu_node.metadata.uid = "gpu-node-uid";
    node.metadata.name = "node-1";
    node.metadata.uid = "node-uid";
    revision.revision = "rev1";
    Hypervisor(R"({"image":"hypervisor:1"})");
  }

  void Hypervisor(std::string_view block) {
    const auto spec = From<api::GPUPoolSpec>(
        absl::StrCat(R"({"nodeManagerConfig":{},"componentConfig":{"hypervisor":)", std::string(block), "}}"));
    revision.config = *spec.componentConfig;
  }

  absl::StatusOr<api::Pod> Render() {
    return HypervisorPod(
        {.pool = pool, .gpu_node = gpu_node, .node = node, .revision = revision, .provider = provider});
  }

  api::GPUPool pool;
  api::GPUNode gpu_node;
  api::Node node;
  PodRevision revision;
  const api::ProviderConfig* provider = nullptr;
};

std::string ValueOf(const api::Container& container, std::string_view name) {
  const api::EnvVar* variable = api::FindEnv(container, name);
  if (variable == nullptr) return "absent";
  if (!variable->valueFrom) return variable->value;
  return variable->valueFrom->fieldRef ? variable->valueFrom->fieldRef->fieldPath : "reference";
}

int Times(const api::Container& container, std::string_view name) {
  return static_cast<int>(std::count_if(container.env.begin(), container.env.end(),
                                        [&](const api::EnvVar& variable) { return variable.name == name; }));
}

TEST_F(HypervisorPodTest, FromAnImageAlone) {
  absl::StatusOr<api::Pod> pod = Render();
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->metadata.name, "hypervisor-node-1");
  EXPECT_EQ(pod->metadata.namespace_, "tensor-fusion-sys");
  EXPECT_EQ(pod->metadata.labels,
            (std::map<std::string, std::string>{{"tensor-fusion.ai/component", "hypervisor"},
                                                {"tensor-fusion.ai/gpupool", "tensor-fusion-shared"},
                                                {"tensor-fusion.ai/pool-tensor-fusion-shared", "true"},
                                                {"tensor-fusion.ai/pod-template-hash", "rev1"}}));
  ASSERT_EQ(pod->metadata.ownerReferences.size(), 2u);
  EXPECT_EQ(pod->metadata.ownerReferences[0].kind, "GPUNode");
  EXPECT_EQ(pod->metadata.ownerReferences[0].uid, "gpu-node-uid");
  EXPECT_TRUE(pod->metadata.ownerReferences[0].controller.value_or(false));
  EXPECT_EQ(pod->metadata.ownerReferences[1].kind, "Node");
  EXPECT_FALSE(pod->metadata.ownerReferences[1].controller.value_or(false));
  EXPECT_EQ(pod->spec.nodeName, "node-1");
  EXPECT_FALSE(pod->spec.hostNetwork);
  EXPECT_EQ(pod->spec.priorityClassName, "system-node-critical");
  EXPECT_EQ(pod->spec.serviceAccountName, "tensor-fusion-hypervisor-sa");
  EXPECT_EQ(pod->spec.tolerations.size(), 3u);
  ASSERT_EQ(pod->spec.containers.size(), 1u);
  const api::Container& container = pod->spec.containers[0];
  EXPECT_EQ(container.name, "tensorfusion-hypervisor");
  EXPECT_EQ(container.image, "hypervisor:1");
  EXPECT_THAT(container.command, ElementsAre("tensor-fusion-hypervisor"));
  ASSERT_EQ(container.ports.size(), 1u);
  EXPECT_EQ(container.ports[0].containerPort, 8000);
  EXPECT_EQ(container.livenessProbe->httpGet->path, "/healthz");
  EXPECT_EQ(container.readinessProbe->httpGet->path, "/readyz");
  EXPECT_EQ(container.resources.requests.at("memory").Text(), "128Mi");
  EXPECT_EQ(container.resources.limits.at("cpu").Text(), "1");
  EXPECT_EQ(ValueOf(container, "POD_IP"), "status.podIP");
  EXPECT_EQ(ValueOf(container, "GPU_NODE_NAME"), "spec.nodeName");
  EXPECT_EQ(ValueOf(container, "TENSOR_FUSION_POOL_NAME"), "tensor-fusion-shared");
  EXPECT_EQ(ValueOf(container, "HYPERVISOR_PORT"), "8000");
  EXPECT_EQ(ValueOf(container, "TF_HARDWARE_VENDOR"), "NVIDIA");
  EXPECT_EQ(ValueOf(container, "NVIDIA_VISIBLE_DEVICES"), "all");
  EXPECT_EQ(ValueOf(container, "TF_ENABLE_LOG"), "1");
}

TEST_F(HypervisorPodTest, KeepsTheTemplate) {
  Hypervisor(R"({"portNumber":9000,"image":"hypervisor:2","podTemplate":{"template":{
    "metadata":{"labels":{"team":"a"},"annotations":{"note":"b"}},
    "spec":{"serviceAccountName":"mine","hostNetwork":true,"volumes":[{"name":"v","hostPath":{"path":"/v"}}],
      "tolerations":[{"operator":"Exists"}],"imagePullSecrets":[{"name":"pull"}],
      "containers":[{"name":"vector","image":"vector:1"},
        {"name":"tensor-fusion-hypervisor","image":"hypervisor:1","command":["wrap"],"args":["--x"],
         "envFrom":[{"secretRef":{"name":"s"}}],
         "env":[{"name":"TF_ENABLE_LOG","value":"0"},{"name":"A","value":"1"},{"name":"A","value":"2"},
                {"name":"POD_NAME","value":"mine"}],
         "ports":[{"containerPort":9000,"name":"mine"}],
         "readinessProbe":{"exec":{"command":["true"]}},
         "resources":{"limits":{"memory":"1Gi"}},
         "volumeMounts":[{"name":"v","mountPath":"/v"}],
         "securityContext":{"capabilities":{"add":["SYS_PTRACE"]}}}]}}}})");
  absl::StatusOr<api::Pod> pod = Render();
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->metadata.labels.at("team"), "a");
  EXPECT_EQ(pod->metadata.annotations.at("note"), "b");
  EXPECT_EQ(pod->spec.serviceAccountName, "mine");
  EXPECT_TRUE(pod->spec.hostNetwork);
  EXPECT_EQ(pod->spec.imagePullSecrets.size(), 1u);
  ASSERT_EQ(pod->spec.containers.size(), 2u);
  EXPECT_EQ(pod->spec.containers[0].image, "vector:1");
  EXPECT_TRUE(pod->spec.containers[0].env.empty());
  const api::Container& container = pod->spec.containers[1];
  EXPECT_EQ(container.image, "hypervisor:2");
  EXPECT_THAT(container.command, ElementsAre("wrap"));
  EXPECT_THAT(container.args, ElementsAre("--x"));
  EXPECT_EQ(container.envFrom.size(), 1u);
  EXPECT_EQ(ValueOf(container, "TF_ENABLE_LOG"), "0");
  EXPECT_EQ(ValueOf(container, "A"), "2");
  EXPECT_EQ(ValueOf(container, "POD_NAME"), "metadata.name");
  for (const api::EnvVar& variable : container.env) EXPECT_EQ(Times(container, variable.name), 1) << variable.name;
  ASSERT_EQ(container.ports.size(), 1u);
  EXPECT_EQ(std::get<std::string>(container.livenessProbe->httpGet->port.value), "mine");
  EXPECT_TRUE(container.readinessProbe->exec.has_value());
  EXPECT_TRUE(container.resources.requests.empty());
  EXPECT_EQ(container.volumeMounts.size(), 1u);
  EXPECT_THAT(container.securityContext->capabilities->add, ElementsAre("SYS_PTRACE"));
  EXPECT_FALSE(container.securityContext->privileged.has_value());
}

TEST_F(HypervisorPodTest, ProviderGivesWayToTheTemplate) {
  const auto config = From<api::ProviderConfig>(R"({"metadata":{"name":"p"},"spec":{"vendor":"Ascend","images":{},
    "hypervisor":{"privilegedHypervisor":true,"ldLibraryPath":"/lib/npu",
      "extraEnv":[{"name":"A","value":"provider"},{"name":"B","value":"provider"}],
      "hostPathMounts":[{"name":"driver","hostPath":"/usr/driver","mountPath":"/driver","readOnly":true},
                        {"name":"other","hostPath":"/other","mountPath":"/mine"}]},
    "hardwareMetadata":[{"model":"X1","fullModelName":"Ascend X1","fp16TFlops":"100","costPerHour":"1"}]}})");
  provider = &config;
  gpu_node.metadata.labels["tensor-fusion.ai/hardware-vendor"] = "Ascend";
  Hypervisor(R"({"podTemplate":{"template":{"spec":{"volumes":[{"name":"m","emptyDir":{}}],"containers":[{"image":"h:1",
    "env":[{"name":"A","value":"template"}],"volumeMounts":[{"name":"m","mountPath":"/mine"}]}]}}}})");
  absl::StatusOr<api::Pod> pod = Render();
  ASSERT_TRUE(pod.ok()) << pod.status();
  const api::Container& container = pod->spec.containers[0];
  EXPECT_EQ(container.image, "h:1");
  EXPECT_TRUE(container.securityContext->privileged.value_or(false));
  EXPECT_EQ(ValueOf(container, "A"), "template");
  EXPECT_EQ(ValueOf(container, "B"), "provider");
  EXPECT_EQ(ValueOf(container, "LD_LIBRARY_PATH"), "/lib/npu");
  EXPECT_EQ(ValueOf(container, "TF_HARDWARE_VENDOR"), "Ascend");
  EXPECT_EQ(ValueOf(container, "NVIDIA_VISIBLE_DEVICES"), "absent");
  EXPECT_EQ(ValueOf(container, "TF_PROVIDER_HARDWARE_METADATA"),
            R"([{"model":"X1","fullModelName":"Ascend X1","fp16TFlops":"100"}])");
  ASSERT_EQ(container.volumeMounts.size(), 2u);
  EXPECT_EQ(container.volumeMounts[1].mountPath, "/driver");
  EXPECT_TRUE(container.volumeMounts[1].readOnly);
  ASSERT_EQ(pod->spec.volumes.size(), 2u);
  EXPECT_EQ(pod->spec.volumes[1].hostPath->path, "/usr/driver");
}

TEST_F(HypervisorPodTest, SaysWhatIsMissing) {
  Hypervisor("{}");
  EXPECT_THAT(Render().status().message(), HasSubstr("spec.componentConfig.hypervisor.image is empty"));
  Hypervisor(R"({"image":"a","podTemplate":{"spec":{}}})");
  EXPECT_THAT(Render().status().message(),
              HasSubstr("spec.componentConfig.hypervisor.podTemplate: expected {\"template\""));
  Hypervisor(R"({"image":"a","podTemplate":{"template":{"spec":{"containers":{}}}}})");
  EXPECT_THAT(Render().status().message(), HasSubstr("hypervisor.podTemplate.template.spec.containers"));
  revision.config.hypervisor.reset();
  EXPECT_THAT(Render().status().message(), HasSubstr("no spec.componentConfig.hypervisor"));
}

TEST(HypervisorPodName, FitsIntoALabel) {
  EXPECT_EQ(HypervisorPodName("a"), "hypervisor-a");
  const std::string fits(52, 'n'), longer(53, 'n');
  EXPECT_EQ(HypervisorPodName(fits).size(), 63u);
  EXPECT_EQ(HypervisorPodName(longer).size(), 63u);
  EXPECT_NE(HypervisorPodName(longer), HypervisorPodName(longer + "n"));
  EXPECT_THAT(HypervisorPodName(std::string(43, 'n') + "-.-" + std::string(40, 'm')),
              ::testing::MatchesRegex("hypervisor-n+-[0-9a-f]+"));
}

TEST(HypervisorSettings, CoversWhatReachesPodsAndNoMore) {
  auto provider = From<api::ProviderConfig>(R"({"metadata":{"name":"p"},"spec":{"vendor":"NVIDIA","images":{},
    "hardwareMetadata":[{"model":"X1","fp16TFlops":"100"}]}})");
  const Json before = HypervisorSettings(provider.spec);
  provider.spec.hardwareMetadata[0].costPerHour = "2";
  provider.spec.hardwareMetadata[0].fp16TFlops = *api::Quantity::Parse("100000m");
  provider.spec.images.middleware = "m:2";
  provider.spec.inUseResourceNames = {"nvidia.com/gpu"};
  EXPECT_EQ(HypervisorSettings(provider.spec), before);
  provider.spec.hypervisor = api::ProviderHypervisor{.privilegedHypervisor = true};
  EXPECT_NE(HypervisorSettings(provider.spec), before);
}

}  // namespace
}  // namespace tf::operators
