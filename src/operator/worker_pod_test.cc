#include "operator/worker_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "absl/strings/str_cat.h"

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

constexpr char kPlain[] = R"({"podTemplate":{"template":{"spec":{"containers":[
    {"name":"tensorfusion-worker","image":"worker:t","env":[{"name":"TF_LICENSE","value":"tf1;x"},
     {"name":"TF_LICENSE_SIGN","valueFrom":{"secretKeyRef":{"name":"lic","key":"sign"}}}]}]}}}})";

class WorkerPodTest : public ::testing::Test {
 protected:
  WorkerPodTest() {
    revision.revision = "rev1";
    Pool("{}");
    Worker(kPlain);
    Workload("{}");
  }

  void Pool(std::string_view manager) {
    pool = From<api::GPUPool>(
        absl::StrCat(R"({"metadata":{"name":"p"},"spec":{"nodeManagerConfig":)", std::string(manager), "}}"));
  }
  void Worker(std::string_view block) {
    const auto spec = From<api::GPUPoolSpec>(
        absl::StrCat(R"({"nodeManagerConfig":{},"componentConfig":{"worker":)", std::string(block), "}}"));
    revision.config = *spec.componentConfig;
  }
  void Workload(std::string_view spec) {
    workload = From<api::TensorFusionWorkload>(
        absl::StrCat(R"({"metadata":{"name":"w","namespace":"apps","uid":"w-uid"},"spec":)", std::string(spec), "}"));
  }

  absl::StatusOr<api::Pod> Render() {
    return WorkerPod({.workload = workload,
                      .pool = pool,
                      .revision = revision,
                      .provider = provider,
                      .name = "w-tf-worker-1",
                      .choose_cards = choose_cards});
  }
  api::Container Container() {
    absl::StatusOr<api::Pod> pod = Render();
    EXPECT_TRUE(pod.ok()) << pod.status();
    const api::Container* found = pod.ok() ? api::FindContainer(pod->spec.containers, "tensorfusion-worker") : nullptr;
    return found != nullptr ? *found : api::Container();
  }
  std::string Terms() {
    absl::StatusOr<api::Pod> pod = Render();
    EXPECT_TRUE(pod.ok()) << pod.status();
    const Json affinity = pod->spec.affinity;
    const Json* terms =
        kube::Field(affinity, "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    return terms == nullptr ? "none" : boost::json::serialize(*terms);
  }
  std::string Error() { return std::string(Render().status().message()); }

  api::GPUPool pool;
  api::TensorFusionWorkload workload;
  PodRevision revision;
  const api::ProviderConfig* provider = nullptr;
  bool choose_cards = false;
};

std::string ValueOf(const api::Container& container, std::string_view name) {
  const api::EnvVar* variable = api::FindEnv(container, name);
  if (variable == nullptr) return "absent";
  if (!variable->valueFrom) return variable->value;
  return variable->valueFrom->fieldRef ? variable->valueFrom->fieldRef->fieldPath
                                       : variable->valueFrom->secretKeyRef->name;
}

TEST_F(WorkerPodTest, FromAPlainTemplate) {
  absl::StatusOr<api::Pod> pod = Render();
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->metadata.name, "w-tf-worker-1");
  EXPECT_EQ(pod->metadata.namespace_, "apps");
  EXPECT_EQ(pod->metadata.labels, (std::map<std::string, std::string>{{"tensor-fusion.ai/component", "worker"},
                                                                      {"tensor-fusion.ai/workload", "w"},
                                                                      {"tensor-fusion.ai/gpupool", "p"},
                                                                      {"tensor-fusion.ai/pod-template-hash", "rev1"}}));
  EXPECT_EQ(pod->metadata.annotations.at("tensor-fusion.ai/workload-revision"), WorkloadRevision(workload.spec));
  ASSERT_EQ(pod->metadata.ownerReferences.size(), 1u);
  EXPECT_EQ(pod->metadata.ownerReferences[0].uid, "w-uid");
  EXPECT_EQ(pod->metadata.ownerReferences[0].apiVersion, "tensor-fusion.ai/v1");
  EXPECT_EQ(pod->spec.terminationGracePeriodSeconds, 5);
  EXPECT_EQ(pod->spec.nodeName, "");
  ASSERT_EQ(pod->spec.containers.size(), 1u);
  const api::Container& container = pod->spec.containers[0];
  EXPECT_EQ(container.image, "worker:t");
  EXPECT_THAT(container.command,
              ElementsAre("tensor-fusion-worker", "-p", "8000", "--address", "$(POD_IP)", "--refuse-without-key"));
  EXPECT_EQ(container.ports[0].name, "remote-vgpu");
  EXPECT_EQ(container.ports[0].containerPort, 8000);
  EXPECT_EQ(std::get<std::string>(container.readinessProbe->tcpSocket->port.value), "remote-vgpu");
  EXPECT_EQ(ValueOf(container, "TF_ENABLE_LOG"), "1");
  EXPECT_EQ(ValueOf(container, "TF_LICENSE"), "tf1;x");
  EXPECT_EQ(ValueOf(container, "TF_LICENSE_SIGN"), "lic");
  EXPECT_EQ(ValueOf(container, "POD_IP"), "status.podIP");
  EXPECT_EQ(ValueOf(container, "CONTAINER_NAME"), "tensorfusion-worker");
  EXPECT_EQ(ValueOf(container, "TF_GPU_MEMORY_LIMIT"), "absent");
  EXPECT_EQ(container.resources.requests.at("cpu").Text(), "50m");
}

