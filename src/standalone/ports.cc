#include "standalone/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tf::standalone {
namespace {

// A socket that is bound to the port and listens; < 0 when the port is busy. 0: a port that the system chooses.
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

uint16_t PortOf(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
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
  std::vector<uint16_t> ports(wanted.size(), 0);
  for (const bool replace : {false, true}) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (ports[i] != 0 || (!replace && wanted[i] == 0)) continue;
      const int fd = Take(replace ? 0 : wanted[i]);
      if (fd >= 0) {
        taken.push_back(fd);
        ports[i] = PortOf(fd);
      } else if (replace) {
        return absl::ResourceExhaustedError(absl::StrCat("no free TCP port on 127.0.0.1: ", std::strerror(errno)));
      }
    }
  }
  return ports;
}

}  // namespace tf::standalone
