#include "process_node/exec.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "process_node/image_table.h"
#include "process_node/pod_worker.h"

namespace tf::process_node {

absl::StatusOr<ProcessOptions> ExecOptions(const std::string& shim, const ContainerView& container,
                                           const std::vector<std::string>& command, bool terminal) {
  // What the container was started with, from the kernel: nothing to remember, and an adopted one has it too.
  absl::StatusOr<std::string> environment = ReadFile(absl::StrCat("/proc/", container.pid, "/environ"), 4 << 20);
  if (!environment.ok()) return environment.status();
  ProcessOptions options;
  options.env = absl::StrSplit(*environment, '\0', absl::SkipEmpty());
  std::string path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  for (const std::string& line : options.env) {
    if (line.rfind("PATH=", 0) == 0) path = line.substr(5);
  }
  if (terminal) options.env.emplace_back("TERM=xterm");
  absl::StatusOr<std::string> program =
      FindProgram(container.image_folder, container.image, command.front(), path, container.working_folder);
  if (!program.ok()) return program.status();
  options.argv = {shim, "exec", "--pid", absl::StrCat(container.pid), "--cwd", container.working_folder};
  if (terminal) options.argv.emplace_back("--tty");
  options.argv.emplace_back("--");
  options.argv.push_back(*program);
  options.argv.insert(options.argv.end(), command.begin(), command.end());
  return options;
}

}  // namespace tf::process_node
