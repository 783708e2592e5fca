// tensor-fusion-process-shim: stands between the node agent and one container, so that the container outlives the
// agent.
//
//   tensor-fusion-process-shim run --dir DIR [options] -- PROGRAM ARGV0 [ARGUMENT …]
//   tensor-fusion-process-shim exec --pid PID [--cwd FOLDER] [--tty] -- PROGRAM ARGV0 [ARGUMENT …]
//   tensor-fusion-process-shim check-mounts STAGING
//
// run: one run of a container, with the environment that the shim has. The shim becomes the reaper of everything below
// it, starts PROGRAM in a session of its own, and writes in DIR:
//   started   "PID STARTTIME SHIM-PID SHIM-STARTTIME NANOSECONDS", before the program's first instruction. Start times
//             as in field 22 of /proc/PID/stat: with it a process number is unmistakable
//   log       standard output and error as lines "TIME stdout|stderr F|P TEXT"; log.1 is the part before, and there is
//             no more: 2 × 10 MiB
//   attach    a socket of messages (SOCK_SEQPACKET). In: 'I' and bytes for the program's input, 'E' ends its input,
//             'R' and columns and rows (2 bytes each, big endian) sizes its terminal. Out: 1 (standard output) or
//             2 (error) and bytes. A message has at most 8 KiB
//   exit      "CODE SIGNAL NANOSECONDS OOM", once the program and everything that it left behind has ended
// Descriptors: 0 is a lock file with the agent's flock on it, which lasts as long as the shim; 1 takes one line,
// "ok PID" or "error TEXT". Signals: SIGTERM is passed on (as --stop-signal); SIGQUIT ends every process below with
// SIGKILL. If the shim itself dies the kernel ends the program with it.
//
// It is small because there is one for each container: no allocation after the start, no C++ library, linked
// statically.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process_node/shim/mounts.h"

