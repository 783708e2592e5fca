// exec and attach over a WebSocket: Kubernetes' remote command protocol, v5.channel.k8s.io and v4.channel.k8s.io.
//
// A binary message begins with its channel: 0 input, 1 output, 2 error output, 3 how it ended (a Status object), 4 the
// terminal's size as {"Width":…,"Height":…}; in v5 channel 255 closes the channel that follows. Runs on the
// connection's thread, with one more for what the client sends. A command whose client goes away is ended.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/server.h"
#include "process_node/pod_worker.h"

namespace tf::process_node {

struct StreamOptions {
  std::vector<std::string> command = {};  // exec
  bool in = false, out = false, err = false, terminal = false;
};

// The protocol among those that the client offers; "": none that we know.
std::string_view ChooseStreamProtocol(std::string_view offered);

void ServeExec(const http::ServerRequest& request, http::ResponseWriter& response, const ContainerView& container,
               const std::string& shim, const StreamOptions& options);
void ServeAttach(const http::ServerRequest& request, http::ResponseWriter& response, const ContainerView& container,
                 const StreamOptions& options);

// The Status object that says how a command ended.
std::string ExitStatusJson(int code);
std::string FailureJson(std::string_view message);

}  // namespace tf::process_node
