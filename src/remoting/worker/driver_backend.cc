#include "remoting/worker/driver_backend.h"

#include <openssl/sha.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "absl/time/time.h"
#include "link/shared_memory.h"
#include "link/spin.h"
#include "remoting/message.h"
#include "remoting/region_address.h"
#include "remoting/worker/image_check.h"
#include "remoting/worker/monitor.h"

namespace tf::remoting {

using cuda::CopyShape;
using cuda::ModuleFacts;
using cuda::Pending;

namespace {

enum Direction : uint32_t { kHostToDevice = 0, kDeviceToHost = 1, kDeviceToDevice = 2 };

// What a driver really sets aside for an allocation is a multiple of this.
constexpr uint64_t kReserveUnit = 512;
// How long a wait is looked at before another thread takes it over.
constexpr absl::Duration kLook = absl::Microseconds(50);
constexpr auto kRegionFdWait = std::chrono::seconds(5);
constexpr int kLastDeviceAttribute = 150;
constexpr int kLastFunctionAttribute = CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
constexpr size_t kThrottledLaunchesInFlight = 2;
// 1 MiB each, for every context.
constexpr size_t kMaxStaging = 32;

// Errors after which a context answers nothing else, by the documents of the driver.
bool IsSticky(CUresult result) { return result >= CUDA_ERROR_ILLEGAL_ADDRESS && result < CUDA_ERROR_NOT_PERMITTED; }

// Whose context printed. The lock of the registry is never held while text is sent: a client that does not take its
// text holds up only itself.
struct OutputOwner {
  std::mutex lock;
  cuda::WireEvents* events;  // null: the context is gone
  uint64_t context;
};
struct OutputRegistry {
  std::mutex lock;
  std::unordered_map<CUcontext, std::shared_ptr<OutputOwner>> owners;

  void Add(CUcontext handle, cuda::WireEvents* events, uint64_t context) {
    auto owner = std::make_shared<OutputOwner>();
    owner->events = events;
    owner->context = context;
    std::lock_guard guard(lock);
    owners[handle] = std::move(owner);
  }
  std::shared_ptr<OutputOwner> Find(CUcontext handle) {
    std::lock_guard guard(lock);
    auto found = owners.find(handle);
    return found == owners.end() ? nullptr : found->second;
  }
  void Remove(CUcontext handle) {
    std::shared_ptr<OutputOwner> owner = Find(handle);
    if (owner == nullptr) return;
    {
      std::lock_guard guard(lock);
      owners.erase(handle);
    }
    std::lock_guard guard(owner->lock);
    owner->events = nullptr;
  }
};
OutputRegistry& Outputs() {
  static auto* registry = new OutputRegistry;
  return *registry;
}

std::string Hash(std::span<const std::byte> bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return std::string(reinterpret_cast<const char*>(digest), sizeof digest);
}

// The last byte of a copy, without overflow; nullopt: no honest shape.
std::optional<uint64_t> Extent(uint64_t pitch, uint64_t width, uint64_t height, uint64_t slice, uint64_t depth) {
  uint64_t rows, slices, sum;
  if (height == 0 || depth == 0 || width == 0) return std::nullopt;
  if (__builtin_mul_overflow(pitch, height - 1, &rows) || __builtin_mul_overflow(slice, depth - 1, &slices) ||
      __builtin_add_overflow(rows, slices, &sum) || __builtin_add_overflow(sum, width, &sum)) {
    return std::nullopt;
  }
  return sum;
}

}  // namespace

struct DriverBackend::Context {
  const cuda::DriverFunctions* cu;
  uint64_t id;
  int device;
  CUcontext handle = nullptr;  // null once destroyed
  CUresult latched = CUDA_SUCCESS;
  std::unordered_map<uint64_t, CUstream> streams;
  std::unordered_map<uint64_t, std::unique_ptr<Module>> modules;
  std::unordered_map<uint64_t, CUmemoryPool> pools;  // 0: this session's default pool
  std::vector<std::shared_ptr<Event>> in_flight;     // of throttled launches
  size_t next_in_flight = 0;
  std::mutex staging_lock;
  std::vector<std::unique_ptr<Staging>> staging;
};

// Pinned memory of kMaxRowsBytes between the link and the card. The driver owns it with the context.
struct DriverBackend::Staging {
  std::byte* memory;
  CUevent over;         // the card is done with it
  bool leased = false;  // somebody on this side is not
};

struct DriverBackend::Event {
  ~Event() {
    if (handle != nullptr && context->handle != nullptr) context->cu->cuEventDestroy_v2(handle);
  }
  std::shared_ptr<Context> context;  // which outlives its events
  CUevent handle = nullptr;
};

struct DriverBackend::Module {
  CUmodule handle = nullptr;
  std::vector<CUfunction> kernels;
  std::vector<uint64_t> globals;  // addresses listed in allocations_
};

// Tokens of the front's host functions and of the client's copies come from different counters; this bit in the books
// of the worker, and never outside, tells them apart.
constexpr uint64_t kOfFront = uint64_t{1} << 63;

struct DriverBackend::Rendezvous {
  RendezvousKind kind;
  DriverBackend* backend;
  uint64_t token;
  Staging* staging = nullptr;  // kFetch: to be filled; kStore: to be sent
  std::shared_ptr<Context> context;
  size_t size = 0;
  bool done = false;
  std::shared_ptr<Rendezvous> self;  // until the driver has called
};

cuda::Snapshot ReadSnapshot(const cuda::DriverFunctions& cu) {
  cuda::Snapshot snapshot;
  cu.cuDriverGetVersion(&snapshot.driver_version);
  int count = 0;
  cu.cuDeviceGetCount(&count);
  snapshot.maps_host_memory = count > 0;
  for (int i = 0; i < count; ++i) {
    CUdevice device;
    if (cu.cuDeviceGet(&device, i) != CUDA_SUCCESS) continue;
    cuda::DeviceFacts facts;
    char name[256] = {};
    cu.cuDeviceGetName(name, sizeof name - 1, device);
    facts.name = name;
    CUuuid uuid{};
    (cu.cuDeviceGetUuid_v2 != nullptr ? cu.cuDeviceGetUuid_v2 : cu.cuDeviceGetUuid)(&uuid, device);
    facts.uuid = FormatUuid(std::string(uuid.bytes, sizeof uuid.bytes));
    facts.attributes.assign(kLastDeviceAttribute, 0);
    for (int a = 1; a < kLastDeviceAttribute; ++a) {
      int value = 0;
      if (cu.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(a), device) == CUDA_SUCCESS) {
        facts.attributes[a] = value;
      }
    }
    facts.pci_domain = facts.attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID];
    facts.pci_bus = facts.attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID];
    facts.pci_device = facts.attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID];
    size_t total = 0;
    cu.cuDeviceTotalMem_v2(&total, device);
    facts.total_memory = total;
    // The address of mapped memory in kernels must be its address in the program.
    if (facts.attributes[CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM] == 0) {
      snapshot.maps_host_memory = 0;
    }
    snapshot.devices.push_back(std::move(facts));
  }
  return snapshot;
}

