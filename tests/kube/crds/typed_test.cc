// The structs of src/api against a real API server, which crds_test.py starts: TF_TEST_SERVER and TF_TEST_TOKEN say
// where.
#include "api/typed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "api/core.h"
#include "api/defaults.h"
#include "api/gpu.h"
#include "api/gpu_node.h"
#include "api/gpu_pool.h"
#include "api/provider_config.h"
#include "api/scheduling.h"
#include "api/tensor_fusion_cluster.h"
#include "api/testing.h"
#include "api/workload.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/error.h"

namespace tf::api {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set: crds_test.py sets it");
  return value;
}

class Typed : public ::testing::Test {
 protected:
  Typed() {
    auto config = std::make_shared<kube::Config>();
    config->server = Environment("TF_TEST_SERVER");
    config->token = Environment("TF_TEST_TOKEN");
    config->insecure_skip_tls_verify = true;
    client_ = std::make_unique<kube::Client>(config, "typed-test");
  }

  // Made from JSON, read into the struct, written back: the server sees no change, so the version stays.
  template <typename T>
  void ReadAndWriteChangesNothing(Json json) {
    auto made = client_->Create(T::kResource, json);
    ASSERT_TRUE(made.ok()) << T::kResource.kind << ": " << made.status();
    const kube::Key key = kube::KeyOf(*made);
    if (const Json* status = json.get_object().if_contains("status"); status != nullptr && *status != JsonObject()) {
      made->get_object()["status"] = *status;
      auto updated = client_->UpdateStatus(T::kResource, *made);
      ASSERT_TRUE(updated.ok()) << T::kResource.kind << " " << key.ToString() << ": " << updated.status();
    }
    auto read = Get<T>(*client_, key);
    ASSERT_TRUE(read.ok()) << read.status();
    auto written = Update(*client_, *read);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->metadata.resourceVersion, read->metadata.resourceVersion) << T::kResource.kind;
    if constexpr (requires { read->status; }) {
      auto status = UpdateStatus(*client_, *read);
      ASSERT_TRUE(status.ok()) << status.status();
      EXPECT_EQ(status->metadata.resourceVersion, read->metadata.resourceVersion) << T::kResource.kind;
    }
    auto listed = List<T>(*client_, T::kResource.namespaced ? key.ns : "");
    ASSERT_TRUE(listed.ok()) << listed.status();
    EXPECT_TRUE(std::any_of(listed->begin(), listed->end(), [&](const T& one) { return one.metadata.Key() == key; }));
    EXPECT_TRUE(client_->Delete(T::kResource, key).ok());
  }

  void ReadAndWriteChangesNothing(const Json& json) {
    const std::string_view kind = kube::Text(json, "kind");
    if (kind == "TensorFusionCluster") return ReadAndWriteChangesNothing<TensorFusionCluster>(json);
    if (kind == "GPUPool") return ReadAndWriteChangesNothing<GPUPool>(json);
    if (kind == "GPUNode") return ReadAndWriteChangesNothing<GPUNode>(json);
    if (kind == "GPU") return ReadAndWriteChangesNothing<GPU>(json);
    if (kind == "GPUNodeClaim") return ReadAndWriteChangesNothing<GPUNodeClaim>(json);
    if (kind == "GPUNodeClass") return ReadAndWriteChangesNothing<GPUNodeClass>(json);
    if (kind == "ProviderConfig") return ReadAndWriteChangesNothing<ProviderConfig>(json);
    if (kind == "SchedulingConfigTemplate") return ReadAndWriteChangesNothing<SchedulingConfigTemplate>(json);
    if (kind == "GPUResourceQuota") return ReadAndWriteChangesNothing<GPUResourceQuota>(json);
    if (kind == "TensorFusionWorkload") return ReadAndWriteChangesNothing<TensorFusionWorkload>(json);
    if (kind == "TensorFusionConnection") return ReadAndWriteChangesNothing<TensorFusionConnection>(json);
    if (kind == "WorkloadProfile") return ReadAndWriteChangesNothing<WorkloadProfile>(json);
    FAIL() << "no struct for " << kind;
  }

  std::unique_ptr<kube::Client> client_;
};

Json Parsed(const std::string& text) { return boost::json::parse(text); }

TEST_F(Typed, SamplesAreReadAndWrittenWithoutAChange) {
  int count = 0;
  for (const testing::Sample& sample : testing::Samples()) {
    if (!kube::Text(sample.json, "apiVersion").starts_with("tensor-fusion.ai/")) continue;
    ReadAndWriteChangesNothing(sample.json);
    ++count;
  }
  EXPECT_GE(count, 16);
}

