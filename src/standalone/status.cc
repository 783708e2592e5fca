#include "standalone/status.h"

#include <boost/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "standalone/data_folder.h"

namespace tf::standalone {
namespace {

constexpr char kFile[] = "/run/status.json";
constexpr size_t kMaxStatusFile = 1 << 20;

}  // namespace

std::string FormatStatus(const ClusterStatus& status) {
  boost::json::array parts;
  for (const PartStatus& part : status.parts) {
    parts.push_back({{"name", part.name},
                     {"pid", part.pid},
                     {"port", part.port},
                     {"restarts", part.restarts},
                     {"lastEnd", part.last_end}});
  }
  boost::json::object object = {{"state", status.state},
                                {"version", status.version},
                                {"pid", status.pid},
                                {"server", status.server},
                                {"kubeconfig", status.kubeconfig},
                                {"nodes", status.nodes},
                                {"gpusPerNode", status.gpus_per_node},
                                {"parts", std::move(parts)}};
  if (status.nodes_ready >= 0) object["nodesReady"] = status.nodes_ready;
  return boost::json::serialize(object) + "\n";
}

absl::StatusOr<ClusterStatus> ParseStatus(std::string_view text) {
  boost::json::error_code error;
  const boost::json::value value = boost::json::parse(boost::json::string_view(text.data(), text.size()), error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("the status is no JSON: ", error.message()));
  const auto field = [](const boost::json::value& object, const char* name) -> const boost::json::value* {
    return object.is_object() ? object.get_object().if_contains(name) : nullptr;
  };
  const auto string = [&](const boost::json::value& object, const char* name) {
    const boost::json::value* found = field(object, name);
    return found != nullptr && found->is_string() ? std::string(found->get_string().c_str()) : std::string();
  };
  const auto number = [&](const boost::json::value& object, const char* name) {
    const boost::json::value* found = field(object, name);
    return found != nullptr && found->is_int64() ? found->get_int64() : int64_t{0};
  };
  ClusterStatus status{.state = string(value, "state"),
                       .version = string(value, "version"),
                       .pid = number(value, "pid"),
                       .server = string(value, "server"),
                       .kubeconfig = string(value, "kubeconfig"),
                       .nodes = number(value, "nodes"),
                       .nodes_ready = field(value, "nodesReady") == nullptr ? -1 : number(value, "nodesReady"),
                       .gpus_per_node = string(value, "gpusPerNode")};
  if (const boost::json::value* parts = field(value, "parts"); parts != nullptr && parts->is_array()) {
    for (const boost::json::value& part : parts->get_array()) {
      status.parts.push_back({.name = string(part, "name"),
                              .pid = number(part, "pid"),
                              .port = number(part, "port"),
                              .restarts = number(part, "restarts"),
                              .last_end = string(part, "lastEnd")});
    }
  }
  if (status.pid <= 0 || status.state.empty())
    return absl::InvalidArgumentError("the status has no state or no process");
  return status;
}

absl::StatusOr<ClusterStatus> ReadStatus(const std::string& folder) {
  const absl::StatusOr<ProcessRecord> owner = OwnerOf(folder);
  if (!owner.ok()) return owner.status();
  const absl::StatusOr<std::string> text = ReadFile(folder + kFile, kMaxStatusFile);
  if (text.ok()) {
    absl::StatusOr<ClusterStatus> status = ParseStatus(*text);
    if (!status.ok() || status->pid == owner->pid) return status;
  }
  // Just started: it has not said anything yet.
  return ClusterStatus{.state = "starting", .pid = owner->pid};
}

absl::Status WriteStatus(const std::string& folder, const ClusterStatus& status) {
  return WriteFile(folder + kFile, FormatStatus(status), 0600);
}

}  // namespace tf::standalone
