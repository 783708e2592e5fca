#include "operator/webhook_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "http/certificates.h"

namespace tf::operators {
namespace {

using testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

std::shared_ptr<X509> Read(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  std::shared_ptr<X509> certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr), X509_free);
  BIO_free(bio);
  return certificate;
}

// As the API server does it: a chain to one of the bundle, in time, for a server.
bool Trusts(const std::string& bundle, const std::string& certificate, absl::Time now) {
  X509_STORE* store = X509_STORE_new();
  for (const auto& one : http::ReadBundle(bundle)) X509_STORE_add_cert(store, Read(one.pem).get());
  const auto leaf = Read(certificate);
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, leaf.get(), nullptr);
  X509_STORE_CTX_set_time(context, 0, absl::ToTimeT(now));
  X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_SERVER);
  const bool good = X509_verify_cert(context) == 1;
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return good;
}

// A Secret and a webhook configuration with resource versions, in memory.
struct World {
  absl::Time now = kStart;
  absl::Duration monotonic = absl::Hours(1000);
  uint64_t version = 1;
  kube::ObjectPtr secret = {};
  kube::ObjectPtr configuration = {};

  World() { SetBundles(""); }

  kube::ObjectPtr Versioned(kube::Json object) {
    kube::EnsureField(object, "metadata.resourceVersion") = absl::StrCat(++version);
    return std::make_shared<const kube::Json>(std::move(object));
  }
  void SetBundles(const std::string& encoded) {
    kube::JsonArray webhooks;
    for (const char* name : {"one", "two"}) {
      kube::JsonObject config{{"url", absl::StrCat("https://127.0.0.1:1/", name)}};
      if (!encoded.empty()) config["caBundle"] = encoded;
      webhooks.push_back(kube::JsonObject{{"name", name}, {"clientConfig", config}});
    }
    configuration = Versioned(kube::JsonObject{{"metadata", {{"name", "c"}}}, {"webhooks", webhooks}});
  }
  std::string Bundle(size_t webhook = 0) const {
    std::string bytes;
    const auto& config = configuration->at("webhooks").at(webhook).at("clientConfig").as_object();
    if (const auto* text = config.if_contains("caBundle")) {
      absl::Base64Unescape(std::string(text->as_string()), &bytes);
    }
    return bytes;
  }
  std::string Url(size_t webhook) const {
    return std::string(configuration->at("webhooks").at(webhook).at("clientConfig").at("url").as_string());
  }
  void Pass(absl::Duration time) {
    now += time;
    monotonic += time;
  }

  // Writes as the server would: what is out of date is refused.
  bool Write(const WebhookAuthority::View& view, const WebhookAuthority::Outcome& outcome) {
    if (outcome.secret.has_value()) {
      if (view.secret == nullptr
              ? secret != nullptr
              : secret == nullptr || kube::ResourceVersion(*secret) != kube::ResourceVersion(*outcome.secret)) {
        return false;
      }
      secret = Versioned(*outcome.secret);
    }
    if (!outcome.configurations.empty() && outcome.configurations[0].has_value()) {
      if (kube::ResourceVersion(*configuration) != kube::ResourceVersion(*outcome.configurations[0])) return false;
      kube::Json changed = *configuration;
      for (const auto& patch : outcome.configurations[0]->at("webhooks").as_array()) {
        for (auto& webhook : changed.at("webhooks").as_array()) {
          if (webhook.at("name") != patch.at("name")) continue;
          for (const auto& field : patch.at("clientConfig").as_object()) {
            webhook.at("clientConfig").as_object()[field.key()] = field.value();
          }
        }
      }
      configuration = Versioned(std::move(changed));
    }
    return true;
  }
};

struct Replica {
  explicit Replica(World& world, WebhookAuthority::Options options = {})
      : world(world), authority([&options] {
          options.secret = {"ns", "s"};
          if (options.hosts.empty()) options.hosts = {"webhook.ns.svc"};
          return options;
        }()) {}

  void Observe() { view = {.secret = world.secret, .configurations = {world.configuration}, .leads = leads}; }
  WebhookAuthority::Outcome Act() {
    auto outcome = authority.Look(view, world.now, world.monotonic);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    ready = outcome->ready.ok();
    world.Write(view, *outcome);
    return *outcome;
  }
  WebhookAuthority::Outcome Settle() {
    WebhookAuthority::Outcome outcome;
    do {
      Observe();
      outcome = Act();
    } while (outcome.secret.has_value() || (!outcome.configurations.empty() && outcome.configurations[0].has_value()));
    return outcome;
  }
  std::string serving() const { return authority.serving() == nullptr ? "" : authority.serving()->certificate_pem; }

