#include "worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "cuda/wire_ops.h"
#include "license/issue.h"
#include "remoting/version.h"

extern char** environ;

namespace tf::tests {

namespace {

constexpr double kStartSeconds = 30;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "worker_process: %s\n", what.c_str());
  std::exit(1);
}

pid_t Spawn(std::vector<std::string> arguments, std::map<std::string, std::string> changes, int* out) {
  std::vector<std::string> environment;
  for (char** at = environ; *at != nullptr; ++at) {
    std::string entry = *at;
    if (!changes.contains(entry.substr(0, entry.find('=')))) environment.push_back(entry);
  }
  for (auto& [name, value] : changes) environment.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (std::string& word : arguments) argv.push_back(word.data());
  for (std::string& word : environment) envp.push_back(word.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) Die("pipe");
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(pipe_fds[1], 1);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(pipe_fds[1]);
  *out = pipe_fds[0];
  return pid;
}

std::optional<std::string> ReadLine(int fd, std::string* rest, double seconds) {
  for (double end = Now() + seconds;;) {
    if (size_t at = rest->find('\n'); at != std::string::npos) {
      std::string line = rest->substr(0, at);
      rest->erase(0, at + 1);
      return line;
    }
    double left = end - Now();
    pollfd poll_fd{fd, POLLIN, 0};
    if (left <= 0 || poll(&poll_fd, 1, static_cast<int>(left * 1000) + 1) <= 0) return std::nullopt;
    char buffer[4096];
    ssize_t got = read(fd, buffer, sizeof buffer);
    if (got <= 0) return std::nullopt;
    rest->append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

WorkerProcess::WorkerProcess(const std::string& via, const std::map<std::string, std::string>& environment) {
  absl::StatusOr<std::string> key_text = ReadFile(TF_BUILD "/license/development.key", 65536);
  if (!key_text.ok()) Die(std::string(key_text.status().message()));
  absl::StatusOr<license::SigningKey> key = license::SigningKey::FromFileText(*key_text);
  if (!key.ok()) Die(std::string(key.status().message()));
  license::License wanted;
  wanted.kid = key->kid();
  wanted.id = "test";
  wanted.customer = "test";
  wanted.edition = "test";
  wanted.issued = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
  wanted.expires = wanted.issued + absl::Hours(24);
  absl::StatusOr<license::Issued> issued = license::Issue(wanted, *key);
  if (!issued.ok()) Die(std::string(issued.status().message()));

  char folder[] = "/tmp/tf-test-XXXXXX";
  folder_ = mkdtemp(folder);
  std::map<std::string, std::string> changes = {
      {"TF_LICENSE", issued->text},
      {"TF_LICENSE_SIGN", issued->signature},
      {"TF_CUDA_LIB_PATH", TF_BUILD "/lib/sim/libcuda.so.1"},
      {"TF_NVML_LIB_PATH", TF_BUILD "/lib/sim/libnvidia-ml.so.1"},
      {"TF_RUN_DIR", folder_},
      {"TF_LICENSE_STATE", folder_ + "/license-time"},
  };
  for (auto& [name, value] : environment) changes[name] = value;
  static int count = 0;
  std::vector<std::string> arguments = {TF_BUILD "/bin/tensor-fusion-worker"};
  if (via == "shm") {
    for (std::string word : {std::string("-n"), std::string("shmem"), std::string("-M"), std::string("16"),
                             std::string("-m"), absl::StrCat("tf-test-", getpid(), "-", ++count)}) {
      arguments.push_back(word);
    }
  } else {
    for (const char* word : {"-n", "native", "-p", "0"}) arguments.emplace_back(word);
  }
  int out;
  pid_ = Spawn(arguments, changes, &out);
  std::string rest;
  while (std::optional<std::string> line = ReadLine(out, &rest, kStartSeconds)) {
    if (size_t at = line->find(" ready at "); at != std::string::npos) {
      connection_ = line->substr(at + 10);
      return;
    }
  }
  Die("the worker is not ready");
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  (void)!system(absl::StrCat("rm -rf ", folder_).c_str());
}

void WorkerProcess::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool WorkerProcess::Alive() const { return pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0; }

std::unique_ptr<link::Connection> WorkerProcess::Connect() const {
  link::ConnectOptions options;
  options.protocol_hash = cuda::kProtocolHash;
  options.program_version = remoting::kProgramVersion;
  options.text = "cuda";
  auto connection = link::Connect(*link::ParseConnectionString(connection_), options);
  if (!connection.ok()) Die(std::string(connection.status().message()));
  return *std::move(connection);
}

std::unique_ptr<remoting::RemoteBackend> WorkerProcess::ConnectBackend() const {
  return std::make_unique<remoting::RemoteBackend>(Connect());
}

std::optional<remoting::WorkerStatus> WorkerProcess::Status() const {
  std::ifstream file(absl::StrCat(folder_, "/workers/", pid_, ".status"));
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<remoting::WorkerStatus> status = remoting::ParseStatus(text.str());
  if (!status.ok()) return std::nullopt;
  return *status;
}

Program::Program(std::vector<std::string> arguments, const std::string& connection) {
  pid_ = Spawn(std::move(arguments),
               {{"TENSOR_FUSION_OPERATOR_CONNECTION_INFO", connection}, {"LD_LIBRARY_PATH", TF_BUILD "/lib/client"}},
               &out_);
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
}

std::optional<std::string> Program::Line(double seconds) { return ReadLine(out_, &rest_, seconds); }

void Program::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace tf::tests
