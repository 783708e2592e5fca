// The functions that libcuda.so.1 exports, and the table of them behind cuGetProcAddress. Compiled into each shared
// library itself.
#include "cuda/driver/exports.h"

#include <atomic>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "cuda/driver/output_sink.h"
#include "cuda/driver/state.h"
#include "cuda/driver_api.h"

#define TF_EXPORT extern "C" __attribute__((visibility("default")))
#define TF_IS_NULL(argument) ((argument) == nullptr)

namespace tf::cuda::driver {
namespace {

constexpr CUresult kNullOutput = CUDA_ERROR_INVALID_VALUE;

// Every call but the early ones: what keeps it from running at all, and a grace period for the objects that it finds.
template <class Call>
CUresult Enter(const char*, Call&& call) {
  if (g.forked.load(std::memory_order_relaxed) || !g.ready.load(std::memory_order_acquire)) [[unlikely]] {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  ThreadState& thread = Thread();
  if (thread.in_callback) [[unlikely]] {
    return CUDA_ERROR_NOT_PERMITTED;
  }
  if (g.lost.load(std::memory_order_relaxed)) [[unlikely]] {
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  CallScope scope(thread);
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

// Calls that are allowed before cuInit and touch no object of the driver.
template <class Call>
CUresult Early(const char*, Call&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

CUresult NotSupported(const char* symbol) { return g.forked.load() ? CUDA_ERROR_NOT_INITIALIZED : Unsupported(symbol); }

// In this scope the stream 0 is the thread's own.
class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream() : thread_(Thread()) { thread_.per_thread_default_stream = true; }
  ~PerThreadDefaultStream() { thread_.per_thread_default_stream = false; }

 private:
  ThreadState& thread_;
};

}  // namespace

#include "cuda/driver_exports.inc"

TF_EXPORT void tf_set_output_sink(OutputSink sink) { SetOutputSink(sink); }
TF_EXPORT void tf_abandon_context(CUcontext context) { AbandonContext(context); }

namespace {

struct Entry {
  const char* name;
  const char* symbol;
  void* address;
  int since;
  bool per_thread;
};

const Entry kEntries[] = {
#define TF_ENTRY(name, symbol, since, per_thread, supported) \
  {name, #symbol, reinterpret_cast<void*>(&symbol), since, per_thread},
#include "cuda/driver_entries.inc"
#undef TF_ENTRY
};

const std::vector<const Entry*>* FormsOf(std::string_view name) {
  static const auto& table = *[] {
    auto made = new std::map<std::string_view, std::vector<const Entry*>>;
    for (const Entry& entry : kEntries) (*made)[entry.name].push_back(&entry);
    return made;
  }();
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

CUresult Lookup(const char* symbol, void** pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  *pfn = nullptr;
  *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (symbol == nullptr || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  int driver = kNewestVersion;
  TF_TRY(api::cuDriverGetVersion(&driver));
  if (version > driver) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<const Entry*>* forms = FormsOf(symbol);
  if (forms == nullptr) return CUDA_SUCCESS;
  *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  const Entry* best = nullptr;
  for (const Entry* form : *forms) {
    if (form->since > version) continue;
    if (form->per_thread && flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) continue;
    // The newest form; of that the per-thread one where it is asked for.
    if (best == nullptr || form->since > best->since || (form->since == best->since && form->per_thread)) best = form;
  }
  if (best == nullptr) return CUDA_SUCCESS;
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  *pfn = best->address;
  return CUDA_SUCCESS;
}

}  // namespace

void* FindExport(std::string_view symbol) {
  for (const Entry& entry : kEntries) {
    if (symbol == entry.symbol) return entry.address;
  }
  return symbol == "tf_set_output_sink" ? reinterpret_cast<void*>(&tf_set_output_sink) : nullptr;
}

namespace api {

// CUDA 11.3: what is not there is an error.
CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  CUdriverProcAddressQueryResult status;
  TF_TRY(Lookup(symbol, pfn, cudaVersion, flags, &status));
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// CUDA 12.0: what is not there is a null pointer and a status.
CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbolStatus) {
  CUdriverProcAddressQueryResult status;
  CUresult result = Lookup(symbol, pfn, cudaVersion, flags, &status);
  if (symbolStatus != nullptr) *symbolStatus = status;
  return result;
}

CUresult cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  if (ppExportTable == nullptr || pExportTableId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *ppExportTable = nullptr;
  // NVIDIA's static runtime asks for these tables first. They are not documented, and not offered.
  Unsupported("cuGetExportTable (programs must use the CUDA runtime as a shared library: nvcc -cudart shared)");
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace api
}  // namespace tf::cuda::driver
