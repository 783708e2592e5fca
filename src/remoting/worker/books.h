// Device memory of one worker against its limit: what every session has reserved on each card, counted when it is
// reserved and not afterwards, so that concurrent allocations cannot pass the limit together. Bytes. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace tf::remoting {

class MemoryBooks {
 public:
  // limit: bytes on each card; nullopt: the card's own memory is the limit.
  MemoryBooks(int cards, std::optional<uint64_t> limit) : limit_(limit), used_(cards) {}

  std::optional<uint64_t> limit() const { return limit_; }
  // False when it would pass the limit; then nothing changed.
  bool Reserve(int card, uint64_t bytes) {
    std::lock_guard lock(lock_);
    if (limit_ && (bytes > *limit_ || used_[card] > *limit_ - bytes)) return false;
    used_[card] += bytes;
    return true;
  }
  void Release(int card, uint64_t bytes) {
    std::lock_guard lock(lock_);
    used_[card] -= bytes;
  }
  uint64_t used(int card) const {
    std::lock_guard lock(lock_);
    return used_[card];
  }

 private:
  const std::optional<uint64_t> limit_;
  mutable std::mutex lock_;
  std::vector<uint64_t> used_;
};

}  // namespace tf::remoting
