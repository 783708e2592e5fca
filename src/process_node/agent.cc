#include "process_node/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <filesystem>
#include <future>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "http/cancel.h"
#include "http/server.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/error.h"
#include "kube/events.h"
#include "kube/informer.h"
#include "process_node/addresses.h"
#include "process_node/cgroups.h"
#include "process_node/image_table.h"
#include "process_node/kubelet_server.h"
#include "process_node/loop.h"
#include "process_node/node_object.h"
#include "process_node/pod_worker.h"
#include "process_node/worker_pool.h"
#include "spdlog/spdlog.h"

namespace tf::process_node {
namespace {

namespace fs = std::filesystem;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::ObjectPtr;

constexpr absl::Duration kLeasePeriod = absl::Seconds(10);
constexpr absl::Duration kStatusPeriod = absl::Minutes(5);
constexpr int kPodThreads = 8, kNodeThreads = 3;

std::string ReadLine(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, 64 << 10);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

int64_t MachineMemory() {
  for (absl::string_view line : absl::StrSplit(ReadLine("/proc/meminfo"), '\n')) {
    int64_t kib = 0;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() >= 2 && words[0] == "MemTotal:" && absl::SimpleAtoi(words[1], &kib)) return kib << 10;
  }
  return int64_t{1} << 30;
}

std::string OsImage() {
  for (absl::string_view line : absl::StrSplit(ReadLine("/etc/os-release"), '\n')) {
    if (line.substr(0, 12) == "PRETTY_NAME=") return std::string(line.substr(13, line.size() - 14));
  }
  return "Linux";
}

// Makes everything end that runs of a pod; what has not ended yet comes back.
std::vector<std::unique_ptr<ContainerRun>> KillPodFolder(const fs::path& folder) {
  std::vector<std::unique_ptr<ContainerRun>> alive;
  std::error_code failed;
  for (const fs::directory_entry& container : fs::directory_iterator(folder / "containers", failed)) {
    for (const fs::directory_entry& attempt : fs::directory_iterator(container.path(), failed)) {
      absl::StatusOr<std::unique_ptr<ContainerRun>> run = ContainerRun::Adopt(attempt.path());
      if (run.ok()) {
        (*run)->Kill();
        alive.push_back(*std::move(run));
      } else if (!ReadExitRecord(attempt.path()).ok() && fs::exists(attempt.path() / "started", failed)) {
        KillMarked(absl::StrCat(folder.filename().string(), "/", container.path().filename().string(), "/",
                                attempt.path().filename().string()));
      }
    }
  }
  return alive;
}

// The lock on a data folder; FailedPrecondition says who holds it.
absl::StatusOr<int> LockDataFolder(const std::string& folder) {
  const std::string file = absl::StrCat(folder, "/agent.lock");
  const int lock = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock < 0) return absl::ErrnoToStatus(errno, absl::StrCat("open ", file));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return absl::FailedPreconditionError(
        absl::StrCat("the data folder ", folder, " belongs to process ", ReadLine(file), ", which runs"));
  }
  const std::string own = absl::StrCat(getpid(), "\n");
  if (ftruncate(lock, 0) != 0 || pwrite(lock, own.data(), own.size(), 0) < 0) {
    const int error = errno;
    close(lock);
    return absl::ErrnoToStatus(error, absl::StrCat("write ", file));
  }
  return lock;
}

class AgentImpl final : public Agent {
 public:
  explicit AgentImpl(AgentOptions options)
      : options_(std::move(options)), pool_("pods", kPodThreads), node_pool_("nodes", kNodeThreads) {}

  ~AgentImpl() override {
    // Whoever could still call us goes first.
    if (server_ != nullptr) server_->Stop();
    cancel_.Now();
    for (kube::Informer* informer : {pods_.get(), secrets_.get(), config_maps_.get(), node_objects_.get()}) {
      if (informer != nullptr) informer->Stop();
    }
    workers_.clear();
    events_.reset();
    if (lock_ >= 0) close(lock_);
  }

  absl::Status Init();
  absl::Status Run() override;
  void Stop() override {
    loop_.Post([this] { BeginStop(); });
  }

