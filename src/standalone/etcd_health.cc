#include "standalone/etcd_health.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tf::standalone {

absl::Status AskEtcdHealth(const std::string& folder, const std::string& socket_name) {
  const auto unavailable = [&](const char* what) {
    return absl::UnavailableError(absl::StrCat(what, " ", socket_name, ": ", std::strerror(errno)));
  };
  // A socket's address holds about 100 bytes: the folder is named by a descriptor.
  const int folder_fd = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return unavailable("no folder of");
  absl::Cleanup close_folder = [folder_fd] { close(folder_fd); };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = absl::StrCat("/proc/self/fd/", folder_fd, "/", socket_name);
  if (path.size() >= sizeof(address.sun_path)) return absl::InvalidArgumentError("the socket's name is too long");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);

  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return unavailable("no socket for");
  absl::Cleanup close_fd = [fd] { close(fd); };
  const timeval limit{2, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return unavailable("not connected to");
  constexpr char kRequest[] = "GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n";
  if (send(fd, kRequest, sizeof(kRequest) - 1, MSG_NOSIGNAL) < 0) return unavailable("cannot write to");
  std::string answer;
  char buffer[4096];
  ssize_t got = 0;
  while (answer.size() < 65536 && (got = recv(fd, buffer, sizeof(buffer), 0)) > 0) answer.append(buffer, got);
  if (got < 0) return unavailable("no answer from");
  if (absl::StartsWith(answer, "HTTP/1.1 200 ") && absl::StrContains(answer, "\"health\":\"true\"")) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("etcd is not healthy yet");
}

}  // namespace tf::standalone