TEST_F(WorkerPodTest, TheTemplateDecidesAboutTheLog) {
  Worker(R"({"podTemplate":{"template":{"spec":{"containers":[{"name":"tensorfusion-worker","image":"w",
    "env":[{"name":"TF_ENABLE_LOG","value":"0"}]}]}}}})");
  EXPECT_EQ(ValueOf(Container(), "TF_ENABLE_LOG"), "0");
}

TEST_F(WorkerPodTest, KeepsTheTemplate) {
  Worker(R"({"image":"worker:2","podTemplate":{"template":{"metadata":{"labels":{"team":"a"}},"spec":{
    "volumes":[{"name":"v","emptyDir":{}}],"initContainers":[{"name":"i","image":"i:1"}],
    "terminationGracePeriodSeconds":60,"nodeSelector":{"a":"b"},"containers":[{"name":"side","image":"s:1"},
    {"name":"tensorfusion-worker","image":"worker:t","command":["mine"],"envFrom":[{"configMapRef":{"name":"c"}}],
     "ports":[{"containerPort":8000}],"resources":{"limits":{"cpu":"2"}},"securityContext":{"runAsUser":7},
     "volumeMounts":[{"name":"v","mountPath":"/v"}],"readinessProbe":{"exec":{"command":["true"]}}}]}}}})");
  absl::StatusOr<api::Pod> pod = Render();
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->metadata.labels.at("team"), "a");
  EXPECT_EQ(pod->spec.volumes.size(), 1u);
  EXPECT_EQ(pod->spec.initContainers[0].image, "i:1");
  EXPECT_EQ(pod->spec.terminationGracePeriodSeconds, 60);
  EXPECT_EQ(pod->spec.nodeSelector.at("a"), "b");
  EXPECT_EQ(pod->spec.containers[0].image, "s:1");
  EXPECT_TRUE(pod->spec.containers[0].env.empty());
  const api::Container& container = pod->spec.containers[1];
  EXPECT_EQ(container.image, "worker:2");
  EXPECT_THAT(container.command, ElementsAre("mine"));
  EXPECT_EQ(container.envFrom.size(), 1u);
  ASSERT_EQ(container.ports.size(), 1u);
  EXPECT_EQ(container.ports[0].name, "remote-vgpu");
  EXPECT_TRUE(container.resources.requests.empty());
  EXPECT_EQ(container.securityContext->runAsUser, 7);
  EXPECT_EQ(container.volumeMounts.size(), 1u);
  EXPECT_TRUE(container.readinessProbe->exec.has_value());
  EXPECT_FALSE(container.readinessProbe->tcpSocket.has_value());
}

TEST_F(WorkerPodTest, ArgsAloneAreAllArgs) {
  Worker(R"({"podTemplate":{"template":{"spec":{"containers":[
    {"name":"tensorfusion-worker","image":"w","args":["-p","9"]}]}}}})");
  EXPECT_THAT(Container().command, ElementsAre("tensor-fusion-worker"));
  EXPECT_THAT(Container().args, ElementsAre("-p", "9"));
}

TEST_F(WorkerPodTest, TheWorkloadsTemplateGoesOverThePools) {
  Worker(R"({"image":"worker:2","podTemplate":{"template":{"spec":{"tolerations":[{"key":"a"}],"containers":[
    {"name":"tensorfusion-worker","env":[{"name":"A","value":"pool"},{"name":"B","value":"pool"}]}]}}}})");
  Workload(R"({"workerPodTemplate":{"metadata":{"labels":{"mine":"1"}},"spec":{"tolerations":[{"key":"b"}],
    "containers":[{"name":"tensorfusion-worker","image":"worker:own","env":[{"name":"B","value":"own"}]},
                  {"name":"more","image":"m"}]}}})");
  absl::StatusOr<api::Pod> pod = Render();
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->metadata.labels.at("mine"), "1");
  EXPECT_EQ(pod->spec.containers.size(), 2u);
  EXPECT_EQ(pod->spec.tolerations.size(), 3u);
  EXPECT_EQ(Container().image, "worker:own");
  EXPECT_EQ(ValueOf(Container(), "A"), "pool");
  EXPECT_EQ(ValueOf(Container(), "B"), "own");
}

