#include "operator/pod_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "operator/pod_parts.h"
#include "placement/request.h"

namespace tf::operators {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Annotations = std::map<std::string, std::string>;

api::Pod Pod(const Annotations& annotations, const std::vector<std::string>& containers = {"app"}) {
  api::Pod pod;
  pod.metadata.name = "p";
  pod.metadata.namespace_ = "apps";
  pod.metadata.labels["tensor-fusion.ai/enabled"] = "true";
  for (const auto& [name, value] : annotations) {
    pod.metadata.annotations[absl::StrCat("tensor-fusion.ai/", name)] = value;
  }
  for (const std::string& name : containers) {
    pod.spec.containers.emplace_back();
    pod.spec.containers.back().name = name;
  }
  return pod;
}

api::GPUPool Pool(bool local = false) {
  api::GPUPool pool;
  pool.metadata.name = "shared";
  pool.spec.defaultUsingLocalGPU = local;
  return pool;
}

absl::StatusOr<PodRequest> Read(const api::Pod& pod, const api::WorkloadProfile* profile = nullptr,
                                bool local = false) {
  const api::GPUPool pool = Pool(local);
  return ReadPodRequest({.pod = pod, .pool = pool, .profile = profile, .native_resources = {"nvidia.com/gpu"}});
}

std::string Refusal(const Annotations& annotations, const std::vector<std::string>& containers = {"app"}) {
  const absl::StatusOr<PodRequest> read = Read(Pod(annotations, containers));
  return read.ok() ? "it is taken" : std::string(read.status().message());
}

TEST(PodRequestTest, ARequestAndALimitAreEachOtherWhereOneIsMissing) {
  const absl::StatusOr<PodRequest> read = Read(Pod({{"tflops-limit", "20"}, {"vram-request", "1Gi"}}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->mode, VgpuMode::kRemote);
  EXPECT_EQ(read->spec.poolName, "shared");
  EXPECT_EQ(read->spec.isolation, "hard");
  EXPECT_EQ(read->spec.gpuCount, 1u);
  ASSERT_TRUE(read->spec.resources.has_value());
  EXPECT_EQ(read->spec.resources->requests.tflops.Text(), "20");
  EXPECT_EQ(read->spec.resources->limits.tflops.Text(), "20");
  EXPECT_EQ(read->spec.resources->requests.vram.Text(), "1Gi");
  EXPECT_EQ(read->spec.resources->limits.vram.Text(), "1Gi");
  EXPECT_THAT(read->containers, ElementsAre("app"));
}

TEST(PodRequestTest, Modes) {
  struct Case {
    Annotations annotations;
    bool pool_local;
    VgpuMode mode;
  };
  for (const Case& one : std::vector<Case>{
           {{}, false, VgpuMode::kRemote},
           {{}, true, VgpuMode::kLocalHard},
           {{{"is-local-gpu", "true"}}, false, VgpuMode::kLocalHard},
           {{{"is-local-gpu", "false"}}, true, VgpuMode::kRemote},
           {{{"sidecar-worker", "true"}}, false, VgpuMode::kLocalHard},
           {{{"isolation", "shared"}}, false, VgpuMode::kRemote},
           {{{"isolation", "shared"}}, true, VgpuMode::kLocalShared},
           {{{"isolation", "hard"}}, true, VgpuMode::kLocalHard},
       }) {
    Annotations annotations = one.annotations;
    annotations["vram-limit"] = "1Gi";
    const absl::StatusOr<PodRequest> read = Read(Pod(annotations), nullptr, one.pool_local);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->mode, one.mode);
    EXPECT_EQ(read->spec.sidecarWorker, one.mode == VgpuMode::kLocalHard);
    EXPECT_EQ(read->spec.isLocalGPU, one.mode != VgpuMode::kRemote);
  }
}

TEST(PodRequestTest, MistakesNameTheAnnotationTheValueAndWhatIsAllowed) {
  struct Case {
    Annotations annotations;
    std::string expected;
  };
  for (
      const Case& one : std::vector<Case>{
          {{{"isolation", "sfot"}}, "tensor-fusion.ai/isolation: \"sfot\" is not allowed; allowed: hard"},
          {{{"isolation", "soft"}}, "tensor-fusion.ai/isolation: \"soft\" is not supported yet; allowed: hard"},
          {{{"isolation", "partitioned"}}, "\"partitioned\" is not supported yet"},
          {{{"is-local-gpu", "yes"}}, "tensor-fusion.ai/is-local-gpu: \"yes\" is not allowed; allowed: true, false"},
          {{{"sidecar-worker", "true"}, {"isolation", "shared"}}, "tensor-fusion.ai/sidecar-worker: \"true\""},
          {{{"tflops-limit", "many"}}, "tensor-fusion.ai/tflops-limit: \"many\" is not allowed; allowed: an amount"},
          {{{"vram-request", "-1Gi"}}, "tensor-fusion.ai/vram-request: \"-1Gi\" is not allowed"},
          {{{"vram-request", "2Gi"}, {"vram-limit", "1Gi"}},
           "tensor-fusion.ai/vram-request: \"2Gi\" is not allowed; allowed: at most tensor-fusion.ai/vram-limit, which "
           "is \"1Gi\""},
          {{{"compute-percent-limit", "101"}}, "tensor-fusion.ai/compute-percent-limit: \"101\" is not allowed"},
          {{{"compute-percent-limit", "50"}, {"tflops-limit", "1"}}, "are both there; allowed: one of the two"},
          {{{"gpu-count", "0"}},
           "tensor-fusion.ai/gpu-count: \"0\" is not allowed; allowed: a whole number from 1 to 128"},
          {{{"gpu-count", "129"}}, "a whole number from 1 to 128"},
          {{{"gpu-count", "1.5"}}, "a whole number from 1 to 128"},
          {{{"gpu-indices", "0,x"}}, "tensor-fusion.ai/gpu-indices: \"0,x\" is not allowed"},
          {{{"gpu-indices", "0,0"}}, "different whole numbers"},
          {{{"gpu-indices", "0,1"}, {"gpu-count", "3"}},
           "tensor-fusion.ai/gpu-count: \"3\" is not allowed; allowed: 2"},
          {{{"qos", "best"}}, "tensor-fusion.ai/qos: \"best\" is not allowed; allowed: low, medium, high, critical"},
          {{{"inject-container", "ap"}}, "tensor-fusion.ai/inject-container: \"ap\" is not allowed; allowed: names of"},
          {{{"partition-id", "1g.10gb"}}, "asks for a partitioned GPU, which is not supported yet"},
          {{{"autoscale", "true"}}, "asks for autoscaling, which is not supported yet; allowed: false"},
          {{{"gang-enabled", "true"}}, "asks for gang scheduling, which is not supported yet"},
          {{{"enabled-replicas", "2"}}, "tensor-fusion.ai/enabled-replicas: \"2\" asks for"},
          {{{"dedicated-gpu", "true"}}, "asks for a dedicated GPU, which is not supported yet"},
          {{{"disable-features", "gpu-limiter"}}, "tensor-fusion.ai/disable-features: \"gpu-limiter\""},
      }) {
    Annotations annotations = one.annotations;
    annotations.try_emplace("vram-limit", "8Gi");
    EXPECT_THAT(Refusal(annotations), HasSubstr(one.expected));
  }
}

TEST(PodRequestTest, AllMistakesAreNamedAtOnce) {
  const std::string refusal = Refusal({{"qos", "best"}, {"gpu-count", "no"}});
  EXPECT_THAT(refusal, HasSubstr("qos"));
  EXPECT_THAT(refusal, HasSubstr("gpu-count"));
}

TEST(PodRequestTest, WhatIsOffIsNoMistake) {
  EXPECT_EQ(
      Refusal({{"vram-limit", "1Gi"}, {"autoscale", "false"}, {"gang-enabled", "false"}, {"dedicated-gpu", "false"}}),
      "it is taken");
}

TEST(PodRequestTest, NothingIsNoShareAndSharedIsAWholeCard) {
  EXPECT_THAT(Refusal({}), HasSubstr("asks for no share of a GPU"));
  EXPECT_THAT(Refusal({{"vram-limit", "0"}}), HasSubstr("asks for no share of a GPU"));
  EXPECT_EQ(Refusal({{"isolation", "shared"}}), "it is taken");
}

TEST(PodRequestTest, WhichContainers) {
  EXPECT_THAT(Refusal({{"vram-limit", "1Gi"}}, {"a", "b"}),
              HasSubstr("inject-container is missing, and the pod has 2 containers; allowed: one or more of a, b"));
  const auto read = Read(Pod({{"vram-limit", "1Gi"}, {"inject-container", "b, a,b"}}, {"a", "b", "c"}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->containers, ElementsAre("b", "a"));
}

TEST(PodRequestTest, AnnotationsGoBeforeTheProfile) {
  api::WorkloadProfile profile;
  profile.metadata.name = "small";
  profile.spec.poolName = "elsewhere";
  profile.spec.isolation = "soft";  // the schema's default
  profile.spec.qos = "low";
  profile.spec.gpuCount = 2;
  profile.spec.replicas = 3;
  profile.spec.resources.emplace();
  profile.spec.resources->limits.vram = api::Quantity::FromBytes(int64_t{4} << 30);
  profile.spec.resources->limits.tflops = api::Quantity(10);
  const auto plain = Read(Pod({}), &profile);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->spec.poolName, "shared");
  EXPECT_EQ(plain->spec.isolation, "hard");
  EXPECT_EQ(plain->spec.replicas, 3);
  EXPECT_EQ(plain->spec.gpuCount, 2u);
  EXPECT_EQ(plain->spec.resources->requests.tflops.Text(), "10");

  const auto over = Read(Pod({{"compute-percent-limit", "25"}, {"gpu-count", "1"}, {"qos", "high"}}), &profile);
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_EQ(over->spec.qos, "high");
  EXPECT_EQ(over->spec.gpuCount, 1u);
  EXPECT_TRUE(over->spec.resources->limits.tflops.IsZero());
  EXPECT_EQ(over->spec.resources->limits.compute.Text(), "25");
  EXPECT_EQ(over->spec.resources->limits.vram.Text(), "4Gi");

  profile.spec.gangScheduling.emplace();
  profile.spec.gangScheduling->minMembers = 2;
  EXPECT_THAT(
      std::string(Read(Pod({}), &profile).status().message()),
      HasSubstr("WorkloadProfile \"small\": spec.gangScheduling asks for gang scheduling, which is not supported"));
}

TEST(PodRequestTest, CardsOfOtherDevicePluginsAreCounted) {
  api::Pod pod = Pod({{"inject-container", "a,b"}}, {"a", "b", "c"});
  for (api::Container& container : pod.spec.containers) container.resources.limits["nvidia.com/gpu"] = api::Quantity(2);
  const auto read = Read(pod);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spec.gpuCount, 4u);
  EXPECT_EQ(read->spec.resources->limits.compute.Text(), "100");
}

