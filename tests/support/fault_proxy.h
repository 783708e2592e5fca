// A proxy on loopback in front of an API server that does to its clients what networks and servers do.
//
// For each request a plan is asked what shall go wrong; an empty Fault passes all on as it is. It speaks to the server
// with a client certificate or token of its own, over a connection of its own for each request, so that a broken answer
// breaks nothing else. Memory: one request's body and answer (bounded, 64 MiB), of a watch one event; for stale lists
// the captures. What was done is counted. Plans are asked from the threads of the connections, one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "http/test_certificates.h"
#include "support/scripted_server.h"

namespace tf::testing {

// What goes wrong with one request. Counts of events are of events in a watch, bookmarks included; -1: not at all.
struct Fault {
  // Instead of asking the server:
  bool refuse = false;                                // the connection is cut
  int answer = 0;                                     // this HTTP status, with a Status object
  std::string reason = {};                            // of the Status object: "Expired", "TooManyRequests"
  absl::Duration retry_after = absl::ZeroDuration();  // as header, whole seconds
  bool stale = false;                                 // the first list of this path that was captured, once more
  // The server is asked and does it, but:
  bool lose_answer = false;                     // the connection is cut without a byte
  int64_t cut_after_bytes = -1;                 // of the body: cut there, wherever that is
  size_t piece = 0;                             // the body goes out in pieces of so many bytes; 0: as it comes
  absl::Duration pause = absl::ZeroDuration();  // after each piece
  // Of a watch:
  int64_t cut_after_events = -1;     // cut in the middle of the next event
  int64_t end_after_events = -1;     // ended in good order
  int64_t silent_after_events = -1;  // half-open: nothing comes any more, the connection stays
  int64_t error_after_events = -1;   // an ERROR event with error_code, then the end
  int error_code = 410;
  int duplicate_every = 0;  // each n-th event comes twice; 1: all do
  int replay_every = 0;     // after each n-th event, one from a little earlier comes again
};

struct FaultProxyOptions {
  uint16_t server_port = 0;  // on 127.0.0.1
  bool server_tls = true;
  http::TestPair identity = {};  // shown to the server; empty: none
  std::string token = {};        // sent to the server; "": none
  bool tls = false;              // what its own clients speak
  // Asked for each request. `nth`: among the requests of the same kind (method, path, watch or not), from 1.
  std::function<Fault(const ScriptedRequest& request, int nth)> plan = {};
  bool capture_lists = false;  // for Fault::stale: the first whole list of each path is kept
};

class FaultProxy {
 public:
  explicit FaultProxy(FaultProxyOptions options);
  ~FaultProxy();

  ScriptedServer& server() { return *server_; }
  std::string url() const { return server_->url(); }

  // How often each thing was done: "refuse", "answer 410", "stale", "lose", "cut", "end", "silent", "error 410",
  // "duplicate", "replay"; and what was asked: "watch", "get", "write".
  std::map<std::string, int64_t> counts() const;
  // From now on nothing goes wrong.
  void Calm() { calm_ = true; }

 private:
  void Serve(const ScriptedRequest& request, Answer& answer);
  void PassWhole(const ScriptedRequest& request, const Fault& fault, Answer& answer, Wire& upstream,
                 std::string& buffer, const HttpHead& head);
  void PassWatch(const Fault& fault, Answer& answer, Wire& upstream, std::string& buffer, const HttpHead& head);
  void Count(const std::string& what);

  FaultProxyOptions options_;
  SSL_CTX* context_ = nullptr;
  std::atomic<bool> calm_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, int> nth_;
  std::map<std::string, int64_t> counts_;
  std::map<std::string, std::string> captured_;
  std::unique_ptr<ScriptedServer> server_;  // last: its threads use the rest
};

}  // namespace tf::testing
