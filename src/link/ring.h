// A ring of bytes in shared memory that carries frames from one writer to one reader. The memory is mapped twice in a
// row (shared_memory.h), so that a frame is contiguous wherever it lies.
//
// Layout of the stream: FrameHeader, payload, padding to 16 bytes. Positions count bytes since the start and never
// wrap; 2^64 bytes last longer than the machine.
//
// The peer is hostile. Each end keeps its own position to itself and only publishes it; the other's position and every
// header are read once, checked, and used from the copy. So the peer can corrupt what is sent, and nothing else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "link/frame.h"
#include "link/futex.h"

namespace tf::link {

struct RingControl {
  alignas(64) std::atomic<uint64_t> tail;  // the writer's position, published
  alignas(64) std::atomic<uint64_t> head;  // the reader's position, published
  alignas(64) Doorbell data;               // the reader sleeps here
  alignas(64) Doorbell space;              // the writer sleeps here
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

struct RingMemory {
  RingControl* control;
  std::byte* base;  // 2 * capacity bytes, the second half mirroring the first
  size_t capacity;  // multiple of 4096, at least FrameSpace(kMaxFrame)
};

// Bytes that a frame takes in the ring.
constexpr size_t FrameSpace(size_t payload) { return (sizeof(FrameHeader) + payload + 15) & ~size_t{15}; }

enum class RingState { kReady, kWait, kBroken };

class RingWriter {
 public:
  explicit RingWriter(const RingMemory& memory) : memory_(memory) {}

  // Room for a frame with `size` bytes of payload (at most kMaxFrame), at room().
  RingState TryReserve(size_t size) {
    const size_t need = FrameSpace(size);
    if (memory_.capacity - (tail_ - head_) < need) {
      const uint64_t head = memory_.control->head.load(std::memory_order_acquire);
      if (tail_ - head > tail_ - head_) return RingState::kBroken;  // beyond the tail, or going back
      head_ = head;
      if (memory_.capacity - (tail_ - head_) < need) return RingState::kWait;
    }
    return RingState::kReady;
  }
  std::byte* room() const { return memory_.base + offset_ + sizeof(FrameHeader); }

  // Publishes the frame whose payload was written to room(). header.size is the true size.
  void Commit(const FrameHeader& header) {
    std::memcpy(memory_.base + offset_, &header, sizeof(header));
    const size_t space = FrameSpace(header.size);
    tail_ += space;
    offset_ += space;
    if (offset_ >= memory_.capacity) offset_ -= memory_.capacity;
    memory_.control->tail.store(tail_, std::memory_order_release);
  }

  void WakeReader() { memory_.control->data.Ring(); }
  Doorbell& space_bell() { return memory_.control->space; }

 private:
  const RingMemory memory_;
  uint64_t tail_ = 0;
  uint64_t head_ = 0;  // last value seen that made sense
  size_t offset_ = 0;  // tail_ modulo capacity
};

class RingReader {
 public:
  explicit RingReader(const RingMemory& memory) : memory_(memory) {}

  // Gives back the previous frame and looks for the next one.
  RingState Next(FrameHeader& header, Bytes& payload) {
    Release();
    if (tail_ == head_) {
      const uint64_t tail = memory_.control->tail.load(std::memory_order_acquire);
      if (tail == head_) {
        PublishHead();
        return RingState::kWait;
      }
      if (tail - head_ > memory_.capacity) return RingState::kBroken;
      tail_ = tail;
    }
    const uint64_t available = tail_ - head_;
    if (available < sizeof(FrameHeader)) return RingState::kBroken;
    // Atomic loads: the compiler may not read a second time what a peer can change in between.
    auto* words = reinterpret_cast<uint64_t*>(memory_.base + offset_);
    const uint64_t copy[2] = {std::atomic_ref(words[0]).load(std::memory_order_relaxed),
                              std::atomic_ref(words[1]).load(std::memory_order_relaxed)};
    std::memcpy(&header, copy, sizeof(header));
    if (header.size > kMaxFrame || FrameSpace(header.size) > available) return RingState::kBroken;
    payload = Bytes(memory_.base + offset_ + sizeof(FrameHeader), header.size);
    held_ = FrameSpace(header.size);
    return RingState::kReady;
  }

  // Gives back the frame of the last Next. The writer hears of it in steps of an eighth of the ring.
  void Release() {
    head_ += held_;
    offset_ += held_;
    held_ = 0;
    if (offset_ >= memory_.capacity) offset_ -= memory_.capacity;
    if (head_ - published_ >= memory_.capacity / 8) PublishHead();
  }

  Doorbell& data_bell() { return memory_.control->data; }

 private:
  void PublishHead() {
    if (published_ == head_) return;
    published_ = head_;
    memory_.control->head.store(head_, std::memory_order_release);
    memory_.control->space.Ring();
  }

  const RingMemory memory_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;       // last value seen that made sense
  uint64_t published_ = 0;  // head that the writer was told
  size_t offset_ = 0;       // head_ modulo capacity
  size_t held_ = 0;         // space of the frame that the user looks at
};

}  // namespace tf::link
