#include "kube/client.h"

#include <atomic>
#include <boost/json/serialize.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "http/scripted_peer.h"
#include "http/server.h"
#include "kube/config.h"
#include "kube/error.h"

namespace tf::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Resource kWidget{"example.com", "v1", "widgets", "Widget", true};

// An API server that answers as the test says and keeps what it was asked.
class ClientTest : public testing::Test {
 protected:
  void Start(http::Handler handler, Config config = {}) {
    auto server =
        http::Server::Start({}, [this, handler](const http::ServerRequest& request, http::ResponseWriter& writer) {
          {
            std::lock_guard lock(mutex_);
            requests_.push_back(request);
            asked_.notify_all();
          }
          handler(request, writer);
        });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    config.server = absl::StrCat("http://127.0.0.1:", server_->port(), "/base/");
    client_ = std::make_unique<Client>(std::make_shared<Config>(std::move(config)), "test/1");
  }
  // The same answer to everything.
  void StartWith(int status, std::string body, http::Headers headers = {}, Config config = {}) {
    Start([=](const http::ServerRequest&,
              http::ResponseWriter& writer) { writer.Send(status, "application/json", body, headers).IgnoreError(); },
          std::move(config));
  }
  http::ServerRequest Last() {
    std::lock_guard lock(mutex_);
    return requests_.empty() ? http::ServerRequest() : requests_.back();
  }
  size_t Asked() {
    std::lock_guard lock(mutex_);
    return requests_.size();
  }
  void AwaitAsked(size_t count) {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [&] { return requests_.size() >= count; });
  }
  static std::string Line(const http::ServerRequest& request) {
    return absl::StrCat(request.method, " ", request.target);
  }

  std::mutex mutex_;
  std::condition_variable asked_;
  std::vector<http::ServerRequest> requests_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<Client> client_;
};

std::string StatusJson(int code, std::string_view reason) {
  return absl::StrCat(R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","code":)", code,
                      R"(,"reason":")", std::string(reason), "\"}");
}

TEST_F(ClientTest, EachVerbAsItGoesOverTheWire) {
  StartWith(200, R"({"metadata":{"name":"a"}})");
  const Json widget = {{"metadata", {{"name", "a b"}, {"namespace", "n"}, {"resourceVersion", "5"}}}};
  const Key key{"n", "a b"};
  struct Row {
    std::function<absl::Status()> call;
    std::string line, content_type, body;
  };
  const std::string base = "/base/apis/example.com/v1/namespaces/n/widgets";
  const std::string text = boost::json::serialize(widget);
  for (const Row& row : std::vector<Row>{
           {[&] { return client_->Get(kWidget, key).status(); }, "GET " + base + "/a%20b", "", ""},
           {[&] { return client_->Get(core::kNode, {"", "x"}).status(); }, "GET /base/api/v1/nodes/x", "", ""},
           {[&] { return client_->Create(kWidget, widget, {}).status(); }, "POST " + base, "application/json", text},
           {[&] {
              WriteOptions options;
              options.field_manager = "m&m";
              options.dry_run = true;
              return client_->Update(kWidget, widget, options).status();
            },
            "PUT " + base + "/a%20b?fieldManager=m%26m&dryRun=All", "application/json", text},
           {[&] { return client_->UpdateStatus(kWidget, widget).status(); }, "PUT " + base + "/a%20b/status",
            "application/json", text},
           {[&] { return client_->Patch(kWidget, key, widget).status(); }, "PATCH " + base + "/a%20b",
            "application/merge-patch+json", text},
           {[&] {
              PatchOptions options;
              options.type = PatchType::kJson;
              return client_->Patch(kWidget, key, JsonArray{}, options, "scale").status();
            },
            "PATCH " + base + "/a%20b/scale", "application/json-patch+json", "[]"},
           {[&] {
              PatchOptions options;
              options.type = PatchType::kStrategic;
              return client_->Patch(kWidget, key, widget, options).status();
            },
            "PATCH " + base + "/a%20b", "application/strategic-merge-patch+json", text},
           {[&] {
              PatchOptions options;
              options.type = PatchType::kApply;
              options.force = true;
              options.field_manager = "m";
              return client_->Patch(kWidget, key, widget, options).status();
            },
            "PATCH " + base + "/a%20b?fieldManager=m&force=true", "application/apply-patch+yaml", text},
           {[&] { return client_->Delete(kWidget, key); }, "DELETE " + base + "/a%20b", "application/json",
            R"({"apiVersion":"v1","kind":"DeleteOptions"})"},
           {[&] {
              DeleteOptions options;
              options.grace_period_seconds = 0;
              options.propagation = "Foreground";
              options.uid = "u";
              options.resource_version = "5";
              options.dry_run = true;
              return client_->Delete(kWidget, key, options);
            },
            "DELETE " + base + "/a%20b", "application/json",
            R"({"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"propagationPolicy":"Foreground",)"
            R"("preconditions":{"uid":"u","resourceVersion":"5"},"dryRun":["All"]})"},
           {[&] {
              ListOptions which;
              which.label_selector = "a=b,c";
              return client_->DeleteCollection(kWidget, "n", which);
            },
            "DELETE " + base + "?labelSelector=a%3Db%2Cc", "application/json",
            R"({"apiVersion":"v1","kind":"DeleteOptions"})"},
           {[&] { return client_->GetSubresource(kWidget, key, "scale").status(); }, "GET " + base + "/a%20b/scale", "",
            ""},
           {[&] { return client_->CreateSubresource(core::kPod, {"n", "p"}, "eviction", widget).status(); },
            "POST /base/api/v1/namespaces/n/pods/p/eviction", "application/json", text},
           {[&] { return client_->UpdateSubresource(kWidget, key, "scale", widget).status(); },
            "PUT " + base + "/a%20b/scale", "application/json", text},
           {[&] { return client_->Raw("GET", "/readyz?verbose").status(); }, "GET /base/readyz?verbose", "", ""},
       }) {
    absl::Status status = row.call();
    EXPECT_TRUE(status.ok()) << row.line << status;
    const http::ServerRequest request = Last();
    EXPECT_EQ(Line(request), row.line);
    EXPECT_EQ(request.Header("content-type"), row.content_type) << row.line;
    EXPECT_EQ(request.body, row.body) << row.line;
    EXPECT_EQ(request.Header("user-agent"), "test/1");
    EXPECT_EQ(request.Header("authorization"), "");
  }
}