namespace {

constexpr int kMaxBinds = 256;
constexpr int kMaxCgroups = 8;
constexpr int kMaxClients = 8;
constexpr size_t kMaxLine = 16 << 10;  // longer lines are split, as container runtimes do
constexpr size_t kMaxMessage = 8 << 10;
constexpr long kMaxLog = 10 << 20;

struct Options {
  const char* dir = nullptr;
  const char* cwd = nullptr;
  const char* oom_file = nullptr;
  const char* cgroups[kMaxCgroups] = {};
  int cgroup_count = 0;
  tf::shim::Bind binds[kMaxBinds] = {};
  int bind_count = 0;
  int stop_signal = SIGTERM;
  bool in = false;  // the program's input is open, for attach
  bool tty = false;
  int pid = 0;
  char** program = nullptr;  // path, argv[0], …
};

int report_fd = -1;

[[noreturn]] void Die(const char* what, const char* path) {
  char line[512];
  const int length = snprintf(line, sizeof(line), "error %s %s: %s\n", what, path, strerror(errno));
  (void)!write(report_fd >= 0 ? report_fd : 2, line, static_cast<size_t>(length));
  _exit(126);
}

int64_t Nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// "2026-11-30T17:00:00.123456789Z"; days to a date after the proleptic Gregorian calendar.
int Timestamp(char* out, size_t size) {
  const int64_t now = Nanoseconds();
  const int64_t seconds = now / 1000000000;
  const int64_t z = seconds / 86400 + 719468;
  const int64_t era = z / 146097, doe = z - era * 146097;
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
  const int64_t day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
  const int64_t year = yoe + era * 400 + (month <= 2 ? 1 : 0);
  const int rest = static_cast<int>(seconds % 86400);
  return snprintf(out, size, "%04d-%02d-%02dT%02d:%02d:%02d.%09dZ", static_cast<int>(year), static_cast<int>(month),
                  static_cast<int>(day), rest / 3600, rest / 60 % 60, rest % 60, static_cast<int>(now % 1000000000));
}

uint64_t StartTime(int pid) {
  char path[64], text[1024];
  snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = '\0';
  char* at = strrchr(text, ')');  // the name may hold anything
  if (at == nullptr) return 0;
  at += 2;
  for (int field = 3; field < 22; ++field) {
    at = strchr(at, ' ');
    if (at == nullptr) return 0;
    ++at;
  }
  return strtoull(at, nullptr, 10);
}

// Old contents or new, never a part: another agent may read at any moment.
void WriteWhole(int dir, const char* name, const char* text) {
  char temporary[64];
  snprintf(temporary, sizeof(temporary), ".%s", name);
  const int fd = openat(dir, temporary, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const bool written = write(fd, text, strlen(text)) == static_cast<ssize_t>(strlen(text));
  close(fd);
  if (written) renameat(dir, temporary, dir, name);
}

class Log {
 public:
  void Open(int dir) {
    dir_ = dir;
    fd_ = openat(dir, "log", O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0640);
  }

  // Whole lines are written at once, the rest waits for more or for the end.
  void Add(int stream, const char* bytes, size_t size) {
    Pending& pending = pending_[stream - 1];
    while (size > 0) {
      const void* newline = memchr(bytes, '\n', size);
      size_t take = newline != nullptr ? static_cast<size_t>(static_cast<const char*>(newline) - bytes) : size;
      bool ends = newline != nullptr;
      if (take > kMaxLine - pending.size) {
        take = kMaxLine - pending.size;
        ends = false;
      }
      memcpy(pending.text + pending.size, bytes, take);
      pending.size += take;
      bytes += take + (ends ? 1 : 0);
      size -= take + (ends ? 1 : 0);
      if (ends)
        Write(stream, 'F');
      else if (pending.size == kMaxLine)
        Write(stream, 'P');
    }
  }

  void Finish() {
    for (int stream = 1; stream <= 2; ++stream) {
      if (pending_[stream - 1].size > 0) Write(stream, 'F');
    }
  }

 private:
  struct Pending {
    char text[kMaxLine];
    size_t size = 0;
  };

  void Write(int stream, char tag) {
    Pending& pending = pending_[stream - 1];
    char head[64];
    int length = Timestamp(head, sizeof(head));
    length += snprintf(head + length, sizeof(head) - static_cast<size_t>(length), " %s %c ",
                       stream == 1 ? "stdout" : "stderr", tag);
    if (size_ + length + static_cast<long>(pending.size) + 1 > kMaxLog) {
      close(fd_);
      renameat(dir_, "log", dir_, "log.1");
      fd_ = openat(dir_, "log", O_CREAT | O_TRUNC | O_APPEND | O_WRONLY | O_CLOEXEC, 0640);
      size_ = 0;
    }
    // One write a line: a reader never sees a part of one. A full disk loses lines; the program goes on.
    static char line[sizeof(head) + kMaxLine + 1];
    memcpy(line, head, static_cast<size_t>(length));
    memcpy(line + length, pending.text, pending.size);
    const size_t whole = static_cast<size_t>(length) + pending.size + 1;
    line[whole - 1] = '\n';
    if (write(fd_, line, whole) == static_cast<ssize_t>(whole)) size_ += static_cast<long>(whole);
    pending.size = 0;
  }

  int dir_ = -1;
  int fd_ = -1;
  long size_ = 0;
  Pending pending_[2];
};

Log container_log;

// Everything below us, children of children included: they become ours when their parents die.
void KillBelow() {
  const int self = getpid();
  for (;;) {
    const pid_t reaped = waitpid(-1, nullptr, WNOHANG);
    if (reaped < 0 && errno == ECHILD) return;
    if (reaped > 0) continue;
    // Some are alive: all direct children are ended, then waited for.
    char path[64], list[8192];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", self);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      return;  // a kernel without this file: the program itself has ended, the agent looks for the rest
    }
    const ssize_t length = read(fd, list, sizeof(list) - 1);
    close(fd);
    list[length > 0 ? length : 0] = '\0';
    for (char* at = list; *at != '\0';) {
      const long pid = strtol(at, &at, 10);
      if (pid > 1) kill(static_cast<pid_t>(pid), SIGKILL);
      while (*at == ' ' || *at == '\n') ++at;
    }
    waitpid(-1, nullptr, 0);
  }
}

bool Oom(const char* file) {
  if (file == nullptr) return false;
  char text[1024];
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  const char* at = strstr(text, "oom_kill ");
  return at != nullptr && atoi(at + strlen("oom_kill ")) > 0;
}

// In the child, on the way to the program.
[[noreturn]] void Become(Options& options, int go, int in, int out, int err, int terminal) {
  for (int i = 0; i < options.cgroup_count; ++i) {
    const int fd = open(options.cgroups[i], O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1) Die("cannot join the cgroup", options.cgroups[i]);
    close(fd);
  }
  // Its record is written first: nobody starts it again who has not read that.
  char byte;
  if (read(go, &byte, 1) != 1) _exit(126);
  setsid();
  if (terminal >= 0) {
    ioctl(terminal, TIOCSCTTY, 0);
    in = out = err = terminal;
  }
  char staging[4096], problem[512];
  snprintf(staging, sizeof(staging), "%s/staging", options.dir);
  if (options.bind_count > 0) mkdir(staging, 0700);
  if (!tf::shim::BindVolumes(options.binds, options.bind_count, staging, problem, sizeof(problem))) {
    char line[640];
    const int length = snprintf(line, sizeof(line), "error %s\n", problem);
    (void)!write(report_fd, line, static_cast<size_t>(length));
    _exit(126);
  }
  // After the namespaces: a change of credentials clears it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (options.cwd != nullptr && chdir(options.cwd) != 0) Die("cannot enter the working folder", options.cwd);
  if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) Die("cannot set up", "standard input and output");
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(options.program[0], options.program + 1);
  Die("exec", options.program[0]);
}

