// The backend of the simulated libcuda.so.1: cuda::Backend on simulated cards. Kernels run on the processors of this
// machine; device addresses are addresses of this process.
//
// Thread-safe. Describe fails with one line on standard error when the cards cannot be set up.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/backend.h"
#include "simgpu/card_state.h"
#include "simgpu/context.h"
#include "simgpu/device.h"
#include "simgpu/host_memory.h"
#include "simgpu/module.h"
#include "simgpu/pool.h"
#include "simgpu/ptx/executor.h"

namespace tf::simgpu {

class SimBackend : public cuda::Backend {
 public:
  // Opens the shared state of the cards.
  static absl::StatusOr<std::unique_ptr<SimBackend>> Create(CardList cards);
  ~SimBackend() override;

  void SetEvents(cuda::BackendEvents* events) override { events_ = events; }
  CUresult Describe(cuda::Snapshot* snapshot) override;

  CUresult ContextCreate(uint64_t context, int32_t device, uint32_t flags) override;
  CUresult ContextDestroy(uint64_t context) override;
  CUresult ContextAbandon(uint64_t context) override;
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

  CUresult HostAllocate(uint64_t context, uint64_t size, uint32_t flags, uint64_t* address) override;
  CUresult HostFree(uint64_t context, uint64_t address) override;
  CUresult HostRegister(uint64_t context, uint64_t address, uint64_t size, uint32_t flags) override;
  CUresult HostUnregister(uint64_t context, uint64_t address) override;

  cuda::Pending Copy(uint64_t context, uint64_t stream, uint32_t direction, const cuda::CopyShape& shape,
                     uint32_t flags) override;
  CUresult Fill(uint64_t context, uint64_t stream, uint64_t address, uint64_t pitch, uint32_t element, uint32_t value,
                uint64_t width, uint64_t height) override;

  CUresult ModuleLoad(uint64_t context, uint64_t module, std::span<const std::byte> image,
                      cuda::ModuleFacts* facts) override;
  CUresult ModuleUnload(uint64_t context, uint64_t module) override;
  CUresult ModuleGlobal(uint64_t context, uint64_t module, std::string_view name, uint64_t* address,
                        uint64_t* size) override;
  CUresult KernelSetAttribute(uint64_t context, uint64_t module, uint32_t kernel, int32_t attribute,
                              int32_t value) override;
  CUresult Launch(uint64_t context, uint64_t stream, uint64_t module, uint32_t kernel, const cuda::LaunchShape& shape,
                  std::span<const std::byte> parameters) override;

 private:
  // One recording of an event. `time_ns` is written by the operation that `point` stands for.
  struct Record {
    Point point;
    std::shared_ptr<Context> context;
    std::atomic<int64_t> time_ns{0};
  };
  struct Event {
    uint64_t context;
    bool timing;
    std::shared_ptr<Record> record;  // nullptr: never recorded
  };

  SimBackend(std::shared_ptr<CardState> state);

  // The context of an operation, if it exists and has not failed; else *result says what to answer.
  std::shared_ptr<Context> Use(uint64_t id, CUresult* result);
  std::shared_ptr<Context> Find(uint64_t id);
  std::shared_ptr<Pool> FindPool(Context& context, uint64_t id);
  std::shared_ptr<Module> FindModule(uint64_t context, uint64_t id);
  CUresult FindEvent(uint64_t id, Event* event);
  void Run(Context& context, const Module& module, uint32_t kernel, const cuda::LaunchShape& shape,
           std::span<const std::byte> parameters);

  std::shared_ptr<CardState> state_;
  cuda::BackendEvents* events_ = nullptr;
  std::vector<std::unique_ptr<Device>> devices_;
  HostMemory host_memory_;
  ptx::Executor executor_{0};
  std::atomic<uint64_t> launches_{0};

  std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Context>> contexts_;
  std::unordered_map<uint64_t, Event> events_by_id_;
  std::unordered_map<uint64_t, std::shared_ptr<Pool>> pools_;
  struct LoadedModule {
    uint64_t context;
    std::shared_ptr<Module> module;
  };
  std::unordered_map<uint64_t, LoadedModule> modules_;
};

}  // namespace tf::simgpu
