#include "process_node/volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace tf::process_node {
namespace {

namespace fs = std::filesystem;
using kube::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Json Parse(std::string_view text) {
  absl::StatusOr<Json> json = kube::ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.status() << text;
  return json.ok() ? *json : Json();
}

class VolumesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "volumes.", getpid(), ".",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  absl::StatusOr<Payload> Of(std::string_view volume) {
    return PayloadOf(
        pod_, Parse(volume), "127.9.0.1", NodeFacts{"node-0"},
        [this](std::string_view kind, const std::string& name) -> kube::ObjectPtr {
          const auto at = objects_.find(absl::StrCat(std::string(kind), "/", name));
          return at == objects_.end() ? nullptr : at->second;
        },
        [this](const TokenNeed& need) -> std::optional<std::string> {
          if (token_.empty()) return std::nullopt;
          return absl::StrCat(token_, " ", need.audience, " ", need.expiration_seconds);
        });
  }
  void Have(const std::string& name, std::string_view object) {
    objects_[name] = std::make_shared<const Json>(Parse(object));
  }
  std::string Read(const std::string& path) {
    return ReadFile(absl::StrCat(folder_, "/", path), 1 << 20).value_or("<none>");
  }

  Json pod_ = Parse(R"({"metadata":{"name":"p","namespace":"n","labels":{"a":"b"}},"spec":{"volumes":[
      {"name":"t","projected":{"sources":[{"serviceAccountToken":{"path":"token","expirationSeconds":3607}}]}}]}})");
  std::map<std::string, kube::ObjectPtr> objects_;
  std::string token_ = "secret-token";
  std::string folder_;
};

TEST_F(VolumesTest, SecretWithItemsAndModes) {
  Have("Secret/s", R"({"kind":"Secret","data":{"a":"YQ==","b":"Yg=="}})");
  absl::StatusOr<Payload> all = Of(R"({"secret":{"secretName":"s","defaultMode":256}})");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, ElementsAre(Pair("a", PayloadFile{"a", 0400}), Pair("b", PayloadFile{"b", 0400})));
  absl::StatusOr<Payload> some = Of(R"({"secret":{"secretName":"s","items":[{"key":"b","path":"x/y","mode":448}]}})");
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_THAT(*some, ElementsAre(Pair("x/y", PayloadFile{"b", 0700})));
  EXPECT_THAT(Of(R"({"secret":{"secretName":"s","items":[{"key":"c","path":"c"}]}})").status().message(),
              HasSubstr("non-existent secret key: c"));
  EXPECT_THAT(Of(R"({"secret":{"secretName":"gone"}})").status().message(), HasSubstr("secret \"gone\" not found"));
  EXPECT_TRUE(Of(R"({"secret":{"secretName":"gone","optional":true}})")->empty());
  EXPECT_TRUE(
      absl::IsInvalidArgument(Of(R"({"secret":{"secretName":"s","items":[{"key":"b","path":"../y"}]}})").status()));
}

TEST_F(VolumesTest, ProjectedPutsAllTogether) {
  Have("ConfigMap/c", R"({"kind":"ConfigMap","data":{"ca.crt":"CA"}})");
  absl::StatusOr<Payload> payload = Of(R"({"projected":{"sources":[
      {"serviceAccountToken":{"path":"token","expirationSeconds":3607,"audience":"me"}},
      {"configMap":{"name":"c","items":[{"key":"ca.crt","path":"ca.crt"}]}},
      {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"fieldPath":"metadata.namespace"}},
                               {"path":"labels","fieldRef":{"fieldPath":"metadata.labels"}}]}}]}})");
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_THAT(
      *payload,
      ElementsAre(Pair("ca.crt", PayloadFile{"CA", 0644}), Pair("labels", PayloadFile{"a=\"b\"", 0644}),
                  Pair("namespace", PayloadFile{"n", 0644}), Pair("token", PayloadFile{"secret-token me 3607", 0600})));
  EXPECT_THAT(TokensOf(pod_), ElementsAre(TokenNeed{"", 3607}));
  token_.clear();
  EXPECT_THAT(Of(R"({"projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}})").status().message(),
              HasSubstr("not been issued"));
}

