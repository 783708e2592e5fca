// The informer against a server that says what it is told to. Tests that end in a project and a number stand for what
// users of that client reported.
#include "kube/informer.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <list>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "kube/config.h"
#include "support/scripted_server.h"

namespace tf::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using tf::testing::Answer;
using tf::testing::ScriptedRequest;
using tf::testing::ScriptedServer;

constexpr std::chrono::seconds kPatience(20);  // of a test, for what must happen

std::string Pod(const std::string& name, int version, const std::string& node = "n1", const std::string& uid = "") {
  return absl::StrCat(R"({"metadata":{"name":")", name, R"(","namespace":"ns","uid":")", uid.empty() ? name : uid,
                      R"(","resourceVersion":")", version, R"("},"spec":{"nodeName":")", node, "\"}}");
}
std::string Event(const std::string& type, const std::string& object) {
  return absl::StrCat(R"({"type":")", type, R"(","object":)", object, "}\n");
}
std::string Bookmark(int version, bool initial_events_end = false) {
  return Event("BOOKMARK",
               absl::StrCat(R"({"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":")", version, "\"",
                            initial_events_end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "", "}}"));
}
std::string List(int version, const std::vector<std::string>& items, const std::string& more = "") {
  std::string body =
      absl::StrCat(R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":")", version, "\"",
                   more.empty() ? "" : absl::StrCat(R"(,"continue":")", more, "\""), R"(},"items":[)");
  for (size_t i = 0; i < items.size(); ++i) absl::StrAppend(&body, i == 0 ? "" : ",", items[i]);
  return body + "]}";
}
std::string Error(int code, const std::string& reason) {
  return absl::StrCat(R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":")",
                      reason, R"(","code":)", code, "}");
}

// Answers request after request with one step each; when it has none left: lists fail, watches stay silent.
class FakeApi {
 public:
  using Step = std::function<void(const ScriptedRequest&, Answer&)>;

  FakeApi() : server_([this](const ScriptedRequest& request, Answer& answer) { Serve(request, answer); }) {}

  void Then(Step step) {
    const std::lock_guard<std::mutex> lock(mutex_);
    steps_.push_back(std::move(step));
    changed_.notify_all();
  }
  // A whole answer.
  void ThenSend(int status, const std::string& body, const Answer::Headers& headers = {}) {
    Then([=](const ScriptedRequest&, Answer& answer) { answer.Send(status, body, headers); });
  }
  // A watch that says this and ends in good order.
  void ThenWatch(const std::string& body) {
    Then([=](const ScriptedRequest&, Answer& answer) {
      answer.Begin();
      answer.Chunk(body);
      answer.End();
    });
  }
  // A watch that says this, and nothing more.
  void ThenStay(const std::string& body) {
    Then([=](const ScriptedRequest&, Answer& answer) {
      answer.Begin();
      answer.Chunk(body);
      answer.Hold();
    });
  }

  // The n-th request (from 1), once it has come.
  ScriptedRequest Request(size_t n) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return requests_.size() >= n; })) << "no request " << n;
    return n <= requests_.size() ? requests_[n - 1] : ScriptedRequest();
  }
  size_t requests() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_.size();
  }
  ScriptedServer& server() { return server_; }

 private:
  void Serve(const ScriptedRequest& request, Answer& answer) {
    Step step;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      requests_.push_back(request);
      changed_.notify_all();
      // kubernetes/kubernetes#123448: a watch without a version reads through to the server's store.
      if (request.IsWatch() && request.Query("sendInitialEvents") != "true") {
        EXPECT_THAT(request.Query("resourceVersion"), ::testing::MatchesRegex("[1-9][0-9]*"));
        EXPECT_EQ(request.Query("allowWatchBookmarks"), "true");
        EXPECT_GT(std::stoi(request.Query("timeoutSeconds")), 0);
      }
      if (!steps_.empty()) {
        step = std::move(steps_.front());
        steps_.pop_front();
      }
    }
    if (step) return step(request, answer);
    if (!request.IsWatch()) {
      answer.Send(500, Error(500, "InternalError"));
      return;
    }
    answer.Begin();
    answer.Hold();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Step> steps_;
  std::vector<ScriptedRequest> requests_;
  ScriptedServer server_;
};

