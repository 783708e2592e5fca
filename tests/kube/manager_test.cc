// Programs on a Manager against a real API server: admission webhooks that it calls, events that it takes, finalizers,
// and the controller of the tutorial.
#include "kube/manager.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "http/client.h"
#include "http/test_certificates.h"
#include "kube/error.h"
#include "kube/finalizers.h"
#include "standalone/cluster.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;

const Resource kWebhooks{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
                         "MutatingWebhookConfiguration", false};

Json ConfigMap(std::string_view name, JsonObject data = {}) {
  return JsonObject{{"apiVersion", "v1"},
                    {"kind", "ConfigMap"},
                    {"metadata", {{"namespace", "default"}, {"name", name}}},
                    {"data", std::move(data)}};
}

std::string Base64(std::string_view text) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < text.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += i + k > text.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

class ManagerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new std::string(::testing::TempDir() + "manager_test_XXXXXX");
    ASSERT_NE(mkdtemp(folder_->data()), nullptr);
    cluster_ =
        new standalone::Cluster({.data_dir = *folder_ + "/cluster", .controlplane = TF_CONTROLPLANE, .fsync = false});
    const absl::Status started = cluster_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }
  static void TearDownTestSuite() {
    delete cluster_;
    std::filesystem::remove_all(*folder_);
    delete folder_;
  }

  void SetUp() override {
    auto config = LoadConfig({.kubeconfig = cluster_->kubeconfig()});
    ASSERT_TRUE(config.ok()) << config.status();
    client_ = std::make_unique<Client>(std::make_shared<const Config>(*config), "manager-test");
  }

  // Asks the server until it is so.
  static void Await(const char* what, const std::function<bool()>& so) {
    const absl::Time begin = absl::Now();
    while (!so()) {
      ASSERT_LT(absl::Now() - begin, absl::Seconds(60)) << what;
      absl::SleepFor(absl::Milliseconds(20));  // another process is to do it
    }
  }

  ManagerOptions Options(std::string name) const {
    return {.name = std::move(name),
            .config = {.kubeconfig = cluster_->kubeconfig()},
            .health = {.address = "127.0.0.1", .port = 0}};
  }

  static std::string* folder_;
  static standalone::Cluster* cluster_;
  std::unique_ptr<Client> client_;
};

std::string* ManagerTest::folder_;
standalone::Cluster* ManagerTest::cluster_;

