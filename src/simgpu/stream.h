// A stream of a simulated card: operations that run one after another on a thread of their own, or on the caller's when
// nothing is before them.
//
// Thread-safe. Operations are numbered from 1 in the order of Push and Begin. The caller orders these calls where order
// between streams matters (Context does).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tf::simgpu {

class Stream;

// A moment in a stream: all operations up to `number` are over.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t number = 0;

  bool reached() const;
  void Wait() const;
  // False when the deadline came first.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline) const;
};

class Stream {
 public:
  // `stop`: when it becomes true, waits for other streams end early; it outlives the stream.
  Stream(uint64_t id, bool blocking, const std::atomic<bool>& stop) : id_(id), blocking_(blocking), stop_(stop) {}
  ~Stream() { Close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  uint64_t id() const { return id_; }
  // Synchronises with the legacy default stream.
  bool blocking() const { return blocking_; }

  // Runs `run` after everything before it in this stream and after the points of other streams.
  uint64_t Push(std::function<void()> run, std::vector<Point> after);
  // Opens an operation that the caller performs itself and then ends with End. Returns 0 when the stream is busy.
  uint64_t Begin();
  void End(uint64_t number);

  uint64_t last() const;
  bool Reached(uint64_t number) const;
  void Wait(uint64_t number) const;
  bool WaitUntil(uint64_t number, std::chrono::steady_clock::time_point deadline) const;

  // No operation comes any more; the thread ends when all are over.
  void Finish();
  bool finished() const;
  // Finish, and waits until the thread has ended.
  void Close();

 private:
  struct Operation {
    uint64_t number;
    std::function<void()> run;
    std::vector<Point> after;
  };
  void Run();

  const uint64_t id_;
  const bool blocking_;
  const std::atomic<bool>& stop_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  mutable std::condition_variable progress_;
  std::deque<Operation> queue_;
  uint64_t last_ = 0, done_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace tf::simgpu
