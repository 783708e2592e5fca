// Forwards the bytes of TCP connections on loopback until it is told to stop doing so: a network that is cut without
// anybody hearing of it. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace tf::testing {

class TcpRelay {
 public:
  explicit TcpRelay(uint16_t to_port);  // of 127.0.0.1
  ~TcpRelay();

  uint16_t port() const;
  // While it is cut, connections stay open and new ones seem to be made, but no byte passes. Afterwards the old ones
  // are reset: what was sent into the cut is lost.
  void Cut(bool cut);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tf::testing
