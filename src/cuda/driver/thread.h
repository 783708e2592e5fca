// What the front keeps for each thread of the program, and the grace periods that let calls use shared objects without
// locks: an object that was taken out of its table is freed only after every call that was then under way has ended.
//
// Thread states are never destroyed, only handed to later threads, so that calls after static destructors work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/driver_types.h"

namespace tf::cuda::driver {

struct ThreadState {
  // The grace period in which the thread's present call began; 0 between calls.
  std::atomic<uint64_t> period{0};
  int depth = 0;  // calls within calls: a program's callback that occupancy functions call may call back
  bool per_thread_default_stream = false;
  bool in_callback = false;  // inside a host function: no CUDA calls
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

  std::vector<CUcontext> contexts;  // the stack; the last one is current
  struct DefaultStream {
    uint64_t context;  // numbers of the backend
    uint64_t stream;
  };
  std::vector<DefaultStream> default_streams;

  ThreadState* next = nullptr;  // all that were ever made
  std::atomic<bool> in_use{true};
};

ThreadState& Thread();

// A call of the program: objects found in tables stay alive until it ends.
class CallScope {
 public:
  explicit CallScope(ThreadState& thread);
  ~CallScope() {
    if (--thread_.depth == 0) thread_.period.store(0, std::memory_order_release);
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  ThreadState& thread_;
};

// Runs `free` when no call that is under way can know the object any more. Call it after the object left its table.
void Retire(std::function<void()> free);
template <class T>
void RetireObject(T* object) {
  if (object != nullptr) Retire([object] { delete object; });
}

}  // namespace tf::cuda::driver
