// Handles given to programs: numbers that no pointer of this process can equal, made of a kind, a generation and an
// index. A handle that is stale, foreign, of another kind or garbage is not found; nothing is dereferenced.
//
// Find takes no lock. The object that it returns lives until the call that asked ends (see thread.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tf::cuda::driver {

enum class HandleKind : uint8_t {
  kContext = 0x11,
  kModule,
  kFunction,
  kLibrary,
  kKernel,
  kEvent,
  kStream,
  kPool,
};

// kind (8 bits) | generation (28) | index (24) | 0000
inline HandleKind KindOf(const void* handle) {
  return static_cast<HandleKind>(reinterpret_cast<uint64_t>(handle) >> 56);
}

template <class Handle, class T>
class HandleTable {
 public:
  explicit HandleTable(HandleKind kind) : kind_(kind) {}

  // nullptr: the table is full. `object` may be null: the handle exists, but Find does not find it until Set.
  Handle Add(T* object) {
    std::lock_guard lock(mutex_);
    uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == kChunks * kChunk) return nullptr;
      index = used_++;
      if (index % kChunk == 0) chunks_[index / kChunk].store(new Slot[kChunk], std::memory_order_release);
    }
    Slot& slot = Get(index);
    slot.object.store(object, std::memory_order_seq_cst);
    uint64_t generation = slot.generation.load(std::memory_order_relaxed);
    return reinterpret_cast<Handle>(static_cast<uint64_t>(kind_) << 56 | generation << 28 | uint64_t{index} << 4);
  }

  T* Find(Handle handle) const {
    const Slot* slot = Lookup(handle);
    if (slot == nullptr) return nullptr;
    // The object first: a slot that is used anew gets its generation before its object.
    T* object = slot->object.load(std::memory_order_seq_cst);
    return slot->generation.load(std::memory_order_acquire) == Generation(handle) ? object : nullptr;
  }

  // Whether the handle is one that Remove has not ended, whatever it stands for.
  bool Exists(Handle handle) const {
    const Slot* slot = Lookup(handle);
    return slot != nullptr && slot->generation.load(std::memory_order_acquire) == Generation(handle);
  }

  // Replaces what an existing handle stands for.
  void Set(Handle handle, T* object) { Get(Index(handle)).object.store(object, std::memory_order_seq_cst); }

  // Ends a handle. Returns what it stood for, to be retired by the caller; nullptr: somebody else ended it.
  T* Remove(Handle handle) {
    std::lock_guard lock(mutex_);
    if (!Exists(handle)) return nullptr;
    Slot& slot = Get(Index(handle));
    T* object = slot.object.exchange(nullptr, std::memory_order_seq_cst);
    uint32_t next = (slot.generation.load(std::memory_order_relaxed) + 1) & kGenerationMask;
    slot.generation.store(next == 0 ? 1 : next, std::memory_order_release);
    free_.push_back(Index(handle));
    return object;
  }

 private:
  struct Slot {
    std::atomic<uint32_t> generation{1};
    std::atomic<T*> object{nullptr};
  };
  static constexpr uint32_t kChunk = 1024, kChunks = 16384, kGenerationMask = (1u << 28) - 1;

  static uint64_t Number(Handle handle) { return reinterpret_cast<uint64_t>(handle); }
  static uint32_t Index(Handle handle) { return (Number(handle) >> 4) & 0xffffff; }
  static uint32_t Generation(Handle handle) { return (Number(handle) >> 28) & kGenerationMask; }

  const Slot* Lookup(Handle handle) const {
    if (Number(handle) >> 56 != static_cast<uint64_t>(kind_) || (Number(handle) & 15) != 0) return nullptr;
    const Slot* chunk = chunks_[Index(handle) / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &chunk[Index(handle) % kChunk];
  }
  Slot& Get(uint32_t index) { return chunks_[index / kChunk].load(std::memory_order_acquire)[index % kChunk]; }

  const HandleKind kind_;
  std::unique_ptr<std::atomic<Slot*>[]> chunks_{new std::atomic<Slot*>[kChunks] {}};
  std::mutex mutex_;
  uint32_t used_ = 0;
  std::vector<uint32_t> free_;
};

}  // namespace tf::cuda::driver