TEST_F(VolumesTest, ReadersSeeOldOrNew) {
  ASSERT_TRUE(WritePayload(folder_, {{"a", {"1", 0644}}, {"d/b", {"2", 0600}}}).ok());
  EXPECT_EQ(Read("a"), "1");
  EXPECT_EQ(Read("d/b"), "2");
  EXPECT_EQ(fs::read_symlink(folder_ + "/a"), "..data/a");
  struct stat about{};
  ASSERT_EQ(stat((folder_ + "/d/b").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
  const fs::path first = fs::read_symlink(folder_ + "/..data");

  ASSERT_TRUE(WritePayload(folder_, {{"a", {"1", 0644}}, {"d/b", {"2", 0600}}}).ok());
  EXPECT_EQ(fs::read_symlink(folder_ + "/..data"), first) << "the same again changes nothing";

  ASSERT_TRUE(WritePayload(folder_, {{"a", {"3", 0644}}, {"c", {"4", 0644}}}).ok());
  EXPECT_NE(fs::read_symlink(folder_ + "/..data"), first);
  EXPECT_EQ(Read("a"), "3");
  EXPECT_EQ(Read("c"), "4");
  EXPECT_EQ(Read("d/b"), "<none>");
  EXPECT_FALSE(fs::exists(fs::path(folder_) / first)) << "the old files are gone";
}

TEST_F(VolumesTest, EmptyPayload) {
  ASSERT_TRUE(WritePayload(folder_, {}).ok());
  EXPECT_TRUE(fs::is_directory(folder_ + "/..data"));
}

TEST_F(VolumesTest, FoldersOfTheMachine) {
  EXPECT_EQ(*FolderOf(Parse(R"({"name":"e","emptyDir":{}})"), folder_ + "/e"), folder_ + "/e");
  EXPECT_TRUE(fs::is_directory(folder_ + "/e"));
  const auto host = [&](const char* name, const char* type) {
    return FolderOf(Parse(absl::StrCat(R"({"hostPath":{"path":")", folder_, "/", name, R"(","type":")", type, "\"}}")),
                    "");
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(host("x", "Directory").status()));
  EXPECT_TRUE(host("x", "DirectoryOrCreate").ok());
  EXPECT_TRUE(host("x", "").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(host("x", "File").status()));
  EXPECT_TRUE(host("f", "FileOrCreate").ok());
  EXPECT_TRUE(absl::IsUnimplemented(FolderOf(Parse(R"({"name":"x","nfs":{}})"), "").status()));
}

TEST_F(VolumesTest, MountsAndSubPaths) {
  fs::create_directories(folder_ + "/v/real");
  fs::create_directory_symlink("/etc", folder_ + "/v/planted");
  const std::map<std::string, std::string> folders = {{"v", folder_ + "/v"}};
  const auto of = [&](const std::string& mount) {
    return MountsOf(Parse(absl::StrCat(R"({"volumeMounts":[{"name":"v","mountPath":"/m")", mount, "}]}")),
                    {{"POD", "p-0"}}, folders);
  };
  EXPECT_EQ(of("")->at(0).source, folder_ + "/v");
  EXPECT_EQ(of(R"(,"subPath":"real","readOnly":true)")->at(0).source, fs::canonical(folder_ + "/v/real"));
  const std::string made = of(R"j(,"subPathExpr":"made/$(POD)")j")->at(0).source;
  EXPECT_EQ(made, fs::canonical(folder_ + "/v/made/p-0"));
  EXPECT_TRUE(absl::IsInvalidArgument(of(R"(,"subPath":"../x")").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(of(R"(,"subPath":"planted")").status())) << "a link out of the volume";
  EXPECT_TRUE(absl::IsFailedPrecondition(
      MountsOf(Parse(R"({"volumeMounts":[{"name":"w","mountPath":"/m"}]})"), {}, folders).status()));
}

}  // namespace
}  // namespace tf::process_node
