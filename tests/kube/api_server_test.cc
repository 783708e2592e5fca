// Every verb of the client against a real kube-apiserver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <condition_variable>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/error.h"
#include "standalone/cluster.h"

namespace tf::kube {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::unique_ptr<standalone::Cluster> cluster;
Config config;

Json ConfigMap(const std::string& ns, const std::string& name, const std::string& value = "1") {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", name}, {"namespace", ns}, {"labels", {{"app", "test"}, {"name", name}}}}},
          {"data", {{"key", value}}}};
}

Json Deployment(const std::string& ns, const std::string& name, int replicas) {
  const Json labels = {{"app", name}, {"tier", "test"}};
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", {{"name", name}, {"namespace", ns}}},
          {"spec",
           {{"replicas", replicas},
            {"selector", {{"matchLabels", labels}}},
            {"template",
             {{"metadata", {{"labels", labels}}},
              {"spec", {{"containers", JsonArray{Json{{"name", "c"}, {"image", "none"}}}}}}}}}}};
}

Json Pod(const std::string& ns, const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", name}, {"namespace", ns}}},
          {"spec",
           {{"schedulerName", "nobody"},  // no one else writes to it
            {"containers", JsonArray{Json{{"name", "c"}, {"image", "none"}}}}}}};
}

// Each test has a namespace of its own, with its default service account.
class ApiServer : public ::testing::Test {
 protected:
  ApiServer() : client_(std::make_shared<Config>(config), "api-server-test/1") {
    static std::atomic<int> number = 0;
    ns_ = absl::StrCat("test-", number++);
    auto made = client_.Create(core::kNamespace, {{"metadata", {{"name", ns_}}}});
    EXPECT_TRUE(made.ok()) << made.status();
  }

  Json Make(const Resource& resource, const Json& object) {
    auto made = client_.Create(resource, object);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *made : Json();
  }
  // Until `done` holds of the object that a watch tells of.
  void AwaitObject(const Resource& resource, const std::string& name, const std::function<bool(const Json&)>& done) {
    WatchOptions options;
    options.field_selector = "metadata.name=" + name;
    options.send_initial_events = true;
    bool held = false;
    absl::Status status = client_.Watch(resource, ns_, options, [&](WatchEvent event) {
      held = event.type != WatchEvent::Type::kBookmark && done(*event.object);
      return !held;
    });
    EXPECT_TRUE(held) << name << " " << status;
  }

  Client client_;
  std::string ns_;
};

TEST_F(ApiServer, CreateGetUpdateDelete) {
  const Json made = Make(core::kConfigMap, ConfigMap(ns_, "a"));
  EXPECT_NE(Uid(made), "");
  EXPECT_TRUE(kube::IsAlreadyExists(client_.Create(core::kConfigMap, ConfigMap(ns_, "a")).status()));
  auto got = client_.Get(core::kConfigMap, {ns_, "a"});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, made);
  absl::Status missing = client_.Get(core::kConfigMap, {ns_, "none"}).status();
  EXPECT_TRUE(kube::IsNotFound(missing)) << missing;
  EXPECT_EQ(DetailsOf(missing)->reason, "NotFound");

  Json changed = made;
  EnsureField(changed, "data.key") = "2";
  auto updated = client_.Update(core::kConfigMap, changed);
  ASSERT_TRUE(updated.ok()) << updated.status();
  absl::Status stale = client_.Update(core::kConfigMap, changed).status();
  EXPECT_TRUE(IsConflict(stale)) << stale;
  EXPECT_FALSE(IsUnclear(stale));

  WriteOptions dry;
  dry.dry_run = true;
  changed = *updated;
  EnsureField(changed, "data.key") = "3";
  EXPECT_EQ(Text(*client_.Update(core::kConfigMap, changed, dry), "data.key"), "3");
  EXPECT_EQ(Text(*client_.Get(core::kConfigMap, {ns_, "a"}), "data.key"), "2");
  EXPECT_TRUE(client_.Create(core::kConfigMap, ConfigMap(ns_, "b"), dry).ok());
  EXPECT_TRUE(kube::IsNotFound(client_.Get(core::kConfigMap, {ns_, "b"}).status()));

  Json generated = ConfigMap(ns_, "x");
  generated.at("metadata").as_object().erase("name");
  EnsureField(generated, "metadata.generateName") = "some-";
  EXPECT_THAT(std::string(Name(Make(core::kConfigMap, generated))), ::testing::StartsWith("some-"));

  EXPECT_TRUE(client_.Delete(core::kConfigMap, {ns_, "a"}).ok());
  EXPECT_TRUE(kube::IsNotFound(client_.Delete(core::kConfigMap, {ns_, "a"})));
}

