#include "http/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "http/scripted_peer.h"

namespace tf::http {
namespace {

using testing::HasSubstr;

class ClientTest : public testing::Test {
 protected:
  Client client_{TlsSettings{}, "", "test/1"};
};

TEST_F(ClientTest, SendsWhatIsAskedAndReadsTheAnswer) {
  std::string request;
  ScriptedPeer peer([&](int, ScriptedConnection& connection) {
    request = connection.ReadRequest();
    connection.Answer(201, "made", "X-Thing:  a b \r\nEmpty:\r\n");
  });
  auto response = client_.Call({.method = "POST",
                                .url = peer.url("/a/../b?x=%20y"),
                                .headers = {{"Content-Type", "application/json"}, {"X-Nothing", ""}},
                                .body = std::string("\0{}", 3)});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->body, "made");
  EXPECT_EQ(response->Header("x-thing"), "a b");
  EXPECT_EQ(response->Header("absent"), "");
  EXPECT_THAT(request, testing::StartsWith("POST /a/../b?x=%20y HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nUser-Agent: test/1\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nX-Nothing:\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nContent-Length: 3\r\n"));
  EXPECT_THAT(request, testing::EndsWith(std::string("\r\n\r\n\0{}", 7)));
}

// The peer is slow; by the limit, a part of the request is still in the system's buffers on this side.
TEST_F(ClientTest, WhatHasNotReachedThePeerByTheLimitNeverDoes) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  auto response = client_.Call({.method = "POST",
                                .url = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port), "/"),
                                .body = std::string(64 << 20, 'x'),
                                .total_limit = absl::Milliseconds(200)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(response.status())) << response.status();
  const int connection = accept(listener, nullptr, nullptr);
  ASSERT_GE(connection, 0);
  static char bytes[1 << 16];
  ssize_t count;
  while ((count = recv(connection, bytes, sizeof(bytes), 0)) > 0) {
  }
  EXPECT_EQ(count, -1) << "an orderly end comes after all that was in the buffers";
  EXPECT_EQ(errno, ECONNRESET);
  close(connection);
  close(listener);
}

TEST_F(ClientTest, BodiesAndTheirLengths) {
  std::string request;
  ScriptedPeer peer([&](int, ScriptedConnection& connection) {
    for (std::string next; !(next = connection.ReadRequest()).empty();) {
      request = next;
      connection.Answer(200, "");
    }
  });
  struct Row {
    std::string method, body, length;
  };
  for (const Row& row : std::vector<Row>{{"GET", "", ""},
                                         {"DELETE", "", ""},
                                         {"POST", "", "0"},
                                         {"PUT", "", "0"},
                                         {"PATCH", "[]", "2"},
                                         {"DELETE", "{}", "2"}}) {
    auto response = client_.Call({.method = row.method, .url = peer.url(), .body = row.body});
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_THAT(request, testing::StartsWith(row.method + " / HTTP/1.1\r\n"));
    EXPECT_THAT(request, testing::EndsWith("\r\n\r\n" + row.body));
    EXPECT_EQ(absl::StrContains(request, "Content-Length"), !row.length.empty()) << request;
    EXPECT_TRUE(row.length.empty() || absl::StrContains(request, "Content-Length: " + row.length + "\r\n")) << request;
    EXPECT_FALSE(absl::StrContains(request, "Content-Type")) << request;
  }
}

// The proxy that is named, and none that the environment names.
TEST_F(ClientTest, Proxy) {
  std::string request;
  ScriptedPeer proxy([&](int, ScriptedConnection& connection) {
    request = connection.ReadRequest();
    connection.Answer(200, "by proxy");
  });
  Client through(TlsSettings{}, proxy.url(), "test/1");
  auto response = through.Call({.url = "http://server.invalid/x"});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->body, "by proxy");
  EXPECT_THAT(request, testing::StartsWith("GET http://server.invalid/x HTTP/1.1\r\n"));
  EXPECT_FALSE(through.Call({.url = "https://server.invalid/x", .total_limit = absl::Seconds(5)}).ok());
  EXPECT_THAT(request, testing::StartsWith("CONNECT server.invalid:443 HTTP/1.1\r\n"));

  setenv("http_proxy", proxy.url().c_str(), 1);
  ScriptedPeer direct([&](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Answer(200, "direct");
  });
  response = client_.Call({.url = direct.url()});
  unsetenv("http_proxy");
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->body, "direct");
}

