// A memory pool: stream-ordered memory of one card. What is freed stays reserved for reuse, in the order of the stream
// that freed it, until a wait finds more than the release threshold. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver_types.h"
#include "simgpu/context.h"

namespace tf::simgpu {

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  // max_size 0: as much as the card has.
  Pool(int device, uint64_t max_size) : device_(device), max_size_(max_size) {}

  int device() const { return device_; }

  // `stream` is where the memory will be used first.
  CUresult Allocate(Context& context, const std::shared_ptr<Stream>& stream, uint64_t bytes, uint64_t* address);
  // Memory that was taken from the context and is free once `points` are reached.
  void Free(Context& context, uint64_t address, const Context::Allocation& allocation, Point point);
  // Gives what is over back to the card, until `keep` bytes are reserved.
  void Trim(uint64_t keep);
  void TrimToThreshold();
  // Everything free, also what a stream still has to give up.
  void ReleaseAll();
  void DropContext(const Context& context);

  CUresult SetAttribute(int attribute, uint64_t value);
  CUresult GetAttribute(int attribute, uint64_t* value);

 private:
  struct Block {
    uint64_t address, reserved;
    std::weak_ptr<Context> context;
    const Context* owner;
    Point point;
  };
  void Release(size_t index);

  const int device_;
  const uint64_t max_size_;
  std::mutex mutex_;
  std::vector<Block> free_;
  uint64_t reserved_ = 0, reserved_high_ = 0, used_ = 0, used_high_ = 0, threshold_ = 0;
  std::map<int, uint64_t> switches_;
};

}  // namespace tf::simgpu
