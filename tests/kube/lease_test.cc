// Acceptance of the leader lease on a real API server: two processes contend, one is killed, stopped, cut off, told to
// stop, with clocks an hour apart. Judged by the API server's audit log: no write of a leader after its deadline, none
// after somebody else's first, and how long the writes were interrupted.
//
// By default with a lease of 3 s. TF_LEASE_FULL=1: the program's defaults (15/10/2 s), and stopped for 60 s.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/lease_candidate.h"
#include "standalone/cluster.h"
#include "support/fault_proxy.h"
#include "tcp_relay.h"

namespace tf::kube {
namespace {

// Metadata of all writes, once each, when they are over.
constexpr char kAuditPolicy[] = R"(apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch]
  resources:
  - {group: "", resources: [configmaps]}
  - {group: coordination.k8s.io, resources: [leases]}
- level: None
)";

bool Full() { return std::getenv("TF_LEASE_FULL") != nullptr; }

LeaseSettings Settings() {
  if (Full()) return {};
  return {.duration = absl::Seconds(3),
          .renew_deadline = absl::Seconds(2),
          .retry = absl::Milliseconds(400),
          .request_limit = absl::Milliseconds(500)};
}

// What arrived at the server, of one process.
struct Written {
  absl::Time at;
  std::string process;
  bool lease;  // of the lease, else of the ConfigMap
  int code;
};

class LeaseTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new std::string(::testing::TempDir() + "lease_test_XXXXXX");
    ASSERT_NE(mkdtemp(folder_->data()), nullptr);
    ASSERT_TRUE(WriteFile(*folder_ + "/audit.yaml", kAuditPolicy, 0600).ok());
    cluster_ = new standalone::Cluster(
        {.data_dir = *folder_ + "/cluster",
         .controlplane = TF_CONTROLPLANE,
         .api_server_flags = {"--audit-policy-file=" + *folder_ + "/audit.yaml",
                              "--audit-log-path=" + *folder_ + "/audit.log", "--audit-log-maxsize=1000"},
         .fsync = false});
    const absl::Status started = cluster_->Start();
    ASSERT_TRUE(started.ok()) << started;
    relay_ = new testing::TcpRelay(
        static_cast<uint16_t>(std::stoi(cluster_->server().substr(cluster_->server().rfind(':') + 1))));
    auto text = ReadFile(cluster_->kubeconfig(), 1 << 20);
    ASSERT_TRUE(text.ok()) << text.status();
    for (size_t at; (at = text->find(cluster_->server())) != std::string::npos;) {
      text->replace(at, cluster_->server().size(), absl::StrCat("https://127.0.0.1:", relay_->port()));
    }
    ASSERT_TRUE(WriteFile(*folder_ + "/relay.kubeconfig", *text, 0600).ok());
  }
  static void TearDownTestSuite() {
    delete relay_;
    delete cluster_;
    std::filesystem::remove_all(*folder_);
    delete folder_;
  }

  // Each test has a lease and processes of its own.
  void SetUp() override {
    test_ = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    auto config = LoadConfig({.kubeconfig = cluster_->kubeconfig()});
    ASSERT_TRUE(config.ok()) << config.status();
    client_.emplace(std::make_shared<const Config>(*config), "lease-test");
  }
  void TearDown() override {
    relay_->Cut(false);
    for (auto& [name, process] : processes_) {
      (void)process.Signal(SIGKILL);
      process.Wait();
    }
    Judge();
  }

  std::string Id(const std::string& name) const { return absl::StrCat(test_, "-", name); }

  // `by`: how it reaches the API server, a kubeconfig in the folder; "": directly.
  void Launch(const std::string& name, std::vector<std::string> more = {}, const std::string& by = "") {
    const LeaseSettings s = Settings();
    std::vector<std::string> argv = {TF_LEASE_WORKER,
                                     "--name",
                                     Id(name),
                                     "--kubeconfig",
                                     by.empty() ? cluster_->kubeconfig() : *folder_ + "/" + by,
                                     "--leader-election-namespace=default",
                                     "--leader-election-id=" + Lowercase(test_),
                                     "--leader-election-lease-duration=" + absl::FormatDuration(s.duration),
                                     "--leader-election-renew-deadline=" + absl::FormatDuration(s.renew_deadline),
                                     "--leader-election-retry-period=" + absl::FormatDuration(s.retry),
                                     "--leader-election-request-limit=" + absl::FormatDuration(s.request_limit)};
    argv.insert(argv.end(), more.begin(), more.end());
    std::vector<std::string> env = CurrentEnvironment();
    env.push_back("TF_LOG_LEVEL=info");
    auto process =
        Process::Start({.argv = argv, .env = env, .stderr_fd = STDERR_FILENO, .signal_on_parent_end = SIGKILL});
    ASSERT_TRUE(process.ok()) << process.status();
    processes_.emplace(name, *std::move(process));
  }

  static std::string Lowercase(std::string text) {
    for (char& c : text) c = static_cast<char>(tolower(c));
    return text;
  }

  std::string Holder() {
    const auto lease = client_->Get(core::kLease, {"default", Lowercase(test_)});
    return lease.ok() ? std::string(Text(*lease, "spec.holderIdentity")) : "";
  }

  // Until it leads and writes.
  void AwaitLeader(const std::string& name) {
    const absl::Time begin = absl::Now();
    for (;;) {
      const auto map = client_->Get(core::kConfigMap, {"default", "written"});
      if (map.ok() && Text(*map, "data.by") == Id(name) && Holder() == Id(name)) return;
      ASSERT_LT(absl::Now() - begin, absl::Seconds(90)) << name << " does not lead; " << Holder() << " does";
      absl::SleepFor(absl::Milliseconds(10));  // asks the server for something that another process does
    }
  }

  std::vector<Written> Audit() {
    std::vector<Written> all;
    std::ifstream log(*folder_ + "/audit.log");
    for (std::string line; std::getline(log, line);) {
      const auto event = ParseJson(line);
      if (!event.ok()) continue;  // the last line may be half written
      const std::string agent(Text(*event, "userAgent"));
      const std::string prefix = absl::StrCat("lease-worker/", test_, "-");
      if (agent.rfind(prefix, 0) != 0) continue;
      absl::Time at;
      std::string error;
      EXPECT_TRUE(
          absl::ParseTime(absl::RFC3339_full, std::string(Text(*event, "requestReceivedTimestamp")), &at, &error))
          << error;
      all.push_back({at, agent.substr(prefix.size(), agent.find(' ') - prefix.size()),
                     Text(*event, "objectRef.resource") == "leases",
                     static_cast<int>(Number(*event, "responseStatus.code"))});
    }
    std::stable_sort(all.begin(), all.end(), [](const Written& a, const Written& b) { return a.at < b.at; });
    return all;
  }

  // The invariants, for all that was written in this test.
  void Judge() {
    const LeaseSettings s = Settings();
    std::map<std::string, absl::Time> renewed;  // the last good write of the lease
    std::string last_writer;
    absl::Time last_write;
    std::map<std::string, int> counts;
    std::map<std::string, bool> replaced;
    absl::Duration latest = absl::ZeroDuration(), gap = absl::ZeroDuration();
    for (const Written& w : Audit()) {
      if (w.lease) {
        if (w.code / 100 == 2) renewed[w.process] = w.at;
        continue;
      }
      ++counts[w.process];
      ASSERT_TRUE(renewed.contains(w.process)) << w.process << " wrote and never had the lease";
      const absl::Duration after = w.at - renewed[w.process];
      latest = std::max(latest, after);
      EXPECT_LT(after, s.duration - s.retry) << w.process << " wrote after its deadline";
      if (w.process != last_writer) {
        EXPECT_FALSE(replaced[w.process]) << w.process << " wrote again after " << last_writer << " had";
        if (!last_writer.empty()) {
          replaced[last_writer] = true;
          gap = std::max(gap, w.at - last_write);
        }
        last_writer = w.process;
      }
      last_write = w.at;
    }
    std::string text;
    for (const auto& [name, count] : counts) absl::StrAppend(&text, " ", name, ": ", count);
    std::printf("  %s: writes%s; latest write %s after a renewal; longest change of leader without writes %s\n",
                test_.c_str(), text.c_str(), absl::FormatDuration(absl::Trunc(latest, absl::Milliseconds(1))).c_str(),
                absl::FormatDuration(absl::Trunc(gap, absl::Milliseconds(1))).c_str());
    EXPECT_GE(counts.size(), 2u) << "two have led";
  }

  static std::string* folder_;
  static standalone::Cluster* cluster_;
  static testing::TcpRelay* relay_;
  std::string test_;
  std::optional<Client> client_;
  std::map<std::string, Process> processes_;
};

