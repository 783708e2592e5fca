#include "process_node/pod_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/file.h"
#include "http/client.h"
#include "kube/error.h"
#include "process_node/exec.h"
#include "process_node/node_object.h"
#include "process_node/volumes.h"
#include "spdlog/spdlog.h"

namespace tf::process_node {
namespace {

namespace fs = std::filesystem;
using kube::Field;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::Text;

// Changes that come one upon the other are written once.
constexpr absl::Duration kSyncDelay = absl::Milliseconds(30);
constexpr size_t kMaxMessage = 4096;       // of a termination, as the kubelet's
constexpr size_t kMaxProbeOutput = 10240;  // shown of what an exec probe says

const JsonArray* Items(const Json& object, std::string_view path) {
  const Json* list = Field(object, path);
  return list != nullptr && list->is_array() ? &list->get_array() : nullptr;
}

std::vector<std::string> Strings(const Json& object, std::string_view path) {
  std::vector<std::string> strings;
  if (const JsonArray* list = Items(object, path)) {
    for (const Json& item : *list) {
      if (item.is_string()) strings.emplace_back(item.get_string());
    }
  }
  return strings;
}

int64_t Limit(const Json& container, std::string_view name, double unit) {
  const Json* limit = kube::FieldAt(container, {"resources", "limits", name});
  if (limit == nullptr) return 0;
  const std::optional<double> value = limit->is_string()  ? ParseQuantity(limit->get_string())
                                      : limit->is_int64() ? std::optional<double>(limit->get_int64())
                                                          : std::nullopt;
  return value ? static_cast<int64_t>(std::ceil(*value * unit)) : 0;
}

int SignalNumber(std::string_view name) {
  for (int number = 1; number < NSIG; ++number) {
    const char* abbreviation = sigabbrev_np(number);
    if (abbreviation != nullptr && name == absl::StrCat("SIG", abbreviation)) return number;
  }
  return 0;
}

std::string ReadTail(const std::string& path, size_t bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return "";
  struct stat about{};
  fstat(fd, &about);
  std::string text(std::min<size_t>(bytes, static_cast<size_t>(about.st_size)), '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), about.st_size - static_cast<off_t>(text.size()));
  close(fd);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

// "$NAME" in upper case with what shells allow.
std::string MountVariable(const std::string& volume) {
  std::string name = "TF_MOUNT_";
  for (const char c : volume) name += absl::ascii_isalnum(static_cast<unsigned char>(c)) ? absl::ascii_toupper(c) : '_';
  return name;
}

bool Terminal(const Json& pod) {
  const std::string_view phase = Text(pod, "status.phase");
  return phase == "Succeeded" || phase == "Failed";
}

}  // namespace

PodWorker::PodWorker(PodHost& host, PodNode node, kube::ObjectPtr pod, std::function<void(const std::string&)> done)
    : host_(host),
      node_(std::move(node)),
      pod_(std::move(pod)),
      uid_(kube::Uid(*pod_)),
      folder_(absl::StrCat(host.folder, "/", uid_)),
      done_(std::move(done)),
      machine_(ReadPodSpec(*pod_)),
      live_(machine_.spec().containers.size()) {}

PodWorker::~PodWorker() {
  *alive_ = false;
  for (const uint64_t timer : {wake_timer_, sync_timer_, token_timer_, prepare_timer_}) host_.loop->Cancel(timer);
  for (std::map<int, Live>& runs : live_) {
    for (auto& [attempt, live] : runs) {
      if (live.run->report_fd() >= 0) host_.loop->Unwatch(live.run->report_fd());
      host_.loop->Unwatch(live.run->pidfd());
    }
  }
}

Now PodWorker::Time() const { return {RealClock().Now(), Loop::Monotonic()}; }

std::function<void()> PodWorker::Guarded(std::function<void()> work) {
  return [alive = alive_, work = std::move(work)] {
    if (*alive) work();
  };
}

Lookup PodWorker::PodLookup() const {
  return [this](std::string_view kind, const std::string& name) {
    return host_.lookup(kind, kube::Key{std::string(kube::Namespace(*pod_)), name});
  };
}

std::string PodWorker::ContainerFolder(size_t i) const {
  return absl::StrCat(folder_, "/containers/", machine_.spec().containers[i].name);
}
std::string PodWorker::RunFolder(size_t i, int attempt) const { return absl::StrCat(ContainerFolder(i), "/", attempt); }
std::string PodWorker::Marker(size_t i, int attempt) const {
  return absl::StrCat(uid_, "/", machine_.spec().containers[i].name, "/", attempt);
}
std::string PodWorker::WorkingFolder(const Json& container, size_t i) const {
  const std::string_view folder = Text(container, "workingDir");
  return folder.empty() ? absl::StrCat(ContainerFolder(i), "/work") : std::string(folder);
}

void PodWorker::Start() {
  std::error_code failed;
  fs::create_directories(absl::StrCat(folder_, "/containers"), failed);
  chmod(folder_.c_str(), 0700);
  Adopt();
  if (terminal_) {
    if (kube::IsBeingDeleted(*pod_)) {
      delete_wanted_ = true;
      DeleteObject();
    }
    return;
  }
  Updated(pod_);
}

// Finds runs of an earlier agent: the two latest of each container say all that there is to know.
void PodWorker::Adopt() {
  const Now now = Time();
  std::vector<std::optional<AdoptedContainer>> found(live_.size());
  bool any = false;
  for (size_t i = 0; i < live_.size(); ++i) {
    std::vector<int> attempts;
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(ContainerFolder(i), failed)) {
      int attempt = 0;
      if (absl::SimpleAtoi(entry.path().filename().string(), &attempt)) attempts.push_back(attempt);
    }
    std::sort(attempts.begin(), attempts.end());
    if (attempts.empty()) continue;
    any = true;
    AdoptedContainer container;
    container.attempt = attempts.back();
    container.id = absl::StrCat("process://", Marker(i, container.attempt));
    if (attempts.size() > 1) container.last = HowItEnded(i, attempts[attempts.size() - 2]);
    const std::string folder = RunFolder(i, container.attempt);
    int64_t seconds = 0;
    if (absl::StatusOr<std::string> text = ReadFile(absl::StrCat(folder, "/backoff"), 64); text.ok()) {
      (void)absl::SimpleAtoi(*text, &seconds);
    }
    container.backoff = absl::Seconds(seconds);
    absl::StatusOr<std::unique_ptr<ContainerRun>> run = ContainerRun::Adopt(folder);
    if (run.ok()) {
      container.running = true;
      container.started = (*run)->record().started;
      live_[i][container.attempt] = Live{*std::move(run), true};
      spdlog::info("pod {}: adopted container {} (process {})", machine_.spec().key.ToString(),
                   machine_.spec().containers[i].name, live_[i][container.attempt].run->pid());
    } else {
      container.ended = HowItEnded(i, container.attempt);
      container.started = container.ended->started;
    }
    found[i] = std::move(container);
  }
  if (Terminal(*pod_)) {
    // Nothing of it may run any more: what does was meant to be ended when the last agent died.
    for (std::map<int, Live>& runs : live_) {
      for (auto& [attempt, live] : runs) live.run->Kill();
      runs.clear();
    }
    terminal_ = true;
    return;
  }
  // A pod that has ended gave its address back, and what it became may not have reached the server: it keeps the
  // address that is known of it there.
  absl::StatusOr<std::string> address = ReadFile(absl::StrCat(folder_, "/address"), 64);
  const std::string known = address.ok() ? *address : std::string(Text(*pod_, "status.podIP"));
  if (!known.empty() && host_.addresses->Keep(node_.index, known)) address_ = known;
  if (!any) return;
  const bool prepared = !address_.empty() || machine_.spec().host_network;
  std::string ip = machine_.spec().host_network ? node_.facts.ip : address_;
  const Json* status = Field(*pod_, "status");
  if (const JsonArray* volumes = Items(*pod_, "spec.volumes"); volumes != nullptr && prepared) {
    for (const Json& volume : *volumes) {
      const std::string name(Text(volume, "name"));
      const std::string own = absl::StrCat(folder_, "/volumes/", name);
      absl::StatusOr<std::string> folder = HasPayload(volume) ? own : FolderOf(volume, own);
      if (folder.ok()) volume_folders_[name] = *folder;
    }
  }
  for (const TokenNeed& need : TokensOf(*pod_)) {
    tokens_[need];
    AskForToken(need);
  }
  machine_.Adopt(now, status != nullptr ? *status : Json(JsonObject{}), prepared, ip, found);
  for (size_t i = 0; i < live_.size(); ++i) {
    for (auto& [attempt, live] : live_[i]) WatchRun(i, attempt);
  }
}

void PodWorker::Updated(kube::ObjectPtr pod) {
  const bool changed = pod_ != pod;
  pod_ = std::move(pod);
  if (terminal_ || machine_.finished()) {
    if (kube::IsBeingDeleted(*pod_) && terminal_) {
      delete_wanted_ = true;
      DeleteObject();
    }
  }
  if (terminal_) return;
  const Now now = Time();
  if (changed) {
    machine_.SetFaults(now, ReadPodSpec(*pod_).faults);
    RefreshVolumes();  // labels and annotations may be in them
  }
  machine_.SeenConditions(now, *pod_);
  if (kube::IsBeingDeleted(*pod_)) {
    absl::Duration grace = absl::Seconds(
        kube::Number(*pod_, "metadata.deletionGracePeriodSeconds", absl::ToInt64Seconds(machine_.spec().grace)));
    // An agent that comes late to a deletion does not begin the period again.
    absl::Time by;
    std::string error;
    const std::string_view stamp = Text(*pod_, "metadata.deletionTimestamp");
    if (absl::ParseTime(absl::RFC3339_full, absl::string_view(stamp.data(), stamp.size()), &by, &error)) {
      grace = std::min(grace, std::max(absl::ZeroDuration(), by - now.wall));
    }
    machine_.Delete(now, grace);
  }
  Act();
}

void PodWorker::Gone() {
  if (gone_) return;
  gone_ = true;
  if (terminal_ || finished_) return Finish();
  machine_.Delete(Time(), absl::Seconds(kube::Number(*pod_, "metadata.deletionGracePeriodSeconds",
                                                     absl::ToInt64Seconds(machine_.spec().grace))));
  Act();
}

void PodWorker::EndProcesses(absl::Duration grace) {
  ending_ = true;
  if (terminal_) return;
  machine_.Delete(Time(), grace);
  Act();
}

bool PodWorker::processes_left() const {
  return std::any_of(live_.begin(), live_.end(), [](const std::map<int, Live>& runs) { return !runs.empty(); });
}

std::optional<std::string> PodWorker::Address() const {
  if (!processes_left()) return std::nullopt;
  return machine_.spec().host_network ? node_.facts.ip : address_;
}

void PodWorker::DependencyChanged(std::string_view, const std::string&) {
  if (terminal_ || machine_.finished()) return;
  RefreshVolumes();
  machine_.Retry(Time());
  Act();
}

void PodWorker::Act() {
  for (std::vector<Action> actions; !(actions = machine_.Take()).empty();) {
    for (const Action& action : actions) Perform(action);
  }
  host_.loop->Cancel(wake_timer_);
  wake_timer_ = 0;
  if (machine_.next_wake() != absl::InfiniteDuration()) {
    wake_timer_ = host_.loop->At(machine_.next_wake(), [this] {
      wake_timer_ = 0;
      machine_.Tick(Time());
      Act();
    });
  }
  ScheduleSync();
}

void PodWorker::Perform(const Action& action) {
  const size_t i = action.container;
  const auto run = [&]() -> ContainerRun* {
    const auto at = live_[i].find(action.attempt);
    return at == live_[i].end() ? nullptr : at->second.run.get();
  };
  switch (action.type) {
    case Action::Type::kPrepare:
      preparing_ = true;
      Prepare();
      break;
    case Action::Type::kStart:
      StartContainer(i, action.attempt);
      break;
    case Action::Type::kStop:
      if (ContainerRun* at = run()) at->Stop();
      break;
    case Action::Type::kKill:
      if (ContainerRun* at = run()) at->Kill();
      break;
    case Action::Type::kProbe: {
      const ContainerSpec& spec = machine_.spec().containers[i];
      const Probe& probe = action.probe == ProbeKind::kStartup    ? *spec.startup
                           : action.probe == ProbeKind::kLiveness ? *spec.liveness
                                                                  : *spec.readiness;
      RunHandler(
          i, probe.handler, probe.timeout,
          [this, alive = alive_, i, attempt = action.attempt, kind = action.probe](bool success, std::string message) {
            if (!*alive) return;
            machine_.Probed(Time(), i, attempt, kind, success, message);
            Act();
          });
      break;
    }
    case Action::Type::kHook: {
      const ContainerSpec& spec = machine_.spec().containers[i];
      const Handler& handler = action.hook == HookKind::kPostStart ? *spec.post_start : *spec.pre_stop;
      RunHandler(
          i, handler, absl::Hours(1),
          [this, alive = alive_, i, attempt = action.attempt, kind = action.hook](bool success, std::string message) {
            if (!*alive) return;
            machine_.HookDone(Time(), i, attempt, kind, success, message);
            Act();
          });
      break;
    }
    case Action::Type::kEvent:
      if (!ending_) host_.event(*pod_, action.warning, action.reason, action.message);
      break;
    case Action::Type::kRelease:
      Release();
      break;
    case Action::Type::kDelete:
      delete_wanted_ = true;
      break;
  }
}

void PodWorker::Prepare() {
  if (!preparing_) return;
  const auto fail = [this](const std::string& reason, const std::string& message) {
    preparing_ = false;
    machine_.PrepareFailed(Time(), reason, message);
    host_.loop->Post(Guarded([this] { Act(); }));
  };
  if (!machine_.spec().host_network && address_.empty()) {
    std::optional<std::string> address = host_.addresses->Take(node_.index);
    if (!address) return fail("FailedCreatePodSandBox", "the node has no loopback address left");
    address_ = *address;
    if (absl::Status written = WriteFile(absl::StrCat(folder_, "/address"), address_, 0600); !written.ok()) {
      return fail("FailedCreatePodSandBox", std::string(written.message()));
    }
  }
  bool waiting = false;
  for (const TokenNeed& need : TokensOf(*pod_)) {
    Token& token = tokens_[need];
    if (!token.text.empty()) continue;
    waiting = true;
    AskForToken(need);
  }
  if (waiting) return;  // AskForToken comes back here
  if (absl::Status written = WriteVolumes(); !written.ok()) {
    return fail("FailedMount", std::string(written.message()));
  }
  preparing_ = false;
  machine_.Prepared(Time(), machine_.spec().host_network ? node_.facts.ip : address_);
  host_.loop->Post(Guarded([this] { Act(); }));
}

void PodWorker::AskForToken(const TokenNeed& need) {
  Token& token = tokens_[need];
  if (token.asked) return;
  token.asked = true;
  JsonObject spec{{"expirationSeconds", need.expiration_seconds},
                  {"boundObjectRef",
                   JsonObject{{"kind", "Pod"}, {"apiVersion", "v1"}, {"name", kube::Name(*pod_)}, {"uid", uid_}}}};
  if (!need.audience.empty()) spec["audiences"] = JsonArray{Json(need.audience)};
  Json request =
      JsonObject{{"apiVersion", "authentication.k8s.io/v1"}, {"kind", "TokenRequest"}, {"spec", std::move(spec)}};
  const std::string_view account = Text(*pod_, "spec.serviceAccountName");
  kube::Key key{std::string(kube::Namespace(*pod_)), std::string(account.empty() ? "default" : account)};
  PodHost* host = &host_;
  host_.pool->Run([this, host, alive = alive_, need, key = std::move(key), request = std::move(request)] {
    kube::WriteOptions options;
    options.cancel = host->cancel;
    absl::StatusOr<Json> answer = host->client->CreateSubresource(kServiceAccounts, key, "token", request, options);
    host->loop->Post([this, alive, need, answer = std::move(answer)] {
      if (!*alive) return;
      Token& token = tokens_[need];
      token.asked = false;
      const Now now = Time();
      absl::Duration again = absl::Seconds(10);
      if (answer.ok()) {
        token.text = Text(*answer, "status.token");
        // Renewed after 80 % of its life, or after a day.
        again = std::min(absl::Seconds(need.expiration_seconds) * 0.8, absl::Hours(24));
      } else if (preparing_ && token.text.empty()) {
        preparing_ = false;
        machine_.PrepareFailed(now, "FailedMount", absl::StrCat("failed to fetch token: ", answer.status().message()));
        return Act();
      }
      token.renew_at = now.wall + again;
      token_timer_ = host_.loop->At(now.monotonic + again, Guarded([this, need] {
                                      if (!machine_.finished()) AskForToken(need);
                                    }));
      if (preparing_) {
        Prepare();
      } else {
        RefreshVolumes();
      }
    });
  });
}

absl::Status PodWorker::WriteVolumes() {
  const JsonArray* volumes = Items(*pod_, "spec.volumes");
  if (volumes == nullptr) return absl::OkStatus();
  const std::string ip = machine_.spec().host_network ? node_.facts.ip : address_;
  const auto tokens = [this](const TokenNeed& need) -> std::optional<std::string> {
    const auto at = tokens_.find(need);
    return at == tokens_.end() || at->second.text.empty() ? std::nullopt : std::optional(at->second.text);
  };
  for (const Json& volume : *volumes) {
    const std::string name(Text(volume, "name")), own = absl::StrCat(folder_, "/volumes/", name);
    if (HasPayload(volume)) {
      absl::StatusOr<Payload> payload = PayloadOf(*pod_, volume, ip, node_.facts, PodLookup(), tokens);
      if (!payload.ok()) {
        return absl::Status(payload.status().code(), absl::StrCat("MountVolume.SetUp failed for volume \"", name,
                                                                  "\" : ", payload.status().message()));
      }
      if (absl::Status written = WritePayload(own, *payload); !written.ok()) return written;
      volume_folders_[name] = own;
    } else {
      absl::StatusOr<std::string> folder = FolderOf(volume, own);
      if (!folder.ok()) return folder.status();
      volume_folders_[name] = *folder;
    }
  }
  return absl::OkStatus();
}

void PodWorker::RefreshVolumes() {
  if (volume_folders_.empty() || machine_.finished()) return;
  if (absl::Status written = WriteVolumes(); !written.ok()) {
    // What is there stays until all of it can be had again.
    spdlog::debug("pod {}: {}", machine_.spec().key.ToString(), std::string(written.message()));
  }
}

void PodWorker::StartContainer(size_t i, int attempt) {
  const ContainerSpec& spec = machine_.spec().containers[i];
  const auto fail = [&](StartFailure why, const std::string& message) {
    machine_.StartFailed(Time(), i, attempt, why, message);
  };
  const Json* container = ContainerOf(*pod_, spec.name);
  if (container == nullptr) return fail(StartFailure::kConfig, "the container is not in the pod's specification");
  const std::optional<std::string> image = host_.images->Find(spec.image);
  if (!image) {
    return fail(StartFailure::kImage, absl::StrCat("failed to pull image \"", spec.image,
                                                   "\": no folder stands for it; give the node --image ",
                                                   std::string(WithoutTag(spec.image)), "=FOLDER"));
  }
  const std::string ip = machine_.spec().host_network ? node_.facts.ip : address_;

  // The container's own variables win over ours, and ours over the node's.
  Variables first = host_.environment;
  const std::string folder = ContainerFolder(i), work = absl::StrCat(folder, "/work");
  const std::string path = *image == "/" ? host_.path : absl::StrCat(*image, ":", host_.path);
  first.emplace_back("PATH", path);
  first.emplace_back("HOME", work);
  first.emplace_back("HOSTNAME", std::string(kube::Name(*pod_)));
  if (!node_.gpus.empty()) {
    first.emplace_back("TF_SIM_GPUS", node_.gpus);
    first.emplace_back("TF_SIM_SEED", node_.facts.name);
  }
  absl::StatusOr<Variables> env =
      ContainerEnvironment(*pod_, *container, ip, node_.facts, PodLookup(), std::move(first));
  if (!env.ok()) return fail(StartFailure::kConfig, std::string(env.status().message()));
  absl::StatusOr<std::vector<Mount>> mounts = MountsOf(*container, *env, volume_folders_);
  if (!mounts.ok()) return fail(StartFailure::kConfig, std::string(mounts.status().message()));

  std::vector<std::string> argv = Strings(*container, "command");
  const bool own_command = !argv.empty();
  for (std::string& argument : Strings(*container, "args")) argv.push_back(std::move(argument));
  for (std::string& argument : argv) argument = Expand(argument, *env);
  std::string search = path;
  for (const auto& [name, value] : *env) {
    if (name == "PATH") search = value;
  }
  RunOptions options;
  options.working_folder = WorkingFolder(*container, i);
  absl::StatusOr<std::string> program =
      FindProgram(*image, spec.image, own_command ? argv.front() : "", search, options.working_folder);
  if (!program.ok()) {
    return fail(StartFailure::kRun, absl::StrCat("failed to create containerd task: failed to start container: ",
                                                 program.status().message()));
  }
  if (!own_command) argv.insert(argv.begin(), *program);

  std::error_code failed;
  fs::create_directories(work, failed);
  const std::string message = absl::StrCat(folder, "/termination-log");
  if (const int fd = open(message.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666); fd >= 0) close(fd);

  options.shim = host_.shim;
  options.folder = RunFolder(i, attempt);
  options.program = *program;
  options.argv = std::move(argv);
  for (const auto& [name, value] : *env) options.env.push_back(absl::StrCat(name, "=", value));
  for (const Mount& mount : *mounts)
    options.env.push_back(absl::StrCat(MountVariable(mount.volume), "=", mount.source));
  options.env.push_back(absl::StrCat("TF_TERMINATION_LOG=", message));
  options.env.push_back(absl::StrCat(kMarkerVariable, "=", Marker(i, attempt)));
  if (host_.mounts) {
    options.mounts = *std::move(mounts);
    const std::string_view target = Text(*container, "terminationMessagePath");
    options.mounts.push_back(Mount{"", message, std::string(target.empty() ? "/dev/termination-log" : target), false});
  }
  options.stop_signal = SignalNumber(Text(*container, "lifecycle.stopSignal"));
  options.input = kube::Flag(*container, "stdin");
  options.terminal = kube::Flag(*container, "tty");
  const int64_t memory = Limit(*container, "memory", 1), cpu = Limit(*container, "cpu", 1000);
  if (memory > 0 || cpu > 0) {
    const Cgroups::Place place = host_.cgroups->Make(absl::StrCat(uid_, "_", spec.name), memory, cpu);
    options.cgroups = place.files;
    options.oom_file = place.oom_file;
  }

  absl::StatusOr<std::unique_ptr<ContainerRun>> run = ContainerRun::Start(options);
  if (!run.ok()) return fail(StartFailure::kRun, std::string(run.status().message()));
  WriteFile(absl::StrCat(options.folder, "/backoff"), absl::StrCat(absl::ToInt64Seconds(machine_.backoff(i))), 0600)
      .IgnoreError();
  live_[i][attempt] = Live{*std::move(run), false};
  WatchRun(i, attempt);
  // Logs of the last run can be asked for, older ones not.
  fs::remove_all(RunFolder(i, attempt - 2), failed);
}

void PodWorker::WatchRun(size_t i, int attempt) {
  ContainerRun& run = *live_[i][attempt].run;
  if (run.report_fd() >= 0) {
    host_.loop->Watch(run.report_fd(), EPOLLIN, [this, i, attempt](uint32_t) { ReportReady(i, attempt); });
  }
  host_.loop->Watch(run.pidfd(), EPOLLIN, [this, i, attempt](uint32_t) { RunEnded(i, attempt); });
}

void PodWorker::ReportReady(size_t i, int attempt) {
  const auto at = live_[i].find(attempt);
  if (at == live_[i].end()) return;
  Live& live = at->second;
  const int fd = live.run->report_fd();
  // The descriptor is closed with the report: it must not be watched then.
  host_.loop->Unwatch(fd);
  const std::optional<absl::Status> report = live.run->ReadReport();
  if (!report) {
    host_.loop->Watch(fd, EPOLLIN, [this, i, attempt](uint32_t) { ReportReady(i, attempt); });
    return;
  }
  if (report->ok()) {
    live.started = true;
    machine_.Started(Time(), i, attempt, absl::StrCat("process://", Marker(i, attempt)));
  } else {
    machine_.StartFailed(Time(), i, attempt, StartFailure::kRun, std::string(report->message()));
  }
  Act();
}

Termination PodWorker::HowItEnded(size_t i, int attempt) const {
  const std::string folder = RunFolder(i, attempt);
  Termination how;
  how.id = absl::StrCat("process://", Marker(i, attempt));
  if (absl::StatusOr<StartRecord> record = ReadStartRecord(folder); record.ok()) how.started = record->started;
  if (absl::StatusOr<ExitRecord> record = ReadExitRecord(folder); record.ok()) {
    how.code = record->code;
    how.signal = record->signal;
    how.finished = record->finished;
    if (record->out_of_memory) how.reason = "OOMKilled";
  } else {
    how.code = 137;
    how.signal = SIGKILL;
    how.reason = "ContainerStatusUnknown";
    how.message = "the process that watched over the container was killed; what was left of it has been ended";
    // Remembered, so that it stays what it was and every agent finds the same.
    how.finished = RealClock().Now();
    WriteFile(absl::StrCat(folder, "/exit"), absl::StrCat("137 9 ", absl::ToUnixNanos(how.finished), " 0\n"), 0600)
        .IgnoreError();
    KillMarked(Marker(i, attempt));
  }
  return how;
}

void PodWorker::RunEnded(size_t i, int attempt) {
  const auto at = live_[i].find(attempt);
  if (at == live_[i].end()) return;
  // A report that has not been read comes first.
  if (at->second.run->report_fd() >= 0) ReportReady(i, attempt);
  host_.loop->Unwatch(at->second.run->pidfd());
  at->second.run->Reap();
  const bool started = at->second.started;
  live_[i].erase(at);
  Termination how = HowItEnded(i, attempt);
  const Json* container = ContainerOf(*pod_, machine_.spec().containers[i].name);
  if (how.message.empty()) how.message = ReadTail(absl::StrCat(ContainerFolder(i), "/termination-log"), kMaxMessage);
  if (how.message.empty() && how.code != 0 && container != nullptr &&
      Text(*container, "terminationMessagePolicy") == "FallbackToLogsOnError") {
    // Lines without their heads: "TIME stream F text".
    for (absl::string_view line : absl::StrSplit(ReadTail(absl::StrCat(RunFolder(i, attempt), "/log"), 8192), '\n')) {
      const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 3));
      if (parts.size() == 4) absl::StrAppend(&how.message, parts[3], "\n");
    }
    if (how.message.size() > 2048) how.message.erase(0, how.message.size() - 2048);
  }
  host_.cgroups->Remove(absl::StrCat(uid_, "_", machine_.spec().containers[i].name));
  if (started) machine_.Exited(Time(), i, attempt, std::move(how));
  Act();
}