  World& world;
  WebhookAuthority authority;
  WebhookAuthority::View view = {};
  bool leads = false;
  bool ready = false;
};

TEST(WebhookAuthority, TheFirstStart) {
  World world;
  Replica replica(world);
  replica.Observe();
  auto outcome = replica.Act();
  EXPECT_TRUE(outcome.secret.has_value());
  EXPECT_FALSE(outcome.ready.ok());
  EXPECT_EQ(replica.serving(), "") << "nothing is signed by an authority that is not stored";
  outcome = replica.Settle();
  EXPECT_TRUE(outcome.ready.ok()) << outcome.ready;
  EXPECT_TRUE(Trusts(world.Bundle(0), replica.serving(), world.now));
  EXPECT_TRUE(Trusts(world.Bundle(1), replica.serving(), world.now));
  EXPECT_EQ(X509_check_host(Read(replica.serving()).get(), "webhook.ns.svc", 0, 0, nullptr), 1);
  EXPECT_EQ(world.Url(0), "https://127.0.0.1:1/one") << "no URL of ours was asked for";
  EXPECT_GT(outcome.look_again, absl::Minutes(30));
}

TEST(WebhookAuthority, ByUrlTheLeaderSaysWhere) {
  World world;
  Replica standby(world, {.hosts = {"127.1.0.6"}, .url = "https://127.1.0.6:9443"});
  Replica leader(world, {.hosts = {"127.1.0.5"}, .url = "https://127.1.0.5:9443"});
  leader.leads = true;
  standby.Settle();
  EXPECT_EQ(world.Url(1), "https://127.0.0.1:1/two");
  leader.Settle();
  EXPECT_EQ(world.Url(1), "https://127.1.0.5:9443/two");
  EXPECT_EQ(X509_check_ip_asc(Read(leader.serving()).get(), "127.1.0.5", 0), 1);
  const std::string_view version = kube::ResourceVersion(*world.configuration);
  standby.Settle();
  EXPECT_EQ(kube::ResourceVersion(*world.configuration), version);
}

TEST(WebhookAuthority, AServingCertificateIsRenewedByTheSameAuthority) {
  World world;
  Replica replica(world);
  replica.Settle();
  const std::string before = replica.serving();
  world.Pass(19 * kDay);
  replica.Settle();
  EXPECT_EQ(replica.serving(), before);
  world.Pass(2 * kDay);
  const auto secret = world.secret;
  replica.Settle();
  EXPECT_NE(replica.serving(), before);
  EXPECT_EQ(world.secret, secret);
}

TEST(WebhookAuthority, ANewAuthorityIsServedOnceItHasBeenKnownForAWhile) {
  World world;
  Replica replica(world);
  replica.Settle();
  world.Pass(240 * kDay);
  replica.Settle();  // a fresh serving certificate of the old authority
  const std::string before = replica.serving();
  world.Pass(4 * kDay);
  auto outcome = replica.Settle();
  EXPECT_EQ(http::ReadBundle(world.Bundle()).size(), 2u) << "old and new";
  EXPECT_EQ(replica.serving(), before);
  EXPECT_LE(outcome.look_again, absl::Seconds(60));
  EXPECT_TRUE(outcome.ready.ok());
  world.Pass(absl::Seconds(59));
  replica.Settle();
  EXPECT_EQ(replica.serving(), before);
  world.Pass(absl::Seconds(1));
  replica.Settle();
  EXPECT_NE(replica.serving(), before);
  EXPECT_TRUE(Trusts(http::ReadBundle(world.Bundle())[0].pem, replica.serving(), world.now));
  world.Pass(130 * kDay);
  replica.Settle();
  EXPECT_EQ(http::ReadBundle(world.Bundle()).size(), 1u) << "the old one has expired";
}

