#include "kube/client.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "http/client.h"
#include "kube/config.h"
#include "kube/credentials.h"
#include "kube/error.h"
#include "kube/parse_briefly.h"
#include "kube/trim.h"
#include "kube/watch_parser.h"

namespace tf::kube {
namespace {

constexpr int kMaxRetryAfter = 10;
constexpr size_t kMaxAnswer = size_t{1} << 30;  // bytes: a list that is not paged may be large
constexpr int kConflictTries = 5;
constexpr absl::Duration kConflictPause = absl::Milliseconds(10);

constexpr char kJsonType[] = "application/json";
constexpr char kDiscoveryType[] =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

std::string Encode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (unsigned char c : text) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~') {
      encoded += static_cast<char>(c);
    } else {
      encoded += {'%', kHex[c >> 4], kHex[c & 15]};
    }
  }
  return encoded;
}

class Query {
 public:
  // Leaves out what is empty.
  void Add(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    text_ += text_.empty() ? '?' : '&';
    text_ += name;
    text_ += '=';
    text_ += Encode(value);
  }
  void Add(std::string_view name, bool value) { Add(name, std::string_view(value ? "true" : "")); }
  void Add(std::string_view name, const char* value) { Add(name, std::string_view(value)); }
  void AddNumber(std::string_view name, int64_t value) { Add(name, std::string_view(std::to_string(value))); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Where a kind is found. A segment that is empty where there must be one would name something else: InvalidArgument.
absl::StatusOr<std::string> PathOf(const Resource& resource, std::string_view ns, std::optional<std::string_view> name,
                                   std::string_view subresource = "") {
  std::string path = resource.group.empty() ? absl::StrCat("/api/", resource.version)
                                            : absl::StrCat("/apis/", resource.group, "/", resource.version);
  if (resource.namespaced && !ns.empty()) absl::StrAppend(&path, "/namespaces/", Encode(ns));
  absl::StrAppend(&path, "/", resource.plural);
  if (name.has_value()) {
    if (name->empty() || *name == "." || *name == "..") {
      return absl::InvalidArgumentError(absl::StrCat("a ", resource.kind, " without a name cannot be called"));
    }
    if (resource.namespaced && ns.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(resource.kind, " ", std::string(*name), ": a namespace is needed, for the kind is namespaced"));
    }
    absl::StrAppend(&path, "/", Encode(*name));
  }
  if (!subresource.empty()) absl::StrAppend(&path, "/", std::string(subresource));
  return path;
}

std::string MetadataType(bool list) {
  return absl::StrCat("application/json;as=PartialObjectMetadata", list ? "List" : "", ";g=meta.k8s.io;v=v1");
}

std::string_view PatchContentType(PatchType type) {
  switch (type) {
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kStrategic:
      return "application/strategic-merge-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";
  }
  return "";
}

Query WriteQuery(const WriteOptions& options) {
  Query query;
  query.Add("fieldManager", options.field_manager);
  query.Add("dryRun", options.dry_run ? "All" : "");
  return query;
}

std::string DeleteBody(const DeleteOptions& options) {
  Json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  JsonObject& fields = body.get_object();
  if (options.grace_period_seconds.has_value()) fields["gracePeriodSeconds"] = *options.grace_period_seconds;
  if (!options.propagation.empty()) fields["propagationPolicy"] = options.propagation;
  if (!options.uid.empty()) EnsureField(body, "preconditions.uid") = options.uid;
  if (!options.resource_version.empty()) {
    EnsureField(body, "preconditions.resourceVersion") = options.resource_version;
  }
  if (options.dry_run) fields["dryRun"] = JsonArray{"All"};
  return boost::json::serialize(body);
}

std::string HostOf(const std::string& server) {
  const size_t begin = server.find("://");
  const size_t host = begin == std::string::npos ? 0 : begin + 3;
  return server.substr(host, server.find('/', host) - host);
}

// Seconds, as API servers send it. Dates, which HTTP allows too, are not used there.
absl::Duration RetryAfter(const http::ClientResponse& response) {
  const std::string_view text = response.Header("retry-after");
  int64_t seconds = 0;
  if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &seconds) || seconds < 0) {
    return absl::ZeroDuration();
  }
  return absl::Seconds(seconds);
}

}  // namespace