TEST_F(ManagerTest, TheApiServerCallsItsWebhookAlsoWithARenewedCertificate) {
  const http::TestAuthority authority;
  auto write = [&](const http::TestPair& pair) {
    ASSERT_TRUE(WriteFile(*folder_ + "/tls.key", pair.key_pem, 0600).ok());
    ASSERT_TRUE(WriteFile(*folder_ + "/tls.crt", pair.certificate_pem, 0600).ok());
  };
  write(authority.SignLoopback());
  ManagerOptions options = Options("webhook");
  options.webhook = {
      .address = "127.0.0.1", .port = 0, .certificate_path = *folder_ + "/tls.crt", .key_path = *folder_ + "/tls.key"};
  auto made = Manager::Make(options);
  ASSERT_TRUE(made.ok()) << made.status();
  Manager& manager = **made;
  std::atomic<size_t> largest = 0;
  manager.AddWebhook("/mutate", [&](const AdmissionRequest& request) {
    if (Name(request.object) == "refused") return Deny("this name is not for you");
    if (Name(request.object) == "broken") throw std::runtime_error("broken");
    largest = std::max(largest.load(), Text(request.object, "data.large").size());
    Json object = request.object;
    EnsureField(object, "metadata.annotations.seen") = "yes";
    AdmissionResponse response = PatchTo(request, object);
    response.warnings = {"it was seen"};
    return response;
  });
  std::thread running([&] { EXPECT_EQ(manager.Run(), 0); });
  Await("listening", [&] { return manager.webhook_port() != 0; });

  const Json configuration = JsonObject{
      {"apiVersion", "admissionregistration.k8s.io/v1"},
      {"kind", "MutatingWebhookConfiguration"},
      {"metadata", {{"name", "test"}}},
      {"webhooks",
       {{{"name", "test.tensor-fusion.ai"},
         {"admissionReviewVersions", {"v1"}},
         {"sideEffects", "None"},
         {"timeoutSeconds", 5},
         {"failurePolicy", "Fail"},
         {"clientConfig",
          {{"url", absl::StrCat("https://127.0.0.1:", manager.webhook_port(), "/mutate")},
           {"caBundle", Base64(authority.pem())}}},
         {"objectSelector", {{"matchExpressions", {{{"key", "webhook"}, {"operator", "In"}, {"values", {"yes"}}}}}}},
         {"rules",
          {{{"apiGroups", {""}},
            {"apiVersions", {"v1"}},
            {"operations", {"CREATE", "UPDATE"}},
            {"resources", {"configmaps"}}}}}}}}};
  ASSERT_TRUE(client_->Create(kWebhooks, configuration).ok());
  auto create = [&](std::string_view name, JsonObject data = {}) {
    Json map = ConfigMap(name, std::move(data));
    EnsureField(map, "metadata.labels.webhook") = "yes";
    return client_->Create(core::kConfigMap, map);
  };
  int tries = 0;
  Await("in force", [&] {
    const auto made_map = create(absl::StrCat("first-", tries++));
    return made_map.ok() && Annotation(*made_map, "seen") == "yes";
  });

  const auto refused = create("refused");
  EXPECT_TRUE(absl::IsPermissionDenied(refused.status())) << refused.status();
  EXPECT_THAT(refused.status().message(), HasSubstr("this name is not for you"));
  const auto broken = create("broken");
  EXPECT_FALSE(broken.ok()) << "a failure of ours is no silent allowance";

  // The API server writes "<" as six characters: a review of more than 6 MB.
  const auto large = create("large", {{"large", std::string(1'040'000, '<')}});
  EXPECT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(largest, 1'040'000u);

  // New certificates, of the same authority, until a new connection meets one of them.
  http::Client peer({.ca_pem = authority.pem()}, "", "test");
  for (int i = 0; i < 3; ++i) write(authority.SignLoopback());
  const auto renewed = create("renewed");
  EXPECT_TRUE(renewed.ok()) << renewed.status();

  const auto page = peer.Call({.url = absl::StrCat("http://127.0.0.1:", manager.health_port(), "/readyz?verbose")});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->status, 200) << page->body;
  EXPECT_THAT(page->body, HasSubstr("[+]webhook ok"));
  const auto metrics = peer.Call({.url = absl::StrCat("http://127.0.0.1:", manager.health_port(), "/metrics")});
  EXPECT_THAT(metrics->body,
              HasSubstr("controller_runtime_webhook_requests_total{code=\"403\",webhook=\"/mutate\"} 1"));
  EXPECT_THAT(metrics->body,
              HasSubstr("controller_runtime_webhook_requests_total{code=\"500\",webhook=\"/mutate\"} 1"));

  EXPECT_TRUE(client_->Delete(kWebhooks, {"", "test"}).ok());
  manager.Stop();
  running.join();
}

TEST_F(ManagerTest, TheApiServerTakesItsEventsAndSeries) {
  auto made = Manager::Make(Options("events-test"));
  ASSERT_TRUE(made.ok()) << made.status();
  const auto map = client_->Create(core::kConfigMap, ConfigMap("with-events"));
  ASSERT_TRUE(map.ok()) << map.status();
  for (int i = 0; i < 3; ++i) (*made)->events().Warning(*map, "Tried", "Trying", "it did not work");
  (*made)->events().Normal(*client_->Get(core::kNamespace, {"", "default"}), "Seen", "Looking",
                           "a cluster-scoped object");
  (*made)->events().Stop();
  const auto events = client_->List(core::kEvent, "default");
  ASSERT_TRUE(events.ok()) << events.status();
  int64_t count = 0;
  bool seen = false;
  for (const ObjectPtr& event : events->items) {
    if (Text(*event, "reportingComponent") != "events-test") continue;
    // `kubectl get events --sort-by=.lastTimestamp` orders by it.
    EXPECT_FALSE(Text(*event, "lastTimestamp").empty());
    EXPECT_EQ(Number(*event, "count"), Text(*event, "reason") == "Tried" ? 2 : 1);
    if (Text(*event, "reason") == "Tried") count += Number(*event, "series.count");
    if (Text(*event, "reason") == "Seen") seen = true;
  }
  EXPECT_EQ(count, 2) << "the first repetition is written, the next ones wait";
  EXPECT_TRUE(seen);
  EXPECT_THAT((*made)->metrics().Text(), ::testing::Not(HasSubstr("refused")));
}

