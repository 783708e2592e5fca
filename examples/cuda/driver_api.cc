// The driver API without a compiler: loads device code as PTX text, as a fatbin and as a library, launches it in each
// documented way, and looks around the device.
#ifdef __NVCC__
#include <cuda.h>
#else
#include <tensor_fusion/cuda.h>
#endif

#include <cstdint>
#include <string>
#include <vector>

#include "example.h"

#define CHECK_DRIVER(call)                                                                           \
  do {                                                                                               \
    const CUresult tf_result = (call);                                                               \
    if (tf_result != CUDA_SUCCESS) {                                                                 \
      const char *tf_name = "?", *tf_text = "?";                                                     \
      cuGetErrorName(tf_result, &tf_name);                                                           \
      cuGetErrorString(tf_result, &tf_text);                                                         \
      example::Fail("%s (line %d): %s (%d): %s", #call, __LINE__, tf_name, (int)tf_result, tf_text); \
    }                                                                                                \
  } while (0)

namespace {

// y[i] = factor * x[i] + y[i] + offset, with `offset` a variable of the module.
constexpr char kPtx[] = R"(
.version 6.3
.target sm_75
.address_size 64

.visible .global .align 4 .f32 offset = 0f3F800000;

.visible .entry saxpy(
    .param .u32 count,
    .param .f32 factor,
    .param .u64 x,
    .param .u64 y
)
{
    .reg .pred %p<2>;
    .reg .f32 %f<6>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<7>;

    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra END;
    ld.param.f32 %f1, [factor];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.u32 %rd5, %r5, 4;
    add.s64 %rd3, %rd3, %rd5;
    add.s64 %rd4, %rd4, %rd5;
    ld.global.f32 %f2, [%rd3];
    ld.global.f32 %f3, [%rd4];
    ld.global.f32 %f4, [offset];
    fma.rn.f32 %f5, %f1, %f2, %f3;
    add.f32 %f5, %f5, %f4;
    st.global.f32 [%rd4], %f5;
END:
    ret;
}
)";

// The same text in the container that compilers make: a 16-byte header and one entry, not compressed.
std::vector<uint64_t> Fatbin() {
  struct {
    uint32_t magic = 0xBA55ED50;
    uint16_t version = 1, header_bytes = 16;
    uint64_t bytes;
    uint16_t kind = 1, unknown = 0x0101;
    uint32_t entry_header_bytes = 64;
    uint64_t payload_bytes;
    uint32_t compressed_bytes = 0, options = 0;
    uint16_t minor = 3, major = 6;
    uint32_t architecture = 75, identifier = 0, identifier_bytes = 0;
    uint64_t flags = 0x11, reserved = 0, uncompressed_bytes = 0;
  } header;
  static_assert(sizeof header == 80);
  const size_t payload = (sizeof kPtx + 7) / 8 * 8;
  header.payload_bytes = payload;
  header.bytes = 64 + payload;
  std::vector<uint64_t> image((sizeof header + payload) / 8);
  std::memcpy(image.data(), &header, sizeof header);
  std::memcpy(image.data() + sizeof header / 8, kPtx, sizeof kPtx);
  return image;
}

}  // namespace

