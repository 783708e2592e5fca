// The folder in which a cluster of one machine keeps everything: store, certificates, configuration, logs, sockets.
//
// One process at a time owns it. Opening it finds out whether it is ours to use (lock, version) and ends what an owner
// that was killed has left behind. Not thread-safe, but for the functions that say so.
//
//   lock            whose process it is (locked as long as that runs)
//   version         the number of the format; a folder of a newer program is refused
//   processes       the children that the owner has started, one record a line, for whoever comes after a crash
//   ca/ etcd/ run/ logs/ …   by those who use them
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "standalone/process_record.h"

namespace tf::standalone {

// Raised when a folder that this program has used is of no use to the program of before: another layout, or a newer
// store or API server than that can go back to.
inline constexpr int kDataVersion = 1;

class DataFolder {
 public:
  // Makes it (mode 0700) when it is missing. FailedPrecondition: another process has it (which, and what to do), or a
  // newer program wrote it. What the last owner left running has ended when this returns.
  static absl::StatusOr<DataFolder> Open(const std::string& path);

  DataFolder(DataFolder&& other) noexcept;
  DataFolder& operator=(DataFolder&& other) noexcept;
  ~DataFolder();  // gives it up

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

  // What of an earlier owner was still there and had to be ended.
  int left_behind() const { return left_behind_; }

  // Removes run/, where sockets and whatever else only a running cluster needs lie.
  void ClearRun() const;

  // The child of this name is this process from now on: the next owner ends it if this one cannot. Thread-safe.
  absl::Status RecordChild(const std::string& name, pid_t pid);

 private:
  struct Children;

  DataFolder(std::string path, int lock);
  absl::Status CheckVersion();
  absl::Status EndLeftBehind();

  std::string path_;
  int lock_ = -1;
  std::unique_ptr<Children> children_;
  int left_behind_ = 0;
};

// Where a person's cluster lives unless they say otherwise: ${XDG_DATA_HOME:-~/.local/share}/tensor-fusion.
std::string DefaultDataFolder();

// The process that has the folder; NotFound when nobody has.
absl::StatusOr<ProcessRecord> OwnerOf(const std::string& path);

}  // namespace tf::standalone
