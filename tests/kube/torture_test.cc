// The informer under random faults against a real API server: several writers change ConfigMaps while it watches
// through a proxy that breaks what it can. `--events N`: so many writes; `--seed N`.
#include "torture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kube/config.h"
#include "standalone/cluster.h"
#include "standalone/temporary_folder.h"
#include "support/fault_proxy.h"

namespace tf::testing {
namespace {

int64_t events = 6000;
uint64_t seed = 1;

constexpr int kWriters = 4;
constexpr char kNamespace[] = "torture";
constexpr char kLabel[] = "torture";  // of what the writers make; the control plane has ConfigMaps of its own

// Creates, changes and deletes ConfigMaps of its own names. What it did by then is known by their versions.
class Writer {
 public:
  Writer(kube::Client& client, int number, uint64_t seed) : client_(client), number_(number), random_(seed) {}

  // Versions of what it created or changed.
  std::vector<uint64_t> versions;
  int64_t deletions = 0;
  absl::Status failed;

  void Run(int64_t writes) {
    for (int64_t i = 0; i < writes && failed.ok(); ++i) Write();
  }

 private:
  int UpTo(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  void Write() {
    const std::string name = absl::StrCat("w", number_, "-", UpTo(100));
    const auto found = objects_.find(name);
    if (found != objects_.end() && UpTo(5) == 0) {
      failed = client_.Delete(kube::core::kConfigMap, {kNamespace, name});
      objects_.erase(found);
      ++deletions;
      return;
    }
    kube::Json object =
        found != objects_.end()
            ? found->second
            : kube::Json{{"apiVersion", "v1"},
                         {"kind", "ConfigMap"},
                         {"metadata", {{"name", name}, {"namespace", kNamespace}, {"labels", {{kLabel, ""}}}}}};
    kube::EnsureField(object, "data.text") =
        absl::StrCat(++written_, " ä🚀 ", std::string(static_cast<size_t>(UpTo(200)), 'x'));
    absl::StatusOr<kube::Json> answer = found != objects_.end() ? client_.Update(kube::core::kConfigMap, object)
                                                                : client_.Create(kube::core::kConfigMap, object);
    if (!answer.ok()) {
      failed = answer.status();
      return;
    }
    versions.push_back(std::strtoull(std::string(kube::ResourceVersion(*answer)).c_str(), nullptr, 10));
    objects_[name] = *std::move(answer);
  }

  kube::Client& client_;
  const int number_;
  std::mt19937_64 random_;
  int64_t written_ = 0;
  std::map<std::string, kube::Json> objects_;
};

class Torture : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new standalone::TemporaryFolder;
    standalone::ClusterOptions options;
    options.data_dir = folder_->Path("cluster");
    options.controlplane = TF_CONTROLPLANE;
    options.fsync = false;
    cluster_ = new standalone::Cluster(options);
    const absl::Status started = cluster_->Start();
    ASSERT_TRUE(started.ok()) << started;
    absl::StatusOr<kube::Config> config = kube::LoadConfig({.kubeconfig = cluster_->kubeconfig()});
    ASSERT_TRUE(config.ok()) << config.status();
    config_ = new kube::Config(*config);
    client_ = new kube::Client(std::make_shared<const kube::Config>(*config_), "torture-writer");
    ASSERT_TRUE(
        client_
            ->Create(kube::core::kNamespace,
                     kube::Json{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", kNamespace}}}})
            .ok());
  }
  static void TearDownTestSuite() {
    delete client_;
    delete config_;
    delete cluster_;
    delete folder_;
  }

  void Run(const std::string& name, bool watch_list, bool forget);

  static inline standalone::TemporaryFolder* folder_ = nullptr;
  static inline standalone::Cluster* cluster_ = nullptr;
  static inline kube::Config* config_ = nullptr;
  static inline kube::Client* client_ = nullptr;
};

void Torture::Run(const std::string& name, bool watch_list, bool forget) {
  const std::string server = cluster_->server();
  FaultProxy proxy({.server_port = static_cast<uint16_t>(std::atoi(server.substr(server.rfind(':') + 1).c_str())),
                    .identity = {config_->certificate_pem, config_->key_pem},
                    .plan = RandomFaults({.seed = seed, .events_between = forget ? 100 : 300, .forget = forget}),
                    .capture_lists = forget});
  kube::Client through_proxy(std::make_shared<const kube::Config>(kube::Config{.server = proxy.url()}), "torture");
  Witness witness;
  kube::InformerOptions options = HastyInformer(watch_list);
  options.ns = kNamespace;
  options.label_selector = kLabel;
  kube::Informer informer(through_proxy, kube::core::kConfigMap, options);
  informer.AddHandler(witness.handler());
  informer.Start();
  ASSERT_EQ(informer.WaitForSync(), absl::OkStatus());
  const uint64_t first = std::strtoull(informer.resource_version().c_str(), nullptr, 10);
  const size_t told_first = witness.told().size();

  const absl::Time began = absl::Now();
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    writers.push_back(std::make_unique<Writer>(*client_, i, seed * kWriters + static_cast<uint64_t>(i)));
    threads.emplace_back([&, i] { writers[static_cast<size_t>(i)]->Run(events / kWriters); });
  }
  for (std::thread& thread : threads) thread.join();
  const absl::Duration wrote = absl::Now() - began;
  for (const auto& writer : writers) ASSERT_EQ(writer->failed, absl::OkStatus());
  proxy.Calm();

