// One end of a TCP connection, plain or TLS, with all that a test wants to do wrong with it. Loopback only.
//
// One thread sends and receives; Shutdown may come from any other. Nothing here throws; a broken connection is `false`.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tf::testing {

class Wire {
 public:
  // Takes the descriptor of an accepted connection. With a context: TLS, from Handshake on.
  static std::unique_ptr<Wire> Accept(int fd, SSL_CTX* context);
  bool Handshake();
  static absl::StatusOr<std::unique_ptr<Wire>> Connect(uint16_t port, SSL_CTX* context);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  bool Send(std::string_view bytes);
  // At least one byte is appended to `buffer`; false: the end.
  bool Receive(std::string& buffer);

  // Waits until this one or `other` (may be null) has something to receive, its end included; the other is told by
  // `other_ready`. False: `limit` came first.
  bool Wait(absl::Duration limit, Wire* other = nullptr, bool* other_ready = nullptr);
  // Sends nothing until the peer is gone or Shutdown was called; false: `limit` came first.
  bool Hold(absl::Duration limit = absl::InfiniteDuration());
  // The peer has closed. Looks, and takes nothing.
  bool PeerGone() const;

  void Cut();       // at once: what the peer has not read yet may be lost (RST)
  void Close();     // in good order; without TLS's own goodbye, as servers do that die
  void Shutdown();  // ends what other threads do here

 private:
  Wire(int fd, SSL* ssl) : fd_(fd), ssl_(ssl) {}
  std::mutex mutex_;  // closing and Shutdown
  int fd_;
  SSL* ssl_;
};

// Contexts of the two ends, with a certificate to show. The client's may have none, and trusts anybody: what it talks
// to is a loopback port that the test itself has opened. Null when the PEM texts are none.
SSL_CTX* ServerContext(const std::string& certificate_pem, const std::string& key_pem);
SSL_CTX* ClientContext(const std::string& certificate_pem, const std::string& key_pem);

struct HttpHead {
  std::string first_line = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // names in lower case
  std::string_view Header(std::string_view name) const;           // "": none
};

// Reads up to the empty line; what follows stays in `buffer`. False: the end, or a head of more than 64 KiB.
bool ReadHead(Wire& wire, std::string& buffer, HttpHead& head);

// The body of a message piece by piece, by its Content-Length, its chunks, or to the end of the connection.
class BodyReader {
 public:
  BodyReader(const HttpHead& head, bool may_end_with_connection);
  // Takes from `buffer` what is there of the body.
  std::string Take(std::string& buffer);
  bool done() const { return done_; }

 private:
  bool chunked_ = false;
  bool to_the_end_ = false;
  bool done_ = false;
  uint64_t left_ = 0;         // of the body, or of the chunk
  bool after_chunk_ = false;  // its line end is to come
};

// "/api/v1/pods?watch=1" → path and decoded query.
struct Target {
  std::string path = {};
  std::map<std::string, std::string> query = {};
};
Target ParseTarget(std::string_view target);

}  // namespace tf::testing
