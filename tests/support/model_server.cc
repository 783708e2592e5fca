#include "support/model_server.h"

#include <chrono>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tf::testing {

namespace {

constexpr size_t kBatch = 64 << 10;  // bytes in a chunk

std::string Failure(int code, const std::string& reason, const std::string& message) {
  return absl::StrCat(R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")", message,
                      R"(","reason":")", reason, R"(","code":)", code, "}");
}

}  // namespace

ModelServer::ModelServer(ModelServerOptions options) : options_(std::move(options)) {
  server_ = std::make_unique<ScriptedServer>(
      [this](const ScriptedRequest& request, Answer& answer) { Serve(request, answer); }, options_.tls);
}

ModelServer::~ModelServer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  server_.reset();
}

uint64_t ModelServer::Put(const std::string& ns, const std::string& name, std::string_view fields,
                          std::string_view metadata) {
  const std::string key = absl::StrCat(ns, "/", name);
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_new = !objects_.contains(key);
  Object& object = objects_[key];
  if (is_new) object.uid = ++uids_;
  object.version = ++version_;
  object.head = absl::StrCat(R"({"kind":")", options_.kind, R"(","apiVersion":"v1","metadata":{"name":")", name,
                             R"(","namespace":")", ns, R"(","uid":"uid-)", object.uid, "\"");
  if (!metadata.empty()) {
    object.head += ',';
    object.head += metadata;
  }
  object.json = absl::StrCat(object.head, R"(,"resourceVersion":")", version_, "\"}");
  if (!fields.empty()) {
    object.json += ',';
    object.json += fields;
  }
  object.json += '}';
  Append(is_new ? "ADDED" : "MODIFIED", ns, object.json);
  return version_;
}

uint64_t ModelServer::Delete(const std::string& ns, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = objects_.find(absl::StrCat(ns, "/", name));
  if (found == objects_.end()) return 0;
  ++version_;
  Append("DELETED", ns, absl::StrCat(found->second.head, R"(,"resourceVersion":")", version_, "\"}}"));
  objects_.erase(found);
  return version_;
}

void ModelServer::Forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.clear();
  forgotten_ = version_;
}

void ModelServer::Append(std::string_view type, const std::string& ns, const std::string& json) {
  std::string line = R"({"type":")";
  line += type;
  line += R"(","object":)";
  line += json;
  line += "}\n";
  events_.push_back(std::make_shared<const Event>(Event{version_, ns, std::move(line)}));
  if (events_.size() > options_.history) {
    forgotten_ = events_.front()->version;
    events_.pop_front();
  }
  changed_.notify_all();
}

uint64_t ModelServer::version() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return version_;
}

std::map<std::string, uint64_t> ModelServer::Objects() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, uint64_t> objects;
  for (const auto& [key, object] : objects_) objects[key] = object.version;
  return objects;
}

void ModelServer::Serve(const ScriptedRequest& request, Answer& answer) {
  const std::string all = "/api/v1/" + options_.plural;
  const std::string before = "/api/v1/namespaces/";
  const std::string after = "/" + options_.plural;
  std::string ns;
  if (request.path.starts_with(before) && request.path.ends_with(after)) {
    ns = request.path.substr(before.size(), request.path.size() - before.size() - after.size());
  } else if (request.path != all) {
    answer.Send(404, Failure(404, "NotFound", "only one kind is served here"));
    return;
  }
  if (request.method != "GET") {
    answer.Send(405, Failure(405, "MethodNotAllowed", "read only"));
  } else if (request.IsWatch()) {
    Watch(request, ns, answer);
  } else {
    List(request, ns, answer);
  }
}

void ModelServer::List(const ScriptedRequest& request, const std::string& ns, Answer& answer) {
  std::string body;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::strtoull(request.Query("resourceVersion").c_str(), nullptr, 10) > version_) {
      answer.Send(504,
                  R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"Too large resource version",)"
                  R"("reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]},"code":504})");
      return;
    }
    body = absl::StrCat(R"({"kind":")", options_.kind, R"(List","apiVersion":"v1","metadata":{"resourceVersion":")",
                        version_, R"("},"items":[)");
    bool first = true;
    for (const auto& [key, object] : objects_) {
      if (!ns.empty() && !key.starts_with(ns + "/")) continue;
      if (!first) body += ',';
      first = false;
      body += object.json;
    }
    body += "]}";
  }
  answer.Send(200, body);
}

std::string ModelServer::Bookmark(uint64_t version, bool initial_events_end) const {
  return absl::StrCat(R"({"type":"BOOKMARK","object":{"kind":")", options_.kind,
                      R"(","apiVersion":"v1","metadata":{"resourceVersion":")", version, "\"",
                      initial_events_end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "", "}}}\n");
}

void ModelServer::Watch(const ScriptedRequest& request, const std::string& ns, Answer& answer) {
  const bool bookmarks = request.Query("allowWatchBookmarks") == "true";
  const bool initial = request.Query("sendInitialEvents") == "true";
  const absl::Time end = absl::Now() + absl::Seconds(std::atoi(request.Query("timeoutSeconds").c_str()));
  absl::Time bookmark = absl::Now() + options_.bookmark_every;
  uint64_t at = std::strtoull(request.Query("resourceVersion").c_str(), nullptr, 10);
  if (initial && !options_.watch_list) {
    answer.Send(422, Failure(422, "Invalid", "sendInitialEvents is forbidden"));
    return;
  }
  if (!answer.Begin()) return;
  std::string out;
  std::unique_lock<std::mutex> lock(mutex_);
  if (initial) {
    std::vector<std::string> objects;
    for (const auto& [key, object] : objects_) {
      if (ns.empty() || key.starts_with(ns + "/")) objects.push_back(object.json);
    }
    at = version_;
    lock.unlock();
    for (const std::string& object : objects) {
      out += R"({"type":"ADDED","object":)";
      out += object;
      out += "}\n";
      if (out.size() < kBatch) continue;
      if (!answer.Chunk(out)) return;
      out.clear();
    }
    if (!answer.Chunk(out + Bookmark(at, true))) return;
    lock.lock();
  }
  while (!ending_) {
    out.clear();
    if (at < forgotten_) {
      lock.unlock();
      answer.Chunk(R"({"type":"ERROR","object":)" + Failure(410, "Expired", "too old resource version") + "}\n");
      answer.End();
      return;
    }
    // Versions of events have no gaps.
    while (at < version_ && out.size() < kBatch) {
      const Event& event = *events_[at - forgotten_];
      if (ns.empty() || event.ns == ns) out += event.line;
      at = event.version;
    }
    const absl::Time now = absl::Now();
    if (bookmarks && out.empty() && now >= bookmark) {
      out = Bookmark(at, false);
      bookmark = now + options_.bookmark_every;
    }
    if (out.empty() && now < end) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      lock.unlock();
      const bool gone = answer.wire().PeerGone();
      lock.lock();
      if (gone) return;
      continue;
    }
    lock.unlock();
    if (!answer.Chunk(out)) return;
    if (now >= end) {
      answer.End();
      return;
    }
    lock.lock();
  }
}

}  // namespace tf::testing
