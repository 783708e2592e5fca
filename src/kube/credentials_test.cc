#include "kube/credentials.h"

#include <sys/stat.h>

#include <filesystem>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "http/server.h"
#include "http/test_certificates.h"
#include "kube/client.h"
#include "kube/error.h"

namespace tf::kube {
namespace {

using testing::HasSubstr;

class CredentialsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/kube_credentials_test.XXXXXX";
    folder_ = mkdtemp(name);
    config_.server = "https://127.0.0.1:6443";
    config_.clock = &clock_;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) { return folder_ + "/" + name; }
  void Write(const std::string& name, std::string_view text, mode_t mode = 0600) {
    ASSERT_TRUE(WriteFile(Path(name), text, mode).ok());
  }
  Credentials& Make() {
    credentials_ = std::make_unique<Credentials>(std::make_shared<Config>(config_));
    return *credentials_;
  }
  absl::StatusOr<Credentials::Shown> Get() { return credentials_->Get(absl::Seconds(20), nullptr); }
  std::string Authorization() {
    auto shown = Get();
    return shown.ok() ? shown->authorization : shown.status().ToString();
  }
  // A plugin that prints this, and says so in a file that counts its runs.
  void Plugin(const std::string& prints, const std::string& api = "client.authentication.k8s.io/v1") {
    Write("prints", prints);
    Write("plugin",
          absl::StrCat("#!/bin/sh\nset -e\necho \"$KUBERNETES_EXEC_INFO\" > ", Path("info"), "\necho run >> ",
                       Path("runs"), "\ncat ", Path("prints"), "\n[ \"$1\" != fail ] || exit 3\n"),
          0700);
    config_.exec = ExecPlugin{.command = Path("plugin"), .api_version = api, .install_hint = "see the manual"};
  }
  int Runs() {
    const std::string text = ReadFile(Path("runs"), 10000).value_or("");
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
  static std::string ExecJson(const std::string& status) {
    return absl::StrCat(R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{)", status,
                        "}}");
  }

  std::string folder_;
  SimulatedClock clock_;
  Config config_;
  std::unique_ptr<Credentials> credentials_;
};

TEST_F(CredentialsTest, Plain) {
  Make();
  EXPECT_EQ(Authorization(), "");
  config_.token = "abc";
  Make();
  EXPECT_EQ(Authorization(), "Bearer abc");
}

// A minute less ten seconds after it was read, a token file is read again; what cannot be read changes nothing.
TEST_F(CredentialsTest, TokenFile) {
  config_.token_file = Path("token");
  Make();
  EXPECT_TRUE(absl::IsUnauthenticated(Get().status())) << Get().status();
  EXPECT_THAT(std::string(Get().status().message()), HasSubstr(Path("token")));
  Write("token", " one\n");
  EXPECT_EQ(Authorization(), "Bearer one");
  Write("token", "two");
  clock_.Advance(absl::Seconds(49));
  EXPECT_EQ(Authorization(), "Bearer one");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Authorization(), "Bearer two");
  for (const char* bad : {"", "\n", "two\r\nlines"}) {
    Write("token", bad);
    clock_.Advance(absl::Minutes(1));
    EXPECT_EQ(Authorization(), "Bearer two");
  }
  std::filesystem::remove(Path("token"));
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Authorization(), "Bearer two");
  Write("token", "three");
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Authorization(), "Bearer three");
}

TEST_F(CredentialsTest, RefusedTokenIsReadAgainAtOnce) {
  config_.token_file = Path("token");
  Write("token", "one");
  Make();
  auto one = Get();
  ASSERT_TRUE(one.ok());
  EXPECT_FALSE(credentials_->Refused(*one)) << "there is no other";
  Write("token", "two");
  EXPECT_TRUE(credentials_->Refused(*one));
  EXPECT_EQ(Authorization(), "Bearer two");
  EXPECT_TRUE(credentials_->Refused(*one)) << "another thread was told so before";
}

