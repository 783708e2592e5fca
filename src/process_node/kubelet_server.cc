#include "process_node/kubelet_server.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "process_node/log_files.h"
#include "process_node/port_forward.h"
#include "process_node/streams.h"

namespace tf::process_node {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr char kText[] = "text/plain; charset=utf-8";
// How long a reader of logs may be gone before we notice, when the container says nothing.
constexpr int kGoneCheckMs = 1000;

void ServeLogs(const http::ServerRequest& request, http::ResponseWriter& response, const KubeletSource& source,
               const kube::Key& pod, const std::string& name) {
  const std::optional<ContainerView> container = source.find(pod, name);
  if (!container) {
    response.Send(404, kText, absl::StrCat("container ", name, " of pod ", pod.ToString(), " is not on this node\n"))
        .IgnoreError();
    return;
  }
  absl::StatusOr<LogQuery> query =
      ParseLogQuery([&](std::string_view field) { return request.Query(field); }, absl::Now());
  if (!query.ok()) {
    response.Send(400, kText, absl::StrCat(query.status().message(), "\n")).IgnoreError();
    return;
  }
  const int attempt = container->attempt - (query->previous ? 1 : 0);
  if (attempt < 0) {
    response
        .Send(400, kText,
              query->previous
                  ? absl::StrCat("previous terminated container \"", name, "\" in pod \"", pod.name, "\" not found\n")
                  : absl::StrCat("container \"", name, "\" in pod \"", pod.name, "\" is waiting to start\n"))
        .IgnoreError();
    return;
  }
  const std::string folder = absl::StrCat(container->folder, "/", attempt);
  const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  absl::Cleanup close_watch = [&] {
    if (watch >= 0) close(watch);
  };
  // Renames (rotation) and the record of the end happen in the folder, too.
  if (watch >= 0 && query->follow) {
    inotify_add_watch(watch, folder.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_ONLYDIR);
  }
  bool begun = false;
  const auto begin = [&] { return begun || (begun = response.Begin(200, kText).ok()); };
  const absl::Status read = ReadLog(
      folder, *query, [&](std::string_view bytes) { return begin() && response.Write(bytes).ok(); },
      [&] { return access(absl::StrCat(folder, "/exit").c_str(), F_OK) == 0; },
      [&] {
        if (!begin()) return false;
        pollfd changed{watch, POLLIN, 0};
        while (poll(&changed, 1, kGoneCheckMs) <= 0) {
          if (response.PeerGone(absl::ZeroDuration())) return false;
          // A shim that was killed leaves no record: the folder goes with its pod.
          if (access(folder.c_str(), F_OK) != 0) return false;
        }
        char events[4096];
        while (::read(watch, events, sizeof(events)) > 0) {
        }
        return true;
      });
  if (!read.ok() && !begun) {
    response.Send(absl::IsNotFound(read) ? 404 : 500, kText, absl::StrCat(read.message(), "\n")).IgnoreError();
    return;
  }
  begin();
}

StreamOptions ReadStreamOptions(const http::ServerRequest& request) {
  StreamOptions options;
  const auto flag = [&](std::string_view name) {
    const std::string_view value = request.Query(name);
    return value == "1" || value == "true";
  };
  for (const auto& [name, value] : request.query) {
    if (name == "command") options.command.push_back(value);
  }
  options.in = flag("input") || flag("stdin");
  options.out = flag("output") || flag("stdout");
  options.err = flag("error") || flag("stderr");
  options.terminal = flag("tty");
  return options;
}

void Serve(const http::ServerRequest& request, http::ResponseWriter& response, const KubeletSource& source) {
  const std::vector<std::string> parts = absl::StrSplit(request.path, '/', absl::SkipEmpty());
  const auto not_found = [&](const std::string& message) { response.Send(404, kText, message + "\n").IgnoreError(); };
  if (parts.size() == 1 && parts[0] == "healthz") return response.Send(200, kText, "ok").IgnoreError();
  const std::vector<std::string>& names = source.client_names;
  if (!names.empty() && std::find(names.begin(), names.end(), request.peer_common_name) == names.end()) {
    response
        .Send(403, kText,
              absl::StrCat("only ", absl::StrJoin(names, " and "), " may call a process node, not \"",
                           request.peer_common_name, "\"\n"))
        .IgnoreError();
    return;
  }
  if (parts.empty()) return not_found("see /healthz, /pods, /containerLogs, /exec, /attach, /portForward");
  if (parts[0] == "pods" && parts.size() == 1) {
    JsonArray items;
    for (const kube::ObjectPtr& pod : source.pods()) items.push_back(*pod);
    const Json list =
        JsonObject{{"apiVersion", "v1"}, {"kind", "PodList"}, {"metadata", JsonObject{}}, {"items", std::move(items)}};
    return response.Send(200, "application/json", boost::json::serialize(list)).IgnoreError();
  }
  if (parts[0] == "stats" && parts.size() == 2 && parts[1] == "summary") {
    JsonArray pods;
    for (const kube::ObjectPtr& pod : source.pods()) {
      pods.push_back(JsonObject{
          {"podRef",
           JsonObject{{"name", kube::Name(*pod)}, {"namespace", kube::Namespace(*pod)}, {"uid", kube::Uid(*pod)}}}});
    }
    return response.Send(200, "application/json", boost::json::serialize(JsonObject{{"pods", std::move(pods)}}))
        .IgnoreError();
  }
  if (parts[0] == "containerLogs" && parts.size() == 4) {
    return ServeLogs(request, response, source, {parts[1], parts[2]}, parts[3]);
  }
  const bool exec = parts[0] == "exec";
  if ((exec || parts[0] == "attach") && (parts.size() == 4 || parts.size() == 5)) {
    const kube::Key pod{parts[1], parts[2]};
    const std::optional<ContainerView> container = source.find(pod, parts.back());
    if (!container)
      return not_found(absl::StrCat("container ", parts.back(), " of pod ", pod.ToString(), " is not on this node"));
    if (!container->running) {
      return response
          .Send(500, kText, absl::StrCat("container not found (\"", parts.back(), "\"): it is not running\n"))
          .IgnoreError();
    }
    const StreamOptions options = ReadStreamOptions(request);
    if (!exec) return ServeAttach(request, response, *container, options);
    if (options.command.empty()) return response.Send(400, kText, "no command\n").IgnoreError();
    return ServeExec(request, response, *container, source.shim, options);
  }
  if (parts[0] == "portForward" && (parts.size() == 3 || parts.size() == 4)) {
    const kube::Key pod{parts[1], parts[2]};
    const std::optional<std::string> address = source.address(pod);
    if (!address) return not_found(absl::StrCat("pod ", pod.ToString(), " does not run on this node"));
    return ServePortForward(request, response, *address);
  }
  not_found(absl::StrCat("process nodes have no ", request.path));
}

}  // namespace

http::Handler KubeletHandler(KubeletSource source) {
  return [source = std::move(source)](const http::ServerRequest& request, http::ResponseWriter& response) {
    Serve(request, response, source);
  };
}

}  // namespace tf::process_node