TEST_F(ApiServer, PreconditionsOfDelete) {
  const Json made = Make(core::kConfigMap, ConfigMap(ns_, "a"));
  DeleteOptions other;
  other.uid = "00000000-0000-0000-0000-000000000000";
  EXPECT_TRUE(IsConflict(client_.Delete(core::kConfigMap, {ns_, "a"}, other)));
  DeleteOptions older;
  older.resource_version = "1";
  EXPECT_TRUE(IsConflict(client_.Delete(core::kConfigMap, {ns_, "a"}, older)));
  DeleteOptions dry;
  dry.dry_run = true;
  EXPECT_TRUE(client_.Delete(core::kConfigMap, {ns_, "a"}, dry).ok());
  DeleteOptions right;
  right.uid = Uid(made);
  right.resource_version = ResourceVersion(made);
  right.propagation = "Background";
  absl::Status status = client_.Delete(core::kConfigMap, {ns_, "a"}, right);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ApiServer, InvalidNamesItsCauses) {
  absl::Status status = client_.Create(core::kDeployment, Deployment(ns_, "Wrong_Name", -1)).status();
  EXPECT_TRUE(IsInvalid(status)) << status;
  std::set<std::string> fields;
  const ErrorDetails details = DetailsOf(status).value_or(ErrorDetails{});
  for (const Cause& cause : details.causes) fields.insert(cause.field);
  EXPECT_THAT(fields, Contains("spec.replicas"));
  EXPECT_THAT(fields, Contains("metadata.name"));
  status = client_.Create(core::kDeployment, {{"metadata", {{"name", "a"}, {"namespace", ns_}}}, {"spec", 3}}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(DetailsOf(status)->reason, "BadRequest");
}

TEST_F(ApiServer, Patches) {
  Make(core::kDeployment, Deployment(ns_, "a", 0));
  const Key key{ns_, "a"};
  PatchOptions options;
  auto patched = client_.Patch(core::kDeployment, key, {{"metadata", {{"labels", {{"x", "1"}}}}}}, options);
  ASSERT_TRUE(patched.ok()) << patched.status();
  EXPECT_EQ(Label(*patched, "x"), "1");

  options.type = PatchType::kJson;
  patched = client_.Patch(core::kDeployment, key,
                          JsonArray{Json{{"op", "replace"}, {"path", "/metadata/labels/x"}, {"value", "2"}}}, options);
  ASSERT_TRUE(patched.ok()) << patched.status();
  EXPECT_EQ(Label(*patched, "x"), "2");
  absl::Status failed =
      client_
          .Patch(core::kDeployment, key,
                 JsonArray{Json{{"op", "test"}, {"path", "/metadata/labels/x"}, {"value", "9"}}}, options)
          .status();
  EXPECT_TRUE(IsInvalid(failed)) << failed;

  // A strategic patch merges lists by name: the container that is not named stays.
  options.type = PatchType::kStrategic;
  patched = client_.Patch(
      core::kDeployment, key,
      {{"spec", {{"template", {{"spec", {{"containers", JsonArray{Json{{"name", "d"}, {"image", "more"}}}}}}}}}}},
      options);
  ASSERT_TRUE(patched.ok()) << patched.status();
  EXPECT_EQ(Field(*patched, "spec.template.spec.containers")->as_array().size(), 2);
}

TEST_F(ApiServer, ServerSideApply) {
  auto applied = [&](const std::string& value) {
    return Json{{"apiVersion", "v1"},
                {"kind", "ConfigMap"},
                {"metadata", {{"name", "a"}, {"namespace", ns_}}},
                {"data", {{"key", value}}}};
  };
  PatchOptions mine;
  mine.type = PatchType::kApply;
  mine.field_manager = "mine";
  auto made = client_.Patch(core::kConfigMap, {ns_, "a"}, applied("1"), mine);
  ASSERT_TRUE(made.ok()) << made.status();
  PatchOptions other = mine;
  other.field_manager = "other";
  absl::Status conflict = client_.Patch(core::kConfigMap, {ns_, "a"}, applied("2"), other).status();
  EXPECT_TRUE(IsConflict(conflict)) << conflict;
  ASSERT_FALSE(DetailsOf(conflict)->causes.empty());
  EXPECT_EQ(DetailsOf(conflict)->causes[0].field, ".data.key");
  other.force = true;
  auto forced = client_.Patch(core::kConfigMap, {ns_, "a"}, applied("2"), other);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ(Text(*forced, "data.key"), "2");
}

TEST_F(ApiServer, TwelveHundredObjectsInPages) {
  std::vector<std::thread> makers;
  for (int thread = 0; thread < 4; ++thread) {
    makers.emplace_back([&, thread] {
      for (int i = thread; i < 1200; i += 4) Make(core::kConfigMap, ConfigMap(ns_, absl::StrCat("w", i)));
    });
  }
  for (std::thread& maker : makers) maker.join();
  ListOptions options;
  options.label_selector = "app=test";
  options.page_size = 100;
  int pages = 0;
  std::set<std::string> names;
  std::string version;
  do {
    auto page = client_.ListOnePage(core::kConfigMap, ns_, options);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->items.size(), 100);
    if (pages++ > 0) {
      EXPECT_EQ(page->resource_version, version) << "all pages are of one moment";
    }
    version = page->resource_version;
    for (const ObjectPtr& item : page->items) {
      names.emplace(Name(*item));
      EXPECT_EQ(Text(*item, "kind"), "ConfigMap");
      EXPECT_EQ(Text(*item, "apiVersion"), "v1");
    }
    options.continue_token = page->continue_token;
  } while (!options.continue_token.empty());
  EXPECT_EQ(pages, 12);
  EXPECT_EQ(names.size(), 1200);

  auto all = client_.List(core::kConfigMap, ns_, options);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->items.size(), 1200);
  options.label_selector = "name in (w1,w2)";
  EXPECT_EQ(client_.List(core::kConfigMap, ns_, options)->items.size(), 2);
  options.label_selector = "";
  options.field_selector = "metadata.name=w7";
  options.metadata_only = true;
  auto one = client_.List(core::kConfigMap, ns_, options);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_EQ(one->items.size(), 1);
  EXPECT_EQ(Text(*one->items[0], "kind"), "PartialObjectMetadata");
  EXPECT_EQ(Field(*one->items[0], "data"), nullptr);

  ListOptions which;
  which.label_selector = "app=test";
  absl::Status status = client_.DeleteCollection(core::kConfigMap, ns_, which);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(client_.List(core::kConfigMap, ns_, which)->items.size(), 0);
}