TEST_F(ClientTest, AnyStatusIsAnAnswer) {
  ScriptedPeer peer([](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Answer(302, "no", "Location: /elsewhere\r\n");
  });
  auto response = client_.Call({.url = peer.url()});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 302);
}

TEST_F(ClientTest, RefusesWhatCannotBeSent) {
  for (const ClientRequest& request : std::vector<ClientRequest>{
           {.url = ""},
           {.url = "file:///etc/passwd"},
           {.url = "ftp://127.0.0.1/"},
           {.url = "http:///path"},
           {.url = "http://127.0.0.1:1/a b"},
           {.url = "http://127.0.0.1:1/a\r\nX: y"},
           {.url = "http://user@127.0.0.1:1/"},
           {.method = "GE T", .url = "http://127.0.0.1:1/"},
           {.method = "", .url = "http://127.0.0.1:1/"},
           {.url = "http://127.0.0.1:1/", .headers = {{"A b", "c"}}},
           {.url = "http://127.0.0.1:1/", .headers = {{"A", "b\r\nC: d"}}},
           {.url = "http://127.0.0.1:1/", .headers = {{"A", std::string("b\0c", 3)}}},
       }) {
    EXPECT_TRUE(absl::IsInvalidArgument(client_.Call(request).status())) << client_.Call(request).status();
  }
}

TEST_F(ClientTest, NobodyListens) {
  uint16_t port = 0;
  {
    port = ScriptedPeer([](int, ScriptedConnection&) {}).port();
  }
  absl::Status status = client_.Call({.url = absl::StrCat("http://127.0.0.1:", port, "/secret?token=abc")}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("GET http://127.0.0.1:", port, "/secret: ")));
  EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("abc")));
}

// However the pieces of an answer fall, it is the same answer.
TEST_F(ClientTest, AnswerSplitAtEachByte) {
  const std::string answer =
      "HTTP/1.1 100 Continue\r\nInterim: 1\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\n\xe2\x82\xac\r\n5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n";
  ScriptedPeer peer([&](int number, ScriptedConnection& connection) {
    connection.ReadRequest();
    const size_t cut = static_cast<size_t>(number);
    if (!connection.Send(answer.substr(0, cut))) return;
    std::this_thread::yield();
    connection.Send(answer.substr(cut));
  });
  for (size_t cut = 0; cut < answer.size(); ++cut) {
    auto response = client_.Call({.url = peer.url(), .fresh_connection = true});
    ASSERT_TRUE(response.ok()) << cut << " " << response.status();
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "\xe2\x82\xachello");
    ASSERT_EQ(response->headers.size(), 2) << cut;
    EXPECT_EQ(response->Header("a"), "b");
  }
}

// Cut anywhere before its end, no answer is taken for complete.
TEST_F(ClientTest, AnswerCutAtEachByte) {
  const std::string answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  std::atomic<bool> reset = false;
  std::atomic<size_t> cut = 0;
  ScriptedPeer peer([&](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Send(answer.substr(0, cut));
    if (reset) connection.Reset();
  });
  for (bool by_reset : {false, true}) {
    reset = by_reset;
    for (cut = 0; cut < answer.size() - 2; ++cut) {  // the last line break is a matter of form
      auto response = client_.Call({.url = peer.url()});
      EXPECT_TRUE(absl::IsUnavailable(response.status())) << cut << " " << response.status();
    }
  }
}

TEST_F(ClientTest, ContentLengthNotReached) {
  ScriptedPeer peer([&](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
  });
  EXPECT_TRUE(absl::IsUnavailable(client_.Call({.url = peer.url()}).status()));
}

TEST_F(ClientTest, NoHttp) {
  for (const char* bytes :
       {"SSH-2.0-OpenSSH_9.2\r\n", "\r\n\r\n", "HTTP/9.9 banana\r\n\r\n", "\x15\x03\x01\x00\x02\x02"}) {
    ScriptedPeer peer([&](int, ScriptedConnection& connection) {
      connection.ReadRequest();
      connection.Send(bytes);
    });
    auto response = client_.Call({.url = peer.url()});
    EXPECT_FALSE(response.ok()) << bytes;
  }
}

