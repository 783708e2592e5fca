#include "simgpu/stream.h"

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <utility>

namespace tf::simgpu {

bool Point::reached() const { return !stream || stream->Reached(number); }
void Point::Wait() const {
  if (stream) stream->Wait(number);
}
bool Point::WaitUntil(std::chrono::steady_clock::time_point deadline) const {
  return !stream || stream->WaitUntil(number, deadline);
}

uint64_t Stream::Push(std::function<void()> run, std::vector<Point> after) {
  std::lock_guard lock(mutex_);
  uint64_t number = ++last_;
  queue_.push_back({number, std::move(run), std::move(after)});
  if (!thread_.joinable()) {
    // Signals are for the threads of the program.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { Run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  work_.notify_one();
  return number;
}

uint64_t Stream::Begin() {
  std::lock_guard lock(mutex_);
  return done_ == last_ ? ++last_ : 0;
}

void Stream::End(uint64_t number) {
  std::lock_guard lock(mutex_);
  done_ = number;
  work_.notify_one();
  progress_.notify_all();
}

uint64_t Stream::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

bool Stream::Reached(uint64_t number) const {
  std::lock_guard lock(mutex_);
  return done_ >= number;
}

void Stream::Wait(uint64_t number) const {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [&] { return done_ >= number; });
}

bool Stream::WaitUntil(uint64_t number, std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  return progress_.wait_until(lock, deadline, [&] { return done_ >= number; });
}

void Stream::Finish() {
  std::lock_guard lock(mutex_);
  closing_ = true;
  work_.notify_one();
}

bool Stream::finished() const {
  std::lock_guard lock(mutex_);
  return done_ == last_;
}

void Stream::Close() {
  Finish();
  if (thread_.joinable()) thread_.join();
}

void Stream::Run() {
  char name[16];
  std::snprintf(name, sizeof name, "sim stream %llu", static_cast<unsigned long long>(id_ % 1000));
  pthread_setname_np(pthread_self(), name);
  std::unique_lock lock(mutex_);
  for (;;) {
    // The operation before may be the caller's own (Begin), which is not in the queue.
    work_.wait(lock, [&] { return queue_.empty() ? closing_ : queue_.front().number == done_ + 1; });
    if (queue_.empty()) return;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    for (const Point& point : operation.after) {
      while (!stop_ && !point.WaitUntil(std::chrono::steady_clock::now() + std::chrono::milliseconds(50))) {
      }
    }
    operation.run();
    operation = {};  // what it holds is released before it counts as over
    lock.lock();
    ++done_;
    progress_.notify_all();
  }
}

}  // namespace tf::simgpu