int clients[kMaxClients];  // -1: free

void Send(int stream, const char* bytes, size_t size) {
  unsigned char head = static_cast<unsigned char>(stream);
  for (int& client : clients) {
    if (client < 0) continue;
    iovec parts[2] = {{&head, 1}, {const_cast<char*>(bytes), size}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    // Who does not keep up is let go: the program never waits for a watcher.
    if (sendmsg(client, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(1 + size)) {
      close(client);
      client = -1;
    }
  }
}

// False at its end.
bool Drain(int stream, int fd) {
  char bytes[kMaxMessage - 1];
  const ssize_t size = read(fd, bytes, sizeof(bytes));
  if (size > 0) {
    container_log.Add(stream, bytes, static_cast<size_t>(size));
    Send(stream, bytes, static_cast<size_t>(size));
    return true;
  }
  return size < 0 && (errno == EINTR || errno == EAGAIN);
}

void SetUpSocket(int dir, int* listener) {
  // A path in the folder may be too long for an address: the folder is entered by its descriptor.
  *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (*listener < 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/attach", dir);
  if (bind(*listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 || listen(*listener, 4) != 0) {
    close(*listener);
    *listener = -1;
  }
}

int Run(Options& options) {
  // The descriptors that came as 0 and 1 make room for the usual ones.
  const int lock = fcntl(0, F_DUPFD_CLOEXEC, 10);
  report_fd = fcntl(1, F_DUPFD_CLOEXEC, 10);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (lock < 0 || report_fd < 0 || null < 0) Die("cannot open", "/dev/null");
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  const int dir = open(options.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) Die("cannot open", options.dir);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  container_log.Open(dir);
  int listener = -1;
  SetUpSocket(dir, &listener);

  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);

  int out[2] = {-1, -1}, err[2] = {-1, -1}, in[2] = {null, -1}, go[2], terminal = -1, master = -1;
  if (pipe2(go, O_CLOEXEC) != 0) Die("cannot make", "a pipe");
  if (options.tty) {
    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) Die("cannot make", "a terminal");
    terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0) Die("cannot open", "the terminal");
    out[0] = master;
    if (options.in) in[1] = master;
  } else {
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) Die("cannot make", "a pipe");
    if (options.in && pipe2(in, O_CLOEXEC) != 0) Die("cannot make", "a pipe");
  }

  const pid_t pid = fork();
  if (pid < 0) Die("cannot fork for", options.program[0]);
  if (pid == 0) Become(options, go[0], in[0], out[1], err[1], terminal);
  close(go[0]);
  if (terminal >= 0) close(terminal);
  if (out[1] >= 0) close(out[1]);
  if (err[1] >= 0) close(err[1]);
  if (in[0] != null) close(in[0]);
  if (in[1] >= 0) fcntl(in[1], F_SETFL, O_NONBLOCK);
  if (out[0] >= 0) fcntl(out[0], F_SETFL, O_NONBLOCK);
  if (err[0] >= 0) fcntl(err[0], F_SETFL, O_NONBLOCK);
  for (int& client : clients) client = -1;
  char line[256];
  snprintf(line, sizeof(line), "%d %llu %d %llu %lld\n", pid, static_cast<unsigned long long>(StartTime(pid)), getpid(),
           static_cast<unsigned long long>(StartTime(getpid())), static_cast<long long>(Nanoseconds()));
  WriteWhole(dir, "started", line);
  (void)!write(go[1], "g", 1);
  close(go[1]);
  // The agent reads until the end of the pipe: an error line of the child comes before it, or the child's exec closes
  // its end and ours follows.
  snprintf(line, sizeof(line), "ok %d\n", pid);
  (void)!write(report_fd, line, strlen(line));
  close(report_fd);
  report_fd = -1;

  int code = 0, number = 0;
  bool running = true;
  static unsigned char input[kMaxMessage];  // taken from a client, not yet by the program
  size_t input_at = 0, input_end = 0;
  while (running) {
    const bool pending = input_at < input_end && in[1] >= 0;
    pollfd fds[5 + kMaxClients] = {{signals, POLLIN, 0},
                                   {out[0], POLLIN, 0},
                                   {err[0], POLLIN, 0},
                                   {listener, POLLIN, 0},
                                   {pending ? in[1] : -1, POLLOUT, 0}};
    // While the program does not take its input nothing more is read.
    for (int i = 0; i < kMaxClients; ++i) fds[5 + i] = {pending ? -1 : clients[i], POLLIN, 0};
    if (poll(fds, 5 + kMaxClients, -1) < 0) continue;
    if (fds[1].revents != 0 && !Drain(1, out[0])) {
      if (out[0] != master) close(out[0]);
      out[0] = -1;
    }
    if (fds[2].revents != 0 && !Drain(2, err[0])) {
      close(err[0]);
      err[0] = -1;
    }
    if (fds[3].revents != 0) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      bool placed = fd < 0;
      for (int& client : clients) {
        if (placed || client >= 0) continue;
        client = fd;
        placed = true;
      }
      if (!placed) close(fd);
    }
    if (fds[4].revents != 0) {
      const ssize_t taken = write(in[1], input + input_at, input_end - input_at);
      if (taken > 0)
        input_at += static_cast<size_t>(taken);
      else if (errno != EAGAIN && errno != EINTR)
        input_at = input_end;
    }
    for (int i = 0; i < kMaxClients && input_at >= input_end; ++i) {
      if (fds[5 + i].revents == 0 || clients[i] < 0) continue;
      const ssize_t size = recv(clients[i], input, sizeof(input), MSG_DONTWAIT);
      if (size <= 0) {
        if (size < 0 && errno == EAGAIN) continue;
        close(clients[i]);
        clients[i] = -1;
      } else if (input[0] == 'R' && size == 5) {
        winsize window{};
        window.ws_col = static_cast<unsigned short>(input[1] << 8 | input[2]);
        window.ws_row = static_cast<unsigned short>(input[3] << 8 | input[4]);
        if (master >= 0) ioctl(master, TIOCSWINSZ, &window);
      } else if (input[0] == 'E') {
        if (in[1] >= 0 && in[1] != master) {
          close(in[1]);
          in[1] = -1;
        }
      } else if (input[0] == 'I' && in[1] >= 0) {
        input_at = 1;
        input_end = static_cast<size_t>(size);
      }
    }
    signalfd_siginfo info{};
    while (read(signals, &info, sizeof(info)) == sizeof(info)) {
      switch (info.ssi_signo) {
        case SIGCHLD: {
          siginfo_t ended{};
          // Others that ended below us are only reaped.
          while (ended.si_pid = 0, waitid(P_ALL, 0, &ended, WEXITED | WNOHANG) == 0 && ended.si_pid != 0) {
            if (ended.si_pid != pid) continue;
            running = false;
            number = ended.si_code == CLD_EXITED ? 0 : ended.si_status;
            code = ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
          }
          break;
        }
        case SIGTERM:
          kill(pid, options.stop_signal);
          break;
        case SIGQUIT:
          kill(-pid, SIGKILL);
          kill(pid, SIGKILL);
          break;
        default:
          break;
      }
    }
  }
  // A container ends with its first process.
  KillBelow();
  for (errno = 0; out[0] >= 0 && Drain(1, out[0]) && errno != EAGAIN;) errno = 0;
  for (errno = 0; err[0] >= 0 && Drain(2, err[0]) && errno != EAGAIN;) errno = 0;
  container_log.Finish();
  unlinkat(dir, "attach", 0);
  snprintf(line, sizeof(line), "%d %d %lld %d\n", code, number, static_cast<long long>(Nanoseconds()),
           number == SIGKILL && Oom(options.oom_file) ? 1 : 0);
  WriteWhole(dir, "exit", line);
  return 0;
}

