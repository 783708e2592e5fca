// The volumes of a pod: what is in them, and how it gets to disk.
//
// emptyDir and hostPath are folders. Secret, ConfigMap, downwardAPI and projected volumes have contents, a Payload,
// computed from the pod and what it names (pure), and written as the kubelet does: the files lie in a fresh folder,
// `..data` is a link to it that is swapped in one step, and each name in the volume is a link through `..data`. A
// reader sees all old files or all new ones, and file watchers see the swap.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kube/object.h"
#include "process_node/environment.h"

namespace tf::process_node {

struct PayloadFile {
  std::string bytes = {};
  mode_t mode = 0644;
  bool operator==(const PayloadFile&) const = default;
};
using Payload = std::map<std::string, PayloadFile>;  // by path in the volume

// A service-account token that a projected volume asks for.
struct TokenNeed {
  std::string audience = {};
  int64_t expiration_seconds = 3600;
  auto operator<=>(const TokenNeed&) const = default;
};
std::vector<TokenNeed> TokensOf(const kube::Json& pod);

// nullopt: not there yet.
using TokenLookup = std::function<std::optional<std::string>(const TokenNeed& need)>;

// True for a volume that has a Payload.
bool HasPayload(const kube::Json& volume);

// FailedPrecondition, in the kubelet's words, when something that is not optional is missing.
absl::StatusOr<Payload> PayloadOf(const kube::Json& pod, const kube::Json& volume, const std::string& pod_ip,
                                  const NodeFacts& node, const Lookup& lookup, const TokenLookup& tokens);

// Writes `payload` to `folder` (made when missing). Nothing is touched when it is there already.
absl::Status WritePayload(const std::string& folder, const Payload& payload);

// Folder of a volume without a Payload: made for emptyDir, checked or made by its type for hostPath. Unimplemented for
// kinds that process nodes do not have.
absl::StatusOr<std::string> FolderOf(const kube::Json& volume, const std::string& own_folder);

// Where each volumeMount of a container leads.
struct Mount {
  std::string volume;
  std::string source;  // on this machine
  std::string target;  // in the container
  bool read_only = false;
};
absl::StatusOr<std::vector<Mount>> MountsOf(const kube::Json& container, const Variables& env,
                                            const std::map<std::string, std::string>& volume_folders);

}  // namespace tf::process_node
