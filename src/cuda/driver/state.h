// The state of the driver front: one process object that is never destroyed, the objects behind handles, and the few
// functions that every implementation file uses.
//
// Objects are found through handle tables (handles.h) and live until the call ends (thread.h). What changes after an
// object was published is atomic or guarded by the mutex that is named beside it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cuda/backend.h"
#include "cuda/driver/allocations.h"
#include "cuda/driver/handles.h"
#include "cuda/driver/thread.h"

namespace tf::cuda::driver {

#define TF_TRY(call) \
  if (CUresult tf_result = (call); tf_result != CUDA_SUCCESS) return tf_result

// The newest interface that we know.
inline constexpr int kNewestVersion = 13050;

struct Context {
  CUcontext handle = nullptr;
  uint64_t id = 0;  // the backend's number
  int device = 0;   // the program's ordinal
  bool primary = false;
  unsigned int api_version = 3020;
  std::atomic<unsigned int> flags{0};
  std::atomic<bool> abandoned{false};  // nobody waits for its work when it is destroyed
  std::atomic<int> error{0};           // a 700-class error: every later call answers it
  std::atomic<CUfunc_cache> cache_config{CU_FUNC_CACHE_PREFER_NONE};

  std::mutex mutex;
  bool destroyed = false;  // nothing may be added
  std::unordered_set<CUstream> streams;
  std::unordered_set<CUevent> events;
  std::unordered_set<CUmodule> modules;
  std::unordered_set<uint64_t> peers;  // numbers of contexts
};

struct Stream {
  CUstream handle = nullptr;
  Context* context = nullptr;
  CUcontext context_handle = nullptr;
  uint64_t id = 0;
  unsigned int flags = 0;
  int priority = 0;
  std::atomic<int> sync_policy{CU_SYNC_POLICY_AUTO};
};

struct Event {
  CUevent handle = nullptr;
  Context* context = nullptr;
  uint64_t id = 0;
  unsigned int flags = 0;
  std::atomic<bool> recorded{false};
};

struct Function {
  CUmodule module = nullptr;
  Context* context = nullptr;
  uint64_t module_id = 0;
  uint32_t index = 0;
  const KernelFacts* facts = nullptr;  // of the module, which is retired together with this
  uint32_t parameter_bytes = 0;
  int max_threads = 0, static_shared = 0, registers = 0;
  std::atomic<int> max_dynamic_shared{0};
  std::atomic<int> carveout{-1};
  std::atomic<int> non_portable_cluster{0};
};

struct Module {
  CUmodule handle = nullptr;
  Context* context = nullptr;
  uint64_t id = 0;
  CUlibrary library = nullptr;  // made for this library
  ModuleFacts facts;
  std::unordered_map<std::string_view, uint32_t> kernels;
  std::mutex mutex;
  std::vector<CUfunction> functions;  // by index of the kernel; null until asked for
  std::map<std::string, std::pair<uint64_t, uint64_t>, std::less<>>
      globals;  // address and size, as they were asked for
};

struct Kernel {
  CUkernel handle = nullptr;
  CUlibrary library = nullptr;
  uint32_t index = 0;
  std::string name;
  // The function that it was last in each device's context: a hint.
  std::unique_ptr<std::atomic<CUfunction>[]> function;
};

struct Library {
  CUlibrary handle = nullptr;
  std::string storage;  // the image, unless the program keeps it
  std::span<const std::byte> image;
  std::mutex mutex;
  std::map<uint64_t, CUmodule> modules;  // by context number
  std::optional<ModuleFacts> facts;      // of the first module loaded; the same in every context but for addresses
  std::map<std::string, CUkernel, std::less<>> kernels;
  // What cuKernelSetAttribute asked for; applied to modules loaded later.
  struct Setting {
    uint32_t kernel;
    int device;
    CUfunction_attribute attribute;
    int value;
  };
  std::vector<Setting> settings;
};

struct Pool {
  CUmemoryPool handle = nullptr;
  int device = 0;
  uint64_t id = 0;  // 0: the device's default pool
  uint64_t max_size = 0;
  std::mutex mutex;
  std::map<int, CUmemAccess_flags> access;  // of other devices
};

struct Device {
  int backend_ordinal = 0;
  DeviceFacts facts;
  CUcontext primary_handle = nullptr;  // the same for the life of the process
  CUmemoryPool default_pool = nullptr;
  std::atomic<CUmemoryPool> pool{nullptr};  // the current one

  std::mutex mutex;  // what follows
  unsigned int references = 0;
  unsigned int flags = 0;
  bool active = false;