TEST_F(CredentialsTest, AuthorityFile) {
  http::TestAuthority first("first"), second("second");
  config_.ca_file = Path("ca.crt");
  Make();
  EXPECT_TRUE(absl::IsUnauthenticated(Get().status()));
  Write("ca.crt", first.pem());
  auto shown = Get();
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->tls->ca_pem, first.pem());
  const uint64_t version = shown->version;
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Get()->version, version) << "the same contents are no change";
  for (const std::string& bad : {std::string(), std::string("no certificate"), first.pem().substr(0, 100)}) {
    Write("ca.crt", bad);
    clock_.Advance(absl::Minutes(1));
    EXPECT_EQ(Get()->tls->ca_pem, first.pem());
  }
  Write("ca.crt", first.pem() + second.pem());
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Get()->tls->ca_pem, first.pem() + second.pem());
  EXPECT_GT(Get()->version, version);
}

// Certificate and key are two files, so one may be seen new and the other old: the pair from before stays.
TEST_F(CredentialsTest, ClientCertificateFiles) {
  http::TestAuthority authority;
  const http::TestPair one = authority.Sign({.common_name = "one"}), two = authority.Sign({.common_name = "two"});
  config_.certificate_file = Path("tls.crt");
  config_.key_file = Path("tls.key");
  Write("tls.crt", one.certificate_pem);
  Make();
  EXPECT_TRUE(absl::IsUnauthenticated(Get().status()));
  Write("tls.key", two.key_pem);
  EXPECT_THAT(std::string(Get().status().message()), HasSubstr("does not belong"));
  Write("tls.key", one.key_pem);
  EXPECT_EQ(Get()->tls->certificate_pem, one.certificate_pem);
  Write("tls.crt", two.certificate_pem);
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Get()->tls->certificate_pem, one.certificate_pem);
  Write("tls.key", two.key_pem);
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Get()->tls->certificate_pem, two.certificate_pem);
  EXPECT_EQ(Get()->tls->key_pem, two.key_pem);
}

TEST_F(CredentialsTest, PluginIsKeptUntilItExpires) {
  const absl::Time expiry = clock_.Now() + absl::Minutes(10);
  Plugin(ExecJson(absl::StrCat(R"("token":"abc","expirationTimestamp":")",
                               absl::FormatTime(absl::RFC3339_sec, expiry, absl::UTCTimeZone()), "\"")));
  config_.exec->provide_cluster_info = true;
  config_.exec->args = {"x"};
  config_.ca_pem = http::TestAuthority().pem();
  Make();
  EXPECT_EQ(Authorization(), "Bearer abc");
  EXPECT_EQ(Authorization(), "Bearer abc");
  EXPECT_EQ(Runs(), 1);
  const std::string info = ReadFile(Path("info"), 100000).value();
  EXPECT_THAT(info, HasSubstr(R"("kind":"ExecCredential")"));
  EXPECT_THAT(info, HasSubstr(R"("interactive":false)"));
  EXPECT_THAT(info, HasSubstr(R"("server":"https://127.0.0.1:6443")"));
  EXPECT_THAT(info, HasSubstr(R"("certificate-authority-data":")"));
  Write("prints", ExecJson(R"("token":"def")"));
  clock_.Advance(absl::Minutes(10));
  EXPECT_EQ(Authorization(), "Bearer def");
  EXPECT_EQ(Runs(), 2);
  clock_.Advance(absl::Hours(100));
  EXPECT_EQ(Authorization(), "Bearer def");
  EXPECT_EQ(Runs(), 2);
  EXPECT_TRUE(credentials_->Refused(*Get()));
  EXPECT_EQ(Authorization(), "Bearer def");
  EXPECT_EQ(Runs(), 3);
}

TEST_F(CredentialsTest, PluginWithCertificate) {
  const http::TestPair pair = http::TestAuthority().Sign({});
  auto escape = [](std::string text) {
    for (size_t at = 0; (at = text.find('\n', at)) != text.npos; at += 2) text.replace(at, 1, "\\n");
    return text;
  };
  Plugin(ExecJson(absl::StrCat(R"("clientCertificateData":")", escape(pair.certificate_pem), R"(","clientKeyData":")",
                               escape(pair.key_pem), "\"")));
  Make();
  auto shown = Get();
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->tls->certificate_pem, pair.certificate_pem);
  EXPECT_EQ(shown->authorization, "");
}