void PodWorker::RunHandler(size_t i, const Handler& handler, absl::Duration timeout, ProbeDone done) {
  switch (handler.kind) {
    case Handler::Kind::kExec:
      return RunExec(i, handler.command, timeout, std::move(done));
    case Handler::Kind::kHttp:
      if (handler.scheme == "HTTPS") break;
      [[fallthrough]];
    case Handler::Kind::kTcp:
      return ProbeNetwork(*host_.loop, handler, machine_.spec().host_network ? node_.facts.ip : address_, timeout,
                          std::move(done));
    case Handler::Kind::kSleep:
      host_.loop->At(Loop::Monotonic() + handler.sleep, [done = std::move(done)] { done(true, ""); });
      return;
    case Handler::Kind::kGrpc:
      host_.loop->Post([done = std::move(done)] { done(false, "process nodes have no gRPC probes"); });
      return;
  }
  const std::string host = !handler.host.empty()          ? handler.host
                           : machine_.spec().host_network ? node_.facts.ip
                                                          : address_;
  http::ClientRequest request;
  request.url = absl::StrCat("https://", host, ":", handler.port, handler.path);
  for (const auto& [name, value] : handler.headers) request.headers.emplace_back(name, value);
  request.connect_limit = request.total_limit = timeout;
  request.max_body = 10 << 10;
  Loop* loop = host_.loop;
  http::Cancel* cancel = host_.cancel;
  host_.pool->Run([loop, cancel, request = std::move(request), done = std::move(done)] {
    http::TlsSettings tls;
    tls.insecure = true;
    http::Client client(tls, "", "kube-probe/1.36");
    absl::StatusOr<http::ClientResponse> response = client.Call(request, cancel);
    // An answer longer than we read is an answer.
    const bool good = response.ok() ? response->status >= 200 && response->status < 400
                                    : absl::IsResourceExhausted(response.status());
    std::string message = response.ok() ? absl::StrCat("HTTP probe failed with statuscode: ", response->status)
                                        : std::string(response.status().message());
    loop->Post([good, message = std::move(message), done] { done(good, message); });
  });
}

