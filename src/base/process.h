// A child process, started without surprises: no descriptor of ours but those named, signals at their defaults, a
// session of its own on wish, and a pidfd, so that no signal ever reaches a process that took over the number.
//
// Thread-safe as far as marked. Errors: NotFound when the program does not exist, PermissionDenied when it may not be
// run, otherwise what the system says; each names the program.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tf {

struct ProcessOptions {
  std::vector<std::string> argv = {};  // argv[0]: a path, or a name that is looked up in PATH of `env`
  std::vector<std::string> env = {};   // "NAME=value"; all that the child gets
  std::string working_folder = {};     // "": ours
  int stdin_fd = -1;                   // -1: /dev/null. The caller keeps ownership of all descriptors.
  int stdout_fd = -1;
  int stderr_fd = -1;
  bool new_session = true;       // its own session and process group: SignalGroup reaches its children too
  int signal_on_parent_end = 0;  // sent to the child when the thread that started it ends (PR_SET_PDEATHSIG); 0: none
};

struct ExitStatus {
  int code = 0;    // exit code; 128 + signal when a signal ended it
  int signal = 0;  // 0: it exited by itself
};

class Process {
 public:
  static absl::StatusOr<Process> Start(const ProcessOptions& options);

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // Leaves a running child alone; reaps one that has ended.

  pid_t pid() const { return pid_; }
  // Readable once the process has ended; for poll and for an io_context.
  int pidfd() const { return pidfd_; }

  // OK also when it has ended already.
  absl::Status Signal(int signal) const;
  // To the process group of a child started with new_session, ended or not.
  absl::Status SignalGroup(int signal) const;

  // Waits until it ends (nullopt: `timeout` came first) and reaps it. The first answer is kept and given again.
  std::optional<ExitStatus> Wait(absl::Duration timeout = absl::InfiniteDuration());

 private:
  Process(pid_t pid, int pidfd, bool group) : pid_(pid), pidfd_(pidfd), group_(group) {}

  pid_t pid_ = -1;
  int pidfd_ = -1;
  bool group_ = false;
  std::optional<ExitStatus> status_;
};

// The environment of this process as "NAME=value" lines.
std::vector<std::string> CurrentEnvironment();

}  // namespace tf
