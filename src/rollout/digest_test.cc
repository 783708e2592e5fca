#include "rollout/digest.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace tf::rollout {
namespace {

std::string Pod(const std::string& text) { return CanonicalText(CanonicalPodTemplate(boost::json::parse(text))); }
std::string Component(const std::string& text) { return CanonicalText(CanonicalComponent(boost::json::parse(text))); }

// A pod template around one container's fields.
std::string Container(const std::string& fields) {
  return Pod(R"({"spec": {"containers": [{"name": "c", "image": "x:1")" + (fields.empty() ? "" : "," + fields) +
             "}]}}");
}

TEST(CanonicalPodTemplate, WaysToWriteTheSameAreTheSame) {
  const std::pair<const char*, const char*> kSame[] = {
      {R"({"spec": {"hostIPC": true, "nodeName": "a"}})", R"({"spec": {"nodeName": "a", "hostIPC": true}})"},
      {R"({"metadata": {"creationTimestamp": null, "labels": {}}, "spec": {"nodeName": "a"}, "status": {}})",
       R"({"spec": {"nodeName": "a"}})"},
      {R"({"metadata": {"name": "x", "generation": 3, "labels": {"a": "b"}}})",
       R"({"metadata": {"labels": {"a": "b"}}})"},
      {R"({"spec": {"tolerations": null, "imagePullSecrets": [], "nodeSelector": {}, "affinity": {}}})", R"({})"},
      {R"({"spec": {"restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {}}})",
       R"({})"},
      {R"({"spec": {"serviceAccountName": "a", "serviceAccount": "a"}})", R"({"spec": {"serviceAccountName": "a"}})"},
      {R"({"spec": {"volumes": [{"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
                                {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}]}})",
       R"({"spec": {"volumes": [{"name": "a", "emptyDir": {"sizeLimit": 1073741824}},
                                {"name": "b", "secret": {"secretName": "s"}}]}})"},
      {R"({"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}})",
       R"({"spec": {"tolerations": [{"key": "b"}, {"key": "a"}]}})"},
      {R"({"spec": {"priority": 3.0}})", R"({"spec": {"priority": 3}})"},
  };
  for (const auto& [a, b] : kSame) EXPECT_EQ(Pod(a), Pod(b)) << a;
}

TEST(CanonicalPodTemplate, ContainersWrittenInSeveralWaysAreTheSame) {
  const std::pair<const char*, const char*> kSame[] = {
      {R"("resources": {"limits": {"cpu": 1}})", R"("resources": {"limits": {"cpu": "1000m"}})"},
      {R"("resources": {"limits": {"cpu": "1"}})", R"("resources": {"limits": {"cpu": "1000m"}})"},
      {R"("resources": {"limits": {"cpu": 0.5}})", R"("resources": {"limits": {"cpu": "500m"}})"},
      {R"("resources": {"limits": {"memory": "1Gi"}, "requests": {}})",
       R"("resources": {"limits": {"memory": "1024Mi"}})"},
      {R"("resources": {})", ""},
      {R"("imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log")", ""},
      {R"("terminationMessagePolicy": "File", "stdin": false, "tty": false, "securityContext": {}, "command": [])", ""},
      {R"("env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])",
       R"("env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}])"},
      {R"("env": [{"name": "A", "value": ""}])", R"("env": [{"name": "A"}])"},
      {R"("env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}}])",
       R"("env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}])"},
      {R"("ports": [{"containerPort": 2, "protocol": "TCP"}, {"containerPort": 1}])",
       R"("ports": [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 2}])"},
      {R"("volumeMounts": [{"name": "b", "mountPath": "/b", "readOnly": false}, {"name": "a", "mountPath": "/a"}])",
       R"("volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}])"},
      {R"("readinessProbe": {"httpGet": {"path": "/", "port": 1, "scheme": "HTTP"}, "periodSeconds": 10,
          "timeoutSeconds": 1, "failureThreshold": 3, "successThreshold": 1})",
       R"("readinessProbe": {"httpGet": {"port": 1, "path": "/"}})"},
      {R"("securityContext": {"capabilities": {"add": ["B", "A"]}})",
       R"("securityContext": {"capabilities": {"add": ["A", "B"], "drop": []}})"},
  };
  for (const auto& [a, b] : kSame) EXPECT_EQ(Container(a), Container(b)) << a;
}