 private:
  struct Node {
    NodeSpec spec;
    int index = 0;
    std::string uid;
    bool registered = false;
    bool busy = false;  // a call is under way
    bool gone = false;  // by annotation
    absl::Duration status_due = absl::ZeroDuration();
  };

  void RegisterNode(size_t i);
  void KeepNode(size_t i);
  void OnNode(const ObjectPtr& node);
  void OnPod(const ObjectPtr& pod);
  void OnPodGone(const ObjectPtr& pod);
  void EndOrphans();
  void WriteStatusFile();
  kube::WriteOptions EventWrite() {
    kube::WriteOptions options;
    options.cancel = &cancel_;
    options.limit = absl::Seconds(5);
    return options;
  }
  void BeginStop();
  void CheckStopped();
  template <typename T>
  std::optional<T> OnLoop(std::function<T()> ask);

  AgentOptions options_;
  int lock_ = -1;
  Loop loop_;
  http::Cancel cancel_;
  std::shared_ptr<const kube::Config> config_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<kube::EventRecorder> events_;
  ImageTable images_;
  std::unique_ptr<AddressPool> addresses_;
  Cgroups cgroups_;
  PodHost host_;
  std::vector<Node> nodes_;
  std::map<std::string, size_t, std::less<>> node_index_;
  std::unordered_map<std::string, std::unique_ptr<PodWorker>> workers_;  // by UID
  std::map<kube::Key, std::string> uid_of_;                              // the latest pod of a name
  std::unique_ptr<http::Server> server_;
  bool status_written_ = false;
  bool stopping_ = false;
  bool pods_synced_ = false;

  std::unique_ptr<kube::Informer> pods_, secrets_, config_maps_, node_objects_;
  // Last, so that they are gone before what their jobs use.
  WorkerPool pool_;
  WorkerPool node_pool_;
};

