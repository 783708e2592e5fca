// A non-blocking byte stream: a TCP socket, a TCP socket under TLS, or a Unix socket that also carries descriptors.
//
// Threads: one reader and one writer at a time; they do not disturb one another. Shutdown from any thread.
#pragma once

#include <sys/uio.h>

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "link/fd.h"
#include "link/frame.h"
#include "link/tls.h"

namespace tf::link {

class Stream {
 public:
  enum class Kind { kTcp, kUnix };
  enum class Outcome { kDone, kAgain, kClosed };
  struct Result {
    Outcome outcome;
    size_t size = 0;       // kDone: bytes moved, at least 1
    short events = 0;      // kAgain: what to poll for
    std::string why = {};  // kClosed
  };

  Stream(Fd fd, Kind kind) : fd_(std::move(fd)), kind_(kind) {}
  Stream(Fd fd, std::shared_ptr<TlsContext> context, SslPtr ssl)
      : fd_(std::move(fd)), kind_(Kind::kTcp), context_(std::move(context)), ssl_(std::move(ssl)) {}

  // One step of the TLS handshake; kDone at its end, or when there is no TLS.
  Result Handshake();
  Result Read(std::span<std::byte> to);
  // `pieces` are not empty. Descriptors go with the first byte written.
  Result Write(std::span<const iovec> pieces, std::span<const int> fds = {});
  void Shutdown();

  int fd() const { return fd_.get(); }
  Kind kind() const { return kind_; }
  bool encrypted() const { return ssl_ != nullptr; }
  // Descriptors received and not yet taken, in order. The reader's.
  std::deque<Fd>& received_fds() { return received_fds_; }

 private:
  Result TlsResult(int code);  // under tls_lock_

  Fd fd_;
  const Kind kind_;
  std::deque<Fd> received_fds_;
  std::mutex tls_lock_;  // OpenSSL wants one thread at a time; never held while waiting
  std::shared_ptr<TlsContext> context_;
  SslPtr ssl_;
};

// Waits until the socket has one of `events` (or has failed); false when the deadline passed.
bool PollUntil(int fd, short events, Deadline deadline);

}  // namespace tf::link
