// kubectl port-forward: connections to a pod's ports through one WebSocket, in which SPDY is spoken
// (SPDY/3.1+portforward.k8s.io).
//
// A connection is two streams with one request id: what goes wrong is written to the one of type "error", the bytes
// run in the one of type "data". They lead to the port at the pod's address and, if nobody listens there, at 127.0.0.1,
// where programs listen that were told nothing else. One thread for each forwarded connection.
#pragma once

#include <string>

#include "http/server.h"

namespace tf::process_node {

void ServePortForward(const http::ServerRequest& request, http::ResponseWriter& response, const std::string& pod_ip);

}  // namespace tf::process_node
