#include "process_node/addresses.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace tf::process_node {
namespace {

constexpr int kFirstOctet = 2, kLastOctet = 254;  // 127.0 and 127.1 are for people
constexpr int kPodsPerNode = 250;

// The socket that holds the claim; -1: somebody else has it.
int ClaimOctet(int octet) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "tensor-fusion/pod-addresses/127.%d", octet);
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AddressPool>> AddressPool::Claim(int preferred) {
  if (preferred >= kFirstOctet && preferred <= kLastOctet) {
    if (const int fd = ClaimOctet(preferred); fd >= 0)
      return std::unique_ptr<AddressPool>(new AddressPool(preferred, fd));
  }
  const int count = kLastOctet - kFirstOctet + 1;
  for (int i = 0; i < count; ++i) {
    const int octet = kFirstOctet + (static_cast<int>(getpid()) + i) % count;
    if (const int fd = ClaimOctet(octet); fd >= 0) return std::unique_ptr<AddressPool>(new AddressPool(octet, fd));
  }
  return absl::ResourceExhaustedError("every block of loopback addresses (127.2 to 127.254) belongs to another agent");
}

AddressPool::~AddressPool() { close(socket_); }

AddressPool::Node& AddressPool::At(int node) {
  Node& at = nodes_[node];
  if (!at.filled) {
    at.filled = true;
    for (int pod = 1; pod <= kPodsPerNode; ++pod) at.free.push_back(pod);
  }
  return at;
}

std::optional<std::string> AddressPool::Take(int node) {
  Node& at = At(node);
  if (at.free.empty()) return std::nullopt;
  std::string address = absl::StrCat("127.", octet_, ".", node, ".", at.free.front());
  at.free.pop_front();
  at.used.insert(address);
  return address;
}

bool AddressPool::Keep(int node, const std::string& address) {
  Node& at = At(node);
  const std::string prefix = absl::StrCat("127.", octet_, ".", node, ".");
  if (address.rfind(prefix, 0) != 0) return false;
  const auto pod = std::find(at.free.begin(), at.free.end(), std::atoi(address.c_str() + prefix.size()));
  if (pod == at.free.end()) return false;
  at.free.erase(pod);
  at.used.insert(address);
  return true;
}

void AddressPool::Give(int node, const std::string& address) {
  Node& at = At(node);
  if (at.used.erase(address) > 0) at.free.push_back(std::atoi(address.c_str() + address.rfind('.') + 1));
}

}  // namespace tf::process_node
