// Limits of CPU and memory for containers, by cgroup v1 or v2, where this user may make cgroups.
//
// Below the agent's own cgroup it makes tensor-fusion/NAME for each container with a limit. Where that is not permitted
// limits are not enforced, and why() says so; the agent says it once, in its log. There is no substitute: limits of
// address space (RLIMIT_AS) break programs that reserve more than they use, GPU programs first of all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tf::process_node {

class Cgroups {
 public:
  Cgroups();  // finds out what is possible

  bool memory() const { return !memory_.empty() || unified_memory_; }
  bool cpu() const { return !cpu_.empty() || unified_cpu_; }
  // Why not; "" when both are there.
  const std::string& why() const { return why_; }

  struct Place {
    std::vector<std::string> files;  // the container writes its process number into each
    std::string oom_file;
  };
  // Limits in bytes and thousandths of a CPU; 0: none. `name` is a file name.
  Place Make(const std::string& name, int64_t memory_bytes, int64_t cpu_millis) const;
  void Remove(const std::string& name) const;

 private:
  std::string memory_, cpu_;  // v1: the folders of ours
  std::string unified_;       // v2
  bool unified_memory_ = false, unified_cpu_ = false;
  std::string why_;
};

}  // namespace tf::process_node
