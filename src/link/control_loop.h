// Runs the control channel of a connection: one thread receives and dispatches, sends heartbeats, and ends the
// connection when the peer is lost (Connection::Shutdown) or has closed (Connection::PeerGone).
//
//   ControlLoop loop(connection, {}, [](Frame& frame) { ... }, [](const absl::Status& why) { ... });
//   loop.Send({.op = kOpAck}, {payload});       // any thread
//
// `on_frame` and `on_lost` run on the loop's thread. on_frame must not block: no heartbeats go out while it runs, and
// what it waits for may have to come through it. on_lost is called once, last; not when the loop is destroyed first.
// The connection must outlive the loop. Destroying the loop stops the thread and leaves the connection as it is.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "link/connection.h"
#include "link/heartbeat.h"

namespace tf::link {

class ControlLoop {
 public:
  ControlLoop(Connection& connection, const HeartbeatOptions& options, std::function<void(Frame&)> on_frame,
              std::function<void(const absl::Status&)> on_lost = nullptr);
  ~ControlLoop();
  ControlLoop(const ControlLoop&) = delete;
  ControlLoop& operator=(const ControlLoop&) = delete;

  // Sends and flushes, from any thread.
  absl::Status Send(const FrameHeader& header, std::initializer_list<Bytes> pieces = {});
  absl::Status SendFds(const FrameHeader& header, std::initializer_list<Bytes> pieces, std::span<const int> fds);

 private:
  void Run(const HeartbeatOptions& options);
  void SendHeartbeat();

  Connection& connection_;
  const std::function<void(Frame&)> on_frame_;
  const std::function<void(const absl::Status&)> on_lost_;
  std::mutex send_lock_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace tf::link