// Names that would lead somewhere else are not sent: without a name a Delete would be a DeleteCollection.
TEST_F(ClientTest, CallsThatAreNotMade) {
  StartWith(200, "{}");
  PatchOptions apply;
  apply.type = PatchType::kApply;
  for (const absl::Status& status : {
           client_->Get(kWidget, {"n", ""}).status(),
           client_->Delete(kWidget, {"n", ""}),
           client_->Delete(kWidget, {"", "a"}),
           client_->Delete(kWidget, {"n", ".."}),
           client_->DeleteCollection(kWidget, "", {}),
           client_->Create(kWidget, {{"metadata", {{"name", "a"}}}}).status(),
           client_->Update(kWidget, {{"metadata", {{"namespace", "n"}}}}).status(),
           client_->Patch(kWidget, {"n", "a"}, JsonObject{}, apply).status(),
           client_->Raw("GET", "readyz").status(),
       }) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_EQ(Asked(), 0);
}

TEST_F(ClientTest, ListFillsInKinds) {
  StartWith(200, R"({"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"7"},"items":[
      {"metadata":{"name":"a"},"unknown":{"kept":1}},{"metadata":{"name":"b"},"kind":"Own"}]})");
  auto page = client_->List(kWidget, "n");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->resource_version, "7");
  ASSERT_EQ(page->items.size(), 2);
  EXPECT_EQ(Text(*page->items[0], "apiVersion"), "example.com/v1");
  EXPECT_EQ(Text(*page->items[0], "kind"), "Widget");
  EXPECT_EQ(Number(*page->items[0], "unknown.kept"), 1);
  EXPECT_EQ(Text(*page->items[1], "kind"), "Own");
  EXPECT_EQ(Line(Last()), "GET /base/apis/example.com/v1/namespaces/n/widgets?limit=500");

  ListOptions options;
  options.metadata_only = true;
  options.page_size = 0;
  options.resource_version = "0";
  options.field_selector = "metadata.name=a";
  page = client_->List(kWidget, "", options);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(Text(*page->items[0], "kind"), "PartialObjectMetadata");
  EXPECT_EQ(Last().Header("accept"), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
  EXPECT_EQ(Line(Last()), "GET /base/apis/example.com/v1/widgets?fieldSelector=metadata.name%3Da&resourceVersion=0");
}

