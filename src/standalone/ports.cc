#include "standalone/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/random/random.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"

namespace tf::standalone {
namespace {

// A socket that is bound to the port and listens; < 0 when the port is busy.
int Take(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  // As the parts do: connections of yesterday that linger do not make a port busy.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 && listen(fd, 1) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

constexpr uint32_t kLowest = 10000;

// One above the highest port that is no outgoing connection's.
uint32_t End() {
  uint32_t first = 0;
  const std::string range = ReadFile("/proc/sys/net/ipv4/ip_local_port_range", 256).value_or("");
  const std::vector<std::string> words = absl::StrSplit(range, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  if (words.empty() || !absl::SimpleAtoi(words[0], &first) || first > 65535) first = 32768;
  return first >= kLowest + 1000 ? first : 65536;  // where nothing is left for us, anything goes
}

}  // namespace

bool IsPortFree(uint16_t port) {
  const int fd = Take(port);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

absl::StatusOr<std::vector<uint16_t>> ChoosePorts(const std::vector<uint16_t>& wanted) {
  // All are held until all are chosen: that makes them different.
  std::vector<int> taken;
  absl::Cleanup release = [&] {
    for (int fd : taken) close(fd);
  };
  const auto take = [&](uint16_t port) {
    const int fd = Take(port);
    if (fd >= 0) taken.push_back(fd);
    return fd >= 0;
  };
  std::vector<uint16_t> ports;
  for (const uint16_t port : wanted) ports.push_back(port != 0 && take(port) ? port : 0);
  // From a place of chance on: clusters that start at the same time do not meet.
  const uint32_t end = End();
  const uint32_t count = end - kLowest;
  uint32_t next = absl::Uniform<uint32_t>(absl::BitGen(), 0, count);
  uint32_t tried = 0;
  for (uint16_t& port : ports) {
    while (port == 0) {
      if (tried++ == count) {
        return absl::ResourceExhaustedError(
            absl::StrCat("no free TCP port on 127.0.0.1 between ", kLowest, " and ", end - 1));
      }
      const uint16_t candidate = static_cast<uint16_t>(kLowest + next);
      next = (next + 1) % count;
      if (take(candidate)) port = candidate;
    }
  }
  return ports;
}

}  // namespace tf::standalone
