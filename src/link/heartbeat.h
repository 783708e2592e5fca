// Decides when to send a heartbeat and when the peer counts as lost. Pure: time comes in as a value.
//
// A heartbeat goes out each `interval`; the peer is lost when nothing came for `timeout`. A gap in which this side
// itself did not run (stopped, suspended machine) is no evidence against the peer and restarts its time.
#pragma once

#include "link/frame.h"

namespace tf::link {

struct HeartbeatOptions {
  absl::Duration interval = absl::Seconds(1);
  absl::Duration timeout = absl::Seconds(5);
};

class Heartbeat {
 public:
  enum class Action { kNothing, kSend, kLost };

  Heartbeat(const HeartbeatOptions& options, Deadline now);

  // Any frame of the peer is a sign of life.
  void Heard(Deadline now) { heard_ = now; }
  // To be called at Next() or earlier; frames that already arrived are reported by Heard() first.
  Action Tick(Deadline now);
  // When Tick has something to do again.
  Deadline Next() const;

 private:
  std::chrono::nanoseconds interval_;
  std::chrono::nanoseconds timeout_;
  Deadline heard_;
  Deadline sent_;
  Deadline ticked_;
};

}  // namespace tf::link