void PodWorker::RunExec(size_t i, const std::vector<std::string>& command, absl::Duration timeout, ProbeDone done) {
  const std::optional<ContainerView> view = View(machine_.spec().containers[i].name);
  const auto later = [&](std::string message) {
    host_.loop->Post([done, message = std::move(message)] { done(false, message); });
  };
  if (!view || !view->running || command.empty()) return later("the container is not running");
  absl::StatusOr<ProcessOptions> options = ExecOptions(host_.shim, *view, command, false);
  if (!options.ok()) return later(std::string(options.status().message()));
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return later(absl::StrCat("pipe: ", std::strerror(errno)));
  options->stdout_fd = options->stderr_fd = out[1];
  absl::StatusOr<Process> started = Process::Start(*options);
  close(out[1]);
  if (!started.ok()) {
    close(out[0]);
    return later(std::string(started.status().message()));
  }
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  struct Running {
    Process process;
    int out;
    std::string text;
    uint64_t timer = 0;
    bool timed_out = false;
  };
  auto running = std::make_shared<Running>(Running{*std::move(started), out[0], "", 0, false});
  Loop* loop = host_.loop;
  const auto drain = [running] {
    char buffer[4096];
    ssize_t got;
    while ((got = read(running->out, buffer, sizeof(buffer))) > 0) {
      const size_t room = kMaxProbeOutput - std::min(running->text.size(), kMaxProbeOutput);
      running->text.append(buffer, std::min(room, static_cast<size_t>(got)));
    }
    return got != 0;
  };
  loop->Watch(running->out, EPOLLIN, [loop, running, drain](uint32_t) {
    if (!drain()) loop->Unwatch(running->out);
  });
  running->timer = loop->At(Loop::Monotonic() + timeout, [running] {
    running->timer = 0;
    running->timed_out = true;
    running->process.SignalGroup(SIGKILL).IgnoreError();
  });
  loop->Watch(running->process.pidfd(), EPOLLIN, [loop, running, drain, done, timeout](uint32_t) {
    drain();
    loop->Unwatch(running->out);
    loop->Unwatch(running->process.pidfd());
    if (running->timer != 0) loop->Cancel(running->timer);
    // What it left in its session goes with it.
    running->process.SignalGroup(SIGKILL).IgnoreError();
    const std::optional<ExitStatus> status = running->process.Wait();
    close(running->out);
    std::string message = running->timed_out
                              ? absl::StrCat("command timed out after ", absl::FormatDuration(timeout))
                              : absl::StrCat(running->text.empty() ? "command failed with exit code " : running->text,
                                             running->text.empty() ? absl::StrCat(status ? status->code : -1) : "");
    done(!running->timed_out && status && status->code == 0, std::move(message));
  });
}