TEST_F(ClientTest, AnswersThatAreNoList) {
  for (const char* body : {"", "{}", "[]", "<html>", R"({"metadata":{"resourceVersion":"1"},"items":3})",
                           R"({"metadata":{"resourceVersion":"1"},"items":[3]})", R"({"items":[]})"}) {
    StartWith(200, body);
    absl::Status status = client_->List(kWidget, "n").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << body << status;
  }
  StartWith(200, R"({"metadata":{"resourceVersion":"1"},"items":null})");
  auto page = client_->List(kWidget, "n");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->items.size(), 0);
}

std::string Page(int first, int count, std::string_view next) {
  std::string items;
  for (int i = first; i < first + count; ++i) {
    absl::StrAppend(&items, i > first ? "," : "", R"({"metadata":{"name":"w)", i, R"("}})");
  }
  return absl::StrCat(R"({"metadata":{"resourceVersion":"9","continue":")", std::string(next), R"("},"items":[)", items,
                      "]}");
}

TEST_F(ClientTest, Pages) {
  Start([](const http::ServerRequest& request, http::ResponseWriter& writer) {
    const std::string token(request.Query("continue"));
    const int at = token.empty() ? 0 : std::stoi(token);
    writer.Send(200, "", Page(at, 100, at < 1100 ? std::to_string(at + 100) : "")).IgnoreError();
  });
  ListOptions options;
  options.page_size = 100;
  options.resource_version = "5";
  auto list = client_->List(kWidget, "n", options);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(Asked(), 12);
  ASSERT_EQ(list->items.size(), 1200);
  EXPECT_EQ(Name(*list->items[1199]), "w1199");
  EXPECT_EQ(Last().Query("resourceVersion"), "") << "the token has its own";
}

// The continue token ran out: once more from the start, and only once.
TEST_F(ClientTest, PagesThatExpire) {
  std::atomic<int> failures = 1;
  Start([&](const http::ServerRequest& request, http::ResponseWriter& writer) {
    if (request.Query("continue").empty()) {
      writer.Send(200, "", Page(0, 2, "next")).IgnoreError();
    } else if (failures-- > 0) {
      writer.Send(410, "", StatusJson(410, "Expired")).IgnoreError();
    } else {
      writer.Send(200, "", Page(2, 1, "")).IgnoreError();
    }
  });
  auto list = client_->List(kWidget, "n");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->items.size(), 3);
  failures = 100;
  EXPECT_TRUE(kube::IsExpired(client_->List(kWidget, "n").status()));
  EXPECT_EQ(failures, 98);
}

TEST_F(ClientTest, PagesThatLeadNowhere) {
  StartWith(200, Page(0, 1, "again"));
  EXPECT_TRUE(absl::IsDataLoss(client_->List(kWidget, "n").status()));
  EXPECT_EQ(Asked(), 2);
}

TEST_F(ClientTest, ErrorsOfTheServer) {
  StartWith(404, StatusJson(404, "NotFound"));
  absl::Status status = client_->Get(kWidget, {"n", "a"}).status();
  EXPECT_TRUE(kube::IsNotFound(status)) << status;
  EXPECT_EQ(DetailsOf(status)->http_status, 404);
  StartWith(200, "<html>");
  EXPECT_TRUE(absl::IsDataLoss(client_->Get(kWidget, {"n", "a"}).status()));
  // A write is never sent twice, whatever came back.
  StartWith(500, StatusJson(500, "InternalError"));
  EXPECT_TRUE(IsUnclear(client_->Update(kWidget, {{"metadata", {{"name", "a"}, {"namespace", "n"}}}}).status()));
  requests_.clear();
  EXPECT_TRUE(IsUnclear(client_->Delete(kWidget, {"n", "a"})));
  EXPECT_EQ(Asked(), 1);
}

