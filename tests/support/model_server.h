// An API server's lists and watches of one kind, in memory: for tests and benchmarks that need more events than a real
// one can give, or that must decide what it forgets. It follows the documented semantics: versions that count over all
// objects, lists whole or in pages, watches from a version, WatchList, bookmarks, timeouts, 410 for what it has
// forgotten.
//
// Thread-safe. Objects are given as JSON texts without metadata; the server adds it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "support/scripted_server.h"

namespace tf::testing {

struct ModelServerOptions {
  std::string plural = "configmaps";  // of the core group
  std::string kind = "ConfigMap";
  bool watch_list = true;   // false: refuses WatchList, as older servers do
  size_t history = 20'000;  // events that a watch may be behind
  absl::Duration bookmark_every = absl::Seconds(1);
  bool tls = false;
};

class ModelServer {
 public:
  explicit ModelServer(ModelServerOptions options = {});
  ~ModelServer();

  // `fields`: the object's other members, as in `"data":{"a":"b"}`. `metadata`: more of metadata, as in `"labels":{}`.
  // Returns the version.
  uint64_t Put(const std::string& ns, const std::string& name, std::string_view fields, std::string_view metadata = "");
  uint64_t Delete(const std::string& ns, const std::string& name);  // 0: not there
  // Watches from before now find that what they need is gone.
  void Forget();

  uint64_t version() const;
  // Resource versions by "ns/name".
  std::map<std::string, uint64_t> Objects() const;
  ScriptedServer& server() { return *server_; }

 private:
  struct Object {
    uint64_t version;
    uint64_t uid;
    std::string head;  // {"metadata":{… without the version
    std::string json;
  };
  struct Event {
    uint64_t version;
    std::string ns;
    std::string line;
  };

  void Serve(const ScriptedRequest& request, Answer& answer);
  void List(const ScriptedRequest& request, const std::string& ns, Answer& answer);
  void Watch(const ScriptedRequest& request, const std::string& ns, Answer& answer);
  void Append(std::string_view type, const std::string& ns, const std::string& json);
  std::string Bookmark(uint64_t version, bool initial_events_end) const;

  const ModelServerOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  uint64_t version_ = 100;
  uint64_t forgotten_ = 100;  // events up to this are gone
  uint64_t uids_ = 0;
  std::map<std::string, Object> objects_;
  std::deque<std::shared_ptr<const Event>> events_;
  std::unique_ptr<ScriptedServer> server_;  // last: its threads use the rest
};

}  // namespace tf::testing
