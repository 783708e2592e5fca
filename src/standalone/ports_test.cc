#include "standalone/ports.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

namespace tf::standalone {
namespace {

// Listens on a port of 127.0.0.1 as long as it lives.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(fd_); }
  uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
};

TEST(Ports, ChosenOnesAreFreeAndDifferent) {
  const auto ports = ChoosePorts(std::vector<uint16_t>(20, 0));
  ASSERT_TRUE(ports.ok()) << ports.status();
  EXPECT_EQ(std::set<uint16_t>(ports->begin(), ports->end()).size(), 20u);
  EXPECT_EQ(std::count(ports->begin(), ports->end(), 0), 0);
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  ASSERT_TRUE(range >> first);
  for (const uint16_t port : *ports) EXPECT_LT(port, first) << "an outgoing connection could take it";
}

TEST(Ports, KeepsTheWantedAndReplacesTheBusy) {
  const auto first = ChoosePorts({0, 0});
  ASSERT_TRUE(first.ok()) << first.status();
  const Listener taken;
  EXPECT_FALSE(IsPortFree(taken.port()));
  const auto second = ChoosePorts({first->at(0), taken.port(), first->at(1), 0});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->at(0), first->at(0));
  EXPECT_NE(second->at(1), taken.port());
  EXPECT_EQ(second->at(2), first->at(1));
  EXPECT_EQ(std::set<uint16_t>(second->begin(), second->end()).size(), 4u);
}

TEST(Ports, TheSameWantedTwiceIsGivenOnce) {
  const auto first = ChoosePorts({0});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = ChoosePorts({first->at(0), first->at(0)});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->at(0), first->at(0));
  EXPECT_NE(second->at(1), first->at(0));
}

}  // namespace
}  // namespace tf::standalone