// What handlers were told: "A a 5" (with "+" when initial), "U a 5>6", "D a 7" (with "!" when stale).
class Told {
 public:
  Handler handler() {
    return {.added = [this](const ObjectPtr& object,
                            bool initial) { Say(absl::StrCat(initial ? "A+ " : "A ", What(object))); },
            .updated =
                [this](const ObjectPtr& before, const ObjectPtr& object) {
                  Say(absl::StrCat("U ", std::string(Name(*object)), " ", std::string(ResourceVersion(*before)), ">",
                                   std::string(ResourceVersion(*object))));
                },
            .deleted = [this](const ObjectPtr& object,
                              bool stale) { Say(absl::StrCat(stale ? "D! " : "D ", What(object))); }};
  }
  // All that was told, once it is so much.
  std::vector<std::string> Await(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return said_.size() >= count; }))
        << "told only: " << ::testing::PrintToString(said_);
    return said_;
  }

 private:
  static std::string What(const ObjectPtr& object) {
    return absl::StrCat(std::string(Name(*object)), " ", std::string(ResourceVersion(*object)));
  }
  void Say(std::string line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    said_.push_back(std::move(line));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> said_;
};

class InformerTest : public ::testing::Test {
 protected:
  static InformerOptions Fast(bool watch_list = true) {
    InformerOptions options;
    options.reflector.first_delay = absl::Milliseconds(1);
    options.reflector.longest_delay = absl::Milliseconds(5);
    options.reflector.watch_list = watch_list;
    return options;
  }
  void Start(InformerOptions options = Fast()) {
    informer_ = std::make_unique<Informer>(client_, core::kPod, std::move(options));
    informer_->AddHandler(told_.handler());
    informer_->Start();
  }
  std::string VersionOf(const std::string& name) {
    const ObjectPtr object = informer_->Get({"ns", name});
    return object == nullptr ? "none" : std::string(ResourceVersion(*object));
  }

  SimulatedClock clock_;
  Told told_;
  FakeApi api_;
  Client client_{std::make_shared<const Config>(Config{.server = api_.server().url()}), "test"};
  std::unique_ptr<Informer> informer_;
};

class ListingInformerTest : public InformerTest {
 protected:
  void Start() { InformerTest::Start(Fast(false)); }
};

TEST_F(InformerTest, ReadsAllByAWatchThenFollowsIt) {
  api_.ThenStay(Event("ADDED", Pod("b", 5)) + Event("ADDED", Pod("a", 3)) + Bookmark(9, true) +
                Event("MODIFIED", Pod("a", 10, "n2")) + Event("DELETED", Pod("b", 11)) + Event("ADDED", Pod("c", 12)));
  InformerOptions options = Fast();
  options.indexes.emplace_back(
      "node", [](const Json& object) { return std::vector<std::string>{std::string(Text(object, "spec.nodeName"))}; });
  Start(options);
  EXPECT_TRUE(informer_->WaitForSync().ok());
  const std::vector<std::string> said = told_.Await(5);
  EXPECT_THAT(std::vector<std::string>(said.begin(), said.begin() + 2), UnorderedElementsAre("A+ a 3", "A+ b 5"));
  EXPECT_THAT(std::vector<std::string>(said.begin() + 2, said.end()), ElementsAre("U a 3>10", "D b 11", "A c 12"));
  EXPECT_EQ(informer_->size(), 2u);
  EXPECT_EQ(informer_->ByIndex("node", "n2").size(), 1u);
  EXPECT_EQ(informer_->resource_version(), "12");
  const ScriptedRequest request = api_.Request(1);
  EXPECT_EQ(request.path, "/api/v1/pods");
  EXPECT_EQ(request.Query("sendInitialEvents"), "true");
  EXPECT_EQ(request.Query("resourceVersionMatch"), "NotOlderThan");
  EXPECT_EQ(request.Query("resourceVersion"), "");
  const InformerStats stats = informer_->stats();
  EXPECT_EQ(stats.lists, 1);
  EXPECT_EQ(stats.failures, 0);
  EXPECT_EQ(stats.last_error, "");
}

TEST_F(InformerTest, WhatIsNotCompleteIsNotShown) {
  api_.Then([](const ScriptedRequest&, Answer& answer) {
    answer.Begin();
    answer.Chunk(Event("ADDED", Pod("a", 3)) + Event("ADDED", Pod("gone", 4)) + Event("DELETED", Pod("gone", 8)));
    answer.Close();
  });
  api_.ThenStay(Event("ADDED", Pod("b", 5)) + Bookmark(9, true));
  Start();
  EXPECT_TRUE(informer_->WaitForSync().ok());
  EXPECT_THAT(told_.Await(1), ElementsAre("A+ b 5"));
  EXPECT_EQ(informer_->stats().lists, 1);
}

