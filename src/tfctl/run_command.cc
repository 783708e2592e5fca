// tfctl run: a program on a virtual GPU of this machine.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gpu/quota.h"
#include "license/gate.h"
#include "license/issue.h"
#include "tfctl/commands.h"
#include "tfctl/signing_key.h"

extern char** environ;

namespace tf::tfctl {
namespace {

namespace fs = std::filesystem;

constexpr auto kWorkerStart = std::chrono::seconds(30);

struct RunOptions {
  int gpus = 1;
  std::string vram, compute, via = "shm", sim, connect, key_file;
  uint32_t shm_mib = 64;
  bool quiet = false;
  std::vector<std::string> program;
};

// Where this build or installation keeps its parts: bin/tfctl, lib/client ...
absl::StatusOr<fs::path> Root() {
  std::error_code failed;
  fs::path root = fs::read_symlink("/proc/self/exe", failed).parent_path().parent_path();
  if (failed) return absl::InternalError("cannot find the folder of this program");
  if (!fs::exists(root / "lib/client/libcuda.so.1")) {
    return absl::NotFoundError(
        absl::StrCat("no client libraries in ", (root / "lib/client").string(), "; build all of the project"));
  }
  return root;
}

std::vector<std::string> Environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    std::string_view entry = *at;
    if (!changes.contains(std::string(entry.substr(0, entry.find('='))))) all.emplace_back(entry);
  }
  for (auto& [name, value] : changes) all.push_back(absl::StrCat(name, "=", value));
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Lines of a descriptor, as they come.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  // False at the end of input.
  bool Read(std::vector<std::string>* lines) {
    char buffer[4096];
    ssize_t got = read(fd_, buffer, sizeof buffer);
    if (got <= 0) return got < 0 && errno == EINTR;
    rest_.append(buffer, static_cast<size_t>(got));
    for (size_t end; (end = rest_.find('\n')) != std::string::npos;) {
      lines->push_back(rest_.substr(0, end));
      rest_.erase(0, end + 1);
    }
    return true;
  }

 private:
  const int fd_;
  std::string rest_;
};

// A development build accepts licences of a key that lies beside it. So that its owner need not make one by hand for
// each run, a licence for a day is made when the environment has none.
void AddDevelopmentLicense(std::map<std::string, std::string>* changes) {
  if (std::getenv("TF_LICENSE") != nullptr || std::getenv("TF_LICENSE_SIGN") != nullptr) return;
  if (!DevelopmentKeyFile().ok()) return;
  absl::StatusOr<license::SigningKey> key = LoadSigningKey("");
  if (!key.ok()) return;
  license::License wanted;
  wanted.kid = key->kid();
  wanted.id = "development";
  wanted.customer = "development";
  wanted.edition = "development";
  wanted.issued = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
  wanted.expires = wanted.issued + absl::Hours(24);
  absl::StatusOr<license::Issued> issued = license::Issue(wanted, *key);
  if (!issued.ok()) return;
  (*changes)["TF_LICENSE"] = issued->text;
  (*changes)["TF_LICENSE_SIGN"] = issued->signature;
}

// A worker of our own: started, waited for, ended.
class OwnWorker {
 public:
  ~OwnWorker() { End(); }