DriverBackend::DriverBackend(Card* card, cuda::WireEvents* events, bool same_machine)
    : card_(card), cu_(*card->driver), events_(events), same_machine_(same_machine) {}

DriverBackend::~DriverBackend() {
  Abandon();
  EndContexts();
  // What never ran in its stream holds itself.
  for (auto& [token, rendezvous] : rendezvous_) rendezvous->self.reset();
}

void DriverBackend::EndContexts() {
  while (!contexts_.empty()) ContextDestroy(contexts_.begin()->first);
  cu_.cuCtxSetCurrent(nullptr);
}

void DriverBackend::Abandon() {
  std::lock_guard lock(control_lock_);
  abandoned_ = true;
  control_moved_.notify_all();
  if (card_->abandon_context == nullptr) return;
  for (CUcontext handle : live_) card_->abandon_context(handle);
}

void DriverBackend::Latch(uint64_t context, CUresult result) {
  auto found = contexts_.find(context);
  if (found != contexts_.end() && found->second->latched == CUDA_SUCCESS) found->second->latched = result;
}

void DriverBackend::AddRegionFd(uint64_t region, link::Fd fd) {
  std::lock_guard lock(control_lock_);
  // Descriptors that nobody asks for must not pile up.
  if (region_fds_.size() >= 64) region_fds_.clear();
  region_fds_[region] = std::move(fd);
  control_moved_.notify_all();
}

void DriverBackend::DeliverOutput(CUcontext handle, std::string_view text) {
  std::shared_ptr<OutputOwner> owner = Outputs().Find(handle);
  if (owner == nullptr) return;
  std::lock_guard lock(owner->lock);
  for (size_t at = 0; at < text.size() && owner->events != nullptr; at += kMaxRowsBytes) {
    owner->events->Output(owner->context, text.substr(at, kMaxRowsBytes));
  }
}

DriverBackend::Context* DriverBackend::Use(uint64_t id) {
  auto found = contexts_.find(id);
  if (found == contexts_.end()) return nullptr;
  if (current_ != id) {
    if (cu_.cuCtxSetCurrent(found->second->handle) != CUDA_SUCCESS) return nullptr;
    current_ = id;
  }
  return found->second.get();
}

bool DriverBackend::UseStream(uint64_t context, uint64_t stream, Context** found, CUstream* handle) {
  *found = Use(context);
  if (*found == nullptr) return false;
  *handle = nullptr;
  if (stream == 0) return true;
  auto entry = (*found)->streams.find(stream);
  if (entry == (*found)->streams.end()) return false;
  *handle = entry->second;
  return true;
}

CUresult DriverBackend::TakeLatched(Context& context) {
  CUresult result = context.latched;
  if (!IsSticky(result)) context.latched = CUDA_SUCCESS;
  return result;
}

// The result of a synchronising operation: an earlier failure comes first.
CUresult DriverBackend::After(Context& context, CUresult result) {
  CUresult latched = TakeLatched(context);
  return latched != CUDA_SUCCESS ? latched : result;
}

CUresult DriverBackend::Describe(cuda::Snapshot* snapshot) {
  *snapshot = card_->snapshot;
  if (!same_machine_) snapshot->maps_host_memory = 0;
  return CUDA_SUCCESS;
}

CUresult DriverBackend::Monitor(cuda::MonitorReport* report) {
  return card_->monitor ? card_->monitor(report) : CUDA_ERROR_NOT_SUPPORTED;
}

// --- Contexts

CUresult DriverBackend::ContextCreate(uint64_t id, int32_t device, uint32_t flags) {
  if (id == 0 || contexts_.contains(id)) return CUDA_ERROR_INVALID_VALUE;
  auto context = std::make_shared<Context>();
  context->cu = &cu_;
  context->id = id;
  context->device = device;
  current_ = 0;
  CUdevice handle;
  CUresult result = cu_.cuDeviceGet(&handle, device);
  if (result == CUDA_SUCCESS) result = cu_.cuCtxCreate_v2(&context->handle, flags, handle);
  if (result != CUDA_SUCCESS) return result;
  current_ = id;
  Outputs().Add(context->handle, events_, id);
  {
    std::lock_guard lock(control_lock_);
    live_.push_back(context->handle);
    if (abandoned_ && card_->abandon_context != nullptr) card_->abandon_context(context->handle);
  }
  contexts_[id] = std::move(context);
  return CUDA_SUCCESS;
}

// Takes everything of a context out of the books.
void DriverBackend::Forget(Context& context, uint64_t id) {
  for (auto it = allocations_.begin(); it != allocations_.end();) {
    if (it->second.context != id) {
      ++it;
      continue;
    }
    card_->books->Release(context.device, it->second.reserved);
    it = allocations_.erase(it);
  }
  for (auto it = events_table_.begin(); it != events_table_.end();) {
    it = it->second->context.get() == &context ? events_table_.erase(it) : std::next(it);
  }
}

CUresult DriverBackend::ContextDestroy(uint64_t id) {
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::shared_ptr<Context> keep = contexts_[id];
  context->in_flight.clear();
  Forget(*context, id);
  // Ends what runs in the context; then nothing of it is in use by the driver any more.
  for (auto& [pool_id, pool] : context->pools) cu_.cuMemPoolDestroy(pool);
  Outputs().Remove(context->handle);
  {
    std::lock_guard lock(control_lock_);
    std::erase(live_, context->handle);
  }
  current_ = 0;
  CUresult result = cu_.cuCtxDestroy_v2(context->handle);
  context->handle = nullptr;
  contexts_.erase(id);
  // Registered memory went with the context; now nothing uses it.
  for (auto it = regions_.begin(); it != regions_.end();) {
    if (it->second.context != id) {
      ++it;
      continue;
    }
    munmap(reinterpret_cast<void*>(it->second.address), it->second.size);
    it = regions_.erase(it);
  }
  return result;
}

