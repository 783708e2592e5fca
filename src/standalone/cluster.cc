#include "standalone/cluster.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "http/cancel.h"
#include "kube/client.h"
#include "kube/config.h"
#include "standalone/bootstrap.h"
#include "standalone/credentials.h"
#include "standalone/data_folder.h"
#include "standalone/etcd_health.h"
#include "standalone/kubeconfig.h"
#include "standalone/part.h"
#include "standalone/ports.h"
#include "standalone/settings.h"

namespace tf::standalone {
namespace {

constexpr uint64_t kNeededMib = 200;
constexpr absl::Duration kPoll = absl::Milliseconds(50);
constexpr char kPortsFile[] = "ports";
constexpr char kKubeconfigFile[] = "kubeconfig";
constexpr char kUserAgent[] = "tensor-fusion-standalone";

// kube-apiserver waits for its watches to end, up to a minute. Nothing that it has acknowledged is in it alone.
constexpr absl::Duration kApiServerGrace = absl::Seconds(1);

absl::Status CheckRoom(const std::string& folder) {
  struct statvfs info{};
  if (statvfs(folder.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", folder));
  const uint64_t free_mib = uint64_t{info.f_bavail} * info.f_frsize >> 20;
  if (free_mib >= kNeededMib) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the disk of ", folder, " is full (", free_mib, " MiB left, ",
                                                   kNeededMib,
                                                   " needed): make room, or name another folder with --data-dir"));
}

// etcd takes any ETCD_… for a flag.
std::vector<std::string> PartEnvironment() {
  std::vector<std::string> env = CurrentEnvironment();
  std::erase_if(env, [](const std::string& line) { return absl::StartsWith(line, "ETCD_"); });
  return env;
}

std::map<std::string, uint16_t> ReadPorts(const std::string& path) {
  std::map<std::string, uint16_t> ports;
  // A file that cannot be read costs the old numbers, no more.
  for (absl::string_view line : absl::StrSplit(ReadFile(path, 4096).value_or(""), '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> entry = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int port = 0;
    if (absl::SimpleAtoi(entry.second, &port) && port > 0 && port < 65536) {
      ports[entry.first] = static_cast<uint16_t>(port);
    }
  }
  return ports;
}

std::shared_ptr<const kube::Config> AdminConfig(const std::string& server, const Credentials& credentials) {
  auto config = std::make_shared<kube::Config>();
  config->server = server;
  config->ca_pem = credentials.ca_certificate;
  config->certificate_pem = credentials.admin.certificate;
  config->key_pem = credentials.admin.key;
  return config;
}

}  // namespace

struct Cluster::State {
  State(ClusterOptions given, Clock& given_clock) : options(std::move(given)), clock(given_clock) {}

  absl::Status Start();
  absl::Status StartParts();
  absl::Status ChooseClusterPorts();
  absl::Status WriteFiles();
  absl::Status StartPart(const std::string& name, std::vector<std::string> argv,
                         absl::Duration grace = absl::Seconds(10));
  absl::Status AwaitPart(const std::string& name, absl::Duration begin, const std::function<absl::Status()>& probe);
  // What another client than the API server's own says about a part that serves /healthz.
  absl::Status AskHealth(uint16_t port);
  Part* Find(const std::string& name) const;

  void StopParts();
  void Stop();
  void Publish();
  ClusterStatus StatusLocked() const;
  void Progress(const std::string& line) const {
    if (options.progress) options.progress(line);
  }
  std::vector<std::string> Command(const char* name, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {options.controlplane, name});
    return arguments;
  }
  const ClusterOptions options;
  Clock& clock;

  // Only Start uses these.
  Credentials credentials;
  std::unique_ptr<kube::Client> client;

  std::optional<DataFolder> folder;
  http::Cancel cancel;  // calls of Start, when Stop comes

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool starting = false;
  bool stopping = false;
  Layout layout;
  std::string state = "starting";
  std::vector<std::unique_ptr<Part>> parts;
  std::mutex publishing;  // one writer of the status file at a time
};

// ---- start

absl::Status Cluster::State::Start() {
  const absl::Duration begin = clock.Monotonic();
  for (const auto& [program, what] :
       {std::pair(options.controlplane, "the control plane (built by `make build`, or tools/controlplane)"),
        std::pair(options.nodes > 0 ? options.process_node : options.controlplane,
                  "the nodes (built by `make build`)")}) {
    if (access(program.c_str(), X_OK) != 0) {
      return absl::NotFoundError(absl::StrCat("there is no program ", program, ", needed for ", what));
    }
  }
  absl::StatusOr<DataFolder> opened = DataFolder::Open(options.data_dir);
  if (!opened.ok()) return opened.status();
  folder.emplace(*std::move(opened));
  if (folder->left_behind() > 0) {
    Progress(absl::StrCat("ended ", folder->left_behind(), " process(es) that an earlier start left behind"));
  }
  if (absl::Status status = CheckRoom(folder->path()); !status.ok()) return status;

  absl::Status status;
  for (int attempt = 0; attempt < 3; ++attempt) {
    status = ChooseClusterPorts();
    if (status.ok()) status = WriteFiles();
    if (!status.ok()) return status;
    status = StartParts();
    if (status.ok()) break;
    StopParts();
    // Somebody may have taken a port between our choice and the part's start; anything else does not get better.
    const bool taken = !IsPortFree(layout.api_server_port) || !IsPortFree(layout.controller_manager_port) ||
                       !IsPortFree(layout.scheduler_port);
    if (!taken || absl::IsCancelled(status)) return status;
  }
  if (!status.ok()) return status;
  {
    std::lock_guard<std::mutex> lock(mutex);
    state = "ready";
  }
  Publish();
  Progress(absl::StrFormat("ready %.1f s", absl::ToDoubleSeconds(clock.Monotonic() - begin)));
  return absl::OkStatus();
}

absl::Status Cluster::State::ChooseClusterPorts() {
  const std::map<std::string, uint16_t> last = ReadPorts(folder->Path(kPortsFile));
  std::vector<uint16_t> wanted;
  for (const char* part : {kApiServer, kControllerManager, kScheduler}) {
    const auto found = last.find(part);
    wanted.push_back(found == last.end() ? 0 : found->second);
  }
  if (options.port != 0) wanted[0] = options.port;
  const absl::StatusOr<std::vector<uint16_t>> ports = ChoosePorts(wanted);
  if (!ports.ok()) return ports.status();
  if (options.port != 0 && ports->front() != options.port) {
    return absl::FailedPreconditionError(absl::StrCat("port ", options.port,
                                                      " of 127.0.0.1 is taken by another program: end that, or choose "
                                                      "another with --port"));
  }
  if (wanted[0] != 0 && ports->front() != wanted[0]) {
    Progress(
        absl::StrCat("port ", wanted[0], " is taken by another program now: the API server moves to ", ports->front()));
  }
  const std::string text = absl::StrCat(kApiServer, " ", (*ports)[0], "\n", kControllerManager, " ", (*ports)[1], "\n",
                                        kScheduler, " ", (*ports)[2], "\n");
  if (absl::Status status = WriteFile(folder->Path(kPortsFile), text, 0600); !status.ok()) return status;
  std::lock_guard<std::mutex> lock(mutex);
  layout = Layout{.folder = folder->path(),
                  .api_server_port = (*ports)[0],
                  .controller_manager_port = (*ports)[1],
                  .scheduler_port = (*ports)[2],
                  .fsync = options.fsync,
                  .api_server_flags = options.api_server_flags,
                  .scheduler_extender = options.scheduler_extender};
  return absl::OkStatus();
}

absl::Status Cluster::State::WriteFiles() {
  std::error_code failed;
  folder->ClearRun();  // sockets of those who were killed
  for (const char* name : {"run", "logs", "etcd", "credentials"}) {
    if (!failed) std::filesystem::create_directories(folder->Path(name), failed);
    if (!failed) std::filesystem::permissions(folder->Path(name), std::filesystem::perms::owner_all, failed);
  }
  if (failed) {
    return absl::FailedPreconditionError(absl::StrCat("cannot set up ", folder->path(), ": ", failed.message()));
  }
  absl::StatusOr<Credentials> prepared = PrepareCredentials(folder->Path("credentials"), kServiceAddress, clock.Now());
  if (!prepared.ok()) return prepared.status();
  credentials = *std::move(prepared);
  const std::string server = layout.Server();
  const auto kubeconfig = [&](const http::KeyPair& pair) {
    return KubeconfigText("tensor-fusion", server, credentials.ca_certificate, pair);
  };
  for (const auto& [path, text] :
       {std::pair(layout.Run(kControllerManagerKubeconfig), kubeconfig(credentials.controller_manager)),
        std::pair(layout.Run(kSchedulerKubeconfig), kubeconfig(credentials.scheduler)),
        std::pair(layout.Run(kProcessNodeKubeconfig), kubeconfig(credentials.process_node)),
        std::pair(layout.Run(kSchedulerConfigFile), SchedulerConfig(layout))}) {
    if (absl::Status status = WriteFile(path, text, 0600); !status.ok()) return status;
  }
  client = std::make_unique<kube::Client>(AdminConfig(server, credentials), kUserAgent);
  return absl::OkStatus();
}

absl::Status Cluster::State::StartParts() {
  kube::CallOptions call{.limit = absl::Seconds(5), .cancel = &cancel};
  absl::Duration begin = clock.Monotonic();
  absl::Status status = StartPart(kEtcd, Command(kEtcd, EtcdArguments(layout)));
  if (status.ok()) status = AwaitPart(kEtcd, begin, [&] { return AskEtcdHealth(layout.Run(""), kStoreSocket); });
  if (!status.ok()) return status;

  begin = clock.Monotonic();
  status = StartPart(kApiServer, Command(kApiServer, ApiServerArguments(layout)), kApiServerGrace);
  if (status.ok()) {
    status = AwaitPart(kApiServer, begin, [&] { return client->Raw("GET", "/readyz", "", call).status(); });
  }
  if (status.ok()) {
    status = WriteFile(folder->Path(kKubeconfigFile),
                       KubeconfigText("tensor-fusion", layout.Server(), credentials.ca_certificate, credentials.admin),
                       0600);
  }
  if (status.ok()) status = ApplyBootstrapObjects(*client);
  if (status.ok()) {
    const absl::StatusOr<std::vector<std::string>> removed = RemoveOtherProcessNodes(*client, NodeNames(options.nodes));
    status = removed.status();
    if (removed.ok() && !removed->empty()) Progress(absl::StrCat("removed ", absl::StrJoin(*removed, ", ")));
  }
  if (!status.ok()) return status;

  begin = clock.Monotonic();
  status = StartPart(kControllerManager, Command(kControllerManager, ControllerManagerArguments(layout)));
  if (status.ok()) status = StartPart(kScheduler, Command(kScheduler, SchedulerArguments(layout)));
  if (status.ok() && options.nodes > 0) {
    std::vector<std::string> argv = {options.process_node,
                                     "--kubeconfig",
                                     layout.Run(kProcessNodeKubeconfig),
                                     "--data-dir",
                                     folder->Path("nodes"),
                                     "--nodes",
                                     absl::StrJoin(NodeNames(options.nodes), ","),
                                     "--tls-cert",
                                     layout.Credential(absl::StrCat(credentials::kProcessNode, ".crt")),
                                     "--tls-key",
                                     layout.Credential(absl::StrCat(credentials::kProcessNode, ".key")),
                                     "--client-ca",
                                     layout.Credential(credentials::kNodeClientCa),
                                     "--status-file",
                                     layout.Run("process-node.json"),
                                     "--stop-pods-on-exit"};
    if (!options.gpus_per_node.empty()) argv.insert(argv.end(), {"--gpus-per-node", options.gpus_per_node});
    for (const auto& [name, place] : options.images)
      argv.insert(argv.end(), {"--image", absl::StrCat(name, "=", place)});
    status = StartPart(standalone::kProcessNode, std::move(argv), absl::Seconds(40));
  }
  if (status.ok()) {
    status = AwaitPart(kControllerManager, begin, [&] {
      if (absl::Status healthy = AskHealth(layout.controller_manager_port); !healthy.ok()) return healthy;
      // Without it nobody can create a pod.
      return client->Get(kube::core::kServiceAccount, {"default", "default"}, call).status();
    });
  }
  if (status.ok()) {
    status = AwaitPart(kScheduler, begin, [&] { return AskHealth(layout.scheduler_port); });
  }
  if (status.ok() && options.nodes > 0) {
    status = AwaitPart(standalone::kProcessNode, begin, [&]() -> absl::Status {
      const absl::StatusOr<int> ready = CountReadyNodes(*client, NodeNames(options.nodes));
      if (!ready.ok()) return ready.status();
      if (*ready == options.nodes) return absl::OkStatus();
      return absl::UnavailableError(absl::StrCat(*ready, " of ", options.nodes, " nodes are Ready"));
    });
  }
  return status;
}

absl::Status Cluster::State::StartPart(const std::string& name, std::vector<std::string> argv, absl::Duration grace) {
  auto part = std::make_unique<Part>(
      PartOptions{.name = name,
                  .argv = std::move(argv),
                  .env = PartEnvironment(),
                  .working_folder = layout.Run(""),
                  .log_file = layout.Log(name),
                  .backoff = options.backoff,
                  .grace = grace,
                  // A child that nobody wrote down still ends with us; only the next start would not look for it.
                  .started = [this, name](pid_t pid) { folder->RecordChild(name, pid).IgnoreError(); },
                  .changed = [this] { Publish(); }},
      clock);
  Part* started = part.get();
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (stopping) return absl::CancelledError("stopped");
    parts.push_back(std::move(part));
  }
  return started->Start();
}

absl::Status Cluster::State::AwaitPart(const std::string& name, absl::Duration begin,
                                       const std::function<absl::Status()>& probe) {
  const Part& part = *Find(name);
  while (true) {
    const absl::Status answer = probe();
    const absl::Duration now = clock.Monotonic();
    if (answer.ok()) {
      Progress(absl::StrFormat("%s ready %.1f s", name, absl::ToDoubleSeconds(now - begin)));
      return absl::OkStatus();
    }
    if (const std::string end = part.last_end(); !end.empty()) {
      return absl::UnavailableError(absl::StrCat(name, " ", end, " (more in ", part.log_file(), ")"));
    }
    if (now - begin > options.start_limit) {
      return absl::DeadlineExceededError(absl::StrCat(name, " was not ready within ",
                                                      absl::FormatDuration(options.start_limit), ": ", answer.message(),
                                                      " (more in ", part.log_file(), ")"));
    }
    std::unique_lock<std::mutex> lock(mutex);
    if (clock.WaitUntil(lock, changed, now + kPoll, [this] { return stopping; })) {
      return absl::CancelledError("stopped");
    }
  }
}

absl::Status Cluster::State::AskHealth(uint16_t port) {
  kube::Client part(AdminConfig(absl::StrCat("https://127.0.0.1:", port), credentials), kUserAgent);
  return part.Raw("GET", "/healthz", "", {.limit = absl::Seconds(5), .cancel = &cancel}).status();
}

Part* Cluster::State::Find(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mutex);
  for (const std::unique_ptr<Part>& part : parts) {
    if (part->name() == name) return part.get();
  }
  return nullptr;
}

