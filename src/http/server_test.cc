#include "http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "http/client.h"

namespace tf::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Bytes to a server and back, without any HTTP of ours in between.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawClient() { close(fd_); }

  bool Send(std::string_view bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  std::string ReadToEnd() {
    std::string all, piece;
    while (!(piece = ReadSome()).empty()) all += piece;
    return all;
  }
  std::string ReadSome() {
    char bytes[65536];
    const ssize_t count = recv(fd_, bytes, sizeof bytes, 0);
    return count > 0 ? std::string(bytes, static_cast<size_t>(count)) : std::string();
  }
  // Until this much has come.
  std::string Read(size_t size) {
    std::string all, piece;
    while (all.size() < size && !(piece = ReadSome()).empty()) all += piece;
    return all;
  }
  void CloseWriting() { shutdown(fd_, SHUT_WR); }

 private:
  int fd_;
};

class ServerTest : public testing::Test {
 protected:
  void Start(Handler handler, ServerOptions options = {}) {
    auto server = Server::Start(std::move(options), std::move(handler));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Url(std::string_view target = "/") {
    return absl::StrCat("http://127.0.0.1:", server_->port(), std::string(target));
  }
  // All that comes back for these bytes.
  std::string Exchange(std::string_view bytes) {
    RawClient client(server_->port());
    EXPECT_TRUE(client.Send(bytes));
    return client.ReadToEnd();
  }

  std::unique_ptr<Server> server_;
  Client client_{TlsSettings{}, "", "test"};
};

void Hello(const ServerRequest&, ResponseWriter& writer) { EXPECT_TRUE(writer.Send(200, "text/plain", "hello").ok()); }

TEST_F(ServerTest, RequestAsItCame) {
  ServerRequest seen;
  Start([&](const ServerRequest& request, ResponseWriter& writer) {
    seen = request;
    EXPECT_TRUE(writer.Send(201, "application/json", "{}", {{"X-More", "yes"}}).ok());
  });
  auto response = client_.Call({.method = "PATCH",
                                .url = Url("/api/v1/a%2Fb/c%20d?x=1&y=a+b%26c&x=2&flag"),
                                .headers = {{"X-Test", "value"}, {"Content-Type", "application/json"}},
                                .body = std::string("\0body", 5)});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->body, "{}");
  EXPECT_EQ(response->Header("content-type"), "application/json");
  EXPECT_EQ(response->Header("x-more"), "yes");
  EXPECT_EQ(seen.method, "PATCH");
  EXPECT_EQ(seen.target, "/api/v1/a%2Fb/c%20d?x=1&y=a+b%26c&x=2&flag");
  EXPECT_EQ(seen.path, "/api/v1/a/b/c d");
  EXPECT_EQ(seen.query, (Headers{{"x", "1"}, {"y", "a b&c"}, {"x", "2"}, {"flag", ""}}));
  EXPECT_EQ(seen.Query("x"), "1");
  EXPECT_EQ(seen.Query("absent"), "");
  EXPECT_EQ(seen.Header("x-test"), "value");
  EXPECT_EQ(seen.body, std::string("\0body", 5));
  EXPECT_THAT(seen.peer_address, StartsWith("127.0.0.1:"));
  EXPECT_EQ(seen.peer_common_name, "");
}

