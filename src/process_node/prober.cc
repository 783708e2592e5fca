#include "process_node/prober.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tf::process_node {
namespace {

class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(Loop& loop, ProbeDone done) : loop_(loop), done_(std::move(done)) {}

  void Begin(const Handler& handler, const std::string& address, absl::Duration timeout) {
    const std::string host = handler.host.empty() ? address : handler.host;
    target_ = absl::StrCat(host, ":", handler.port);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(handler.port));
    if (handler.port <= 0 || handler.port > 65535) return Later("the probe's port is not among the container's ports");
    if (inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &to.sin_addr) != 1) {
      return Later(absl::StrCat("process nodes probe IPv4 addresses only, not \"", host, "\""));
    }
    if (handler.kind == Handler::Kind::kHttp) {
      url_ = absl::StrCat("http://", target_, handler.path);
      request_ = absl::StrCat("GET ", handler.path, " HTTP/1.1\r\n");
      std::string host_header = target_, more;
      bool agent = false;
      for (const auto& [name, value] : handler.headers) {
        if (strcasecmp(name.c_str(), "host") == 0) {
          host_header = value;
          continue;
        }
        agent = agent || strcasecmp(name.c_str(), "user-agent") == 0;
        absl::StrAppend(&more, name, ": ", value, "\r\n");
      }
      absl::StrAppend(&request_, "Host: ", host_header, "\r\n", agent ? "" : "User-Agent: kube-probe/1.36\r\n", more,
                      "Accept: */*\r\nConnection: close\r\n\r\n");
    }
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return Later(absl::StrCat("socket: ", std::strerror(errno)));
    if (connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0 && errno != EINPROGRESS) {
      return Later(absl::StrCat("dial tcp ", target_, ": connect: ", std::strerror(errno)));
    }
    auto self = shared_from_this();
    timer_ = loop_.At(Loop::Monotonic() + timeout, [self] {
      self->timer_ = 0;
      self->Finish(false, absl::StrCat(self->connected_ ? "no answer from " : "cannot connect to ", self->target_,
                                       " within the probe's timeout"));
    });
    loop_.Watch(fd_, EPOLLOUT, [self](uint32_t) { self->Ready(); });
  }

 private:
  void Later(std::string message) {
    auto self = shared_from_this();
    loop_.Post([self, message = std::move(message)] { self->Finish(false, message); });
  }

  void Ready() {
    if (!connected_) {
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return Finish(false, absl::StrCat("dial tcp ", target_, ": connect: ", std::strerror(error)));
      connected_ = true;
      if (request_.empty()) return Finish(true, "");
    }
    while (sent_ < request_.size()) {
      const ssize_t sent = send(fd_, request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) return;
      if (sent < 0) return Finish(false, absl::StrCat("Get \"", url_, "\": ", std::strerror(errno)));
      sent_ += static_cast<size_t>(sent);
      if (sent_ == request_.size()) {
        auto self = shared_from_this();
        loop_.Watch(fd_, EPOLLIN, [self](uint32_t) { self->Ready(); });
        return;
      }
    }
    char buffer[512];
    const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return Finish(false, absl::StrCat("Get \"", url_, "\": ", got == 0 ? "EOF" : std::strerror(errno)));
    head_.append(buffer, static_cast<size_t>(got));
    // "HTTP/1.1 200"
    if (head_.size() < 12 && head_.find('\n') == std::string::npos) return;
    const size_t space = head_.find(' ');
    const int status =
        head_.rfind("HTTP/", 0) == 0 && space != std::string::npos ? std::atoi(head_.c_str() + space + 1) : 0;
    if (status == 0) return Finish(false, absl::StrCat("Get \"", url_, "\": the answer is no HTTP"));
    Finish(status >= 200 && status < 400, absl::StrCat("HTTP probe failed with statuscode: ", status));
  }

  void Finish(bool success, std::string message) {
    if (done_ == nullptr) return;
    if (timer_ != 0) loop_.Cancel(timer_);
    if (fd_ >= 0) {
      loop_.Unwatch(fd_);
      // No TIME_WAIT for each probe.
      const linger now{1, 0};
      setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
      close(fd_);
      fd_ = -1;
    }
    std::exchange(done_, nullptr)(success, std::move(message));
  }

  Loop& loop_;
  ProbeDone done_;
  std::string target_, url_, request_, head_;
  size_t sent_ = 0;
  bool connected_ = false;
  int fd_ = -1;
  uint64_t timer_ = 0;
};

}  // namespace

void ProbeNetwork(Loop& loop, const Handler& handler, const std::string& address, absl::Duration timeout,
                  ProbeDone done) {
  std::make_shared<Attempt>(loop, std::move(done))->Begin(handler, address, timeout);
}

}  // namespace tf::process_node
