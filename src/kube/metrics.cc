#include "kube/metrics.h"

#include <mutex>
#include <utility>

#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace tf::kube {

struct Metrics::State {
  prometheus::Registry registry;
  std::mutex mutex;  // held while updates run, so that none runs after its owner is gone
  int next = 0;
  std::map<int, std::function<void()>> updates;
};

std::vector<double> ExponentialBuckets(double first, double factor, int count) {
  std::vector<double> bounds;
  for (double bound = first; count > 0; bound *= factor, --count) bounds.push_back(bound);
  return bounds;
}

Metrics::Metrics() : state_(std::make_shared<State>()) {}
Metrics::~Metrics() = default;

prometheus::Counter& Metrics::Counter(const std::string& name, const std::string& help, const MetricLabels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(state_->registry).Add(labels);
}

prometheus::Gauge& Metrics::Gauge(const std::string& name, const std::string& help, const MetricLabels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(state_->registry).Add(labels);
}

prometheus::Histogram& Metrics::Histogram(const std::string& name, const std::string& help, const MetricLabels& labels,
                                          const std::vector<double>& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(state_->registry).Add(labels, buckets);
}

std::shared_ptr<void> Metrics::BeforeText(std::function<void()> update) {
  std::lock_guard lock(state_->mutex);
  const int id = state_->next++;
  state_->updates[id] = std::move(update);
  return std::shared_ptr<void>(nullptr, [state = state_, id](void*) {
    std::lock_guard lock(state->mutex);
    state->updates.erase(id);
  });
}

std::string Metrics::Text() const {
  {
    std::lock_guard lock(state_->mutex);
    for (const auto& [id, update] : state_->updates) update();
  }
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace tf::kube
