#include "standalone/status.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "standalone/data_folder.h"
#include "standalone/temporary_folder.h"

namespace tf::standalone {
namespace {

const ClusterStatus kStatus{.state = "ready",
                            .version = "1.2.3",
                            .pid = 42,
                            .server = "https://127.0.0.1:1",
                            .kubeconfig = "/x/\"y\"",
                            .nodes = 3,
                            .gpus_per_node = "T4:1",
                            .parts = {{.name = "etcd", .pid = 43, .restarts = 2, .last_end = "was ended by signal 9"},
                                      {.name = "kube-apiserver", .pid = 44, .port = 1}}};

TEST(Status, ThereAndBack) {
  const auto parsed = ParseStatus(FormatStatus(kStatus));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, kStatus);
}

TEST(Status, WhatIsNoStatusIsAnError) {
  for (const char* broken : {"", "[]", "{}", "{\"state\": \"ready\"}", "{\"state\": 1, \"pid\": 1}", "{"}) {
    EXPECT_FALSE(ParseStatus(broken).ok()) << broken;
  }
}

TEST(Status, BelongsToTheProcessThatHasTheFolder) {
  const TemporaryFolder temporary;
  ASSERT_TRUE(WriteStatus(temporary.path(), kStatus).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadStatus(temporary.path()).status())) << "left by a process that is gone";

  const auto folder = DataFolder::Open(temporary.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  auto status = ReadStatus(temporary.path());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->state, "starting");
  EXPECT_EQ(status->pid, getpid());

  ClusterStatus ours = kStatus;
  ours.pid = getpid();
  ASSERT_TRUE(WriteStatus(temporary.path(), ours).ok());
  status = ReadStatus(temporary.path());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(*status, ours);
}

}  // namespace
}  // namespace tf::standalone