TEST_F(ApiServer, WatchSeesEachChange) {
  const Json before = Make(core::kConfigMap, ConfigMap(ns_, "a"));
  WatchOptions options;
  options.resource_version = ResourceVersion(before);
  options.label_selector = "app=test";
  std::vector<std::string> seen;
  std::thread writer;
  Make(core::kConfigMap, ConfigMap(ns_, "b"));  // after that version, before the watch
  absl::Status status = client_.Watch(core::kConfigMap, ns_, options, [&](WatchEvent event) {
    seen.push_back(absl::StrCat(static_cast<int>(event.type), std::string(Name(*event.object)), ":",
                                std::string(Text(*event.object, "data.key"))));
    if (seen.size() == 1) {
      // Changes while the watch runs, and an object of a megabyte among them.
      writer = std::thread([this] {
        EXPECT_TRUE(client_.Patch(core::kConfigMap, {ns_, "b"}, {{"data", {{"key", "2"}}}}).ok());
        Json big = ConfigMap(ns_, "c", "big");
        EnsureField(big, "data.big") = std::string(1000000, 'x');
        Make(core::kConfigMap, big);
        EXPECT_TRUE(client_.Delete(core::kConfigMap, {ns_, "b"}).ok());
      });
    }
    return seen.size() < 4;
  });
  EXPECT_TRUE(status.ok()) << status;
  if (writer.joinable()) writer.join();
  EXPECT_EQ(seen, (std::vector<std::string>{"0b:1", "1b:2", "0c:big", "2b:2"}));
}

