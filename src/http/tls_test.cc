// Client and server over TLS: who trusts whom, and certificates that change while both run.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "http/client.h"
#include "http/scripted_peer.h"
#include "http/server.h"
#include "http/test_certificates.h"

namespace tf::http {
namespace {

using testing::HasSubstr;

const TestAuthority& Ca() {
  static const TestAuthority* authority = new TestAuthority;
  return *authority;
}

class TlsTest : public testing::Test {
 protected:
  // The server's certificates as they are now; change them with SetTls.
  void Start(ServerTls tls, Handler handler = nullptr) {
    SetTls(std::move(tls));
    if (handler == nullptr) {
      handler = [this](const ServerRequest& request, ResponseWriter& writer) {
        std::lock_guard lock(mutex_);
        seen_ = request;
        EXPECT_TRUE(writer.Send(200, "text/plain", "hello").ok());
      };
    }
    ServerOptions options;
    options.header_limit = absl::Seconds(5);
    options.tls = [this]() -> absl::StatusOr<ServerTls> {
      std::lock_guard lock(mutex_);
      // A Status of its own: what several share is counted by the library, where ThreadSanitizer cannot look.
      if (!tls_.ok()) return absl::Status(tls_.status().code(), tls_.status().message());
      return tls_;
    };
    auto server = Server::Start(std::move(options), std::move(handler));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void SetTls(absl::StatusOr<ServerTls> tls) {
    std::lock_guard lock(mutex_);
    tls_ = std::move(tls);
  }
  static ServerTls Of(const TestPair& pair) {
    return {.certificate_pem = pair.certificate_pem, .key_pem = pair.key_pem};
  }
  std::string Url(std::string_view host = "127.0.0.1") {
    return absl::StrCat("https://", std::string(host), ":", server_->port(), "/");
  }
  absl::StatusOr<ClientResponse> Call(const TlsSettings& settings, std::string_view host = "127.0.0.1") {
    return Client(settings, "", "test").Call({.url = Url(host)});
  }

  std::mutex mutex_;
  absl::StatusOr<ServerTls> tls_;
  ServerRequest seen_;
  std::unique_ptr<Server> server_;
};

TEST_F(TlsTest, TrustedServer) {
  Start(Of(Ca().SignLoopback()));
  for (const char* host : {"127.0.0.1", "localhost"}) {
    auto response = Call({.ca_pem = Ca().pem()}, host);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->body, "hello");
  }
  EXPECT_EQ(seen_.peer_common_name, "");
  // A bundle of several authorities.
  EXPECT_TRUE(Call({.ca_pem = TestAuthority("other").pem() + Ca().pem()}).ok());
}

TEST_F(TlsTest, ServersThatAreNotTrusted) {
  Start(Of(Ca().SignLoopback()));
  absl::Status status = Call({.ca_pem = TestAuthority("other").pem()}).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not trusted"));
  EXPECT_TRUE(absl::IsUnauthenticated(Call({}).status())) << "the system does not know our authority";
  EXPECT_TRUE(absl::IsUnauthenticated(Call({.ca_pem = "no certificate"}).status()));
  EXPECT_TRUE(Call({.insecure = true}).ok());

  SetTls(Of(Ca().Sign({.common_name = "elsewhere", .names = {"DNS:elsewhere.example"}})));
  status = Call({.ca_pem = Ca().pem()}).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;

  SetTls(Of(Ca().Sign({.names = {"IP:127.0.0.1"}, .not_after = absl::Now() - absl::Minutes(1)})));
  status = Call({.ca_pem = Ca().pem()}).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("expired"));
}

TEST_F(TlsTest, ServerNameOfItsOwn) {
  Start(Of(Ca().Sign({.names = {"DNS:api.example"}})));
  EXPECT_FALSE(Call({.ca_pem = Ca().pem()}).ok());
  auto response = Call({.ca_pem = Ca().pem(), .server_name = "api.example"});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(seen_.Header("host"), absl::StrCat("127.0.0.1:", server_->port()));
  EXPECT_TRUE(absl::IsUnauthenticated(Call({.ca_pem = Ca().pem(), .server_name = "other.example"}).status()));
  // No name service is asked for it, and connections are kept all the same.
  Client client({.ca_pem = Ca().pem(), .server_name = "api.example"}, "", "test");
  EXPECT_TRUE(client.Call({.url = Url()}).ok());
  const std::string first = seen_.peer_address;
  EXPECT_TRUE(client.Call({.url = Url()}).ok());
  EXPECT_EQ(seen_.peer_address, first);
}

TEST_F(TlsTest, ClientCertificates) {
  TestAuthority clients("clients");
  ServerTls tls = Of(Ca().SignLoopback());
  tls.client_ca_pem = clients.pem();
  Start(tls);
  const TestPair good = clients.Sign({.common_name = "system:node:a", .organisations = {"system:nodes", "more"}});
  auto with = [](const TestPair& pair) {
    return TlsSettings{.ca_pem = Ca().pem(), .certificate_pem = pair.certificate_pem, .key_pem = pair.key_pem};
  };
  ASSERT_TRUE(Call(with(good)).ok()) << Call(with(good)).status();
  EXPECT_EQ(seen_.peer_common_name, "system:node:a");
  EXPECT_EQ(seen_.peer_groups, (std::vector<std::string>{"system:nodes", "more"}));
  // Without one: a nobody, unless one is required.
  EXPECT_TRUE(Call({.ca_pem = Ca().pem()}).ok());
  EXPECT_EQ(seen_.peer_common_name, "");

  const TestPair foreign = Ca().Sign({.common_name = "system:node:a"});
  absl::Status status = Call(with(foreign)).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("refused our certificate"));
  const TestPair expired = clients.Sign({.common_name = "a", .not_after = absl::Now() - absl::Minutes(1)});
  EXPECT_TRUE(absl::IsUnauthenticated(Call(with(expired)).status()));

