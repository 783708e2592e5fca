// Initialisation, versions, devices.
#include <pthread.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/driver/make_backend.h"
#include "cuda/driver/state.h"
#include "cuda/driver/visible_devices.h"
#include "cuda/driver_api.h"

namespace tf::cuda::driver {
namespace {

CUresult ResultOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return CUDA_ERROR_NO_DEVICE;
    case absl::StatusCode::kUnavailable:
      return CUDA_ERROR_DEVICE_UNAVAILABLE;
    case absl::StatusCode::kFailedPrecondition:
      return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    case absl::StatusCode::kPermissionDenied:
      return CUDA_ERROR_OPERATING_SYSTEM;
    case absl::StatusCode::kResourceExhausted:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case absl::StatusCode::kInvalidArgument:
      return CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_UNKNOWN;
  }
}

bool Wanted(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

CUresult Initialise() {
  // Before the backend starts threads: a child of fork() has none of them, and locks as they happened to be.
  pthread_atfork(nullptr, nullptr, [] { g.forked.store(true); });
  absl::StatusOr<std::unique_ptr<Backend>> made = MakeBackend();
  if (!made.ok()) {
    Say("CUDA cannot start: " + std::string(made.status().message()));
    return ResultOf(made.status());
  }
  g.backend = made->release();
  g.backend->SetEvents(&g.events);
  Snapshot snapshot;
  TF_TRY(g.backend->Describe(&snapshot));
  g.version = std::min(snapshot.driver_version, kNewestVersion);
  g.maps_host_memory = snapshot.maps_host_memory != 0;
  g.launch_blocking = Wanted("TF_LAUNCH_BLOCKING") || Wanted("CUDA_LAUNCH_BLOCKING");
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  for (int index : VisibleDevices(snapshot.devices, visible, std::getenv("CUDA_DEVICE_ORDER"))) {
    auto device = std::make_unique<Device>();
    device->backend_ordinal = index;
    device->facts = snapshot.devices[index];
    device->primary_handle = g.contexts.Add(nullptr);
    auto pool = new Pool;
    pool->device = static_cast<int>(g.devices.size());
    pool->handle = device->default_pool = g.pools.Add(pool);
    device->pool.store(device->default_pool);
    g.devices.push_back(std::move(device));
  }
  if (g.devices.empty()) {
    Say(snapshot.devices.empty() ? "there is no GPU"
                                 : "CUDA_VISIBLE_DEVICES=" + std::string(visible != nullptr ? visible : "") +
                                       " names none of the " + std::to_string(snapshot.devices.size()) + " GPUs");
    return CUDA_ERROR_NO_DEVICE;
  }
  g.ready.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

bool ParseUuid(std::string_view text, char* bytes) {
  if (text.starts_with("GPU-")) text.remove_prefix(4);
  std::string digits;
  for (char c : text) {
    if (c != '-') digits += c;
  }
  if (digits.size() != 32) return false;
  for (int i = 0; i < 16; ++i) {
    bytes[i] = static_cast<char>(std::strtoul(digits.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  return true;
}

// As the driver does: cut to the buffer, always terminated.
CUresult PutText(char* out, int length, std::string_view text) {
  if (length <= 0) return CUDA_ERROR_INVALID_VALUE;
  size_t size = std::min(text.size(), static_cast<size_t>(length) - 1);
  std::memcpy(out, text.data(), size);
  out[size] = '\0';
  return CUDA_SUCCESS;
}

}  // namespace

namespace api {

CUresult cuInit(unsigned int Flags) {
  static std::mutex& mutex = *new std::mutex;
  static bool tried = false;
  static CUresult result = CUDA_SUCCESS;
  if (g.forked.load(std::memory_order_relaxed)) return CUDA_ERROR_NOT_INITIALIZED;
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  if (!tried) {
    tried = true;
    result = Initialise();
  }
  return result == CUDA_SUCCESS && g.lost.load() ? CUDA_ERROR_DEVICE_UNAVAILABLE : result;
}

CUresult cuDriverGetVersion(int* driverVersion) {
  *driverVersion = g.ready.load(std::memory_order_acquire) ? g.version : kNewestVersion;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Device* found;
  TF_TRY(DeviceOf(ordinal, &found));
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(g.devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  return PutText(name, len, device->facts.name);
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  return ParseUuid(device->facts.uuid, uuid->bytes) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) { return cuDeviceGetUuid(uuid, dev); }

CUresult cuDeviceGetLuid(char*, unsigned int*, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  return CUDA_ERROR_NOT_SUPPORTED;  // documented for Windows only
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  *bytes = device->facts.total_memory;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements, CUarray_format format, unsigned numChannels,
                                            CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_FLOAT:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (numChannels != 1 && numChannels != 2 && numChannels != 4) return CUDA_ERROR_INVALID_VALUE;
  *maxWidthInElements =
      static_cast<size_t>(std::max(0, device->attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH)));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  if (attrib < 1 || attrib >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *pi = device->attribute(attrib);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetHostAtomicCapabilities(unsigned int* capabilities, const CUatomicOperation* operations,
                                           unsigned int count, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  if (operations == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < count; ++i) {
    if (operations[i] < 0 || operations[i] >= CU_ATOMIC_OPERATION_MAX) return CUDA_ERROR_INVALID_VALUE;
    capabilities[i] = 0;  // no operation on host memory is atomic with the host's own
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
  *pi = 0;
  return CUDA_SUCCESS;
}

// The attribute GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS says that there is nothing that a host could flush.
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope) {
  if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX) return CUDA_ERROR_INVALID_VALUE;
  if (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER && scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context;
  TF_TRY(Current(&context));
  return Unsupported("cuFlushGPUDirectRDMAWrites");
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  prop->maxThreadsPerBlock = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  prop->maxThreadsDim[0] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  prop->maxThreadsDim[1] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  prop->maxThreadsDim[2] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  prop->maxGridSize[0] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  prop->maxGridSize[1] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  prop->maxGridSize[2] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  prop->sharedMemPerBlock = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->totalConstantMemory = device->attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->SIMDWidth = device->attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->regsPerBlock = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->clockRate = device->attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  prop->textureAlign = device->attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  *major = device->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = device->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  if (pciBusId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function]
  unsigned int domain = 0, bus = 0, device = 0, function = 0;
  int used = 0;
  std::string_view text = pciBusId;
  auto all = [&] { return used == static_cast<int>(text.size()); };
  bool read = (std::sscanf(pciBusId, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &used) == 4 && all()) ||
              (std::sscanf(pciBusId, "%x:%x:%x%n", &domain, &bus, &device, &used) == 3 && all());
  if (!read) {
    domain = 0;
    read = std::sscanf(pciBusId, "%x:%x.%x%n", &bus, &device, &function, &used) == 3 && all();
  }
  if (!read) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < g.devices.size(); ++i) {
    const DeviceFacts& facts = g.devices[i]->facts;
    if (facts.pci_domain == domain && facts.pci_bus == bus && facts.pci_device == device && function == 0) {
      *dev = static_cast<CUdevice>(i);
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  Device* device;
  TF_TRY(DeviceOf(dev, &device));
  char text[64];
  std::snprintf(text, sizeof text, "%04X:%02X:%02X.0", device->facts.pci_domain, device->facts.pci_bus,
                device->facts.pci_device);
  return PutText(pciBusId, len, text);
}

CUresult cuProfilerStart() {
  Context* context;
  return Current(&context);
}

CUresult cuProfilerStop() {
  Context* context;
  return Current(&context);
}

}  // namespace api
}  // namespace tf::cuda::driver
