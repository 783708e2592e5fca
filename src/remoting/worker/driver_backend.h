// Executes the operations of one session on a CUDA driver, through its public interface only, simulated or genuine.
//
// Every name that a client uses (contexts, streams, events, modules, pools, tokens, addresses) is looked up in the
// session's own tables; a session cannot name what is another's. Contexts are created for the session and never shared,
// so that the driver keeps the address spaces of sessions apart. Everything that a session holds is given back by the
// destructor.
//
// Threads: operations come from the session's thread. HostFunctionDone, FetchData and AddRegionFd come from the control
// thread; the Pendings that operations return are awaited on any thread.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/driver_functions.h"
#include "cuda/wire_ops.h"
#include "link/fd.h"
#include "remoting/worker/books.h"
#include "remoting/worker/module_cache.h"
#include "remoting/worker/throttle.h"

namespace tf::remoting {

// What all sessions of a worker share.
struct Card {
  const cuda::DriverFunctions* driver = nullptr;
  cuda::Snapshot snapshot;  // of the driver, with the worker's limits applied
  std::unique_ptr<MemoryBooks> books;
  std::unique_ptr<Throttle> throttle;  // null: no limit
  ModuleCache modules;
  std::function<CUresult(cuda::MonitorReport*)> monitor;
  // Lets a context be destroyed without waiting for its kernels; null: the driver cannot, and an endless kernel of a
  // client that died holds its memory until it ends.
  void (*abandon_context)(CUcontext) = nullptr;
};

// Asks the driver for everything that programs ask about devices.
cuda::Snapshot ReadSnapshot(const cuda::DriverFunctions& driver);

class DriverBackend : public cuda::WireTarget {
 public:
  // `events` outlives the backend. same_machine: the client can share memory by descriptor.
  DriverBackend(Card* card, cuda::WireEvents* events, bool same_machine);
  ~DriverBackend() override;
  DriverBackend(const DriverBackend&) = delete;
  DriverBackend& operator=(const DriverBackend&) = delete;

  // The client is gone: wakes everything that waits for it, and ends what runs for it. From any thread.
  void Abandon();
  // Destroys all contexts, and with them ends everything that runs or waits. On the session's thread, or when that has
  // ended.
  void EndContexts();
  // A queued operation failed: the failure comes out at the context's next synchronising operation.
  void Latch(uint64_t context, CUresult result);
  void AddRegionFd(uint64_t region, link::Fd fd);
  // What a kernel of `handle` printed; nothing when the context is not this session's.
  static void DeliverOutput(CUcontext handle, std::string_view text);

  CUresult Describe(cuda::Snapshot* snapshot) override;
  CUresult Monitor(cuda::MonitorReport* report) override;
  CUresult ContextCreate(uint64_t context, int32_t device, uint32_t flags) override;
  CUresult ContextDestroy(uint64_t context) override;
  CUresult ContextSetLimit(uint64_t context, int32_t limit, uint64_t value) override;
  CUresult ContextGetLimit(uint64_t context, int32_t limit, uint64_t* value) override;
  cuda::Pending ContextSynchronize(uint64_t context) override;
  CUresult PeerEnable(uint64_t context, uint64_t peer) override;
  CUresult PeerDisable(uint64_t context, uint64_t peer) override;
  CUresult StreamCreate(uint64_t context, uint64_t stream, uint32_t flags, int32_t priority) override;
  CUresult StreamDestroy(uint64_t context, uint64_t stream) override;
  CUresult StreamQuery(uint64_t context, uint64_t stream) override;
  cuda::Pending StreamSynchronize(uint64_t context, uint64_t stream) override;
  CUresult StreamWaitEvent(uint64_t context, uint64_t stream, uint64_t event, uint32_t flags) override;
  CUresult StreamHostFunction(uint64_t context, uint64_t stream, uint64_t token) override;
  CUresult EventCreate(uint64_t context, uint64_t event, uint32_t flags) override;
  CUresult EventDestroy(uint64_t context, uint64_t event) override;
  CUresult EventRecord(uint64_t context, uint64_t event, uint64_t stream, uint32_t flags) override;
  CUresult EventQuery(uint64_t context, uint64_t event) override;
  cuda::Pending EventSynchronize(uint64_t context, uint64_t event) override;
  CUresult EventElapsed(uint64_t context, uint64_t start, uint64_t end, float* milliseconds) override;
  CUresult MemoryInfo(uint64_t context, uint64_t* free, uint64_t* total) override;
  CUresult MemoryAllocate(uint64_t context, uint64_t size, uint64_t* address) override;
  CUresult MemoryFree(uint64_t context, uint64_t address) override;
  CUresult PoolCreate(uint64_t context, uint64_t pool, int32_t device, uint64_t max_size) override;
  CUresult PoolDestroy(uint64_t context, uint64_t pool) override;
  CUresult PoolTrim(uint64_t context, uint64_t pool, uint64_t keep) override;
  CUresult PoolSetAttribute(uint64_t context, uint64_t pool, int32_t attribute, uint64_t value) override;
  CUresult PoolGetAttribute(uint64_t context, uint64_t pool, int32_t attribute, uint64_t* value) override;
  CUresult PoolAllocate(uint64_t context, uint64_t stream, uint64_t pool, uint64_t size, uint64_t* address) override;
  CUresult PoolFree(uint64_t context, uint64_t stream, uint64_t address) override;
  CUresult Fill(uint64_t context, uint64_t stream, uint64_t address, uint64_t pitch, uint32_t element, uint32_t value,
                uint64_t width, uint64_t height) override;
  CUresult ModuleFind(uint64_t context, uint64_t module, std::string_view hash, uint8_t* found,
                      cuda::ModuleFacts* facts) override;
  CUresult ModuleSend(uint64_t context, uint64_t module, std::string_view hash, std::span<const std::byte> image,
                      cuda::ModuleFacts* facts) override;
  CUresult ModuleUnload(uint64_t context, uint64_t module) override;
  CUresult ModuleGlobal(uint64_t context, uint64_t module, std::string_view name, uint64_t* address,
                        uint64_t* size) override;
  CUresult KernelSetAttribute(uint64_t context, uint64_t module, uint32_t kernel, int32_t attribute,
                              int32_t value) override;
  CUresult Launch(uint64_t context, uint64_t stream, uint64_t module, uint32_t kernel, const cuda::LaunchShape& shape,
                  std::span<const std::byte> parameters) override;
  CUresult Upload(uint64_t context, uint64_t stream, uint64_t address, uint64_t pitch, uint64_t width, uint64_t height,
                  std::span<const std::byte> data) override;
  cuda::Pending Download(uint64_t context, uint64_t stream, uint64_t address, uint64_t pitch, uint64_t width,
                         uint64_t height, std::span<std::byte> data) override;
  CUresult CopyDevice(uint64_t context, uint64_t stream, const cuda::CopyShape& shape) override;
  CUresult RegionMap(uint64_t context, uint64_t region, uint64_t address, uint64_t size, uint32_t flags) override;
  CUresult RegionUnmap(uint64_t context, uint64_t region) override;
  CUresult CopyRegion(uint64_t context, uint64_t stream, uint32_t direction, const cuda::CopyShape& shape) override;
  CUresult FetchCopy(uint64_t context, uint64_t stream, uint64_t token, uint64_t address, uint64_t pitch,
                     uint64_t width, uint64_t height) override;
  CUresult StoreCopy(uint64_t context, uint64_t stream, uint64_t token, uint64_t address, uint64_t pitch,
                     uint64_t width, uint64_t height) override;
  void HostFunctionDone(uint64_t token) override;
  void FetchData(uint64_t token, uint64_t offset, std::span<const std::byte> data) override;

