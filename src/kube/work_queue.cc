#include "kube/work_queue.h"

#include <algorithm>
#include <cmath>

namespace tf::kube {

struct WorkQueue::Reports {
  Reports(Metrics& metrics, const std::string& name)
      : depth(metrics.Gauge("workqueue_depth", "Keys that wait for a worker", Labels(name))),
        adds(metrics.Counter("workqueue_adds_total", "Keys added", Labels(name))),
        queued(metrics.Histogram("workqueue_queue_duration_seconds", "How long a key waited for a worker", Labels(name),
                                 Buckets())),
        worked(metrics.Histogram("workqueue_work_duration_seconds", "How long a worker had a key", Labels(name),
                                 Buckets())),
        unfinished(metrics.Gauge("workqueue_unfinished_work_seconds",
                                 "Sum of the times that workers have had their present keys", Labels(name))),
        longest(metrics.Gauge("workqueue_longest_running_processor_seconds",
                              "The longest time that a worker has had its present key", Labels(name))),
        retries(metrics.Counter("workqueue_retries_total", "Keys added again after a failure", Labels(name))) {}

  static MetricLabels Labels(const std::string& name) { return {{"name", name}, {"controller", name}}; }
  static std::vector<double> Buckets() { return ExponentialBuckets(1e-8, 10, 12); }

  prometheus::Gauge& depth;
  prometheus::Counter& adds;
  prometheus::Histogram& queued;
  prometheus::Histogram& worked;
  prometheus::Gauge& unfinished;
  prometheus::Gauge& longest;
  prometheus::Counter& retries;
};

WorkQueue::WorkQueue(WorkQueueOptions options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : RealClock()),
      own_metrics_(options_.metrics != nullptr ? nullptr : std::make_unique<Metrics>()),
      bucket_(options_.retry.burst),
      bucket_at_(clock_.Monotonic()) {
  Metrics& metrics = options_.metrics != nullptr ? *options_.metrics : *own_metrics_;
  reports_ = std::make_unique<Reports>(metrics, options_.name);
  hook_ = metrics.BeforeText([this] { Report(); });
}

WorkQueue::~WorkQueue() { hook_.reset(); }

void WorkQueue::Add(const Key& key) {
  std::lock_guard lock(mutex_);
  if (shut_down_) return;
  const absl::Duration now = clock_.Monotonic();
  MoveDueLocked(now);
  AddLocked(key, now);
}

void WorkQueue::AddLocked(const Key& key, absl::Duration since) {
  if (!dirty_.try_emplace(key, since).second) return;
  reports_->adds.Increment();
  if (!processing_.contains(key)) PushLocked(key);
}

void WorkQueue::PushLocked(const Key& key) {
  waiting_.push_back(key);
  changed_.notify_one();
}

void WorkQueue::AddAfter(const Key& key, absl::Duration delay) {
  std::lock_guard lock(mutex_);
  if (shut_down_) return;
  const absl::Duration now = clock_.Monotonic();
  MoveDueLocked(now);
  if (delay <= absl::ZeroDuration()) {
    AddLocked(key, now);
    return;
  }
  const absl::Duration due = now + delay;
  auto [known, fresh] = due_.try_emplace(key, due);
  if (!fresh) {
    if (known->second <= due) return;
    delayed_.erase({known->second, key});
    known->second = due;
  }
  // Everybody who waits must look at the new time: one alone might be called away by another key before it has come.
  const bool earliest = delayed_.empty() || due < delayed_.begin()->first;
  delayed_.insert({due, key});
  if (earliest) changed_.notify_all();
}

void WorkQueue::AddRateLimited(const Key& key) {
  absl::Duration delay;
  {
    std::lock_guard lock(mutex_);
    if (shut_down_) return;
    const RetryLimits& limits = options_.retry;
    const int before = failures_[key]++;
    // 2^62 times anything is beyond the longest.
    const absl::Duration own = std::min(limits.longest, limits.first * std::ldexp(1.0, std::min(before, 62)));
    const absl::Duration now = clock_.Monotonic();
    bucket_ = std::min<double>(limits.burst, bucket_ + absl::ToDoubleSeconds(now - bucket_at_) * limits.per_second);
    bucket_at_ = now;
    bucket_ -= 1;
    const absl::Duration turn = bucket_ >= 0 ? absl::ZeroDuration() : absl::Seconds(-bucket_ / limits.per_second);
    delay = std::max(own, turn);
    reports_->retries.Increment();
  }
  AddAfter(key, delay);
}

void WorkQueue::Forget(const Key& key) {
  std::lock_guard lock(mutex_);
  failures_.erase(key);
}

int WorkQueue::Failures(const Key& key) const {
  std::lock_guard lock(mutex_);
  const auto found = failures_.find(key);
  return found == failures_.end() ? 0 : found->second;
}

void WorkQueue::MoveDueLocked(absl::Duration now) {
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const auto [due, key] = *delayed_.begin();
    delayed_.erase(delayed_.begin());
    due_.erase(key);
    AddLocked(key, due);
  }
}

std::optional<Key> WorkQueue::Get() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const absl::Duration now = clock_.Monotonic();
    if (!shut_down_) MoveDueLocked(now);
    if (!waiting_.empty() && (!shut_down_ || draining_)) {
      Key key = std::move(waiting_.front());
      waiting_.pop_front();
      const auto wanted = dirty_.find(key);
      reports_->queued.Observe(absl::ToDoubleSeconds(now - wanted->second));
      dirty_.erase(wanted);
      processing_[key] = now;
      return key;
    }
    // While it drains, a key that is being worked on may come back.
    if (shut_down_ && (!draining_ || processing_.empty())) return std::nullopt;
    const absl::Duration due = delayed_.empty() ? absl::InfiniteDuration() : delayed_.begin()->first;
    clock_.WaitUntil(lock, changed_, due, [&] {
      return !waiting_.empty() || (shut_down_ && (!draining_ || processing_.empty())) ||
             (!delayed_.empty() && delayed_.begin()->first < due);
    });
  }
}

void WorkQueue::Done(const Key& key) {
  std::lock_guard lock(mutex_);
  const auto held = processing_.find(key);
  if (held == processing_.end()) return;
  const absl::Duration now = clock_.Monotonic();
  reports_->worked.Observe(absl::ToDoubleSeconds(now - held->second));
  processing_.erase(held);
  if (dirty_.contains(key)) {
    PushLocked(key);
  } else if (shut_down_ && processing_.empty()) {
    changed_.notify_all();
    drained_.notify_all();
  }
}

void WorkQueue::ShutDown(bool drain) {
  std::unique_lock lock(mutex_);
  if (drain && !shut_down_) draining_ = true;
  if (!drain) draining_ = false;
  shut_down_ = true;
  delayed_.clear();
  due_.clear();
  changed_.notify_all();
  drained_.notify_all();
  if (drain) drained_.wait(lock, [&] { return !draining_ || (waiting_.empty() && processing_.empty()); });
}

size_t WorkQueue::size() const {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

void WorkQueue::Report() {
  std::lock_guard lock(mutex_);
  const absl::Duration now = clock_.Monotonic();
  if (!shut_down_) MoveDueLocked(now);
  absl::Duration sum, longest;
  for (const auto& [key, since] : processing_) {
    sum += now - since;
    longest = std::max(longest, now - since);
  }
  reports_->depth.Set(static_cast<double>(waiting_.size()));
  reports_->unfinished.Set(absl::ToDoubleSeconds(sum));
  reports_->longest.Set(absl::ToDoubleSeconds(longest));
}

}  // namespace tf::kube