TEST_F(ApiServer, WatchListEndsItsInitialEventsWithABookmark) {
  for (const char* name : {"a", "b", "c"}) Make(core::kConfigMap, ConfigMap(ns_, name));
  for (bool metadata_only : {false, true}) {
    WatchOptions options;
    options.send_initial_events = true;
    options.label_selector = "app=test";
    options.metadata_only = metadata_only;
    int added = 0;
    std::string bookmark;
    absl::Status status = client_.Watch(core::kConfigMap, ns_, options, [&](WatchEvent event) {
      if (event.type == WatchEvent::Type::kBookmark) {
        bookmark = ResourceVersion(*event.object);
        EXPECT_EQ(Annotation(*event.object, "k8s.io/initial-events-end"), "true");
        return false;
      }
      EXPECT_EQ(event.type, WatchEvent::Type::kAdded);
      EXPECT_EQ(Field(*event.object, "data") == nullptr, metadata_only);
      ++added;
      return true;
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(added, 3);
    EXPECT_NE(bookmark, "");
  }
}

TEST_F(ApiServer, WatchEndsWhenAsked) {
  WatchOptions options;
  options.server_timeout = absl::Seconds(1);
  absl::Status status = client_.Watch(core::kConfigMap, ns_, options, [](WatchEvent) { return true; });
  EXPECT_TRUE(status.ok()) << status;

  http::Cancel cancel;
  options = {};
  options.cancel = &cancel;
  options.send_initial_events = true;
  status = client_.Watch(core::kConfigMap, ns_, options, [&](WatchEvent) {
    cancel.Now();
    return true;
  });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  // A version of the future: the server says that it cannot know it yet.
  ListOptions ahead;
  ahead.resource_version = "999999999";
  ahead.resource_version_match = "NotOlderThan";
  EXPECT_FALSE(client_.List(core::kConfigMap, ns_, ahead).ok());
}

TEST_F(ApiServer, SubresourcesOfADeployment) {
  Make(core::kDeployment, Deployment(ns_, "a", 0));
  auto scale = client_.GetSubresource(core::kDeployment, {ns_, "a"}, "scale");
  ASSERT_TRUE(scale.ok()) << scale.status();
  EXPECT_EQ(Text(*scale, "kind"), "Scale");
  EnsureField(*scale, "spec.replicas") = 2;
  scale->at("metadata").as_object().erase("resourceVersion");  // the deployment controller writes to it too
  scale = client_.UpdateSubresource(core::kDeployment, {ns_, "a"}, "scale", *scale);
  ASSERT_TRUE(scale.ok()) << scale.status();
  EXPECT_EQ(Number(*client_.Get(core::kDeployment, {ns_, "a"}), "spec.replicas"), 2);
}

TEST_F(ApiServer, StatusAndSpecAreApart) {
  Make(core::kPod, Pod(ns_, "p"));
  auto changed = RetryOnConflict(
      client_, core::kPod, {ns_, "p"},
      [](Json& pod) -> absl::StatusOr<bool> {
        EnsureField(pod, "status.message") = "hello";
        return true;
      },
      "status");
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(Text(*changed, "status.message"), "hello");
  Json direct = *changed;
  EnsureField(direct, "status.message") = "ignored";
  auto updated = client_.Update(core::kPod, direct);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(Text(*updated, "status.message"), "hello");
}

TEST_F(ApiServer, BindingAndEviction) {
  const std::string node = ns_ + "-node";
  Make(core::kNode, {{"metadata", {{"name", node}}}});
  Make(core::kPod, Pod(ns_, "p"));
  auto bound = client_.CreateSubresource(core::kPod, {ns_, "p"}, "binding",
                                         {{"apiVersion", "v1"},
                                          {"kind", "Binding"},
                                          {"metadata", {{"name", "p"}, {"namespace", ns_}}},
                                          {"target", {{"kind", "Node"}, {"name", node}}}});
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(Text(*client_.Get(core::kPod, {ns_, "p"}), "spec.nodeName"), node);
  absl::Status log = client_.Log({ns_, "p"}, {}, [](std::string_view) { return true; });
  EXPECT_FALSE(log.ok()) << "there is no kubelet";
  EXPECT_TRUE(DetailsOf(log).has_value()) << log;

  Make(core::kPod, Pod(ns_, "q"));
  auto evicted = client_.CreateSubresource(
      core::kPod, {ns_, "q"}, "eviction",
      {{"apiVersion", "policy/v1"}, {"kind", "Eviction"}, {"metadata", {{"name", "q"}, {"namespace", ns_}}}});
  EXPECT_TRUE(evicted.ok()) << evicted.status();
  DeleteOptions now;
  now.grace_period_seconds = 0;
  EXPECT_TRUE(client_.Delete(core::kPod, {ns_, "p"}, now).ok());
  EXPECT_TRUE(client_.Delete(core::kNode, {"", node}).ok());
}

TEST_F(ApiServer, TokensAndWhatTheyMayDo) {
  AwaitObject(core::kServiceAccount, "default", [](const Json&) { return true; });
  auto token = client_.CreateSubresource(
      core::kServiceAccount, {ns_, "default"}, "token",
      {{"apiVersion", "authentication.k8s.io/v1"}, {"kind", "TokenRequest"}, {"spec", {{"expirationSeconds", 600}}}});
  ASSERT_TRUE(token.ok()) << token.status();
  Config with_token = config;
  with_token.certificate_pem = with_token.certificate_file = with_token.key_pem = with_token.key_file = "";
  with_token.token = Text(*token, "status.token");
  Client weak(std::make_shared<Config>(with_token), "test");
  absl::Status status = weak.List(core::kSecret, ns_).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("system:serviceaccount:", ns_, ":default")));

  with_token.token = "nonsense";
  status = Client(std::make_shared<Config>(with_token), "test").List(core::kSecret, ns_).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;

  Config impersonating = config;
  impersonating.as = "somebody";
  impersonating.as_groups = {"some-group"};
  status = Client(std::make_shared<Config>(impersonating), "test").List(core::kSecret, ns_).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("somebody"));
}