  // The connection string once it is ready; exit_status is the worker's when it ended instead.
  absl::StatusOr<std::string> Start(std::vector<std::string> arguments,
                                    const std::map<std::string, std::string>& changes, bool quiet, int* exit_status) {
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
    std::vector<std::string> environment = Environment(changes);
    std::vector<char*> argv = Pointers(arguments), envp = Pointers(environment);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) return absl::ErrnoToStatus(errno, "fork");
    if (pid_ == 0) {
      // Not in the terminal's group: Ctrl-C is for the program. And never without us.
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(1);
      dup2(out[1], 1);
      dup2(err[1], 2);
      int null = open("/dev/null", O_RDONLY);
      dup2(null, 0);
      execve(argv[0], argv.data(), envp.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
    LineReader output(out_), errors(err_);
    const auto deadline = std::chrono::steady_clock::now() + kWorkerStart;
    std::string connection;
    bool licensed = false, open = true;
    while (open && (connection.empty() || !licensed)) {
      pollfd fds[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return absl::DeadlineExceededError("the worker is not ready after 30 s");
      if (poll(fds, 2, static_cast<int>(left.count())) < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "poll");
      std::vector<std::string> lines;
      if (fds[1].revents != 0 && !errors.Read(&lines)) open = false;
      for (const std::string& line : lines) {
        if (absl::StartsWith(line, "License verification passed")) licensed = true;
        if (!quiet || !absl::StartsWith(line, "License verification passed"))
          std::fprintf(stderr, "%s\n", line.c_str());
      }
      lines.clear();
      if (fds[0].revents != 0) (void)output.Read(&lines);
      for (const std::string& line : lines) {
        std::vector<std::string> parts = absl::StrSplit(line, " ready at ");
        if (parts.size() == 2) connection = parts[1];
      }
    }
    if (!connection.empty() && licensed) return connection;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    return absl::FailedPreconditionError("the worker did not start");
  }

  int errors() const { return err_; }

 private:
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(pid_, &status, 0);
  }
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
};

std::string PrependPath(const char* name, const std::vector<std::string>& folders) {
  std::string value = absl::StrJoin(folders, ":");
  const char* old = std::getenv(name);
  if (old != nullptr && *old != '\0') absl::StrAppend(&value, ":", old);
  return value;
}

pid_t g_program = -1;
void PassOn(int signal) {
  if (g_program > 0) kill(g_program, signal);
}

// Runs the program with our terminal; its exit status as a shell would say it.
int RunProgram(std::vector<std::string> program, const std::map<std::string, std::string>& changes, int worker_errors) {
  std::vector<std::string> environment = Environment(changes);
  std::vector<char*> argv = Pointers(program), envp = Pointers(environment);
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) {
    PrintError(absl::StrCat("pipe: ", std::strerror(errno)));
    return 1;
  }
  g_program = fork();
  if (g_program < 0) {
    PrintError(absl::StrCat("fork: ", std::strerror(errno)));
    return 1;
  }
  if (g_program == 0) {
    execvpe(argv[0], argv.data(), envp.data());
    int error = errno;
    (void)!write(failed[1], &error, sizeof error);
    _exit(error == ENOENT ? 127 : 126);
  }
  close(failed[1]);
  // The terminal sends Ctrl-C to the program itself; what is sent to us alone is passed on.
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  for (int number : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action{};
    action.sa_handler = PassOn;
    sigaction(number, &action, nullptr);
  }
  int error = 0;
  if (read(failed[0], &error, sizeof error) == sizeof error) {
    PrintError(absl::StrCat("cannot run ", program[0], ": ", std::strerror(error)));
  }
  // What the worker still has to say goes to standard error, but never holds it up.
  pid_t relay = -1;
  if (worker_errors >= 0) {
    relay = fork();
    if (relay == 0) {
      for (int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
      char buffer[4096];
      ssize_t got;
      while ((got = read(worker_errors, buffer, sizeof buffer)) > 0) (void)!write(2, buffer, static_cast<size_t>(got));
      _exit(0);
    }
  }
  int status = 0;
  while (waitpid(g_program, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Run(const RunOptions& options) {
  absl::StatusOr<fs::path> root = Root();
  if (!root.ok()) {
    PrintError(std::string(root.status().message()));
    return 1;
  }
  std::string connection = options.connect;
  OwnWorker worker;
  if (connection.empty()) {
    std::map<std::string, std::string> changes = {{"TF_ENABLE_LOG", "1"}};
    const char* level = std::getenv("TF_LOG_LEVEL");
    changes["TF_LOG_LEVEL"] = level != nullptr ? level : "warn";
    AddDevelopmentLicense(&changes);
    if (!options.vram.empty()) {
      absl::StatusOr<uint64_t> bytes = gpu::ParseSize(options.vram);
      if (!bytes.ok() || *bytes < (1 << 20)) {
        PrintError(
            absl::StrCat("--vram: ", bytes.ok() ? "expected at least 1Mi" : std::string(bytes.status().message())));
        return 2;
      }
      changes["TF_GPU_MEMORY_LIMIT"] = absl::StrCat(*bytes >> 20);
    }
    if (!options.compute.empty()) {
      absl::StatusOr<uint32_t> percent = gpu::ParsePercent(options.compute);
      if (!percent.ok()) {
        PrintError(absl::StrCat("--compute: ", percent.status().message()));
        return 2;
      }
      changes["TF_CUDA_SM_PERCENT_LIMIT"] = absl::StrCat(*percent);
    }
    // The real driver if there is one, else simulated cards.
    if (!options.sim.empty() || std::getenv("TF_SIM_GPUS") != nullptr || !fs::exists("/dev/nvidiactl")) {
      changes["TF_CUDA_LIB_PATH"] = (*root / "lib/sim/libcuda.so.1").string();
      changes["TF_NVML_LIB_PATH"] = (*root / "lib/sim/libnvidia-ml.so.1").string();
      if (!options.sim.empty())
        changes["TF_SIM_GPUS"] = options.sim;
      else if (std::getenv("TF_SIM_GPUS") == nullptr)
        changes["TF_SIM_GPUS"] = absl::StrCat("A100-80G:", options.gpus);
    }
    if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) {
      std::vector<std::string> devices;
      for (int i = 0; i < options.gpus; ++i) devices.push_back(absl::StrCat(i));
      changes["CUDA_VISIBLE_DEVICES"] = absl::StrJoin(devices, ",");
    }
    std::vector<std::string> arguments = {(*root / "bin/tensor-fusion-worker").string()};
    if (options.via == "shm") {
      for (std::string word : {std::string("-n"), std::string("shmem"), std::string("-m"),
                               absl::StrCat("tf-run-", getpid()), std::string("-M"), absl::StrCat(options.shm_mib)}) {
        arguments.push_back(word);
      }
    } else {
      for (const char* word : {"-n", "native", "-p", "0"}) arguments.emplace_back(word);
    }
    int exit_status = 1;
    absl::StatusOr<std::string> started = worker.Start(arguments, changes, options.quiet, &exit_status);
    if (!started.ok()) {
      PrintError(absl::StrCat(started.status().message(),
                              exit_status == license::kRefusedExitStatus
                                  ? ": its licence was refused; set TF_LICENSE and TF_LICENSE_SIGN "
                                    "(tfctl license issue makes a pair for a development build)"
                                  : ""));
      return exit_status == 0 ? 1 : exit_status;
    }
    connection = *started;
  }
  std::string client = (*root / "lib/client").string(), cudart = (*root / "lib/cudart").string();
  std::map<std::string, std::string> changes = {
      {"TENSOR_FUSION_OPERATOR_CONNECTION_INFO", connection},
      {"LD_LIBRARY_PATH", PrependPath("LD_LIBRARY_PATH", {client, cudart})},
  };
  if (!options.key_file.empty()) changes["TF_LINK_KEY_FILE"] = options.key_file;
  return RunProgram(options.program, changes, worker.errors());
}

}  // namespace

void AddRunCommand(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Run a program on a virtual GPU");
  run->add_option("--gpus", options->gpus, "Cards of the virtual GPU")->check(CLI::Range(1, 64))->capture_default_str();
  run->add_option("--vram", options->vram, "Device memory on each card, such as 2Gi (default: all of it)");
  run->add_option("--compute", options->compute, "Share of each card's compute, such as 25% (default: all of it)");
  run->add_option("--via", options->via, "How the program reaches the worker")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->capture_default_str();
  run->add_option("--shm-size", options->shm_mib, "MiB of shared memory for each connection")->capture_default_str();
  run->add_option("--sim", options->sim,
                  "Simulated cards, such as A100-80G:2,T4 (default: the real driver if there is one)");
  run->add_option("--connect", options->connect, "Use the worker with this connection string instead of a new one");
  run->add_option("--link-key-file", options->key_file, "Link key of that worker (file of mode 0600)");
  run->add_flag("-q,--quiet", options->quiet, "Do not show the licence line of the worker");
  run->add_option("program", options->program, "Program and its arguments, after --")->required();
  run->positionals_at_end();
  run->footer(
      "The program gets the client libraries by LD_LIBRARY_PATH, so it must link the CUDA runtime dynamically\n"
      "(nvcc: -cudart shared). Without TF_LICENSE a development build makes itself a licence for a day. Its exit "
      "status is that of tfctl; 78: the worker's licence was refused.\n"
      "Example: tfctl run --vram 2Gi --compute 25% -- ./vector_add");
  run->callback([options, &exit_status] { exit_status = Run(*options); });
}

}  // namespace tf::tfctl
