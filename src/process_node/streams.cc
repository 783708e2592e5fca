#include "process_node/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/process.h"
#include "process_node/exec.h"
#include "process_node/websocket.h"

namespace tf::process_node {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

enum Channel : char { kIn = 0, kOut = 1, kErr = 2, kEnd = 3, kResize = 4, kCloseChannel = static_cast<char>(255) };
constexpr size_t kChunk = 32 << 10;

// A connection that speaks the protocol. Send: any thread; the other calls: one.
class Session {
 public:
  // Null when it could not be set up; the peer has its answer then.
  static std::unique_ptr<Session> Open(const http::ServerRequest& request, http::ResponseWriter& response,
                                       const StreamOptions& options) {
    const std::string_view protocol = ChooseStreamProtocol(request.Header("sec-websocket-protocol"));
    const std::string_view key = request.Header("sec-websocket-key");
    if (key.empty() || protocol.empty()) {
      response
          .Send(400, "text/plain",
                "process nodes speak WebSocket with v5.channel.k8s.io or v4.channel.k8s.io here; use kubectl 1.30 or "
                "later\n")
          .IgnoreError();
      return nullptr;
    }
    absl::StatusOr<http::Duplex*> bytes = response.TakeOver({{"Upgrade", "websocket"},
                                                             {"Connection", "Upgrade"},
                                                             {"Sec-WebSocket-Accept", WebSocketAccept(key)},
                                                             {"Sec-WebSocket-Protocol", std::string(protocol)}});
    if (!bytes.ok()) return nullptr;
    auto session = std::unique_ptr<Session>(new Session(*bytes));
    // An empty message says that the streams are there.
    session->Send(options.out ? kOut : options.err ? kErr : kEnd, "");
    return session;
  }

  bool Send(Channel channel, std::string_view bytes) {
    std::string message(1, channel);
    message += bytes;
    return Write(WebSocketFrame(WebSocketMessage::Type::kBinary, message));
  }

  // Reads until the peer goes away or Close.
  void Read(const std::function<void(std::string_view)>& input, const std::function<void()>& input_ends,
            const std::function<void(int columns, int rows)>& resize) {
    WebSocketReader reader;
    while (true) {
      absl::StatusOr<std::string> bytes = peer_->Read(absl::InfiniteDuration());
      if (!bytes.ok() || bytes->empty()) return;
      reader.Add(*bytes);
      while (true) {
        absl::StatusOr<std::optional<WebSocketMessage>> message = reader.Next();
        if (!message.ok()) {
          Write(WebSocketClose(1002, message.status().message().substr(0, 100).data()));
          return;
        }
        if (!*message) break;
        const std::string& payload = (*message)->payload;
        if ((*message)->type == WebSocketMessage::Type::kClose) return;
        if ((*message)->type == WebSocketMessage::Type::kPing)
          Write(WebSocketFrame(WebSocketMessage::Type::kPong, payload));
        if ((*message)->type != WebSocketMessage::Type::kBinary || payload.empty()) continue;
        const std::string_view rest = std::string_view(payload).substr(1);
        switch (payload[0]) {
          case kIn:
            if (!rest.empty()) input(rest);
            break;
          case kResize: {
            absl::StatusOr<Json> size = kube::ParseJson(rest);
            if (size.ok()) {
              resize(static_cast<int>(kube::Number(*size, "Width")), static_cast<int>(kube::Number(*size, "Height")));
            }
            break;
          }
          case kCloseChannel:
            if (rest.size() == 1 && rest[0] == kIn) input_ends();
            break;
          default:
            break;
        }
      }
    }
  }

  void Finish(const std::string& status) {
    Send(kEnd, status);
    Write(WebSocketClose(1000, ""));
  }
  void Close() { peer_->Close(); }

 private:
  explicit Session(http::Duplex* peer) : peer_(peer) {}
  bool Write(const std::string& bytes) {
    std::lock_guard lock(mutex_);
    return peer_->Write(bytes).ok();
  }

