#include "api/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <random>

#include "api/core.h"
#include "api/gpu_pool.h"
#include "api/meta.h"
#include "api/scheduling.h"
#include "api/tensor_fusion_cluster.h"
#include "api/testing.h"
#include "api/workload.h"

namespace tf::api {
namespace {

using ::testing::HasSubstr;
using testing::Sample;
using testing::Samples;
using testing::ThroughStruct;

Json Parsed(std::string_view text) { return boost::json::parse({text.data(), text.size()}); }

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

TEST(Json, SamplesComeBackAsTheyWere) {
  const std::vector<Sample> samples = Samples();
  ASSERT_GE(samples.size(), 20u);
  for (const Sample& sample : samples) {
    auto back = ThroughStruct(sample.json);
    ASSERT_TRUE(back.ok()) << sample.name << ": " << back.status();
    EXPECT_EQ(*back, sample.json) << sample.name << "\n"
                                  << boost::json::serialize(*back) << "\n"
                                  << boost::json::serialize(sample.json);
  }
}

// What a value may become without becoming wrong: a member that nobody knows, null for a member, an empty container.
class Mutation {
 public:
  explicit Mutation(uint64_t seed) : random_(seed) {}

  void Apply(Json& json, int depth = 0) {
    if (JsonObject* object = json.if_object()) {
      for (auto& [key, value] : *object) Apply(value, depth + 1);
      // Maps of text cannot have members of another type, so that only text can be added anywhere.
      if (depth > 0 && random_() % 4 == 0) (*object)["x-" + std::to_string(random_() % 1000)] = "kept";
    } else if (JsonArray* array = json.if_array()) {
      for (Json& one : *array) Apply(one, depth + 1);
    }
  }

 private:
  std::mt19937_64 random_;
};

TEST(Json, UnknownMembersAreKeptAtEveryLevel) {
  int64_t changed = 0;
  for (const Sample& sample : Samples()) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
      Json json = sample.json;
      Mutation(seed).Apply(json);
      changed += json == sample.json ? 0 : 1;
      auto back = ThroughStruct(json);
      if (!back.ok()) {
        // The added text stood in a map of something else.
        EXPECT_THAT(ErrorOf(back.status()), HasSubstr("x-"));
        continue;
      }
      ASSERT_EQ(*back, json) << sample.name << " " << seed;
    }
  }
  EXPECT_GT(changed, 300);
}

bool IsBlank(const Json& json) {
  if (const JsonObject* object = json.if_object()) {
    return std::all_of(object->begin(), object->end(), [](const auto& one) { return IsBlank(one.value()); });
  }
  return json == nullptr || json == "" || json == 0 || json == false || json == "0" || json == JsonArray();
}

// `back` has all of `json` and beside it nothing but blanks, as members that are always written leave them.
bool SameButForBlanks(const Json& back, const Json& json) {
  const JsonObject* object = json.if_object();
  if (object == nullptr || !back.is_object()) {
    const JsonArray* array = json.if_array();
    if (array == nullptr || !back.is_array() || array->size() != back.get_array().size()) return back == json;
    for (size_t i = 0; i < array->size(); ++i) {
      if (!SameButForBlanks(back.get_array()[i], (*array)[i])) return false;
    }
    return true;
  }
  for (const auto& [key, value] : *object) {
    const Json* other = back.get_object().if_contains(key);
    if (other == nullptr || !SameButForBlanks(*other, value)) return false;
  }
  for (const auto& [key, value] : back.get_object()) {
    if (!object->contains(key) && !IsBlank(value)) return false;
  }
  return true;
}