absl::Status AgentImpl::Init() {
  if (options_.nodes.empty()) return absl::InvalidArgumentError("--nodes: expected at least one name");
  if (options_.nodes.size() > 254) return absl::InvalidArgumentError("--nodes: at most 254 in one process");
  std::error_code failed;
  options_.data_folder = fs::absolute(options_.data_folder, failed).string();
  fs::create_directories(absl::StrCat(options_.data_folder, "/pods"), failed);
  if (failed) return absl::InternalError(absl::StrCat("cannot make ", options_.data_folder, ": ", failed.message()));

  absl::StatusOr<int> lock = LockDataFolder(options_.data_folder);
  if (!lock.ok()) return lock.status();
  lock_ = *lock;

  for (const std::string& rule : options_.images) {
    if (absl::Status added = images_.Add(rule); !added.ok()) return added;
  }
  if (options_.shim.empty()) {
    options_.shim = (fs::read_symlink("/proc/self/exe", failed).parent_path() / "tensor-fusion-process-shim").string();
  }
  if (access(options_.shim.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot run ", options_.shim, "; it is built with this program"));
  }

  kube::ConfigOptions config;
  config.kubeconfig = options_.kubeconfig;
  absl::StatusOr<kube::Config> loaded = kube::LoadConfig(config);
  if (!loaded.ok()) return loaded.status();
  const std::string server = loaded->server;
  config_ = std::make_shared<const kube::Config>(*std::move(loaded));
  client_ = std::make_unique<kube::Client>(config_, absl::StrCat("tensor-fusion-process-node/", options_.version));

  kube::EventSink sink;
  sink.create = [this](const Json& event) { return client_->Create(kEvents, event, EventWrite()); };
  sink.patch = [this](const kube::Key& key, const Json& patch) {
    kube::PatchOptions patch_options;
    static_cast<kube::WriteOptions&>(patch_options) = EventWrite();
    return client_->Patch(kEvents, key, patch, patch_options);
  };
  kube::EventRecorderOptions events;
  events.controller = "process-node";
  events.instance = options_.nodes.front();
  events_ = std::make_unique<kube::EventRecorder>(std::move(sink), std::move(events));

  const std::string block = absl::StrCat(options_.data_folder, "/addresses");
  int preferred = 0;
  (void)absl::SimpleAtoi(ReadLine(block), &preferred);
  absl::StatusOr<std::unique_ptr<AddressPool>> addresses = AddressPool::Claim(preferred);
  if (!addresses.ok()) return addresses.status();
  addresses_ = *std::move(addresses);
  if (absl::Status written = WriteFile(block, absl::StrCat(addresses_->octet(), "\n"), 0600); !written.ok())
    return written;

  if (!cgroups_.why().empty()) spdlog::warn("{}", cgroups_.why());

  const auto read_tls = [this]() -> absl::StatusOr<http::ServerTls> {
    http::ServerTls tls;
    for (const auto& [file, into] :
         {std::pair(&options_.tls_certificate, &tls.certificate_pem), std::pair(&options_.tls_key, &tls.key_pem),
          std::pair(&options_.client_ca, &tls.client_ca_pem)}) {
      absl::StatusOr<std::string> text = ReadFile(*file, 1 << 20);
      if (!text.ok()) return text.status();
      *into = *std::move(text);
    }
    tls.client_required = true;
    return tls;
  };
  if (absl::StatusOr<http::ServerTls> tls = read_tls(); !tls.ok()) return tls.status();

  KubeletSource source;
  source.shim = options_.shim;
  source.client_names = options_.client_names;
  const auto worker_of = [this](const kube::Key& pod) -> PodWorker* {
    const auto uid = uid_of_.find(pod);
    const auto worker = uid == uid_of_.end() ? workers_.end() : workers_.find(uid->second);
    return worker == workers_.end() ? nullptr : worker->second.get();
  };
  source.find = [this, worker_of](const kube::Key& pod, const std::string& container) {
    return OnLoop<std::optional<ContainerView>>([worker_of, pod, container]() -> std::optional<ContainerView> {
             const PodWorker* worker = worker_of(pod);
             return worker == nullptr ? std::nullopt : worker->View(container);
           })
        .value_or(std::nullopt);
  };
  source.address = [this, worker_of](const kube::Key& pod) {
    return OnLoop<std::optional<std::string>>([worker_of, pod]() -> std::optional<std::string> {
             const PodWorker* worker = worker_of(pod);
             return worker == nullptr ? std::nullopt : worker->Address();
           })
        .value_or(std::nullopt);
  };
  source.pods = [this] {
    return OnLoop<std::vector<ObjectPtr>>([this] {
             std::vector<ObjectPtr> pods;
             for (const auto& [uid, worker] : workers_) pods.push_back(worker->pod());
             return pods;
           })
        .value_or(std::vector<ObjectPtr>{});
  };
  http::ServerOptions server_options;
  server_options.port = options_.port;
  server_options.tls = read_tls;
  server_options.name = "kubelet";
  absl::StatusOr<std::unique_ptr<http::Server>> started =
      http::Server::Start(std::move(server_options), KubeletHandler(std::move(source)));
  if (!started.ok()) return started.status();
  server_ = *std::move(started);

  host_.loop = &loop_;
  host_.pool = &pool_;
  host_.client = client_.get();
  host_.cancel = &cancel_;
  host_.addresses = addresses_.get();
  host_.cgroups = &cgroups_;
  host_.images = &images_;
  host_.folder = absl::StrCat(options_.data_folder, "/pods");
  host_.shim = options_.shim;
  host_.path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  if (options_.mounts) {
    const std::string staging = absl::StrCat(options_.data_folder, "/staging");
    fs::create_directories(staging, failed);
    ProcessOptions check;
    check.argv = {options_.shim, "check-mounts", staging};
    absl::StatusOr<Process> process = Process::Start(check);
    if (!process.ok()) return process.status();
    const std::optional<ExitStatus> status = process->Wait(absl::Seconds(10));
    host_.mounts = status && status->code == 0;
    if (!host_.mounts) {
      spdlog::warn(
          "this machine permits no mount namespaces: volumes are not at their mount paths; TF_MOUNT_… tells "
          "containers where they are");
    }
  }
  // https://127.0.0.1:6443 -> host and port, under the names that every Kubernetes client looks for.
  std::string authority = server.substr(server.find("://") == std::string::npos ? 0 : server.find("://") + 3);
  authority = authority.substr(0, authority.find('/'));
  const size_t colon = authority.rfind(':');
  const std::string api_host = authority.substr(0, colon);
  const std::string api_port = colon == std::string::npos ? "443" : authority.substr(colon + 1);
  host_.environment = {{"KUBERNETES_SERVICE_HOST", api_host},
                       {"KUBERNETES_SERVICE_PORT", api_port},
                       {"KUBERNETES_SERVICE_PORT_HTTPS", api_port}};
  host_.lookup = [this](std::string_view kind, const kube::Key& key) {
    return kind == "Secret" ? secrets_->Get(key) : config_maps_->Get(key);
  };
  host_.event = [this](const Json& pod, bool warning, const std::string& reason, const std::string& message) {
    if (warning) {
      events_->Warning(pod, reason, reason, message);
    } else {
      events_->Normal(pod, reason, reason, message);
    }
  };

  utsname machine{};
  uname(&machine);
  struct statvfs disk{};
  statvfs(options_.data_folder.c_str(), &disk);
  for (const std::string& name : options_.nodes) {
    Node node;
    node.index = static_cast<int>(nodes_.size());
    node.spec.facts.name = name;
    node.spec.facts.cpu_millis = options_.cpu_millis > 0
                                     ? options_.cpu_millis
                                     : 1000 * static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    node.spec.facts.memory_bytes = options_.memory_bytes > 0 ? options_.memory_bytes : MachineMemory();
    node.spec.gpus = options_.gpus;
    node.spec.pods = options_.pods_per_node;
    node.spec.kubelet_port = server_->port();
    node.spec.storage_bytes = static_cast<int64_t>(disk.f_blocks) * static_cast<int64_t>(disk.f_frsize);
    node.spec.machine_id = ReadLine("/etc/machine-id");
    node.spec.boot_id = ReadLine("/proc/sys/kernel/random/boot_id");
    node.spec.kernel = machine.release;
    node.spec.os_image = OsImage();
    node.spec.version = options_.version;
    node_index_[name] = nodes_.size();
    nodes_.push_back(std::move(node));
  }
  return absl::OkStatus();
}

template <typename T>
std::optional<T> AgentImpl::OnLoop(std::function<T()> ask) {
  auto promise = std::make_shared<std::promise<T>>();
  std::future<T> answer = promise->get_future();
  loop_.Post([promise, ask = std::move(ask)] { promise->set_value(ask()); });
  // An agent that is stopping answers nobody any more.
  if (answer.wait_for(std::chrono::seconds(10)) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

absl::Status AgentImpl::Run() {
  const auto post = [this](auto method) {
    return [this, method](const ObjectPtr& object) { loop_.Post([this, method, object] { (this->*method)(object); }); };
  };
  const auto on_pod = post(&AgentImpl::OnPod), on_gone = post(&AgentImpl::OnPodGone),
             on_node = post(&AgentImpl::OnNode);

  const auto dependency = [this](const char* kind) {
    kube::Handler handler;
    const auto changed = [this, kind](const ObjectPtr& object) {
      loop_.Post([this, kind, ns = std::string(kube::Namespace(*object)), name = std::string(kube::Name(*object))] {
        for (const auto& [uid, worker] : workers_) {
          if (kube::Namespace(*worker->pod()) == ns) worker->DependencyChanged(kind, name);
        }
      });
    };
    handler.added = [changed](const ObjectPtr& object, bool initial) {
      if (!initial) changed(object);
    };
    handler.updated = [changed](const ObjectPtr&, const ObjectPtr& object) { changed(object); };
    handler.deleted = [changed](const ObjectPtr& object, bool) { changed(object); };
    return handler;
  };
  kube::InformerOptions data;
  data.keep = {"apiVersion", "kind", "data", "binaryData"};
  secrets_ = std::make_unique<kube::Informer>(*client_, kSecrets, data);
  secrets_->AddHandler(dependency("Secret"));
  config_maps_ = std::make_unique<kube::Informer>(*client_, kConfigMaps, data);
  config_maps_->AddHandler(dependency("ConfigMap"));

  kube::InformerOptions nodes;
  nodes.label_selector = absl::StrCat(std::string(kNodeLabel), "=true");
  nodes.keep = {"metadata.annotations", "status.conditions"};
  node_objects_ = std::make_unique<kube::Informer>(*client_, kNodes, nodes);
  kube::Handler node_handler;
  node_handler.added = [on_node](const ObjectPtr& node, bool) { on_node(node); };
  node_handler.updated = [on_node](const ObjectPtr&, const ObjectPtr& node) { on_node(node); };
  node_objects_->AddHandler(node_handler);

  kube::InformerOptions pods;
  // One watch for all nodes of this process; where it is only one the server does the choosing.
  if (nodes_.size() == 1) pods.field_selector = absl::StrCat("spec.nodeName=", nodes_[0].spec.facts.name);
  pods.keep = {"apiVersion",
               "kind",
               "metadata.labels",
               "metadata.annotations",
               "metadata.deletionTimestamp",
               "metadata.deletionGracePeriodSeconds",
               "metadata.generation",
               "spec",
               "status"};
  pods_ = std::make_unique<kube::Informer>(*client_, kPods, pods);
  kube::Handler pod_handler;
  pod_handler.added = [on_pod](const ObjectPtr& pod, bool) { on_pod(pod); };
  pod_handler.updated = [on_pod](const ObjectPtr&, const ObjectPtr& pod) { on_pod(pod); };
  pod_handler.deleted = [on_gone](const ObjectPtr& pod, bool) { on_gone(pod); };
  pods_->AddHandler(pod_handler);

  // Pods come after what they name: else each of them would fail once first.
  std::thread starter([this] {
    secrets_->Start();
    config_maps_->Start();
    node_objects_->Start();
    while (!cancel_.cancelled()) {
      if (secrets_->WaitForSync(absl::Seconds(5)).ok() && config_maps_->WaitForSync(absl::Seconds(5)).ok()) break;
    }
    if (cancel_.cancelled()) return;
    pods_->Start();
    while (!cancel_.cancelled()) {
      if (pods_->WaitForSync(absl::Seconds(5)).ok()) break;
    }
    loop_.Post([this] {
      pods_synced_ = true;
      EndOrphans();
      WriteStatusFile();
    });
  });
  for (size_t i = 0; i < nodes_.size(); ++i) RegisterNode(i);
  loop_.Run();
  cancel_.Now();
  starter.join();
  return absl::OkStatus();
}

void AgentImpl::RegisterNode(size_t i) {
  node_pool_.Run([this, i, spec = nodes_[i].spec] {
    kube::WriteOptions options;
    options.cancel = &cancel_;
    const kube::Key key{"", spec.facts.name};
    absl::StatusOr<Json> node = client_->Create(kNodes, NodeObject(spec), options);
    if (!node.ok() && kube::IsAlreadyExists(node.status())) {
      const Json fresh = NodeObject(spec);
      kube::PatchOptions patch;
      patch.cancel = &cancel_;
      node = client_->Patch(kNodes, key, JsonObject{{"metadata", *kube::Field(fresh, "metadata")}}, patch);
    }
    if (node.ok()) {
      kube::PatchOptions patch;
      patch.type = kube::PatchType::kStrategic;
      patch.cancel = &cancel_;
      node = client_->Patch(kNodes, key, JsonObject{{"status", NodeStatus(spec, RealClock().Now(), *node)}}, patch,
                            "status");
    }
    loop_.Post([this, i, node = std::move(node)] {
      if (!node.ok()) {
        spdlog::warn("cannot register node {}: {}", nodes_[i].spec.facts.name, std::string(node.status().message()));
        loop_.At(Loop::Monotonic() + absl::Seconds(1), [this, i] { RegisterNode(i); });
        return;
      }
      nodes_[i].uid = kube::Uid(*node);
      nodes_[i].registered = true;
      nodes_[i].status_due = Loop::Monotonic() + kStatusPeriod;
      KeepNode(i);
      WriteStatusFile();
    });
  });
}

void AgentImpl::OnNode(const ObjectPtr& object) {
  const auto at = node_index_.find(kube::Name(*object));
  if (at == node_index_.end()) return;
  Node& node = nodes_[at->second];
  node.gone = kube::Annotation(*object, kGoneAnnotation) == "true";
  const Json* conditions = kube::Field(*object, "status.conditions");
  if (conditions == nullptr || !conditions->is_array()) return;
  for (const Json& condition : conditions->get_array()) {
    // Somebody thought that we were dead.
    if (kube::Text(condition, "type") == "Ready" && kube::Text(condition, "status") != "True") {
      node.status_due = absl::ZeroDuration();
    }
  }
}

void AgentImpl::KeepNode(size_t i) {
  Node& node = nodes_[i];
  loop_.At(Loop::Monotonic() + kLeasePeriod, [this, i] { KeepNode(i); });
  if (node.gone || node.busy) return;
  node.busy = true;
  const bool status_due = Loop::Monotonic() >= node.status_due;
  node_pool_.Run([this, i, status_due, spec = node.spec, uid = node.uid] {
    const absl::Time now = RealClock().Now();
    const kube::Key lease_key{kLeaseNamespace, spec.facts.name}, key{"", spec.facts.name};
    kube::PatchOptions options;
    options.cancel = &cancel_;
    options.limit = absl::Seconds(10);
    const Json lease = LeaseObject(spec.facts.name, uid, now);
    absl::Status kept =
        client_->Patch(kLeases, lease_key, JsonObject{{"spec", *kube::Field(lease, "spec")}}, options).status();
    if (kube::IsNotFound(kept)) kept = client_->Create(kLeases, lease, options).status();
    absl::Status reported;
    bool deleted = false;
    if (status_due) {
      absl::StatusOr<Json> before = client_->Get(kNodes, key, options);
      if (before.ok()) {
        kube::PatchOptions patch = options;
        patch.type = kube::PatchType::kStrategic;
        before = client_->Patch(kNodes, key, JsonObject{{"status", NodeStatus(spec, now, *before)}}, patch, "status");
      }
      reported = before.status();
      deleted = kube::IsNotFound(reported);
    }
    loop_.Post([this, i, status_due, kept, reported, deleted] {
      Node& node = nodes_[i];
      node.busy = false;
      for (const absl::Status& status : {kept, reported}) {
        if (!status.ok()) spdlog::warn("node {}: {}", node.spec.facts.name, std::string(status.message()));
      }
      if (status_due && reported.ok()) node.status_due = Loop::Monotonic() + kStatusPeriod;
      // Somebody deleted it while we live: it is there again.
      if (deleted) RegisterNode(i);
    });
  });
}

void AgentImpl::OnPod(const ObjectPtr& pod) {
  const std::string uid(kube::Uid(*pod));
  const auto node = node_index_.find(kube::Text(*pod, "spec.nodeName"));
  if (node == node_index_.end()) return;
  const kube::Key key = kube::KeyOf(*pod);
  if (const auto known = workers_.find(uid); known != workers_.end()) {
    known->second->Updated(pod);
    return;
  }
  if (stopping_) return;
  // Another pod of this name that has ended without our seeing its deletion.
  if (const auto other = uid_of_.find(key); other != uid_of_.end() && other->second != uid) {
    if (const auto worker = workers_.find(other->second); worker != workers_.end()) worker->second->Gone();
  }
  uid_of_[key] = uid;
  const Node& at = nodes_[node->second];
  auto worker = std::make_unique<PodWorker>(host_, PodNode{at.index, at.spec.facts, at.spec.gpus}, pod,
                                            [this, key](const std::string& gone) {
                                              const auto name = uid_of_.find(key);
                                              if (name != uid_of_.end() && name->second == gone) uid_of_.erase(name);
                                              workers_.erase(gone);
                                              if (stopping_) CheckStopped();
                                            });
  PodWorker* started = worker.get();
  workers_[uid] = std::move(worker);
  started->Start();
}

void AgentImpl::OnPodGone(const ObjectPtr& pod) {
  if (const auto known = workers_.find(std::string(kube::Uid(*pod))); known != workers_.end()) known->second->Gone();
}

// Folders of pods that are no more: what still runs of them ends now.
void AgentImpl::EndOrphans() {
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(host_.folder, failed)) {
    const std::string uid = entry.path().filename(), path = entry.path();
    if (workers_.contains(uid)) continue;
    std::vector<std::unique_ptr<ContainerRun>> alive = KillPodFolder(path);
    if (!alive.empty()) spdlog::info("ended {} containers of a pod that is no more ({})", alive.size(), uid);
    std::error_code ignored;
    if (alive.empty()) fs::remove_all(path, ignored);
    // Each is watched to its end; the last one takes the folder away.
    auto left = std::make_shared<size_t>(alive.size());
    for (std::unique_ptr<ContainerRun>& run : alive) {
      std::shared_ptr<ContainerRun> watched = std::move(run);
      loop_.Watch(watched->pidfd(), EPOLLIN, [this, watched, left, path](uint32_t) {
        loop_.Unwatch(watched->pidfd());
        if (--*left > 0) return;
        std::error_code removed;
        fs::remove_all(path, removed);
      });
    }
  }
}

void AgentImpl::WriteStatusFile() {
  if (status_written_ || options_.status_file.empty() || !pods_synced_) return;
  JsonArray names;
  for (const Node& node : nodes_) {
    if (!node.registered) return;
    names.push_back(Json(node.spec.facts.name));
  }
  const Json status = JsonObject{{"pid", getpid()},
                                 {"port", server_->port()},
                                 {"nodes", names},
                                 {"addresses", absl::StrCat("127.", addresses_->octet(), ".0.0/16")},
                                 {"volumesAtMountPaths", host_.mounts},
                                 {"limits", cgroups_.why().empty() ? "enforced" : cgroups_.why()}};
  absl::Status written = WriteFile(options_.status_file, boost::json::serialize(status) + "\n", 0600);
  if (!written.ok()) spdlog::error("{}", std::string(written.message()));
  status_written_ = true;
}

void AgentImpl::BeginStop() {
  if (stopping_) return;
  stopping_ = true;
  if (options_.stop_pods_on_exit) {
    for (const auto& [uid, worker] : workers_) worker->EndProcesses(options_.stop_grace);
  }
  CheckStopped();
}

void AgentImpl::CheckStopped() {
  size_t left = 0;
  if (options_.stop_pods_on_exit) {
    for (const auto& [uid, worker] : workers_) left += worker->processes_left() ? 1 : 0;
  }
  if (left == 0) return loop_.Stop();
  loop_.At(Loop::Monotonic() + absl::Milliseconds(20), [this] { CheckStopped(); });
}

}  // namespace

absl::StatusOr<int> EndPods(const std::string& data_folder) {
  std::error_code failed;
  if (!fs::exists(data_folder, failed)) return 0;
  absl::StatusOr<int> lock = LockDataFolder(data_folder);
  if (!lock.ok()) return lock.status();
  int ended = 0;
  std::vector<std::unique_ptr<ContainerRun>> alive;
  for (const fs::directory_entry& pod : fs::directory_iterator(absl::StrCat(data_folder, "/pods"), failed)) {
    for (std::unique_ptr<ContainerRun>& run : KillPodFolder(pod.path())) alive.push_back(std::move(run));
  }
  for (const std::unique_ptr<ContainerRun>& run : alive) {
    pollfd over{run->pidfd(), POLLIN, 0};
    if (poll(&over, 1, 10'000) == 1) ++ended;
  }
  close(*lock);
  if (ended < static_cast<int>(alive.size())) {
    return absl::DeadlineExceededError(
        absl::StrCat(alive.size() - static_cast<size_t>(ended), " containers did not end within 10 s"));
  }
  return ended;
}

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(AgentOptions options) {
  auto agent = std::make_unique<AgentImpl>(std::move(options));
  if (absl::Status ready = agent->Init(); !ready.ok()) return ready;
  return agent;
}

}  // namespace tf::process_node
