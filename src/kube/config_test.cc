#include "kube/config.h"

#include <filesystem>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tf::kube {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const char kTwo[] = R"(
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: c1
  cluster: {server: "https://10.0.0.1:6443/base", certificate-authority: pki/ca.crt, tls-server-name: api.example}
- name: c2
  cluster: {server: "https://[::1]:6443", insecure-skip-tls-verify: true, proxy-url: "socks5://p:1080"}
users:
- name: u1
  user: {client-certificate: ../u1.crt, client-key: /abs/u1.key}
- name: u2
  user: {token: abc, tokenFile: token.txt}
contexts:
- name: dev
  context: {cluster: c1, user: u1, namespace: team}
- name: other
  context: {cluster: c2, user: u2}
- name: nobody
  context: {cluster: c2}
)";

ConfigOptions NoEnv(std::string context = "") { return {.context = std::move(context), .env = {{}}}; }

TEST(Config, CurrentContextWithPathsRelativeToTheFile) {
  auto config = ParseKubeconfig({{"/home/me/.kube/config", kTwo}}, NoEnv());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://10.0.0.1:6443/base");
  EXPECT_EQ(config->ns, "team");
  EXPECT_EQ(config->ca_file, "/home/me/.kube/pki/ca.crt");
  EXPECT_EQ(config->tls_server_name, "api.example");
  EXPECT_EQ(config->certificate_file, "/home/me/u1.crt");
  EXPECT_EQ(config->key_file, "/abs/u1.key");
  EXPECT_EQ(config->proxy_url, "");
  EXPECT_FALSE(config->insecure_skip_tls_verify);
}

