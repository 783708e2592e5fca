#include "process_node/pod_spec.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tf::process_node {
namespace {

using kube::Field;
using kube::Json;
using kube::Number;
using kube::Text;

std::vector<std::string> Strings(const Json* list) {
  std::vector<std::string> strings;
  if (list == nullptr || !list->is_array()) return strings;
  for (const Json& item : list->get_array()) {
    if (item.is_string()) strings.emplace_back(item.get_string());
  }
  return strings;
}

const kube::JsonArray* Items(const Json& object, std::string_view path) {
  const Json* list = Field(object, path);
  return list != nullptr && list->is_array() ? &list->get_array() : nullptr;
}

int ReadPort(const Json* port, const Json& container) {
  if (port == nullptr) return 0;
  if (port->is_int64()) return static_cast<int>(port->get_int64());
  if (!port->is_string()) return 0;
  const std::string_view name = port->get_string();
  int number = 0;
  if (absl::SimpleAtoi(absl::string_view(name.data(), name.size()), &number)) return number;
  if (const kube::JsonArray* ports = Items(container, "ports")) {
    for (const Json& candidate : *ports) {
      if (Text(candidate, "name") == name) return static_cast<int>(Number(candidate, "containerPort"));
    }
  }
  return 0;
}

std::optional<Handler> ReadHandler(const Json* from, const Json& container) {
  if (from == nullptr || !from->is_object()) return std::nullopt;
  Handler handler;
  if (const Json* exec = Field(*from, "exec")) {
    handler.kind = Handler::Kind::kExec;
    handler.command = Strings(Field(*exec, "command"));
  } else if (const Json* http = Field(*from, "httpGet")) {
    handler.kind = Handler::Kind::kHttp;
    handler.host = Text(*http, "host");
    handler.port = ReadPort(Field(*http, "port"), container);
    if (!Text(*http, "path").empty()) handler.path = Text(*http, "path");
    if (handler.path.front() != '/') handler.path.insert(0, "/");
    if (!Text(*http, "scheme").empty()) handler.scheme = Text(*http, "scheme");
    if (const kube::JsonArray* headers = Items(*http, "httpHeaders")) {
      for (const Json& header : *headers) handler.headers.emplace_back(Text(header, "name"), Text(header, "value"));
    }
  } else if (const Json* tcp = Field(*from, "tcpSocket")) {
    handler.kind = Handler::Kind::kTcp;
    handler.host = Text(*tcp, "host");
    handler.port = ReadPort(Field(*tcp, "port"), container);
  } else if (const Json* sleep = Field(*from, "sleep")) {
    handler.kind = Handler::Kind::kSleep;
    handler.sleep = absl::Seconds(Number(*sleep, "seconds"));
  } else if (Field(*from, "grpc") != nullptr) {
    handler.kind = Handler::Kind::kGrpc;
  } else {
    return std::nullopt;
  }
  return handler;
}

std::optional<Probe> ReadProbe(const Json& container, std::string_view field) {
  const Json* from = Field(container, field);
  const std::optional<Handler> handler = ReadHandler(from, container);
  if (!handler) return std::nullopt;
  Probe probe;
  probe.handler = *handler;
  probe.initial_delay = absl::Seconds(Number(*from, "initialDelaySeconds", 0));
  probe.period = absl::Seconds(std::max<int64_t>(1, Number(*from, "periodSeconds", 10)));
  probe.timeout = absl::Seconds(std::max<int64_t>(1, Number(*from, "timeoutSeconds", 1)));
  probe.success_threshold = static_cast<int>(std::max<int64_t>(1, Number(*from, "successThreshold", 1)));
  probe.failure_threshold = static_cast<int>(std::max<int64_t>(1, Number(*from, "failureThreshold", 3)));
  if (Field(*from, "terminationGracePeriodSeconds") != nullptr) {
    probe.grace = absl::Seconds(Number(*from, "terminationGracePeriodSeconds"));
  }
  return probe;
}

ContainerSpec ReadContainer(const Json& from, bool init) {
  ContainerSpec container;
  container.name = Text(from, "name");
  container.image = Text(from, "image");
  container.pull_policy = Text(from, "imagePullPolicy");
  container.init = init;
  container.sidecar = init && Text(from, "restartPolicy") == "Always";
  if (!init || container.sidecar) {
    container.startup = ReadProbe(from, "startupProbe");
    container.liveness = ReadProbe(from, "livenessProbe");
    container.readiness = ReadProbe(from, "readinessProbe");
    container.post_start = ReadHandler(Field(from, "lifecycle.postStart"), from);
    container.pre_stop = ReadHandler(Field(from, "lifecycle.preStop"), from);
  }
  return container;
}

Faults ReadFaults(const Json& pod) {
  const auto annotation = [&](std::string_view name) {
    return std::string(kube::Annotation(pod, absl::StrCat(std::string(kFaultPrefix), std::string(name))));
  };
  Faults faults;
  if (const std::string text = annotation("slow-start"); !text.empty()) {
    absl::ParseDuration(text, &faults.slow_start);
  }
  faults.never_ready = annotation("never-ready") == "true";
  if (std::string text = annotation("crash"); !text.empty()) {
    absl::Duration after = absl::ZeroDuration();
    int code = 1;
    const size_t colon = text.find(':');
    if (colon != std::string::npos && absl::SimpleAtoi(text.substr(colon + 1), &code)) text.resize(colon);
    // "0" is an exit code as well as a duration: alone it is a code.
    if (int alone = 0; absl::SimpleAtoi(text, &alone)) {
      code = alone;
    } else {
      absl::ParseDuration(text, &after);
    }
    faults.crash_after = after;
    faults.crash_code = code & 0xff;
  }
  return faults;
}

}  // namespace

