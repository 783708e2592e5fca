// What the API server asks of a node: logs, exec, attach, port-forward, and what people look at.
//
//   GET  /healthz                                   ok
//   GET  /pods                                      the pods of all nodes here, as a PodList
//   GET  /stats/summary                             names only
//   GET  /containerLogs/NAMESPACE/POD/CONTAINER     follow, tailLines, sinceSeconds, sinceTime, timestamps, previous, …
//   GET, POST  /exec/NAMESPACE/POD[/UID]/CONTAINER      command, input, output, error, tty; WebSocket
//   GET, POST  /attach/NAMESPACE/POD[/UID]/CONTAINER    the same without command
//   GET, POST  /portForward/NAMESPACE/POD[/UID]         SPDY, tunnelled through a WebSocket
//
// Whoever calls must have the certificate of the API server: with it goes all that the containers may do. Handlers run
// on connection threads; the source is asked from there.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "http/server.h"
#include "kube/object.h"
#include "process_node/pod_worker.h"

namespace tf::process_node {

struct KubeletSource {
  // Thread-safe. nullopt: no such pod here, or no such container in it.
  std::function<std::optional<ContainerView>(const kube::Key& pod, const std::string& container)> find = {};
  std::function<std::optional<std::string>(const kube::Key& pod)> address = {};  // of a pod that runs here
  std::function<std::vector<kube::ObjectPtr>()> pods = {};
  std::string shim = {};
  std::vector<std::string> client_names = {};  // common names that may call; none: any verified certificate
};

http::Handler KubeletHandler(KubeletSource source);

}  // namespace tf::process_node