TEST_F(ClientTest, LimitsOfTime) {
  ScriptedPeer silent([](int, ScriptedConnection& connection) { connection.AwaitClose(); });
  absl::Status status = client_.Call({.url = silent.url(), .total_limit = absl::Milliseconds(50)}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no complete answer within 50ms"));
  status = client_.Call({.url = silent.url(), .head_limit = absl::Milliseconds(50)}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no answer within 50ms"));
}

// The head limit is no limit of the stream, and neither is the connect limit.
TEST_F(ClientTest, SilenceEndsAStream) {
  ScriptedPeer peer([&](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    connection.AwaitClose();
  });
  std::string got;
  const absl::Duration start = RealClock().Monotonic();
  absl::Status status = client_
                            .Stream({.url = peer.url(),
                                     .connect_limit = absl::Milliseconds(100),
                                     .total_limit = absl::InfiniteDuration(),
                                     .head_limit = absl::Milliseconds(100),
                                     .silence_limit = absl::Milliseconds(200)},
                                    [&](std::string_view bytes) {
                                      got += bytes;
                                      return true;
                                    })
                            .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("silent for 200ms"));
  EXPECT_EQ(got, "one");
  EXPECT_GE(RealClock().Monotonic() - start, absl::Milliseconds(200));
}

// A peer that accepts and says nothing: the limit of the connection itself, while TLS is agreed on.
TEST_F(ClientTest, ConnectLimit) {
  ScriptedPeer silent([](int, ScriptedConnection& connection) { connection.AwaitClose(); });
  absl::Status status = client_
                            .Call({.url = absl::StrCat("https://127.0.0.1:", silent.port(), "/"),
                                   .connect_limit = absl::Milliseconds(50)})
                            .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no connection within 50ms"));
}

TEST_F(ClientTest, AnswerOverItsLimit) {
  ScriptedPeer peer([](int number, ScriptedConnection& connection) {
    connection.ReadRequest();
    if (number == 0) connection.Answer(200, std::string(1000, 'x'));
    if (number == 1) connection.Answer(200, std::string(1001, 'x'));
    if (number == 2) {
      connection.Send("HTTP/1.1 200 OK\r\n");
      while (connection.Send("X-Filler: " + std::string(60000, 'x') + "\r\n")) {
      }
    }
  });
  EXPECT_TRUE(client_.Call({.url = peer.url(), .max_body = 1000, .fresh_connection = true}).ok());
  absl::Status status = client_.Call({.url = peer.url(), .max_body = 1000, .fresh_connection = true}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("limit of 1000 bytes"));
  status = client_.Call({.url = peer.url(), .fresh_connection = true}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(ClientTest, SinkEndsTheStream) {
  ScriptedPeer peer([](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    connection.AwaitClose();
  });
  auto response = client_.Stream({.url = peer.url()}, [](std::string_view) { return false; });
  EXPECT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 200);
  EXPECT_THROW(
      client_.Stream({.url = peer.url()}, [](std::string_view) -> bool { throw std::runtime_error("thrown by sink"); })
          .IgnoreError(),
      std::runtime_error);
}

TEST_F(ClientTest, StreamCollectsErrors) {
  ScriptedPeer peer([](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Answer(404, "nothing here");
  });
  auto response = client_.Stream({.url = peer.url()}, [](std::string_view) {
    ADD_FAILURE();
    return true;
  });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->body, "nothing here");
}

TEST_F(ClientTest, KeepsConnections) {
  std::atomic<int> connections = 0;
  ScriptedPeer peer([&](int, ScriptedConnection& connection) {
    ++connections;
    while (!connection.ReadRequest().empty()) connection.Answer(200, "ok");
  });
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client_.Call({.url = peer.url()}).ok());
  EXPECT_EQ(connections, 1);
  // New settings: the old connection was made with others.
  client_.SetTls({});
  ASSERT_TRUE(client_.Call({.url = peer.url()}).ok());
  EXPECT_EQ(connections, 2);
}

