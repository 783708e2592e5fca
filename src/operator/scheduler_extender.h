// What kube-scheduler asks about pods that want cards: a scheduler extender over HTTP (kube-scheduler's extender/v1),
// with names only (nodeCacheCapable: true) and the binding of pods to nodes.
//
//   POST /filter      the nodes that have room for the pod; why others have none
//   POST /prioritize  0 to 10 for each of them
//   POST /bind        binds the pod, and writes the names of its cards into the same object at the same time
//
// It is asked about pods that request kVgpuResource (managedResources) and nothing else. The books (card_books.h) are
// made from the caches: nothing is answered before these are complete. Only the leader listens, so that one process
// decides. A bind that has no clear answer is settled by reading the pod.
//
// Once a minute the books are compared with the pods (metric tensor_fusion_card_books_corrections_total, which should
// stay 0).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "http/server.h"
#include "kube/manager.h"
#include "operator/caches.h"
#include "operator/card_books.h"
#include "operator/pod_cache.h"

namespace tf::operators {

class SchedulerExtender {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    uint16_t port = 0;
  };

  // Adds itself to the manager; all outlive it.
  SchedulerExtender(kube::Manager& manager, Caches& caches, PodCaches& pods, Options options);
  ~SchedulerExtender();

 private:
  absl::Status Start();
  void Stop();
  void AuditNowAndThen();
  void SetCard(const kube::Key& key);  // of a GPU
  void SetCardsOf(const char* index, std::string_view value);
  placement::Mode ModeOf(const std::string& pool) const;
  bool Synced() const;

  void Answer(const http::ServerRequest& request, http::ResponseWriter& writer);
  kube::Json Filter(const kube::Json& asked);
  absl::StatusOr<kube::Json> Prioritize(const kube::Json& asked);
  absl::Status Bind(const kube::Json& asked);

  kube::Manager& manager_;
  Caches& caches_;
  PodCaches& pods_;
  const Options options_;
  kube::Informer& templates_;
  prometheus::Counter& corrections_;
  CardBooks books_;
  std::unique_ptr<http::Server> server_;

  std::mutex cards_;  // one at a time writes down what a card is
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread auditor_;
};

}  // namespace tf::operators
