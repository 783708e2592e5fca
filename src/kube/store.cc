#include "kube/store.h"

#include <charconv>
#include <exception>

#include "absl/strings/str_cat.h"

namespace tf::kube {

namespace {

std::vector<std::string> ValuesOf(const Store::IndexFunction& function, const Json& object) {
  try {
    return function(object);
  } catch (const std::exception&) {
    return {};
  }
}

bool SameObject(const ObjectPtr& a, const ObjectPtr& b) { return Uid(*a) == Uid(*b); }

}  // namespace

std::optional<uint64_t> ParseVersion(std::string_view text) {
  uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version == 0) return std::nullopt;
  return version;
}

Store::Store(std::vector<std::pair<std::string, IndexFunction>> indexes) {
  for (auto& [name, function] : indexes) indexes_.push_back({std::move(name), std::move(function), {}});
}

Store::Verdict Store::Apply(WatchEvent::Type type, ObjectPtr object, std::vector<Change>& changes) {
  const std::optional<uint64_t> version = ParseVersion(ResourceVersion(*object));
  if (!version || Name(*object).empty()) return Verdict::kBad;
  const std::lock_guard<std::mutex> lock(mutex_);
  // A watch tells in order: what is older than the newest seen was seen, or was missed together with a later deletion
  // that a list has made good.
  if (*version < version_) return Verdict::kOld;
  const Key key = KeyOf(*object);
  const auto found = entries_.find(key);
  if (type == WatchEvent::Type::kDeleted) {
    if (found == entries_.end() || *version < found->second.version) return Verdict::kOld;
    version_ = *version;
    // The deletion of an object that we never saw also says that the one we know is gone.
    const bool stale = !SameObject(found->second.object, object);
    Delete(key, stale ? ObjectPtr(found->second.object) : object, stale, changes);
    return Verdict::kApplied;
  }
  if (found == entries_.end()) {
    version_ = *version;
    Add(key, *version, object, changes);
    return Verdict::kApplied;
  }
  if (*version <= found->second.version) return Verdict::kOld;
  version_ = *version;
  if (SameObject(found->second.object, object)) {
    Update(found->second, *version, object, changes);
  } else {
    Delete(key, ObjectPtr(found->second.object), true, changes);
    Add(key, *version, object, changes);
  }
  return Verdict::kApplied;
}

Store::Verdict Store::Bookmark(uint64_t version) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (version < version_) return Verdict::kOld;
  version_ = version;
  return Verdict::kApplied;
}

absl::Status Store::Replace(std::vector<ObjectPtr> objects, uint64_t version, bool accept_older,
                            std::vector<Change>& changes, int64_t& bad) {
  absl::flat_hash_map<Key, Entry> listed;
  for (ObjectPtr& object : objects) {
    const std::optional<uint64_t> at = ParseVersion(ResourceVersion(*object));
    if (!at || Name(*object).empty()) {
      ++bad;
      continue;
    }
    Entry& entry = listed[KeyOf(*object)];
    if (*at > entry.version) entry = {*at, std::move(object)};
  }
  objects.clear();

  const std::lock_guard<std::mutex> lock(mutex_);
  if (version < version_ && !accept_older) {
    return absl::FailedPreconditionError(absl::StrCat("the server's list is of resource version ", version,
                                                      ", older than ", version_, ", which it has told before"));
  }
  const bool back = version < version_;
  std::vector<Key> gone;
  for (const auto& [key, entry] : entries_) {
    if (!listed.contains(key) && (back || entry.version <= version)) gone.push_back(key);
  }
  for (const Key& key : gone) Delete(key, ObjectPtr(entries_.at(key).object), true, changes);
  for (auto& [key, entry] : listed) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      Add(key, entry.version, entry.object, changes);
      continue;
    }
    Entry& known = found->second;
    if (entry.version == known.version || (entry.version < known.version && !back)) continue;
    if (entry.version > known.version && SameObject(known.object, entry.object)) {
      Update(known, entry.version, entry.object, changes);
    } else {
      Delete(key, ObjectPtr(known.object), true, changes);
      Add(key, entry.version, entry.object, changes);
    }
  }
  version_ = version;
  return absl::OkStatus();
}

ObjectPtr Store::Get(const Key& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second.object;
}

std::vector<ObjectPtr> Store::All() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ObjectPtr> all;
  all.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) all.push_back(entry.object);
  return all;
}

std::vector<ObjectPtr> Store::ByIndex(std::string_view index, std::string_view value) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Index& each : indexes_) {
    if (each.name != index) continue;
    const auto found = each.objects.find(std::string(value));
    if (found == each.objects.end()) return {};
    return {found->second.begin(), found->second.end()};
  }
  return {};
}

size_t Store::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

uint64_t Store::version() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return version_;
}

void Store::Add(const Key& key, uint64_t version, const ObjectPtr& object, std::vector<Change>& changes) {
  entries_[key] = {version, object};
  IndexAdd(object);
  changes.push_back({.kind = Change::Kind::kAdded, .object = object});
}

void Store::Update(Entry& entry, uint64_t version, const ObjectPtr& object, std::vector<Change>& changes) {
  IndexRemove(entry.object);
  IndexAdd(object);
  changes.push_back({.kind = Change::Kind::kUpdated, .before = std::move(entry.object), .object = object});
  entry = {version, object};
}

void Store::Delete(const Key& key, const ObjectPtr& last_seen, bool stale, std::vector<Change>& changes) {
  const auto found = entries_.find(key);
  IndexRemove(found->second.object);
  entries_.erase(found);
  changes.push_back({.kind = Change::Kind::kDeleted, .object = last_seen, .stale = stale});
}

void Store::IndexAdd(const ObjectPtr& object) {
  for (Index& index : indexes_) {
    for (std::string& value : ValuesOf(index.function, *object)) index.objects[std::move(value)].insert(object);
  }
}

void Store::IndexRemove(const ObjectPtr& object) {
  for (Index& index : indexes_) {
    for (const std::string& value : ValuesOf(index.function, *object)) {
      const auto found = index.objects.find(value);
      if (found == index.objects.end()) continue;
      found->second.erase(object);
      if (found->second.empty()) index.objects.erase(found);
    }
  }
}

}  // namespace tf::kube
