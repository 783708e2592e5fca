// Module images by content, shared by the sessions of a worker: a program that starts again need not send its kernels
// again. Bounded: the images used least recently go first. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tf::remoting {

class ModuleCache {
 public:
  explicit ModuleCache(size_t capacity_bytes = size_t{1} << 30) : capacity_(capacity_bytes) {}

  std::shared_ptr<const std::string> Find(const std::string& hash) {
    std::lock_guard lock(lock_);
    auto found = by_hash_.find(hash);
    if (found == by_hash_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->image;
  }
  void Add(const std::string& hash, std::shared_ptr<const std::string> image) {
    std::lock_guard lock(lock_);
    if (by_hash_.contains(hash) || image->size() > capacity_) return;
    bytes_ += image->size();
    order_.push_front({hash, std::move(image)});
    by_hash_[hash] = order_.begin();
    while (bytes_ > capacity_) {
      bytes_ -= order_.back().image->size();
      by_hash_.erase(order_.back().hash);
      order_.pop_back();
    }
  }

 private:
  struct Entry {
    std::string hash;
    std::shared_ptr<const std::string> image;
  };
  const size_t capacity_;
  std::mutex lock_;
  size_t bytes_ = 0;
  std::list<Entry> order_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_hash_;
};

}  // namespace tf::remoting