std::optional<ContainerView> PodWorker::View(std::string_view name) const {
  const std::optional<size_t> i = machine_.spec().Find(name);
  const Json* container = ContainerOf(*pod_, name);
  if (!i || container == nullptr) return std::nullopt;
  ContainerView view;
  view.name = name;
  view.folder = ContainerFolder(*i);
  view.image = machine_.spec().containers[*i].image;
  view.image_folder = host_.images->Find(view.image).value_or("/");
  view.working_folder = WorkingFolder(*container, *i);
  view.pod_ip = machine_.spec().host_network ? node_.facts.ip : address_;
  view.terminal = kube::Flag(*container, "tty");
  view.input = kube::Flag(*container, "stdin");
  for (const auto& [attempt, live] : live_[*i]) {
    if (!live.started) continue;
    view.running = true;
    view.attempt = attempt;
    view.pid = live.run->pid();
  }
  if (!view.running) {
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(view.folder, failed)) {
      int attempt = 0;
      if (absl::SimpleAtoi(entry.path().filename().string(), &attempt)) view.attempt = std::max(view.attempt, attempt);
    }
  }
  return view;
}

void PodWorker::Release() {
  if (!address_.empty()) {
    host_.addresses->Give(node_.index, address_);
    unlink(absl::StrCat(folder_, "/address").c_str());
  }
  finished_ = true;
}