TEST_F(ServerTest, EscapesThatAreNone) {
  ServerRequest seen;
  Start([&](const ServerRequest& request, ResponseWriter& writer) {
    seen = request;
    Hello(request, writer);
  });
  EXPECT_THAT(Exchange("GET http://host/a%zz%4?b=%&%=c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(seen.path, "/a%zz%4");
  EXPECT_EQ(seen.query, (Headers{{"b", "%"}, {"%", "c"}}));
}

TEST_F(ServerTest, RequestSplitAtEachByteAndPipelined) {
  std::vector<std::string> bodies;
  Start([&](const ServerRequest& request, ResponseWriter& writer) {
    bodies.push_back(request.path + request.body);
    Hello(request, writer);
  });
  const std::string requests =
      "POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
      "POST /2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  for (size_t cut = 0; cut < requests.size(); ++cut) {
    bodies.clear();
    RawClient client(server_->port());
    client.Send(requests.substr(0, cut));
    client.Send(requests.substr(cut));
    client.ReadToEnd();
    EXPECT_EQ(bodies, (std::vector<std::string>{"/1abc", "/2def", "/3"})) << cut;
  }
}

TEST_F(ServerTest, Streams) {
  Start([&](const ServerRequest& request, ResponseWriter& writer) {
    EXPECT_FALSE(writer.Write("early").ok());
    EXPECT_TRUE(writer.Begin(200, "text/plain").ok());
    EXPECT_FALSE(writer.Begin(200, "text/plain").ok());
    EXPECT_FALSE(writer.Send(200, "", "").ok());
    EXPECT_FALSE(writer.TakeOver({}).ok());
    EXPECT_TRUE(writer.Write("one,").ok());
    EXPECT_TRUE(writer.Write("").ok());  // would be the end
    EXPECT_TRUE(writer.Write(std::string(100000, 'x')).ok());
    (void)request;
  });
  for (int i = 0; i < 2; ++i) {
    std::string got;
    auto response = client_.Stream({.url = Url()}, [&](std::string_view bytes) {
      got += bytes;
      return true;
    });
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(got, "one," + std::string(100000, 'x'));
  }
  // For HTTP/1.0 the end of the connection is the end.
  std::string old = Exchange("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old, testing::Not(HasSubstr("chunked")));
  EXPECT_THAT(old, EndsWith("\r\n\r\none," + std::string(100000, 'x')));
}

TEST_F(ServerTest, HeadAndBodilessAnswers) {
  Start([&](const ServerRequest& request, ResponseWriter& writer) {
    const int status = std::atoi(request.path.c_str() + 1);
    EXPECT_TRUE(writer.Send(status, "text/plain", "body").ok());
  });
  EXPECT_THAT(Exchange("HEAD /200 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              testing::AllOf(HasSubstr("Content-Length: 4\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(Exchange("GET /204 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              testing::AllOf(testing::Not(HasSubstr("Content-Length")), EndsWith("\r\n\r\n")));
  EXPECT_THAT(Exchange("GET /304 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), EndsWith("\r\n\r\n"));
}

TEST_F(ServerTest, HandlersThatFail) {
  Start([&](const ServerRequest& request, ResponseWriter& writer) {
    if (request.path == "/silent") return;
    if (request.path == "/injects") {
      EXPECT_FALSE(writer.Send(200, "text/plain", "x", {{"A", "b\r\nC: d"}}).ok());
      return;
    }
    if (request.path == "/later") {
      EXPECT_TRUE(writer.Begin(200, "text/plain").ok());
      EXPECT_TRUE(writer.Write("half").ok());
    }
    throw std::runtime_error("thrown by the handler");
  });
  for (const char* path : {"/silent", "/throws", "/injects"}) {
    auto response = client_.Call({.url = Url(path)});
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->status, 500);
  }
  // Half an answer must not look like a whole one.
  EXPECT_TRUE(absl::IsUnavailable(client_.Call({.url = Url("/later")}).status()));
}

TEST_F(ServerTest, LimitsOfSize) {
  Start(Hello, {.max_body = 1000});
  auto response = client_.Call({.method = "POST", .url = Url(), .body = std::string(1000, 'x')});
  EXPECT_EQ(response->status, 200);
  response = client_.Call({.method = "POST", .url = Url(), .body = std::string(1001, 'x')});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 413);
  EXPECT_THAT(response->body, HasSubstr("1000 bytes"));
  // The answer arrives although much more is on its way.
  response = client_.Call({.method = "POST", .url = Url(), .body = std::string(5 << 20, 'x')});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 413);
  // Chunked: nobody says in advance how much it is.
  std::string chunks = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 11; ++i) chunks += "64\r\n" + std::string(100, 'x') + "\r\n";
  EXPECT_THAT(Exchange(chunks), StartsWith("HTTP/1.1 413 "));

  EXPECT_EQ(client_.Call({.url = Url(), .headers = {{"A", std::string(50000, 'x')}}})->status, 200);
  response = client_.Call({.url = Url(), .headers = {{"A", std::string(70000, 'x')}}});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 431);
  EXPECT_THAT(Exchange("GET /" + std::string(100000, 'x')), StartsWith("HTTP/1.1 431 "));
}

TEST_F(ServerTest, WhatIsNoRequest) {
  Start(Hello);
  for (const char* bytes :
       {"hello\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "\x16\x03\x01\x02\x01", "GET / HTTP/1.1\r\nA\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"}) {
    RawClient client(server_->port());
    client.Send(bytes);
    client.CloseWriting();
    const std::string answer = client.ReadToEnd();
    EXPECT_THAT(answer, testing::AnyOf("", StartsWith("HTTP/1.1 400 "))) << bytes;
  }
  EXPECT_EQ(client_.Call({.url = Url()})->status, 200);
}

TEST_F(ServerTest, SlowPeersAreEnded) {
  Start(Hello, {.header_limit = absl::Milliseconds(50),
                .body_limit = absl::Milliseconds(50),
                .idle_limit = absl::Milliseconds(50)});
  EXPECT_THAT(Exchange("GET / HTTP/1.1\r\nHost:"), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(Exchange("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab"), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(Exchange(""), "");  // idle: closed without a word
  // A byte now and then does not help: the limit is for the whole head.
  RawClient drip(server_->port());
  const absl::Duration start = RealClock().Monotonic();
  std::thread sender([&] {
    while (drip.Send("G") && RealClock().Monotonic() - start < absl::Seconds(20)) std::this_thread::yield();
  });
  drip.ReadToEnd();
  sender.join();
  EXPECT_LT(RealClock().Monotonic() - start, absl::Seconds(10));
}

TEST_F(ServerTest, ContinueIsSaidBeforeTheBody) {
  Start([&](const ServerRequest& request, ResponseWriter& writer) {
    EXPECT_TRUE(writer.Send(200, "text/plain", request.body).ok());
  });
  RawClient client(server_->port());
  client.Send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.Read(25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_THAT(client.ReadToEnd(), EndsWith("\r\n\r\nabc"));
}

TEST_F(ServerTest, TooManyConnections) {
  Start(Hello, {.max_connections = 2});
  RawClient first(server_->port()), second(server_->port());
  for (RawClient* client : {&first, &second}) {
    client->Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(client->ReadSome(), StartsWith("HTTP/1.1 200 "));
  }
  auto response = client_.Call({.url = Url()});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->Header("retry-after"), "1");
  first.CloseWriting();
  EXPECT_EQ(first.ReadToEnd(), "");
  // Its place is free once its thread has ended.
  do {
    response = client_.Call({.url = Url()});
    ASSERT_TRUE(response.ok()) << response.status();
  } while (response->status == 503);
  EXPECT_EQ(response->status, 200);
}

TEST_F(ServerTest, PeerGone) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> seen;
  Start([&](const ServerRequest& request, ResponseWriter& writer) {
    ASSERT_TRUE(writer.Begin(200, "text/plain").ok());
    EXPECT_FALSE(writer.PeerGone(absl::ZeroDuration()));
    ASSERT_TRUE(writer.Write("x").ok());
    EXPECT_TRUE(writer.PeerGone(absl::Minutes(1)));
    std::lock_guard lock(mutex);
    seen.push_back(request.path);
    changed.notify_all();
  });
  auto response = client_.Stream({.url = Url("/closed")}, [](std::string_view) { return false; });
  EXPECT_TRUE(response.ok()) << response.status();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return seen.size() == 1; });
  }
  // The server stops: said to the handler before its grace runs out.
  response = client_.Stream({.url = Url("/stopped")}, [&](std::string_view) {
    server_->Stop(absl::Minutes(1));
    return true;
  });
  EXPECT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(seen, (std::vector<std::string>{"/closed", "/stopped"}));
}

TEST_F(ServerTest, WriteFailsOnceThePeerIsGone) {
  std::atomic<bool> failed = false;
  Start([&](const ServerRequest&, ResponseWriter& writer) {
    ASSERT_TRUE(writer.Begin(200, "text/plain").ok());
    while (writer.Write(std::string(10000, 'x')).ok()) {
    }
    failed = true;
    failed.notify_all();
  });
  client_.Stream({.url = Url()}, [](std::string_view) { return false; }).IgnoreError();
  failed.wait(false);
}

TEST_F(ServerTest, StopCutsWhatDoesNotEnd) {
  Start([&](const ServerRequest&, ResponseWriter& writer) {
    ASSERT_TRUE(writer.Begin(200, "text/plain").ok());
    while (writer.Write(std::string(100000, 'x')).ok()) {  // the peer reads nothing
    }
  });
  RawClient stuck(server_->port()), idle(server_->port()), half(server_->port());
  stuck.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  half.Send("GET / HTTP/1.1\r\n");
  EXPECT_NE(stuck.ReadSome(), "");
  const absl::Duration start = RealClock().Monotonic();
  server_->Stop(absl::Milliseconds(50));
  server_->Stop();
  EXPECT_LT(RealClock().Monotonic() - start, absl::Seconds(10));
  server_.reset();
}

TEST_F(ServerTest, ManyAtOnceAndStopUnderLoad) {
  Start([](const ServerRequest&, ResponseWriter& writer) {
    writer.Send(200, "text/plain", "hello").IgnoreError();  // a request that comes as the server stops is cut
  });
  std::atomic<int> good = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Client client(TlsSettings{}, "", "test");
      while (!stop) {
        auto response = client.Call({.url = Url()});
        if (response.ok() && response->body == "hello" && ++good == 500) good.notify_all();
      }
    });
  }
  for (int have = good; have < 500; have = good) good.wait(have);
  server_->Stop();
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ServerTest, PortThatIsTaken) {
  Start(Hello);
  auto second = Server::Start({.port = server_->port()}, Hello);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_TRUE(absl::IsInvalidArgument(Server::Start({.address = "localhost"}, Hello).status()));
  const uint16_t port = server_->port();
  server_.reset();
  second = Server::Start({.port = port}, Hello);  // at once again
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST_F(ServerTest, TakeOver) {
  std::atomic<int> ended = 0;
  Start([&](const ServerRequest& request, ResponseWriter& writer) {
    auto duplex = writer.TakeOver({{"Upgrade", "shout"}});
    ASSERT_TRUE(duplex.ok()) << duplex.status();
    EXPECT_FALSE(writer.Send(200, "", "").ok());
    if (request.path == "/quiet") {
      EXPECT_TRUE(absl::IsDeadlineExceeded((*duplex)->Read(absl::Milliseconds(20)).status()));
      std::thread other([&] { (*duplex)->Close(); });
      EXPECT_TRUE(absl::IsCancelled((*duplex)->Read(absl::InfiniteDuration()).status()));
      other.join();
      EXPECT_FALSE((*duplex)->Write("x").ok());
    } else {
      for (;;) {
        absl::StatusOr<std::string> bytes = (*duplex)->Read(absl::InfiniteDuration());
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        if (bytes->empty()) break;
        for (char& c : *bytes) c = static_cast<char>(std::toupper(c));
        ASSERT_TRUE((*duplex)->Write(*bytes).ok());
      }
      ASSERT_TRUE((*duplex)->Write("bye").ok());
    }
    ++ended;
    ended.notify_all();
  });
  {
    RawClient client(server_->port());
    // The first bytes of the other protocol come right behind the request.
    client.Send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nfirst ");
    const std::string head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: shout\r\nConnection: Upgrade\r\n\r\n";
    EXPECT_EQ(client.Read(head.size() + 6), head + "FIRST ");
    client.Send("second");
    EXPECT_EQ(client.Read(6), "SECOND");
    client.CloseWriting();
    EXPECT_EQ(client.ReadToEnd(), "bye");
  }
  ended.wait(0);
  EXPECT_EQ(Exchange("GET /quiet HTTP/1.1\r\nHost: h\r\n\r\n").substr(0, 12), "HTTP/1.1 101");
  ended.wait(1);
}

// Reads and writes of two threads, large in both directions.
TEST_F(ServerTest, TakenOverBothWaysAtOnce) {
  constexpr size_t kSize = 8 << 20;
  std::atomic<size_t> received = 0;
  Start([&](const ServerRequest&, ResponseWriter& writer) {
    auto duplex = writer.TakeOver({{"Upgrade", "x"}});
    ASSERT_TRUE(duplex.ok());
    std::thread sender([&] {
      for (size_t sent = 0; sent < kSize; sent += 1 << 16) {
        ASSERT_TRUE((*duplex)->Write(std::string(1 << 16, 's')).ok());
      }
    });
    while (received < kSize) {
      absl::StatusOr<std::string> bytes = (*duplex)->Read(absl::Seconds(30));
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      received += bytes->size();
    }
    sender.join();
  });
  RawClient client(server_->port());
  client.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  std::thread sender([&] {
    for (size_t sent = 0; sent < kSize; sent += 1 << 16) EXPECT_TRUE(client.Send(std::string(1 << 16, 'c')));
  });
  const size_t got = client.ReadToEnd().size();
  sender.join();
  EXPECT_GT(got, kSize);
  EXPECT_EQ(received, kSize);
}

}  // namespace
}  // namespace tf::http
