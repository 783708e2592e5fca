#include "link/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "link/stream.h"

namespace tf::link {
namespace {

void SetOption(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof(value)); }

}  // namespace

uint16_t SocketAddress::port() const {
  if (storage.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return 0;
}

absl::StatusOr<SocketAddress> TcpAddress(const std::string& ip, uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof(*v4);
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.size = sizeof(*v6);
    return address;
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", ip, "\" is not an IPv4 or IPv6 address"));
}

std::string SocketPath(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, "/", name, ".sock");
}

absl::StatusOr<SocketAddress> UnixAddress(const std::string& path) {
  SocketAddress address;
  auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.size() >= sizeof(local->sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("the path of the worker's socket is too long: ", path, " has ",
                                                   path.size(), " bytes, at most ", sizeof(local->sun_path) - 1));
  }
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path, path.c_str(), path.size() + 1);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

std::string Describe(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr, text, sizeof(text));
    return absl::StrCat(text, ":", address.port());
  }
  if (address.storage.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr, text, sizeof(text));
    return absl::StrCat("[", text, "]:", address.port());
  }
  return "unknown address";
}

absl::StatusOr<Fd> NewSocket(int family) {
  Fd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return absl::InternalError(absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  return fd;
}

int ConnectUntil(int fd, const SocketAddress& address, Deadline deadline) {
  for (;;) {
    if (connect(fd, address.get(), address.size) == 0) return 0;
    if (errno == EINPROGRESS) break;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno;
    // A Unix socket whose queue of newcomers is full; there is nothing to poll for.
    if (std::chrono::steady_clock::now() >= deadline) return ETIMEDOUT;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!PollUntil(fd, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

void TuneTcp(int fd, bool control) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 2);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (control) SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
}

absl::StatusOr<PeerCredentials> CheckPeerCredentials(int fd, const std::string& path) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return absl::InternalError(absl::StrCat("cannot tell who is at ", path, ": ", std::strerror(errno)));
  }
  if (credentials.uid != geteuid() && credentials.uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat("the process at the other end of ", path, " runs as user ",
                                                    credentials.uid, "; only user ", geteuid(), " and root may"));
  }
  return PeerCredentials{credentials.pid, credentials.uid};
}

}  // namespace tf::link