std::string* LeaseTest::folder_;
standalone::Cluster* LeaseTest::cluster_;
testing::TcpRelay* LeaseTest::relay_;

TEST_F(LeaseTest, AKilledLeaderIsFollowedWithinTheLeaseTime) {
  Launch("a", {"--clock-offset=1h"});
  AwaitLeader("a");
  Launch("b", {"--clock-offset=-1h"});
  absl::SleepFor(Settings().retry * 3);  // it has seen the lease: what is measured is a standby, not a start
  const absl::Time killed = absl::Now();
  ASSERT_TRUE(processes_.at("a").Signal(SIGKILL).ok());
  AwaitLeader("b");
  const LeaseSettings s = Settings();
  const absl::Duration took = absl::Now() - killed;
  std::printf("  takeover %s after kill -9\n", absl::FormatDuration(took).c_str());
  EXPECT_LT(took, s.duration + absl::Seconds(1)) << "a second is for the machine";
}

TEST_F(LeaseTest, AStoppedLeaderNeverWritesAgain) {
  Launch("a", {"--clock-offset=1h"});
  AwaitLeader("a");
  Launch("b");
  ASSERT_TRUE(processes_.at("a").Signal(SIGSTOP).ok());
  const absl::Time stopped = absl::Now();
  AwaitLeader("b");
  absl::SleepFor(stopped + (Full() ? absl::Seconds(60) : Settings().duration * 2) - absl::Now());
  (void)processes_.at("a").Signal(SIGCONT);
  const auto status = processes_.at("a").Wait(absl::Seconds(10));
  ASSERT_TRUE(status) << "it goes on";
  EXPECT_EQ(status->signal, SIGKILL) << "by the kernel's timer, before it woke";
}

