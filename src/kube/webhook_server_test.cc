#include "kube/webhook_server.h"

#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <filesystem>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "http/client.h"
#include "http/test_certificates.h"

namespace tf::kube {
namespace {

using ::testing::HasSubstr;

std::string ReviewOf(const Json& object) {
  const Json review(JsonObject{{"apiVersion", "admission.k8s.io/v1"},
                               {"kind", "AdmissionReview"},
                               {"request", {{"uid", "u-1"}, {"operation", "CREATE"}, {"object", object}}}});
  return boost::json::serialize(review);
}

struct Subject {
  http::TestAuthority authority;
  std::string folder = ::testing::TempDir() + "webhook_XXXXXX";
  Metrics metrics;
  SimulatedClock clock;
  std::unique_ptr<WebhookServer> server;
  std::unique_ptr<http::Client> client;

  Subject() {
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    Write(authority.SignLoopback());
    server = std::make_unique<WebhookServer>(WebhookServerOptions{.address = "127.0.0.1",
                                                                  .port = 0,
                                                                  .certificate_path = folder + "/tls.crt",
                                                                  .key_path = folder + "/tls.key",
                                                                  .clock = &clock,
                                                                  .metrics = &metrics});
    client = std::make_unique<http::Client>(http::TlsSettings{.ca_pem = authority.pem()}, "", "test");
  }
  ~Subject() {
    server.reset();
    std::filesystem::remove_all(folder);
  }
  void Write(const http::TestPair& pair) {
    EXPECT_TRUE(WriteFile(folder + "/tls.key", pair.key_pem, 0600).ok());
    EXPECT_TRUE(WriteFile(folder + "/tls.crt", pair.certificate_pem, 0600).ok());
  }
  absl::StatusOr<http::ClientResponse> Ask(std::string path, std::string body, std::string method = "POST") {
    return client->Call({.method = std::move(method),
                         .url = absl::StrCat("https://127.0.0.1:", server->port(), path),
                         .headers = {{"Content-Type", "application/json"}},
                         .body = std::move(body)});
  }
};

TEST(WebhookServer, AnswersOnItsPaths) {
  Subject s;
  absl::Duration deadline;
  s.server->Handle("/mutate", [&](const AdmissionRequest& request) {
    deadline = request.deadline;
    return Deny("not today");
  });
  EXPECT_FALSE(s.server->Ready().ok());
  ASSERT_TRUE(s.server->Start().ok());
  EXPECT_TRUE(s.server->Ready().ok());
  auto answer = s.Ask("/mutate?timeout=5s", ReviewOf(JsonObject{}));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200);
  EXPECT_THAT(answer->body, HasSubstr("not today"));
  EXPECT_EQ(deadline, absl::Milliseconds(4500)) << "less than the API server waits";
  EXPECT_EQ(s.Ask("/other", "{}")->status, 404);
  EXPECT_EQ(s.Ask("/mutate", "", "GET")->status, 405);
  const std::string text = s.metrics.Text();
  EXPECT_THAT(text, HasSubstr("controller_runtime_webhook_requests_total{code=\"403\",webhook=\"/mutate\"} 1"));
  EXPECT_THAT(text, HasSubstr("controller_runtime_webhook_requests_in_flight{webhook=\"/mutate\"} 0"));
  EXPECT_THAT(text, HasSubstr("controller_runtime_webhook_latency_seconds_count{webhook=\"/mutate\"} 1"));
}

TEST(WebhookServer, ReadsReviewsOfSevenMegabytes) {
  Subject s;
  size_t seen = 0;
  s.server->Handle("/validate", [&](const AdmissionRequest& request) {
    seen = Text(request.object, "data").size();
    return Allow();
  });
  ASSERT_TRUE(s.server->Start().ok());
  const size_t large = (7 << 20) - 1000;
  auto answer = s.Ask("/validate", ReviewOf(JsonObject{{"data", std::string(large, 'x')}}));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(seen, large);
}

TEST(WebhookServer, UsesARenewedCertificateWithoutARestart) {
  Subject s;
  s.server->Handle("/validate", [](const AdmissionRequest&) { return Allow(); });
  ASSERT_TRUE(s.server->Start().ok());
  ASSERT_TRUE(s.Ask("/validate", ReviewOf(JsonObject{})).ok());
  // Of an authority that the client does not know until it is told.
  const http::TestAuthority next("next authority");
  s.Write(next.SignLoopback());
  s.client->SetTls({.ca_pem = next.pem()});
  absl::StatusOr<http::ClientResponse> answer = absl::UnknownError("");
  do {
    answer = s.Ask("/validate", ReviewOf(JsonObject{}));
    EXPECT_TRUE(answer.ok() || absl::IsUnauthenticated(answer.status())) << answer.status();
  } while (!answer.ok());
  EXPECT_EQ(answer->status, 200);
}

TEST(WebhookServer, DoesNotStartWithoutACertificate) {
  Subject s;
  ASSERT_EQ(unlink((s.folder + "/tls.key").c_str()), 0);
  EXPECT_THAT(s.server->Start().message(), HasSubstr("tls.key"));
}

TEST(WebhookServer, ACertificateThatTheProgramMakesItself) {
  http::TestAuthority authority;
  std::mutex mutex;
  std::shared_ptr<const CertificatePair> pair;
  WebhookServer server({.address = "127.0.0.1", .port = 0, .certificate = [&] {
                          std::lock_guard lock(mutex);
                          return pair;
                        }});
  server.Handle("/x", [](const AdmissionRequest&) { return Allow(); });
  ASSERT_TRUE(server.Start().ok());
  http::Client client(http::TlsSettings{.ca_pem = authority.pem()}, "", "test");
  const auto ask = [&] {
    return client.Call({.method = "POST",
                        .url = absl::StrCat("https://127.0.0.1:", server.port(), "/x"),
                        .headers = {{"Content-Type", "application/json"}},
                        .body = ReviewOf(JsonObject{})});
  };
  EXPECT_FALSE(ask().ok()) << "none yet";
  const http::TestPair made = authority.SignLoopback();
  {
    std::lock_guard lock(mutex);
    pair = std::make_shared<const CertificatePair>(CertificatePair{made.certificate_pem, made.key_pem});
  }
  const auto answer = ask();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200);
}

}  // namespace
}  // namespace tf::kube
