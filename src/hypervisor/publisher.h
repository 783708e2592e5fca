// Keeps the GPU objects of this node, and what the GPUNode says of the node, as the driver says. What is written is
// decided in gpu_objects.h; this reads the driver, looks at the server's objects through caches of this node's alone,
// and writes what differs.
//
// A pass runs when one of these objects changes and each `interval`, for a driver tells nobody when a card vanishes.
// Where the driver cannot be read nothing is written: that is no sign that the cards are gone.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/gpu.h"
#include "hypervisor/gpu_objects.h"
#include "kube/manager.h"

namespace tf::hypervisor {

struct PublisherOptions {
  Place place = {};
  HardwareTable hardware = {};
  absl::Duration interval = absl::Seconds(10);
  std::function<absl::StatusOr<cuda::MonitorReport>()> read_driver = {};
  std::function<NodeFacts()> read_node = {};
  std::function<std::optional<int32_t>(const cuda::DeviceFacts&)> numa_node = {};
};

class Publisher {
 public:
  // Adds itself to the manager, with the check "gpus" of /readyz and metrics of the cards; both outlive it.
  Publisher(kube::Manager& manager, PublisherOptions options);

 private:
  absl::StatusOr<kube::Result> Reconcile();
  absl::Status Publish(const api::GPUNode& gpu_node, const cuda::MonitorReport& report);
  absl::Status Write(const api::GPUNode& gpu_node, const Card& card);
  absl::StatusOr<api::GPU> Create(const api::GPUNode& gpu_node, const Card& card);
  // OK: the object of another node is ours to take.
  absl::Status MayTake(const api::GPU& gpu);
  bool IsReady();
  // An event says it when it cannot be.
  void SetReady(absl::Status status);
  void Measure(const cuda::MonitorReport& report);

  kube::Manager& manager_;
  const PublisherOptions options_;
  kube::Informer& gpus_;
  kube::Informer& gpu_nodes_;
  std::mutex mutex_;
  absl::Status ready_ = absl::UnavailableError("the GPUs of this node are not published yet");
};

}  // namespace tf::hypervisor