TEST_F(LeaseTest, AStoppedLeaderThatWakesMeetsTheFence) {
  Launch("a", {"--clock-offset=-1h", "--no-kill-timer"});
  AwaitLeader("a");
  Launch("b");
  ASSERT_TRUE(processes_.at("a").Signal(SIGSTOP).ok());
  const absl::Time stopped = absl::Now();
  AwaitLeader("b");
  absl::SleepFor(stopped + (Full() ? absl::Seconds(60) : Settings().duration * 2) - absl::Now());
  ASSERT_TRUE(processes_.at("a").Signal(SIGCONT).ok());
  const auto status = processes_.at("a").Wait(absl::Seconds(10));
  ASSERT_TRUE(status) << "it goes on";
  EXPECT_EQ(status->code, 1) << "it found out by itself";
}

TEST_F(LeaseTest, ALeaderThatIsCutOffEndsItselfBeforeTheOtherLeads) {
  Launch("a", {"--clock-offset=1h"}, "relay.kubeconfig");
  AwaitLeader("a");
  Launch("b");
  relay_->Cut(true);
  const absl::Time cut = absl::Now();
  const auto status = processes_.at("a").Wait(absl::Seconds(60));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 1);
  EXPECT_LT(absl::Now() - cut, Settings().duration) << "before anybody else may lead";
  AwaitLeader("b");
}