TEST_F(ClientTest, RetryAfter) {
  SimulatedClock clock;
  std::atomic<int> left = 3;
  Config config;
  config.clock = &clock;
  Start(
      [&](const http::ServerRequest&, http::ResponseWriter& writer) {
        if (left-- > 0) {
          writer.Send(left % 2 ? 429 : 503, "", StatusJson(429, "TooManyRequests"), {{"Retry-After", "2"}})
              .IgnoreError();
        } else {
          writer.Send(200, "", "{}").IgnoreError();
        }
      },
      config);
  auto run = [&](auto call, int pauses) {
    absl::Status status;
    requests_.clear();
    std::thread caller([&] { status = call(); });
    for (int i = 0; i < pauses; ++i) {
      AwaitAsked(i + 1);  // it waits no longer for the time of before
      clock.AwaitWaiters(1);
      clock.Advance(absl::Seconds(2));
    }
    caller.join();
    return status;
  };
  auto create = [&](absl::Duration limit) {
    return [this, limit] {
      WriteOptions options;
      options.limit = limit;
      return client_->Create(kWidget, {{"metadata", {{"name", "a"}, {"namespace", "n"}}}}, options).status();
    };
  };
  absl::Status status = run(create(absl::Seconds(30)), 3);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Asked(), 4);

  // Not longer than the limit of the call allows, and not more than ten times.
  left = 1000;
  status = run(create(absl::Seconds(5)), 2);
  EXPECT_TRUE(IsTooManyRequests(status)) << status;
  EXPECT_EQ(DetailsOf(status)->retry_after, absl::Seconds(2));
  EXPECT_EQ(Asked(), 3);
  status = run(create(absl::Hours(1)), 10);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(Asked(), 11);

  // Cancelled while it waits.
  http::Cancel cancel;
  std::thread canceller([&] {
    clock.AwaitWaiters(1);
    cancel.Now();
  });
  CallOptions options;
  options.cancel = &cancel;
  EXPECT_TRUE(absl::IsCancelled(client_->Get(kWidget, {"n", "a"}, options).status()));
  canceller.join();
}

// 429 without a time is for the caller, an eviction that a budget refuses for instance.
TEST_F(ClientTest, TooManyRequestsWithoutATime) {
  StartWith(429, StatusJson(429, "TooManyRequests"));
  EXPECT_TRUE(IsTooManyRequests(client_->CreateSubresource(core::kPod, {"n", "p"}, "eviction", JsonObject{}).status()));
  EXPECT_EQ(Asked(), 1);
}

TEST_F(ClientTest, TimeLimit) {
  std::atomic<bool> done = false;
  Start([&](const http::ServerRequest&, http::ResponseWriter& writer) {
    writer.PeerGone(absl::Minutes(1));
    done = true;
    done.notify_all();
  });
  CallOptions options;
  options.limit = absl::Milliseconds(100);
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_->Get(kWidget, {"n", "a"}, options).status()));
  done.wait(false);
}

std::string Event(std::string_view type, std::string_view name) {
  return absl::StrCat(R"({"type":")", std::string(type), R"(","object":{"metadata":{"name":")", std::string(name),
                      "\"}}}\n");
}