TEST_F(InformerTest, FallsBackToPagesOfAList) {
  api_.ThenSend(422, Error(422, "Invalid"));
  api_.ThenSend(200, List(9, {Pod("a", 3)}, "next"));
  api_.ThenSend(200, List(9, {Pod("b", 4)}));
  Start();
  ASSERT_TRUE(informer_->WaitForSync().ok());
  EXPECT_THAT(told_.Await(2), UnorderedElementsAre("A+ a 3", "A+ b 4"));
  EXPECT_EQ(api_.Request(2).Query("resourceVersion"), "0");
  EXPECT_EQ(api_.Request(3).Query("continue"), "next");
  EXPECT_EQ(api_.Request(3).Query("resourceVersion"), "");
  EXPECT_EQ(api_.Request(4).Query("resourceVersion"), "9");
  EXPECT_EQ(informer_->stats().lists, 1);
}

TEST_F(InformerTest, SelectorsAndTrimmedObjects) {
  api_.ThenStay(Event("ADDED", R"({"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"3",)"
                               R"("managedFields":[{}]},"spec":{"nodeName":"n","containers":[{"name":"c"}]}})") +
                Bookmark(9, true));
  InformerOptions options = Fast();
  options.ns = "ns";
  options.label_selector = "a=b";
  options.field_selector = "spec.nodeName=n";
  options.keep = {"spec.nodeName"};
  Start(options);
  ASSERT_TRUE(informer_->WaitForSync().ok());
  const ScriptedRequest request = api_.Request(1);
  EXPECT_EQ(request.path, "/api/v1/namespaces/ns/pods");
  EXPECT_EQ(request.Query("labelSelector"), "a=b");
  EXPECT_EQ(request.Query("fieldSelector"), "spec.nodeName=n");
  EXPECT_EQ(*informer_->Get({"ns", "a"}),
            (Json{{"metadata", {{"name", "a"}, {"namespace", "ns"}, {"uid", "u"}, {"resourceVersion", "3"}}},
                  {"spec", {{"nodeName", "n"}}}}));
}

TEST_F(InformerTest, ALateHandlerIsToldWhatIsThere) {
  api_.ThenStay(Event("ADDED", Pod("a", 3)) + Bookmark(9, true) + Event("MODIFIED", Pod("a", 10)));
  Start();
  told_.Await(2);
  Told late;
  informer_->AddHandler(late.handler());
  EXPECT_THAT(late.Await(1), ElementsAre("A+ a 10"));
}

TEST_F(InformerTest, AHandlerThatThrowsHarmsNobody) {  // fabric8io/kubernetes-client#2798
  api_.ThenStay(Bookmark(9, true) + Event("ADDED", Pod("a", 10)) + Event("ADDED", Pod("b", 11)));
  informer_ = std::make_unique<Informer>(client_, core::kPod, Fast());
  informer_->AddHandler({.added = [](const ObjectPtr&, bool) { throw std::runtime_error("handler"); }});
  informer_->AddHandler(told_.handler());
  informer_->Start();
  EXPECT_THAT(told_.Await(2), ElementsAre("A a 10", "A b 11"));
}

