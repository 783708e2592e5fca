// The Kubernetes API, one call per verb.
//
// Blocking and thread-safe. Every call has a time limit (options.limit), obeys Retry-After of 429 and 503 at most ten
// times within it, and retries nothing else: a write whose answer was lost is IsUnclear (error.h), and the caller reads
// before it writes again. Follows the Kubernetes API conventions and client-go's headers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "http/cancel.h"
#include "kube/object.h"

namespace tf::kube {

struct Config;  // config.h
class Trim;     // trim.h

struct CallOptions {
  absl::Duration limit = absl::Seconds(30);
  http::Cancel* cancel = nullptr;
};

struct ListOptions : CallOptions {
  std::string label_selector = {};
  std::string field_selector = {};
  std::string resource_version = {};        // "": the newest; "0": whatever the server has at hand
  std::string resource_version_match = {};  // "Exact" or "NotOlderThan"
  int64_t page_size = 500;                  // ListPage: objects an answer; 0: all. List reads all pages.
  std::string continue_token = {};
  bool metadata_only = false;             // PartialObjectMetadata
  std::shared_ptr<const Trim> keep = {};  // what of each object; null: all
};

struct ListPage {
  std::string resource_version = {};
  std::string continue_token = {};
  std::vector<ObjectPtr> items = {};  // apiVersion and kind are filled in
};

struct WatchOptions : CallOptions {  // `limit` is the time until the first byte of the answer's head
  std::string label_selector = {};
  std::string field_selector = {};
  std::string resource_version = {};
  absl::Duration server_timeout = absl::Minutes(8);  // asked of the server as timeoutSeconds
  absl::Duration silence_limit = absl::Seconds(0);   // 0: server_timeout + 15 s
  bool bookmarks = true;
  bool send_initial_events = false;  // WatchList; with resourceVersionMatch=NotOlderThan
  bool metadata_only = false;
  std::shared_ptr<const Trim> keep = {};  // what of each object; null: all. Bookmarks come whole.
};

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type;
  ObjectPtr object;
};

struct WriteOptions : CallOptions {
  std::string field_manager = {};
  bool dry_run = false;
};

enum class PatchType { kJson, kMerge, kStrategic, kApply };

struct PatchOptions : WriteOptions {
  PatchType type = PatchType::kMerge;
  bool force = false;  // kApply: take over fields of other managers
};

struct DeleteOptions : CallOptions {
  std::optional<int64_t> grace_period_seconds = {};
  std::string propagation = {};       // "Foreground", "Background", "Orphan"; "": the server's default
  std::string uid = {};               // precondition
  std::string resource_version = {};  // precondition
  bool dry_run = false;
};

struct LogOptions : CallOptions {  // `limit` is the time until the first byte of the answer's head
  std::string container = {};
  bool follow = false;
  bool previous = false;
  bool timestamps = false;
  std::optional<int64_t> tail_lines = {};
};

class Client {
 public:
  // `user_agent`: "tensor-fusion-operator/0.1.0".
  Client(std::shared_ptr<const Config> config, std::string user_agent);
  ~Client();

  absl::StatusOr<Json> Get(const Resource& resource, const Key& key, const CallOptions& options = {});
  absl::StatusOr<ListPage> List(const Resource& resource, std::string_view ns, const ListOptions& options = {});
  absl::StatusOr<ListPage> ListOnePage(const Resource& resource, std::string_view ns, const ListOptions& options = {});

  // Runs until the stream ends. Events come in order, on this thread; `sink` returns false to stop. OK: the server
  // ended it or `sink` stopped it. An ERROR event ends it with the Status that it carries.
  absl::Status Watch(const Resource& resource, std::string_view ns, const WatchOptions& options,
                     const std::function<bool(WatchEvent)>& sink);

  absl::StatusOr<Json> Create(const Resource& resource, const Json& object, const WriteOptions& options = {});
  // With the object's resourceVersion: Conflict when it has changed since.
  absl::StatusOr<Json> Update(const Resource& resource, const Json& object, const WriteOptions& options = {});
  absl::StatusOr<Json> UpdateStatus(const Resource& resource, const Json& object, const WriteOptions& options = {});
  absl::StatusOr<Json> Patch(const Resource& resource, const Key& key, const Json& patch,
                             const PatchOptions& options = {}, std::string_view subresource = "");
  absl::Status Delete(const Resource& resource, const Key& key, const DeleteOptions& options = {});
  absl::Status DeleteCollection(const Resource& resource, std::string_view ns, const ListOptions& which,
                                const DeleteOptions& options = {});

  // status, scale, eviction, binding, token, ephemeralcontainers …: POST, PUT or GET of `body` to it.
  absl::StatusOr<Json> GetSubresource(const Resource& resource, const Key& key, std::string_view subresource,
                                      const CallOptions& options = {});
  absl::StatusOr<Json> CreateSubresource(const Resource& resource, const Key& key, std::string_view subresource,
                                         const Json& body, const WriteOptions& options = {});
  absl::StatusOr<Json> UpdateSubresource(const Resource& resource, const Key& key, std::string_view subresource,
                                         const Json& body, const WriteOptions& options = {});

  // Bytes as they come; `sink` returns false to stop.
  absl::Status Log(const Key& pod, const LogOptions& options, const std::function<bool(std::string_view)>& sink);

  // Any path below the server, e.g. "/readyz", "/version": the body of a 2xx answer.
  absl::StatusOr<std::string> Raw(std::string_view method, std::string_view path, std::string_view body = "",
                                  const CallOptions& options = {});

  // Discovery, asked once and kept until a kind is not found in it.
  absl::StatusOr<Resource> Discover(std::string_view group_version, std::string_view kind,
                                    const CallOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads, changes, updates, and does so again after a Conflict (five tries, 10 ms apart with jitter). `change` may run
// several times, on a fresh object each; it returns false when nothing is to be written.
absl::StatusOr<Json> RetryOnConflict(Client& client, const Resource& resource, const Key& key,
                                     const std::function<absl::StatusOr<bool>(Json&)>& change,
                                     std::string_view subresource = "");

// The core kinds.
namespace core {
inline const Resource kPod{"", "v1", "pods", "Pod", true};
inline const Resource kNode{"", "v1", "nodes", "Node", false};
inline const Resource kNamespace{"", "v1", "namespaces", "Namespace", false};
inline const Resource kSecret{"", "v1", "secrets", "Secret", true};
inline const Resource kConfigMap{"", "v1", "configmaps", "ConfigMap", true};
inline const Resource kService{"", "v1", "services", "Service", true};
inline const Resource kServiceAccount{"", "v1", "serviceaccounts", "ServiceAccount", true};
inline const Resource kLease{"coordination.k8s.io", "v1", "leases", "Lease", true};
inline const Resource kEvent{"", "v1", "events", "Event", true};
inline const Resource kCustomResourceDefinition{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                                "CustomResourceDefinition", false};
inline const Resource kDeployment{"apps", "v1", "deployments", "Deployment", true};
inline const Resource kControllerRevision{"apps", "v1", "controllerrevisions", "ControllerRevision", true};
}  // namespace core

}  // namespace tf::kube