bool Join(int pid, const char* kind, int flag) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
  struct stat mine, theirs;
  const bool have_mine = stat(path, &mine) == 0;
  snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kind);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool same = have_mine && fstat(fd, &theirs) == 0 && mine.st_ino == theirs.st_ino;
  const bool joined = same || setns(fd, flag) == 0;
  close(fd);
  return joined;
}

int Exec(Options& options) {
  if (options.tty) {
    setsid();
    ioctl(0, TIOCSCTTY, 0);
  }
  char root[64];
  snprintf(root, sizeof(root), "/proc/%d/root", options.pid);
  const int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (!Join(options.pid, "user", CLONE_NEWUSER)) Die("cannot enter the user namespace of", "the container");
  if (!Join(options.pid, "mnt", CLONE_NEWNS)) Die("cannot enter the mount namespace of", "the container");
  struct stat mine, theirs;
  if (root_fd >= 0 && stat("/", &mine) == 0 && fstat(root_fd, &theirs) == 0 &&
      (mine.st_ino != theirs.st_ino || mine.st_dev != theirs.st_dev)) {
    if (fchdir(root_fd) != 0 || chroot(".") != 0) Die("cannot enter the root of", "the container");
  }
  if (options.cwd != nullptr && chdir(options.cwd) != 0 && chdir("/") != 0) Die("cannot enter", options.cwd);
  execv(options.program[0], options.program + 1);
  Die("exec", options.program[0]);
}