// ---- stop

void Cluster::State::StopParts() {
  // The last first; without the lock, for a part that ends publishes that.
  std::vector<std::unique_ptr<Part>> ending;
  size_t count = 0;
  {
    std::lock_guard<std::mutex> lock(mutex);
    count = parts.size();
  }
  for (size_t i = count; i-- > 0;) parts[i]->Stop();
  std::lock_guard<std::mutex> lock(mutex);
  parts.swap(ending);
}

void Cluster::State::Stop() {
  {
    std::unique_lock<std::mutex> lock(mutex);
    stopping = true;
    state = "stopping";
    changed.notify_all();
  }
  cancel.Now();
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return !starting; });
  }
  StopParts();
  if (folder) {
    folder->ClearRun();
    folder.reset();
  }
}

// ---- status

ClusterStatus Cluster::State::StatusLocked() const {
  ClusterStatus status{.state = state,
                       .version = options.version,
                       .pid = getpid(),
                       .server = layout.api_server_port == 0 ? "" : layout.Server(),
                       .kubeconfig = layout.folder.empty() ? "" : absl::StrCat(layout.folder, "/", kKubeconfigFile),
                       .nodes = options.nodes,
                       .gpus_per_node = options.gpus_per_node};
  for (const std::unique_ptr<Part>& part : parts) {
    const std::string& name = part->name();
    const uint16_t port = name == kApiServer           ? layout.api_server_port
                          : name == kControllerManager ? layout.controller_manager_port
                          : name == kScheduler         ? layout.scheduler_port
                                                       : 0;
    status.parts.push_back(
        {.name = name, .pid = part->pid(), .port = port, .restarts = part->restarts(), .last_end = part->last_end()});
  }
  return status;
}