TEST_F(ApiServer, Discovery) {
  for (const Resource& resource : {core::kPod, core::kNode, core::kNamespace, core::kSecret, core::kConfigMap,
                                   core::kService, core::kServiceAccount, core::kLease, core::kEvent,
                                   core::kCustomResourceDefinition, core::kDeployment, core::kControllerRevision}) {
    auto found = client_.Discover(resource.ApiVersion(), resource.kind);
    ASSERT_TRUE(found.ok()) << resource.kind << found.status();
    EXPECT_EQ(*found, resource) << resource.kind;
  }
  EXPECT_TRUE(kube::IsNotFound(client_.Discover("example.com/v1", "Widget").status()));
  EXPECT_TRUE(kube::IsNotFound(client_.Get({"example.com", "v1", "widgets", "Widget", true}, {ns_, "a"}).status()));
}

TEST_F(ApiServer, RawPaths) {
  EXPECT_EQ(client_.Raw("GET", "/readyz").value(), "ok");
  auto version = ParseJson(client_.Raw("GET", "/version").value());
  ASSERT_TRUE(version.ok());
  EXPECT_EQ(Text(*version, "major"), "1");
  EXPECT_TRUE(kube::IsNotFound(client_.Raw("GET", "/nothing").status()));
}

TEST_F(ApiServer, RetryOnConflictLosesNoUpdate) {
  Make(core::kConfigMap, ConfigMap(ns_, "a", "0"));
  std::vector<std::thread> threads;
  std::atomic<int> written = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        absl::StatusOr<Json> done =
            RetryOnConflict(client_, core::kConfigMap, {ns_, "a"}, [](Json& object) -> absl::StatusOr<bool> {
              Json& key = EnsureField(object, "data.key");
              key = std::to_string(std::stoi(std::string(key.as_string())) + 1);
              return true;
            });
        if (done.ok()) {
          ++written;
        } else {
          EXPECT_TRUE(IsConflict(done.status())) << done.status();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Text(*client_.Get(core::kConfigMap, {ns_, "a"}), "data.key"), std::to_string(written));
  EXPECT_GT(written, 15);
}

}  // namespace
}  // namespace tf::kube

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  char folder[] = "/tmp/api_server_test.XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  int result = 1;
  {
    tf::kube::cluster = std::make_unique<tf::standalone::Cluster>(
        tf::standalone::ClusterOptions{.data_dir = folder, .controlplane = TF_CONTROLPLANE, .fsync = false});
    absl::Status started = tf::kube::cluster->Start();
    absl::StatusOr<tf::kube::Config> config =
        started.ok() ? tf::kube::LoadConfig({.kubeconfig = tf::kube::cluster->kubeconfig()}) : started;
    if (config.ok()) {
      tf::kube::config = *std::move(config);
      result = RUN_ALL_TESTS();
    } else {
      std::cerr << config.status() << "\n";
    }
    tf::kube::cluster.reset();
  }
  std::filesystem::remove_all(folder);
  return result;
}