struct Client::State {
  struct Request {
    std::string method = "GET";
    std::string target;  // path and query
    std::string body = {};
    std::string content_type = {};
    std::string accept = kJsonType;
    // A stream: `limit` of the options is until its head, then only silence ends it.
    const std::function<bool(std::string_view)>* sink = nullptr;
    absl::Duration silence_limit = absl::InfiniteDuration();
    bool fresh_connection = false;
  };

  State(std::shared_ptr<const Config> used, std::string user_agent)
      : config(std::move(used)),
        clock(config->clock == nullptr ? RealClock() : *config->clock),
        host(HostOf(config->server)),
        base(config->server),
        credentials(config),
        http({}, config->proxy_url, std::move(user_agent)) {
    while (!base.empty() && base.back() == '/') base.pop_back();
  }

  const std::shared_ptr<const Config> config;
  Clock& clock;
  const std::string host;
  std::string base;
  Credentials credentials;
  http::Client http;

  std::mutex mutex;
  uint64_t tls_version = 0;  // of `http`
  std::vector<Resource> discovered;
  bool aggregated = false;  // `discovered` has all groups

  // A 2xx answer, or the error that it stands for.
  absl::StatusOr<http::ClientResponse> Call(const Request& request, const CallOptions& options);
  absl::StatusOr<http::ClientResponse> CallOnce(const Request& request, const CallOptions& options,
                                                absl::Duration limit);
  absl::StatusOr<Json> CallForJson(const Request& request, const CallOptions& options);
  // False when cancelled.
  bool Pause(absl::Duration pause, http::Cancel* cancel);

  absl::Status DiscoverAll(const CallOptions& options);
  absl::Status DiscoverOne(const std::string& group, const std::string& version, const CallOptions& options);
};

bool Client::State::Pause(absl::Duration pause, http::Cancel* cancel) {
  std::mutex waiting;
  std::condition_variable changed;
  bool cancelled = false;
  std::optional<http::Cancel::Waker> waker;
  if (cancel != nullptr) {
    waker.emplace(*cancel, [&] {
      std::lock_guard lock(waiting);
      cancelled = true;
      changed.notify_all();
    });
  }
  std::unique_lock lock(waiting);
  const bool ended = clock.WaitUntil(lock, changed, clock.Monotonic() + pause, [&] { return cancelled; });
  lock.unlock();
  return !ended;
}

absl::StatusOr<http::ClientResponse> Client::State::CallOnce(const Request& request, const CallOptions& options,
                                                             absl::Duration limit) {
  const absl::Duration deadline = RealClock().Monotonic() + limit;
  for (bool again = false;; again = true) {
    absl::StatusOr<Credentials::Shown> shown = credentials.Get(deadline - RealClock().Monotonic(), options.cancel);
    if (!shown.ok()) return shown.status();
    {
      std::lock_guard lock(mutex);
      if (shown->version > tls_version) {
        http.SetTls(*shown->tls);
        tls_version = shown->version;
      }
    }
    absl::Duration left = std::max(deadline - RealClock().Monotonic(), absl::Milliseconds(1));
    http::ClientRequest call{.method = request.method, .url = base + request.target, .body = request.body};
    call.headers.emplace_back("Accept", request.accept);
    if (!request.content_type.empty()) call.headers.emplace_back("Content-Type", request.content_type);
    if (!shown->authorization.empty()) call.headers.emplace_back("Authorization", shown->authorization);
    if (!config->as.empty()) call.headers.emplace_back("Impersonate-User", config->as);
    if (!config->as_uid.empty()) call.headers.emplace_back("Impersonate-Uid", config->as_uid);
    for (const std::string& group : config->as_groups) call.headers.emplace_back("Impersonate-Group", group);
    for (const auto& [key, value] : config->as_extra) {
      call.headers.emplace_back("Impersonate-Extra-" + Encode(key), value);
    }
    if (config->admit_write && request.method != "GET") {
      const absl::StatusOr<absl::Duration> admitted = config->admit_write();
      if (!admitted.ok()) return admitted.status();
      left = std::min(left, *admitted);
    }
    call.connect_limit = std::min(call.connect_limit, left);
    call.total_limit = request.sink == nullptr ? left : absl::InfiniteDuration();
    call.head_limit = left;
    call.silence_limit = request.silence_limit;
    call.max_body = kMaxAnswer;
    call.fresh_connection = request.fresh_connection;

    const absl::Duration start = RealClock().Monotonic();
    absl::StatusOr<http::ClientResponse> response =
        request.sink == nullptr ? http.Call(call, options.cancel) : http.Stream(call, *request.sink, options.cancel);
    if (config->seen) {
      config->seen({.code = response.ok() ? std::to_string(response->status) : std::string("<error>"),
                    .method = request.method,
                    .host = host,
                    .duration = RealClock().Monotonic() - start});
    }
    // A 401 was not carried out, so there is no harm in asking again with a newer token.
    if (response.ok() && response->status == 401 && !again && credentials.Refused(*shown)) continue;
    return response;
  }
}