TEST(Config, ChosenContext) {
  auto config = ParseKubeconfig({{"/k/config", kTwo}}, NoEnv("other"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://[::1]:6443");
  EXPECT_EQ(config->ns, "default");
  EXPECT_TRUE(config->insecure_skip_tls_verify);
  EXPECT_EQ(config->proxy_url, "socks5://p:1080");
  EXPECT_EQ(config->token, "abc");
  EXPECT_EQ(config->token_file, "/k/token.txt");
  config = ParseKubeconfig({{"/k/config", kTwo}}, NoEnv("nobody"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->token, "");
}

// Data wins over a file of the same purpose, as in client-go.
TEST(Config, InlineData) {
  const std::string pem = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n";
  auto config =
      ParseKubeconfig({{"/k/config", absl::StrCat(R"(
current-context: x
clusters: [{name: c, cluster: {server: "https://h", certificate-authority: a, certificate-authority-data: )",
                                                  absl::Base64Escape(pem), R"(}}]
users: [{name: u, user: {client-certificate-data: )",
                                                  absl::Base64Escape(pem),
                                                  ", client-key-data: ", absl::Base64Escape(pem), R"(, client-key: k}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
)")}},
                      NoEnv());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ca_pem, pem);
  EXPECT_EQ(config->ca_file, "");
  EXPECT_EQ(config->certificate_pem, pem);
  EXPECT_EQ(config->key_pem, pem);
  EXPECT_EQ(config->key_file, "");
}

TEST(Config, ExecPluginAndImpersonation) {
  auto config = ParseKubeconfig({{"/k/config", R"(
current-context: x
clusters: [{name: c, cluster: {server: "https://h"}}]
users:
- name: u
  user:
    as: someone
    as-uid: "7"
    as-groups: [a, b]
    as-user-extra: {scope: [one, two]}
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./bin/login
      args: [get, --cluster=x]
      env: [{name: A, value: b}]
      installHint: get it there
      provideClusterInfo: true
      interactiveMode: IfAvailable
contexts: [{name: x, context: {cluster: c, user: u}}]
)"}},
                                NoEnv());
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(config->exec.has_value());
  EXPECT_EQ(config->exec->command, "/k/bin/login");
  EXPECT_THAT(config->exec->args, ElementsAre("get", "--cluster=x"));
  EXPECT_THAT(config->exec->env, ElementsAre(Pair("A", "b")));
  EXPECT_EQ(config->exec->install_hint, "get it there");
  EXPECT_TRUE(config->exec->provide_cluster_info);
  EXPECT_EQ(config->as, "someone");
  EXPECT_EQ(config->as_uid, "7");
  EXPECT_THAT(config->as_groups, ElementsAre("a", "b"));
  EXPECT_THAT(config->as_extra, ElementsAre(Pair("scope", "one"), Pair("scope", "two")));
}

// Entry by entry the first file that has it wins; its paths are relative to itself.
TEST(Config, SeveralFiles) {
  const char first[] = R"(
clusters: [{name: c1, cluster: {server: "https://first", certificate-authority: ca.crt}}]
contexts: [{name: mine, context: {cluster: c1, user: u2}}]
)";
  auto config = ParseKubeconfig({{"/one/config", first}, {"/two/config", kTwo}, {"/three/config", ""}}, NoEnv("mine"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://first");
  EXPECT_EQ(config->ca_file, "/one/ca.crt");
  EXPECT_EQ(config->token_file, "/two/token.txt");
  config = ParseKubeconfig({{"/one/config", first}, {"/two/config", kTwo}}, NoEnv());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://first");
  EXPECT_EQ(config->ns, "team");
}

TEST(Config, WhatIsWrongIsNamed) {
  const std::string start = "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n";
  const std::string cluster = "clusters: [{name: c, cluster: {server: \"https://h\"}}]\n";
  for (const auto& [text, named] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"", {"current-context", "there are none"}},
           {"contexts: [{name: a}, {name: b}]", {"current-context", "a, b"}},
           {"[1, 2", {"no YAML"}},
           {"just text", {"no mapping"}},
           {"- a\n- b", {"no mapping"}},
           {"kind: Pod", {"field kind", "Pod", "no kubeconfig"}},
           {"apiVersion: v2", {"field apiVersion", "v2"}},
           {"clusters: {}", {"field clusters", "list"}},
           {"clusters: [{cluster: {}}]", {"clusters", "field name"}},
           {"current-context: y\ncontexts: [{name: x}]", {"no context \"y\"", "there are: x"}},
           {start, {"context x", "field cluster", "no cluster \"c\""}},
           {start + cluster, {"context x", "field user", "no user \"u\""}},
           {start + "users: [{name: u}]\nclusters: [{name: c, cluster: {}}]", {"cluster c", "field server", "missing"}},
           {start + "users: [{name: u}]\nclusters: [{name: c, cluster: {server: h}}]", {"field server", "\"h\""}},
           {start + "users: [{name: u}]\nclusters: [{name: c, cluster: {server: [1]}}]", {"field server", "text"}},
           {start + "users: [{name: u}]\nclusters: [{name: c, cluster: {server: 'https://h', "
                    "certificate-authority-data: '!'}}]",
            {"certificate-authority-data", "not base64"}},
           {start + "users: [{name: u}]\nclusters: [{name: c, cluster: {server: 'https://h', "
                    "certificate-authority-data: YWJj}}]",
            {"certificate-authority-data", "PEM"}},
           {start + "users: [{name: u}]\nclusters: [{name: c, cluster: {server: 'https://h', insecure-skip-tls-verify: "
                    "maybe}}]",
            {"insecure-skip-tls-verify", "true or false"}},
           {start + "users: [{name: u}]\nclusters: [{name: c, cluster: {server: 'https://h', insecure-skip-tls-verify: "
                    "true, certificate-authority: a}}]",
            {"insecure-skip-tls-verify", "contradicts"}},
           {start + "users: [{name: u}]\nclusters: [{name: c, cluster: {server: 'https://h', proxy-url: p}}]",
            {"proxy-url"}},
           {start + cluster + "users: [{name: u, user: {client-certificate: a}}]", {"user u", "client-key", "missing"}},
           {start + cluster + "users: [{name: u, user: {client-key: a}}]", {"client-certificate", "missing"}},
           {start + cluster + "users: [{name: u, user: {auth-provider: {name: gcp}}}]",
            {"auth-provider", "exec plugin"}},
           {start + cluster + "users: [{name: u, user: {exec: {command: a}}}]", {"exec", "apiVersion"}},
           {start + cluster + "users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1}}}]",
            {"exec", "command"}},
           {start + cluster +
                "users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: a, "
                "interactiveMode: Always}}}]",
            {"interactiveMode", "terminal"}},
           {start + cluster + "users: [{name: u, user: {as-groups: [g]}}]", {"field as"}},
       }) {
    absl::Status status = ParseKubeconfig({{"/k/config", text}}, NoEnv()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/k/config")) << text;
    for (const std::string& name : named) EXPECT_THAT(std::string(status.message()), HasSubstr(name)) << text;
  }
}

class ConfigFiles : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/kube_config_test.XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, std::string_view text) {
    ASSERT_TRUE(WriteFile(folder_ + "/" + name, text, 0600).ok());
  }
  std::string Kubeconfig(const std::string& server) {
    return absl::StrCat(
        "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: '",
        server, "'}}]\n");
  }
  absl::StatusOr<Config> Load(std::map<std::string, std::string> env, std::string flag = "") {
    return LoadConfig(
        {.kubeconfig = std::move(flag), .env = std::move(env), .service_account_folder = folder_ + "/sa"});
  }
  std::string folder_;
};

TEST_F(ConfigFiles, WhereItIsLookedFor) {
  Write("flag", Kubeconfig("https://flag"));
  Write("env", Kubeconfig("https://env"));
  Write(".kube/config", Kubeconfig("https://home"));
  Write("sa/token", "t");
  Write("sa/namespace", "system\n");
  const std::map<std::string, std::string> pod = {
      {"HOME", folder_}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}};
  std::map<std::string, std::string> all = pod;
  all["KUBECONFIG"] = folder_ + "/missing::" + folder_ + "/env:" + folder_ + "/env";

  EXPECT_EQ(Load(all, folder_ + "/flag")->server, "https://flag");
  EXPECT_EQ(Load(all)->server, "https://env");
  auto in_pod = Load(pod);
  ASSERT_TRUE(in_pod.ok()) << in_pod.status();
  EXPECT_EQ(in_pod->server, "https://10.0.0.1:443");
  EXPECT_EQ(in_pod->ns, "system");
  EXPECT_EQ(in_pod->token_file, folder_ + "/sa/token");
  EXPECT_EQ(in_pod->ca_file, folder_ + "/sa/ca.crt");
  EXPECT_EQ(Load({{"HOME", folder_}})->server, "https://home");
  std::filesystem::remove_all(folder_ + "/sa");
  EXPECT_EQ(Load(pod)->server, "https://home");

  absl::Status status = Load({{"HOME", folder_ + "/nowhere"}}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/.kube/config"));
  status = Load({{"HOME", folder_}}, folder_ + "/missing").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("--kubeconfig"), HasSubstr("/missing")));
}

TEST_F(ConfigFiles, InClusterOfSixes) {
  Write("sa/token", "t");
  auto config = InClusterConfig({.env = {{{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "6443"}}},
                                 .service_account_folder = folder_ + "/sa"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://[fd00::1]:6443");
  EXPECT_EQ(config->ns, "default");
  EXPECT_TRUE(absl::IsNotFound(InClusterConfig(NoEnv()).status()));
}

TEST(Config, ProxyFromEnvironment) {
  const std::map<std::string, std::string> env = {
      {"HTTPS_PROXY", "http://p:1"},
      {"http_proxy", "q:2"},
      {"NO_PROXY", "a.example, .b.example,10.0.0.0/8,c.example:6443,fd00::/16,*.d.example"}};
  for (const auto& [server, proxy] : std::vector<std::pair<std::string, std::string>>{
           {"https://k.example:6443", "http://p:1"},
           {"http://k.example", "http://q:2"},
           {"https://a.example", ""},
           {"https://sub.a.example", ""},
           {"https://xa.example", "http://p:1"},
           {"https://b.example", "http://p:1"},
           {"https://sub.B.example:1/base", ""},
           {"https://10.1.2.3:6443", ""},
           {"https://11.1.2.3:6443", "http://p:1"},
           {"https://c.example:6443", ""},
           {"https://c.example", "http://p:1"},
           {"https://x.d.example", ""},
           {"https://[fd00::7]:6443", ""},
           {"https://[fd01::7]:6443", "http://p:1"},
           {"https://127.0.0.1:6443", ""},
           {"https://[::1]:6443", ""},
           {"https://localhost:6443", ""},
       }) {
    EXPECT_EQ(ProxyFromEnvironment(server, env), proxy) << server;
  }
  EXPECT_EQ(ProxyFromEnvironment("https://k", {}), "");
  EXPECT_EQ(ProxyFromEnvironment("https://k", {{"HTTPS_PROXY", "http://p"}, {"NO_PROXY", "*"}}), "");
}

}  // namespace
}  // namespace tf::kube