TEST(PodRequestTest, WorkloadNames) {
  api::Pod pod = Pod({});
  EXPECT_EQ(WorkloadNameOf(pod, "own"), "own");
  pod.metadata.ownerReferences = {{.kind = "ReplicaSet", .name = "web-5d4f8", .uid = "u", .controller = true}};
  EXPECT_EQ(WorkloadNameOf(pod, "own"), "web-5d4f8");
  pod.metadata.labels["pod-template-hash"] = "5d4f8";
  EXPECT_EQ(WorkloadNameOf(pod, "own"), "web");
  pod.metadata.ownerReferences[0].kind = "StatefulSet";
  EXPECT_EQ(WorkloadNameOf(pod, "own"), "web-5d4f8");
}

// The books of the cards are made from what admission writes.
TEST(PodRequestTest, PlacementReadsWhatAdmissionWrites) {
  for (const Annotations& annotations : std::vector<Annotations>{
           {{"tflops-limit", "20"}, {"tflops-request", "500m"}, {"vram-request", "1Gi"}},
           {{"compute-percent-limit", "25"}, {"vram-limit", "10Gi"}},
           {{"compute-percent-request", "12.5"}, {"gpu-count", "128"}},
           {{"vram-limit", "1500M"}, {"gpu-indices", "127, 0"}, {"gpu-model", "H100"}, {"vendor", "NVIDIA"}},
           {{"isolation", "shared"}}}) {
    const absl::StatusOr<PodRequest> read = Read(Pod(annotations));
    ASSERT_TRUE(read.ok()) << read.status();
    api::Pod written;
    WriteRequest(read->spec, written.metadata.annotations);
    const absl::StatusOr<placement::Request> seen = placement::RequestOf(api::ToJson(written));
    ASSERT_TRUE(seen.ok()) << seen.status();
    EXPECT_EQ(seen->pool, "shared");
    EXPECT_EQ(placement::Name(seen->isolation), *read->spec.isolation);
    EXPECT_EQ(static_cast<uint32_t>(seen->count), *read->spec.gpuCount);
    EXPECT_EQ(seen->indices, read->spec.gpuIndices);
    EXPECT_EQ(seen->model, read->spec.gpuModel);
    EXPECT_EQ(seen->vendor, read->spec.vendor);
    const api::Resources resources = read->spec.resources.value_or(api::Resources());
    EXPECT_EQ(seen->request.millitflops, resources.requests.tflops.Milli());
    EXPECT_EQ(seen->limit.millitflops, resources.limits.tflops.Milli());
    EXPECT_EQ(seen->request_millipercent, resources.requests.compute.Milli());
    EXPECT_EQ(seen->limit_millipercent, resources.limits.compute.Milli());
    EXPECT_EQ(seen->request.vram, resources.requests.vram.Units());
    EXPECT_EQ(seen->limit.vram, resources.limits.vram.Units());
  }
}

}  // namespace
}  // namespace tf::operators
