// How a revision is written: CONFIG, CONFIG-EXTRA or CONFIG-EXTRA.EXTRA…
//
// CONFIG is a digest of the component's block of the pool (rollout/digest.h); the history keeps the block under it.
// EXTRA is a digest of what else reaches a pod: the content of Secrets and ConfigMaps of its namespace, its vendor's
// provider settings, the last restart that a person asked for; none, where there is nothing of that. A pod has one
// EXTRA at most; a pool's revision has one for each that its pods are made with, or, beyond kMaxExtras, a digest of
// them all. So a pod of one revision and a pod of another can be told apart without what the Secrets contained then.
// Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kube/object.h"

namespace tf::operators {

inline constexpr size_t kMaxExtras = 4;

struct Revision {
  std::string config = {};
  std::set<std::string> extras = {};  // "" is one too: pods that nothing else reaches

  static Revision Parse(std::string_view text);  // of anything: what is no revision equals none
  std::string Text() const;
  // Was a pod that carries `pod` started as a pod of this revision?
  bool Includes(const Revision& pod) const;
  bool operator==(const Revision&) const = default;
};

// CONFIG of a block as a pool has it. What is accepted and reaches no pod (gpu_pool.h marks it) is not in it.
std::string ConfigDigest(const kube::Json& block);
// EXTRA; "" of an empty object.
std::string ExtraDigest(const kube::JsonObject& extra);

// A vendor and namespace in which pods of a component are or are to be.
struct PlaceOfPods {
  std::string extra = {};                   // that a pod would be started with now
  std::set<std::string> started_with = {};  // EXTRAs of the pods that are there
};

// The pool's revision now: the one before as long as nothing that pods were started with has changed. Neither the first
// pod nor the last one of a namespace is a new revision, least of all one that makes a rollout that was rolled back
// begin again. `at_rest`: no rollout is under way or was rolled back; then the revision takes up what pods of new
// places were started with, so that they are known by it when that changes.
Revision NextRevision(const Revision& before, const std::string& config, const std::vector<PlaceOfPods>& places,
                      bool at_rest);

}  // namespace tf::operators
