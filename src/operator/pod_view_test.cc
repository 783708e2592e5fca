#include "operator/pod_view.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace tf::operators {
namespace {

kube::Json Pod(std::string_view status, std::string_view more = "") {
  const auto pod = kube::ParseJson(absl::StrCat(
      R"({"metadata": {"name": "p", "namespace": "a", "uid": "u", "resourceVersion": "7",
          "creationTimestamp": "2027-01-01T00:00:00Z")",
      absl::string_view(more.data(), more.size()), R"(}, "status": )", absl::string_view(status.data(), status.size()),
      "}"));
  EXPECT_TRUE(pod.ok()) << pod.status();
  return *pod;
}

struct Row {
  const char* status;
  const char* reason;
  const char* message;
};

TEST(TroubleOf, NamesTheCause) {
  const Row rows[] = {
      {R"({"containerStatuses": [{"name": "w", "image": "worker:2", "state": {"waiting":
           {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}]})",
       "ImagePullBackOff", "image worker:2 of container w cannot be pulled: Back-off pulling image"},
      {R"({"containerStatuses": [{"name": "w", "image": "worker:2", "state": {"waiting": {"reason": "ErrImagePull"}}}]})",
       "ErrImagePull", "image worker:2 of container w cannot be pulled"},
      {R"({"containerStatuses": [{"name": "w", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
           "lastState": {"terminated": {"exitCode": 78, "reason": "Error"}}}]})",
       "CrashLoopBackOff", "container w ends again and again, last with exit code 78"},
      {R"({"containerStatuses": [{"name": "w", "state": {"waiting": {"reason": "CreateContainerConfigError",
           "message": "secret \"lic\" not found"}}}]})",
       "CreateContainerConfigError", "container w: secret \"lic\" not found"},
      {R"({"containerStatuses": [{"name": "w", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]})",
       "ContainerEnded", "container w ended with exit code 137 (OOMKilled)"},
      {R"({"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}},
           {"name": "j", "state": {"terminated": {"exitCode": 3}}}]})",
       "ContainerEnded", "init container j ended with exit code 3"},
      {R"({"containerStatuses": [{"name": "w", "ready": false, "restartCount": 2, "state": {"running": {}},
           "lastState": {"terminated": {"exitCode": 1}}}]})",
       "ContainerRestarted", "container w was restarted 2 times, last after exit code 1"},
      {R"({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
           "message": "0/3 nodes are available"}]})",
       "Unschedulable", "0/3 nodes are available"},
      {R"({"conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady",
           "message": "containers with unready status: [w]"}],
           "containerStatuses": [{"name": "w", "state": {"running": {}}}]})",
       "ContainersNotReady", "containers with unready status: [w]"},
      {R"({"containerStatuses": [{"name": "w", "state": {"waiting": {"reason": "ContainerCreating"}}}]})", "", ""},
      {"{}", "", ""},
  };
  for (const Row& row : rows) {
    const Trouble trouble = TroubleOf(Pod(row.status));
    EXPECT_EQ(trouble.reason, row.reason) << row.status;
    EXPECT_EQ(trouble.message, row.message) << row.status;
  }
}

kube::Json OwnedBy(std::string_view api_version, std::string_view kind) {
  return Pod("{}",
             absl::StrCat(R"(, "ownerReferences": [{"apiVersion": ")",
                          absl::string_view(api_version.data(), api_version.size()), R"(", "kind": ")",
                          absl::string_view(kind.data(), kind.size()), R"(", "name": "o", "controller": true}])"));
}

TEST(ReplaceOf, DependsOnWhoWouldMakeItAgain) {
  using rollout::Replace;
  EXPECT_EQ(ReplaceOf(OwnedBy("tensor-fusion.ai/v1", "TensorFusionWorkload")), Replace::kDelete);
  EXPECT_EQ(ReplaceOf(OwnedBy("tensor-fusion.ai/v1", "GPUNode")), Replace::kDelete);
  EXPECT_EQ(ReplaceOf(OwnedBy("apps/v1", "ReplicaSet")), Replace::kEvict);
  EXPECT_EQ(ReplaceOf(OwnedBy("apps/v1", "StatefulSet")), Replace::kEvict);
  EXPECT_EQ(ReplaceOf(OwnedBy("batch/v1", "Job")), Replace::kManual);
  EXPECT_EQ(ReplaceOf(OwnedBy("v1", "Node")), Replace::kManual);
  EXPECT_EQ(ReplaceOf(Pod("{}")), Replace::kManual);
}

TEST(Seen, ReadyNeedsTheNodeToSaySo) {
  const kube::Json pod = Pod(R"({"conditions": [{"type": "Ready", "status": "True",
                                 "lastTransitionTime": "2027-01-01T00:01:00Z"}]})");
  EXPECT_TRUE(Seen(pod, true).ready);
  EXPECT_FALSE(Seen(pod, false).ready);
  EXPECT_EQ(absl::FormatTime(Seen(pod, true).since, absl::UTCTimeZone()), "2027-01-01T00:01:00+00:00");
  EXPECT_EQ(Seen(pod, true).resource_version, "7");
}

}  // namespace
}  // namespace tf::operators
