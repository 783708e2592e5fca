// HTTP/1.1 server with or without TLS: a handler per connection thread, answers whole or streamed, connections that are
// taken over for another protocol (WebSocket, SPDY). Over Boost.Beast; for tens of connections, not thousands: beyond
// max_connections a new one is answered 503 and closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "http/client.h"

namespace tf::http {

struct ServerRequest {
  std::string method = {};
  std::string target = {};                                      // as sent: path and query
  std::string path = {};                                        // decoded
  std::vector<std::pair<std::string, std::string>> query = {};  // decoded, in order
  Headers headers = {};                                         // names in lower case
  std::string body = {};
  std::string peer_address = {};              // "127.0.0.1:4711"
  std::string peer_common_name = {};          // of the client's verified certificate; "": it sent none
  std::vector<std::string> peer_groups = {};  // its organisations

  std::string_view Header(std::string_view name) const;  // lower-case name; "" when there is none
  std::string_view Query(std::string_view name) const;   // the first; "" when there is none
};

// Raw bytes of a connection that was taken over. One thread reads while another writes.
class Duplex {
 public:
  virtual ~Duplex() = default;
  // At least one byte; "" at the end of the stream; an error when it broke, was closed or `limit` ran out.
  virtual absl::StatusOr<std::string> Read(absl::Duration limit) = 0;
  virtual absl::Status Write(std::string_view bytes) = 0;
  virtual void Close() = 0;  // ends Read and Write of other threads; any thread
};

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  // A whole answer. Exactly one of Send, Begin and TakeOver is called; a handler that calls none answers 500.
  virtual absl::Status Send(int status, std::string_view content_type, std::string_view body,
                            const Headers& more = {}) = 0;

  // A streamed answer (chunked): Begin, then any number of Write, which reach the peer at once. It ends when the
  // handler returns.
  virtual absl::Status Begin(int status, std::string_view content_type, const Headers& more = {}) = 0;
  virtual absl::Status Write(std::string_view bytes) = 0;  // an error once the peer is gone
  // Blocks until the peer closes or the server stops: for handlers that wait for something else meanwhile, from another
  // thread.
  virtual bool PeerGone(absl::Duration wait) = 0;

  // Answers `101 Switching Protocols` with these headers and gives the bytes after it; valid until the handler returns.
  virtual absl::StatusOr<Duplex*> TakeOver(const Headers& headers) = 0;
};

using Handler = std::function<void(const ServerRequest&, ResponseWriter&)>;

struct ServerTls {
  std::string certificate_pem = {};  // with its chain
  std::string key_pem = {};
  std::string client_ca_pem = {};  // certificates of clients must lead to it; "": none is asked for
  bool client_required = false;
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: a free one
  // Asked at each new connection, so that a renewed certificate is used without a restart. None: plain HTTP.
  std::function<absl::StatusOr<ServerTls>()> tls = {};
  size_t max_body = 8 << 20;  // bytes; more is answered 413
  size_t max_connections = 512;
  absl::Duration header_limit = absl::Seconds(10);  // from the first byte of a request to the end of its head
  absl::Duration body_limit = absl::Seconds(30);
  absl::Duration idle_limit = absl::Minutes(3);
  std::string name = "http";  // of its threads
};

class Server {
 public:
  // Listens when it returns. AlreadyExists when the port is taken.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options, Handler handler);
  virtual ~Server() = default;  // Stop()

  virtual uint16_t port() const = 0;
  // Takes no new connection, gives running handlers `grace` to finish, then cuts them. Waits for all threads.
  virtual void Stop(absl::Duration grace = absl::Seconds(1)) = 0;
};

}  // namespace tf::http
