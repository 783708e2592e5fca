// A card for tests of the front: memory is memory of this process, everything happens at once, one kernel
// ("add": c[i] = a[i] + b[i] for n ints) runs. Tests set what it answers and look at what it was asked.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "cuda/backend.h"

namespace tf::cuda::driver {

class FakeBackend : public Backend {
 public:
  FakeBackend();

  // The text of images that load: lists kernels by name. "bad" in it fails with INVALID_PTX and a log.
  static constexpr const char* kImage = ".version 8.0\n// add none big shared\n";

  std::mutex mutex;
  std::vector<std::string> calls;         // names of operations, in order
  std::map<std::string, CUresult> fails;  // one answer for an operation, then it works again
  std::map<std::string, CUresult> always;
  uint32_t copy_direction = 99, copy_flags = 99;
  CopyShape copy;
  LaunchShape launch;
  std::vector<std::byte> parameters;
  int32_t created_priority = 99;
  std::set<uint64_t> contexts, streams, events;
  uint64_t last_stream = 99;
  std::atomic<int> launches{0};
  std::atomic<bool> idle{false};  // launches do nothing: for measuring what the front costs
  std::atomic<bool> event_ready{true};
  uint64_t memory_limit = UINT64_MAX;
  uint64_t memory_used = 0;

  int Count(const std::string& name);
  void Forget();
  BackendEvents* events_sink() { return events_; }
  // Host functions run on this thread until it is empty.
  void DrainHostFunctions();

  void SetEvents(BackendEvents* events) override { events_ = events; }
  CUresult Describe(Snapshot* snapshot) override;
  CUresult ContextCreate(uint64_t context, int32_t device, uint32_t flags) override;
  CUresult ContextDestroy(uint64_t context) override;
  CUresult ContextAbandon(uint64_t context) override;
  CUresult ContextSetLimit(uint64_t context, int32_t limit, uint64_t value) override;
  CUresult ContextGetLimit(uint64_t context, int32_t limit, uint64_t* value) override;
  Pending ContextSynchronize(uint64_t context) override;
  CUresult PeerEnable(uint64_t context, uint64_t peer) override;
  CUresult PeerDisable(uint64_t context, uint64_t peer) override;
  CUresult StreamCreate(uint64_t context, uint64_t stream, uint32_t flags, int32_t priority) override;
  CUresult StreamDestroy(uint64_t context, uint64_t stream) override;
  CUresult StreamQuery(uint64_t context, uint64_t stream) override;
  Pending StreamSynchronize(uint64_t context, uint64_t stream) override;
  CUresult StreamWaitEvent(uint64_t context, uint64_t stream, uint64_t event, uint32_t flags) override;
  CUresult StreamHostFunction(uint64_t context, uint64_t stream, uint64_t token) override;
  CUresult EventCreate(uint64_t context, uint64_t event, uint32_t flags) override;
  CUresult EventDestroy(uint64_t context, uint64_t event) override;
  CUresult EventRecord(uint64_t context, uint64_t event, uint64_t stream, uint32_t flags) override;
  CUresult EventQuery(uint64_t context, uint64_t event) override;
  Pending EventSynchronize(uint64_t context, uint64_t event) override;
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
  Pending Copy(uint64_t context, uint64_t stream, uint32_t direction, const CopyShape& shape, uint32_t flags) override;
  CUresult Fill(uint64_t context, uint64_t stream, uint64_t address, uint64_t pitch, uint32_t element, uint32_t value,
                uint64_t width, uint64_t height) override;
  CUresult ModuleLoad(uint64_t context, uint64_t module, std::span<const std::byte> image, ModuleFacts* facts) override;
  CUresult ModuleUnload(uint64_t context, uint64_t module) override;
  CUresult ModuleGlobal(uint64_t context, uint64_t module, std::string_view name, uint64_t* address,
                        uint64_t* size) override;
  CUresult KernelSetAttribute(uint64_t context, uint64_t module, uint32_t kernel, int32_t attribute,
                              int32_t value) override;
  CUresult Launch(uint64_t context, uint64_t stream, uint64_t module, uint32_t kernel, const LaunchShape& shape,
                  std::span<const std::byte> parameters) override;

 private:
  CUresult Note(const char* name);
  CUresult NoteStream(const char* name, uint64_t stream);
  uint64_t Take(uint64_t context, uint64_t size);
  CUresult Give(uint64_t address);

  BackendEvents* events_ = nullptr;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> memory_;  // address: context, size
  std::map<std::pair<uint64_t, int>, uint64_t> pool_attributes_;
  std::condition_variable changed_;
  std::deque<uint64_t> tokens_;
  bool running_ = false;
};

// The one behind this process's driver, made by the first cuInit.
FakeBackend& Fake();
// What MakeBackend will answer; OK: a FakeBackend.
void SetMakeStatus(absl::Status status);

}  // namespace tf::cuda::driver