// Its writes would still get through: it is the fence alone that ends them.
TEST_F(LeaseTest, ALeaderThatCannotRenewWritesUntilItsDeadlineAndNoLonger) {
  Launch("a", {"--clock-offset=1h"});
  AwaitLeader("a");
  Launch("b");
  const Resource policies{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies",
                          "ValidatingAdmissionPolicy", false};
  const Resource bindings{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings",
                          "ValidatingAdmissionPolicyBinding", false};
  const auto policy = client_->Create(
      policies,
      JsonObject{{"metadata", {{"name", "no-renewal"}}},
                 {"spec",
                  {{"failurePolicy", "Fail"},
                   {"matchConstraints",
                    {{"resourceRules",
                      {{{"apiGroups", {"coordination.k8s.io"}},
                        {"apiVersions", {"v1"}},
                        {"operations", {"UPDATE"}},
                        {"resources", {"leases"}}}}}}},
                   {"matchConditions",
                    {{{"name", "this"}, {"expression", absl::StrCat("request.name == '", Lowercase(test_), "'")}}}},
                   {"validations", {{{"expression", "false"}, {"message", "not now"}}}}}}});
  ASSERT_TRUE(policy.ok()) << policy.status();
  const auto binding =
      client_->Create(bindings, JsonObject{{"metadata", {{"name", "no-renewal"}}},
                                           {"spec", {{"policyName", "no-renewal"}, {"validationActions", {"Deny"}}}}});
  ASSERT_TRUE(binding.ok()) << binding.status();
  const auto status = processes_.at("a").Wait(absl::Seconds(60));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 1);
  ASSERT_TRUE(client_->Delete(bindings, {"", "no-renewal"}).ok());
  ASSERT_TRUE(client_->Delete(policies, {"", "no-renewal"}).ok());
  AwaitLeader("b");
  // It made use of its time, or this shows nothing.
  absl::Time renewed = absl::InfinitePast(), wrote;
  for (const Written& w : Audit()) {
    if (w.process != "a" || w.code / 100 != 2) continue;
    (w.lease ? renewed : wrote) = w.at;
  }
  EXPECT_GT(wrote - renewed, Settings().renew_deadline / 2);
}

// Of the writes, the lease's too, every fourth takes effect and is not answered, every tenth does not arrive; leaders
// lose their lease by that or are killed, and others come in their place.
TEST_F(LeaseTest, LostAnswersNeverLetTwoWrite) {
  const auto config = LoadConfig({.kubeconfig = cluster_->kubeconfig()});
  ASSERT_TRUE(config.ok()) << config.status();
  std::mt19937 random(1);
  testing::FaultProxy proxy(
      {.server_port = static_cast<uint16_t>(std::stoi(cluster_->server().substr(cluster_->server().rfind(':') + 1))),
       .identity = {config->certificate_pem, config->key_pem},
       .plan = [&](const testing::ScriptedRequest& request, int) -> testing::Fault {
         if (request.method != "GET" && random() % 4 == 0) return {.lose_answer = true};
         return {.refuse = random() % 10 == 0};
       }});
  ASSERT_TRUE(WriteFile(*folder_ + "/faults.kubeconfig",
                        absl::StrCat("apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                                     "clusters: [{name: c, cluster: {server: '",
                                     proxy.url(),
                                     "'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
                                     "users: [{name: u, user: {}}]\n"),
                        0600)
                  .ok());
  int count = 0;
  std::vector<std::string> present;
  auto launch = [&] {
    present.push_back(absl::StrCat("p", count++));
    Launch(present.back(), {absl::StrCat("--clock-offset=", count % 3 - 1, "h")}, "faults.kubeconfig");
  };
  for (int i = 0; i < 2; ++i) launch();
  const absl::Duration pause = Settings().duration * 2;
  const absl::Time end = absl::Now() + pause * 5;
  for (absl::Time kill = absl::Now() + pause; absl::Now() < end; absl::SleepFor(absl::Milliseconds(20))) {
    const std::string holder = absl::Now() > kill ? Holder() : "";
    for (size_t i = present.size(); i-- > 0;) {
      Process& process = processes_.at(present[i]);
      if (holder == Id(present[i])) {
        ASSERT_TRUE(process.Signal(SIGKILL).ok());
        kill = absl::Now() + pause;
      }
      if (process.Wait(absl::ZeroDuration())) {
        present.erase(present.begin() + i);
        launch();
      }
    }
  }
  EXPECT_GT(proxy.counts()["lose"], 20);
  std::printf("  %d processes; %d answers lost\n", count, static_cast<int>(proxy.counts()["lose"]));
}

TEST_F(LeaseTest, ALeaderThatIsToldToStopGivesTheLeaseBack) {
  Launch("a", {"--clock-offset=1h"});
  AwaitLeader("a");
  Launch("b");
  absl::SleepFor(Settings().retry * 3);
  const absl::Time told = absl::Now();
  ASSERT_TRUE(processes_.at("a").Signal(SIGTERM).ok());
  const auto status = processes_.at("a").Wait(absl::Seconds(30));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 0);
  AwaitLeader("b");
  const absl::Duration took = absl::Now() - told;
  std::printf("  takeover %s after SIGTERM\n", absl::FormatDuration(took).c_str());
  EXPECT_LT(took, Settings().duration) << "without waiting for the lease to run out";
}

}  // namespace
}  // namespace tf::kube
