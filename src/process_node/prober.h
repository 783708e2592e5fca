// Probes over the network, without a thread: a TCP connection, or the status of an HTTP answer.
//
// As the kubelet's: HTTP succeeds from 200 to 399 (redirects are not followed), names are not resolved, the answer's
// body is not read. Runs on the loop; the callback comes once, from the loop, within the timeout.
#pragma once

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "process_node/loop.h"
#include "process_node/pod_spec.h"

namespace tf::process_node {

using ProbeDone = std::function<void(bool success, std::string message)>;

// `handler` is kHttp with scheme HTTP, or kTcp; `address` is used where it names no host.
void ProbeNetwork(Loop& loop, const Handler& handler, const std::string& address, absl::Duration timeout,
                  ProbeDone done);

}  // namespace tf::process_node
