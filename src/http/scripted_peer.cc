#include "http/scripted_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tf::http {

ScriptedConnection::ScriptedConnection(int fd, ScriptedPeer& peer) : fd_(fd), peer_(peer) {
  std::lock_guard lock(peer_.mutex_);
  peer_.current_ = fd;
  if (peer_.stopped_) shutdown(fd, SHUT_RDWR);
}

ScriptedConnection::~ScriptedConnection() { Close(); }

void ScriptedConnection::Close() {
  std::lock_guard lock(peer_.mutex_);
  peer_.current_ = -1;
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string ScriptedConnection::ReadRequest() {
  for (;;) {
    const size_t head = received_.find("\r\n\r\n");
    if (head != std::string::npos) {
      const std::string lower = absl::AsciiStrToLower(received_.substr(0, head));
      const size_t length = lower.find("\r\ncontent-length:");
      const size_t body = length == std::string::npos ? 0 : std::strtoul(lower.c_str() + length + 17, nullptr, 10);
      if (received_.size() >= head + 4 + body) {
        std::string request = received_.substr(0, head + 4 + body);
        received_.erase(0, request.size());
        return request;
      }
    }
    char bytes[65536];
    const ssize_t count = recv(fd_, bytes, sizeof bytes, 0);
    if (count <= 0) return "";
    received_.append(bytes, static_cast<size_t>(count));
  }
}

bool ScriptedConnection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool ScriptedConnection::Answer(int status, std::string_view body, std::string_view more_headers) {
  return Send(absl::StrCat("HTTP/1.1 ", status, " Scripted\r\nContent-Length: ", body.size(), "\r\n",
                           std::string(more_headers), "\r\n", std::string(body)));
}

void ScriptedConnection::AwaitClose() {
  char bytes[4096];
  while (recv(fd_, bytes, sizeof bytes, 0) > 0) {
  }
}

void ScriptedConnection::Reset() {
  const linger now{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  Close();
}

ScriptedPeer::ScriptedPeer(std::function<void(int, ScriptedConnection&)> script)
    : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), stop_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this, script = std::move(script)] {
    for (int number = 0;; ++number) {
      pollfd waited[] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
      poll(waited, 2, -1);
      if (waited[1].revents != 0) return;
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ScriptedConnection connection(fd, *this);
      script(number, connection);
    }
  });
}

ScriptedPeer::~ScriptedPeer() {
  eventfd_write(stop_, 1);
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    if (current_ >= 0) shutdown(current_, SHUT_RDWR);
  }
  thread_.join();
  close(listener_);
  close(stop_);
}

std::string ScriptedPeer::url(std::string_view path) const {
  return absl::StrCat("http://127.0.0.1:", port_, std::string(path));
}

}  // namespace tf::http