// Every value of every sample in turn, replaced by one that may be written where nothing is meant.
TEST(Json, BlankMembersAreKeptAsTheyWere) {
  const auto replace = [](Json& json, size_t& countdown, const Json& by, auto&& self) -> bool {
    if (JsonObject* object = json.if_object()) {
      for (auto& [key, value] : *object) {
        if (countdown-- == 0) {
          value = by;
          return true;
        }
        if (self(value, countdown, by, self)) return true;
      }
    } else if (JsonArray* array = json.if_array()) {
      for (Json& value : *array) {
        if (self(value, countdown, by, self)) return true;
      }
    }
    return false;
  };
  int64_t kept = 0;
  int64_t refused = 0;
  for (const Sample& sample : Samples()) {
    for (const Json& by :
         {Json(nullptr), Json(""), Json(0), Json(false), Json(JsonArray()), Json(JsonObject()), Json("0")}) {
      for (size_t i = 0;; ++i) {
        Json json = sample.json;
        size_t countdown = i;
        if (!replace(json, countdown, by, replace)) break;
        if (json.at("kind") != sample.json.at("kind")) continue;
        auto back = ThroughStruct(json);
        if (!back.ok()) {
          ++refused;
          EXPECT_THAT(ErrorOf(back.status()), ::testing::AnyOf(HasSubstr(": expected "))) << sample.name;
          continue;
        }
        ++kept;
        ASSERT_TRUE(SameButForBlanks(*back, json)) << sample.name << " " << boost::json::serialize(by) << "\n"
                                                   << boost::json::serialize(*back) << "\n"
                                                   << boost::json::serialize(json);
      }
    }
  }
  EXPECT_GT(kept, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Json, ErrorsNameThePlace) {
  const auto error = [](std::string_view text) {
    auto cluster = FromJson<TensorFusionCluster>(Parsed(text));
    return cluster.ok() ? std::string("no error") : ErrorOf(cluster.status());
  };
  EXPECT_EQ(error(R"({"spec": {"gpuPools": [{"name": 7}]}})"),
            "spec.gpuPools[0].name: expected a string, found a number");
  EXPECT_EQ(error(R"({"spec": {"gpuPools": {}}})"), "spec.gpuPools: expected an array, found an object");
  EXPECT_EQ(error(R"({"spec": []})"), "spec: expected an object, found an array");
  EXPECT_EQ(error(R"([])"), "the object: expected an object, found an array");
  EXPECT_EQ(error(R"({"metadata": {"labels": {"a.b/c": true}}})"),
            "metadata.labels[\"a.b/c\"]: expected a string, found true or false");
  EXPECT_EQ(error(R"({"metadata": {"ownerReferences": [null]}})"),
            "metadata.ownerReferences[0]: expected an object, found null");
  EXPECT_EQ(error(R"({"metadata": {"creationTimestamp": "yesterday"}})"),
            "metadata.creationTimestamp: expected a time such as 2026-11-30T17:00:00Z, found \"yesterday\"");
  EXPECT_EQ(error(R"({"status": {"totalNodes": 3000000000}})"),
            "status.totalNodes: expected a whole number from -2147483648 to 2147483647, found 3000000000");
  EXPECT_THAT(error(R"({"status": {"totalNodes": 1.5}})"), HasSubstr("found 1.5"));
  EXPECT_THAT(error(R"({"status": {"totalNodes": 1e300}})"), HasSubstr("expected a whole number"));
  EXPECT_EQ(error(R"({"status": {"totalVRAM": "lots"}})"),
            "status.totalVRAM: expected a quantity such as 312, 1.5, 500m or 10Gi, found \"lots\"");
  EXPECT_EQ(error(R"({"status": {"totalVRAM": {}}})"), "status.totalVRAM: expected a quantity, found an object");
}

TEST(Json, NumbersOfEveryKind) {
  auto cluster =
      FromJson<TensorFusionCluster>(Parsed(R"({"status": {"totalNodes": 5.0, "totalPools": 2, "retryCount": 7}})"));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->status.totalNodes, 5);
  EXPECT_EQ(cluster->status.totalPools, 2);
  EXPECT_EQ(cluster->status.retryCount, 7);
}

TEST(Json, KindsFillInWhatTheyAre) {
  EXPECT_EQ(ToJson(GPUPool{}), Parsed(R"({"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool"})"));
  EXPECT_EQ(ToJson(Pod{}), Parsed(R"({"apiVersion": "v1", "kind": "Pod"})"));
  EXPECT_EQ(GPUPool::kResource.ApiVersion(), "tensor-fusion.ai/v1");
}

