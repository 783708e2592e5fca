#include "kube/controller.h"

#include <atomic>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Key kA{"ns", "a"};

ObjectPtr Object(std::string_view name, std::string_view more = "{}") {
  Json object(JsonObject{{"metadata", ParseJson(more).value()}});
  EnsureField(object, "metadata.namespace") = "ns";
  EnsureField(object, "metadata.name") = name;
  return std::make_shared<const Json>(std::move(object));
}

// A controller whose reconcile answers what the test says, one call after the other.
struct Subject {
  SimulatedClock clock;
  Metrics metrics;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Key> calls;
  std::deque<std::function<absl::StatusOr<Result>()>> answers;
  Controller controller;

  explicit Subject(int workers = 1)
      : controller({.name = "pods",
                    .workers = workers,
                    .reconcile = [this](const Key& key) { return Reconcile(key); },
                    .clock = &clock,
                    .metrics = &metrics}) {}

  absl::StatusOr<Result> Reconcile(const Key& key) {
    std::function<absl::StatusOr<Result>()> answer = [] { return Result{}; };
    {
      std::lock_guard lock(mutex);
      if (!answers.empty()) {
        answer = answers.front();
        answers.pop_front();
      }
      calls.push_back(key);
      changed.notify_all();
    }
    return answer();
  }
  void AwaitCalls(size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return calls.size() >= count; });
  }
  // One call has been made and its answer dealt with.
  void AwaitIdle(size_t count) {
    AwaitCalls(count);
    clock.AwaitWaiters(1);
  }
  std::string Metric(std::string_view name) {
    const std::string text = metrics.Text();
    const size_t at = text.find(absl::StrCat("\n", std::string(name)));
    if (at == std::string::npos) return "";
    const size_t end = text.find('\n', at + 1);
    const std::string line = text.substr(at + 1, end - at - 1);
    return line.substr(line.rfind(' ') + 1);
  }
};

TEST(Controller, SuccessIsDone) {
  Subject s;
  ASSERT_TRUE(s.controller.Start().ok());
  s.controller.queue().Add(kA);
  s.AwaitIdle(1);
  s.controller.Stop();
  EXPECT_THAT(s.calls, ElementsAre(kA));
  EXPECT_EQ(s.Metric("controller_runtime_reconcile_total{controller=\"pods\",result=\"success\"}"), "1");
  EXPECT_EQ(s.Metric("controller_runtime_max_concurrent_reconciles{controller=\"pods\"}"), "1");
  EXPECT_EQ(s.Metric("controller_runtime_active_workers{controller=\"pods\"}"), "0");
}

TEST(Controller, AnErrorIsTriedAgainLaterEachTime) {
  Subject s;
  for (int i = 0; i < 2; ++i) s.answers.push_back([] { return absl::UnavailableError("no"); });
  ASSERT_TRUE(s.controller.Start().ok());
  s.controller.queue().Add(kA);
  s.AwaitIdle(1);
  s.clock.Advance(absl::Milliseconds(5));
  s.AwaitIdle(2);
  EXPECT_EQ(s.controller.queue().Failures(kA), 2);
  s.clock.Advance(absl::Milliseconds(10));
  s.AwaitIdle(3);
  s.controller.Stop();
  EXPECT_EQ(s.controller.queue().Failures(kA), 0) << "success forgets";
  EXPECT_EQ(s.Metric("controller_runtime_reconcile_errors_total{controller=\"pods\"}"), "2");
  EXPECT_EQ(s.Metric("controller_runtime_reconcile_total{controller=\"pods\",result=\"error\"}"), "2");
}

TEST(Controller, RequeueAfterForgetsFailuresAndComesBackThen) {
  Subject s;
  s.answers = {[] { return absl::UnavailableError("no"); }, [] { return Result{.requeue_after = absl::Hours(1)}; }};
  ASSERT_TRUE(s.controller.Start().ok());
  s.controller.queue().Add(kA);
  s.AwaitIdle(1);
  s.clock.Advance(absl::Milliseconds(5));
  s.AwaitIdle(2);
  EXPECT_EQ(s.controller.queue().Failures(kA), 0);
  s.clock.Advance(absl::Hours(1));
  s.AwaitIdle(3);
  s.controller.Stop();
  EXPECT_EQ(s.Metric("controller_runtime_reconcile_total{controller=\"pods\",result=\"requeue_after\"}"), "1");
}