absl::StatusOr<http::ClientResponse> Client::State::Call(const Request& request, const CallOptions& options) {
  const absl::Duration deadline = clock.Monotonic() + options.limit;
  for (int retries = 0;; ++retries) {
    absl::StatusOr<http::ClientResponse> response = CallOnce(request, options, deadline - clock.Monotonic());
    if (!response.ok() || response->status / 100 == 2) return response;
    const absl::Duration pause = RetryAfter(*response);
    const bool asked = response->Header("retry-after") != "" && (response->status == 429 || response->status == 503);
    if (asked && retries < kMaxRetryAfter && clock.Monotonic() + pause < deadline) {
      if (!Pause(pause, options.cancel)) return absl::CancelledError("cancelled");
      continue;
    }
    return StatusFromBody(response->status, response->body, pause);
  }
}

absl::StatusOr<Json> Client::State::CallForJson(const Request& request, const CallOptions& options) {
  absl::StatusOr<http::ClientResponse> response = Call(request, options);
  if (!response.ok()) return response.status();
  absl::StatusOr<Json> json = ParseJson(response->body);
  if (!json.ok()) {
    return absl::DataLossError(absl::StrCat(request.method, " ", request.target.substr(0, request.target.find('?')),
                                            ": the answer is ", json.status().message()));
  }
  return json;
}

Client::Client(std::shared_ptr<const Config> config, std::string user_agent)
    : state_(std::make_unique<State>(std::move(config), std::move(user_agent))) {}

Client::~Client() = default;

absl::StatusOr<Json> Client::Get(const Resource& resource, const Key& key, const CallOptions& options) {
  return GetSubresource(resource, key, "", options);
}

absl::StatusOr<ListPage> Client::ListOnePage(const Resource& resource, std::string_view ns,
                                             const ListOptions& options) {
  absl::StatusOr<std::string> path = PathOf(resource, ns, std::nullopt);
  if (!path.ok()) return path.status();
  Query query;
  query.Add("labelSelector", options.label_selector);
  query.Add("fieldSelector", options.field_selector);
  if (options.page_size > 0) query.AddNumber("limit", options.page_size);
  query.Add("continue", options.continue_token);
  if (options.continue_token.empty()) {  // the token has a version of its own
    query.Add("resourceVersion", options.resource_version);
    query.Add("resourceVersionMatch", options.resource_version_match);
  }
  absl::StatusOr<http::ClientResponse> response = state_->Call(
      {.target = *path + query.text(), .accept = options.metadata_only ? MetadataType(true) : kJsonType}, options);
  if (!response.ok()) return response.status();

  ListPage page;
  const std::string api_version = options.metadata_only ? "meta.k8s.io/v1" : resource.ApiVersion();
  const std::string kind = options.metadata_only ? "PartialObjectMetadata" : resource.kind;
  absl::Status parsed = ParseBriefly(response->body, [&](Json& list) {
    const Json* version = Field(list, "metadata.resourceVersion");
    Json* items = list.is_object() ? list.get_object().if_contains("items") : nullptr;
    if (version == nullptr || items == nullptr || !(items->is_array() || items->is_null())) {
      return absl::DataLossError(absl::StrCat(*path, ": the answer is no list"));
    }
    page.resource_version = Text(list, "metadata.resourceVersion");
    page.continue_token = Text(list, "metadata.continue");
    if (items->is_null()) return absl::OkStatus();
    page.items.reserve(items->get_array().size());
    for (Json& item : items->get_array()) {
      if (!item.is_object()) return absl::DataLossError(absl::StrCat(*path, ": an item of the list is no object"));
      // Items of typed lists have neither.
      item.get_object().emplace("apiVersion", api_version);
      item.get_object().emplace("kind", kind);
      page.items.push_back(options.keep != nullptr ? (*options.keep)(item) : Compact(item));
    }
    return absl::OkStatus();
  });
  if (!parsed.ok()) {
    return absl::IsDataLoss(parsed) ? parsed
                                    : absl::DataLossError(absl::StrCat(*path, ": the answer is ", parsed.message()));
  }
  return page;
}