void Cluster::State::Publish() {
  std::lock_guard<std::mutex> one(publishing);
  ClusterStatus status;
  {
    std::lock_guard<std::mutex> lock(mutex);
    status = StatusLocked();
  }
  // A disk that is full now is told by the parts themselves; the status is of last time until then.
  WriteStatus(layout.folder, status).IgnoreError();
}

Cluster::Cluster(ClusterOptions options, Clock& clock) : state_(std::make_unique<State>(std::move(options), clock)) {}

Cluster::~Cluster() { Stop(); }

absl::Status Cluster::Start() {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->stopping) return absl::CancelledError("stopped");
    state_->starting = true;
  }
  const absl::Status status = state_->Start();
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->starting = false;
    state_->changed.notify_all();
  }
  if (!status.ok()) Stop();
  return status;
}

void Cluster::Stop() { state_->Stop(); }

std::string Cluster::kubeconfig() const {
  std::error_code ignored;
  return (std::filesystem::absolute(state_->options.data_dir, ignored).lexically_normal() / kKubeconfigFile).string();
}

std::string Cluster::server() const { return status().server; }

ClusterStatus Cluster::status() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->StatusLocked();
}

int64_t Cluster::PidOf(const std::string& part) const {
  for (const PartStatus& entry : status().parts) {
    if (entry.name == part) return entry.pid;
  }
  return 0;
}

}  // namespace tf::standalone