TEST(CanonicalPodTemplate, WhatMeansSomethingElseIsDifferent) {
  const std::pair<const char*, const char*> kDifferent[] = {
      {R"("env": [{"name": "A", "value": "1"}])", R"("env": [{"name": "A", "value": "2"}])"},
      // $(A) is A's value only after A.
      {R"x("env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}])x",
       R"x("env": [{"name": "B", "value": "$(A)"}, {"name": "A", "value": "1"}])x"},
      // The last one counts.
      {R"("env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])",
       R"("env": [{"name": "A", "value": "2"}, {"name": "A", "value": "1"}])"},
      {R"("envFrom": [{"secretRef": {"name": "a"}}, {"secretRef": {"name": "b"}}])",
       R"("envFrom": [{"secretRef": {"name": "b"}}, {"secretRef": {"name": "a"}}])"},
      {R"("args": ["a", "b"])", R"("args": ["b", "a"])"},
      {R"("resources": {"limits": {"cpu": "1"}})", R"("resources": {"limits": {"cpu": "1001m"}})"},
      {R"("resources": {"limits": {"memory": "1G"}})", R"("resources": {"limits": {"memory": "1Gi"}})"},
      {R"("resources": {"limits": {"x/y": "lots"}})", R"("resources": {"limits": {"x/y": "more"}})"},
      {R"("securityContext": {"privileged": false})", ""},
      {R"("imagePullPolicy": "Always")", ""},
      {R"("securityContext": {"allowPrivilegeEscalation": false})", ""},
      {R"("readinessProbe": {"periodSeconds": 9})", R"("readinessProbe": {})"},
  };
  for (const auto& [a, b] : kDifferent) EXPECT_NE(Container(a), Container(b)) << a;
  EXPECT_NE(Pod(R"({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}})"),
            Pod(R"({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}})"));
  // Ours otherwise.
  EXPECT_NE(Pod(R"({"spec": {"terminationGracePeriodSeconds": 30}})"), Pod("{}"));
  EXPECT_NE(Pod(R"({"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}})"),
            Pod(R"({"spec": {"volumes": [{"name": "a"}]}})"));
}

TEST(CanonicalPodTemplate, ThePullPolicyThatATagImpliesSaysNothing) {
  const auto with = [](const char* image, const char* policy) {
    return Pod(std::string(R"({"spec": {"containers": [{"image": ")") + image + R"(", "imagePullPolicy": ")" + policy +
               R"("}]}})");
  };
  const auto without = [](const char* image) {
    return Pod(std::string(R"({"spec": {"containers": [{"image": ")") + image + R"("}]}})");
  };
  for (const char* latest : {"a", "a:latest", "r:5000/a", "r:5000/a:latest"}) {
    EXPECT_EQ(with(latest, "Always"), without(latest)) << latest;
    EXPECT_NE(with(latest, "IfNotPresent"), without(latest)) << latest;
  }
  for (const char* fixed : {"a:1", "r:5000/a:1", "a@sha256:00", "a:latest@sha256:00"}) {
    EXPECT_EQ(with(fixed, "IfNotPresent"), without(fixed)) << fixed;
    EXPECT_NE(with(fixed, "Always"), without(fixed)) << fixed;
  }
}

TEST(CanonicalComponent, DefaultsAndWhatHasNoEffectDoNotCount) {
  EXPECT_EQ(
      Component(R"({"image": "a", "portNumber": 8000, "enableVector": false, "vectorImage": "", "podTemplate": {}})"),
      Component(R"({"image": "a"})"));
  EXPECT_NE(Component(R"({"image": "a", "portNumber": 8001})"), Component(R"({"image": "a"})"));
  EXPECT_NE(Component(R"({"image": "a"})"), Component(R"({"image": "b"})"));
  EXPECT_EQ(Component(R"({"image": "a", "remoteModeImage": "x", "embeddedModeImage": "y"})"),
            Component(R"({"image": "a"})"));
  EXPECT_EQ(
      Component(R"({"podTemplate": {"metadata": {"name": "x"}, "template": {"spec": {"restartPolicy": "Always"}}}})"),
      Component("{}"));
  EXPECT_EQ(Component("null"), "{}");
  EXPECT_EQ(Component("[1]"), "{}");
}

TEST(CanonicalComponent, InPatchesNullAndDefaultsMeanSomething) {
  EXPECT_NE(Component(R"({"patchToContainer": {"command": null}})"),
            Component(R"({"patchToContainer": {"tty": true}})"));
  EXPECT_NE(Component(R"({"patchToContainer": {"command": null}})"), Component("{}"));
  EXPECT_NE(Component(R"({"patchToPod": {"spec": {"restartPolicy": "Always"}}})"), Component("{}"));
  EXPECT_EQ(Component(R"({"patchToPod": {"metadata": {"creationTimestamp": null}, "status": {}}})"), Component("{}"));
  EXPECT_EQ(Component(R"({"patchToContainer": {"resources": {"limits": {"cpu": 1}}}})"),
            Component(R"({"patchToContainer": {"resources": {"limits": {"cpu": "1000m"}}}})"));
}

TEST(CanonicalText, OrdersMembersAndKeepsElements) {
  EXPECT_EQ(CanonicalText(boost::json::parse(R"({"b": [2, 1.0, 0.5], "a": {"z": null, "y": "\u00e9\""}})")),
            R"({"a":{"y":")"
            "\u00e9"
            R"(\"","z":null},"b":[2,1,5E-1]})");
}

TEST(Digest, IsStable) {
  EXPECT_EQ(Digest(""), "e3b0c44298fc1c14");
  EXPECT_EQ(Digest("abc"), "ba7816bf8f01cfea");
}

}  // namespace
}  // namespace tf::rollout
