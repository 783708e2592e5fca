// An API server that has PODS pods and, when told so, sends a watch as many changes of them as fast as it reads:
//
//   kube_bench_server [PODS]         prints its port, serves until standard input ends
//
// /api/v1/pods: lists and watches (WatchList too), as ModelServer does, but each watch gets changes of its own, of all
// pods in turn, after GET /bench/start?events=N. It costs little itself: texts are made once, only the version changes.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "support/scripted_server.h"

namespace {

using tf::testing::Answer;
using tf::testing::ScriptedRequest;

constexpr uint64_t kFirstVersion = 1'000'000'000;  // all versions have ten digits
constexpr size_t kDigits = 10;
constexpr size_t kBatch = 128 << 10;

// What a Deployment's pod with two containers looks like on a cluster, 5 kB; VERSION stands for the version.
std::string PodJson(int number) {
  const std::string name = absl::StrCat("web-frontend-7d9c5b8f6d-", 10000 + number);
  std::string containers, statuses;
  for (const char* container : {"server", "proxy"}) {
    absl::StrAppend(
        &containers, containers.empty() ? "" : ",", R"({"name":")", container, R"(","image":"registry.example/team/)",
        container, R"(:v1.24.3","command":["/usr/bin/)", container,
        R"(","--listen=0.0.0.0:8080"],"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],)"
        R"("env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}},)"
        R"({"name":"REGION","value":"eu-central-1"},{"name":"LOG_LEVEL","value":"info"}],)"
        R"("resources":{"limits":{"cpu":"2","memory":"4Gi"},"requests":{"cpu":"500m","memory":"1Gi"}},)"
        R"("volumeMounts":[{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],)"
        R"("livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,)"
        R"("successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log",)"
        R"("terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"})");
    absl::StrAppend(
        &statuses, statuses.empty() ? "" : ",", R"({"name":")", container,
        R"(","state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}},"lastState":{},"ready":true,)"
        R"("restartCount":0,"image":"registry.example/team/x:v1.24.3","imageID":"registry.example/team/x@sha256:)"
        R"(0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","containerID":"containerd://)"
        R"(0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","started":true})");
  }
  std::string conditions;
  for (const char* condition :
       {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
    absl::StrAppend(&conditions, conditions.empty() ? "" : ",", R"({"type":")", condition,
                    R"(","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z"})");
  }
  std::string managed;
  for (const char* manager : {"kube-controller-manager", "kubelet"}) {
    absl::StrAppend(
        &managed, managed.empty() ? "" : ",", R"({"manager":")", manager,
        R"(","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":)"
        R"({"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:tier":{},"f:pod-template-hash":{}},)"
        R"("f:ownerReferences":{".":{},"k:{\"uid\":\"11111111-2222-3333-4444-555555555555\"}":{}}},"f:spec":)"
        R"({"f:containers":{"k:{\"name\":\"server\"}":{".":{},"f:command":{},"f:env":{},"f:image":{},"f:resources":{}}}}}})");
  }
  return absl::StrCat(
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")", name,
      R"(","generateName":"web-frontend-7d9c5b8f6d-","namespace":"team-)", number % 20,
      R"(","uid":"3f2a6c1e-0000-4000-8000-0000000)", 10000 + number,
      R"(","resourceVersion":"VERSION","generation":1,"creationTimestamp":"2026-01-02T03:04:05Z",)"
      R"("labels":{"app":"web-frontend","tier":"frontend","pod-template-hash":"7d9c5b8f6d","team":"t"},)"
      R"("annotations":{"example.com/checksum":"0123456789abcdef","example.com/owner":"somebody"},)"
      R"("ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-frontend-7d9c5b8f6d",)"
      R"("uid":"11111111-2222-3333-4444-555555555555","controller":true,"blockOwnerDeletion":true}],"managedFields":[)",
      managed,
      R"(]},"spec":{"volumes":[{"name":"kube-api-access","projected":{"sources":[{"serviceAccountToken":)"
      R"({"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt",)"
      R"("path":"ca.crt"}]}}],"defaultMode":420}}],"containers":[)",
      containers,
      R"(],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",)"
      R"("serviceAccountName":"default","serviceAccount":"default","nodeName":"node-)",
      number % 500,
      R"(","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready",)"
      R"("operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true},)"
      R"("status":{"phase":"Running","conditions":[)",
      conditions,
      R"(],"hostIP":"10.0.0.1","podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}],"startTime":"2026-01-02T03:04:05Z",)"
      R"("containerStatuses":[)",
      statuses, R"(],"qosClass":"Burstable"}})");
}

class Server {
 public:
  explicit Server(int pods) {
    for (int i = 0; i < pods; ++i) {
      std::string json = PodJson(i);
      const size_t at = json.find("VERSION");
      pods_.push_back({json.replace(at, 7, absl::StrCat(kFirstVersion)), at});
    }
  }

  void Serve(const ScriptedRequest& request, Answer& answer) {
    if (request.path == "/bench/start") {
      const std::lock_guard<std::mutex> lock(mutex_);
      wanted_ = std::atoll(request.Query("events").c_str());
      changed_.notify_all();
      answer.Send(200, "{}");
    } else if (request.path != "/api/v1/pods") {
      answer.Send(404, R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404})");
    } else if (request.IsWatch()) {
      Watch(request, answer);
    } else {
      std::string body = absl::StrCat(R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":")",
                                      kFirstVersion, R"("},"items":[)");
      for (size_t i = 0; i < pods_.size(); ++i) absl::StrAppend(&body, i == 0 ? "" : ",", pods_[i].json);
      answer.Send(200, body + "]}");
    }
  }

 private:
  struct Pod {
    std::string json;
    size_t version_at;
  };

  void Watch(const ScriptedRequest& request, Answer& answer) {
    answer.Begin();
    std::string out;
    if (request.Query("sendInitialEvents") == "true") {
      for (const Pod& pod : pods_) {
        absl::StrAppend(&out, R"({"type":"ADDED","object":)", pod.json, "}\n");
        if (out.size() < kBatch) continue;
        if (!answer.Chunk(out)) return;
        out.clear();
      }
      absl::StrAppend(&out,
                      R"({"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":")",
                      kFirstVersion, R"(","annotations":{"k8s.io/initial-events-end":"true"}}}})", "\n");
      if (!answer.Chunk(out)) return;
    }
    int64_t events;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return wanted_ > 0; });
      events = wanted_;
      wanted_ = 0;
    }
    out.clear();
    for (int64_t i = 0; i < events; ++i) {
      const Pod& pod = pods_[static_cast<size_t>(i) % pods_.size()];
      out += R"({"type":"MODIFIED","object":)";
      const size_t at = out.size() + pod.version_at;
      out += pod.json;
      out.replace(at, kDigits, absl::StrCat(kFirstVersion + 1 + static_cast<uint64_t>(i)));
      out += "}\n";
      if (out.size() < kBatch && i + 1 < events) continue;
      if (!answer.Chunk(out)) return;
      out.clear();
    }
    answer.Hold();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t wanted_ = 0;
  std::vector<Pod> pods_;
};

}  // namespace

int main(int argc, char** argv) {
  Server pods(argc > 1 ? std::atoi(argv[1]) : 10'000);
  tf::testing::ScriptedServer server(
      [&pods](const ScriptedRequest& request, Answer& answer) { pods.Serve(request, answer); });
  std::cout << server.port() << std::endl;
  while (std::getchar() != EOF) {
  }
  std::_Exit(0);  // watches may wait for a start
}
