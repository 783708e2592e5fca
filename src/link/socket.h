// Making, naming and describing the sockets of a link. All are non-blocking and closed on exec.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "absl/status/statusor.h"
#include "link/connection_string.h"
#include "link/fd.h"
#include "link/frame.h"

namespace tf::link {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  uint16_t port() const;
};

// `ip` valid, of either family.
absl::StatusOr<SocketAddress> TcpAddress(const std::string& ip, uint16_t port);
// <folder>/<name>.sock
std::string SocketPath(const std::string& folder, const std::string& name);
absl::StatusOr<SocketAddress> UnixAddress(const std::string& path);
std::string Describe(const SocketAddress& address);

absl::StatusOr<Fd> NewSocket(int family);

// 0, or the error of connect(2); ETIMEDOUT when the deadline passed.
int ConnectUntil(int fd, const SocketAddress& address, Deadline deadline);

// No delay; a vanished machine is noticed within seconds. On the control socket unacknowledged data ends the connection
// after 5 s. Not on the data socket: there the system would also count the time in which a busy peer takes nothing.
void TuneTcp(int fd, bool control);

struct PeerCredentials {
  pid_t pid;
  uid_t uid;
};
// Of a connected Unix socket. PERMISSION_DENIED unless the peer runs as this user or as root.
absl::StatusOr<PeerCredentials> CheckPeerCredentials(int fd, const std::string& path);

}  // namespace tf::link
