// Accepts clients and runs their sessions, each on a thread of its own.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "link/listener.h"
#include "remoting/worker/session.h"

namespace tf::remoting {

class Server {
 public:
  struct Stats {
    size_t sessions = 0;
    uint64_t calls = 0;  // of all sessions so far
  };

  // `listener` and `card` outlive the server. log: one line for each session that comes or goes; null = silence.
  Server(link::Listener* listener, Card* card, std::function<void(const std::string&)> log);
  ~Server();

  // Accepts until Stop. Returns when all sessions are over.
  void Run();
  // From any thread.
  void Stop();
  Stats stats();

 private:
  struct Running {
    std::unique_ptr<Session> session;
    std::thread thread;
    std::atomic<bool> over = false;
  };
  void Reap(bool all);

  link::Listener* const listener_;
  Card* const card_;
  const std::function<void(const std::string&)> log_;
  std::atomic<bool> stopping_ = false;
  std::mutex lock_;
  std::list<Running> running_;
  uint64_t finished_calls_ = 0;
};

}  // namespace tf::remoting