TEST(WebhookAuthority, WhatIsTakenAwayIsPutBack) {
  World world;
  Replica replica(world);
  replica.Settle();
  const std::string bundle = world.Bundle(), serving = replica.serving();
  for (const std::string& broken : {std::string(), std::string("bm90aGluZw==")}) {
    world.SetBundles(broken);
    EXPECT_FALSE(replica.ready && Trusts(world.Bundle(), replica.serving(), world.now));
    replica.Settle();
    EXPECT_EQ(world.Bundle(0), bundle);
    EXPECT_EQ(world.Bundle(1), bundle);
    EXPECT_EQ(replica.serving(), serving);
  }
  // The Secret: what is served goes on until the new authority is known, and stays trusted.
  world.secret = nullptr;
  replica.Settle();
  EXPECT_EQ(replica.serving(), serving);
  EXPECT_TRUE(Trusts(world.Bundle(), replica.serving(), world.now));
  world.Pass(absl::Minutes(1));
  replica.Settle();
  EXPECT_NE(replica.serving(), serving);
  EXPECT_TRUE(Trusts(world.Bundle(), replica.serving(), world.now));
}

TEST(WebhookAuthority, ASecretThatMakesNoSenseIsReplaced) {
  World world;
  for (const kube::Json& data :
       {kube::Json(kube::JsonObject{}), kube::Json(nullptr),
        kube::Json(kube::JsonObject{{"ca.crt", "?"}, {"ca.key", 7}}),
        kube::Json(kube::JsonObject{{"ca.crt", "bm90aGluZw=="}, {"ca.key", "bm90aGluZw=="}})}) {
    world.secret = world.Versioned(kube::JsonObject{{"metadata", {{"name", "s"}}}, {"data", data}});
    Replica replica(world);
    EXPECT_TRUE(replica.Settle().ready.ok());
    EXPECT_TRUE(Trusts(world.Bundle(), replica.serving(), world.now));
  }
}

TEST(WebhookAuthority, AClockThatIsPutBackForYears) {
  World world;
  world.now += 2000 * kDay;
  Replica replica(world);
  replica.Settle();
  world.now = kStart;
  replica.Settle();
  EXPECT_TRUE(Trusts(world.Bundle(), replica.serving(), world.now)) << "or else nobody would be trusted for years";
}

TEST(WebhookAuthority, WithoutAConfigurationItIsReady) {
  World world;
  world.configuration = nullptr;
  Replica replica(world);
  EXPECT_TRUE(replica.Settle().ready.ok());
  EXPECT_NE(replica.serving(), "");
}

// Replicas that see old states, start and end, over years, while people delete things: whoever is ready is trusted
// unless somebody has just broken the configuration.
TEST(WebhookAuthority, AtEverySecond) {
  for (uint32_t seed = 0; seed < 3; ++seed) {
    std::mt19937 random(seed);
    const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
    World world;
    std::vector<std::unique_ptr<Replica>> replicas;
    for (int i = 0; i < 3; ++i) replicas.push_back(std::make_unique<Replica>(world));
    for (int step = 0; step < 200; ++step) {
      Replica& replica = *replicas[random() % replicas.size()];
      bool broken = false;
      if (chance(70)) replica.Observe();  // else it decides on what it saw last
      replica.Act();
      if (chance(3)) replicas[random() % replicas.size()] = std::make_unique<Replica>(world);
      if (chance(1)) world.secret = nullptr;
      if (chance(1)) world.SetBundles(""), broken = true;
      if (broken) {
        for (auto& each : replicas) each->Settle();
      }
      for (const auto& each : replicas) {
        if (!each->ready) continue;
        ASSERT_TRUE(Trusts(world.Bundle(0), each->serving(), world.now)) << "seed " << seed << " step " << step;
        ASSERT_TRUE(Trusts(world.Bundle(1), each->serving(), world.now)) << "seed " << seed << " step " << step;
      }
      // Watches lag by seconds, timers by an hour.
      if (chance(20)) {
        const absl::Duration lag = absl::Seconds(random() % 30);
        world.Pass(lag);
      } else if (chance(4)) {
        for (auto& each : replicas) each->Settle();
        const absl::Duration quiet = absl::Hours(random() % (24 * 40));
        for (absl::Duration passed; passed < quiet; passed += absl::Hours(12)) {
          world.Pass(absl::Hours(12));
          for (auto& each : replicas) each->Settle();
        }
      }
      ASSERT_LE(http::ReadBundle(world.Bundle()).size(), 8u);
    }
    for (auto& each : replicas) each->Settle();
    for (auto& each : replicas) EXPECT_TRUE(each->ready);
  }
}

}  // namespace
}  // namespace tf::operators