TEST(Json, BlankMembersAreNotWritten) {
  Container container;
  container.name = "main";
  container.env.push_back({.name = "A"});
  EXPECT_EQ(ToJson(container), Parsed(R"({"name": "main", "env": [{"name": "A"}]})"));
}

TEST(Json, MembersThatAreAlwaysWritten) {
  GPUPoolStatus status;
  status.phase = "Pending";
  const Json json = ToJson(status);
  EXPECT_EQ(json.at("componentStatus"), Parsed(R"({
    "worker": "", "workerConfigSynced": false, "workerUpdateProgress": 0,
    "hypervisor": "", "hypervisorConfigSynced": false, "hypervisorUpdateProgress": 0,
    "client": "", "clientConfigSynced": false, "clientUpdateProgress": 0})"));
  EXPECT_EQ(json.at("totalVRAM"), "0");
  EXPECT_EQ(json.at("readyNodes"), 0);
  EXPECT_FALSE(json.get_object().contains("license"));
}

TEST(Json, OptionalMembersSayTheirValueEvenWhenItIsZero) {
  WorkloadProfileSpec spec;
  spec.replicas = 0;
  EXPECT_EQ(ToJson(spec), Parsed(R"({"replicas": 0})"));
  auto back = FromJson<WorkloadProfileSpec>(Parsed(R"({"replicas": 0})"));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->replicas, 0);
  back->replicas.reset();
  EXPECT_EQ(ToJson(*back), Parsed("{}"));
}

TEST(Json, ChangesReplaceWhatWasRead) {
  auto pool = FromJson<GPUPool>(Parsed(R"({"metadata": {"name": "a", "labels": {}, "creationTimestamp": null},
      "spec": {"schedulingConfigTemplate": "", "nodeManagerConfig": {"new": 1}}})"));
  ASSERT_TRUE(pool.ok()) << pool.status();
  pool->metadata.labels["x"] = "y";
  pool->metadata.creationTimestamp = Time(absl::FromUnixSeconds(0));
  pool->spec.schedulingConfigTemplate = "t";
  EXPECT_EQ(ToJson(*pool), Parsed(R"({"apiVersion": "tensor-fusion.ai/v1", "kind": "GPUPool",
      "metadata": {"name": "a", "labels": {"x": "y"}, "creationTimestamp": "1970-01-01T00:00:00Z"},
      "spec": {"schedulingConfigTemplate": "t", "nodeManagerConfig": {"new": 1}}})"));
}

TEST(Json, NamesThatDifferInCpp) {
  auto quota = FromJson<GPUResourceQuotaStatus>(Parsed(R"({"availablePercent": {"requests.tflops": "99.50"}})"));
  ASSERT_TRUE(quota.ok()) << quota.status();
  EXPECT_EQ(quota->availablePercent.requests_tflops, "99.50");
  auto meta = FromJson<ObjectMeta>(Parsed(R"({"namespace": "n", "name": "a"})"));
  ASSERT_TRUE(meta.ok());
  EXPECT_EQ(meta->Key(), (kube::Key{"n", "a"}));
  auto selector = FromJson<LabelSelector>(Parsed(R"({"matchExpressions": [{"key": "k", "operator": "Exists"}]})"));
  ASSERT_TRUE(selector.ok());
  EXPECT_EQ(selector->matchExpressions[0].operator_, "Exists");
}

TEST(Json, QuantitiesKeepTheirSpelling) {
  const Json json = Parsed(
      R"({"requests": {"tflops": 10, "vram": "1024Mi"}, "limits": {"tflops": "1000m", "vram": "0", "compute": 0.5}})");
  auto spec = FromJson<WorkloadProfileSpec>(Parsed(R"({"resources": {"requests": {"tflops": 10, "vram": "1024Mi"},
      "limits": {"tflops": "1000m", "vram": "0", "compute": 0.5}}})"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->resources->limits.tflops, Quantity(1));
  EXPECT_EQ(spec->resources->limits.compute, Quantity::FromMilli(500));
  EXPECT_EQ(ToJson(*spec).at("resources"), json);
  spec->resources->requests.vram += Quantity::FromBytes(1 << 20);
  EXPECT_EQ(ToJson(*spec).at("resources").at("requests").at("vram"), "1025Mi");
}

