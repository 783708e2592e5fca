// The informer under random faults, against a server in memory that forgets what it is told to forget. `--events N`:
// so many writes in each test (the default is made for every build). `--between N`: about so many events between
// faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "kube/config.h"
#include "support/model_server.h"
#include "torture.h"

namespace tf::testing {
namespace {

constexpr uint64_t kAhead = 100;  // writes that the informer has not told of yet; more where faults are rarer

int64_t writes = 4000;
uint64_t seed = 1;
int between = 0;  // events between two faults; 0: as many as the mode has

struct Mode {
  const char* name;
  bool watch_list;
  bool forget;
  bool tls;
};

class ModelTorture : public ::testing::TestWithParam<Mode> {};

TEST_P(ModelTorture, NothingIsLostDoubledOrOutOfTime) {
  const Mode mode = GetParam();
  ModelServer server({.watch_list = mode.watch_list, .bookmark_every = absl::Milliseconds(100)});
  std::mt19937_64 random(seed);
  const auto upto = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int i = 0; i < 100; ++i) server.Put("ns", absl::StrCat("o", i), R"("data":{"text":"ä🚀"})");
  const uint64_t first = server.version();

  FaultProxy proxy({.server_port = server.server().port(),
                    .server_tls = false,
                    .tls = mode.tls,
                    .plan = RandomFaults({.seed = seed,
                                          .events_between = between > 0   ? between
                                                            : mode.forget ? 60
                                                                          : 200,
                                          .forget = mode.forget}),
                    .capture_lists = mode.forget});
  kube::Client client(
      std::make_shared<const kube::Config>(kube::Config{.server = proxy.url(), .ca_pem = proxy.server().ca_pem()}),
      "test");
  Witness witness;
  kube::Informer informer(client, kube::core::kConfigMap, HastyInformer(mode.watch_list));
  informer.AddHandler(witness.handler());
  informer.Start();
  ASSERT_EQ(informer.WaitForSync(), absl::OkStatus());

  for (int64_t i = 0; i < writes; ++i) {
    const std::string name = absl::StrCat("o", upto(300));
    if (upto(4) != 0 || server.Delete("ns", name) == 0) {
      server.Put("ns", name,
                 absl::StrCat(R"("data":{"text":")", std::string(static_cast<size_t>(upto(300)), 'x'), "\"}"));
    }
    // Not so far ahead that few watches would see it all.
    if (i % 100 == 99) {
      const uint64_t ahead = std::max<uint64_t>(kAhead, static_cast<uint64_t>(between));
      ASSERT_TRUE(witness.AwaitVersion(server.version() - std::min(server.version(), ahead), absl::Minutes(2)))
          << informer.stats().last_error;
    }
  }
  proxy.Calm();
  EXPECT_TRUE(witness.AwaitObjects(server.Objects(), absl::Minutes(1))) << informer.stats().last_error;

  const kube::InformerStats stats = informer.stats();
  const std::map<std::string, int64_t> counts = proxy.counts();
  std::cout << mode.name << ": " << witness.count() << " calls, " << stats.events << " events, " << stats.old_events
            << " old, " << stats.watches << " watches, " << stats.lists << " lists, " << stats.failures
            << " failures; injected";
  for (const auto& [what, count] : counts) std::cout << ", " << what << " " << count;
  std::cout << std::endl;

  EXPECT_THAT(witness.violations(), ::testing::IsEmpty());
  EXPECT_EQ(witness.objects(), server.Objects());
  std::map<std::string, uint64_t> cached;
  for (const kube::ObjectPtr& object : informer.All()) {
    cached[kube::KeyOf(*object).ToString()] =
        std::strtoull(std::string(kube::ResourceVersion(*object)).c_str(), nullptr, 10);
  }
  EXPECT_EQ(cached, server.Objects());
  EXPECT_EQ(stats.bad_objects, 0);
  EXPECT_GT(Injected(counts), 5);
  if (mode.forget) {
    // Each time that all was read again, the server had said that it must be.
    EXPECT_GT(stats.lists, 1);
    EXPECT_LE(stats.lists - 1, Forgotten(counts));
  } else {
    EXPECT_EQ(stats.lists, 1);
    // And then every single write was told, once, in order.
    std::vector<uint64_t> told = witness.told();
    std::erase_if(told, [&](uint64_t version) { return version <= first; });
    std::vector<uint64_t> expected;
    for (uint64_t version = first + 1; version <= server.version(); ++version) expected.push_back(version);
    EXPECT_TRUE(told == expected) << told.size() << " told, " << expected.size() << " written";
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ModelTorture,
                         ::testing::Values(Mode{"WatchList", true, false, false}, Mode{"List", false, false, true},
                                           Mode{"ForgetfulWatchList", true, true, true},
                                           Mode{"ForgetfulList", false, true, false}),
                         [](const ::testing::TestParamInfo<Mode>& info) { return info.param.name; });

}  // namespace
}  // namespace tf::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--events") == 0) tf::testing::writes = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--between") == 0) tf::testing::between = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) tf::testing::seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  // Hundreds of failures are the point.
  if (std::getenv("TF_LOG_LEVEL") == nullptr) spdlog::set_level(spdlog::level::off);
  return RUN_ALL_TESTS();
}