void PodWorker::ScheduleSync() {
  if (gone_ || ending_) {
    if (finished_ && gone_) Finish();
    return;
  }
  if (sync_timer_ != 0 || syncing_) return;
  const absl::Duration delay = sync_backoff_ == absl::ZeroDuration() ? kSyncDelay : sync_backoff_;
  sync_timer_ = host_.loop->At(Loop::Monotonic() + delay, [this] {
    sync_timer_ = 0;
    Sync();
  });
}

void PodWorker::Sync() {
  if (gone_ || ending_ || syncing_) return;
  JsonObject status = machine_.Status(Time());
  status["hostIP"] = node_.facts.ip;
  status["hostIPs"] = JsonArray{JsonObject{{"ip", node_.facts.ip}}};
  // A strategic patch would add to these lists what is not in them yet.
  for (const char* list : {"hostIPs", "podIPs"}) {
    if (Json* ips = status.if_contains(list))
      ips->as_array().insert(ips->as_array().begin(), JsonObject{{"$patch", "replace"}});
  }
  if (const Json* generation = Field(*pod_, "metadata.generation")) status["observedGeneration"] = *generation;
  std::string text = boost::json::serialize(status);
  if (text == last_status_) {
    if (delete_wanted_) DeleteObject();
    return;
  }
  syncing_ = true;
  // The API server refuses it for another pod of the same name.
  Json patch = JsonObject{{"metadata", JsonObject{{"uid", uid_}}}, {"status", std::move(status)}};
  PodHost* host = &host_;
  host_.pool->Run(
      [this, host, alive = alive_, key = kube::KeyOf(*pod_), patch = std::move(patch), text = std::move(text)] {
        kube::PatchOptions options;
        options.type = kube::PatchType::kStrategic;
        options.cancel = host->cancel;
        absl::StatusOr<Json> answer = host->client->Patch(kPods, key, patch, options, "status");
        host->loop->Post([this, alive, status = answer.status(), text] {
          if (!*alive) return;
          syncing_ = false;
          if (status.ok()) {
            last_status_ = text;
            sync_backoff_ = absl::ZeroDuration();
          } else if (kube::IsNotFound(status) || kube::IsConflict(status)) {
            return;  // it is gone, or another one has its name: the watch tells
          } else {
            sync_backoff_ = sync_backoff_ == absl::ZeroDuration() ? absl::Milliseconds(500)
                                                                  : std::min(2 * sync_backoff_, absl::Seconds(30));
            spdlog::warn("pod {}: cannot write its status: {}", machine_.spec().key.ToString(),
                         std::string(status.message()));
          }
          ScheduleSync();
        });
      });
}