TEST(Json, PodTemplateOfAPool) {
  auto pool = FromJson<GPUPool>(Parsed(R"({"spec": {"componentConfig": {"worker": {"podTemplate":
      {"template": {"spec": {"containers": [{"name": "tensorfusion-worker", "env": [{"name": "A", "vaule": "b"}]}]}}}}}}})"));
  ASSERT_TRUE(pool.ok()) << pool.status();
  auto pod = FromJson<PodTemplate>(Json(pool->spec.componentConfig->worker->podTemplate));
  ASSERT_TRUE(pod.ok()) << pod.status();
  const Container* worker = FindContainer(pod->template_.spec.containers, "tensorfusion-worker");
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(FindContainer(pod->template_.spec.containers, "other"), nullptr);
  ASSERT_NE(FindEnv(*worker, "A"), nullptr);
  EXPECT_TRUE(FindEnv(*worker, "A")->extra.contains("vaule"));
  EXPECT_EQ(FindEnv(*worker, "B"), nullptr);
}

TEST(Meta, Conditions) {
  std::vector<Condition> conditions;
  const absl::Time t0 = absl::FromUnixSeconds(1000);
  EXPECT_TRUE(SetCondition(conditions, {.type = "Ready", .status = "False", .reason = "Starting"}, t0));
  EXPECT_FALSE(
      SetCondition(conditions, {.type = "Ready", .status = "False", .reason = "Starting"}, t0 + absl::Seconds(1)));
  EXPECT_TRUE(
      SetCondition(conditions, {.type = "Ready", .status = "False", .reason = "Waiting"}, t0 + absl::Seconds(2)));
  ASSERT_EQ(conditions.size(), 1u);
  EXPECT_EQ(conditions[0].lastTransitionTime.at(), t0);  // the status did not change
  EXPECT_TRUE(
      SetCondition(conditions, {.type = "Ready", .status = "True", .reason = "Waiting"}, t0 + absl::Seconds(3)));
  EXPECT_EQ(conditions[0].lastTransitionTime.at(), t0 + absl::Seconds(3));
  EXPECT_EQ(FindCondition(conditions, "Ready"), &conditions[0]);
  EXPECT_EQ(FindCondition(conditions, "Other"), nullptr);
  EXPECT_TRUE(ToJson(conditions[0]).get_object().contains("message"));
}

TEST(Meta, Owners) {
  ObjectMeta meta;
  EXPECT_EQ(meta.Controller(), nullptr);
  meta.ownerReferences.push_back({.kind = "Node", .name = "n"});
  meta.ownerReferences.push_back({.kind = "GPUNode", .name = "n", .controller = true});
  ASSERT_NE(meta.Controller(), nullptr);
  EXPECT_EQ(meta.Controller()->kind, "GPUNode");
  meta.finalizers = {"tensor-fusion.ai/finalizer"};
  EXPECT_TRUE(meta.HasFinalizer("tensor-fusion.ai/finalizer"));
  EXPECT_FALSE(meta.HasFinalizer("other"));
  meta.labels["a"] = "b";
  EXPECT_EQ(meta.Label("a"), "b");
  EXPECT_EQ(meta.Annotation("a"), "");
}

TEST(Core, Readiness) {
  Pod pod;
  EXPECT_FALSE(IsReady(pod));
  pod.status.conditions.push_back({.type = "Ready", .status = "False"});
  EXPECT_FALSE(IsReady(pod));
  pod.status.conditions[0].status = "True";
  EXPECT_TRUE(IsReady(pod));
  EXPECT_FALSE(IsFinished(pod));
  pod.status.phase = "Failed";
  EXPECT_TRUE(IsFinished(pod));
  Node node;
  EXPECT_FALSE(IsReady(node));
  node.status.conditions.push_back({.type = "Ready", .status = "True"});
  EXPECT_TRUE(IsReady(node));
}

}  // namespace
}  // namespace tf::api
