#include "standalone/left_pods.h"

#include <filesystem>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "process_node/container.h"

namespace tf::standalone {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;  // none there, or gone meanwhile
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    if (entry->is_directory(ignored)) found.push_back(entry->path());
  }
  return found;
}

}  // namespace

int EndLeftPods(const std::string& folder) {
  int ended = 0;
  // pods/UID/containers/NAME/ATTEMPT
  for (const fs::path& pod : FoldersIn(fs::path(folder) / "pods")) {
    for (const fs::path& container : FoldersIn(pod / "containers")) {
      for (const fs::path& run : FoldersIn(container)) {
        const absl::StatusOr<std::unique_ptr<process_node::ContainerRun>> left =
            process_node::ContainerRun::Adopt(run.string());
        if (!left.ok()) continue;
        ++ended;
        (*left)->Kill();
        // What has left the shim's care still carries the mark.
        process_node::KillMarked(
            absl::StrCat(pod.filename().string(), "/", container.filename().string(), "/", run.filename().string()));
      }
    }
  }
  return ended;
}

}  // namespace tf::standalone