TEST(Controller, ATerminalErrorIsCountedAndNotTriedAgain) {
  Subject s;
  s.answers = {[] { return Terminal(absl::InvalidArgumentError("never")); }};
  ASSERT_TRUE(s.controller.Start().ok());
  s.controller.queue().Add(kA);
  s.AwaitIdle(1);
  s.clock.Advance(absl::Hours(10));
  s.controller.queue().Add({"ns", "b"});
  s.AwaitIdle(2);
  s.controller.Stop();
  EXPECT_THAT(s.calls, ElementsAre(kA, Key{"ns", "b"}));
  EXPECT_EQ(s.Metric("controller_runtime_terminal_reconcile_errors_total{controller=\"pods\"}"), "1");
  EXPECT_EQ(s.Metric("controller_runtime_reconcile_errors_total{controller=\"pods\"}"), "1");
}

TEST(Controller, ExceptionsAreErrorsAndCounted) {
  Subject s;
  s.answers = {[]() -> absl::StatusOr<Result> { throw std::runtime_error("oh"); },
               []() -> absl::StatusOr<Result> { throw 7; }};
  ASSERT_TRUE(s.controller.Start().ok());
  s.controller.queue().Add(kA);
  s.AwaitIdle(1);
  s.clock.Advance(absl::Milliseconds(5));
  s.AwaitIdle(2);
  s.clock.Advance(absl::Milliseconds(10));
  s.AwaitIdle(3);
  s.controller.Stop();
  EXPECT_EQ(s.Metric("controller_runtime_reconcile_panics_total{controller=\"pods\"}"), "2");
  EXPECT_EQ(s.Metric("controller_runtime_reconcile_errors_total{controller=\"pods\"}"), "2");
}

TEST(Controller, NothingRunsBeforeTheSourcesAreInSync) {
  Subject s;
  std::atomic<bool> synced = false;
  s.controller.AddSource([&](absl::Duration limit) {
    EXPECT_EQ(limit, absl::Minutes(2));
    std::lock_guard lock(s.mutex);
    EXPECT_THAT(s.calls, IsEmpty());
    synced = true;
    return absl::OkStatus();
  });
  s.controller.queue().Add(kA);
  ASSERT_TRUE(s.controller.Start().ok());
  EXPECT_TRUE(synced);
  s.AwaitCalls(1);
}

TEST(Controller, ASourceThatDoesNotSyncIsAnErrorAndNothingRuns) {
  Subject s;
  s.controller.AddSource([](absl::Duration) { return absl::DeadlineExceededError("pods: forbidden"); });
  s.controller.queue().Add(kA);
  const absl::Status status = s.controller.Start();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(), HasSubstr("controller pods: pods: forbidden"));
  s.controller.Stop();
  EXPECT_THAT(s.calls, IsEmpty());
}

TEST(Controller, WorkersWorkSideBySideButNotOnOneKey) {
  Subject s(3);
  std::mutex gate;
  std::condition_variable open;
  int inside = 0;
  bool release = false;
  for (int i = 0; i < 3; ++i) {
    s.answers.push_back([&]() -> absl::StatusOr<Result> {
      std::unique_lock lock(gate);
      ++inside;
      open.notify_all();
      open.wait(lock, [&] { return release; });
      return Result{};
    });
  }
  ASSERT_TRUE(s.controller.Start().ok());
  for (const char* name : {"a", "b", "c"}) s.controller.queue().Add({"ns", name});
  {
    std::unique_lock lock(gate);
    open.wait(lock, [&] { return inside == 3; });
    release = true;
    open.notify_all();
  }
  s.controller.Stop(/*drain=*/true);
  EXPECT_EQ(s.calls.size(), 3u);
}