TEST_F(ClientTest, Watch) {
  Start([](const http::ServerRequest&, http::ResponseWriter& writer) {
    ASSERT_TRUE(writer.Begin(200, "application/json").ok());
    for (const char* name : {"a", "b", "c"}) writer.Write(Event("ADDED", name)).IgnoreError();  // it may have enough
    writer.Write(Event("BOOKMARK", "") + Event("DELETED", "a")).IgnoreError();
  });
  std::vector<std::string> names;
  WatchOptions options;
  options.resource_version = "5";
  options.label_selector = "a=b";
  options.server_timeout = absl::Seconds(300);
  absl::Status status = client_->Watch(kWidget, "n", options, [&](WatchEvent event) {
    names.push_back(std::string(1, "AMDB"[static_cast<int>(event.type)]) + std::string(Name(*event.object)));
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(names, ElementsAre("Aa", "Ab", "Ac", "B", "Da"));
  EXPECT_EQ(Line(Last()),
            "GET /base/apis/example.com/v1/namespaces/n/widgets?watch=true&labelSelector=a%3Db&resourceVersion=5"
            "&allowWatchBookmarks=true&timeoutSeconds=300");

  names.clear();
  status = client_->Watch(kWidget, "n", options, [&](WatchEvent event) {
    names.emplace_back(Name(*event.object));
    return names.size() < 2;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(names, ElementsAre("a", "b"));

  options = {};
  options.send_initial_events = true;
  options.metadata_only = true;
  options.bookmarks = false;
  EXPECT_TRUE(client_->Watch(kWidget, "", options, [](WatchEvent) { return false; }).ok());
  EXPECT_EQ(Line(Last()),
            "GET /base/apis/example.com/v1/widgets?watch=true&allowWatchBookmarks=true&timeoutSeconds=480"
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
  EXPECT_EQ(Last().Header("accept"), "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
}

TEST_F(ClientTest, WatchesThatEndBadly) {
  std::mutex mutex;
  std::string next;
  Start([&](const http::ServerRequest&, http::ResponseWriter& writer) {
    std::string how;
    {
      std::lock_guard lock(mutex);
      how = next;
    }
    if (how == "refused") {
      writer.Send(410, "", StatusJson(410, "Expired")).IgnoreError();
      return;
    }
    ASSERT_TRUE(writer.Begin(200, "application/json").ok());
    ASSERT_TRUE(writer.Write(Event("ADDED", "a")).ok());
    if (how == "error") {
      ASSERT_TRUE(writer.Write(R"({"type":"ERROR","object":)" + StatusJson(429, "TooManyRequests") + "}\n").ok());
    } else if (how == "half") {
      ASSERT_TRUE(writer.Write(R"({"type":"ADD)").ok());
    } else if (how == "cut") {
      throw std::runtime_error("cut");
    } else {
      writer.PeerGone(absl::Minutes(1));
    }
  });
  auto watch = [&](std::string way) {
    WatchOptions options;
    // A busy machine is silent too, now and then.
    options.silence_limit = way == "silent" ? absl::Milliseconds(100) : absl::Minutes(1);
    {
      std::lock_guard lock(mutex);
      next = std::move(way);
    }
    return client_->Watch(kWidget, "n", options, [](WatchEvent) { return true; });
  };
  EXPECT_TRUE(kube::IsExpired(watch("refused")));
  EXPECT_TRUE(IsTooManyRequests(watch("error")));
  EXPECT_TRUE(absl::IsUnavailable(watch("half")));
  EXPECT_TRUE(absl::IsUnavailable(watch("cut")));
  absl::Status status = watch("silent");
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("silent"));
}

// The time until the head is limited; afterwards a watch may last.
TEST_F(ClientTest, WatchThatNeverBegins) {
  Start([&](const http::ServerRequest&, http::ResponseWriter& writer) { writer.PeerGone(absl::Minutes(1)); });
  WatchOptions options;
  options.limit = absl::Milliseconds(100);
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_->Watch(kWidget, "n", options, [](WatchEvent) { return true; })));
}

TEST_F(ClientTest, Log) {
  Start([](const http::ServerRequest& request, http::ResponseWriter& writer) {
    if (request.Query("previous") == "true") {
      writer.Send(400, "", StatusJson(400, "BadRequest")).IgnoreError();
      return;
    }
    ASSERT_TRUE(writer.Begin(200, "text/plain").ok());
    ASSERT_TRUE(writer.Write("one\n").ok());
    ASSERT_TRUE(writer.Write("two\n").ok());
  });
  std::string text;
  LogOptions options;
  options.container = "c";
  options.follow = true;
  options.tail_lines = 10;
  absl::Status status = client_->Log({"n", "p"}, options, [&](std::string_view bytes) {
    text += bytes;
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(text, "one\ntwo\n");
  EXPECT_EQ(Line(Last()), "GET /base/api/v1/namespaces/n/pods/p/log?container=c&follow=true&tailLines=10");
  options.previous = true;
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Log({"n", "p"}, options, [](std::string_view) { return true; })));
}

TEST_F(ClientTest, Discovery) {
  for (bool aggregated : {true, false}) {
    SCOPED_TRACE(aggregated);
    std::atomic<bool> installed = false;
    Start([&](const http::ServerRequest& request, http::ResponseWriter& writer) {
      const std::string path = request.path.substr(5);
      std::string body = R"({"kind":"APIGroupList"})";
      int status = 200;
      if (aggregated && path == "/api") {
        body = R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[
            {"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced"}]}]}]})";
      } else if (aggregated && path == "/apis") {
        body = installed ? R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"example.com"},"versions":[
            {"version":"v1","resources":[{"resource":"widgets","responseKind":{"kind":"Widget"},"scope":"Cluster"}]}]}]})"
                         : R"({"kind":"APIGroupDiscoveryList","items":[]})";
      } else if (path == "/api/v1") {
        body = R"({"kind":"APIResourceList","resources":[{"name":"pods","kind":"Pod","namespaced":true},
            {"name":"pods/log","kind":"Pod","namespaced":true}]})";
      } else if (path == "/apis/example.com/v1" && installed) {
        body = R"({"kind":"APIResourceList","resources":[{"name":"widgets","kind":"Widget","namespaced":false}]})";
      } else if (path != "/api" && path != "/apis") {
        body = StatusJson(404, "NotFound");
        status = 404;
      }
      writer.Send(status, "application/json", body).IgnoreError();
    });
    EXPECT_EQ(client_->Discover("v1", "Pod").value(), core::kPod);
    const size_t asked = Asked();
    EXPECT_EQ(client_->Discover("v1", "Pod").value(), core::kPod);
    EXPECT_EQ(Asked(), asked) << "what is known is not asked for again";
    absl::Status status = client_->Discover("example.com/v1", "Widget").status();
    EXPECT_TRUE(kube::IsNotFound(status)) << status;
    installed = true;
    EXPECT_EQ(client_->Discover("example.com/v1", "Widget").value(),
              (Resource{"example.com", "v1", "widgets", "Widget", false}));
  }
}

