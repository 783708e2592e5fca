// One thread that waits for everything: descriptors, times, and what other threads hand it.
//
// All callbacks run on the thread in Run(), one after the other, and must not block. Post and Stop: any thread; the
// rest: the loop's thread, or before Run. Times are Monotonic() of the real clock.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"

namespace tf::process_node {

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void Run();
  void Stop();

  void Post(std::function<void()> work);

  // Calls `ready` with what epoll says, for as long as it is watched. The descriptor stays the caller's, who unwatches
  // it before it is closed.
  void Watch(int fd, uint32_t events, std::function<void(uint32_t events)> ready);
  void Unwatch(int fd);

  // Once, at `when` or as soon as it has passed. The number is never 0.
  uint64_t At(absl::Duration when, std::function<void()> work);
  void Cancel(uint64_t timer);

  static absl::Duration Monotonic();

 private:
  int epoll_ = -1;
  int wake_ = -1;
  std::unordered_map<int, std::shared_ptr<std::function<void(uint32_t)>>> watched_;
  std::map<std::pair<absl::Duration, uint64_t>, std::function<void()>> timers_;
  std::unordered_map<uint64_t, absl::Duration> timer_times_;
  uint64_t next_timer_ = 1;

  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  bool stopping_ = false;
};

}  // namespace tf::process_node