TEST_F(InformerTest, WaitForSyncSaysWhatIsWrong) {  // falcosecurity/falco#1607
  for (int i = 0; i < 3; ++i) api_.ThenSend(403, Error(403, "Forbidden"));
  InformerOptions options = Fast();
  options.clock = &clock_;
  Start(options);
  clock_.AwaitWaiters(1);  // backs off
  absl::Status waited;
  std::thread waiter([&] { waited = informer_->WaitForSync(absl::Seconds(1)); });
  clock_.AwaitWaiters(2);
  clock_.Advance(absl::Seconds(1));
  waiter.join();
  EXPECT_EQ(waited.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(waited.ToString(), HasSubstr("injected"));
  EXPECT_FALSE(informer_->synced());
}

TEST_F(InformerTest, ObjectsThatAreNoneAreCountedAndSkipped) {
  api_.ThenStay(Event("ADDED", R"({"metadata":{"name":"x"}})") + Event("ADDED", "{}") + Bookmark(9, true) +
                Event("ADDED", R"({"metadata":{"name":"x","resourceVersion":"None"}})") +
                Event("MODIFIED", R"({"metadata":7})") + Event("ADDED", Pod("a", 10)));
  Start();
  EXPECT_THAT(told_.Await(1), ElementsAre("A a 10"));
  EXPECT_GE(informer_->stats().bad_objects, 3);
}

TEST_F(ListingInformerTest, WhatAWatchMissedComesAsTombstones) {
  api_.ThenSend(200, List(9, {Pod("kept", 3), Pod("gone", 4), Pod("remade", 5)}));
  api_.ThenSend(410, Error(410, "Expired"));
  api_.ThenSend(200, List(20, {Pod("kept", 15), Pod("remade", 16, "n1", "another")}));
  Start();
  const std::vector<std::string> said = told_.Await(7);
  EXPECT_THAT(std::vector<std::string>(said.begin() + 3, said.end()),
              UnorderedElementsAre("D! gone 4", "U kept 3>15", "D! remade 5", "A remade 16"));
  EXPECT_EQ(api_.Request(3).Query("resourceVersion"), "9");
  api_.Request(4);
  EXPECT_THAT(informer_->stats().list_causes,
              UnorderedElementsAre(::testing::Pair("start", 1), ::testing::Pair("expired", 1)));
}

TEST_F(ListingInformerTest, AnErrorEventIsNoObject) {  // kubernetes-client/python-base#57
  api_.ThenSend(200, List(9, {Pod("a", 3)}));
  api_.ThenWatch(Event("ERROR", Error(500, "InternalError")));
  api_.ThenWatch(Event("ADDED", Pod("b", 10)) + Event("ERROR", Error(410, "Expired")));
  api_.ThenSend(200, List(12, {Pod("a", 3), Pod("b", 10)}));
  Start();
  EXPECT_THAT(told_.Await(2), ElementsAre("A+ a 3", "A b 10"));
  EXPECT_EQ(api_.Request(3).Query("resourceVersion"), "9") << "after 500: watched again, nothing read again";
  EXPECT_FALSE(api_.Request(4).IsWatch());
  EXPECT_EQ(api_.Request(4).Query("resourceVersion"), "10");
  api_.Request(5);
  EXPECT_EQ(informer_->stats().bad_objects, 0);
}

TEST_F(ListingInformerTest, TheVersionIsTheListsNotTheLastItems) {  // kubernetes-client/python#819
  api_.ThenSend(200, List(900, {Pod("b", 30), Pod("a", 3)}));
  Start();
  EXPECT_EQ(api_.Request(2).Query("resourceVersion"), "900");
}

TEST_F(ListingInformerTest, AReconnectTellsNothingTwice) {  // kubernetes-client/python-base#81
  api_.ThenSend(200, List(9, {Pod("a", 3)}));
  api_.ThenWatch(Event("ADDED", Pod("a", 3)) + Event("MODIFIED", Pod("a", 10)) + Event("MODIFIED", Pod("a", 10)));
  api_.ThenWatch(Event("ADDED", Pod("a", 3)) + Event("ADDED", Pod("a", 10)) + Event("ADDED", Pod("b", 11)));
  Start();
  EXPECT_THAT(told_.Await(3), ElementsAre("A+ a 3", "U a 3>10", "A b 11"));
  api_.Request(4);
  EXPECT_EQ(informer_->stats().old_events, 4);
}

TEST_F(ListingInformerTest, AListWithoutAVersionIsNotBelieved) {  // kubernetes-client/python-base#199
  api_.ThenSend(200, R"({"kind":"PodList","metadata":{},"items":[]})");
  api_.ThenSend(200, R"({"kind":"PodList","metadata":{"resourceVersion":"None"},"items":[]})");
  api_.ThenSend(200, List(9, {Pod("a", 3)}));
  Start();
  EXPECT_THAT(told_.Await(1), ElementsAre("A+ a 3"));
  EXPECT_EQ(api_.Request(4).Query("resourceVersion"), "9");
  EXPECT_EQ(informer_->stats().failures, 2);
}

TEST_F(InformerTest, OneThreadForEachInformer) {  // kubernetes-client/python#545
  api_.ThenStay(Bookmark(9, true));
  Start();
  ASSERT_TRUE(informer_->WaitForSync().ok());
  int named = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) {
    std::string name;
    std::getline(std::ifstream(absl::StrCat("/proc/self/task/", task->d_name, "/comm")), name);
    named += name == "inf-pods";
  }
  closedir(tasks);
  EXPECT_EQ(named, 1);
}

