// The pods that the operator looks at, as the caches of the manager keep them: those that it makes itself, and those of
// applications that want a vGPU. Trimmed to what is read, for there may be ten thousand of them. Made once, before
// Manager::Run, and shared by the controllers.
#pragma once

#include "kube/manager.h"

namespace tf::operators {

// Indexes.
inline constexpr char kPodsByNode[] = "node";              // spec.nodeName; "" where there is none yet
inline constexpr char kPodsByPool[] = "pool";              // label kPoolLabel
inline constexpr char kPodsByWorkload[] = "workload";      // "NAMESPACE/NAME", by label kWorkloadLabel; of clients: by
                                                           // kSelectedWorkloadAnnotation
inline constexpr char kPodsByConnection[] = "connection";  // "NAMESPACE/NAME", by kConnectionAnnotation

struct PodCaches {
  explicit PodCaches(kube::Manager& manager);

  kube::Informer& components;    // label kComponentLabel is hypervisor or worker
  kube::Informer& applications;  // label kEnabledLabel is "true"
};

}  // namespace tf::operators
