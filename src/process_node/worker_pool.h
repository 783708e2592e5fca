// A few threads for calls that block, such as those to the API server. Jobs run in order of arrival, as many at a time
// as there are threads. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tf::process_node {

class WorkerPool {
 public:
  WorkerPool(const std::string& name, int threads);
  ~WorkerPool();  // runs no job that has not begun; waits for those that have
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void Run(std::function<void()> job);

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tf::process_node