TEST_F(ListingInformerTest,
       ASilentConnectionIsLeft) {  // kubernetes-client/java#2151, #2183, nolar/kopf#585, #957, #996
  api_.ThenSend(200, List(9, {Pod("a", 3)}));
  api_.ThenStay(Event("MODIFIED", Pod("a", 10)));
  api_.ThenStay("");
  api_.ThenStay(Event("MODIFIED", Pod("a", 12)));
  InformerOptions options = Fast(false);
  options.reflector.silence_limit = absl::Seconds(2);  // the server's timeouts have whole seconds
  InformerTest::Start(options);
  EXPECT_THAT(told_.Await(3), ElementsAre("A+ a 3", "U a 3>10", "U a 10>12"));
  EXPECT_EQ(api_.Request(4).Query("resourceVersion"), "10");
  EXPECT_EQ(api_.server().connections(), 4);  // each watch on one of its own
  EXPECT_EQ(informer_->stats().lists, 1);
}

TEST_F(ListingInformerTest, AnExpiredVersionIsNotWatchedAgain) {  // kubernetes-client/java#1628
  api_.ThenSend(200, List(9, {}));
  api_.ThenWatch(Event("ERROR", Error(410, "Expired")));
  api_.ThenSend(410, Error(410, "Expired"));  // the list at 9
  api_.ThenSend(200, List(50, {Pod("a", 40)}));
  Start();
  EXPECT_THAT(told_.Await(1), ElementsAre("A a 40"));
  EXPECT_EQ(api_.Request(4).Query("resourceVersion"), "");
  EXPECT_EQ(api_.Request(5).Query("resourceVersion"), "50");
}

TEST_F(ListingInformerTest, ConnectionsDoNotPileUp) {  // fabric8io/kubernetes-client#1943, #3013
  for (int i = 0; i < 100; ++i) {
    api_.ThenSend(200, List(9 + i, {}));
    api_.ThenWatch(Event("ERROR", Error(410, "Expired")));
  }
  api_.ThenSend(200, List(200, {Pod("a", 40)}));
  Start();
  told_.Await(1);
  api_.Request(202);
  // The client keeps some that lie idle, and no more.
  EXPECT_LE(api_.server().open_connections(), 40);
  informer_->Stop();
  for (int i = 0; i < 10; ++i) {
    api_.ThenSend(200, List(300, {}));
    Informer again(client_, core::kPod, Fast(false));
    again.Start();
    EXPECT_TRUE(again.WaitForSync().ok());
    api_.Request(204 + 2 * static_cast<size_t>(i));  // its watch has come: the next answer is for the next list
  }
  EXPECT_LE(api_.server().open_connections(), 40);
}

TEST_F(ListingInformerTest, ManyRefusalsAreNoReasonToGiveUp) {  // fabric8io/kubernetes-client#4974, #4781
  api_.ThenSend(200, List(9, {}));
  for (int i = 0; i < 100; ++i) api_.ThenSend(i % 2 == 0 ? 503 : 500, Error(500, "InternalError"));
  api_.ThenStay(Event("ADDED", Pod("a", 10)));
  Start();
  EXPECT_THAT(told_.Await(1), ElementsAre("A a 10"));
  EXPECT_EQ(informer_->stats().lists, 1);
}

TEST_F(ListingInformerTest, AResetIsNoticed) {  // kubernetes-client/csharp#533, falcosecurity/falco#1767
  api_.ThenSend(200, List(9, {}));
  api_.Then([](const ScriptedRequest&, Answer& answer) {
    answer.Begin();
    answer.Cut();
  });
  api_.Then([](const ScriptedRequest&, Answer& answer) { answer.Cut(); });
  api_.ThenStay(Event("ADDED", Pod("a", 10)));
  Start();
  EXPECT_THAT(told_.Await(1), ElementsAre("A a 10"));
  EXPECT_EQ(informer_->stats().lists, 1);
  EXPECT_GE(informer_->stats().failures, 1);
}

