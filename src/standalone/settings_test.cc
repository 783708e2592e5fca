#include "standalone/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tf::standalone {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const Layout kLayout{
    .folder = "/data", .api_server_port = 1001, .controller_manager_port = 1002, .scheduler_port = 1003};

// Rule 26: whatever has an address has one of this machine only.
TEST(Settings, NothingListensBeyondLoopback) {
  for (const auto& arguments :
       {ApiServerArguments(kLayout), ControllerManagerArguments(kLayout), SchedulerArguments(kLayout)}) {
    EXPECT_THAT(arguments, Contains("--bind-address=127.0.0.1"));
  }
  for (const std::string& flag : EtcdArguments(kLayout)) {
    if (flag.starts_with("--listen-")) {
      EXPECT_THAT(flag, HasSubstr("-urls=unix://"));
      EXPECT_THAT(flag, Not(HasSubstr(",")));
    }
  }
}

TEST(Settings, EtcdWritesThroughUnlessToldNotTo) {
  EXPECT_THAT(EtcdArguments(kLayout), Not(Contains(HasSubstr("no-fsync"))));
  Layout fast = kLayout;
  fast.fsync = false;
  EXPECT_THAT(EtcdArguments(fast), Contains("--unsafe-no-fsync"));
}

TEST(Settings, MoreFlagsOfTheApiServerComeLast) {
  Layout layout = kLayout;
  layout.api_server_flags = {"--audit-log-path=/x", "--authorization-mode=AlwaysAllow"};
  EXPECT_EQ(ApiServerArguments(layout).back(), "--authorization-mode=AlwaysAllow");
  EXPECT_THAT(ApiServerArguments(layout), Contains("--secure-port=1001"));
}

TEST(Settings, TheSchedulerFindsItsKubeconfig) {
  EXPECT_THAT(SchedulerArguments(kLayout), Contains("--config=/data/run/scheduler.yaml"));
  EXPECT_THAT(SchedulerConfig(kLayout), HasSubstr("kubeconfig: \"/data/run/scheduler.kubeconfig\""));
  EXPECT_THAT(SchedulerArguments(kLayout), Contains(StartsWith("--secure-port=1003")));
  EXPECT_THAT(ControllerManagerArguments(kLayout), Contains("--secure-port=1002"));
}

TEST(Settings, WithAnExtenderThereIsASchedulerForPodsWithAVgpu) {
  EXPECT_THAT(SchedulerConfig(kLayout), Not(HasSubstr("extenders")));
  Layout layout = kLayout;
  layout.scheduler_extender = "http://127.0.0.1:1004";
  EXPECT_THAT(SchedulerConfig(layout), HasSubstr("- urlPrefix: \"http://127.0.0.1:1004\"\n"));
  EXPECT_THAT(SchedulerConfig(layout), HasSubstr("- schedulerName: tensor-fusion-scheduler\n"));
}

}  // namespace
}  // namespace tf::standalone
