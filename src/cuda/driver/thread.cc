#include "cuda/driver/thread.h"

#include <pthread.h>

#include <deque>
#include <mutex>

namespace tf::cuda::driver {
namespace {

struct Periods {
  std::atomic<uint64_t> now{1};
  std::atomic<ThreadState*> threads{nullptr};
  std::mutex mutex;
  struct Retired {
    uint64_t period;  // calls that began in an earlier period may know the object
    std::function<void()> free;
  };
  std::deque<Retired> retired;
  pthread_key_t key;

  Periods() {
    // Not a thread_local destructor: those of the main thread run before the program's last calls.
    pthread_key_create(&key, [](void* state) {
      auto thread = static_cast<ThreadState*>(state);
      current = nullptr;
      thread->in_use.store(false, std::memory_order_release);
    });
  }
  static thread_local ThreadState* current;
};
thread_local ThreadState* Periods::current = nullptr;

Periods& periods() {
  static Periods& instance = *new Periods;
  return instance;
}

ThreadState& NewThread() {
  Periods& all = periods();
  ThreadState* thread = nullptr;
  for (ThreadState* t = all.threads.load(std::memory_order_acquire); t != nullptr; t = t->next) {
    bool free = false;
    if (t->in_use.compare_exchange_strong(free, true, std::memory_order_acquire)) {
      thread = t;
      break;
    }
  }
  if (thread == nullptr) {
    thread = new ThreadState;
    thread->next = all.threads.load(std::memory_order_relaxed);
    while (!all.threads.compare_exchange_weak(thread->next, thread, std::memory_order_seq_cst)) {
    }
  }
  // default_streams stay: the next thread goes on with the streams that the last one left.
  thread->contexts.clear();
  thread->depth = 0;
  thread->per_thread_default_stream = thread->in_callback = false;
  thread->capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  Periods::current = thread;
  pthread_setspecific(all.key, thread);
  return *thread;
}

}  // namespace

ThreadState& Thread() {
  ThreadState* thread = Periods::current;
  return thread != nullptr ? *thread : NewThread();
}

CallScope::CallScope(ThreadState& thread) : thread_(thread) {
  if (thread_.depth++ == 0) {
    // Either a collector sees this store, or what it took out of a table before is not found by the loads that follow.
    thread_.period.store(periods().now.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
  }
}

void Retire(std::function<void()> free) {
  Periods& all = periods();
  std::vector<std::function<void()>> over;
  {
    std::lock_guard lock(all.mutex);
    all.retired.push_back({all.now.fetch_add(1, std::memory_order_seq_cst) + 1, std::move(free)});
    uint64_t oldest = UINT64_MAX;
    for (ThreadState* t = all.threads.load(std::memory_order_seq_cst); t != nullptr; t = t->next) {
      uint64_t period = t->period.load(std::memory_order_seq_cst);
      if (period != 0 && period < oldest) oldest = period;
    }
    while (!all.retired.empty() && all.retired.front().period <= oldest) {
      over.push_back(std::move(all.retired.front().free));
      all.retired.pop_front();
    }
  }
  for (std::function<void()>& function : over) function();
}

}  // namespace tf::cuda::driver