 private:
  struct Context;
  struct Event;
  struct Module;
  struct Staging;
  struct Allocation {
    uint64_t size, reserved;
    uint64_t context;
    bool from_pool;
  };
  struct Region {
    uint64_t address, size, context;
  };
  // Something that waits in a stream for the client.
  struct Rendezvous;
  enum class RendezvousKind { kHostFunction, kFetch, kStore };

  Context* Use(uint64_t context);
  bool UseStream(uint64_t context, uint64_t stream, Context** found, CUstream* handle);
  std::shared_ptr<Event> FindEvent(uint64_t event);
  CUresult TakeLatched(Context& context);
  CUresult After(Context& context, CUresult result);
  template <class Query>
  CUresult LookForAMoment(Query query);
  bool OwnsDevice(uint64_t address, uint64_t pitch, uint64_t width, uint64_t height, uint64_t slice = 0,
                  uint64_t depth = 1) const;
  bool OwnsRegion(uint64_t address, uint64_t bytes) const;
  CUresult LoadModule(Context& context, uint64_t module, const std::string& image, cuda::ModuleFacts* facts);
  CUmemoryPool FindPool(Context& context, uint64_t pool);
  void Forget(Context& context, uint64_t id);
  CUresult CopyRows(CUstream stream, uint64_t address, uint64_t pitch, std::byte* packed, uint64_t width,
                    uint64_t height, bool upload);
  Staging* Lease(Context& context);
  CUresult Unlease(Context& context, Staging* staging, CUstream stream, CUresult result);
  CUresult Stage(RendezvousKind kind, uint64_t id, uint64_t stream, uint64_t token, uint64_t address, uint64_t pitch,
                 uint64_t width, uint64_t height, CUstream* handle, std::shared_ptr<Rendezvous>* staged);
  CUresult EnqueueHost(CUstream stream, std::shared_ptr<Rendezvous> rendezvous);
  static void RunRendezvous(void* argument);

  Card* const card_;
  const cuda::DriverFunctions& cu_;
  cuda::WireEvents* const events_;
  const bool same_machine_;

  std::unordered_map<uint64_t, std::shared_ptr<Context>> contexts_;
  uint64_t current_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<Event>> events_table_;
  std::map<uint64_t, Allocation> allocations_;  // by address
  std::unordered_map<uint64_t, Region> regions_;

  std::mutex control_lock_;
  std::condition_variable control_moved_;
  bool abandoned_ = false;
  std::vector<CUcontext> live_;  // of this session
  std::unordered_map<uint64_t, link::Fd> region_fds_;
  std::unordered_map<uint64_t, std::shared_ptr<Rendezvous>> rendezvous_;
};

}  // namespace tf::remoting