TEST_F(ManagerTest, FinalizersHoldAnObjectUntilTheyAreTakenOff) {
  const Key key{"default", "held"};
  ASSERT_TRUE(client_->Create(core::kConfigMap, ConfigMap("held")).ok());
  ASSERT_TRUE(AddFinalizer(*client_, core::kConfigMap, key, "tensor-fusion.ai/test").ok());
  ASSERT_TRUE(client_->Delete(core::kConfigMap, key).ok());
  const auto held = client_->Get(core::kConfigMap, key);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(IsBeingDeleted(*held));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(AddFinalizer(*client_, core::kConfigMap, key, "tensor-fusion.ai/late").status()));
  EXPECT_TRUE(RemoveFinalizer(*client_, core::kConfigMap, key, "tensor-fusion.ai/test").ok());
  EXPECT_TRUE(kube::IsNotFound(client_->Get(core::kConfigMap, key).status()));
  EXPECT_TRUE(RemoveFinalizer(*client_, core::kConfigMap, key, "tensor-fusion.ai/test").ok()) << "gone is fine";
}

TEST_F(ManagerTest, WritesWithoutTheLeaseAreRefusedBeforeTheyAreSent) {
  ManagerOptions options = Options("fenced");
  options.leader_elect = true;
  auto made = Manager::Make(options);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto written = (*made)->client().Create(core::kConfigMap, ConfigMap("fenced"));
  EXPECT_TRUE(absl::IsFailedPrecondition(written.status())) << written.status();
  EXPECT_TRUE(absl::IsFailedPrecondition((*made)->client().Delete(core::kConfigMap, {"default", "fenced"})));
  EXPECT_TRUE((*made)->client().Get(core::kNamespace, {"", "default"}).ok()) << "reading is free";
  EXPECT_TRUE(kube::IsNotFound(client_->Get(core::kConfigMap, {"default", "fenced"}).status()));
}

TEST_F(ManagerTest, TheControllerOfTheTutorial) {
  std::vector<std::string> env = CurrentEnvironment();
  env.push_back("TF_LOG_LEVEL=info");
  auto process = Process::Start(
      {.argv = {TF_NAMESPACE_SUMMARY, "--kubeconfig", cluster_->kubeconfig(), "--health-bind-address=127.0.0.1:0"},
       .env = env,
       .stderr_fd = STDERR_FILENO,
       .signal_on_parent_end = SIGKILL});
  ASSERT_TRUE(process.ok()) << process.status();

  const Key summary{"farm", "farm-summary"};
  auto said = [&](std::string_view name) {
    const auto map = client_->Get(core::kConfigMap, summary);
    return map.ok() ? std::string(Text(*map, absl::StrCat("data.", std::string(name)))) : std::string();
  };
  ASSERT_TRUE(client_->Create(core::kNamespace, JsonObject{{"metadata", {{"name", "farm"}}}}).ok());
  Await("an empty summary", [&] { return said("pods") == "0"; });

  // A pod waits for the service account of its namespace.
  Await("the service account", [&] { return client_->Get(core::kServiceAccount, {"farm", "default"}).ok(); });
  auto pod = [&](std::string_view name) {
    return client_->Create(core::kPod, JsonObject{{"metadata", {{"namespace", "farm"}, {"name", name}}},
                                                  {"spec", {{"containers", {{{"name", "c"}, {"image", "none"}}}}}}});
  };
  for (const char* name : {"a", "b"}) {
    const auto created = pod(name);
    ASSERT_TRUE(created.ok()) << created.status();
  }
  Await("two pods", [&] { return said("pods") == "2" && said("Pending") == "2"; });

  // What others do to the summary is put right.
  ASSERT_TRUE(client_->Delete(core::kConfigMap, summary).ok());
  Await("made anew", [&] { return said("pods") == "2"; });
  ASSERT_TRUE(client_->Patch(core::kConfigMap, summary, JsonObject{{"data", {{"pods", "99"}, {"more", "x"}}}}).ok());
  Await("changed back", [&] { return said("pods") == "2"; });

  DeleteOptions now;
  now.grace_period_seconds = 0;
  ASSERT_TRUE(client_->Delete(core::kPod, {"farm", "a"}, now).ok());
  Await("one pod", [&] { return said("pods") == "1" && said("Pending") == "1"; });

  ASSERT_TRUE(process->Signal(SIGTERM).ok());
  const auto status = process->Wait(absl::Seconds(30));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 0);
  const auto lease = client_->Get(core::kLease, {"default", "namespace-summary"});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(Text(*lease, "spec.holderIdentity"), "") << "it gave the lease back";
}

}  // namespace
}  // namespace tf::kube
