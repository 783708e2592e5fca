// A link between a client process and a worker. It has two ordered duplex channels:
//
//   data     commands one way, replies the other; throughput and latency matter
//   control  small asynchronous messages both ways (callbacks, acknowledgements, pushes, heartbeats); a background
//            thread sits in its Receive, see control_loop.h
//
// Over TCP these are two sockets; over shared memory data is a pair of rings and control is a Unix socket, whose
// closing tells of the peer's death. The interface is the same. The link lives in foreign processes: it raises no
// signals, installs no handlers, marks all descriptors close-on-exec, and holds no global state. After a fork the
// child's copy is dead: each call returns UNAVAILABLE and nothing that the child does (exit included) touches the
// parent's link.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "link/channel.h"
#include "link/connection_string.h"
#include "link/key.h"

namespace tf::link {

// What the other side said and what the system vouches for.
struct Peer {
  ConnectionString::Kind kind = ConnectionString::Kind::kNative;
  std::string program_version;
  std::string text;        // free-form part of the hello
  std::string address;     // "127.0.0.1:40022", "[::1]:40022", or the socket's path
  bool encrypted = false;  // TLS with the link key
  pid_t pid = 0;           // shared memory only, from the kernel
  uid_t uid = 0;           // likewise
};

// Waiting: spin this long for the peer, then sleep in the kernel. On a machine with one core nothing spins.
inline constexpr absl::Duration kDefaultSpin = absl::Microseconds(20);

class Connection {
 public:
  virtual ~Connection() = default;  // closes; the peer notices at once

  virtual Channel& data() = 0;
  virtual Channel& control() = 0;
  virtual const Peer& peer() const = 0;

  // Ends the link now and wakes everybody who waits in it; pending and later calls return UNAVAILABLE with the text of
  // `why`. From any thread, any number of times; the first reason stays.
  virtual void Shutdown(absl::Status why) = 0;
  // The other side is gone: as Shutdown, but frames that have arrived can still be received.
  virtual void PeerGone(absl::Status why) = 0;
  // OK while the link is up, else why it is not.
  virtual absl::Status status() const = 0;
  // True in a process forked from the one that made the connection. Costs one load.
  virtual bool InForkedChild() const = 0;

  bool same_machine() const { return peer().kind == ConnectionString::Kind::kShmem; }
};

struct ConnectOptions {
  uint64_t protocol_hash = 0;       // both sides must have the same
  std::string program_version;      // for messages, and for the worker to see
  std::string text;                 // free-form, at most kMaxHelloText bytes; the worker's admit() sees it
  std::optional<LinkKey> key;       // TLS with this key. An address that is not loopback needs it...
  bool insecure = false;            // ...unless this is set
  std::string folder = "/dev/shm";  // where shared-memory workers have their sockets
  absl::Duration timeout = absl::Seconds(5);
  absl::Duration spin = kDefaultSpin;
};

inline constexpr size_t kMaxHelloText = 2048;

// Connects and shakes hands. UNAVAILABLE: nobody there (or no answer in time); FAILED_PRECONDITION: refused, with the
// worker's words (version mismatch names both versions); PERMISSION_DENIED: wrong key, or a socket of another user.
absl::StatusOr<std::unique_ptr<Connection>> Connect(const ConnectionString& where, const ConnectOptions& options);

}  // namespace tf::link