CUresult DriverBackend::ContextSetLimit(uint64_t id, int32_t limit, uint64_t value) {
  if (Use(id) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return cu_.cuCtxSetLimit(static_cast<CUlimit>(limit), value);
}

CUresult DriverBackend::ContextGetLimit(uint64_t id, int32_t limit, uint64_t* value) {
  if (Use(id) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  size_t answer = 0;
  CUresult result = cu_.cuCtxGetLimit(&answer, static_cast<CUlimit>(limit));
  *value = answer;
  return result;
}

// Many a wait is for work that is nearly over: looking at it for a moment costs less than handing the wait to another
// thread and back. `query` answers as cuStreamQuery does.
template <class Query>
CUresult DriverBackend::LookForAMoment(Query query) {
  link::Spinner spinner(link::SpinTime(kLook));
  CUresult result;
  while ((result = query()) == CUDA_ERROR_NOT_READY && spinner.Again()) {
  }
  return result;
}

Pending DriverBackend::ContextSynchronize(uint64_t id) {
  if (Use(id) == nullptr) return Pending::Now(CUDA_ERROR_INVALID_CONTEXT);
  std::shared_ptr<Context> context = contexts_[id];
  CUresult latched = TakeLatched(*context);
  auto synchronize = [this, context, latched] {
    CUresult result = cu_.cuCtxSetCurrent(context->handle);
    if (result == CUDA_SUCCESS) result = cu_.cuCtxSynchronize();
    return latched != CUDA_SUCCESS ? latched : result;
  };
  const CUresult idle = LookForAMoment([&] {
    CUresult result = cu_.cuStreamQuery(nullptr);
    for (const auto& [name, handle] : context->streams) {
      if (result != CUDA_SUCCESS) break;
      result = cu_.cuStreamQuery(handle);
    }
    return result;
  });
  return idle == CUDA_SUCCESS ? Pending::Now(synchronize()) : Pending::Later(synchronize);
}

CUresult DriverBackend::PeerEnable(uint64_t id, uint64_t peer) {
  auto other = contexts_.find(peer);
  if (Use(id) == nullptr || other == contexts_.end()) return CUDA_ERROR_INVALID_CONTEXT;
  return cu_.cuCtxEnablePeerAccess(other->second->handle, 0);
}

CUresult DriverBackend::PeerDisable(uint64_t id, uint64_t peer) {
  auto other = contexts_.find(peer);
  if (Use(id) == nullptr || other == contexts_.end()) return CUDA_ERROR_INVALID_CONTEXT;
  return cu_.cuCtxDisablePeerAccess(other->second->handle);
}

// --- Streams and events

CUresult DriverBackend::StreamCreate(uint64_t id, uint64_t stream, uint32_t flags, int32_t priority) {
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stream == 0 || context->streams.contains(stream)) return CUDA_ERROR_INVALID_VALUE;
  CUstream handle;
  CUresult result = cu_.cuStreamCreateWithPriority(&handle, flags, priority);
  if (result == CUDA_SUCCESS) context->streams[stream] = handle;
  return result;
}

CUresult DriverBackend::StreamDestroy(uint64_t id, uint64_t stream) {
  Context* context;
  CUstream handle;
  if (stream == 0 || !UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  context->streams.erase(stream);
  return cu_.cuStreamDestroy_v2(handle);
}

CUresult DriverBackend::StreamQuery(uint64_t id, uint64_t stream) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = cu_.cuStreamQuery(handle);
  return result == CUDA_ERROR_NOT_READY ? result : After(*context, result);
}

Pending DriverBackend::StreamSynchronize(uint64_t id, uint64_t stream) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return Pending::Now(CUDA_ERROR_INVALID_HANDLE);
  CUresult result = LookForAMoment([&] { return cu_.cuStreamQuery(handle); });
  if (result != CUDA_ERROR_NOT_READY) return Pending::Now(After(*context, result));
  // What is in the stream now is waited for, not what comes later.
  auto mark = std::make_shared<Event>();
  mark->context = contexts_[id];
  result = cu_.cuEventCreate(&mark->handle, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) result = cu_.cuEventRecord(mark->handle, handle);
  result = After(*context, result);
  if (result != CUDA_SUCCESS) return Pending::Now(result);
  return Pending::Later([this, mark] { return cu_.cuEventSynchronize(mark->handle); });
}