TEST_F(InformerTest, ALimitOfTheBeginningIsNoneOfTheStream) {  // kubernetes-client/javascript#3020
  api_.Then([](const ScriptedRequest&, Answer& answer) {
    answer.Begin();
    answer.Chunk(Event("ADDED", Pod("a", 10)));
    if (answer.wire().Hold(absl::Milliseconds(600))) return;
    answer.Chunk(Event("ADDED", Pod("b", 11)));
    answer.End();
  });
  WatchOptions options;
  options.limit = absl::Milliseconds(300);
  options.resource_version = "9";
  int events = 0;
  EXPECT_EQ(client_.Watch(core::kPod, "", options, [&](WatchEvent) { return ++events < 5; }), absl::OkStatus());
  EXPECT_EQ(events, 2);
}

TEST_F(InformerTest, OneThatFailsDoesNotStarveAnother) {  // stackabletech/trino-operator#936, kube-rs/kube#717
  FakeApi failing;
  Client to_failing(std::make_shared<const Config>(Config{.server = failing.server().url()}), "test");
  for (int i = 0; i < 20; ++i) failing.ThenSend(404, Error(404, "NotFound"));
  InformerOptions slow;
  slow.reflector.first_delay = absl::Hours(1);
  Informer other(to_failing, core::kNode, slow);
  other.Start();
  failing.Request(1);
  api_.ThenStay(Bookmark(9, true) + Event("ADDED", Pod("a", 10)));
  Start();
  EXPECT_THAT(told_.Await(1), ElementsAre("A a 10"));
  EXPECT_EQ(failing.requests(), 1u) << "no hot loop";
}

TEST_F(ListingInformerTest, ALaggingReplicaDoesNotTurnTimeBack) {  // kubernetes/kubernetes#83520, #59848
  api_.ThenSend(200, List(9, {Pod("a", 3)}));
  api_.ThenWatch(Event("MODIFIED", Pod("a", 20)) + Event("ADDED", Pod("b", 21)) +
                 Event("ERROR", Error(410, "Expired")));
  api_.ThenSend(200, List(9, {Pod("a", 3)}));  // another replica, which does not know yet
  api_.ThenSend(200, List(9, {Pod("a", 3)}));
  api_.ThenSend(200, List(25, {Pod("a", 20), Pod("b", 21), Pod("c", 24)}));
  Start();
  EXPECT_THAT(told_.Await(4), ElementsAre("A+ a 3", "U a 3>20", "A b 21", "A c 24"));
  EXPECT_EQ(api_.Request(4).Query("resourceVersion"), "");
  EXPECT_EQ(VersionOf("a"), "20");
  EXPECT_EQ(api_.Request(6).Query("resourceVersion"), "25");
  EXPECT_THAT(informer_->stats().list_causes,
              UnorderedElementsAre(::testing::Pair("start", 1), ::testing::Pair("behind", 1)));
}

TEST_F(ListingInformerTest, AServerThatWasSetBackIsFollowedInTheEnd) {
  api_.ThenSend(200, List(50, {Pod("a", 30), Pod("b", 40), Pod("c", 10)}));
  api_.ThenSend(410, Error(410, "Expired"));
  for (int i = 0; i < 5; ++i) api_.ThenSend(200, List(35, {Pod("a", 30), Pod("b", 20), Pod("c", 10)}));
  Start();
  const std::vector<std::string> said = told_.Await(5);
  EXPECT_THAT(std::vector<std::string>(said.begin() + 3, said.end()), ElementsAre("D! b 40", "A b 20"));
  EXPECT_EQ(api_.Request(8).Query("resourceVersion"), "35");
}

TEST_F(ListingInformerTest, WhileNobodyAnswersTheStoreIsKept) {
  api_.ThenSend(200, List(9, {Pod("a", 3)}));
  Start();
  api_.Request(2);
  api_.server().Down();
  while (informer_->stats().failures < 3) std::this_thread::yield();
  EXPECT_EQ(VersionOf("a"), "3");
  api_.ThenStay(Event("MODIFIED", Pod("a", 12)));
  api_.server().Up();
  EXPECT_THAT(told_.Await(2), ElementsAre("A+ a 3", "U a 3>12"));
  EXPECT_EQ(informer_->stats().lists, 1);
}

