// The worker's end: listens on TCP or on a Unix socket for shared memory, shakes hands, and hands out connections.
//
// Hellos are processed inside Accept, many at once, none of them trusted: a hello must be complete within 5 s, there
// are at most max_pending unfinished ones (the oldest goes first), and a bad one ends that connection only. Before a
// valid hello (with TLS: before the peer has proved that it knows the key) nothing is allocated beyond a few KiB.
//
// Threads: one in Accept; Shutdown from any.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "link/connection.h"

namespace tf::link {

struct ListenOptions {
  uint64_t protocol_hash = 0;
  std::string program_version;
  // Decides about a client whose protocol fits: the free-form text of the answer, or a refusal whose message the client
  // gets to see. Runs in Accept; absent = everybody, no text.
  std::function<absl::StatusOr<std::string>(const Peer&)> admit;
  // Told of every hello that came to nothing, one line. Runs in Accept.
  std::function<void(const std::string&)> on_refused;
  std::optional<LinkKey> key;  // TLS with this key. An address that is not loopback needs it...
  bool insecure = false;       // ...unless this is set
  std::string folder = "/dev/shm";
  absl::Duration hello_timeout = absl::Seconds(5);
  size_t max_pending = 64;
  absl::Duration spin = kDefaultSpin;  // for the connections
};

class Listener {
 public:
  virtual ~Listener() = default;  // removes the socket file

  // The next client. CANCELLED after Shutdown; DEADLINE_EXCEEDED.
  virtual absl::StatusOr<std::unique_ptr<Connection>> Accept(Deadline deadline = kForever) = 0;
  virtual void Shutdown() = 0;
  // Where clients connect: `where` of Listen with the port that the system chose.
  virtual const ConnectionString& address() const = 0;
};

// A busy port or a name in use by a living worker: ALREADY_EXISTS. The socket file of a dead worker is replaced.
absl::StatusOr<std::unique_ptr<Listener>> Listen(const ConnectionString& where, const ListenOptions& options);

}  // namespace tf::link