  tls.client_required = true;
  SetTls(tls);
  status = Call({.ca_pem = Ca().pem()}).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_TRUE(Call(with(good)).ok());

  // A key of another certificate.
  TlsSettings mixed = with(good);
  mixed.key_pem = foreign.key_pem;
  EXPECT_TRUE(absl::IsUnauthenticated(Call(mixed).status())) << Call(mixed).status();
}

// New connections see the new certificate; what cannot be used leaves the old one in place.
TEST_F(TlsTest, RenewedWhileRunning) {
  Start(Of(Ca().SignLoopback()));
  Client client({.ca_pem = Ca().pem()}, "", "test");
  EXPECT_TRUE(client.Call({.url = Url()}).ok());

  TestAuthority next("next");
  SetTls(Of(next.SignLoopback()));
  EXPECT_TRUE(client.Call({.url = Url()}).ok()) << "the connection from before goes on";
  EXPECT_TRUE(absl::IsUnauthenticated(client.Call({.url = Url(), .fresh_connection = true}).status()));
  client.SetTls({.ca_pem = Ca().pem() + next.pem()});
  EXPECT_TRUE(client.Call({.url = Url()}).ok());

  for (const absl::StatusOr<ServerTls>& bad : std::vector<absl::StatusOr<ServerTls>>{
           absl::NotFoundError("no file"), ServerTls{}, ServerTls{.certificate_pem = "x", .key_pem = "y"},
           ServerTls{.certificate_pem = next.SignLoopback().certificate_pem, .key_pem = next.SignLoopback().key_pem}}) {
    SetTls(bad);
    EXPECT_TRUE(client.Call({.url = Url(), .fresh_connection = true}).ok());
  }
}

TEST_F(TlsTest, NoCertificateAtAll) {
  Start({});
  SetTls(absl::NotFoundError("not made yet"));
  absl::Status status = Call({.ca_pem = Ca().pem()}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  SetTls(Of(Ca().SignLoopback()));
  EXPECT_TRUE(Call({.ca_pem = Ca().pem()}).ok());
}

TEST_F(TlsTest, OneSpeaksTlsAndTheOtherDoesNot) {
  Start(Of(Ca().SignLoopback()));
  EXPECT_FALSE(Client({}, "", "test").Call({.url = absl::StrCat("http://127.0.0.1:", server_->port(), "/")}).ok());
  ScriptedPeer plain([](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Answer(200, "plain");
  });
  EXPECT_FALSE(
      Client({.insecure = true}, "", "test")
          .Call({.url = absl::StrCat("https://127.0.0.1:", plain.port(), "/"), .total_limit = absl::Milliseconds(500)})
          .ok());
}

TEST_F(TlsTest, StreamOfManyMegabytes) {
  Start(Of(Ca().SignLoopback()), [](const ServerRequest&, ResponseWriter& writer) {
    ASSERT_TRUE(writer.Begin(200, "text/plain").ok());
    const std::string piece(100000, 'x');
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(writer.Write(piece).ok());
  });
  Client client({.ca_pem = Ca().pem()}, "", "test");
  size_t total = 0;
  auto response = client.Stream({.url = Url()}, [&](std::string_view bytes) {
    total += bytes.size();
    return true;
  });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(total, 20000000u);
}

TEST_F(TlsTest, LargeBodiesBothWays) {
  Start(Of(Ca().SignLoopback()), [](const ServerRequest& request, ResponseWriter& writer) {
    ASSERT_TRUE(writer.Send(200, "text/plain", request.body).ok());
  });
  std::string body;
  for (int i = 0; i < 700000; ++i) absl::StrAppend(&body, i);
  auto response = Client({.ca_pem = Ca().pem()}, "", "test").Call({.method = "POST", .url = Url(), .body = body});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->body, body);
}

TEST_F(TlsTest, StopWithConnectionsInEveryState) {
  Start(Of(Ca().SignLoopback()), [](const ServerRequest&, ResponseWriter& writer) {
    ASSERT_TRUE(writer.Begin(200, "text/plain").ok());
    EXPECT_TRUE(writer.Write("x").ok());
    writer.PeerGone(absl::InfiniteDuration());
  });
  int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);  // never greets
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server_->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(silent, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  Client client({.ca_pem = Ca().pem()}, "", "test");
  auto response = client.Stream({.url = Url()}, [&](std::string_view) {
    server_->Stop(absl::Seconds(20));
    return true;
  });
  EXPECT_TRUE(response.ok()) << response.status();
  close(silent);
}

}  // namespace
}  // namespace tf::http