TEST(Controller, FeedMapsChangesToKeys) {
  Subject s;
  Handler handler =
      s.controller.Feed([](const Json& object) { return std::vector<Key>{{"", std::string(Label(object, "pool"))}}; });
  auto take = [&] {
    const Key key = *s.controller.queue().Get();
    s.controller.queue().Done(key);
    return key.name;
  };
  handler.added(Object("a", R"({"labels":{"pool":"one"}})"), true);
  EXPECT_EQ(take(), "one");
  handler.updated(Object("a", R"({"labels":{"pool":"one"}})"), Object("a", R"({"labels":{"pool":"two"}})"));
  EXPECT_EQ(take(), "one") << "what it left is concerned too";
  EXPECT_EQ(take(), "two");
  handler.deleted(Object("a", R"({"labels":{"pool":"two"}})"), true);
  EXPECT_EQ(take(), "two");
  EXPECT_EQ(s.controller.queue().size(), 0u);
}

TEST(Controller, AHandlerMayOutliveIt) {
  Handler handler;
  {
    Subject s;
    handler = s.controller.Feed(ToItself());
    s.controller.Stop();
    handler.added(Object("a"), false);
    EXPECT_EQ(s.controller.queue().size(), 0u);
  }
}

TEST(Predicates, GenerationLabelsAnnotations) {
  const ObjectPtr before = Object("a", R"({"generation":1,"labels":{"x":"1"},"annotations":{"y":"1"}})");
  const ObjectPtr status = Object("a", R"({"generation":1,"labels":{"x":"1"},"annotations":{"y":"1"},"z":1})");
  const ObjectPtr spec = Object("a", R"({"generation":2,"labels":{"x":"1"},"annotations":{"y":"1"}})");
  const ObjectPtr labels = Object("a", R"({"generation":1,"annotations":{"y":"1"}})");
  const ObjectPtr annotations = Object("a", R"({"generation":1,"labels":{"x":"1"},"annotations":{"y":"2"}})");
  auto passes = [&](const Predicate& predicate, const ObjectPtr& now) {
    return predicate({.kind = ChangeView::Kind::kUpdated, .before = before.get(), .object = *now});
  };
  EXPECT_FALSE(passes(GenerationChanged(), status));
  EXPECT_TRUE(passes(GenerationChanged(), spec));
  EXPECT_FALSE(passes(GenerationChanged(), labels));
  EXPECT_FALSE(passes(LabelsChanged(), spec));
  EXPECT_TRUE(passes(LabelsChanged(), labels));
  EXPECT_TRUE(passes(AnnotationsChanged(), annotations));
  EXPECT_TRUE(passes(AnyOf({GenerationChanged(), LabelsChanged()}), labels));
  EXPECT_FALSE(passes(AllOf({GenerationChanged(), LabelsChanged()}), labels));
  EXPECT_TRUE(GenerationChanged()({.kind = ChangeView::Kind::kDeleted, .object = *before}));
  EXPECT_TRUE(GenerationChanged()({.kind = ChangeView::Kind::kAdded, .object = *before}));
}

TEST(ToController, FindsTheControllerOfItsKind) {
  const Resource deployment{"apps", "v1", "deployments", "Deployment", true};
  const Resource node{"", "v1", "nodes", "Node", false};
  const char kOwners[] = R"({"ownerReferences":[
    {"apiVersion":"apps/v1beta1","kind":"Deployment","name":"d","controller":true},
    {"apiVersion":"v1","kind":"Node","name":"n"},
    {"apiVersion":"other/v1","kind":"Deployment","name":"x","controller":true}]})";
  EXPECT_THAT(ToController(deployment)(*Object("a", kOwners)), ElementsAre(Key{"ns", "d"}));
  EXPECT_THAT(ToController(node)(*Object("a", kOwners)), IsEmpty()) << "an owner, but not its controller";
  EXPECT_THAT(ToController(node)(*Object(
                  "a", R"({"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","controller":true}]})")),
              ElementsAre(Key{"", "n"}));
  EXPECT_THAT(ToController(node)(*Object("a")), IsEmpty());
}

}  // namespace
}  // namespace tf::kube