  http::Duplex* peer_;
  std::mutex mutex_;
};

// Reads once; false at the end.
bool Forward(int fd, const std::function<bool(std::string_view)>& to) {
  std::array<char, kChunk> buffer;
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got > 0) return to(std::string_view(buffer.data(), static_cast<size_t>(got)));
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

void WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
      continue;
    }
    if (written < 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

std::string_view ChooseStreamProtocol(std::string_view offered) {
  for (const std::string_view known : {"v5.channel.k8s.io", "v4.channel.k8s.io"}) {
    for (absl::string_view one :
         absl::StrSplit(absl::string_view(offered.data(), offered.size()), absl::ByAnyChar(", "), absl::SkipEmpty())) {
      if (std::string_view(one.data(), one.size()) == known) return known;
    }
  }
  return "";
}

std::string ExitStatusJson(int code) {
  if (code == 0) return R"({"metadata":{},"status":"Success"})";
  const std::string number = std::to_string(code);
  return boost::json::serialize(JsonObject{
      {"metadata", JsonObject{}},
      {"status", "Failure"},
      {"message", "command terminated with non-zero exit code: exit status " + number},
      {"reason", "NonZeroExitCode"},
      {"details", JsonObject{{"causes", JsonArray{JsonObject{{"reason", "ExitCode"}, {"message", number}}}}}}});
}

std::string FailureJson(std::string_view message) {
  return boost::json::serialize(JsonObject{{"metadata", JsonObject{}},
                                           {"status", "Failure"},
                                           {"message", message},
                                           {"reason", "InternalError"},
                                           {"code", 500}});
}

void ServeExec(const http::ServerRequest& request, http::ResponseWriter& response, const ContainerView& container,
               const std::string& shim, const StreamOptions& options) {
  std::unique_ptr<Session> session = Session::Open(request, response, options);
  if (session == nullptr) return;
  const auto fail = [&](const std::string& message) {
    session->Finish(FailureJson(absl::StrCat("error executing command in container: ", message)));
  };
  absl::StatusOr<ProcessOptions> process = ExecOptions(shim, container, options.command, options.terminal);
  if (!process.ok()) return fail(std::string(process.status().message()));

  int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, master = -1, terminal = -1;
  const int over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  absl::Cleanup close_all = [&] {
    for (const int fd : {in[0], in[1], out[0], out[1], err[0], err[1], master, terminal, over}) {
      if (fd >= 0) close(fd);
    }
  };
  if (options.terminal) {
    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    char name[128];
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0 || ptsname_r(master, name, sizeof(name)) != 0) {
      return fail(absl::StrCat("cannot make a terminal: ", std::strerror(errno)));
    }
    terminal = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    process->stdin_fd = process->stdout_fd = process->stderr_fd = terminal;
  } else {
    if ((options.in && pipe2(in, O_CLOEXEC) != 0) || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
      return fail(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
    }
    process->stdin_fd = in[0];
    process->stdout_fd = out[1];
    process->stderr_fd = err[1];
  }
  absl::StatusOr<Process> started = Process::Start(*process);
  if (!started.ok()) return fail(std::string(started.status().message()));
  for (int* fd : {&in[0], &out[1], &err[1], &terminal}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }

  std::mutex input_mutex;
  std::thread reader([&] {
    const auto end_input = [&] {
      std::lock_guard lock(input_mutex);
      if (in[1] >= 0) close(in[1]);
      in[1] = -1;
    };
    session->Read(
        [&](std::string_view bytes) {
          if (!options.in) return;
          if (master >= 0) return WriteAll(master, bytes);
          // Only this thread closes it while the command runs.
          if (in[1] >= 0) WriteAll(in[1], bytes);
        },
        end_input,
        [&](int columns, int rows) {
          winsize size{};
          size.ws_col = static_cast<unsigned short>(columns);
          size.ws_row = static_cast<unsigned short>(rows);
          if (master >= 0) ioctl(master, TIOCSWINSZ, &size);
        });
    // The client is gone: so is the command.
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(over, &one, sizeof(one));
  });

  bool ended = false, abandoned = false;
  int first = options.terminal ? master : out[0], second = err[0];
  while (!ended || first >= 0 || second >= 0) {
    pollfd fds[] = {{first, POLLIN, 0},
                    {second, POLLIN, 0},
                    {ended ? -1 : started->pidfd(), POLLIN, 0},
                    {abandoned ? -1 : over, POLLIN, 0}};
    // After its end only what is in the pipes already is waited for: a child that keeps them open holds nobody up.
    const int ready = poll(fds, 4, ended ? 100 : -1);
    if (ready < 0 && errno != EINTR) break;
    if (ready == 0 && ended) break;
    if (fds[0].revents != 0 &&
        !Forward(first, [&](std::string_view bytes) { return !options.out || session->Send(kOut, bytes); }))
      first = -1;
    if (fds[1].revents != 0 &&
        !Forward(second, [&](std::string_view bytes) { return !options.err || session->Send(kErr, bytes); }))
      second = -1;
    if (fds[2].revents != 0) ended = true;
    if (fds[3].revents != 0) {
      abandoned = true;
      started->SignalGroup(SIGKILL).IgnoreError();
    }
  }
  const std::optional<ExitStatus> status = started->Wait();
  started->SignalGroup(SIGKILL).IgnoreError();
  session->Finish(ExitStatusJson(status ? status->code : 255));
  session->Close();
  reader.join();
}

void ServeAttach(const http::ServerRequest& request, http::ResponseWriter& response, const ContainerView& container,
                 const StreamOptions& options) {
  std::unique_ptr<Session> session = Session::Open(request, response, options);
  if (session == nullptr) return;
  const int folder =
      open(absl::StrCat(container.folder, "/", container.attempt).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  absl::Cleanup close_both = [&] {
    if (folder >= 0) close(folder);
    if (fd >= 0) close(fd);
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/attach", folder);
  if (folder < 0 || fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return session->Finish(
        FailureJson(absl::StrCat("cannot attach to container ", container.name, ": ", std::strerror(errno))));
  }
  std::thread reader([&] {
    const auto send_message = [&](std::string message) {
      (void)!send(fd, message.data(), message.size(), MSG_NOSIGNAL);
    };
    session->Read(
        [&](std::string_view bytes) {
          for (; options.in && !bytes.empty(); bytes.remove_prefix(std::min<size_t>(bytes.size(), 8000))) {
            send_message(absl::StrCat("I", std::string(bytes.substr(0, 8000))));
          }
        },
        [&] {
          if (options.in) send_message("E");
        },
        [&](int columns, int rows) {
          send_message({'R', static_cast<char>(columns >> 8), static_cast<char>(columns), static_cast<char>(rows >> 8),
                        static_cast<char>(rows)});
        });
    shutdown(fd, SHUT_RDWR);
  });
  std::array<char, 16 << 10> buffer;
  ssize_t got;
  while ((got = recv(fd, buffer.data(), buffer.size(), 0)) > 0) {
    const std::string_view bytes(buffer.data() + 1, static_cast<size_t>(got) - 1);
    const bool is_error = buffer[0] == 2;
    if (!(is_error ? options.err : options.out)) continue;
    if (!session->Send(is_error ? kErr : kOut, bytes)) break;
  }
  session->Finish(ExitStatusJson(0));
  session->Close();
  reader.join();
}

}  // namespace tf::process_node
