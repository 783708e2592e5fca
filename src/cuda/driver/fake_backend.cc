#include "cuda/driver/fake_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cuda/driver/make_backend.h"

namespace tf::cuda::driver {
namespace {

FakeBackend* the_backend = nullptr;
absl::Status make_status;
int32_t variable = 5;

DeviceFacts MakeDevice(int index) {
  DeviceFacts facts;
  facts.name = "Fake Card " + std::to_string(index);
  facts.uuid = "GPU-0" + std::to_string(index) + "020304-0506-0708-090a-0b0c0d0e0f10";
  facts.pci_domain = 0;
  facts.pci_bus = 0x3b + 16 * index;
  facts.total_memory = uint64_t{16} << 30;
  std::vector<int32_t>& a = facts.attributes;
  a.resize(CU_DEVICE_ATTRIBUTE_MAX);
  a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
  a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024;
  a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64;
  a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = 0x7fffffff;
  a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535;
  a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = 49152;
  a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = 166912;
  a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = 167936;
  a[CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK] = 1024;
  a[CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32;
  a[CU_DEVICE_ATTRIBUTE_MAX_PITCH] = 0x7fffffff;
  a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] = 65536;
  a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048;
  a[CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR] = 32;
  a[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 108;
  a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 8;
  a[CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1;
  a[CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1;
  return facts;
}

KernelFacts MakeKernel(const std::string& name) {
  KernelFacts facts;
  facts.name = name;
  facts.attributes.resize(CU_FUNC_ATTRIBUTE_MAX);
  facts.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = name == "big" ? 256 : 1024;
  facts.attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = name == "big" ? 128 : 32;
  facts.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = name == "shared" ? 8192 : 0;
  // Three pointers and a number; "big" has a hole and a large struct.
  if (name == "add") facts.parameters = {{0, 8}, {8, 8}, {16, 8}, {24, 4}};
  if (name == "big") facts.parameters = {{0, 1}, {8, 8}, {16, 8000}};
  return facts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend() {
  if (!make_status.ok()) return make_status;
  auto made = std::make_unique<FakeBackend>();
  the_backend = made.get();
  return made;
}

FakeBackend& Fake() { return *the_backend; }
void SetMakeStatus(absl::Status status) { make_status = std::move(status); }

FakeBackend::FakeBackend() {
  // A thread of its own, as any backend has.
  std::thread([this] {
    std::unique_lock lock(mutex);
    for (;;) {
      changed_.wait(lock, [this] { return !tokens_.empty(); });
      uint64_t token = tokens_.front();
      tokens_.pop_front();
      running_ = true;
      auto status = always.find("HostFunction");
      CUresult result = status != always.end() ? status->second : CUDA_SUCCESS;
      lock.unlock();
      events_->HostFunction(token, result);
      lock.lock();
      running_ = false;
      changed_.notify_all();
    }
  }).detach();
}

int FakeBackend::Count(const std::string& name) {
  std::lock_guard lock(mutex);
  return static_cast<int>(std::count(calls.begin(), calls.end(), name));
}

void FakeBackend::Forget() {
  std::lock_guard lock(mutex);
  calls.clear();
  fails.clear();
  always.clear();
}

void FakeBackend::DrainHostFunctions() {
  std::unique_lock lock(mutex);
  changed_.wait(lock, [this] { return tokens_.empty() && !running_; });
}

CUresult FakeBackend::Note(const char* name) {
  if (calls.size() < 100000) calls.push_back(name);
  if (auto found = always.find(name); found != always.end()) return found->second;
  auto found = fails.find(name);
  if (found == fails.end()) return CUDA_SUCCESS;
  CUresult result = found->second;
  fails.erase(found);
  return result;
}

CUresult FakeBackend::NoteStream(const char* name, uint64_t stream) {
  last_stream = stream;
  return Note(name);
}

uint64_t FakeBackend::Take(uint64_t context, uint64_t size) {
  if (size > memory_limit - memory_used) return 0;
  memory_used += size;
  uint64_t address = reinterpret_cast<uint64_t>(std::aligned_alloc(512, (size + 511) / 512 * 512));
  memory_[address] = {context, size};
  return address;
}

CUresult FakeBackend::Give(uint64_t address) {
  auto found = memory_.find(address);
  if (found == memory_.end()) return CUDA_ERROR_INVALID_VALUE;
  memory_used -= found->second.second;
  std::free(reinterpret_cast<void*>(address));
  memory_.erase(found);
  return CUDA_SUCCESS;
}

#define TF_NOTE(name)          \
  std::lock_guard lock(mutex); \
  if (CUresult r = Note(name); r) return r

CUresult FakeBackend::Describe(Snapshot* snapshot) {
  TF_NOTE("Describe");
  snapshot->driver_version = 13000;
  snapshot->maps_host_memory = 1;
  snapshot->devices = {MakeDevice(0), MakeDevice(1)};
  return CUDA_SUCCESS;
}

CUresult FakeBackend::ContextCreate(uint64_t context, int32_t, uint32_t) {
  TF_NOTE("ContextCreate");
  contexts.insert(context);
  return CUDA_SUCCESS;
}

CUresult FakeBackend::ContextDestroy(uint64_t context) {
  TF_NOTE("ContextDestroy");
  contexts.erase(context);
  std::vector<uint64_t> gone;
  for (auto& [address, owner] : memory_) {
    if (owner.first == context) gone.push_back(address);
  }
  for (uint64_t address : gone) Give(address);
  return CUDA_SUCCESS;
}

CUresult FakeBackend::ContextAbandon(uint64_t) {
  TF_NOTE("ContextAbandon");
  return CUDA_SUCCESS;
}

CUresult FakeBackend::ContextSetLimit(uint64_t, int32_t limit, uint64_t) {
  TF_NOTE("ContextSetLimit");
  return limit <= CU_LIMIT_MALLOC_HEAP_SIZE ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

CUresult FakeBackend::ContextGetLimit(uint64_t, int32_t, uint64_t* value) {
  TF_NOTE("ContextGetLimit");
  *value = 1024;
  return CUDA_SUCCESS;
}

Pending FakeBackend::ContextSynchronize(uint64_t) {
  std::lock_guard lock(mutex);
  return Pending::Now(Note("ContextSynchronize"));
}

CUresult FakeBackend::PeerEnable(uint64_t, uint64_t) {
  TF_NOTE("PeerEnable");
  return CUDA_SUCCESS;
}
CUresult FakeBackend::PeerDisable(uint64_t, uint64_t) {
  TF_NOTE("PeerDisable");
  return CUDA_SUCCESS;
}

CUresult FakeBackend::StreamCreate(uint64_t, uint64_t stream, uint32_t, int32_t priority) {
  TF_NOTE("StreamCreate");
  streams.insert(stream);
  created_priority = priority;
  return CUDA_SUCCESS;
}
CUresult FakeBackend::StreamDestroy(uint64_t, uint64_t stream) {
  TF_NOTE("StreamDestroy");
  streams.erase(stream);
  return CUDA_SUCCESS;
}
CUresult FakeBackend::StreamQuery(uint64_t, uint64_t stream) {
  std::lock_guard lock(mutex);
  return NoteStream("StreamQuery", stream);
}
Pending FakeBackend::StreamSynchronize(uint64_t, uint64_t stream) {
  std::lock_guard lock(mutex);
  return Pending::Now(NoteStream("StreamSynchronize", stream));
}
CUresult FakeBackend::StreamWaitEvent(uint64_t, uint64_t stream, uint64_t, uint32_t) {
  std::lock_guard lock(mutex);
  return NoteStream("StreamWaitEvent", stream);
}
CUresult FakeBackend::StreamHostFunction(uint64_t, uint64_t, uint64_t token) {
  TF_NOTE("StreamHostFunction");
  tokens_.push_back(token);
  changed_.notify_all();
  return CUDA_SUCCESS;
}

CUresult FakeBackend::EventCreate(uint64_t, uint64_t event, uint32_t) {
  TF_NOTE("EventCreate");
  events.insert(event);
  return CUDA_SUCCESS;
}
CUresult FakeBackend::EventDestroy(uint64_t, uint64_t event) {
  TF_NOTE("EventDestroy");
  events.erase(event);
  return CUDA_SUCCESS;
}
CUresult FakeBackend::EventRecord(uint64_t, uint64_t, uint64_t stream, uint32_t) {
  std::lock_guard lock(mutex);
  return NoteStream("EventRecord", stream);
}
CUresult FakeBackend::EventQuery(uint64_t, uint64_t) {
  TF_NOTE("EventQuery");
  return event_ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
Pending FakeBackend::EventSynchronize(uint64_t, uint64_t) {
  std::lock_guard lock(mutex);
  return Pending::Now(Note("EventSynchronize"));
}
CUresult FakeBackend::EventElapsed(uint64_t, uint64_t, uint64_t, float* milliseconds) {
  TF_NOTE("EventElapsed");
  *milliseconds = 1.5f;
  return event_ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult FakeBackend::MemoryInfo(uint64_t, uint64_t* free, uint64_t* total) {
  TF_NOTE("MemoryInfo");
  *total = uint64_t{16} << 30;
  *free = *total - memory_used;
  return CUDA_SUCCESS;
}
CUresult FakeBackend::MemoryAllocate(uint64_t context, uint64_t size, uint64_t* address) {
  TF_NOTE("MemoryAllocate");
  *address = Take(context, size);
  return *address != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult FakeBackend::MemoryFree(uint64_t, uint64_t address) {
  TF_NOTE("MemoryFree");
  return Give(address);
}
CUresult FakeBackend::PoolCreate(uint64_t, uint64_t, int32_t, uint64_t) {
  TF_NOTE("PoolCreate");
  return CUDA_SUCCESS;
}
CUresult FakeBackend::PoolDestroy(uint64_t, uint64_t) {
  TF_NOTE("PoolDestroy");
  return CUDA_SUCCESS;
}
CUresult FakeBackend::PoolTrim(uint64_t, uint64_t, uint64_t) {
  TF_NOTE("PoolTrim");
  return CUDA_SUCCESS;
}
CUresult FakeBackend::PoolSetAttribute(uint64_t, uint64_t pool, int32_t attribute, uint64_t value) {
  TF_NOTE("PoolSetAttribute");
  pool_attributes_[{pool, attribute}] = value;
  return CUDA_SUCCESS;
}
CUresult FakeBackend::PoolGetAttribute(uint64_t, uint64_t pool, int32_t attribute, uint64_t* value) {
  TF_NOTE("PoolGetAttribute");
  *value = pool_attributes_[{pool, attribute}];
  return CUDA_SUCCESS;
}
CUresult FakeBackend::PoolAllocate(uint64_t context, uint64_t, uint64_t, uint64_t size, uint64_t* address) {
  TF_NOTE("PoolAllocate");
  *address = Take(context, size);
  return *address != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult FakeBackend::PoolFree(uint64_t, uint64_t, uint64_t address) {
  TF_NOTE("PoolFree");
  return Give(address);
}

CUresult FakeBackend::HostAllocate(uint64_t context, uint64_t size, uint32_t, uint64_t* address) {
  TF_NOTE("HostAllocate");
  *address = Take(context, size);
  return *address != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult FakeBackend::HostFree(uint64_t, uint64_t address) {
  TF_NOTE("HostFree");
  return Give(address);
}
CUresult FakeBackend::HostRegister(uint64_t, uint64_t, uint64_t, uint32_t) {
  TF_NOTE("HostRegister");
  return CUDA_SUCCESS;
}
CUresult FakeBackend::HostUnregister(uint64_t, uint64_t) {
  TF_NOTE("HostUnregister");
  return CUDA_SUCCESS;
}

Pending FakeBackend::Copy(uint64_t, uint64_t stream, uint32_t direction, const CopyShape& shape, uint32_t flags) {
  std::lock_guard lock(mutex);
  if (CUresult result = NoteStream("Copy", stream); result != CUDA_SUCCESS) return Pending::Now(result);
  copy_direction = direction;
  copy_flags = flags;
  copy = shape;
  for (uint64_t z = 0; z < shape.depth; ++z) {
    for (uint64_t y = 0; y < shape.height; ++y) {
      std::memcpy(
          reinterpret_cast<void*>(shape.destination + z * shape.destination_slice + y * shape.destination_pitch),
          reinterpret_cast<void*>(shape.source + z * shape.source_slice + y * shape.source_pitch), shape.width);
    }
  }
  return Pending::Now(CUDA_SUCCESS);
}

CUresult FakeBackend::Fill(uint64_t, uint64_t stream, uint64_t address, uint64_t pitch, uint32_t element,
                           uint32_t value, uint64_t width, uint64_t height) {
  std::lock_guard lock(mutex);
  if (CUresult result = NoteStream("Fill", stream); result != CUDA_SUCCESS) return result;
  for (uint64_t y = 0; y < height; ++y) {
    for (uint64_t x = 0; x < width; x += element) {
      std::memcpy(reinterpret_cast<void*>(address + y * pitch + x), &value, element);
    }
  }
  return CUDA_SUCCESS;
}

CUresult FakeBackend::ModuleLoad(uint64_t, uint64_t, std::span<const std::byte> image, ModuleFacts* facts) {
  TF_NOTE("ModuleLoad");
  std::string text(reinterpret_cast<const char*>(image.data()), image.size());
  if (text.find("bad") != std::string::npos) {
    facts->log = "line 3: unknown opcode bad";
    return CUDA_ERROR_INVALID_PTX;
  }
  std::istringstream names(text.substr(text.find("//") + 2));
  for (std::string name; names >> name;) facts->kernels.push_back(MakeKernel(name));
  facts->log = "all well";
  return CUDA_SUCCESS;
}
CUresult FakeBackend::ModuleUnload(uint64_t, uint64_t) {
  TF_NOTE("ModuleUnload");
  return CUDA_SUCCESS;
}
CUresult FakeBackend::ModuleGlobal(uint64_t, uint64_t, std::string_view name, uint64_t* address, uint64_t* size) {
  TF_NOTE("ModuleGlobal");
  if (name != "variable") return CUDA_ERROR_NOT_FOUND;
  *address = reinterpret_cast<uint64_t>(&variable);
  *size = sizeof variable;
  return CUDA_SUCCESS;
}
CUresult FakeBackend::KernelSetAttribute(uint64_t, uint64_t, uint32_t, int32_t, int32_t) {
  TF_NOTE("KernelSetAttribute");
  return CUDA_SUCCESS;
}

CUresult FakeBackend::Launch(uint64_t, uint64_t stream, uint64_t, uint32_t kernel, const LaunchShape& shape,
                             std::span<const std::byte> bytes) {
  if (idle.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  launches.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex);
  if (CUresult result = NoteStream("Launch", stream); result != CUDA_SUCCESS) return result;
  launch = shape;
  parameters.assign(bytes.begin(), bytes.end());
  if (kernel != 0) return CUDA_SUCCESS;
  struct {
    const int *a, *b;
    int* c;
    int n;
  } arguments;
  std::memcpy(&arguments, bytes.data(), 28);
  for (int i = 0; i < arguments.n; ++i) arguments.c[i] = arguments.a[i] + arguments.b[i];
  return CUDA_SUCCESS;
}

}  // namespace tf::cuda::driver