TEST_F(ClientTest, RetryOnConflict) {
  std::atomic<int> conflicts = 2;
  Start([&](const http::ServerRequest& request, http::ResponseWriter& writer) {
    if (request.method == "GET") {
      writer.Send(200, "", R"({"metadata":{"name":"a","namespace":"n","resourceVersion":"1"}})").IgnoreError();
    } else if (conflicts-- > 0) {
      writer.Send(409, "", StatusJson(409, "Conflict")).IgnoreError();
    } else {
      writer.Send(200, "", request.body).IgnoreError();
    }
  });
  int changes = 0;
  auto change = [&](Json& object) -> absl::StatusOr<bool> {
    EXPECT_EQ(Field(object, "spec.count"), nullptr) << "a fresh object each time";
    EnsureField(object, "spec.count") = ++changes;
    return true;
  };
  auto written = RetryOnConflict(*client_, kWidget, {"n", "a"}, change);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(Number(*written, "spec.count"), 3);
  conflicts = 1000;
  changes = 0;
  EXPECT_TRUE(IsConflict(RetryOnConflict(*client_, kWidget, {"n", "a"}, change, "status").status()));
  EXPECT_EQ(changes, 5);
  EXPECT_EQ(Last().path, "/base/apis/example.com/v1/namespaces/n/widgets/a/status");
  requests_.clear();
  EXPECT_TRUE(RetryOnConflict(*client_, kWidget, {"n", "a"}, [](Json&) { return false; }).ok());
  EXPECT_TRUE(absl::IsDataLoss(
      RetryOnConflict(*client_, kWidget, {"n", "a"}, [](Json&) { return absl::DataLossError("x"); }).status()));
  EXPECT_EQ(Asked(), 2);
}

TEST_F(ClientTest, ConfigReachesTheWire) {
  std::vector<std::string> seen;
  Config config;
  config.username = "me";
  config.password = "secret";
  config.as = "someone";
  config.as_uid = "7";
  config.as_groups = {"a", "b"};
  config.as_extra = {{"some/scope", "x"}};
  config.seen = [&](const CallSeen& call) {
    seen.push_back(absl::StrCat(std::string(call.code), " ", std::string(call.method)));
    EXPECT_GT(call.duration, absl::ZeroDuration());
  };
  StartWith(200, "{}", {}, config);
  ASSERT_TRUE(client_->Get(kWidget, {"n", "a"}).ok());
  EXPECT_EQ(Last().Header("authorization"), "Basic bWU6c2VjcmV0");
  EXPECT_EQ(Last().Header("impersonate-user"), "someone");
  EXPECT_EQ(Last().Header("impersonate-uid"), "7");
  EXPECT_EQ(Last().Header("impersonate-extra-some%2fscope"), "x");
  EXPECT_THAT(Last().headers, testing::Contains(testing::Pair("impersonate-group", "b")));
  server_->Stop();
  EXPECT_FALSE(client_->Get(kWidget, {"n", "a"}).ok());
  EXPECT_THAT(seen, ElementsAre("200 GET", "<error> GET"));
}

}  // namespace
}  // namespace tf::kube