TEST_F(InformerTest, BytesMayComeInAnyPieces) {
  const std::string text = Event("ADDED", Pod("a", 3, "Größe 大 🚀")) + Bookmark(9, true) +
                           Event("MODIFIED", Pod("a", 10, "\\u00e4 → ß")) + Event("MODIFIED", Pod("a", 11, "ü")) +
                           Event("DELETED", Pod("a", 12));
  for (size_t piece = 1; piece <= 5; ++piece) {
    Told told;
    api_.Then([text, piece](const ScriptedRequest&, Answer& answer) {
      answer.Begin();
      for (size_t at = 0; at < text.size(); at += piece) answer.Chunk(text.substr(at, piece));
      answer.Hold();
    });
    Informer informer(client_, core::kPod, Fast());
    std::string seen;
    informer.AddHandler({.added = [&](const ObjectPtr& object, bool) { seen = Text(*object, "spec.nodeName"); }});
    informer.AddHandler(told.handler());
    informer.Start();
    EXPECT_THAT(told.Await(4), ElementsAre("A+ a 3", "U a 3>10", "U a 10>11", "D a 12"));
    EXPECT_EQ(seen, "Größe 大 🚀");
  }
}

TEST_F(InformerTest, LargeObjectsAreFine) {
  api_.ThenStay(Bookmark(9, true) + Event("ADDED", Pod("a", 10, std::string(3 << 20, 'x'))) +
                Event("ADDED", Pod("b", 11)));
  Start();
  EXPECT_THAT(told_.Await(2), ElementsAre("A a 10", "A b 11"));
  EXPECT_EQ(Text(*informer_->Get({"ns", "a"}), "spec.nodeName").size(), size_t{3 << 20});
}

TEST_F(ListingInformerTest, WhatIsNoJsonIsReadAgainFromTheLastEvent) {
  api_.ThenSend(200, List(9, {}));
  api_.ThenWatch(Event("ADDED", Pod("a", 10)) + "{\"type\":\"ADDED\",\"object\":{\n");
  api_.ThenWatch("<html>gateway</html>\n");
  api_.ThenWatch(Event("SURPRISE", Pod("x", 11)));
  api_.ThenStay(Event("ADDED", Pod("b", 12)));
  Start();
  EXPECT_THAT(told_.Await(2), ElementsAre("A a 10", "A b 12"));
  for (int i = 3; i <= 5; ++i) EXPECT_EQ(api_.Request(static_cast<size_t>(i)).Query("resourceVersion"), "10");
  EXPECT_EQ(informer_->stats().lists, 1);
}

TEST_F(ListingInformerTest, StopsAtOnceInEveryPhase) {
  const auto stop = [this] {
    const absl::Time before = absl::Now();
    informer_->Stop();
    EXPECT_LT(absl::Now() - before, absl::Seconds(5));
    EXPECT_EQ(informer_->WaitForSync().code(),
              informer_->synced() ? absl::StatusCode::kOk : absl::StatusCode::kCancelled);
  };
  // In a list.
  api_.Then([](const ScriptedRequest&, Answer& answer) { answer.Hold(); });
  Start();
  api_.Request(1);
  stop();
  // In a watch.
  api_.ThenSend(200, List(9, {Pod("a", 3)}));
  Start();
  api_.Request(3);
  stop();
  // While it backs off.
  api_.ThenSend(403, Error(403, "Forbidden"));
  InformerOptions slow = Fast(false);
  slow.reflector.first_delay = absl::Hours(1);
  InformerTest::Start(slow);
  while (informer_->stats().failures == 0) std::this_thread::yield();
  stop();
  // In a handler: the others are not called any more.
  std::vector<std::string> items;
  for (int i = 0; i < 1000; ++i) items.push_back(Pod(absl::StrCat("p", i), 1 + i));
  api_.ThenSend(200, List(2000, items));
  int calls = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool in_handler = false;
  bool stopping = false;
  informer_ = std::make_unique<Informer>(client_, core::kPod, Fast(false));
  informer_->AddHandler({.added = [&](const ObjectPtr&, bool) {
    std::unique_lock<std::mutex> lock(mutex);
    ++calls;
    in_handler = true;
    changed.notify_all();
    changed.wait(lock, [&] { return stopping; });
  }});
  informer_->Start();
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return in_handler; });
  }
  std::thread stopper(stop);
  while (informer_->WaitForSync(absl::ZeroDuration()).code() != absl::StatusCode::kCancelled) std::this_thread::yield();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  stopper.join();
  EXPECT_EQ(calls, 1);
  // Before it began, and twice.
  informer_ = std::make_unique<Informer>(client_, core::kPod, Fast(false));
  stop();
  stop();
}

}  // namespace
}  // namespace tf::kube