  kube::ListOptions mine;
  mine.label_selector = kLabel;
  absl::StatusOr<kube::ListPage> list = client_->List(kube::core::kConfigMap, kNamespace, mine);
  ASSERT_TRUE(list.ok()) << list.status();
  std::map<std::string, uint64_t> expected;
  for (const kube::ObjectPtr& object : list->items) {
    expected[kube::KeyOf(*object).ToString()] =
        std::strtoull(std::string(kube::ResourceVersion(*object)).c_str(), nullptr, 10);
  }
  EXPECT_TRUE(witness.AwaitObjects(expected, absl::Minutes(1))) << informer.stats().last_error;

  const kube::InformerStats stats = informer.stats();
  const std::map<std::string, int64_t> counts = proxy.counts();
  std::cout << name << ": " << events << " writes in " << absl::FormatDuration(wrote) << "; " << witness.count()
            << " calls, " << stats.events << " events, " << stats.old_events << " old, " << stats.watches
            << " watches, " << stats.lists << " lists, " << stats.failures << " failures; injected";
  for (const auto& [what, count] : counts) std::cout << ", " << what << " " << count;
  std::cout << std::endl;

  EXPECT_THAT(witness.violations(), ::testing::IsEmpty());
  EXPECT_EQ(witness.objects(), expected);
  EXPECT_EQ(informer.size(), expected.size());
  for (const kube::ObjectPtr& object : list->items) {
    const kube::ObjectPtr cached = informer.Get(kube::KeyOf(*object));
    ASSERT_NE(cached, nullptr);
    EXPECT_EQ(cached->at("data"), object->at("data"));
  }
  EXPECT_EQ(stats.bad_objects, 0);
  EXPECT_GT(Injected(counts), 5);
  if (forget) {
    EXPECT_GT(stats.lists, 1);
    EXPECT_LE(stats.lists - 1, Forgotten(counts));
  } else {
    EXPECT_EQ(stats.lists, 1);
    // And then every write was told, once, in order. Of deletions only the number is known here.
    const std::vector<uint64_t> told = witness.told();
    EXPECT_TRUE(std::is_sorted(told.begin() + static_cast<ptrdiff_t>(told_first), told.end()));
    std::vector<uint64_t> written;
    int64_t deletions = 0;
    for (const auto& writer : writers) {
      written.insert(written.end(), writer->versions.begin(), writer->versions.end());
      deletions += writer->deletions;
    }
    std::sort(written.begin(), written.end());
    std::vector<uint64_t> watched(told.begin() + static_cast<ptrdiff_t>(told_first), told.end());
    std::sort(watched.begin(), watched.end());
    EXPECT_TRUE(std::includes(watched.begin(), watched.end(), written.begin(), written.end()));
    EXPECT_EQ(watched.size(), written.size() + static_cast<size_t>(deletions));
    EXPECT_EQ(std::adjacent_find(watched.begin(), watched.end()), watched.end());
    EXPECT_GT(watched.empty() ? 0 : watched.front(), first);
  }
  EXPECT_EQ(client_->DeleteCollection(kube::core::kConfigMap, kNamespace, mine), absl::OkStatus());
}

TEST_F(Torture, WatchList) { Run("WatchList", true, false); }
TEST_F(Torture, ForgetfulList) { Run("ForgetfulList", false, true); }

}  // namespace
}  // namespace tf::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--events") == 0) tf::testing::events = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) tf::testing::seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  // Hundreds of failures are the point.
  if (std::getenv("TF_LOG_LEVEL") == nullptr) spdlog::set_level(spdlog::level::off);
  return RUN_ALL_TESTS();
}