absl::StatusOr<ListPage> Client::List(const Resource& resource, std::string_view ns, const ListOptions& options) {
  ListOptions ask = options;
  ListPage all;
  bool restarted = false;
  for (;;) {
    absl::StatusOr<ListPage> page = ListOnePage(resource, ns, ask);
    if (!page.ok()) {
      // The rest of the list is too old by now: begin again, but not for ever.
      if (!IsExpired(page.status()) || ask.continue_token == options.continue_token || restarted) return page.status();
      restarted = true;
      ask.continue_token = options.continue_token;
      all = {};
      continue;
    }
    all.resource_version = std::move(page->resource_version);
    if (all.items.empty()) {
      all.items = std::move(page->items);
    } else {
      all.items.insert(all.items.end(), std::make_move_iterator(page->items.begin()),
                       std::make_move_iterator(page->items.end()));
    }
    if (page->continue_token.empty()) return all;
    if (page->continue_token == ask.continue_token) {
      return absl::DataLossError("the server continues a list with the page that it has just given");
    }
    ask.continue_token = std::move(page->continue_token);
  }
}

absl::Status Client::Watch(const Resource& resource, std::string_view ns, const WatchOptions& options,
                           const std::function<bool(WatchEvent)>& sink) {
  absl::StatusOr<std::string> path = PathOf(resource, ns, std::nullopt);
  if (!path.ok()) return path.status();
  Query query;
  query.Add("watch", true);
  query.Add("labelSelector", options.label_selector);
  query.Add("fieldSelector", options.field_selector);
  query.Add("resourceVersion", options.resource_version);
  query.Add("allowWatchBookmarks", options.bookmarks || options.send_initial_events);
  query.AddNumber("timeoutSeconds", absl::ToInt64Seconds(options.server_timeout));
  if (options.send_initial_events) {
    query.Add("sendInitialEvents", true);
    query.Add("resourceVersionMatch", "NotOlderThan");
  }
  WatchParser parser(sink, options.keep);
  const std::function<bool(std::string_view)> feed = [&](std::string_view bytes) { return parser.Feed(bytes); };
  absl::StatusOr<http::ClientResponse> response = state_->Call(
      {.target = *path + query.text(),
       .accept = options.metadata_only ? MetadataType(false) : kJsonType,
       .sink = &feed,
       .silence_limit = options.silence_limit > absl::ZeroDuration() ? options.silence_limit
                                                                     : options.server_timeout + absl::Seconds(15),
       // What was cut may look alive: a watch never goes over a connection that lay idle.
       .fresh_connection = true},
      options);
  if (!parser.status().ok()) return parser.status();
  if (!response.ok()) return response.status();
  return parser.Finish();
}

absl::StatusOr<Json> Client::Create(const Resource& resource, const Json& object, const WriteOptions& options) {
  if (resource.namespaced && Namespace(object).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(resource.kind, ": metadata.namespace is needed to create one"));
  }
  absl::StatusOr<std::string> path = PathOf(resource, Namespace(object), std::nullopt);
  if (!path.ok()) return path.status();
  return state_->CallForJson({.method = "POST",
                              .target = *path + WriteQuery(options).text(),
                              .body = boost::json::serialize(object),
                              .content_type = kJsonType},
                             options);
}

absl::StatusOr<Json> Client::Update(const Resource& resource, const Json& object, const WriteOptions& options) {
  return UpdateSubresource(resource, KeyOf(object), "", object, options);
}

absl::StatusOr<Json> Client::UpdateStatus(const Resource& resource, const Json& object, const WriteOptions& options) {
  return UpdateSubresource(resource, KeyOf(object), "status", object, options);
}

absl::StatusOr<Json> Client::Patch(const Resource& resource, const Key& key, const Json& patch,
                                   const PatchOptions& options, std::string_view subresource) {
  if (options.type == PatchType::kApply && options.field_manager.empty()) {
    return absl::InvalidArgumentError("server-side apply needs a field_manager: the name that owns the fields");
  }
  absl::StatusOr<std::string> path = PathOf(resource, key.ns, key.name, subresource);
  if (!path.ok()) return path.status();
  Query query = WriteQuery(options);
  if (options.type == PatchType::kApply) query.Add("force", options.force);
  return state_->CallForJson({.method = "PATCH",
                              .target = *path + query.text(),
                              .body = boost::json::serialize(patch),
                              .content_type = std::string(PatchContentType(options.type))},
                             options);
}

