#include "process_node/loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace tf::process_node {

Loop::Loop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

Loop::~Loop() {
  close(epoll_);
  close(wake_);
}

absl::Duration Loop::Monotonic() { return RealClock().Monotonic(); }

void Loop::Post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  posted_.push_back(std::move(work));
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

void Loop::Stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

void Loop::Watch(int fd, uint32_t events, std::function<void(uint32_t)> ready) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  watched_[fd] = std::make_shared<std::function<void(uint32_t)>>(std::move(ready));
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
}

void Loop::Unwatch(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

uint64_t Loop::At(absl::Duration when, std::function<void()> work) {
  const uint64_t timer = next_timer_++;
  timers_.emplace(std::pair(when, timer), std::move(work));
  timer_times_.emplace(timer, when);
  return timer;
}

void Loop::Cancel(uint64_t timer) {
  const auto at = timer_times_.find(timer);
  if (at == timer_times_.end()) return;
  timers_.erase(std::pair(at->second, timer));
  timer_times_.erase(at);
}

void Loop::Run() {
  epoll_event events[64];
  while (true) {
    int wait_ms = -1;
    if (!timers_.empty()) {
      const absl::Duration left = timers_.begin()->first.first - Monotonic();
      // Rounded up, so that it does not wake just before; not too long, for epoll counts on another clock.
      wait_ms = static_cast<int>(
          std::clamp<int64_t>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))), 0, int64_t{60'000}));
    }
    const int ready = epoll_wait(epoll_, events, 64, wait_ms);
    for (int i = 0; i < ready; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_) {
        uint64_t count;
        [[maybe_unused]] const ssize_t got = read(wake_, &count, sizeof(count));
        continue;
      }
      const auto at = watched_.find(fd);
      if (at == watched_.end()) continue;
      const std::shared_ptr<std::function<void(uint32_t)>> call = at->second;  // it may unwatch itself
      (*call)(events[i].events);
    }
    std::vector<std::function<void()>> work;
    bool stop = false;
    {
      std::lock_guard lock(mutex_);
      work.swap(posted_);
      stop = stopping_;
    }
    for (const std::function<void()>& one : work) one();
    if (stop) return;
    const absl::Duration now = Monotonic();
    while (!timers_.empty() && timers_.begin()->first.first <= now) {
      const std::function<void()> due = std::move(timers_.begin()->second);
      timer_times_.erase(timers_.begin()->first.second);
      timers_.erase(timers_.begin());
      due();
    }
  }
}

}  // namespace tf::process_node