int main(int argc, char** argv) {
  long size = 1 << 16;
  example::ParseOptions(argc, argv, "driver_api", "modules, launches and copies by the driver API",
                        {{"size", &size, "elements"}});
  if (size == 0) example::Fail("--size must be at least 1");
  unsigned count = static_cast<unsigned>(size);
  const size_t bytes = count * sizeof(float);
  const unsigned blocks = (count + 255) / 256;

  CHECK_DRIVER(cuInit(0));
  int version = 0, devices = 0, major = 0, minor = 0;
  CHECK_DRIVER(cuDriverGetVersion(&version));
  CHECK_DRIVER(cuDeviceGetCount(&devices));
  CUdevice device;
  CHECK_DRIVER(cuDeviceGet(&device, 0));
  char name[256];
  CHECK_DRIVER(cuDeviceGetName(name, sizeof name, device));
  CHECK_DRIVER(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  CHECK_DRIVER(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  if (cuDeviceGet(&device, devices) != CUDA_ERROR_INVALID_DEVICE) example::Fail("device %d exists", devices);
  CHECK_DRIVER(cuDeviceGet(&device, 0));
  CUcontext context;
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_DRIVER(cuCtxSetCurrent(context));

  CUdeviceptr x, y;
  CHECK_DRIVER(cuMemAlloc(&x, bytes));
  CHECK_DRIVER(cuMemAlloc(&y, bytes));
  CUdevice of_pointer = -1;
  CHECK_DRIVER(cuPointerGetAttribute(&of_pointer, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, y));
  if (of_pointer != device) example::Fail("memory lies on device %d, expected %d", of_pointer, device);
  std::vector<float> host_x(count), expected(count, 2.0f), result(count);
  for (unsigned i = 0; i < count; ++i) host_x[i] = static_cast<float>(i % 1000);

  CUstream stream;
  CUevent start, end;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_DRIVER(cuEventCreate(&start, CU_EVENT_DEFAULT));
  CHECK_DRIVER(cuEventCreate(&end, CU_EVENT_DEFAULT));
  CHECK_DRIVER(cuMemcpyHtoDAsync(x, host_x.data(), bytes, stream));
  CHECK_DRIVER(cuMemsetD32Async(y, 0x40000000, count, stream));  // the bits of 2.0f
  CHECK_DRIVER(cuEventRecord(start, stream));

  float factor = 0.5f;
  void* arguments[] = {&count, &factor, &x, &y};
  auto expect_step = [&](float offset) {
    for (unsigned i = 0; i < count; ++i) expected[i] += factor * host_x[i] + offset;
  };

  // PTX text, arguments as an array of pointers.
  CUmodule text_module;
  CUfunction function;
  CHECK_DRIVER(cuModuleLoadData(&text_module, kPtx));
  CHECK_DRIVER(cuModuleGetFunction(&function, text_module, "saxpy"));
  CUfunction missing;
  if (cuModuleGetFunction(&missing, text_module, "nothing") != CUDA_ERROR_NOT_FOUND) {
    example::Fail("a kernel that is not there was found");
  }
  CHECK_DRIVER(cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr));
  expect_step(1.0f);

  // A variable of the module; arguments packed in a buffer.
  CUdeviceptr offset;
  size_t offset_bytes = 0;
  CHECK_DRIVER(cuModuleGetGlobal(&offset, &offset_bytes, text_module, "offset"));
  if (offset_bytes != 4) example::Fail("`offset` has %zu bytes, expected 4", offset_bytes);
  CHECK_DRIVER(cuStreamSynchronize(stream));
  const float three = 3.0f;
  CHECK_DRIVER(cuMemcpyHtoD(offset, &three, sizeof three));
  struct {
    unsigned count;
    float factor;
    CUdeviceptr x, y;
  } packed = {count, factor, x, y};
  size_t packed_bytes = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                   CU_LAUNCH_PARAM_END};
  CHECK_DRIVER(cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, 0, stream, nullptr, extra));
  expect_step(3.0f);

  // A fatbin; an extended launch. Its `offset` is another variable, still 1.
  const std::vector<uint64_t> fatbin = Fatbin();
  CUmodule fatbin_module;
  CUfunction second;
  CHECK_DRIVER(cuModuleLoadData(&fatbin_module, fatbin.data()));
  CHECK_DRIVER(cuModuleGetFunction(&second, fatbin_module, "saxpy"));
  CUlaunchConfig config = {};
  config.gridDimX = blocks;
  config.blockDimX = 256;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  CHECK_DRIVER(cuLaunchKernelEx(&config, second, arguments, nullptr));
  expect_step(1.0f);

  // A library, whose kernels belong to no context until they are launched.
  CUlibrary library;
  CUkernel kernel;
  CUfunction third;
  CHECK_DRIVER(cuLibraryLoadData(&library, fatbin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK_DRIVER(cuLibraryGetKernel(&kernel, library, "saxpy"));
  CHECK_DRIVER(cuKernelGetFunction(&third, kernel));
  CHECK_DRIVER(cuLaunchKernel(third, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr));
  expect_step(1.0f);

  CHECK_DRIVER(cuEventRecord(end, stream));
  CHECK_DRIVER(cuMemcpyDtoHAsync(result.data(), y, bytes, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  float milliseconds = -1;
  CHECK_DRIVER(cuEventElapsedTime(&milliseconds, start, end));
  example::ExpectEqual(result.data(), expected.data(), count, 1e-6);

  int threads = 0, resident = 0;
  CHECK_DRIVER(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
  CHECK_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, function, 256, 0));
  if (threads < 256 || resident < 1) example::Fail("%d threads in a block, %d blocks resident", threads, resident);
  const CUresult too_many = cuLaunchKernel(function, blocks, 1, 1, threads + 1, 1, 1, 0, stream, arguments, nullptr);
  if (too_many != CUDA_ERROR_INVALID_VALUE) example::Fail("a block too large gave %d, expected 1", (int)too_many);

  // The way in which other libraries find the driver's functions.
  void* entry = nullptr;
  CUdriverProcAddressQueryResult status;
  CHECK_DRIVER(cuGetProcAddress("cuMemGetInfo", &entry, 12000, 0, &status));
  size_t free_bytes = 0, total_bytes = 0;
  CHECK_DRIVER(reinterpret_cast<CUresult (*)(size_t*, size_t*)>(entry)(&free_bytes, &total_bytes));
  if (total_bytes == 0 || free_bytes > total_bytes) example::Fail("%zu bytes free of %zu", free_bytes, total_bytes);

  CHECK_DRIVER(cuLibraryUnload(library));
  CHECK_DRIVER(cuModuleUnload(fatbin_module));
  CHECK_DRIVER(cuModuleUnload(text_module));
  CHECK_DRIVER(cuEventDestroy(start));
  CHECK_DRIVER(cuEventDestroy(end));
  CHECK_DRIVER(cuStreamDestroy(stream));
  CHECK_DRIVER(cuMemFree(x));
  CHECK_DRIVER(cuMemFree(y));
  CHECK_DRIVER(cuDevicePrimaryCtxRelease(device));
  example::Pass("%s (sm_%d%d), CUDA %d.%d: %u elements, 4 launches in %.2f ms", name, major, minor, version / 1000,
                version % 1000 / 10, count, milliseconds);
}
