#include "remoting/worker/throttle.h"

#include <pthread.h>

#include <chrono>

namespace tf::remoting {

namespace {

constexpr absl::Duration kMostWait = absl::Milliseconds(5);

}  // namespace

Throttle::Throttle(int percent, std::function<absl::Duration()> busy)
    : busy_(std::move(busy)), governor_(percent, absl::Now()), seen_(busy_()) {
  watcher_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "tf-throttle");
    Run();
  });
}

Throttle::~Throttle() {
  {
    std::lock_guard lock(lock_);
    stopping_ = true;
    moved_.notify_all();
  }
  watcher_.join();
}

void Throttle::Run() {
  std::unique_lock lock(lock_);
  while (!stopping_) {
    lock.unlock();
    absl::Duration busy = busy_();
    lock.lock();
    if (busy > seen_) governor_.Spend(busy - seen_);
    seen_ = busy;
    moved_.notify_all();
    moved_.wait_for(lock, absl::ToChronoNanoseconds(kMostWait), [&] { return stopping_; });
  }
}

void Throttle::Wait(const std::function<bool()>& stop) {
  std::unique_lock lock(lock_);
  while (!stopping_ && !stop()) {
    absl::Duration delay = governor_.Delay(absl::Now());
    if (delay <= absl::ZeroDuration()) return;
    moved_.wait_for(lock, absl::ToChronoNanoseconds(std::min(delay, kMostWait)));
  }
}

}  // namespace tf::remoting