int Usage() {
  static const char kText[] =
      "tensor-fusion-process-shim is started by tensor-fusion-process-node, once for each container; see its source.\n";
  (void)!write(2, kText, sizeof(kText) - 1);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return Usage();
  static Options options;
  if (strcmp(argv[1], "check-mounts") == 0) {
    char problem[512];
    tf::shim::Bind bind{argv[2], "/tensor-fusion-check/a", false};
    if (tf::shim::BindVolumes(&bind, 1, argv[2], problem, sizeof(problem))) return 0;
    fprintf(stderr, "%s\n", problem);
    return 1;
  }
  int i = 2;
  for (; i < argc && strcmp(argv[i], "--") != 0; ++i) {
    const char* name = argv[i];
    if (strcmp(name, "--stdin") == 0) {
      options.in = true;
    } else if (strcmp(name, "--tty") == 0) {
      options.tty = true;
    } else if (i + 1 < argc && strcmp(name, "--dir") == 0) {
      options.dir = argv[++i];
    } else if (i + 1 < argc && strcmp(name, "--cwd") == 0) {
      options.cwd = argv[++i];
    } else if (i + 1 < argc && strcmp(name, "--pid") == 0) {
      options.pid = atoi(argv[++i]);
    } else if (i + 1 < argc && strcmp(name, "--stop-signal") == 0) {
      options.stop_signal = atoi(argv[++i]);
    } else if (i + 1 < argc && strcmp(name, "--oom") == 0) {
      options.oom_file = argv[++i];
    } else if (i + 1 < argc && strcmp(name, "--cgroup") == 0 && options.cgroup_count < kMaxCgroups) {
      options.cgroups[options.cgroup_count++] = argv[++i];
    } else if (i + 3 < argc && strcmp(name, "--bind") == 0 && options.bind_count < kMaxBinds) {
      options.binds[options.bind_count++] = {argv[i + 1], argv[i + 2], strcmp(argv[i + 3], "ro") == 0};
      i += 3;
    } else {
      return Usage();
    }
  }
  if (i + 2 >= argc) return Usage();
  options.program = argv + i + 1;
  if (strcmp(argv[1], "run") == 0 && options.dir != nullptr) return Run(options);
  if (strcmp(argv[1], "exec") == 0 && options.pid > 0) return Exec(options);
  return Usage();
}