// The server may close a kept connection at any moment. A GET goes over a new one; what changes something is not sent
// twice, for the first may have arrived.
TEST_F(ClientTest, ClosedKeptConnection) {
  std::atomic<int> requests = 0;
  ScriptedPeer peer([&](int, ScriptedConnection& connection) {
    if (connection.ReadRequest().empty()) return;  // of a call that is not sent again after all
    ++requests;
    connection.Answer(200, "ok");
    if (connection.ReadRequest().empty()) return;  // the next request on a kept connection is read and not answered
    ++requests;
  });
  for (const char* method : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}) {
    SCOPED_TRACE(method);
    client_.SetTls({});  // none is kept from before
    ASSERT_TRUE(client_.Call({.url = peer.url()}).ok());
    requests = 0;
    absl::Status status = client_.Call({.method = method, .url = peer.url()}).status();
    if (std::string_view(method) == "GET" || std::string_view(method) == "HEAD") {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(requests, 2);
    } else {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_EQ(requests, 1);
    }
  }
}

// Closed while idle: noticed before anything is sent, so nothing is at risk.
TEST_F(ClientTest, KeptConnectionClosedWhileIdle) {
  std::atomic<int> closed = 0;
  ScriptedPeer peer([&](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Answer(200, "ok");
    ++closed;
    closed.notify_all();
  });
  for (int i = 0; i < 5; ++i) {
    auto response = client_.Call({.method = "POST", .url = peer.url()});
    EXPECT_TRUE(response.ok()) << i << " " << response.status();
    closed.wait(i);
  }
}

// In every phase: before it begins, while it connects, waits for the head, and is in the middle of a stream.
TEST_F(ClientTest, CancelFromAnotherThread) {
  Cancel before;
  before.Now();
  EXPECT_TRUE(absl::IsCancelled(client_.Call({.url = "http://127.0.0.1:1/"}, &before).status()));

  for (std::string phase : {"tls", "head", "body"}) {
    SCOPED_TRACE(phase);
    Cancel cancel;
    ScriptedPeer peer([&](int, ScriptedConnection& connection) {
      if (phase == "head") connection.ReadRequest();
      if (phase == "body") {
        connection.ReadRequest();
        connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
      } else {
        cancel.Now();
      }
      connection.AwaitClose();
    });
    const std::string scheme = phase == "tls" ? "https" : "http";
    absl::Status status = client_
                              .Stream(
                                  {.url = absl::StrCat(scheme, "://127.0.0.1:", peer.port(), "/"),
                                   .total_limit = absl::InfiniteDuration()},
                                  [&](std::string_view) {
                                    std::thread([&] { cancel.Now(); }).join();
                                    return true;
                                  },
                                  &cancel)
                              .status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  }
}

// 100 MB pass through without being kept.
TEST_F(ClientTest, LongStream) {
  const std::string piece(1 << 20, 'x');
  ScriptedPeer peer([&](int, ScriptedConnection& connection) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    for (int i = 0; i < 100; ++i) connection.Send(piece);
  });
  size_t total = 0, largest = 0;
  auto response = client_.Stream({.url = peer.url()}, [&](std::string_view bytes) {
    total += bytes.size();
    largest = std::max(largest, bytes.size());
    return true;
  });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(total, 100u << 20);
  EXPECT_LE(largest, 64u << 10);
  EXPECT_EQ(response->body, "");
}

TEST_F(ClientTest, ThreadsSideBySide) {
  ScriptedPeer first([](int, ScriptedConnection& connection) {
    while (!connection.ReadRequest().empty()) connection.Answer(200, "first");
  });
  std::vector<std::unique_ptr<ScriptedPeer>> peers;
  for (int i = 0; i < 4; ++i) {
    peers.push_back(std::make_unique<ScriptedPeer>([i](int, ScriptedConnection& connection) {
      while (!connection.ReadRequest().empty()) connection.Answer(200, std::to_string(i));
    }));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        auto response = client_.Call({.url = peers[i]->url()});
        ASSERT_TRUE(response.ok()) << response.status();
        EXPECT_EQ(response->body, std::to_string(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tf::http
