#include "operator/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"

namespace tf::operators {
namespace {

using kube::Json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Json Parsed(std::string_view text) {
  auto json = kube::ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.status() << "\n" << text;
  return *std::move(json);
}

constexpr char kWorker[] = R"({"podTemplate": {"template": {"spec": {"containers": [
  {"name": "tensorfusion-worker", "env": [{"name": "TF_ENABLE_LOG", "value": "1"}]}]}}}})";

// A cluster with one pool of this spec (members of specTemplate, without braces), and more pools.
Json Cluster(const std::string& pool, const std::string& more = "") {
  return Parsed(R"({"apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionCluster", "metadata": {"name": "tf"},
    "spec": {"gpuPools": [{"name": "shared", "isDefault": true, "specTemplate": {)" +
                pool + "}}" + more + "]}}");
}
std::string Policy(const std::string& policy) {
  return R"("nodeManagerConfig": {"nodePoolRollingUpdatePolicy": {)" + policy + R"(}}, "componentConfig": {})";
}
std::string Components(const std::string& config) {
  return R"("nodeManagerConfig": {}, "componentConfig": {)" + config + "}";
}

Findings Check(const Json& object) {
  return CheckObject(object, {.has_scheduling_template = [](const std::string& name) { return name == "there"; },
                              .has_pool = [](const std::string& name) { return name == "tf-shared"; },
                              .other_default_pools = [](const std::string&) { return std::vector<std::string>(); }});
}

TEST(Validation, AWholeClusterIsFine) {
  const Findings findings =
      Check(Cluster(Policy(R"("autoUpdateWorker": true, "batchPercentage": 20, "batchInterval": "1s")") +
                    R"(, "schedulingConfigTemplate": "there")"));
  EXPECT_THAT(findings.errors, IsEmpty());
  EXPECT_THAT(findings.warnings, IsEmpty());
}

TEST(Validation, AnEnforcedWindowMustBeReadable) {
  const struct {
    const char* policy;
    const char* says;
  } cases[] = {
      {R"("maintenanceWindow": {"enforced": true, "includes": ["0 2 * * 6"], "timeZone": "Mars/Olympus"})",
       "Mars/Olympus"},
      {R"("maintenanceWindow": {"enforced": true, "includes": ["0 0 30 2 *"]})", "0 0 30 2 *"},
      {R"("maintenanceWindow": {"enforced": true, "includes": ["61 * * * *"]})", "61"},
      {R"("maintenanceWindow": {"enforced": true, "includes": []})", "at least one entry"},
  };
  for (const auto& one : cases) {
    const Findings findings = Check(Cluster(Policy(one.policy)));
    ASSERT_EQ(findings.errors.size(), 1u) << one.policy;
    EXPECT_THAT(
        findings.errors[0],
        AllOf(
            HasSubstr("spec.gpuPools[0].specTemplate.nodeManagerConfig.nodePoolRollingUpdatePolicy.maintenanceWindow"),
            HasSubstr(one.says)));
    // Not enforced, it is as upstream has it: accepted, and ignored. It is only said.
    std::string ignored = one.policy;
    ignored.replace(ignored.find("true"), 4, "false");
    EXPECT_THAT(Check(Cluster(Policy(ignored))).errors, IsEmpty()) << ignored;
  }
  const Findings window =
      Check(Cluster(Policy(R"("maintenanceWindow": {"includes": ["2 2 * * *"]}, "maxDuration": "10m")")));
  EXPECT_THAT(window.errors, IsEmpty());
  EXPECT_THAT(window.warnings, ElementsAre(HasSubstr("set and not enforced")));
  EXPECT_THAT(Check(Cluster(Policy(R"("maintenanceWindow": {"enforced": true, "includes": ["0 2 * * 6"],
      "timeZone": "Europe/Berlin"}, "maxDuration": "4h")")))
                  .errors,
              IsEmpty());
}

TEST(Validation, PoolsOfACluster) {
  const std::string second = R"(, {"name": "other", "isDefault": true, "specTemplate": {"nodeManagerConfig": {}}})";
  EXPECT_THAT(
      Check(Cluster(Components(""), second)).errors,
      ElementsAre("spec.gpuPools: \"shared\" and \"other\" have isDefault: true; at most one pool is the default"));
  const std::string same = R"(, {"name": "shared", "specTemplate": {"nodeManagerConfig": {}}})";
  EXPECT_THAT(Check(Cluster(Components(""), same)).errors,
              ElementsAre(HasSubstr("spec.gpuPools[1].name: \"shared\" is there twice")));
  const std::string longer =
      R"(, {"name": ")" + std::string(61, 'a') + R"(", "specTemplate": {"nodeManagerConfig": {}}})";
  EXPECT_THAT(Check(Cluster(Components(""), longer)).errors, ElementsAre(HasSubstr("at most 63 are allowed")));
  EXPECT_THAT(Check(Cluster(R"("nodeManagerConfig": {}, "componentConfig": {}, "schedulingConfigTemplate": "nowhere")"))
                  .warnings,
              ElementsAre(HasSubstr("there is no SchedulingConfigTemplate \"nowhere\"")));
  EXPECT_THAT(Check(Cluster(R"("nodeManagerConfig": {})")).warnings,
              ElementsAre(HasSubstr("componentConfig: it is not there")));
  const Json cluster = Cluster(Components(""));
  EXPECT_THAT(
      CheckObject(cluster, {.other_default_pools = [](const std::string&) { return std::vector<std::string>{"b-x"}; }})
          .warnings,
      ElementsAre(HasSubstr("GPUPool \"b-x\" of another cluster")));
}

TEST(Validation, SelectorsAndCapacity) {
  const auto selector = [](const std::string& requirement) {
    return Cluster(R"("nodeManagerConfig": {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [)" +
                   requirement + R"(]}]}}, "componentConfig": {})");
  };
  EXPECT_THAT(Check(selector(R"({"key": "a", "operator": "In", "values": ["x"]})")).errors, IsEmpty());
  EXPECT_THAT(Check(selector(R"({"key": "a", "operator": "In"})")).errors,
              ElementsAre(HasSubstr("needs at least one value")));
  EXPECT_THAT(Check(selector(R"({"key": "a", "operator": "Exists", "values": ["x"]})")).errors,
              ElementsAre(HasSubstr("takes no values")));
  EXPECT_THAT(Check(selector(R"({"key": "a", "operator": "Is", "values": ["x"]})")).errors,
              ElementsAre(HasSubstr("found \"Is\"")));
  EXPECT_THAT(Check(selector("")).warnings, ElementsAre(HasSubstr("matches no node")));
  EXPECT_THAT(Check(Cluster(R"("nodeManagerConfig": {}, "componentConfig": {}, "capacityConfig": {
      "minResources": {"tflops": "200", "vram": "10Gi"}, "maxResources": {"tflops": "100", "vram": "100Gi"}})"))
                  .errors,
              ElementsAre("spec.gpuPools[0].specTemplate.capacityConfig.minResources.tflops: 200 is more than "
                          "maxResources.tflops, which is 100"));
}

TEST(Validation, PodTemplates) {
  const auto worker = [](const std::string& container) {
    return Check(Cluster(
        Components(R"("worker": {"podTemplate": {"template": {"spec": {"containers": [)" + container + "]}}}}")));
  };
  EXPECT_THAT(Check(Cluster(Components(std::string(R"("worker": )") + kWorker))).warnings, IsEmpty());
  // The mistake of the licence samples that went around.
  const Findings typo = worker(R"({"name": "tensorfusion-worker", "env": [{"name": "TF_LICENSE", "value": "a"},
                                   {"name": "TF_LICENSE_SIGN", "vaule": "b"}]})");
  EXPECT_THAT(typo.errors, IsEmpty());
  EXPECT_THAT(typo.warnings,
              ElementsAre("spec.gpuPools[0].specTemplate.componentConfig.worker.podTemplate.template.spec."
                          "containers[0].env[1].vaule: there is no such field, it has no effect; did you "
                          "mean \"value\"?"));
  EXPECT_THAT(worker(R"({"name": "tensorfusion-worker", "env": [{"name": "A", "value": 1}]})").errors,
              ElementsAre(HasSubstr("env[0].value: expected a text, found the number 1; put it in quotes: \"1\"")));
  EXPECT_THAT(worker(R"({"name": "tensorfusion-worker", "env": {"A": "b"}})").errors,
              ElementsAre(HasSubstr("expected a list")));
  EXPECT_THAT(worker(R"({"name": "worker"})").errors,
              ElementsAre(AllOf(HasSubstr("expected a container named \"tensorfusion-worker\", found \"worker\""))));
  EXPECT_THAT(worker("").errors, ElementsAre(HasSubstr("found none")));
  EXPECT_THAT(worker(R"({"image": "x"})").errors, IsEmpty()) << "the only one needs no name";
  EXPECT_THAT(worker(R"({"name": "tensorfusion-worker", "env": [{"name": "TF_LICENSE", "value": "a"}]})").warnings,
              ElementsAre(HasSubstr("TF_LICENSE is set and TF_LICENSE_SIGN is not")));
  EXPECT_THAT(worker(R"({"name": "tensorfusion-worker", "env": [{"name": "A"}, {"name": "A"}]})").warnings,
              ElementsAre(HasSubstr("\"A\" is there twice")));
  EXPECT_THAT(Check(Cluster(Components(R"("worker": {"podTemplate": {"spec": {"containers": []}}})"))).errors,
              ElementsAre(HasSubstr("belongs below template")));
  EXPECT_THAT(
      Check(Cluster(Components(
                R"("client": {"patchToContainer": {"enviroment": []}, "patchToPod": {"spec": {"hostNetwrk": true}}})")))
          .warnings,
      ElementsAre(HasSubstr("hostNetwrk: there is no such field, it has no effect; did you mean \"hostNetwork\"?"),
                  HasSubstr("enviroment: there is no such field")));
}

Json Workload(const std::string& spec) {
  return Parsed(R"({"apiVersion": "tensor-fusion.ai/v1", "kind": "TensorFusionWorkload", "metadata": {"name": "w",
    "namespace": "a"}, "spec": {)" +
                spec + "}}");
}

TEST(Validation, Workloads) {
  EXPECT_THAT(Check(Workload(R"("poolName": "tf-shared")")).warnings, IsEmpty());
  EXPECT_THAT(Check(Workload(R"("poolName": "nowhere")")).warnings,
              ElementsAre(HasSubstr("there is no GPUPool \"nowhere\"")));
  EXPECT_THAT(Check(Workload(R"("resources": {"requests": {"tflops": "20", "vram": "1Gi"},
      "limits": {"tflops": "10", "vram": "2Gi"}})"))
                  .errors,
              ElementsAre(HasSubstr("spec.resources.requests.tflops: 20 is more than")));
  EXPECT_THAT(Check(Workload(R"("workerPodTemplate": {"spec": {"contaners": []}})")).warnings,
              ElementsAre(HasSubstr("did you mean \"containers\"?")));
  EXPECT_THAT(
      Check(Workload(
                R"("autoScalingConfig": {"cronScalingRules": [{"enable": true, "name": "x", "start": "0 99 * * *"}]})"))
          .errors,
      ElementsAre(HasSubstr("spec.autoScalingConfig.cronScalingRules[0].start")));
  EXPECT_THAT(
      Check(Parsed(R"({"kind": "TensorFusionWorkload", "metadata": {"name": "w"}, "spec": {"replicas": "three"}})"))
          .errors,
      ElementsAre(HasSubstr("replicas")));
}

// A review -----------------------------------------------------------------------------------------------------------

kube::AdmissionRequest Request(std::string operation, Json object, Json old_object = nullptr) {
  kube::AdmissionRequest request;
  request.operation = std::move(operation);
  request.object = std::move(object);
  request.old_object = std::move(old_object);
  return request;
}
const char kTwoDefaults[] =
    R"(, {"name": "other", "isDefault": true, "specTemplate": {"nodeManagerConfig": {}, "componentConfig": {}}})";

TEST(ValidationReview, RefusesWithTheFieldAndPassesWarnings) {
  const auto refused = Validate(Request("CREATE", Cluster(Components(""), kTwoDefaults)), {});
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.code, 422);
  EXPECT_THAT(refused.message, HasSubstr("spec.gpuPools: \"shared\" and \"other\""));
  const auto passed = Validate(Request("CREATE", Cluster(R"("nodeManagerConfig": {})")), {});
  EXPECT_TRUE(passed.allowed);
  EXPECT_THAT(passed.warnings, ElementsAre(HasSubstr("componentConfig")));
}