  int attribute(CUdevice_attribute which) const {
    size_t index = static_cast<size_t>(which);
    return index < facts.attributes.size() ? facts.attributes[index] : 0;
  }
};

// A program's function that a stream will call.
struct HostCall {
  std::function<void(CUresult)> run;
  bool even_after_errors = false;
};

class Events : public BackendEvents {
 public:
  void HostFunction(uint64_t token, int32_t status) override;
  void Output(uint64_t context, std::string_view text) override;
};

struct Driver {
  std::atomic<bool> ready{false};   // cuInit succeeded
  std::atomic<bool> lost{false};    // the backend is gone for good
  std::atomic<bool> forked{false};  // a child after fork(): touch nothing
  bool launch_blocking = false;
  int version = kNewestVersion;

  Backend* backend = nullptr;
  Events events;
  bool maps_host_memory = false;
  std::vector<std::unique_ptr<Device>> devices;  // visible ones, in the program's order
  std::atomic<uint64_t> next_number{1};          // for the backend's names and everything that must be unique

  HandleTable<CUcontext, Context> contexts{HandleKind::kContext};
  HandleTable<CUmodule, Module> modules{HandleKind::kModule};
  HandleTable<CUfunction, Function> functions{HandleKind::kFunction};
  HandleTable<CUlibrary, Library> libraries{HandleKind::kLibrary};
  HandleTable<CUkernel, Kernel> kernels{HandleKind::kKernel};
  HandleTable<CUevent, Event> event_table{HandleKind::kEvent};
  HandleTable<CUstream, Stream> streams{HandleKind::kStream};
  HandleTable<CUmemoryPool, Pool> pools{HandleKind::kPool};
  Allocations allocations;

  std::mutex host_calls_mutex;
  std::unordered_map<uint64_t, HostCall> host_calls;  // by token
  std::mutex context_names_mutex;
  std::unordered_map<uint64_t, CUcontext> context_names;  // by the backend's number

  uint64_t Number() { return next_number.fetch_add(1, std::memory_order_relaxed); }
};

// Everything lives in here.
extern Driver& g;

// One line on standard error.
void Say(std::string_view line);

// NOT_SUPPORTED, with one line on standard error for each `what` (a function, or a use of one).
CUresult Unsupported(const char* what);

// Notes what a backend operation of the context answered: 700-class errors stay, a lost backend is lost.
CUresult Checked(Context& context, CUresult result);

// The context that is current in this thread: INVALID_CONTEXT if none, CONTEXT_IS_DESTROYED if it ended elsewhere, or
// its lasting error.
CUresult Current(Context** context);
// The same without the lasting error.
CUresult CurrentEvenIfBroken(Context** context);
// Null: the current one.
CUresult ContextOf(CUcontext handle, Context** context);
CUresult DeviceOf(CUdevice ordinal, Device** device);

struct StreamRef {
  Context* context = nullptr;
  uint64_t id = 0;           // 0: the legacy default stream
  Stream* stream = nullptr;  // null for default streams
};
CUresult Resolve(CUstream handle, StreamRef* stream);
// Ends an asynchronous call: notes the result and, if the program wants blocking calls, waits for the stream.
CUresult Queued(const StreamRef& stream, CUresult result);

// Any function or kernel handle, as a function of the current context.
CUresult FunctionOf(CUfunction handle, Function** function);
// The module of a library in a context, loaded if it is not yet.
CUresult LibraryModule(Library& library, Context& context, Module** module);
CUresult LoadModule(Context& context, std::span<const std::byte> image, CUlibrary library, Module** module,
                    std::string* log);
CUresult UnloadModule(CUmodule handle);
CUresult ModuleFunction(Module& module, uint32_t index, CUfunction* function);
// The bytes of a file that holds an image. FILE_NOT_FOUND, INVALID_IMAGE.
CUresult ReadImageFile(const char* name, std::string* bytes);
// Whether every page of the range is mapped in this process.
bool IsMapped(uint64_t address, uint64_t size);
// Attributes that a program may set: whether it may, and doing it.
CUresult CheckAttribute(CUfunction_attribute attribute, int value, int static_shared, const Device& device);
CUresult SetAttribute(Function& function, CUfunction_attribute attribute, int value);
// Makes handles of everything in the context invalid and ends it in the backend. The handle itself is no longer found.
void EndContext(Context* context);
// Ends the work of a context whose owner is gone; its destruction then waits for nothing. libcuda.so.1 exports this as
// `tf_abandon_context(CUcontext)` for a process that runs kernels on behalf of others, who may die in the middle of an
// endless one. From any thread.
void AbandonContext(CUcontext handle);
// A context number on this device that operations which need any context can use: the current one, the primary one, or
// a hidden one that lives as long as `scope`.
class AnyContext {
 public:
  explicit AnyContext(int device);
  ~AnyContext();
  AnyContext(const AnyContext&) = delete;
  AnyContext& operator=(const AnyContext&) = delete;
  CUresult result() const { return result_; }
  uint64_t id() const { return id_; }

 private:
  uint64_t id_ = 0;
  bool hidden_ = false;
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace tf::cuda::driver
