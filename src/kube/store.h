// The objects that an informer knows, with indexes: events and full lists go in, what has changed comes out.
//
// Versions are resource versions: numbers that grow over all objects of a kind. The store never goes back: an event or
// a list older than what it has seen changes nothing, and what is older than the stored state of the same object is
// dropped. Whoever is told all changes sees, for each key, Added, Updated any number of times, Deleted, and so on; an
// object that was deleted and made again (another UID) is Deleted and Added even when nobody saw the deletion.
//
// Objects are shared and immutable. Thread-safe; changes come out in the order in which the calls went in.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "kube/client.h"
#include "kube/object.h"

namespace tf::kube {

struct Change {
  enum class Kind { kAdded, kUpdated, kDeleted };
  Kind kind;
  ObjectPtr before = {};  // kUpdated
  ObjectPtr object = {};  // kDeleted: the last state that is known
  bool stale = false;     // kDeleted: the deletion itself was missed, `object` may be older than what was deleted
};

// A resource version as a number; nullopt for anything else than digits, and for 0.
std::optional<uint64_t> ParseVersion(std::string_view text);

class Store {
 public:
  // What an object is found under in an index; must give the same for the same object. Throws nothing that matters: an
  // object whose function throws is in no list of that index.
  using IndexFunction = std::function<std::vector<std::string>(const Json&)>;

  explicit Store(std::vector<std::pair<std::string, IndexFunction>> indexes = {});

  enum class Verdict {
    kApplied,
    kOld,  // a repetition, or older than what is known
    kBad,  // no name or no resource version
  };

  // One event of a watch that is no bookmark. Appends what has changed to `changes`.
  Verdict Apply(WatchEvent::Type type, ObjectPtr object, std::vector<Change>& changes);

  // Nothing up to `version` is to come any more.
  Verdict Bookmark(uint64_t version);

  // All objects as of `version`: what is missing was deleted. FailedPrecondition, and nothing changes, when `version`
  // is older than what is known; with `accept_older` the store follows (the server was set back), and each object whose
  // state goes back is Deleted and Added. `bad` counts objects without name or resource version; they are left out.
  absl::Status Replace(std::vector<ObjectPtr> objects, uint64_t version, bool accept_older,
                       std::vector<Change>& changes, int64_t& bad);

  ObjectPtr Get(const Key& key) const;  // null: not there
  std::vector<ObjectPtr> All() const;
  std::vector<ObjectPtr> ByIndex(std::string_view index, std::string_view value) const;
  size_t size() const;
  uint64_t version() const;  // the newest seen; 0: none

 private:
  struct Entry {
    uint64_t version = 0;
    ObjectPtr object = {};
  };
  struct Index {
    std::string name;
    IndexFunction function;
    absl::flat_hash_map<std::string, absl::flat_hash_set<ObjectPtr>> objects;
  };

  // All with mutex_ held.
  void Add(const Key& key, uint64_t version, const ObjectPtr& object, std::vector<Change>& changes);
  void Update(Entry& entry, uint64_t version, const ObjectPtr& object, std::vector<Change>& changes);
  void Delete(const Key& key, const ObjectPtr& last_seen, bool stale, std::vector<Change>& changes);
  void IndexAdd(const ObjectPtr& object);
  void IndexRemove(const ObjectPtr& object);

  mutable std::mutex mutex_;
  uint64_t version_ = 0;
  absl::flat_hash_map<Key, Entry> entries_;
  std::vector<Index> indexes_;
};

}  // namespace tf::kube