absl::Status Client::Delete(const Resource& resource, const Key& key, const DeleteOptions& options) {
  absl::StatusOr<std::string> path = PathOf(resource, key.ns, key.name);
  if (!path.ok()) return path.status();
  return state_
      ->Call({.method = "DELETE", .target = *path, .body = DeleteBody(options), .content_type = kJsonType}, options)
      .status();
}

absl::Status Client::DeleteCollection(const Resource& resource, std::string_view ns, const ListOptions& which,
                                      const DeleteOptions& options) {
  if (resource.namespaced && ns.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("deletecollection of ", resource.plural, " needs a namespace"));
  }
  absl::StatusOr<std::string> path = PathOf(resource, ns, std::nullopt);
  if (!path.ok()) return path.status();
  Query query;
  query.Add("labelSelector", which.label_selector);
  query.Add("fieldSelector", which.field_selector);
  return state_
      ->Call(
          {.method = "DELETE", .target = *path + query.text(), .body = DeleteBody(options), .content_type = kJsonType},
          options)
      .status();
}

absl::StatusOr<Json> Client::GetSubresource(const Resource& resource, const Key& key, std::string_view subresource,
                                            const CallOptions& options) {
  absl::StatusOr<std::string> path = PathOf(resource, key.ns, key.name, subresource);
  if (!path.ok()) return path.status();
  return state_->CallForJson({.target = *path}, options);
}

absl::StatusOr<Json> Client::CreateSubresource(const Resource& resource, const Key& key, std::string_view subresource,
                                               const Json& body, const WriteOptions& options) {
  absl::StatusOr<std::string> path = PathOf(resource, key.ns, key.name, subresource);
  if (!path.ok()) return path.status();
  return state_->CallForJson({.method = "POST",
                              .target = *path + WriteQuery(options).text(),
                              .body = boost::json::serialize(body),
                              .content_type = kJsonType},
                             options);
}

absl::StatusOr<Json> Client::UpdateSubresource(const Resource& resource, const Key& key, std::string_view subresource,
                                               const Json& body, const WriteOptions& options) {
  absl::StatusOr<std::string> path = PathOf(resource, key.ns, key.name, subresource);
  if (!path.ok()) return path.status();
  return state_->CallForJson({.method = "PUT",
                              .target = *path + WriteQuery(options).text(),
                              .body = boost::json::serialize(body),
                              .content_type = kJsonType},
                             options);
}

absl::Status Client::Log(const Key& pod, const LogOptions& options, const std::function<bool(std::string_view)>& sink) {
  absl::StatusOr<std::string> path = PathOf(core::kPod, pod.ns, pod.name, "log");
  if (!path.ok()) return path.status();
  Query query;
  query.Add("container", options.container);
  query.Add("follow", options.follow);
  query.Add("previous", options.previous);
  query.Add("timestamps", options.timestamps);
  if (options.tail_lines.has_value()) query.AddNumber("tailLines", *options.tail_lines);
  return state_
      ->Call({.target = *path + query.text(),
              .accept = "*/*",
              .sink = &sink,
              .silence_limit = options.follow ? absl::InfiniteDuration() : options.limit},
             options)
      .status();
}

absl::StatusOr<std::string> Client::Raw(std::string_view method, std::string_view path, std::string_view body,
                                        const CallOptions& options) {
  if (path.empty() || path.front() != '/') {
    return absl::InvalidArgumentError(absl::StrCat("\"", std::string(path), "\" is no path: it begins with /"));
  }
  absl::StatusOr<http::ClientResponse> response = state_->Call({.method = std::string(method),
                                                                .target = std::string(path),
                                                                .body = std::string(body),
                                                                .content_type = body.empty() ? "" : kJsonType,
                                                                .accept = "application/json, */*"},
                                                               options);
  if (!response.ok()) return response.status();
  return std::move(response->body);
}

