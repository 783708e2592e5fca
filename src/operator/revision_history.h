// The history of a component's configuration: apps/v1 ControllerRevisions in the operator's namespace.
//
// One for each different block of componentConfig that the pool had, newest last by `revision`, ten at most. Named
// POOL-COMPONENT-DIGEST; if something else has that name, with a number behind it. `data` is the block as the pool has
// it, which names Secrets and never contains what is in them. The pool owns them (it is cluster-scoped, so it may), and
// they go with it. What is wanted is worked out by a pure function; RevisionHistory is where they are read and written.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kube/manager.h"
#include "kube/object.h"
#include "operator/component_revision.h"

namespace tf::operators {

inline constexpr size_t kHistoryLimit = 10;

struct HistoryChange {
  std::optional<kube::Json> create = {};     // a ControllerRevision
  std::optional<std::string> renumber = {};  // the name of one that is the newest again, and
  int64_t revision = 0;                      // its number
  std::vector<kube::Json> remove = {};       // as they are known
  bool empty() const { return !create && !renumber && remove.empty(); }
};

// What is to be done so that the history ends with this block. `known`: all ControllerRevisions of the namespace that
// the operator sees. `taken`: names that the server has refused before, because somebody else has them. `in_use`:
// digests that must stay whatever their age. `pool`: with apiVersion, kind and UID.
HistoryChange ChangeOfHistory(const std::vector<kube::ObjectPtr>& known, const kube::Json& pool, Component component,
                              const std::string& ns, const std::string& digest, const kube::Json& block,
                              const std::set<std::string>& in_use, const std::set<std::string>& taken = {});

class RevisionHistory {
 public:
  // Before the manager runs.
  RevisionHistory(kube::Manager& manager, std::string ns);

  kube::Informer& informer() { return revisions_; }

  // The block with that digest; nullopt: the history does not have it (any more).
  std::optional<kube::Json> Find(const std::string& pool_uid, Component component, const std::string& digest) const;

  // True: Record would write something.
  bool NeedsRecord(const kube::Json& pool, Component component, const std::string& digest, const kube::Json& block,
                   const std::set<std::string>& in_use) const;
  absl::Status Record(const kube::Json& pool, Component component, const std::string& digest, const kube::Json& block,
                      const std::set<std::string>& in_use);

 private:
  kube::Manager& manager_;
  const std::string ns_;
  kube::Informer& revisions_;
};

}  // namespace tf::operators