TEST_F(Typed, CoreObjectsAreReadAndWrittenWithoutAChange) {
  ReadAndWriteChangesNothing<Pod>(Parsed(R"({"apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"serviceAccountName": "default", "automountServiceAccountToken": false,
      "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/tmp"}},
                  {"name": "c", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}},
                                                          {"configMap": {"name": "x"}}]}}],
      "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}],
      "containers": [{"name": "main", "image": "i", "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "0.5"}},
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "value": ""}],
        "livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"exec": {"command": ["true"]}},
        "lifecycle": {"preStop": {"exec": {"command": ["true"]}}}, "securityContext": {"runAsUser": 0}}]}})"));
  ReadAndWriteChangesNothing<Node>(Parsed(R"({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
    "status": {"capacity": {"cpu": "16", "memory": "65771836Ki"},
               "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}]}})"));
  ReadAndWriteChangesNothing<Secret>(Parsed(R"({"apiVersion": "v1", "kind": "Secret",
    "metadata": {"name": "s", "namespace": "default"}, "data": {"a": "Yg==", "empty": ""}})"));
  ReadAndWriteChangesNothing<ConfigMap>(Parsed(R"({"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "default"}, "data": {"a": ""}, "binaryData": {"b": "AAE="}})"));
  ReadAndWriteChangesNothing<Lease>(Parsed(R"({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
    "metadata": {"name": "l", "namespace": "default"},
    "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-11-30T17:00:00.123456Z"}})"));
  ReadAndWriteChangesNothing<Event>(Parsed(R"({"apiVersion": "events.k8s.io/v1", "kind": "Event",
    "metadata": {"name": "e", "namespace": "default"}, "eventTime": "2026-11-30T17:00:00.000000Z",
    "reportingController": "test/c", "reportingInstance": "i", "action": "Act", "reason": "Because", "type": "Normal",
    "note": "n", "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p"}})"));
  ReadAndWriteChangesNothing<ControllerRevision>(Parsed(R"({"apiVersion": "apps/v1", "kind": "ControllerRevision",
    "metadata": {"name": "r", "namespace": "default"}, "data": {"spec": {"image": "i"}}, "revision": 1})"));
}

TEST_F(Typed, StructsMakeObjects) {
  GPUPool pool;
  pool.metadata.name = "made";
  pool.spec = WithDefaults(GPUPoolSpec{});
  auto made = Create(*client_, pool);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->spec.nodeManagerConfig.nodePoolRollingUpdatePolicy->batchPercentage, 100);

  // A status of nothing but zeros has all that the schema requires.
  made->status.phase = "Pending";
  made->status.rollouts.push_back({.component = "worker"});
  made->status.license.emplace().state = "missing";
  auto status = UpdateStatus(*client_, *made);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->status.rollouts.size(), 1u);

  EXPECT_TRUE(kube::IsAlreadyExists(Create(*client_, pool).status()));
  auto stale = Update(*client_, *made);
  EXPECT_TRUE(kube::IsConflict(stale.status())) << stale.status();
  EXPECT_TRUE(client_->Delete(GPUPool::kResource, {"", "made"}).ok());
  auto gone = Get<GPUPool>(*client_, {"", "made"});
  EXPECT_TRUE(kube::IsNotFound(gone.status())) << gone.status();

  GPUPool bad = pool;
  bad.spec.nodeManagerConfig.nodePoolRollingUpdatePolicy->batchPercentage = 0;
  auto refused = Create(*client_, bad);
  EXPECT_TRUE(kube::IsInvalid(refused.status()));
  const auto details = kube::DetailsOf(refused.status());
  ASSERT_TRUE(details.has_value());
  ASSERT_EQ(details->causes.size(), 1u);
  EXPECT_EQ(details->causes[0].field, "spec.nodeManagerConfig.nodePoolRollingUpdatePolicy.batchPercentage");
}

// The statuses that controllers write from nothing.
template <typename T>
void WriteBareStatus(kube::Client& client, T value) {
  value.metadata.name = "bare";
  if (T::kResource.namespaced) value.metadata.namespace_ = "default";
  auto made = Create(client, value);
  ASSERT_TRUE(made.ok()) << T::kResource.kind << made.status();
  made->status.conditions.push_back(
      {.type = "Ready", .status = "True", .reason = "Test", .lastTransitionTime = Time(absl::Now())});
  if constexpr (requires { made->status.phase; }) made->status.phase = "Pending";
  auto status = UpdateStatus(client, *made);
  EXPECT_TRUE(status.ok()) << T::kResource.kind << ": " << status.status();
  EXPECT_TRUE(client.Delete(T::kResource, made->metadata.Key()).ok());
}

TEST_F(Typed, BareStatusesAreComplete) {
  WriteBareStatus(*client_, TensorFusionCluster{});
  WriteBareStatus(*client_, GPUNode{});
  WriteBareStatus(*client_, GPUResourceQuota{});
  WriteBareStatus(*client_, TensorFusionWorkload{});
  GPU gpu;
  gpu.metadata.name = "bare";
  auto made = Create(*client_, gpu);
  ASSERT_TRUE(made.ok()) << made.status();
  made->status.phase = "Pending";
  made->status.vendor = "NVIDIA";
  auto status = UpdateStatus(*client_, *made);
  EXPECT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(client_->Delete(GPU::kResource, {"", "bare"}).ok());
}

TEST_F(Typed, WhatCannotBeReadIsNamed) {
  auto pod = client_->Create(ConfigMap::kResource, Parsed(R"({"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": "odd", "namespace": "default"}, "data": {"a": "b"}})"));
  ASSERT_TRUE(pod.ok()) << pod.status();
  pod->get_object()["data"] = 7;
  auto read = FromObject<ConfigMap>(*pod);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().message(), "ConfigMap default/odd: data: expected an object, found a number");
  EXPECT_TRUE(absl::IsNotFound(FromObject<ConfigMap>(kube::ObjectPtr()).status()));
  EXPECT_TRUE(client_->Delete(ConfigMap::kResource, {"default", "odd"}).ok());
}

}  // namespace
}  // namespace tf::api
