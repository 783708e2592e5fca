// What of a pod's specification decides how it runs: read once from the object, defaults filled in.
//
// Environment, volumes and resources are not here: they are looked up in the object when a container starts. The API
// server has validated the object; what it lets through and we cannot read is taken for its default. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "kube/object.h"

namespace tf::process_node {

// What a probe or a hook does.
struct Handler {
  enum class Kind { kExec, kHttp, kTcp, kSleep, kGrpc };
  Kind kind = Kind::kExec;
  std::vector<std::string> command = {};  // kExec
  std::string scheme = "HTTP";            // kHttp: HTTP or HTTPS, the certificate is not verified
  std::string host = {};                  // "": the pod's address
  int port = 0;                           // names of ports are resolved; 0: no such name
  std::string path = "/";
  std::vector<std::pair<std::string, std::string>> headers = {};
  absl::Duration sleep = absl::ZeroDuration();
};

struct Probe {
  Handler handler = {};
  absl::Duration initial_delay = absl::ZeroDuration();
  absl::Duration period = absl::Seconds(10);
  absl::Duration timeout = absl::Seconds(1);
  int success_threshold = 1;
  int failure_threshold = 3;
  std::optional<absl::Duration> grace = {};  // instead of the pod's, when a failure ends the container
};

struct ContainerSpec {
  std::string name = {};
  std::string image = {};
  std::string pull_policy = {};
  bool init = false;     // of spec.initContainers
  bool sidecar = false;  // of spec.initContainers, with restartPolicy Always
  std::optional<Probe> startup = {};
  std::optional<Probe> liveness = {};
  std::optional<Probe> readiness = {};
  std::optional<Handler> post_start = {};
  std::optional<Handler> pre_stop = {};
};

enum class RestartPolicy { kAlways, kOnFailure, kNever };

// Failures on request, for tests: annotations of the pod under kFaultPrefix.
struct Faults {
  absl::Duration slow_start = absl::ZeroDuration();  // slow-start: 5s       before the first container
  bool never_ready = false;                          // never-ready: "true"
  std::optional<absl::Duration> crash_after = {};    // crash: 5s, 3 or 5s:3  each main container ends so long after its
  int crash_code = 1;                                //                       start, with this exit code
};
inline constexpr std::string_view kFaultPrefix = "process-node.tensor-fusion.ai/";

struct PodSpec {
  kube::Key key = {};
  std::string uid = {};
  std::string node = {};
  RestartPolicy restart = RestartPolicy::kAlways;
  absl::Duration grace = absl::Seconds(30);
  std::optional<absl::Duration> active_deadline = {};
  bool host_network = false;
  std::vector<std::string> readiness_gates = {};
  std::vector<ContainerSpec> containers = {};  // those of spec.initContainers first, in their order
  Faults faults = {};

  // Position in `containers`; nullopt when there is none.
  std::optional<size_t> Find(std::string_view container) const;
};

PodSpec ReadPodSpec(const kube::Json& pod);

// The container's own specification in the pod; null when there is none.
const kube::Json* ContainerOf(const kube::Json& pod, std::string_view name);

}  // namespace tf::process_node