// The aggregated form: every group of the server in two answers.
absl::Status Client::State::DiscoverAll(const CallOptions& options) {
  std::vector<Resource> found;
  for (const char* path : {"/api", "/apis"}) {
    absl::StatusOr<Json> list = CallForJson({.target = path, .accept = kDiscoveryType}, options);
    if (!list.ok()) return list.status();
    if (Text(*list, "kind") != "APIGroupDiscoveryList") return absl::UnimplementedError("not offered");
    const Json* groups = Field(*list, "items");
    if (groups == nullptr || !groups->is_array()) continue;
    for (const Json& group : groups->get_array()) {
      const Json* versions = Field(group, "versions");
      if (versions == nullptr || !versions->is_array()) continue;
      for (const Json& version : versions->get_array()) {
        const Json* resources = Field(version, "resources");
        if (resources == nullptr || !resources->is_array()) continue;
        for (const Json& resource : resources->get_array()) {
          found.push_back({.group = std::string(Name(group)),
                           .version = std::string(Text(version, "version")),
                           .plural = std::string(Text(resource, "resource")),
                           .kind = std::string(Text(resource, "responseKind.kind")),
                           .namespaced = Text(resource, "scope") == "Namespaced"});
        }
      }
    }
  }
  std::lock_guard lock(mutex);
  discovered = std::move(found);
  return absl::OkStatus();
}

absl::Status Client::State::DiscoverOne(const std::string& group, const std::string& version,
                                        const CallOptions& options) {
  const std::string path = group.empty() ? "/api/" + version : absl::StrCat("/apis/", group, "/", version);
  absl::StatusOr<Json> list = CallForJson({.target = path}, options);
  if (!list.ok()) return list.status();
  std::vector<Resource> found;
  if (const Json* resources = Field(*list, "resources"); resources != nullptr && resources->is_array()) {
    for (const Json& resource : resources->get_array()) {
      std::string plural(Text(resource, "name"));
      if (plural.find('/') != std::string::npos) continue;  // a subresource
      found.push_back({.group = group,
                       .version = version,
                       .plural = std::move(plural),
                       .kind = std::string(Text(resource, "kind")),
                       .namespaced = Flag(resource, "namespaced")});
    }
  }
  std::lock_guard lock(mutex);
  std::erase_if(discovered, [&](const Resource& r) { return r.group == group && r.version == version; });
  discovered.insert(discovered.end(), found.begin(), found.end());
  return absl::OkStatus();
}

absl::StatusOr<Resource> Client::Discover(std::string_view group_version, std::string_view kind,
                                          const CallOptions& options) {
  const size_t slash = group_version.find('/');
  const std::string group(slash == group_version.npos ? "" : group_version.substr(0, slash));
  const std::string version(slash == group_version.npos ? group_version : group_version.substr(slash + 1));
  auto find = [&]() -> std::optional<Resource> {
    std::lock_guard lock(state_->mutex);
    for (const Resource& resource : state_->discovered) {
      if (resource.group == group && resource.version == version && resource.kind == kind) return resource;
    }
    return std::nullopt;
  };
  if (std::optional<Resource> known = find()) return *known;
  absl::Status asked = state_->DiscoverAll(options);
  if (absl::IsUnimplemented(asked)) asked = state_->DiscoverOne(group, version, options);
  if (!asked.ok() && !kube::IsNotFound(asked)) return asked;
  if (std::optional<Resource> known = find()) return *known;
  return absl::NotFoundError(absl::StrCat("the API server serves no kind ", std::string(kind), " in ",
                                          std::string(group_version), "; is its CustomResourceDefinition installed?"));
}

absl::StatusOr<Json> RetryOnConflict(Client& client, const Resource& resource, const Key& key,
                                     const std::function<absl::StatusOr<bool>(Json&)>& change,
                                     std::string_view subresource) {
  thread_local std::minstd_rand random(std::random_device{}());
  for (int tries = 1;; ++tries) {
    absl::StatusOr<Json> object = client.Get(resource, key);
    if (!object.ok()) return object;
    absl::StatusOr<bool> write = change(*object);
    if (!write.ok()) return write.status();
    if (!*write) return object;
    absl::StatusOr<Json> written = client.UpdateSubresource(resource, key, subresource, *object);
    if (written.ok() || !IsConflict(written.status()) || tries == kConflictTries) return written;
    const double jitter = std::uniform_real_distribution<double>(1, 2)(random);
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(kConflictPause * jitter));
  }
}

}  // namespace tf::kube
