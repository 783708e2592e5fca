// Lets launches of all sessions of a worker through at the pace of its Governor.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "remoting/worker/governor.h"

namespace tf::remoting {

class Throttle {
 public:
  // busy: how long the card has been busy for this process, in all; called often, from one thread.
  Throttle(int percent, std::function<absl::Duration()> busy);
  ~Throttle();

  // Waits until a launch may go, or until `stop` is true.
  void Wait(const std::function<bool()>& stop);

 private:
  void Run();

  const std::function<absl::Duration()> busy_;
  std::mutex lock_;
  std::condition_variable moved_;
  Governor governor_;
  absl::Duration seen_;
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace tf::remoting