void PodWorker::DeleteObject() {
  if (deleting_ || gone_) return;
  deleting_ = true;
  PodHost* host = &host_;
  // What runs in the pool touches nothing of this worker, which may be gone by then.
  host_.pool->Run([this, host, alive = alive_, key = kube::KeyOf(*pod_), uid = uid_] {
    kube::DeleteOptions options;
    options.grace_period_seconds = 0;
    options.uid = uid;
    options.cancel = host->cancel;
    const absl::Status status = host->client->Delete(kPods, key, options);
    host->loop->Post([this, alive, status] {
      if (!*alive || status.ok() || kube::IsNotFound(status) || kube::IsConflict(status)) return;
      deleting_ = false;
      spdlog::warn("pod {}: cannot delete it: {}", machine_.spec().key.ToString(), std::string(status.message()));
      sync_timer_ = host_.loop->At(Loop::Monotonic() + absl::Seconds(2), [this] {
        sync_timer_ = 0;
        DeleteObject();
      });
    });
  });
}

void PodWorker::Finish() {
  std::error_code failed;
  fs::remove_all(folder_, failed);
  if (done_ == nullptr) return;
  host_.loop->Post([done = std::exchange(done_, nullptr), uid = uid_] { done(uid); });
}

}  // namespace tf::process_node
