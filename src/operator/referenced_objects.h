// What the Secrets and ConfigMaps contain that pod templates reference.
//
// The operator may read no more than that, and never keeps all Secrets of a cluster: each object is watched by itself,
// with a list and a watch of its namespace that select metadata.name=NAME, which the API server allows to a Role that
// names the object (resourceNames). The watch starts when a pool first asks for the object and ends when no pool uses
// it any more. One object costs one connection and one thread: meant for tens of objects, not for thousands.
//
// What a value is never leaves this class but through ValuesOf, for the licence; all others get digests. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kube/object.h"
#include "operator/references.h"

namespace tf::operators {

class ReferencedObjects {
 public:
  struct Name {
    Reference::Kind kind;
    std::string ns;
    std::string name;
    auto operator<=>(const Name&) const = default;
  };

  // `changed` runs on threads of the watches when an object has come, changed or gone; it must not block.
  ReferencedObjects(kube::Client& client, std::function<void()> changed, Clock* clock = nullptr);
  ~ReferencedObjects();  // Stop()
  void Stop();

  // Digests of all values that reach a pod of `ns`, by kind, name and key, in a canonical form: the same bytes give the
  // same value, whatever happened to the objects in between. Absent optional objects and keys are left out.
  // Unavailable: an object or a key that is not optional is not there, or cannot be read; the message names it.
  absl::StatusOr<kube::Json> Digests(const std::string& pool, const std::string& ns,
                                     const std::vector<Reference>& references);

  // All keys of an object and their bytes; nullopt: no such object. Unavailable: it cannot be read at the moment.
  using Values = std::map<std::string, std::string>;
  absl::StatusOr<std::optional<Values>> ValuesOf(const std::string& pool, const Name& name);

  // All that `pool` uses from now on: watches of what no pool uses end. What it asks for later is added.
  void Keep(const std::string& pool, std::set<Name> names);
  size_t watches() const;

 private:
  struct Watched;

  absl::StatusOr<kube::ObjectPtr> Read(const std::string& pool, const Name& name);

  kube::Client& client_;
  const std::function<void()> changed_;
  Clock* const clock_;
  mutable std::mutex mutex_;
  bool stopped_ = false;
  std::map<std::string, std::set<Name>> used_;  // by pool
  std::map<Name, std::shared_ptr<Watched>> watched_;
};

}  // namespace tf::operators
