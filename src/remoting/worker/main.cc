// tensor-fusion-worker: checks the licence, owns a slice of a GPU, executes the CUDA calls of its clients inside the
// limits.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "cuda/loader/library.h"
#include "cuda/loader/monitor.h"
#include "gpu/card_names.h"
#include "gpu/quota.h"
#include "license/gate.h"
#include "link/listener.h"
#include "remoting/version.h"
#include "remoting/worker/monitor.h"
#include "remoting/worker/server.h"
#include "remoting/worker/status_file.h"
#include "spdlog/spdlog.h"

namespace tf::remoting {
namespace {

struct Options {
  std::string net = "native";
  int port = 8000;
  std::string address = "127.0.0.1";
  std::string name = "tf_shm";
  uint32_t mib = 64;
  std::string folder = "/dev/shm";
  std::string key_file;
  bool insecure = false;
  bool refuse_without_key = false;
  std::string connection_file;
};

int Fail(const std::string& what) {
  std::fprintf(stderr, "tensor-fusion-worker: %s\n", what.c_str());
  return 1;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// A symbol that only our own drivers have.
void* FindSymbol(const std::string& library, const char* symbol) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : dlsym(handle, symbol);
}

bool LogEnabled() {
  const char* value = std::getenv("TF_ENABLE_LOG");
  return value != nullptr && std::string_view(value) == "1";
}

// Writes the status file each second until told to stop.
class StatusWriter {
 public:
  explicit StatusWriter(std::function<WorkerStatus()> read) : read_(std::move(read)) {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "tf-status");
      Run();
    });
  }
  ~StatusWriter() {
    {
      std::lock_guard lock(lock_);
      stopping_ = true;
      wake_.notify_all();
    }
    thread_.join();
    RemoveStatus(getpid());
  }

 private:
  void Run() {
    bool complained = false;
    std::unique_lock lock(lock_);
    while (!stopping_) {
      absl::Status written = WriteStatus(read_());
      if (!written.ok() && !complained) spdlog::warn("no status for tfctl top: {}", Message(written));
      complained = !written.ok();
      wake_.wait_for(lock, std::chrono::seconds(1), [&] { return stopping_; });
    }
  }
  const std::function<WorkerStatus()> read_;
  std::mutex lock_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Executes the CUDA calls of its clients on a slice of a GPU.", "tensor-fusion-worker");
  app.set_version_flag("-v,--version", std::string("tensor-fusion-worker ") + kProgramVersion);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.add_option("-n,--net", options.net, "How clients connect: native (TCP) or shmem (shared memory)")
      ->check(CLI::IsMember({"native", "shmem"}))
      ->capture_default_str();
  app.add_option("-p,--port", options.port, "native: TCP port; 0 takes a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--address", options.address, "native: address to listen on; beyond loopback a link key is needed")
      ->capture_default_str();
  app.add_option("-m,--shmem-file", options.name, "shmem: name of the worker on this machine")->capture_default_str();
  app.add_option("-M,--shmem-size", options.mib, "shmem: most MiB of shared memory for one connection")
      ->check(CLI::Range(link::ConnectionString::kMinMib, link::ConnectionString::kMaxMib))
      ->capture_default_str();
  app.add_option("--shmem-folder", options.folder, "shmem: folder of the worker's socket")->capture_default_str();
  app.add_option("--link-key-file", options.key_file,
                 "File of mode 0600 with the link key (64 hexadecimal digits): TLS with this key on TCP");
  app.add_flag("--insecure-plaintext", options.insecure,
               "native: permit an address beyond loopback without a link key");
  app.add_flag("--refuse-without-key", options.refuse_without_key,
               "native: beyond loopback and without a link key listen all the same, and refuse every client");
  app.add_option("--connection-file", options.connection_file,
                 "Write the connection string to this file when ready (TF_CONNECTION_INFO_PATH: ip, port and pid)");
  app.footer(
      "Environment:\n"
      "  TF_LICENSE, TF_LICENSE_SIGN  licence text and signature; without a valid pair the worker exits with status "
      "78\n"
      "  TF_GPU_MEMORY_LIMIT          MiB of device memory for all clients together, on each card\n"
      "  TF_CUDA_SM_PERCENT_LIMIT     percent of a card's compute, 1 to 100\n"
      "  TF_CUDA_LIB_PATH, TF_NVML_LIB_PATH  driver libraries to use instead of the system's\n"
      "  TF_ENABLE_LOG=1              log to standard error; TF_LOG_LEVEL sets what\n"
      "  CUDA_VISIBLE_DEVICES         cards to use, as CUDA documents it\n"
      "  TF_GPU_IDS                   the same by the names of their GPU objects, instead of it");
  CLI11_PARSE(app, argc, argv);
  InitLog("tensor-fusion-worker");
  // One thread waits for the signals that end a worker; the others, a driver's included, never see them.
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // A client takes several descriptors; the usual soft limit of 1024 would be full with some 200 of them.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }

  if (const char* ids = std::getenv("TF_GPU_IDS"); ids != nullptr) {
    // Empty: the pod was bound past whoever chooses cards. It is not to have all of them for that.
    const absl::StatusOr<std::string> visible = gpu::VisibleDevices(ids);
    if (!visible.ok()) return Fail(absl::StrCat("TF_GPU_IDS: ", visible.status().message()));
    setenv("CUDA_VISIBLE_DEVICES", visible->c_str(), 1);
  }

  // Licence first, before any GPU is opened.
  license::GateInputs gate;
  gate.env = license::ProcessEnv();
  gate.now = absl::Now();
  gate.list_gpus = []() -> absl::StatusOr<std::vector<std::string>> {
    absl::StatusOr<cuda::NvmlLibrary> nvml = cuda::LoadNvml();
    if (!nvml.ok()) return nvml.status();
    return cuda::VisibleGpuUuids(nvml->functions);
  };
  license::FileTimeStore store(license::TimeStorePath(gate.env, geteuid() == 0));
  gate.time_store = &store;
  license::GateResult licensed = license::CheckWorkerLicense(gate);
  if (!licensed.passed) {
    std::fprintf(stderr, "%s\n", licensed.line.c_str());
    return licensed.exit_status;
  }
  if (LogEnabled()) std::fprintf(stderr, "%s\n", licensed.line.c_str());
  for (const std::string& warning : licensed.warnings) spdlog::warn("{}", warning);

  absl::StatusOr<gpu::Quota> quota = gpu::QuotaFromEnvironment();
  if (!quota.ok()) return Fail(Message(quota.status()));

  absl::StatusOr<cuda::DriverLibrary> driver = cuda::LoadDriver();
  if (!driver.ok()) return Fail(Message(driver.status()));
  const cuda::DriverFunctions& cu = driver->functions;
  if (CUresult result = cu.cuInit(0); result != CUDA_SUCCESS) {
    return Fail(absl::StrCat("the driver ", driver->path, " cannot start (CUDA error ", result,
                             "); expected a machine with a card, or the simulated driver in TF_CUDA_LIB_PATH"));
  }
  // NVML tells how busy the cards are; without it a compute limit cannot be held.
  std::unique_ptr<cuda::NvmlSession> nvml;
  absl::StatusOr<cuda::NvmlLibrary> nvml_library = cuda::LoadNvml();
  if (nvml_library.ok()) {
    absl::StatusOr<std::unique_ptr<cuda::NvmlSession>> session = cuda::NvmlSession::Start(nvml_library->functions);
    if (session.ok()) nvml = *std::move(session);
  }
  Card card;
  card.driver = &cu;
  card.snapshot = ReadSnapshot(cu);
  if (card.snapshot.devices.empty()) return Fail("the driver lists no card");
  std::optional<uint64_t> limit = quota->memory_bytes;
  for (cuda::DeviceFacts& device : card.snapshot.devices) {
    if (limit) device.total_memory = std::min(device.total_memory, *limit);
  }
  card.books = std::make_unique<MemoryBooks>(static_cast<int>(card.snapshot.devices.size()), limit);
  Monitor monitor(nvml.get(), card.snapshot, card.books.get());
  card.monitor = [&](cuda::MonitorReport* report) { return monitor.Read(report); };
  if (quota->compute_percent && *quota->compute_percent < 100) {
    if (nvml == nullptr) {
      return Fail(
          "TF_CUDA_SM_PERCENT_LIMIT needs NVML to measure what it limits, and no libnvidia-ml.so.1 can be used; set "
          "TF_NVML_LIB_PATH");
    }
    auto counter = std::make_shared<BusyCounter>(nvml.get(), card.snapshot);
    card.throttle =
        std::make_unique<Throttle>(static_cast<int>(*quota->compute_percent), [counter] { return counter->Read(); });
  }
  BusyCounter busy(nvml.get(), card.snapshot);
  card.abandon_context =
      reinterpret_cast<decltype(card.abandon_context)>(FindSymbol(driver->path, "tf_abandon_context"));
  // What kernels print belongs to the program that launched them.
  using SetOutputSink = void (*)(void (*)(CUcontext, const char*, size_t));
  if (auto set_sink = reinterpret_cast<SetOutputSink>(FindSymbol(driver->path, "tf_set_output_sink"))) {
    set_sink([](CUcontext context, const char* text, size_t size) {
      DriverBackend::DeliverOutput(context, std::string_view(text, size));
    });
  }

  link::ListenOptions listen;
  listen.protocol_hash = cuda::kProtocolHash;
  listen.program_version = kProgramVersion;
  listen.folder = options.folder;
  listen.insecure = options.insecure;
  // A rack of programs may start at the same moment.
  listen.max_pending = 1024;
  listen.on_refused = [](const std::string& line) { spdlog::warn("client refused: {}", line); };
  if (!options.key_file.empty()) {
    absl::StatusOr<link::LinkKey> key = link::ReadLinkKeyFile(options.key_file);
    if (!key.ok()) return Fail(Message(key.status()));
    listen.key = *key;
  } else if (options.refuse_without_key && options.net == "native" && !link::IsLoopback(options.address)) {
    // A key that nobody else has: the address answers, and no client gets in.
    absl::StatusOr<link::LinkKey> key = link::LinkKey::Generate();
    if (!key.ok()) return Fail(Message(key.status()));
    listen.key = *key;
    spdlog::warn("{} is not loopback and there is no link key: every client is refused", options.address);
  }
  link::ConnectionString where =
      options.net == "native" ? link::ConnectionString::Native(options.address, static_cast<uint16_t>(options.port))
                              : link::ConnectionString::Shmem(options.name, options.mib);
  absl::StatusOr<std::unique_ptr<link::Listener>> listener = link::Listen(where, listen);
  if (!listener.ok()) return Fail(Message(listener.status()));
  std::string connection = link::FormatConnectionString((*listener)->address());

  Server server(listener->get(), &card, [](const std::string& line) { spdlog::info("{}", line); });
  std::thread stopper([&] {
    pthread_setname_np(pthread_self(), "tf-signals");
    int signal = 0;
    sigwait(&signals, &signal);
    spdlog::info("signal {}: ending all sessions", signal);
    server.Stop();
  });

  std::string license_words =
      absl::StrCat(licensed.license->edition, " until ",
                   absl::FormatTime(absl::RFC3339_sec, licensed.license->expires, absl::UTCTimeZone()));
  int64_t started = absl::ToUnixSeconds(absl::Now());
  {
    StatusWriter status([&] {
      Server::Stats stats = server.stats();
      WorkerStatus s;
      s.pid = getpid();
      s.connection = connection;
      s.card = card.snapshot.devices[0].name;
      s.license = license_words;
      s.started = started;
      s.sessions = stats.sessions;
      s.calls = stats.calls;
      for (size_t i = 0; i < card.snapshot.devices.size(); ++i) s.memory_used += card.books->used(static_cast<int>(i));
      s.memory_limit = card.snapshot.devices[0].total_memory;
      s.compute_percent = static_cast<int>(quota->compute_percent.value_or(100));
      s.busy_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(busy.Read()));
      s.time_ns = std::chrono::steady_clock::now().time_since_epoch().count();
      return s;
    });
    if (!options.connection_file.empty()) {
      std::string fresh = options.connection_file + ".new";
      std::ofstream(fresh) << connection << "\n";
      if (std::rename(fresh.c_str(), options.connection_file.c_str()) != 0) {
        spdlog::warn("cannot write {}", options.connection_file);
      }
    }
    if (const char* path = std::getenv("TF_CONNECTION_INFO_PATH"); path != nullptr && *path != '\0') {
      std::ofstream(path) << (*listener)->address().ip << "\n"
                          << (*listener)->address().port << "\n"
                          << getpid() << "\n";
    }
    std::printf("tensor-fusion-worker: ready at %s\n", connection.c_str());
    std::fflush(stdout);
    server.Run();
  }
  // Also when Run ended for another reason than a signal.
  pthread_kill(stopper.native_handle(), SIGTERM);
  stopper.join();
  return 0;
}

}  // namespace
}  // namespace tf::remoting

int main(int argc, char** argv) { return tf::remoting::Main(argc, argv); }
