// A local copy of the objects of one kind, kept up to date by list and watch, with handlers and indexes.
//
// One thread for each informer; it belongs to the informer. What a handler is told has an order: for each key Added,
// then Updated any number of times, then Deleted, and never back in time; an object that was deleted and made again is
// told as Deleted and Added even if nobody saw it happen. Handlers run one after the other, on the informer's thread
// (AddHandler to a running informer tells what is there already on the caller's thread), and must not block or call
// AddHandler or Stop: put the key into a WorkQueue. Objects are shared and immutable. Thread-safe.
//
// Resource versions are compared as numbers, so the kind's objects must come from one store that counts, as those of
// kube-apiserver and of CustomResourceDefinitions do. When to list and when to watch: reflector.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/client.h"
#include "kube/reflector.h"

namespace tf::kube {

struct Handler {
  std::function<void(const ObjectPtr& object, bool initial)> added = {};
  std::function<void(const ObjectPtr& before, const ObjectPtr& object)> updated = {};
  // `last_seen` may be older than what was deleted: the deletion itself was missed (`stale`).
  std::function<void(const ObjectPtr& last_seen, bool stale)> deleted = {};
};

struct InformerOptions {
  std::string ns = {};  // "": all namespaces
  std::string label_selector = {};
  std::string field_selector = {};
  bool metadata_only = false;
  // What of an object is kept; nothing: all of it. Paths of keys ("metadata", "spec.nodeName", "status.phase"), through
  // arrays too ("spec.containers.name"); metadata.name, .namespace, .uid and .resourceVersion are always kept.
  std::vector<std::string> keep = {};
  // Names of indexes and what an object, as it is kept, is found under in each.
  std::vector<std::pair<std::string, std::function<std::vector<std::string>(const Json&)>>> indexes = {};
  Clock* clock = nullptr;  // RealClock()
  ReflectorOptions reflector = {};
};

// Counted since the start: what went on under the surface.
struct InformerStats {
  int64_t lists = 0;                                // full lists, also by WatchList
  int64_t watches = 0;                              // watches begun
  int64_t events = 0;                               // events applied
  int64_t old_events = 0;                           // dropped: repeated, or older than what was known
  int64_t bad_objects = 0;                          // dropped: without name or resource version
  int64_t failures = 0;                             // lists and watches that ended with an error
  std::string last_error = {};                      // "": none yet
  std::map<std::string, int64_t> list_causes = {};  // of `lists`: see reflector.h
};

class Informer {
 public:
  // Does nothing before Start.
  Informer(Client& client, Resource resource, InformerOptions options);
  ~Informer();  // Stop()

  // Before or after Start; an informer that is synced tells a new handler all that it has as Added with initial.
  void AddHandler(Handler handler);
  void Start();
  void Stop();  // no handler runs after it

  bool synced() const;
  // Until the first full list is in the store and its handlers have run; DeadlineExceeded says what went wrong last.
  absl::Status WaitForSync(absl::Duration limit = absl::Minutes(2));

  ObjectPtr Get(const Key& key) const;  // null: not there
  std::vector<ObjectPtr> All() const;
  std::vector<ObjectPtr> ByIndex(std::string_view index, std::string_view value) const;
  size_t size() const;
  std::string resource_version() const;  // how far it has come
  InformerStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tf::kube
