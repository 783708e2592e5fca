// What a program counts, and the page that Prometheus reads.
//
// Parts of the runtime report under the names that dashboards for controller-runtime and client-go expect; a program
// adds its own in the same way. The same name and labels give the same counter. References are valid as long as the
// Metrics. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"

namespace prometheus {
class Registry;
}

namespace tf::kube {

using MetricLabels = std::map<std::string, std::string>;

// `count` upper bounds in seconds: `first`, and each `factor` times the one before.
std::vector<double> ExponentialBuckets(double first, double factor, int count);

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  prometheus::Counter& Counter(const std::string& name, const std::string& help, const MetricLabels& labels);
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help, const MetricLabels& labels);
  prometheus::Histogram& Histogram(const std::string& name, const std::string& help, const MetricLabels& labels,
                                   const std::vector<double>& buckets);

  // `update` runs before each Text(), for levels that are worked out when somebody looks. It may not call Text. It does
  // not run any more once the answer has been released.
  [[nodiscard]] std::shared_ptr<void> BeforeText(std::function<void()> update);

  // In the text exposition format, version 0.0.4.
  std::string Text() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tf::kube