TEST_F(WorkerPodTest, ImageByPrecedence) {
  const auto config = From<api::ProviderConfig>(
      R"({"metadata":{"name":"n"},"spec":{"vendor":"NVIDIA","images":{"remoteWorker":"worker:provider"}}})");
  provider = &config;
  const std::string bare = R"("podTemplate":{"template":{"spec":{"containers":[{"name":"tensorfusion-worker"}]}}}})";
  Worker("{" + bare);
  EXPECT_EQ(Container().image, "worker:provider");
  Worker(R"({"image":"worker:pool",)" + bare);
  EXPECT_EQ(Container().image, "worker:pool");
  Worker(kPlain);
  EXPECT_EQ(Container().image, "worker:t");
  Worker("{" + bare);
  provider = nullptr;
  EXPECT_THAT(Error(), HasSubstr("spec.componentConfig.worker.image is empty"));
}

TEST_F(WorkerPodTest, LimitsOfTheWorkloadWin) {
  Worker(R"({"podTemplate":{"template":{"spec":{"containers":[{"name":"tensorfusion-worker","image":"w",
    "env":[{"name":"TF_GPU_MEMORY_LIMIT","value":"1"},{"name":"TF_CUDA_SM_PERCENT_LIMIT","value":"99"}]}]}}}})");
  Workload(R"({"resources":{"requests":{"tflops":1,"vram":"1Gi"},"limits":{"tflops":1,"vram":"2Gi","compute":"25"}}})");
  EXPECT_EQ(ValueOf(Container(), "TF_GPU_MEMORY_LIMIT"), "2048");
  EXPECT_EQ(ValueOf(Container(), "TF_CUDA_MEMORY_LIMIT"), "2048");
  EXPECT_EQ(ValueOf(Container(), "TF_CUDA_SM_PERCENT_LIMIT"), "25");
  Workload(R"({"isolation":"shared","resources":{"requests":{"tflops":1,"vram":"1Gi"},
    "limits":{"tflops":1,"vram":"2Gi"}}})");
  EXPECT_EQ(ValueOf(Container(), "TF_GPU_MEMORY_LIMIT"), "1");
  Workload("{}");
  EXPECT_EQ(ValueOf(Container(), "TF_CUDA_SM_PERCENT_LIMIT"), "99");
}

TEST_F(WorkerPodTest, RunsOnThePoolsNodes) {
  EXPECT_EQ(Terms(), "none");
  const std::string a = R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]})";
  const std::string b = R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"b","operator":"Exists"}]}]})";
  Pool(R"({"nodeSelector":)" + a + "}");
  EXPECT_EQ(Terms(), R"([{"matchExpressions":[{"key":"a","operator":"Exists"}]}])");
  Workload(R"({"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":)" + b + "}}");
  EXPECT_EQ(Terms(), R"([{"matchExpressions":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}])");
  Workload("{}");
  Pool(R"({"multiVendorNodeSelector":{"NVIDIA":)" + a + R"(,"AMD":)" + b + "}}");
  EXPECT_EQ(Terms(), R"([{"matchExpressions":[{"key":"b","operator":"Exists"}]},)"
                     R"({"matchExpressions":[{"key":"a","operator":"Exists"}]}])");
  Workload(R"({"vendor":"AMD"})");
  EXPECT_EQ(Terms(), R"([{"matchExpressions":[{"key":"b","operator":"Exists"}]}])");
  Workload(R"({"vendor":"Ascend"})");
  EXPECT_THAT(Error(), HasSubstr("spec.vendor: pool p has no nodes of Ascend, only of AMD, NVIDIA"));
}

TEST_F(WorkerPodTest, SaysWhatIsWrong) {
  Worker("{}");
  EXPECT_THAT(Error(), HasSubstr("worker pod template is not configured in pool p: "
                                 "spec.componentConfig.worker.podTemplate"));
  Worker(R"({"podTemplate":{"template":{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}}})");
  EXPECT_THAT(Error(),
              HasSubstr("spec.componentConfig.worker.podTemplate.template.spec.containers: expected a container "
                        "named \"tensorfusion-worker\", found \"a\", \"b\""));
  Worker(R"({"podTemplate":{"template":{"spec":{"containers":[]}}}})");
  EXPECT_THAT(Error(), HasSubstr("found none"));
  Worker(kPlain);
  Workload(R"({"workerPodTemplate":{"spec":{"containers":[{"image":"x"}]}}})");
  EXPECT_THAT(Error(), HasSubstr("spec.workerPodTemplate.spec.containers[0]: an element of this list needs"));
  Workload(R"({"workerPodTemplate":{"spec":{"containers":[{"name":"tensorfusion-worker","$patch":"delete"}]}}})");
  EXPECT_THAT(Error(), HasSubstr("takes the container \"tensorfusion-worker\" away"));
  Workload(R"({"workerPodTemplate":{"spec":{"containers":[{"name":"tensorfusion-worker","env":{}}]}}})");
  EXPECT_THAT(Error(), HasSubstr("spec.workerPodTemplate, merged over that of pool p"));
}

