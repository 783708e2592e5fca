// Changes of a pool's configuration, and the history that an undo takes it from. Pure: on objects as the server has
// them, so that nothing that a person wrote is lost.
//
// A pool's configuration is edited where people edit it: in the TensorFusionCluster that owns the GPUPool, or in the
// GPUPool itself where nobody owns it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kube/object.h"

namespace tf::tfctl {

// Which object holds the configuration of a pool.
struct Source {
  kube::Resource resource = {};
  std::string name = {};
  std::string entry = {};  // of spec.gpuPools; "": the object is the GPUPool

  // "TensorFusionCluster tensor-fusion, pool shared"
  std::string ToString() const;
};
// InvalidArgument: its owner's name and its own do not fit together.
absl::StatusOr<Source> SourceOf(const kube::Json& pool);

// The pool's spec in `object`, the Source's. NotFound: the TensorFusionCluster has no such pool.
absl::StatusOr<kube::Json*> PoolSpecIn(kube::Json& object, const Source& source);

// Change the spec; false: it was so already.
bool SetPaused(kube::Json& spec, bool paused);
bool SetComponent(kube::Json& spec, std::string_view component, const kube::Json& block);

// One entry of a component's history (api/names.h).
struct Revision {
  int64_t number = 0;
  std::string digest = {};
  std::string image = {};
  absl::Time created = absl::InfinitePast();
  kube::Json block = nullptr;
};
// Of the ControllerRevisions that the pool owns, oldest first. Its digest is in their label kRevisionLabel.
std::vector<Revision> RevisionsOf(const std::vector<kube::ObjectPtr>& controller_revisions, const kube::Json& pool,
                                  std::string_view component);

// Revision `number`; nullopt: the newest that differs from what `spec` has now. NotFound says what there is.
absl::StatusOr<Revision> RevisionToUndoTo(const std::vector<Revision>& revisions, const kube::Json& spec,
                                          std::string_view component, std::optional<int64_t> number);

// Which one the pool has now, and which one last ran on every node, is told.
std::string HistoryTable(const std::vector<Revision>& revisions, const kube::Json& pool, std::string_view component,
                         absl::Time now);
// [{"revision", "digest", "image", "created", "config"}]
kube::Json HistoryJson(const std::vector<Revision>& revisions);

}  // namespace tf::tfctl
