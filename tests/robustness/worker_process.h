// A worker on simulated cards, as a process of the test.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "link/connection.h"
#include "remoting/client/remote_backend.h"
#include "remoting/worker/status_file.h"

namespace tf::tests {

class WorkerProcess {
 public:
  // via: "shm" or "tcp". Ends the test program with a message when the worker does not start.
  explicit WorkerProcess(const std::string& via, const std::map<std::string, std::string>& environment = {});
  ~WorkerProcess();  // SIGTERM

  pid_t pid() const { return pid_; }
  const std::string& connection() const { return connection_; }
  void Kill();  // SIGKILL
  bool Alive() const;

  std::unique_ptr<link::Connection> Connect() const;
  std::unique_ptr<remoting::RemoteBackend> ConnectBackend() const;
  // The worker's status when `wanted` holds, or nullopt after `seconds`.
  template <class Wanted>
  std::optional<remoting::WorkerStatus> Await(double seconds, Wanted wanted) const;
  std::optional<remoting::WorkerStatus> Status() const;

 private:
  pid_t pid_ = -1;
  std::string connection_;
  std::string folder_;
};

// A program of the test with the client library; its standard output line by line.
class Program {
 public:
  Program(std::vector<std::string> arguments, const std::string& connection);
  ~Program();
  // The next line of output; nullopt at its end or after `seconds`.
  std::optional<std::string> Line(double seconds);
  void Kill();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string rest_;
};

double Now();  // seconds, monotonic

template <class Wanted>
std::optional<remoting::WorkerStatus> WorkerProcess::Await(double seconds, Wanted wanted) const {
  for (double end = Now() + seconds; Now() < end;) {
    std::optional<remoting::WorkerStatus> status = Status();
    if (status && wanted(*status)) return status;
    // The file is renewed by another process; there is nothing to wait on but time.
    timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
    nanosleep(&pause, nullptr);
  }
  return std::nullopt;
}

}  // namespace tf::tests
