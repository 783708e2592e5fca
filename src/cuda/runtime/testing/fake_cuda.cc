#include "cuda/runtime/testing/fake_cuda.h"

#include <cstdio>
#include <cstring>

#define FAKE __attribute__((visibility("default")))

namespace {

using tf::cuda::runtime::Fake;

Fake fake;
thread_local CUcontext current = nullptr;
char contexts[2][2];  // per device: the addresses of the primary context and of one that a test made
char libraries[8], kernels[8];

// Writes a call down; what the test wants answered, or success.
template <class... Arguments>
CUresult Note(const char* name, const char* format, Arguments... arguments) {
  char text[256];
  int length = std::snprintf(text, sizeof(text), "%s", name);
  std::snprintf(text + length, sizeof(text) - length, format, arguments...);
  std::lock_guard lock(fake.mutex);
  fake.calls.push_back(text);
  auto answer = fake.answers.find(name);
  if (answer == fake.answers.end()) return CUDA_SUCCESS;
  CUresult result = answer->second;
  fake.answers.erase(answer);
  return result;
}

CUcontext Primary(int device) { return reinterpret_cast<CUcontext>(&contexts[device][0]); }
int DeviceOf(CUcontext context) { return context == Primary(1) ? 1 : 0; }

}  // namespace

extern "C" {

FAKE Fake* tf_fake() { return &fake; }

FAKE CUresult cuInit(unsigned) { return Note("cuInit", "%s", ""); }
FAKE CUresult cuDriverGetVersion(int* version) {
  *version = fake.version;
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetCount(int* count) {
  *count = 2;
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  std::snprintf(name, length, "Fake %d", device);
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, 0x40 + device, sizeof(*uuid));
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  *bytes = size_t{1} << (34 + device);
  return CUDA_SUCCESS;
}
// An attribute's value is its number, except where a launch is checked against it.
FAKE CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = attribute <= CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z ? 1000 + attribute : static_cast<int>(attribute);
  return CUDA_SUCCESS;
}

FAKE CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
FAKE CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return Note("cuCtxSetCurrent", "(%d)", context ? DeviceOf(context) : -1);
}
FAKE CUresult cuCtxGetDevice(CUdevice* device) {
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  *device = DeviceOf(current);
  return CUDA_SUCCESS;
}
FAKE CUresult cuCtxSynchronize() { return Note("cuCtxSynchronize", "%s", ""); }
FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = Primary(device);
  fake.retained[device]++;
  return Note("cuDevicePrimaryCtxRetain", "(%d)", device);
}
FAKE CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  fake.retained[device]--;
  return Note("cuDevicePrimaryCtxRelease", "(%d)", device);
}
FAKE CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return Note("cuDevicePrimaryCtxReset", "(%d)", device); }

FAKE CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                                void**, unsigned) {
  *library = reinterpret_cast<CUlibrary>(&libraries[fake.images.size() % 8]);
  fake.images.push_back(code);
  return Note("cuLibraryLoadData", "%s", "");
}
FAKE CUresult cuLibraryUnload(CUlibrary) { return Note("cuLibraryUnload", "%s", ""); }
FAKE CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  if (std::strcmp(name, "missing") == 0) return CUDA_ERROR_NOT_FOUND;
  *kernel = reinterpret_cast<CUkernel>(&kernels[name[0] % 8]);
  return Note("cuLibraryGetKernel", "(%s)", name);
}
FAKE CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary, const char* name) {
  *address = 0x1000;
  *bytes = 64;
  return Note("cuLibraryGetGlobal", "(%s)", name);
}
FAKE CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
FAKE CUresult cuLaunchKernel(CUfunction, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, CUstream stream, void** arguments, void**) {
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  return Note("cuLaunchKernel", "(%u,%u,%u %u,%u,%u %u %p %d)", gx, gy, gz, bx, by, bz, shared,
              static_cast<void*>(stream), arguments ? *static_cast<int*>(arguments[0]) : 0);
}
FAKE CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                  CUstream, void**, void**) {
  return Note("cuLaunchKernel_ptsz", "%s", "");
}

FAKE CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  *address = 0x10000;
  return Note("cuMemAlloc", "(%zu)", bytes);
}
FAKE CUresult cuMemFree_v2(CUdeviceptr address) { return Note("cuMemFree", "(%#llx)", address); }
FAKE CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t bytes) { return Note("cuMemcpy", "(%zu)", bytes); }
FAKE CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void*, size_t bytes) {
  return Note("cuMemcpyHtoD", "(%#llx,%zu)", to, bytes);
}
FAKE CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr, const void*, size_t bytes) {
  return Note("cuMemcpyHtoD_ptds", "(%zu)", bytes);
}
FAKE CUresult cuMemcpyDtoH_v2(void*, CUdeviceptr from, size_t bytes) {
  return Note("cuMemcpyDtoH", "(%#llx,%zu)", from, bytes);
}
FAKE CUresult cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t bytes) { return Note("cuMemcpyDtoD", "(%zu)", bytes); }
FAKE CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  return Note("cuMemcpy2DUnaligned", "(%d>%d %zux%zu)", copy->srcMemoryType, copy->dstMemoryType, copy->WidthInBytes,
              copy->Height);
}
FAKE CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows) {
  return Note("cuMemsetD2D8", "(%#llx,%zu,%d,%zu,%zu)", to, pitch, value, width, rows);
}
FAKE CUresult cuStreamQuery(CUstream) { return Note("cuStreamQuery", "%s", ""); }
// Address 0x5000 is device memory of device 1, everything else is not known.
FAKE CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* names, void** values, CUdeviceptr address) {
  for (unsigned i = 0; i < count; ++i) {
    bool known = address == 0x5000;
    switch (names[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<int*>(values[i]) = known ? CU_MEMORYTYPE_DEVICE : 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = known ? 1 : -2;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<int*>(values[i]) = 0;
        break;
      default:
        *static_cast<void**>(values[i]) =
            known && names[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ? reinterpret_cast<void*>(address) : nullptr;
    }
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
