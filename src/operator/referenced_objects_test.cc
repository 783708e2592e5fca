#include "operator/referenced_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kube/config.h"
#include "support/scripted_server.h"

namespace tf::operators {
namespace {

using ::testing::HasSubstr;
using tf::testing::Answer;
using tf::testing::ScriptedRequest;
using tf::testing::ScriptedServer;
using Kind = Reference::Kind;

// An API server with two objects, each of which can only be watched by its name.
class ReferencedObjectsTest : public ::testing::Test {
 protected:
  ReferencedObjectsTest() {
    kube::Config config;
    config.server = server_.url();
    client_ = std::make_unique<kube::Client>(std::make_shared<kube::Config>(std::move(config)), "test/1");
    objects_ = std::make_unique<ReferencedObjects>(*client_, [this] { ++changes_; });
  }

  static void Serve(const ScriptedRequest& request, Answer& answer) {
    const std::string which = request.Query("fieldSelector");
    std::string object;
    if (request.path == "/api/v1/namespaces/apps/secrets" && which == "metadata.name=license") {
      object =
          absl::StrCat(R"({"metadata": {"name": "license", "namespace": "apps", "uid": "u", "resourceVersion": "5"},
                                "data": {"text": ")",
                       absl::Base64Escape("hidden"), R"(", "sign": ")", absl::Base64Escape("words"), "\"}}");
    } else if (request.path == "/api/v1/namespaces/apps/configmaps" && which == "metadata.name=settings") {
      object = R"({"metadata": {"name": "settings", "namespace": "apps", "uid": "v", "resourceVersion": "6"},
                   "data": {"level": "3"}})";
    } else if (which != "metadata.name=absent") {
      answer.Send(403, R"({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                           "message": "not to be read"})");
      return;
    }
    for (char& one : object) one = one == '\n' ? ' ' : one;
    answer.Begin();
    if (!object.empty()) answer.Chunk(absl::StrCat(R"({"type":"ADDED","object":)", object, "}\n"));
    answer.Chunk(R"({"type":"BOOKMARK","object":{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"9",)"
                 R"("annotations":{"k8s.io/initial-events-end":"true"}}}})"
                 "\n");
    answer.Hold();
  }

  ScriptedServer server_{&Serve};
  std::unique_ptr<kube::Client> client_;
  std::atomic<int> changes_ = 0;
  std::unique_ptr<ReferencedObjects> objects_;
};

TEST_F(ReferencedObjectsTest, DigestsOfWhatReachesThePod) {
  const auto digests = objects_->Digests("pool", "apps",
                                         {{Kind::kSecret, "absent", {}, true},
                                          {Kind::kSecret, "license", {"text"}, false},
                                          {Kind::kConfigMap, "settings"}});
  ASSERT_TRUE(digests.ok()) << digests.status();
  const kube::JsonObject& found = digests->as_object();
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at("Secret/license").as_object().size(), 1u);
  // SHA-256 of "hidden".
  EXPECT_EQ(found.at("Secret/license").at("text"), "e564b4081d7a9ea4b00dada53bdae70c99b87b6fce869f0c3dd4d2bfa1e53e1c");
  EXPECT_GT(changes_, 0);
}

TEST_F(ReferencedObjectsTest, WhatIsMissingIsNamed) {
  const auto absent = objects_->Digests("pool", "apps", {{Kind::kSecret, "absent"}});
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("Secret apps/absent is missing"));
  const auto key = objects_->Digests("pool", "apps", {{Kind::kSecret, "license", {"other"}, false}});
  EXPECT_THAT(std::string(key.status().message()), HasSubstr("Secret apps/license has no key 'other'"));
  EXPECT_TRUE(objects_->Digests("pool", "apps", {{Kind::kSecret, "license", {"other"}, true}}).ok());
}

TEST_F(ReferencedObjectsTest, ValuesAreDecoded) {
  const auto values = objects_->ValuesOf("pool", {Kind::kSecret, "apps", "license"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(**values, (ReferencedObjects::Values{{"text", "hidden"}, {"sign", "words"}}));
  EXPECT_FALSE((*objects_->ValuesOf("pool", {Kind::kSecret, "apps", "absent"})).has_value());
}

TEST_F(ReferencedObjectsTest, WatchesEndWithTheLastPoolThatUsesThem) {
  const ReferencedObjects::Name license{Kind::kSecret, "apps", "license"};
  for (const char* pool : {"one", "two"}) ASSERT_TRUE(objects_->ValuesOf(pool, license).ok());
  EXPECT_EQ(objects_->watches(), 1u);
  objects_->Keep("one", {});
  EXPECT_EQ(objects_->watches(), 1u);
  objects_->Keep("two", {});
  EXPECT_EQ(objects_->watches(), 0u);
}

}  // namespace
}  // namespace tf::operators
