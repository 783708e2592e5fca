// The loop, addresses, network probes and the pool of threads.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "process_node/addresses.h"
#include "process_node/loop.h"
#include "process_node/prober.h"
#include "process_node/worker_pool.h"

namespace tf::process_node {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Loop, TimersInOrderAndCancelled) {
  Loop loop;
  std::vector<int> order;
  const absl::Duration now = Loop::Monotonic();
  loop.At(now + absl::Milliseconds(20), [&] {
    order.push_back(2);
    loop.Stop();
  });
  loop.At(now + absl::Milliseconds(1), [&] { order.push_back(1); });
  loop.Cancel(loop.At(now + absl::Milliseconds(2), [&] { order.push_back(9); }));
  loop.At(now - absl::Seconds(1), [&] { order.push_back(0); });
  loop.Run();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(Loop, DescriptorsAndOtherThreads) {
  Loop loop;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string got;
  loop.Watch(ends[0], EPOLLIN, [&](uint32_t) {
    char byte;
    ASSERT_EQ(read(ends[0], &byte, 1), 1);
    got += byte;
    if (got == "ab") {
      loop.Unwatch(ends[0]);
      loop.Stop();
    }
  });
  std::thread writer([&] { loop.Post([&] { ASSERT_EQ(write(ends[1], "ab", 2), 2); }); });
  loop.Run();
  writer.join();
  EXPECT_EQ(got, "ab");
  close(ends[0]);
  close(ends[1]);
}

TEST(WorkerPool, RunsAllAndStops) {
  Loop loop;
  std::atomic<int> ran = 0;
  {
    WorkerPool pool("test", 3);
    for (int i = 0; i < 100; ++i) {
      pool.Run([&] {
        if (++ran == 100) loop.Stop();
      });
    }
    loop.Run();
  }
  EXPECT_EQ(ran, 100);
}

TEST(AddressPool, BlocksAreNotShared) {
  absl::StatusOr<std::unique_ptr<AddressPool>> one = AddressPool::Claim(0), two = AddressPool::Claim(0);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE((*one)->octet(), (*two)->octet());
  const int octet = (*one)->octet();
  EXPECT_NE((*AddressPool::Claim(octet))->octet(), octet) << "it is held";
  one->reset();
  EXPECT_EQ((*AddressPool::Claim(octet))->octet(), octet) << "its last owner gets it again";
}

TEST(AddressPool, AddressesOfANode) {
  absl::StatusOr<std::unique_ptr<AddressPool>> pool = AddressPool::Claim(0);
  ASSERT_TRUE(pool.ok());
  std::set<std::string> taken;
  const std::string prefix = absl::StrCat("127.", (*pool)->octet(), ".");
  EXPECT_EQ((*pool)->Take(0), prefix + "0.1");
  EXPECT_EQ((*pool)->Take(3), prefix + "3.1");
  EXPECT_TRUE((*pool)->Keep(3, prefix + "3.7"));
  EXPECT_FALSE((*pool)->Keep(3, prefix + "3.7")) << "somebody has it";
  EXPECT_FALSE((*pool)->Keep(3, "10.0.0.1"));
  EXPECT_FALSE((*pool)->Keep(3, prefix + "0.9")) << "of another node";
  while (const std::optional<std::string> address = (*pool)->Take(3)) EXPECT_TRUE(taken.insert(*address).second);
  EXPECT_EQ(taken.size(), 248U);
  EXPECT_FALSE(taken.contains(prefix + "3.7"));
  (*pool)->Give(3, prefix + "3.7");
  (*pool)->Give(3, prefix + "3.7");
  EXPECT_EQ((*pool)->Take(3), prefix + "3.7");
  EXPECT_EQ((*pool)->Take(3), std::nullopt);
}

// Answers one connection with `answer` after the whole head of a request has come ("": at once and nothing).
class Peer {
 public:
  explicit Peer(std::string answer) : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, answer = std::move(answer)] {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      char buffer[1024];
      while (!answer.empty() && request_.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
        if (got <= 0) break;
        request_.append(buffer, static_cast<size_t>(got));
      }
      (void)!send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      if (answer.empty()) (void)!recv(fd, buffer, sizeof(buffer), 0);
      if (answer.empty()) (void)!recv(fd, buffer, sizeof(buffer), 0);
      close(fd);
    });
  }
  ~Peer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  int port() const { return port_; }
  const std::string& request() {
    thread_.join();
    thread_ = std::thread([] {});
    return request_;
  }

 private:
  int listener_;
  int port_ = 0;
  std::string request_;
  std::thread thread_;
};

std::pair<bool, std::string> Probe(Handler handler, absl::Duration timeout = absl::Seconds(20)) {
  Loop loop;
  std::pair<bool, std::string> result;
  ProbeNetwork(loop, handler, "127.0.0.1", timeout, [&](bool success, std::string message) {
    result = {success, std::move(message)};
    loop.Stop();
  });
  loop.Run();
  return result;
}

TEST(Prober, HttpStatus) {
  for (const auto& [answer, good] :
       {std::pair("HTTP/1.1 200 OK\r\n\r\n", true), std::pair("HTTP/1.1 302 Found\r\n\r\n", true),
        std::pair("HTTP/1.0 404 No\r\n\r\n", false), std::pair("HTTP/1.1 500 No\r\n\r\n", false),
        std::pair("hello\n", false)}) {
    Peer peer(answer);
    Handler handler{.kind = Handler::Kind::kHttp,
                    .port = peer.port(),
                    .path = "/healthz?x=1",
                    .headers = {{"X-A", "b"}, {"host", "h"}}};
    EXPECT_EQ(Probe(handler).first, good) << answer;
    EXPECT_THAT(peer.request(), testing::StartsWith("GET /healthz?x=1 HTTP/1.1\r\nHost: h\r\n"));
    EXPECT_THAT(peer.request(), HasSubstr("X-A: b\r\n"));
  }
}

TEST(Prober, Tcp) {
  int port = 0;
  {
    Peer peer("x");
    port = peer.port();
    EXPECT_TRUE(Probe({.kind = Handler::Kind::kTcp, .port = port}).first);
  }
  const auto [success, message] = Probe({.kind = Handler::Kind::kTcp, .port = port});
  EXPECT_FALSE(success);
  EXPECT_THAT(message, HasSubstr("onnection refused"));
  EXPECT_FALSE(Probe({.kind = Handler::Kind::kTcp, .port = 0}).first);
  EXPECT_THAT(Probe({.kind = Handler::Kind::kTcp, .host = "example.com", .port = 1}).second,
              HasSubstr("IPv4 addresses only"));
}

TEST(Prober, SilentPeer) {
  Peer peer("");
  const auto [success, message] = Probe({.kind = Handler::Kind::kHttp, .port = peer.port()}, absl::Milliseconds(50));
  EXPECT_FALSE(success);
  EXPECT_THAT(message, HasSubstr("no answer"));
}

}  // namespace
}  // namespace tf::process_node