std::optional<size_t> PodSpec::Find(std::string_view container) const {
  for (size_t i = 0; i < containers.size(); ++i) {
    if (containers[i].name == container) return i;
  }
  return std::nullopt;
}

PodSpec ReadPodSpec(const Json& pod) {
  PodSpec spec;
  spec.key = kube::KeyOf(pod);
  spec.uid = kube::Uid(pod);
  spec.node = Text(pod, "spec.nodeName");
  const std::string_view policy = Text(pod, "spec.restartPolicy");
  if (policy == "Never") spec.restart = RestartPolicy::kNever;
  if (policy == "OnFailure") spec.restart = RestartPolicy::kOnFailure;
  spec.grace = absl::Seconds(Number(pod, "spec.terminationGracePeriodSeconds", 30));
  if (Field(pod, "spec.activeDeadlineSeconds") != nullptr) {
    spec.active_deadline = absl::Seconds(Number(pod, "spec.activeDeadlineSeconds"));
  }
  spec.host_network = kube::Flag(pod, "spec.hostNetwork");
  if (const kube::JsonArray* gates = Items(pod, "spec.readinessGates")) {
    for (const Json& gate : *gates) spec.readiness_gates.emplace_back(Text(gate, "conditionType"));
  }
  if (const kube::JsonArray* containers = Items(pod, "spec.initContainers")) {
    for (const Json& container : *containers) spec.containers.push_back(ReadContainer(container, true));
  }
  if (const kube::JsonArray* containers = Items(pod, "spec.containers")) {
    for (const Json& container : *containers) spec.containers.push_back(ReadContainer(container, false));
  }
  spec.faults = ReadFaults(pod);
  return spec;
}

const Json* ContainerOf(const Json& pod, std::string_view name) {
  for (const char* list : {"spec.containers", "spec.initContainers"}) {
    const kube::JsonArray* containers = Items(pod, list);
    if (containers == nullptr) continue;
    for (const Json& container : *containers) {
      if (Text(container, "name") == name) return &container;
    }
  }
  return nullptr;
}

}  // namespace tf::process_node