TEST_F(CredentialsTest, PluginsThatFail) {
  struct Row {
    std::string prints, named;
  };
  for (const Row& row : std::vector<Row>{
           {"", "no valid JSON"},
           {"{}", "no ExecCredential"},
           {R"({"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"a"}})",
            "client.authentication.k8s.io/v1"},
           {ExecJson(""), "neither"},
           {ExecJson(R"("clientCertificateData":"x")"), "without its key"},
           {ExecJson(R"("clientCertificateData":"x","clientKeyData":"y")"), "cannot be used"},
           {ExecJson(R"("token":"a\nb")"), "more than one line"},
           {ExecJson(R"("token":"a","expirationTimestamp":"soon")"), "RFC 3339"},
       }) {
    Plugin(row.prints);
    Make();
    absl::Status status = Get().status();
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << row.prints << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.named));
    EXPECT_THAT(std::string(status.message()), HasSubstr("see the manual"));
  }
  config_.exec->args = {"fail"};
  Make();
  EXPECT_THAT(std::string(Get().status().message()), HasSubstr("exit code 3"));
  config_.exec->command = Path("missing");
  Make();
  EXPECT_THAT(std::string(Get().status().message()), HasSubstr("does not start"));

  Write("plugin", "#!/bin/sh\nexec sleep 1000\n", 0700);
  config_.exec->command = Path("plugin");
  Make();
  absl::Status status = credentials_->Get(absl::Milliseconds(100), nullptr).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("in time"));
  http::Cancel cancel;
  cancel.Now();
  EXPECT_TRUE(absl::IsCancelled(credentials_->Get(absl::Minutes(1), &cancel).status()));
}

// The whole way: a token and an authority that change under a running client.
TEST_F(CredentialsTest, ClientFollowsItsFiles) {
  http::TestAuthority first("first"), second("second");
  std::mutex mutex;
  http::TestPair pair = first.SignLoopback();
  std::string accepted = "one", seen;
  http::ServerOptions options;
  options.tls = [&]() -> absl::StatusOr<http::ServerTls> {
    std::lock_guard lock(mutex);
    return http::ServerTls{.certificate_pem = pair.certificate_pem, .key_pem = pair.key_pem};
  };
  auto server = http::Server::Start(options, [&](const http::ServerRequest& request, http::ResponseWriter& writer) {
    std::lock_guard lock(mutex);
    seen = request.Header("authorization");
    const bool good = seen == "Bearer " + accepted;
    writer.Send(good ? 200 : 401, "application/json", "{}").IgnoreError();
  });
  ASSERT_TRUE(server.ok()) << server.status();
  config_.server = absl::StrCat("https://127.0.0.1:", (*server)->port());
  config_.ca_file = Path("ca.crt");
  config_.token_file = Path("token");
  Write("ca.crt", first.pem());
  Write("token", "one");
  Client client(std::make_shared<Config>(config_), "test");
  EXPECT_TRUE(client.Get(core::kNode, {"", "n"}).ok());
  // The server accepts another token from now on: the client reads it again and the call still succeeds.
  {
    std::lock_guard lock(mutex);
    accepted = "two";
  }
  EXPECT_TRUE(absl::IsUnauthenticated(client.Get(core::kNode, {"", "n"}).status()));
  Write("token", "two");
  EXPECT_TRUE(client.Get(core::kNode, {"", "n"}).ok());
  // A new authority, announced before it is used.
  Write("ca.crt", first.pem() + second.pem());
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(client.Get(core::kNode, {"", "n"}).ok());
  {
    std::lock_guard lock(mutex);
    pair = second.SignLoopback();
  }
  // A watch goes over a fresh connection. The answer of this server is no event, but it came.
  EXPECT_TRUE(absl::IsDataLoss(client.Watch(core::kNode, "", {}, [](WatchEvent) { return true; })));
}

}  // namespace
}  // namespace tf::kube
