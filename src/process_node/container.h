// One run of a container as processes of this machine: started through a shim that outlives the agent, found again by
// the next agent, ended with everything that it left behind.
//
// A run has a folder of its own, made when it is claimed: nobody starts it a second time. The shim holds a lock in it
// for as long as it lives and leaves records there (shim/main.cc). Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "process_node/volumes.h"

namespace tf::process_node {

// The variable that every process of a container inherits; its value is the container's marker.
inline constexpr char kMarkerVariable[] = "TENSOR_FUSION_CONTAINER";

struct RunOptions {
  std::string shim = {};                  // the program tensor-fusion-process-shim
  std::string folder = {};                // of this run; must not exist yet
  std::string program = {};               // absolute path
  std::vector<std::string> argv = {};     // with argv[0]
  std::vector<std::string> env = {};      // with the marker
  std::string working_folder = {};        // in the container
  std::vector<Mount> mounts = {};         // bound at their targets; none when the machine does not permit it
  std::vector<std::string> cgroups = {};  // files that take its process number
  std::string oom_file = {};
  int stop_signal = 0;  // 0: SIGTERM
  bool input = false;
  bool terminal = false;
};

struct StartRecord {
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  pid_t shim = 0;
  uint64_t shim_ticks = 0;
  absl::Time started = absl::InfinitePast();
};

struct ExitRecord {
  int code = 0;
  int signal = 0;
  absl::Time finished = absl::InfinitePast();
  bool out_of_memory = false;
};

absl::StatusOr<StartRecord> ReadStartRecord(const std::string& folder);
absl::StatusOr<ExitRecord> ReadExitRecord(const std::string& folder);

// Field 22 of /proc/PID/stat; 0: no such process.
uint64_t StartTicks(pid_t pid);

// Ends every process that inherited this marker and waits until none is left, at most `limit`. Returns how many.
int KillMarked(const std::string& marker, absl::Duration limit = absl::Seconds(2));

class ContainerRun {
 public:
  // AlreadyExists: the run has been claimed before. When OK the shim runs; report_fd() tells how it goes on.
  static absl::StatusOr<std::unique_ptr<ContainerRun>> Start(const RunOptions& options);
  // The run of an earlier agent. NotFound: its shim has ended (see ReadExitRecord).
  static absl::StatusOr<std::unique_ptr<ContainerRun>> Adopt(const std::string& folder);
  ~ContainerRun();  // leaves it running
  ContainerRun(const ContainerRun&) = delete;
  ContainerRun& operator=(const ContainerRun&) = delete;

  // Readable when there is something to report; -1 once the report is complete, and for adopted runs.
  int report_fd() const { return report_; }
  // nullopt: not complete yet. OK: the program runs. Otherwise why it does not.
  std::optional<absl::Status> ReadReport();

  int pidfd() const { return pidfd_; }  // readable once the shim has ended
  void Reap();
  pid_t pid() const { return record_.pid; }
  const StartRecord& record() const { return record_; }
  const std::string& folder() const { return folder_; }

  void Stop();  // the program gets its stop signal
  void Kill();  // everything below the shim ends
 private:
  explicit ContainerRun(std::string folder) : folder_(std::move(folder)) {}
  void Signal(int signal);

  std::string folder_;
  std::optional<Process> child_;  // none for adopted ones
  int pidfd_ = -1;                // owned when adopted
  int report_ = -1;
  std::string report_text_;
  StartRecord record_;
};

}  // namespace tf::process_node
