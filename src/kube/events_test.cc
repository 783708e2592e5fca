#include "kube/events.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;

const Json kPod(JsonObject{{"apiVersion", "v1"},
                           {"kind", "Pod"},
                           {"metadata", {{"namespace", "ns"}, {"name", "p"}, {"uid", "u"}, {"resourceVersion", "9"}}},
                           {"spec", {{"secret", "thing"}}}});

// The server's side: keeps what it is sent, and answers as told.
struct Server {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Json> created;
  std::vector<std::pair<Key, Json>> patched;
  std::deque<absl::Status> answers;  // before OK
  bool hold = false;
  int calls = 0;

  EventSink Sink() {
    return {.create = [this](const Json& event) -> absl::StatusOr<Json> {
              std::unique_lock lock(mutex);
              if (absl::Status status = Answer(lock); !status.ok()) return status;
              created.push_back(event);
              return event;
            },
            .patch = [this](const Key& key, const Json& patch) -> absl::StatusOr<Json> {
              std::unique_lock lock(mutex);
              if (absl::Status status = Answer(lock); !status.ok()) return status;
              patched.emplace_back(key, patch);
              return patch;
            }};
  }
  absl::Status Answer(std::unique_lock<std::mutex>& lock) {
    ++calls;
    changed.notify_all();
    changed.wait(lock, [&] { return !hold; });
    if (answers.empty()) return absl::OkStatus();
    absl::Status status = answers.front();
    answers.pop_front();
    return status;
  }
  void Hold(bool value) {
    std::lock_guard lock(mutex);
    hold = value;
    changed.notify_all();
  }
  void AwaitCalls(int count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return calls >= count; });
  }
};

TEST(EventRecorder, WritesAboutTheObjectAndNothingElseOfIt) {
  Server server;
  SimulatedClock clock;
  EventRecorder events(server.Sink(), {.controller = "operator", .instance = "0", .clock = &clock});
  events.Warning(kPod, "FailedPlacement", "Placing", "no GPU has room");
  events.Stop();
  ASSERT_EQ(server.created.size(), 1u);
  const Json& event = server.created[0];
  EXPECT_EQ(*Field(event, "involvedObject"), Json(JsonObject{{"name", "p"},
                                                             {"apiVersion", "v1"},
                                                             {"kind", "Pod"},
                                                             {"namespace", "ns"},
                                                             {"uid", "u"},
                                                             {"resourceVersion", "9"}}));
  EXPECT_EQ(Text(event, "type"), "Warning");
  EXPECT_EQ(Text(event, "reason"), "FailedPlacement");
}

TEST(EventRecorder, NeverBlocksAndCountsWhatItDrops) {
  Server server;
  SimulatedClock clock;
  Metrics metrics;
  server.Hold(true);
  EventRecorder events(server.Sink(), {.controller = "operator", .queue = 2, .clock = &clock, .metrics = &metrics});
  events.Normal(kPod, "A", "Doing", "1");
  server.AwaitCalls(1);
  for (int i = 0; i < 5; ++i) events.Normal(kPod, absl::StrCat("B", i), "Doing", "x");
  EXPECT_THAT(metrics.Text(), HasSubstr("tensor_fusion_events_dropped_total{reason=\"queue_full\"} 3"));
  server.Hold(false);
  events.Stop();
  EXPECT_EQ(server.created.size(), 3u);
}

TEST(EventRecorder, TriesAgainWhatTheServerDidNotAnswer) {
  Server server;
  SimulatedClock clock;
  server.answers = {absl::UnavailableError("cut"), absl::UnavailableError("cut")};
  EventRecorder events(server.Sink(), {.controller = "operator", .clock = &clock});
  events.Normal(kPod, "A", "Doing", "1");
  for (int i = 1; i <= 2; ++i) {
    server.AwaitCalls(i);
    clock.AwaitWaiters(1);
    clock.Advance(absl::Seconds(10));
  }
  server.AwaitCalls(3);
  events.Stop();
  EXPECT_EQ(server.created.size(), 1u);
}

TEST(EventRecorder, WhatWasWrittenButNotAnsweredIsThere) {
  Server server;
  SimulatedClock clock;
  Metrics metrics;
  server.answers = {absl::AlreadyExistsError("there")};
  EventRecorder events(server.Sink(), {.controller = "operator", .clock = &clock, .metrics = &metrics});
  events.Normal(kPod, "A", "Doing", "1");
  events.Stop();
  EXPECT_THAT(metrics.Text(), ::testing::Not(HasSubstr("refused")));
}

TEST(EventRecorder, DropsWhatTheServerRefuses) {
  Server server;
  SimulatedClock clock;
  Metrics metrics;
  server.answers = {absl::PermissionDeniedError("may not")};
  EventRecorder events(server.Sink(), {.controller = "operator", .clock = &clock, .metrics = &metrics});
  events.Normal(kPod, "A", "Doing", "1");
  events.Stop();
  EXPECT_EQ(server.calls, 1);
  EXPECT_THAT(metrics.Text(), HasSubstr("tensor_fusion_events_dropped_total{reason=\"refused\"} 1"));
}

TEST(EventRecorder, ASeriesWhoseEventTheServerForgotBeginsAnew) {
  Server server;
  SimulatedClock clock;
  EventRecorder events(server.Sink(), {.controller = "operator", .clock = &clock});
  events.Normal(kPod, "A", "Doing", "1");
  server.AwaitCalls(1);
  {
    std::lock_guard lock(server.mutex);
    server.answers = {absl::NotFoundError("gone")};
  }
  events.Normal(kPod, "A", "Doing", "1");
  events.Stop();
  ASSERT_EQ(server.created.size(), 2u);
  EXPECT_EQ(Number(server.created[1], "series.count"), 2);
}

TEST(EventRecorder, AFloodBecomesAFewWrites) {
  Server server;
  SimulatedClock clock;
  EventRecorder events(server.Sink(), {.controller = "operator", .queue = 100000, .clock = &clock});
  for (int i = 0; i < 5000; ++i) events.Normal(kPod, "A", "Doing", absl::StrCat("took ", i, " ms"));
  events.Stop();
  EXPECT_LE(server.calls, 12);
}

}  // namespace
}  // namespace tf::kube
