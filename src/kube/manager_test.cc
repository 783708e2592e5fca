#include "kube/manager.h"

#include <signal.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// No API server is there; what needs one is in tests/kube.
ManagerOptions Options() {
  return {.name = "test",
          .connection = Config{.server = "https://127.0.0.1:1"},
          .health = {.address = "127.0.0.1", .port = 0}};
}

std::unique_ptr<Manager> Make(ManagerOptions options = Options()) {
  auto made = Manager::Make(std::move(options));
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

Part Noting(std::vector<std::string>& notes, std::string name, bool needs_lease, absl::Status start = {}) {
  return {.name = name,
          .start =
              [&notes, name, start] {
                notes.push_back("+" + name);
                return start;
              },
          .stop = [&notes, name] { notes.push_back("-" + name); },
          .needs_lease = needs_lease};
}

TEST(Manager, StartsInOrderAndStopsInTheReverseOrder) {
  std::vector<std::string> notes;
  auto manager = Make();
  manager->Add(Noting(notes, "controller", true));
  manager->Add(Noting(notes, "everywhere", false));
  Manager* running = manager.get();
  manager->Add({.name = "last",
                .start =
                    [running] {
                      running->Stop();
                      return absl::OkStatus();
                    },
                .stop = [] {}});
  EXPECT_EQ(manager->Run(), 0);
  EXPECT_THAT(notes, ElementsAre("+everywhere", "+controller", "-controller", "-everywhere"));
}

TEST(Manager, WhatCannotStartEndsItAndTheRestIsStopped) {
  std::vector<std::string> notes;
  auto manager = Make();
  manager->Add(Noting(notes, "first", true));
  manager->Add(Noting(notes, "broken", true, absl::UnavailableError("no")));
  manager->Add(Noting(notes, "never", true));
  EXPECT_EQ(manager->Run(), 1);
  EXPECT_THAT(notes, ElementsAre("+first", "+broken", "-first"));
}

TEST(Manager, AWebhookWithoutACertificateEndsIt) {
  ManagerOptions options = Options();
  options.webhook.certificate_path = "/nowhere/tls.crt";
  auto manager = Make(options);
  manager->AddWebhook("/x", [](const AdmissionRequest&) { return Allow(); });
  EXPECT_EQ(manager->Run(), 1);
}

TEST(Manager, ASignalStopsIt) {
  auto manager = Make();
  manager->Add({.name = "signal",
                .start =
                    [] {
                      kill(getpid(), SIGTERM);
                      return absl::OkStatus();
                    },
                .stop = [] {}});
  EXPECT_EQ(manager->Run(), 0);
}

TEST(Manager, IsNotReadyWithoutItsCachesAndDoesNotWaitForThemWhenItStops) {
  auto manager = Make();
  bool reconciled = false;
  Controller& controller = manager->AddController({.name = "pods", .reconcile = [&](const Key&) {
                                                     reconciled = true;
                                                     return Result{};
                                                   }});
  controller.Watch(manager->Cache(core::kPod));
  controller.queue().Add({"ns", "a"});
  Manager* running = manager.get();
  manager->Add({.name = "stops it",
                .start =
                    [running] {
                      EXPECT_EQ(running->health().Answer("/readyz/caches").status, 500);
                      EXPECT_EQ(running->health().Answer("/healthz").status, 200);
                      running->Stop();
                      return absl::OkStatus();
                    },
                .stop = [] {},
                .needs_lease = false});
  EXPECT_EQ(manager->Run(), 0);
  EXPECT_FALSE(reconciled);
}

TEST(Manager, TheSameQuestionHasTheSameCache) {
  auto manager = Make();
  Informer& pods = manager->Cache(core::kPod);
  EXPECT_EQ(&pods, &manager->Cache(core::kPod));
  EXPECT_NE(&pods, &manager->Cache(core::kNode));
  EXPECT_NE(&pods, &manager->Cache(core::kPod, {.ns = "a"}));
  EXPECT_NE(&pods, &manager->Cache(core::kPod, {.keep = {"status.phase"}}));
}

TEST(Manager, DoesNotWriteBeforeItLeads) {
  ManagerOptions options = Options();
  options.leader_elect = true;
  auto manager = Make(options);
  const auto written = manager->client().Create(core::kNamespace, JsonObject{{"metadata", {{"name", "a"}}}});
  EXPECT_TRUE(absl::IsFailedPrecondition(written.status())) << written.status();
  EXPECT_THAT(written.status().message(), HasSubstr("does not lead"));
}

TEST(Manager, RefusesALeaseThatCouldHaveTwoLeaders) {
  ManagerOptions options = Options();
  options.leader_elect = true;
  options.lease.renew_deadline = options.lease.duration;
  EXPECT_TRUE(absl::IsInvalidArgument(Manager::Make(options).status()));
}

TEST(Manager, CountsItsRequests) {
  auto manager = Make();
  EXPECT_FALSE(manager->client().Get(core::kNode, {"", "a"}).ok());
  EXPECT_THAT(manager->metrics().Text(),
              HasSubstr("rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:1\",method=\"GET\"} 1"));
}

TEST(ManagerDeathTest, WhatDoesNotStopIsEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ManagerOptions options = Options();
  options.stop_limit = absl::Milliseconds(50);
  EXPECT_EXIT(
      {
        auto manager = Make(options);
        Manager* running = manager.get();
        manager->Add({.name = "stuck",
                      .start =
                          [running] {
                            running->Stop();
                            return absl::OkStatus();
                          },
                      .stop =
                          [] {
                            for (;;) pause();
                          }});
        manager->Run();
      },
      ::testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace tf::kube
