// A context of a simulated card: its memory, its streams and their order, its error.
//
// Thread-safe. Shared by all who work in it. Destroy must be called before the last of them lets go; after it the
// context has no memory and no threads and answers CUDA_ERROR_CONTEXT_IS_DESTROYED.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/backend.h"
#include "simgpu/device.h"
#include "simgpu/host_memory.h"
#include "simgpu/ptx/executor.h"
#include "simgpu/stream.h"

namespace tf::simgpu {

class Pool;

class Context : public std::enable_shared_from_this<Context> {
 public:
  static absl::StatusOr<std::shared_ptr<Context>> Create(uint64_t id, Device& device);

  uint64_t id() const { return id_; }
  Device& device() { return device_; }
  CardUser& card() { return *card_; }
  void SetEvents(cuda::BackendEvents* events) { events_ = events; }

  // --- Errors. The first fault of a kernel stays and is the answer to everything that follows.
  CUresult error() const { return error_.load(std::memory_order_acquire); }
  void Poison(CUresult error);
  // Set when the context ends: kernels stop, waits end.
  const std::atomic<bool>& stop() const { return stop_; }

  // --- Streams. Stream 0 is the legacy default stream: it waits for all blocking streams, and they for it.
  CUresult StreamCreate(uint64_t id, bool blocking);
  CUresult StreamDestroy(uint64_t id);
  // Orders `run` behind what is in the stream, what the default stream's rules ask for, and `after`. `run` is not
  // called when the context has ended or failed by then. INVALID_HANDLE: no such stream.
  CUresult Enqueue(uint64_t stream, std::function<void()> run, std::vector<Point> after = {}, Point* point = nullptr,
                   bool always = false);
  // Runs `run` now on this thread, ordered as Enqueue does, if nothing is before it; else false.
  bool RunNow(uint64_t stream, const std::function<void()>& run);
  // Where the stream, with what the default stream's rules add, is now.
  CUresult Points(uint64_t stream, std::vector<Point>* points);
  std::vector<Point> AllPoints();
  void WaitIdle();
  std::shared_ptr<Stream> FindStream(uint64_t id);
  // What every wait of the program does when it is over: shows the output, gives back what pools have to spare.
  void AfterWait();

  // --- Memory. Addresses come back with kNone or the access that kernels shall have.
  struct Allocation {
    uint64_t bytes;     // as asked for
    uint64_t reserved;  // as taken from the card
    std::shared_ptr<Pool> pool;
  };
  CUresult Allocate(uint64_t bytes, PageMap::Access access, std::shared_ptr<Pool> pool, uint64_t* address);
  // Forgets the allocation that begins at `address`. False: there is none.
  bool Take(uint64_t address, Allocation* allocation);
  bool Find(uint64_t address, Allocation* allocation);
  // The memory of something taken goes back to the card.
  void GiveBack(uint64_t address, const Allocation& allocation);
  // The memory of something taken, as an allocation of a new size within what it reserved.
  void Restore(uint64_t address, Allocation allocation);
  const std::shared_ptr<PageMap>& pages() const { return pages_; }
  // Contexts whose memory kernels of this one may reach.
  CUresult PeerEnable(Context& peer);
  CUresult PeerDisable(uint64_t peer);
  std::vector<std::shared_ptr<PageMap>> peers();
  const std::shared_ptr<Pool>& default_pool() const { return default_pool_; }
  ptx::Heap& heap() { return heap_; }

  // --- Output of kernels, kept until somebody waits for them.
  void Print(std::string_view text);
  void FlushOutput();

  CUresult SetLimit(int limit, uint64_t value);
  CUresult GetLimit(int limit, uint64_t* value);

  // Kernels that run end, those that are queued do not run.
  void Abandon();
  // Lets work that has been given finish for a moment, then stops it. Frees everything.
  void Destroy();

 private:
  // Memory for malloc in kernels: taken from the card when the first kernel asks.
  class DeviceHeap : public ptx::Heap {
   public:
    explicit DeviceHeap(Context& context) : context_(context) {}
    uint64_t Allocate(uint64_t bytes) override;
    void Free(uint64_t address) override;

   private:
    Context& context_;
    std::mutex mutex_;
    uint64_t region_ = 0;
    std::map<uint64_t, uint64_t> gaps_, used_;
  };

  Context(uint64_t id, Device& device, std::shared_ptr<CardUser> card, std::shared_ptr<PageMap> pages);
  std::shared_ptr<Stream> Lookup(uint64_t id);
  std::vector<Point> Before(const std::shared_ptr<Stream>& stream);
  void ReapStreams();

  const uint64_t id_;
  Device& device_;
  std::shared_ptr<CardUser> card_;
  std::shared_ptr<PageMap> pages_;
  cuda::BackendEvents* events_ = nullptr;
  std::shared_ptr<Pool> default_pool_;
  DeviceHeap heap_{*this};

  std::atomic<CUresult> error_{CUDA_SUCCESS};
  std::atomic<bool> stop_{false};

  std::mutex order_mutex_;  // the order of operations between streams; taken before the mutex of a stream
  bool destroyed_ = false;
  std::unordered_map<uint64_t, std::shared_ptr<Stream>> streams_;
  std::shared_ptr<Stream> legacy_;
  std::vector<std::shared_ptr<Stream>> closing_;

  std::mutex memory_mutex_;
  std::map<uint64_t, Allocation> allocations_;
  std::set<std::shared_ptr<Pool>> pools_;  // that have had memory of this context
  std::map<uint64_t, std::shared_ptr<PageMap>> peers_;
  std::array<uint64_t, CU_LIMIT_MAX> limits_{};

  std::mutex output_mutex_, flush_mutex_;
  std::string output_;
};

}  // namespace tf::simgpu
