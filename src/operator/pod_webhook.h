// The mutating webhook at /mutate-v1-pod: pods that opted in (label tensor-fusion.ai/enabled: "true") become pods that
// see their vGPU. It writes nothing to the API server, so a dry run is a run: workload and connection are made once the
// pod is there (client_controller.h). Mistakes of who makes the pod are answered 422 with what is wrong; what is
// missing on our side, 503.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/gpu_pool.h"
#include "kube/admission.h"
#include "kube/manager.h"
#include "operator/caches.h"
#include "operator/component_revision.h"

namespace tf::operators {

// What else there is in the cluster.
struct PodSurroundings {
  std::function<std::vector<kube::ObjectPtr>()> pools = {};
  std::function<kube::ObjectPtr(const kube::Key& key)> profile = {};
  std::function<absl::StatusOr<PodRevision>(const api::GPUPool& pool, const std::string& ns)> client = {};
  std::function<std::vector<std::string>()> native_resources = {};
  std::string endpoint = {};  // of this operator; "": pools must name one
  bool choose_cards = false;  // there is somebody who chooses them
};

// Pure, as far as `around` is.
kube::AdmissionResponse AdmitPod(const kube::AdmissionRequest& request, const PodSurroundings& around);

// The GPUPool of that name, of "" the default one. InvalidArgument says which there are.
absl::StatusOr<api::GPUPool> FindPool(const std::vector<kube::ObjectPtr>& pools, const std::string& name);

void AddPodWebhook(kube::Manager& manager, Caches& caches, ComponentRevisions& revisions, std::string endpoint,
                   bool choose_cards);

}  // namespace tf::operators