TEST_F(WorkerPodTest, AContainerWithoutNameIsTheWorkerIfItIsTheOnlyOne) {
  Worker(R"({"podTemplate":{"template":{"spec":{"containers":[{"image":"w"}]}}}})");
  EXPECT_EQ(Container().image, "w");
}

TEST_F(WorkerPodTest, RevisionOfAWorkload) {
  const auto revision_of = [this](std::string_view spec) {
    Workload(spec);
    return WorkloadRevision(workload.spec);
  };
  const std::string plain = revision_of("{}");
  EXPECT_EQ(revision_of(R"({"replicas":3,"qos":"high","isolation":"soft","gangScheduling":{"minMembers":2}})"), plain);
  EXPECT_EQ(revision_of(R"({"resources":{"requests":{"tflops":5,"vram":"1Gi"},"limits":{"tflops":5,"vram":0}}})"),
            plain);
  const std::string limited =
      revision_of(R"({"resources":{"requests":{"tflops":1,"vram":"1Gi"},"limits":{"tflops":1,"vram":"1Gi"}}})");
  EXPECT_NE(limited, plain);
  EXPECT_EQ(
      revision_of(R"({"resources":{"requests":{"tflops":1,"vram":"1Gi"},"limits":{"tflops":1,"vram":"1024Mi"}}})"),
      limited);
  EXPECT_NE(revision_of(R"({"workerPodTemplate":{"spec":{"nodeName":"n"}}})"), plain);
  EXPECT_EQ(revision_of(R"({"workerPodTemplate":{"spec":{"a":1,"b":2}}})"),
            revision_of(R"({"workerPodTemplate":{"spec":{"b":2,"a":1}}})"));
}

TEST_F(WorkerPodTest, CardsAreAskedForWhereSomebodyChoosesThem) {
  const auto field_of = [this](const char* name) {
    const api::Container container = Container();
    const api::EnvVar* variable = api::FindEnv(container, name);
    return variable != nullptr && variable->valueFrom && variable->valueFrom->fieldRef
               ? variable->valueFrom->fieldRef->fieldPath
               : std::string("absent");
  };
  constexpr char kLimited[] = R"({"resources":{"requests":{"tflops":"10"},"limits":{"tflops":"20","vram":"1Gi"}}})";
  Workload(kLimited);
  const std::string without = WorkloadRevision(workload.spec);
  EXPECT_EQ(field_of("TF_GPU_IDS"), "absent");
  EXPECT_EQ(Render()->spec.schedulerName, "");
  EXPECT_FALSE(Container().resources.limits.contains("tensor-fusion.ai/vgpu"));

  choose_cards = true;
  EXPECT_EQ(field_of("TF_GPU_IDS"), "metadata.annotations['tensor-fusion.ai/gpu-ids']");
  EXPECT_EQ(field_of("TF_CUDA_SM_PERCENT_LIMIT"), "metadata.annotations['tensor-fusion.ai/effective-hard-sm-percent']");
  EXPECT_EQ(Render()->spec.schedulerName, "tensor-fusion-scheduler");
  EXPECT_EQ(Container().resources.limits.at("tensor-fusion.ai/vgpu"), api::Quantity(1));
  EXPECT_EQ(Container().resources.requests.at("tensor-fusion.ai/vgpu"), api::Quantity(1));
  EXPECT_NE(Render()->metadata.annotations.at("tensor-fusion.ai/workload-revision"), without);

  Workload(R"({"resources":{"requests":{},"limits":{"compute":"20"}}})");
  EXPECT_EQ(field_of("TF_CUDA_SM_PERCENT_LIMIT"), "absent") << "a share is known at once";
  Workload(R"({"isolation":"shared","resources":{"requests":{},"limits":{"tflops":"20"}}})");
  EXPECT_EQ(field_of("TF_CUDA_SM_PERCENT_LIMIT"), "absent") << "a whole card has no limits";
  EXPECT_EQ(Render()->spec.schedulerName, "tensor-fusion-scheduler");
  Workload("{}");
  EXPECT_EQ(field_of("TF_GPU_IDS"), "absent") << "nothing is asked for";
  EXPECT_EQ(Render()->spec.schedulerName, "");
}

}  // namespace
}  // namespace tf::operators
