// Finds the GPU nodes: one GPUNode for each node of the cluster that a pool takes, named like it and controlled by the
// pool (which one: node_selector.h).
//
// A cordoned node is not newly taken, but stays where it is. A node that is gone, or that no pool takes any more, loses
// its GPUNode; one that another pool takes loses it too, and gets a new one there once all of the old one is gone. The
// vendor's label is kept on GPUNode and node; on a node only where it is ours: a value that somebody else gave stays.
#pragma once

#include "kube/manager.h"
#include "operator/caches.h"
#include "operator/node_selector.h"

namespace tf::operators {

class NodeController {
 public:
  // Adds itself to the manager; both outlive it.
  NodeController(kube::Manager& manager, Caches& caches);

 private:
  absl::StatusOr<kube::Result> Reconcile(const kube::Key& key);
  absl::Status Create(const kube::Json& node, const kube::Json& pool, const PoolChoice& choice);
  absl::Status KeepInStep(const kube::Json& gpu_node, const kube::Json& pool, const PoolChoice& choice);
  absl::Status Delete(const kube::Json& gpu_node, const char* why);
  absl::Status SetVendor(const kube::Json* node, std::string_view before, std::string_view vendor);

  kube::Manager& manager_;
  Caches& caches_;
};

}  // namespace tf::operators
