// HTTP client: blocking calls with time limits, a streamed answer, and cancellation, over libcurl (HTTP/1.1, TLS,
// proxies).
//
// Thread-safe: calls of several threads run side by side on connections of their own, and idle connections are kept for
// the next call. Errors: Cancelled; DeadlineExceeded (which limit, how long); Unavailable (not connected, reset, cut in
// the middle of an answer); Unauthenticated (the server's certificate is not trusted, or ours was refused);
// InvalidArgument (a URL or header that cannot be sent); ResourceExhausted (the answer is over its limit). An answer of
// any HTTP status is no error here, and redirections are not followed.
//
// A GET, HEAD or OPTIONS on a kept connection that the server closed meanwhile is sent once more on a fresh one. No
// other request is ever sent twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "http/cancel.h"

namespace tf::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

// How a server is met. PEM texts, not paths: whoever re-reads files makes new settings from them.
struct TlsSettings {
  std::string ca_pem = {};           // what the server's certificate must lead to; "": the system's certificates
  std::string certificate_pem = {};  // ours, with its chain; "": none
  std::string key_pem = {};
  std::string server_name = {};  // expected in the certificate and sent as SNI; "": the host of the URL
  bool insecure = false;         // no verification at all
};

struct ClientRequest {
  std::string method = "GET";
  std::string url = {};
  Headers headers = {};
  std::string body = {};

  absl::Duration connect_limit = absl::Seconds(10);      // connection and TLS handshake
  absl::Duration total_limit = absl::Seconds(30);        // to the end of the answer; InfiniteDuration: none
  absl::Duration head_limit = absl::InfiniteDuration();  // to the end of the answer's head
  // For streams: no byte for so long and the stream is dead (DeadlineExceeded).
  absl::Duration silence_limit = absl::InfiniteDuration();
  size_t max_body = 256 << 20;  // bytes of an answer that is collected

  // Do not reuse an idle connection: what was cut may look alive for minutes.
  bool fresh_connection = false;
};

struct ClientResponse {
  int status = 0;
  Headers headers = {};  // names in lower case
  std::string body = {};

  // The first header of this (lower-case) name; "" when there is none.
  std::string_view Header(std::string_view name) const;
};

class Client {
 public:
  Client(TlsSettings tls, std::string proxy_url, std::string user_agent);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Calls from now on use these; idle connections made with others are closed.
  void SetTls(TlsSettings tls);

  absl::StatusOr<ClientResponse> Call(const ClientRequest& request, Cancel* cancel = nullptr);

  // As Call, but a 2xx body is handed to `sink` piece by piece on this thread, and is not in the response. `sink`
  // returns false to end the stream: that is OK, not an error. What `sink` throws ends the stream and is thrown on. A
  // body of any other status is collected as by Call.
  absl::StatusOr<ClientResponse> Stream(const ClientRequest& request, const std::function<bool(std::string_view)>& sink,
                                        Cancel* cancel = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tf::http
