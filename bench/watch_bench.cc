// The way of an event from the bytes of a watch to a shared object, and what such an object takes in memory.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kube/object.h"
#include "kube/watch_parser.h"

namespace {

using tf::kube::Json;
using tf::kube::ObjectPtr;

// A pod as an API server sends it, with the managed fields that make up half of it.
std::string PodText(int number) {
  return absl::StrCat(
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"worker-7d9c6b7f5-)", number,
      R"(","generateName":"worker-7d9c6b7f5-","namespace":"tensor-fusion-sys","uid":"0b0f4c3e-8f55-4c5e-9b43-2f1f5a)",
      number, R"(","resourceVersion":")", 100000 + number,
      R"(","creationTimestamp":"2026-01-01T10:00:00Z","labels":{"app":"worker","pod-template-hash":"7d9c6b7f5","tensor-fusion.ai/pool":"shared"},)"
      R"("annotations":{"tensor-fusion.ai/tflops-request":"10","tensor-fusion.ai/vram-request":"8Gi"},"ownerReferences":[{"apiVersion":"apps/v1",)"
      R"("kind":"ReplicaSet","name":"worker-7d9c6b7f5","uid":"a83f6c0e-2b66-4e9c-bb5e-3d3f0a1b2c3d","controller":true,"blockOwnerDeletion":true}],)"
      R"("managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-01T10:00:00Z","fieldsType":"FieldsV1",)"
      R"("fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:tensor-fusion.ai/tflops-request":{},"f:tensor-fusion.ai/vram-request":{}},"f:generateName":{},)"
      R"("f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"a83f6c0e-2b66-4e9c-bb5e-3d3f0a1b2c3d\"}":{}}},)"
      R"("f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},)"
      R"("f:imagePullPolicy":{},"f:name":{},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{}}},)"
      R"("f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}}]},)"
      R"("spec":{"volumes":[{"name":"kube-api-access-x7k2p","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},)"
      R"({"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace",)"
      R"("fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":[{"name":"main",)"
      R"("image":"tensorfusion/tensor-fusion-worker:1.0","command":["/worker","--port=0"],"env":[{"name":"A","value":"b"},{"name":"NODE","valueFrom":)"
      R"({"fieldRef":{"apiVersion":"v1","fieldPath":"spec.nodeName"}}}],"resources":{"limits":{"cpu":"2","memory":"4Gi"},"requests":{"cpu":"1","memory":"2Gi"}},)"
      R"("volumeMounts":[{"name":"kube-api-access-x7k2p","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],)"
      R"("terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always",)"
      R"("terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-17",)"
      R"("securityContext":{},"schedulerName":"tensor-fusion-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists",)"
      R"("effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute",)"
      R"("tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running",)"
      R"("conditions":[{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T10:00:00Z"},{"type":"Ready",)"
      R"("status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T10:00:02Z"},{"type":"ContainersReady","status":"True","lastProbeTime":null,)"
      R"("lastTransitionTime":"2026-01-01T10:00:02Z"},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":)"
      R"("2026-01-01T10:00:00Z"}],"hostIP":"10.0.0.17","podIP":"10.1.0.5","podIPs":[{"ip":"10.1.0.5"}],"startTime":"2026-01-01T10:00:00Z",)"
      R"("containerStatuses":[{"name":"main","state":{"running":{"startedAt":"2026-01-01T10:00:01Z"}},"lastState":{},"ready":true,"restartCount":0,)"
      R"("image":"tensorfusion/tensor-fusion-worker:1.0","imageID":"sha256:0123456789abcdef","containerID":"containerd://0123456789abcdef","started":true}],)"
      R"("qosClass":"Burstable"}})");
}

// Full objects out of the stream of a watch, in the pieces in which the client gets it.
void BM_WatchEvents(benchmark::State& state) {
  constexpr int kEvents = 1000;
  constexpr size_t kPiece = 64 << 10;
  std::string stream;
  for (int i = 0; i < kEvents; ++i) absl::StrAppend(&stream, R"({"type":"MODIFIED","object":)", PodText(i), "}\n");
  int64_t events = 0;
  for (auto _ : state) {
    ObjectPtr last;
    tf::kube::WatchParser parser([&](tf::kube::WatchEvent event) {
      last = std::move(event.object);
      ++events;
      return true;
    });
    for (size_t at = 0; at < stream.size(); at += kPiece) parser.Feed(std::string_view(stream).substr(at, kPiece));
  }
  state.SetItemsProcessed(events);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * stream.size()));
  state.counters["bytes_of_text"] = static_cast<double>(stream.size()) / kEvents;
}
BENCHMARK(BM_WatchEvents);

size_t HeapInUse() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

// Heap bytes of one object: in a block, and as Boost.JSON makes it by itself.
void BM_ObjectsInMemory(benchmark::State& state) {
  constexpr int kObjects = 2000;
  const bool shared = state.range(0) != 0;
  std::vector<std::string> texts;
  for (int i = 0; i < kObjects; ++i) texts.push_back(PodText(i));
  double bytes = 0;
  for (auto _ : state) {
    std::vector<ObjectPtr> objects;
    objects.reserve(kObjects);
    const size_t before = HeapInUse();
    for (const std::string& text : texts) {
      objects.push_back(shared ? *tf::kube::ParseShared(text)
                               : std::make_shared<const Json>(*tf::kube::ParseJson(text)));
    }
    bytes = static_cast<double>(HeapInUse() - before) / kObjects;
  }
  state.counters["bytes_each"] = bytes;
  state.counters["bytes_of_text"] = static_cast<double>(texts[0].size());
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kObjects);
}
BENCHMARK(BM_ObjectsInMemory)->ArgName("block")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
