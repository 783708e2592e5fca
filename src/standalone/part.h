// A part of the cluster: a child process that is kept running. When it ends it is started again, after a while that
// grows while it does not stay up (backoff.h). It ends with us, however we end.
//
// Thread-safe. Its output goes to a log file, which is cut when it grows large.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/process.h"
#include "standalone/backoff.h"

namespace tf::standalone {

struct PartOptions {
  std::string name = {};
  std::vector<std::string> argv = {};
  std::vector<std::string> env = {};
  std::string working_folder = {};
  std::string log_file = {};
  BackoffPolicy backoff = {};
  absl::Duration grace = absl::Seconds(10);  // between SIGTERM and SIGKILL when it is stopped

  // Called on the part's thread: `started` before the part counts as running, `changed` after it has started or ended.
  std::function<void(pid_t)> started = {};
  std::function<void()> changed = {};
};

class Part {
 public:
  Part(PartOptions options, Clock& clock);
  ~Part();  // stops it
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  // The first start; its failure is the answer. From then on the part's own thread keeps it running.
  absl::Status Start();

  // SIGTERM, after the grace period SIGKILL; returns when the process has ended. It stays stopped.
  void Stop();

  const std::string& name() const { return options_.name; }
  const std::string& log_file() const { return options_.log_file; }
  pid_t pid() const;     // 0 when it does not run at the moment
  int restarts() const;  // how often it has been started again
  // How it ended the last time, with the last line of its log; "" when it has not.
  std::string last_end() const;

 private:
  void Run();
  absl::StatusOr<Process> StartOnce();
  // Until it has ended; cuts its log meanwhile.
  ExitStatus Await(Process& process);

  const PartOptions options_;
  Clock& clock_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<absl::Status> first_start_;
  bool stopping_ = false;
  const Process* running_ = nullptr;
  int starts_ = 0;
  std::string last_end_;
  std::thread thread_;
};

// The last line of a file that is not blank, at most 400 bytes of it; "" when there is none.
std::string LastLine(const std::string& path);

// A file of more than `max_bytes` becomes PATH.1 and begins anew; whoever writes to it (appending) goes on.
void CutLog(const std::string& path, size_t max_bytes);

}  // namespace tf::standalone
