#include "link/stream.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tf::link {
namespace {

using Outcome = Stream::Outcome;

// More than a peer of ours ever has on its way; a hostile one shall not fill the table of descriptors.
constexpr size_t kMaxReceivedFds = 4 * kMaxFds;

Stream::Result Closed(std::string why) { return {.outcome = Outcome::kClosed, .why = std::move(why)}; }

Stream::Result SystemFailed(const char* what, short events) {
  const int error = errno;
  if (error == EAGAIN || error == EINTR) return {.outcome = Outcome::kAgain, .events = events};
  if (error == EPIPE || error == ECONNRESET) return Closed("the other side closed the link or died");
  return Closed(absl::StrCat("the link failed to ", what, ": ", std::strerror(error)));
}

}  // namespace

bool PollUntil(int fd, short events, Deadline deadline) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  for (;;) {
    int timeout = -1;
    if (deadline != kForever) {
      const Deadline now = std::chrono::steady_clock::now();
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(deadline, now) - now);
      timeout = static_cast<int>(std::min<int64_t>(left.count(), 60'000));
    }
    const int ready = poll(&entry, 1, timeout);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the next operation meets the same error and names it
    if (deadline != kForever && std::chrono::steady_clock::now() >= deadline) return false;
  }
}

Stream::Result Stream::TlsResult(int code) {
  switch (SSL_get_error(ssl_.get(), code)) {
    case SSL_ERROR_WANT_READ:
      return {.outcome = Outcome::kAgain, .events = POLLIN};
    case SSL_ERROR_WANT_WRITE:
      return {.outcome = Outcome::kAgain, .events = POLLOUT};
    case SSL_ERROR_ZERO_RETURN:
    case SSL_ERROR_SYSCALL:
      return Closed("the other side closed the link or died");
    default: {
      const char* reason = ERR_reason_error_string(ERR_peek_error());
      return Closed(absl::StrCat("TLS: ", reason != nullptr ? reason : "unknown error"));
    }
  }
}

Stream::Result Stream::Handshake() {
  if (ssl_ == nullptr) return {.outcome = Outcome::kDone};
  std::lock_guard lock(tls_lock_);
  ERR_clear_error();
  const int code = SSL_do_handshake(ssl_.get());
  if (code != 1) {
    Result result = TlsResult(code);
    ERR_clear_error();
    return result;
  }
  if (SSL_session_reused(ssl_.get()) != 1) return Closed("TLS: the other side did not use the link key");
  return {.outcome = Outcome::kDone};
}

Stream::Result Stream::Read(std::span<std::byte> to) {
  if (ssl_ != nullptr) {
    std::lock_guard lock(tls_lock_);
    ERR_clear_error();
    size_t got = 0;
    const int code = SSL_read_ex(ssl_.get(), to.data(), to.size(), &got);
    if (code == 1) return {.outcome = Outcome::kDone, .size = got};
    Result result = TlsResult(code);
    ERR_clear_error();
    return result;
  }
  if (kind_ == Kind::kTcp) {
    const ssize_t got = recv(fd_.get(), to.data(), to.size(), MSG_DONTWAIT);
    if (got < 0) return SystemFailed("receive", POLLIN);
    if (got == 0) return Closed("the other side closed the link or died");
    return {.outcome = Outcome::kDone, .size = static_cast<size_t>(got)};
  }
  iovec piece{.iov_base = to.data(), .iov_len = to.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return SystemFailed("receive", POLLIN);
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof(int));
      received_fds_.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0 || received_fds_.size() > kMaxReceivedFds) {
    received_fds_.clear();
    return Closed("the other side sent more descriptors than the link permits (or this process has too many open)");
  }
  if (got == 0) return Closed("the other side closed the link or died");
  return {.outcome = Outcome::kDone, .size = static_cast<size_t>(got)};
}

Stream::Result Stream::Write(std::span<const iovec> pieces, std::span<const int> fds) {
  if (ssl_ != nullptr) {
    std::lock_guard lock(tls_lock_);
    ERR_clear_error();
    size_t sent = 0;
    const int code = SSL_write_ex(ssl_.get(), pieces[0].iov_base, pieces[0].iov_len, &sent);
    if (code == 1) return {.outcome = Outcome::kDone, .size = sent};
    Result result = TlsResult(code);
    ERR_clear_error();
    return result;
  }
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(item), fds.data(), fds.size_bytes());
  }
  const ssize_t sent = sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return SystemFailed("send", POLLOUT);
  return {.outcome = Outcome::kDone, .size = static_cast<size_t>(sent)};
}

void Stream::Shutdown() { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace tf::link