TEST(ValidationReview, NeverStandsInTheWayOfDeletionStatusAndFinalizers) {
  Json wrong = Cluster(Components(""), kTwoDefaults);
  EXPECT_TRUE(Validate(Request("DELETE", nullptr, wrong), {}).allowed);
  Json without_finalizer = wrong;
  without_finalizer.at("metadata").as_object()["labels"] = kube::JsonObject{{"a", "b"}};
  EXPECT_TRUE(Validate(Request("UPDATE", without_finalizer, wrong), {}).allowed) << "the spec is the same";
  Json deleted = wrong;
  deleted.at("metadata").as_object()["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  EXPECT_TRUE(Validate(Request("UPDATE", deleted, Cluster(Components(""))), {}).allowed);
  kube::AdmissionRequest status = Request("UPDATE", wrong, Cluster(Components("")));
  status.subresource = "status";
  EXPECT_TRUE(Validate(status, {}).allowed);
}

TEST(ValidationReview, AMistakeThatWasThereBeforeIsAWarning) {
  const Json before = Cluster(Components(""), kTwoDefaults);
  const Json repaired_in_part = Cluster(Components(std::string(R"("worker": )") + kWorker), kTwoDefaults);
  const auto response = Validate(Request("UPDATE", repaired_in_part, before), {});
  EXPECT_TRUE(response.allowed) << response.message;
  EXPECT_THAT(response.warnings, Contains(HasSubstr("at most one pool is the default")));
  const Json worse =
      Cluster(Components(R"("worker": {"podTemplate": {"template": {"spec": {"containers": []}}}})"), kTwoDefaults);
  const auto refused = Validate(Request("UPDATE", worse, before), {});
  EXPECT_FALSE(refused.allowed);
  EXPECT_THAT(refused.message, AllOf(HasSubstr("tensorfusion-worker"), Not(HasSubstr("isDefault"))));
}

TEST(ValidationReview, PoolsOfAClusterAreWrittenAsItSays) {
  Json pool = Parsed(R"({"kind": "GPUPool", "metadata": {"name": "tf-shared"}, "spec": {"nodeManagerConfig": {},
    "componentConfig": {"worker": {"podTemplate": {"template": {"spec": {"containers": []}}}}}}})");
  EXPECT_FALSE(Validate(Request("CREATE", pool), {}).allowed);
  pool.at("metadata").as_object()["labels"] = kube::JsonObject{{"tensor-fusion.ai/managed-by", "tf"}};
  const auto response = Validate(Request("CREATE", pool), {});
  EXPECT_TRUE(response.allowed);
  EXPECT_THAT(response.warnings, Contains(HasSubstr("tensorfusion-worker")));
  const Json before = Parsed(R"({"kind": "GPUPool", "metadata": {"name": "tf-shared"}, "spec": {}})");
  EXPECT_THAT(Validate(Request("UPDATE", pool, before), {}).warnings, Contains(HasSubstr("make the change there")));
}

}  // namespace
}  // namespace tf::operators