CUresult DriverBackend::StreamWaitEvent(uint64_t id, uint64_t stream, uint64_t event, uint32_t flags) {
  Context* context;
  CUstream handle;
  std::shared_ptr<Event> found = FindEvent(event);
  if (found == nullptr || !UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  return cu_.cuStreamWaitEvent(handle, found->handle, flags);
}

std::shared_ptr<DriverBackend::Event> DriverBackend::FindEvent(uint64_t event) {
  auto found = events_table_.find(event);
  return found == events_table_.end() ? nullptr : found->second;
}

CUresult DriverBackend::EventCreate(uint64_t id, uint64_t event, uint32_t flags) {
  if (Use(id) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (event == 0 || events_table_.contains(event)) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<Event>();
  made->context = contexts_[id];
  CUresult result = cu_.cuEventCreate(&made->handle, flags);
  if (result == CUDA_SUCCESS) events_table_[event] = std::move(made);
  return result;
}

CUresult DriverBackend::EventDestroy(uint64_t, uint64_t event) {
  return events_table_.erase(event) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult DriverBackend::EventRecord(uint64_t id, uint64_t event, uint64_t stream, uint32_t flags) {
  Context* context;
  CUstream handle;
  std::shared_ptr<Event> found = FindEvent(event);
  if (found == nullptr || !UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  return flags == 0 ? cu_.cuEventRecord(found->handle, handle)
                    : cu_.cuEventRecordWithFlags(found->handle, handle, flags);
}

CUresult DriverBackend::EventQuery(uint64_t id, uint64_t event) {
  Context* context = Use(id);
  std::shared_ptr<Event> found = FindEvent(event);
  if (context == nullptr || found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = cu_.cuEventQuery(found->handle);
  return result == CUDA_ERROR_NOT_READY ? result : After(*context, result);
}

Pending DriverBackend::EventSynchronize(uint64_t id, uint64_t event) {
  Context* context = Use(id);
  std::shared_ptr<Event> found = FindEvent(event);
  if (context == nullptr || found == nullptr) return Pending::Now(CUDA_ERROR_INVALID_HANDLE);
  CUresult result = LookForAMoment([&] { return cu_.cuEventQuery(found->handle); });
  if (result != CUDA_ERROR_NOT_READY) return Pending::Now(After(*context, result));
  return Pending::Later([this, found] { return cu_.cuEventSynchronize(found->handle); });
}

CUresult DriverBackend::EventElapsed(uint64_t id, uint64_t start, uint64_t end, float* milliseconds) {
  std::shared_ptr<Event> from = FindEvent(start), to = FindEvent(end);
  if (Use(id) == nullptr || from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return cu_.cuEventElapsedTime(milliseconds, from->handle, to->handle);
}

// --- Memory

bool DriverBackend::OwnsDevice(uint64_t address, uint64_t pitch, uint64_t width, uint64_t height, uint64_t slice,
                               uint64_t depth) const {
  std::optional<uint64_t> bytes = Extent(pitch, width, height, slice, depth);
  if (!bytes) return false;
  auto after = allocations_.upper_bound(address);
  if (after != allocations_.begin()) {
    auto& [base, allocation] = *std::prev(after);
    uint64_t offset = address - base;
    if (offset < allocation.size && *bytes <= allocation.size - offset) return true;
  }
  // Mapped host memory has device addresses too.
  return OwnsRegion(address, *bytes);
}

bool DriverBackend::OwnsRegion(uint64_t address, uint64_t bytes) const {
  for (auto& [id, region] : regions_) {
    uint64_t offset = address - region.address;
    if (address >= region.address && offset < region.size && bytes <= region.size - offset) return true;
  }
  return false;
}

CUresult DriverBackend::MemoryInfo(uint64_t id, uint64_t* free, uint64_t* total) {
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  size_t driver_free = 0, driver_total = 0;
  CUresult result = cu_.cuMemGetInfo_v2(&driver_free, &driver_total);
  if (result != CUDA_SUCCESS) return After(*context, result);
  *free = driver_free;
  *total = driver_total;
  if (std::optional<uint64_t> limit = card_->books->limit()) {
    *total = std::min<uint64_t>(*total, *limit);
    *free = std::min<uint64_t>(*free, *total - std::min(*total, card_->books->used(context->device)));
  }
  return CUDA_SUCCESS;
}

CUresult DriverBackend::MemoryAllocate(uint64_t id, uint64_t size, uint64_t* address) {
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > UINT64_MAX - kReserveUnit) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t reserved = (size + kReserveUnit - 1) / kReserveUnit * kReserveUnit;
  if (!card_->books->Reserve(context->device, reserved)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr pointer = 0;
  CUresult result = cu_.cuMemAlloc_v2(&pointer, size);
  if (result != CUDA_SUCCESS) {
    card_->books->Release(context->device, reserved);
    return result;
  }
  allocations_[pointer] = {.size = size, .reserved = reserved, .context = id, .from_pool = false};
  *address = pointer;
  return CUDA_SUCCESS;
}

CUresult DriverBackend::MemoryFree(uint64_t id, uint64_t address) {
  auto found = allocations_.find(address);
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (found == allocations_.end() || found->second.reserved == 0) return CUDA_ERROR_INVALID_VALUE;
  if (found->second.context != id && (context = Use(found->second.context)) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = cu_.cuMemFree_v2(address);
  card_->books->Release(context->device, found->second.reserved);
  allocations_.erase(found);
  return result;
}

CUmemoryPool DriverBackend::FindPool(Context& context, uint64_t pool) {
  auto found = context.pools.find(pool);
  if (found != context.pools.end()) return found->second;
  if (pool != 0) return nullptr;
  // The driver's default pool is one for the process; sessions must not share memory, so each has its own.
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, context.device};
  CUmemoryPool handle = nullptr;
  if (cu_.cuMemPoolCreate(&handle, &properties) != CUDA_SUCCESS) return nullptr;
  context.pools[0] = handle;
  return handle;
}

CUresult DriverBackend::PoolCreate(uint64_t id, uint64_t pool, int32_t device, uint64_t max_size) {
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (pool == 0 || context->pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  properties.maxSize = max_size;
  CUmemoryPool handle = nullptr;
  CUresult result = cu_.cuMemPoolCreate(&handle, &properties);
  if (result == CUDA_SUCCESS) context->pools[pool] = handle;
  return result;
}

CUresult DriverBackend::PoolDestroy(uint64_t id, uint64_t pool) {
  Context* context = Use(id);
  if (context == nullptr || pool == 0 || !context->pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = cu_.cuMemPoolDestroy(context->pools[pool]);
  context->pools.erase(pool);
  return result;
}

CUresult DriverBackend::PoolTrim(uint64_t id, uint64_t pool, uint64_t keep) {
  Context* context = Use(id);
  CUmemoryPool handle = context != nullptr ? FindPool(*context, pool) : nullptr;
  return handle != nullptr ? cu_.cuMemPoolTrimTo(handle, keep) : CUDA_ERROR_INVALID_VALUE;
}

CUresult DriverBackend::PoolSetAttribute(uint64_t id, uint64_t pool, int32_t attribute, uint64_t value) {
  Context* context = Use(id);
  CUmemoryPool handle = context != nullptr ? FindPool(*context, pool) : nullptr;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Large enough for both kinds of value that attributes have (int and cuuint64_t).
  return cu_.cuMemPoolSetAttribute(handle, static_cast<CUmemPool_attribute>(attribute), &value);
}

CUresult DriverBackend::PoolGetAttribute(uint64_t id, uint64_t pool, int32_t attribute, uint64_t* value) {
  Context* context = Use(id);
  CUmemoryPool handle = context != nullptr ? FindPool(*context, pool) : nullptr;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return cu_.cuMemPoolGetAttribute(handle, static_cast<CUmemPool_attribute>(attribute), value);
}

CUresult DriverBackend::PoolAllocate(uint64_t id, uint64_t stream, uint64_t pool, uint64_t size, uint64_t* address) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  CUmemoryPool pool_handle = FindPool(*context, pool);
  if (pool_handle == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > UINT64_MAX - kReserveUnit) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t reserved = (size + kReserveUnit - 1) / kReserveUnit * kReserveUnit;
  if (!card_->books->Reserve(context->device, reserved)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr pointer = 0;
  CUresult result = cu_.cuMemAllocFromPoolAsync(&pointer, size, pool_handle, handle);
  if (result != CUDA_SUCCESS) {
    card_->books->Release(context->device, reserved);
    return result;
  }
  allocations_[pointer] = {.size = size, .reserved = reserved, .context = id, .from_pool = true};
  *address = pointer;
  return CUDA_SUCCESS;
}

CUresult DriverBackend::PoolFree(uint64_t id, uint64_t stream, uint64_t address) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.reserved == 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = cu_.cuMemFreeAsync(address, handle);
  if (result != CUDA_SUCCESS) return result;
  auto owner = contexts_.find(found->second.context);
  card_->books->Release(owner != contexts_.end() ? owner->second->device : context->device, found->second.reserved);
  allocations_.erase(found);
  return CUDA_SUCCESS;
}

CUresult DriverBackend::Fill(uint64_t id, uint64_t stream, uint64_t address, uint64_t pitch, uint32_t element,
                             uint32_t value, uint64_t width, uint64_t height) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  if ((element != 1 && element != 2 && element != 4) || width % element != 0 || address % element != 0 ||
      !OwnsDevice(address, pitch, width, height)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  width /= element;
  if (height == 1) {
    switch (element) {
      case 1:
        return cu_.cuMemsetD8Async(address, static_cast<unsigned char>(value), width, handle);
      case 2:
        return cu_.cuMemsetD16Async(address, static_cast<unsigned short>(value), width, handle);
      case 4:
        return cu_.cuMemsetD32Async(address, value, width, handle);
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  switch (element) {
    case 1:
      return cu_.cuMemsetD2D8Async(address, pitch, static_cast<unsigned char>(value), width, height, handle);
    case 2:
      return cu_.cuMemsetD2D16Async(address, pitch, static_cast<unsigned short>(value), width, height, handle);
    case 4:
      return cu_.cuMemsetD2D32Async(address, pitch, value, width, height, handle);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// --- Modules and launches

CUresult DriverBackend::LoadModule(Context& context, uint64_t id, const std::string& image, ModuleFacts* facts) {
  if (id == 0 || context.modules.contains(id)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<char> log(16 << 10);
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  auto module = std::make_unique<Module>();
  CUresult result = cu_.cuModuleLoadDataEx(&module->handle, image.data(), 2, options, values);
  log.back() = '\0';
  facts->log = log.data();
  if (result != CUDA_SUCCESS) return result;
  unsigned count = 0;
  result = cu_.cuModuleGetFunctionCount(&count, module->handle);
  module->kernels.resize(count);
  if (result == CUDA_SUCCESS && count > 0) {
    result = cu_.cuModuleEnumerateFunctions(module->kernels.data(), count, module->handle);
  }
  for (unsigned i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    cuda::KernelFacts kernel;
    const char* name = "";
    result = cu_.cuFuncGetName(&name, module->kernels[i]);
    kernel.name = name;
    size_t offset, size;
    for (size_t p = 0; cu_.cuFuncGetParamInfo(module->kernels[i], p, &offset, &size) == CUDA_SUCCESS; ++p) {
      kernel.parameters.push_back({.offset = static_cast<uint32_t>(offset), .size = static_cast<uint32_t>(size)});
    }
    kernel.attributes.assign(kLastFunctionAttribute + 1, 0);
    for (int a = 0; a <= kLastFunctionAttribute; ++a) {
      int value = 0;
      if (cu_.cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(a), module->kernels[i]) == CUDA_SUCCESS) {
        kernel.attributes[a] = value;
      }
    }
    facts->kernels.push_back(std::move(kernel));
  }
  if (result != CUDA_SUCCESS) {
    cu_.cuModuleUnload(module->handle);
    return result;
  }
  context.modules[id] = std::move(module);
  return CUDA_SUCCESS;
}

CUresult DriverBackend::ModuleFind(uint64_t id, uint64_t module, std::string_view hash, uint8_t* found,
                                   ModuleFacts* facts) {
  *found = 0;
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::shared_ptr<const std::string> image = card_->modules.Find(std::string(hash));
  if (image == nullptr) return CUDA_SUCCESS;
  *found = 1;
  return LoadModule(*context, module, *image, facts);
}

CUresult DriverBackend::ModuleSend(uint64_t id, uint64_t module, std::string_view, std::span<const std::byte> image,
                                   ModuleFacts* facts) {
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  // A copy of our own first: what is hashed, checked and loaded must be the same bytes. The NUL ends PTX text.
  auto copy = std::make_shared<std::string>(reinterpret_cast<const char*>(image.data()), image.size());
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(copy->data()), copy->size());
  std::string hash = Hash(bytes);
  if (!IsSelfContained(bytes)) return CUDA_ERROR_INVALID_IMAGE;
  copy->push_back('\0');
  CUresult result = LoadModule(*context, module, *copy, facts);
  if (result == CUDA_SUCCESS) card_->modules.Add(hash, std::move(copy));
  return result;
}

CUresult DriverBackend::ModuleUnload(uint64_t id, uint64_t module) {
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto found = context->modules.find(module);
  if (found == context->modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  for (uint64_t address : found->second->globals) allocations_.erase(address);
  CUresult result = cu_.cuModuleUnload(found->second->handle);
  context->modules.erase(found);
  return result;
}

CUresult DriverBackend::ModuleGlobal(uint64_t id, uint64_t module, std::string_view name, uint64_t* address,
                                     uint64_t* size) {
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto found = context->modules.find(module);
  if (found == context->modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  CUdeviceptr pointer = 0;
  size_t bytes = 0;
  CUresult result = cu_.cuModuleGetGlobal_v2(&pointer, &bytes, found->second->handle, std::string(name).c_str());
  if (result != CUDA_SUCCESS) return result;
  if (allocations_.try_emplace(pointer, Allocation{.size = bytes, .reserved = 0, .context = id, .from_pool = false})
          .second) {
    found->second->globals.push_back(pointer);
  }
  *address = pointer;
  *size = bytes;
  return CUDA_SUCCESS;
}

CUresult DriverBackend::KernelSetAttribute(uint64_t id, uint64_t module, uint32_t kernel, int32_t attribute,
                                           int32_t value) {
  Context* context = Use(id);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto found = context->modules.find(module);
  if (found == context->modules.end() || kernel >= found->second->kernels.size()) return CUDA_ERROR_INVALID_HANDLE;
  return cu_.cuFuncSetAttribute(found->second->kernels[kernel], static_cast<CUfunction_attribute>(attribute), value);
}

CUresult DriverBackend::Launch(uint64_t id, uint64_t stream, uint64_t module, uint32_t kernel,
                               const cuda::LaunchShape& shape, std::span<const std::byte> parameters) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  auto found = context->modules.find(module);
  if (found == context->modules.end() || kernel >= found->second->kernels.size()) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Event> mark;
  if (card_->throttle) {
    card_->throttle->Wait([this] {
      std::lock_guard lock(control_lock_);
      return abandoned_;
    });
    // Few launches in flight, or what is queued already would pass the limit by far.
    if (context->in_flight.size() < kThrottledLaunchesInFlight) {
      mark = std::make_shared<Event>();
      mark->context = contexts_[id];
      CUresult result = cu_.cuEventCreate(&mark->handle, CU_EVENT_DISABLE_TIMING);
      if (result != CUDA_SUCCESS) return result;
      context->in_flight.push_back(mark);
    } else {
      mark = context->in_flight[context->next_in_flight++ % kThrottledLaunchesInFlight];
      CUresult result = cu_.cuEventSynchronize(mark->handle);
      if (result != CUDA_SUCCESS) return result;
    }
  }
  size_t size = parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(parameters.data()),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  CUresult result =
      cu_.cuLaunchKernel(found->second->kernels[kernel], shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x,
                         shape.block.y, shape.block.z, shape.dynamic_shared, handle, nullptr, extra);
  if (mark != nullptr && result == CUDA_SUCCESS) result = cu_.cuEventRecord(mark->handle, handle);
  return result;
}

// --- Copies

CUresult DriverBackend::Upload(uint64_t id, uint64_t stream, uint64_t address, uint64_t pitch, uint64_t width,
                               uint64_t height, std::span<const std::byte> data) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  if (width > kMaxRowsBytes || height > kMaxRowsBytes || width * height != data.size() ||
      !OwnsDevice(address, pitch, width, height)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // A copy from pageable memory waits for its stream. That must not hold up this session's other streams.
  if (cu_.cuStreamQuery(handle) != CUDA_ERROR_NOT_READY) {
    return CopyRows(handle, address, pitch, const_cast<std::byte*>(data.data()), width, height, true);
  }
  Staging* staging = Lease(*context);
  if (staging == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(staging->memory, data.data(), data.size());
  CUresult result = CopyRows(handle, address, pitch, staging->memory, width, height, true);
  return Unlease(*context, staging, handle, result);
}

// Rows of the card, `pitch` apart, from or to packed rows of this process.
CUresult DriverBackend::CopyRows(CUstream stream, uint64_t address, uint64_t pitch, std::byte* packed, uint64_t width,
                                 uint64_t height, bool upload) {
  if (height == 1) {
    return upload ? cu_.cuMemcpyHtoDAsync_v2(address, packed, width, stream)
                  : cu_.cuMemcpyDtoHAsync_v2(packed, address, width, stream);
  }
  CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = width;
  copy.Height = height;
  if (upload) {
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = packed;
    copy.srcPitch = width;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = address;
    copy.dstPitch = pitch;
  } else {
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = address;
    copy.srcPitch = pitch;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = packed;
    copy.dstPitch = width;
  }
  return cu_.cuMemcpy2DAsync_v2(&copy, stream);
}

// Staging memory of the context that is in use by nobody; waits for the card when there is enough of it already.
DriverBackend::Staging* DriverBackend::Lease(Context& context) {
  Staging* busy = nullptr;
  {
    std::lock_guard lock(context.staging_lock);
    for (std::unique_ptr<Staging>& staging : context.staging) {
      if (staging->leased) continue;
      if (cu_.cuEventQuery(staging->over) != CUDA_ERROR_NOT_READY) {
        staging->leased = true;
        return staging.get();
      }
      if (busy == nullptr) busy = staging.get();
    }
    if (context.staging.size() < kMaxStaging) busy = nullptr;
    if (busy != nullptr) busy->leased = true;
  }
  if (busy != nullptr) {
    // Not under the lock: what the card waits for may need it.
    cu_.cuEventSynchronize(busy->over);
    return busy;
  }
  void* memory = nullptr;
  auto staging = std::make_unique<Staging>();
  if (cu_.cuMemHostAlloc(&memory, kMaxRowsBytes, 0) != CUDA_SUCCESS) return nullptr;
  staging->memory = static_cast<std::byte*>(memory);
  if (cu_.cuEventCreate(&staging->over, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    cu_.cuMemFreeHost(memory);
    return nullptr;
  }
  staging->leased = true;
  std::lock_guard lock(context.staging_lock);
  context.staging.push_back(std::move(staging));
  return context.staging.back().get();
}

// The card's part of the staging memory ends with what is in the stream now. Returns `result`, or the failure to mark
// it.
CUresult DriverBackend::Unlease(Context& context, Staging* staging, CUstream stream, CUresult result) {
  CUresult marked = cu_.cuEventRecord(staging->over, stream);
  std::lock_guard lock(context.staging_lock);
  staging->leased = false;
  return result != CUDA_SUCCESS ? result : marked;
}

Pending DriverBackend::Download(uint64_t id, uint64_t stream, uint64_t address, uint64_t pitch, uint64_t width,
                                uint64_t height, std::span<std::byte> data) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return Pending::Now(CUDA_ERROR_INVALID_HANDLE);
  if (width * height != data.size() || !OwnsDevice(address, pitch, width, height)) {
    return Pending::Now(CUDA_ERROR_INVALID_VALUE);
  }
  if (LookForAMoment([&] { return cu_.cuStreamQuery(handle); }) != CUDA_ERROR_NOT_READY) {
    return Pending::Now(After(*context, CopyRows(handle, address, pitch, data.data(), width, height, false)));
  }
  Staging* staging = Lease(*context);
  if (staging == nullptr) return Pending::Now(CUDA_ERROR_OUT_OF_MEMORY);
  CUresult result = CopyRows(handle, address, pitch, staging->memory, width, height, false);
  if (result == CUDA_SUCCESS) result = cu_.cuEventRecord(staging->over, handle);
  result = After(*context, result);
  std::shared_ptr<Context> keep = contexts_[id];
  if (result != CUDA_SUCCESS) {
    std::lock_guard lock(keep->staging_lock);
    staging->leased = false;
    return Pending::Now(result);
  }
  return Pending::Later([this, keep, staging, data] {
    CUresult over = cu_.cuEventSynchronize(staging->over);
    if (over == CUDA_SUCCESS) std::memcpy(data.data(), staging->memory, data.size());
    std::lock_guard lock(keep->staging_lock);
    staging->leased = false;
    return over;
  });
}

namespace {

CUresult CopyLinear3D(const cuda::DriverFunctions& cu, const CopyShape& shape, CUmemorytype from, CUmemorytype to,
                      CUstream stream) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from;
  copy.dstMemoryType = to;
  if (from == CU_MEMORYTYPE_HOST) {
    copy.srcHost = reinterpret_cast<const void*>(shape.source);
  } else {
    copy.srcDevice = shape.source;
  }
  if (to == CU_MEMORYTYPE_HOST) {
    copy.dstHost = reinterpret_cast<void*>(shape.destination);
  } else {
    copy.dstDevice = shape.destination;
  }
  copy.srcPitch = shape.source_pitch;
  copy.dstPitch = shape.destination_pitch;
  copy.srcHeight = shape.source_pitch != 0 ? shape.source_slice / shape.source_pitch : 0;
  copy.dstHeight = shape.destination_pitch != 0 ? shape.destination_slice / shape.destination_pitch : 0;
  copy.WidthInBytes = shape.width;
  copy.Height = shape.height;
  copy.Depth = shape.depth;
  return cu.cuMemcpy3DAsync_v2(&copy, stream);
}

}  // namespace

CUresult DriverBackend::CopyDevice(uint64_t id, uint64_t stream, const CopyShape& shape) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  if (!OwnsDevice(shape.destination, shape.destination_pitch, shape.width, shape.height, shape.destination_slice,
                  shape.depth) ||
      !OwnsDevice(shape.source, shape.source_pitch, shape.width, shape.height, shape.source_slice, shape.depth)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (shape.height == 1 && shape.depth == 1) {
    // By address: the other side may be another card, or mapped host memory.
    return cu_.cuMemcpyAsync(shape.destination, shape.source, shape.width, handle);
  }
  return CopyLinear3D(cu_, shape, CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED, handle);
}

CUresult DriverBackend::RegionMap(uint64_t id, uint64_t region, uint64_t address, uint64_t size, uint32_t) {
  if (Use(id) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  link::Fd fd;
  {
    std::unique_lock lock(control_lock_);
    control_moved_.wait_for(lock, kRegionFdWait, [&] { return abandoned_ || region_fds_.contains(region); });
    auto found = region_fds_.find(region);
    if (found == region_fds_.end()) return CUDA_ERROR_INVALID_VALUE;
    fd = std::move(found->second);
    region_fds_.erase(found);
  }
  absl::StatusOr<size_t> real_size = link::CheckSharedMemory(fd.get());
  if (!real_size.ok() || size == 0 || size > *real_size || regions_.contains(region) || address == 0 ||
      address % 4096 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!MayMap(address, size)) return CUDA_ERROR_ALREADY_MAPPED;
  void* memory = mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                      fd.get(), 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_ALREADY_MAPPED;
  CUresult result = CUDA_ERROR_ALREADY_MAPPED;
  if (memory == reinterpret_cast<void*>(address)) {
    result = cu_.cuMemHostRegister_v2(memory, size, CU_MEMHOSTREGISTER_DEVICEMAP);
  }
  if (result != CUDA_SUCCESS) {
    munmap(memory, size);
    return result;
  }
  regions_[region] = {.address = address, .size = size, .context = id};
  return CUDA_SUCCESS;
}

CUresult DriverBackend::RegionUnmap(uint64_t, uint64_t region) {
  auto found = regions_.find(region);
  if (found == regions_.end()) return CUDA_ERROR_INVALID_VALUE;
  Region gone = found->second;
  if (Use(gone.context) != nullptr) {
    // Copies under way still use it.
    cu_.cuCtxSynchronize();
    cu_.cuMemHostUnregister(reinterpret_cast<void*>(gone.address));
  }
  regions_.erase(found);
  munmap(reinterpret_cast<void*>(gone.address), gone.size);
  return CUDA_SUCCESS;
}

CUresult DriverBackend::CopyRegion(uint64_t id, uint64_t stream, uint32_t direction, const CopyShape& shape) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  bool upload = direction == kHostToDevice;
  if (!upload && direction != kDeviceToHost) return CUDA_ERROR_INVALID_VALUE;
  std::optional<uint64_t> host_bytes =
      upload ? Extent(shape.source_pitch, shape.width, shape.height, shape.source_slice, shape.depth)
             : Extent(shape.destination_pitch, shape.width, shape.height, shape.destination_slice, shape.depth);
  bool device_ok =
      upload ? OwnsDevice(shape.destination, shape.destination_pitch, shape.width, shape.height,
                          shape.destination_slice, shape.depth)
             : OwnsDevice(shape.source, shape.source_pitch, shape.width, shape.height, shape.source_slice, shape.depth);
  if (!host_bytes || !device_ok || !OwnsRegion(upload ? shape.source : shape.destination, *host_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (shape.height == 1 && shape.depth == 1) {
    return upload ? cu_.cuMemcpyHtoDAsync_v2(shape.destination, reinterpret_cast<const void*>(shape.source),
                                             shape.width, handle)
                  : cu_.cuMemcpyDtoHAsync_v2(reinterpret_cast<void*>(shape.destination), shape.source, shape.width,
                                             handle);
  }
  return CopyLinear3D(cu_, shape, upload ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                      upload ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST, handle);
}

// --- What waits in a stream for the client

void DriverBackend::RunRendezvous(void* argument) {
  std::shared_ptr<Rendezvous> rendezvous = std::move(static_cast<Rendezvous*>(argument)->self);
  DriverBackend& backend = *rendezvous->backend;
  switch (rendezvous->kind) {
    case RendezvousKind::kHostFunction:
      backend.events_->HostFunction(rendezvous->token & ~kOfFront, CUDA_SUCCESS);
      break;
    case RendezvousKind::kFetch:
      backend.events_->Fetch(rendezvous->token, 0, rendezvous->size);
      break;
    case RendezvousKind::kStore:
      backend.events_->Store(rendezvous->token, 0, {rendezvous->staging->memory, rendezvous->size});
      break;
  }
  std::unique_lock lock(backend.control_lock_);
  if (rendezvous->kind != RendezvousKind::kStore) {
    backend.control_moved_.wait(lock, [&] { return rendezvous->done || backend.abandoned_; });
  }
  backend.rendezvous_.erase(rendezvous->token);
  if (rendezvous->kind == RendezvousKind::kStore) {
    std::lock_guard staging_lock(rendezvous->context->staging_lock);
    rendezvous->staging->leased = false;
  }
}

CUresult DriverBackend::EnqueueHost(CUstream stream, std::shared_ptr<Rendezvous> rendezvous) {
  {
    std::lock_guard lock(control_lock_);
    if (!rendezvous_.try_emplace(rendezvous->token, rendezvous).second) return CUDA_ERROR_INVALID_VALUE;
  }
  rendezvous->self = rendezvous;
  CUresult result = cu_.cuLaunchHostFunc(stream, &RunRendezvous, rendezvous.get());
  if (result != CUDA_SUCCESS) {
    rendezvous->self.reset();
    std::lock_guard lock(control_lock_);
    rendezvous_.erase(rendezvous->token);
  }
  return result;
}

CUresult DriverBackend::StreamHostFunction(uint64_t id, uint64_t stream, uint64_t token) {
  Context* context;
  CUstream handle;
  if (!UseStream(id, stream, &context, &handle)) return CUDA_ERROR_INVALID_HANDLE;
  auto rendezvous = std::make_shared<Rendezvous>();
  rendezvous->kind = RendezvousKind::kHostFunction;
  rendezvous->backend = this;
  rendezvous->token = token | kOfFront;
  return EnqueueHost(handle, std::move(rendezvous));
}

void DriverBackend::HostFunctionDone(uint64_t token) {
  std::lock_guard lock(control_lock_);
  auto found = rendezvous_.find(token | kOfFront);
  if (found == rendezvous_.end()) return;
  found->second->done = true;
  control_moved_.notify_all();
}

void DriverBackend::FetchData(uint64_t token, uint64_t offset, std::span<const std::byte> data) {
  std::lock_guard lock(control_lock_);
  auto found = rendezvous_.find(token);
  if (found == rendezvous_.end()) return;
  Rendezvous& rendezvous = *found->second;
  if (rendezvous.kind != RendezvousKind::kFetch || rendezvous.done || offset != 0 || data.size() != rendezvous.size) {
    return;
  }
  std::memcpy(rendezvous.staging->memory, data.data(), data.size());
  rendezvous.done = true;
  control_moved_.notify_all();
}

// What both kinds of copies through the client begin with.
CUresult DriverBackend::Stage(RendezvousKind kind, uint64_t id, uint64_t stream, uint64_t token, uint64_t address,
                              uint64_t pitch, uint64_t width, uint64_t height, CUstream* handle,
                              std::shared_ptr<Rendezvous>* staged) {
  Context* context;
  if (!UseStream(id, stream, &context, handle)) return CUDA_ERROR_INVALID_HANDLE;
  if (width > kMaxRowsBytes || height > kMaxRowsBytes || width * height > kMaxRowsBytes ||
      !OwnsDevice(address, pitch, width, height)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Staging* staging = Lease(*context);
  if (staging == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  auto rendezvous = std::make_shared<Rendezvous>();
  rendezvous->kind = kind;
  rendezvous->backend = this;
  rendezvous->token = token;
  rendezvous->staging = staging;
  rendezvous->context = contexts_[id];
  rendezvous->size = width * height;
  *staged = std::move(rendezvous);
  return CUDA_SUCCESS;
}

CUresult DriverBackend::FetchCopy(uint64_t id, uint64_t stream, uint64_t token, uint64_t address, uint64_t pitch,
                                  uint64_t width, uint64_t height) {
  CUstream handle;
  std::shared_ptr<Rendezvous> rendezvous;
  CUresult result =
      Stage(RendezvousKind::kFetch, id, stream, token, address, pitch, width, height, &handle, &rendezvous);
  if (result != CUDA_SUCCESS) return result;
  result = EnqueueHost(handle, rendezvous);
  if (result == CUDA_SUCCESS) {
    result = CopyRows(handle, address, pitch, rendezvous->staging->memory, width, height, true);
  }
  return Unlease(*rendezvous->context, rendezvous->staging, handle, result);
}

CUresult DriverBackend::StoreCopy(uint64_t id, uint64_t stream, uint64_t token, uint64_t address, uint64_t pitch,
                                  uint64_t width, uint64_t height) {
  CUstream handle;
  std::shared_ptr<Rendezvous> rendezvous;
  CUresult result =
      Stage(RendezvousKind::kStore, id, stream, token, address, pitch, width, height, &handle, &rendezvous);
  if (result != CUDA_SUCCESS) return result;
  result = CopyRows(handle, address, pitch, rendezvous->staging->memory, width, height, false);
  if (result == CUDA_SUCCESS) result = EnqueueHost(handle, rendezvous);
  // Leased until its bytes have been sent.
  if (result == CUDA_SUCCESS) return cu_.cuEventRecord(rendezvous->staging->over, handle);
  return Unlease(*rendezvous->context, rendezvous->staging, handle, result);
}

}  // namespace tf::remoting
