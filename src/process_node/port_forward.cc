#include "process_node/port_forward.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "process_node/spdy.h"
#include "process_node/websocket.h"

namespace tf::process_node {
namespace {

constexpr char kProtocol[] = "SPDY/3.1+portforward.k8s.io";
constexpr int kConnectMs = 5000;
// What a client may send ahead of a target that does not take it; then it is cut off: SPDY as it is used here has no
// other way to say "wait".
constexpr size_t kMaxQueued = 16 << 20;
constexpr size_t kMaxConnections = 256;

// The socket, connected; -1 with what went wrong in `problem`.
int Connect(const std::string& host, int port, std::string* problem) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int error = fd < 0 ? errno : 0;
  if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd ready{fd, POLLOUT, 0};
    socklen_t size = sizeof(error);
    error = ETIMEDOUT;
    if (poll(&ready, 1, kConnectMs) == 1) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return fd;
  if (fd >= 0) close(fd);
  *problem = absl::StrCat("dial tcp ", host, ":", port, ": ", std::strerror(error));
  return -1;
}

// The WebSocket with SPDY in it. Thread-safe.
class Tunnel {
 public:
  explicit Tunnel(http::Duplex* peer) : peer_(peer) {}
  bool Send(const std::string& frame) {
    std::lock_guard lock(mutex_);
    return peer_->Write(WebSocketFrame(WebSocketMessage::Type::kBinary, frame)).ok();
  }
  bool Reply(uint32_t stream) {
    std::lock_guard lock(mutex_);
    return peer_->Write(WebSocketFrame(WebSocketMessage::Type::kBinary, writer_.SynReply(stream))).ok();
  }
  bool Raw(const std::string& frame) {
    std::lock_guard lock(mutex_);
    return peer_->Write(frame).ok();
  }

 private:
  http::Duplex* peer_;
  std::mutex mutex_;
  SpdyWriter writer_;
};

class Connection {
 public:
  Connection(Tunnel& tunnel, std::string host, int port, uint32_t error_stream, uint32_t data_stream)
      : tunnel_(tunnel), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), error_(error_stream), data_(data_stream) {
    thread_ = std::thread([this, host = std::move(host), port] { Run(host, port); });
  }
  ~Connection() {
    Stop();
    thread_.join();
    close(wake_);
  }

  void Push(std::string bytes, bool last) {
    std::lock_guard lock(mutex_);
    if (queue_.size() + bytes.size() > kMaxQueued) stopped_ = true;
    queue_ += bytes;
    last_ = last_ || last;
    Wake();
  }
  void Stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    Wake();
  }
  bool over() const {
    std::lock_guard lock(mutex_);
    return over_;
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
  }

  void Run(const std::string& host, int port) {
    std::string problem;
    int fd = Connect(host, port, &problem);
    if (fd < 0 && host != "127.0.0.1") {
      std::string second;
      fd = Connect("127.0.0.1", port, &second);
    }
    if (fd < 0) {
      tunnel_.Send(SpdyWriter::Data(error_, absl::StrCat("error forwarding port ", port, " to pod: ", problem), true));
      tunnel_.Send(SpdyWriter::Data(data_, "", true));
    } else {
      Copy(fd);
      close(fd);
      tunnel_.Send(SpdyWriter::Data(data_, "", true));
      tunnel_.Send(SpdyWriter::Data(error_, "", true));
    }
    std::lock_guard lock(mutex_);
    over_ = true;
  }

  void Copy(int fd) {
    std::string out;
    bool out_ended = false, in_ended = false;
    std::array<char, 32 << 10> buffer;
    while (true) {
      {
        std::lock_guard lock(mutex_);
        if (stopped_) return;
        out += std::exchange(queue_, {});
        if (out.empty() && last_ && !out_ended) {
          shutdown(fd, SHUT_WR);
          out_ended = true;
        }
      }
      if (in_ended && (out_ended || out.empty())) return;
      pollfd fds[] = {{fd, static_cast<short>((in_ended ? 0 : POLLIN) | (out.empty() ? 0 : POLLOUT)), 0},
                      {wake_, POLLIN, 0}};
      if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
      uint64_t count;
      [[maybe_unused]] const ssize_t woken = read(wake_, &count, sizeof(count));
      if (!out.empty() && (fds[0].revents & (POLLOUT | POLLERR | POLLHUP)) != 0) {
        const ssize_t sent = send(fd, out.data(), out.size(), MSG_NOSIGNAL);
        if (sent > 0) out.erase(0, static_cast<size_t>(sent));
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return;
      }
      if (!in_ended && (fds[0].revents & (POLLIN | POLLERR | POLLHUP)) != 0) {
        const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
        if (got > 0) {
          if (!tunnel_.Send(SpdyWriter::Data(data_, {buffer.data(), static_cast<size_t>(got)}, false))) return;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
          in_ended = true;
        }
      }
    }
  }

  Tunnel& tunnel_;
  const int wake_;
  const uint32_t error_, data_;
  mutable std::mutex mutex_;
  std::string queue_;
  bool last_ = false, stopped_ = false, over_ = false;
  std::thread thread_;
};

// The streams of one client; on the connection's thread.
class Forwarding {
 public:
  Forwarding(Tunnel& tunnel, std::string pod_ip) : tunnel_(tunnel), pod_ip_(std::move(pod_ip)) {}

  // False: the client has said good-bye or cannot be understood.
  bool Take(std::string_view bytes) {
    reader_.Add(bytes);
    while (true) {
      absl::StatusOr<std::optional<SpdyFrame>> frame = reader_.Next();
      if (!frame.ok()) return false;
      if (!*frame) return true;
      switch ((*frame)->type) {
        case SpdyFrame::Type::kSynStream:
          Open(**frame);
          break;
        case SpdyFrame::Type::kData:
          if (const auto at = connections_.find((*frame)->stream); at != connections_.end()) {
            at->second->Push(std::move((*frame)->data), (*frame)->last);
          }
          break;
        case SpdyFrame::Type::kReset:
          connections_.erase((*frame)->stream);
          break;
        case SpdyFrame::Type::kPing:
          tunnel_.Send(SpdyWriter::Ping((*frame)->stream));
          break;
        case SpdyFrame::Type::kGoAway:
          return false;
        case SpdyFrame::Type::kOther:
          break;
      }
    }
  }

 private:
  void Open(const SpdyFrame& frame) {
    std::erase_if(connections_, [](const auto& one) { return one.second->over(); });
    const std::string id(frame.Header("requestid"));
    const std::string_view type = frame.Header("streamtype");
    int port = 0;
    const std::string_view text = frame.Header("port");
    const bool good = absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &port) && port > 0 && port < 65536;
    if (!good || (type != "error" && type != "data") || connections_.size() + waiting_.size() > kMaxConnections) {
      constexpr uint32_t kRefused = 3;
      tunnel_.Send(SpdyWriter::Reset(frame.stream, kRefused));
      return;
    }
    tunnel_.Reply(frame.stream);
    if (type == "error") {
      waiting_[id] = frame.stream;
      return;
    }
    const auto error = waiting_.find(id);
    const uint32_t error_stream = error == waiting_.end() ? 0 : error->second;
    if (error != waiting_.end()) waiting_.erase(error);
    connections_[frame.stream] = std::make_unique<Connection>(tunnel_, pod_ip_, port, error_stream, frame.stream);
  }

  Tunnel& tunnel_;
  const std::string pod_ip_;
  SpdyReader reader_;
  std::map<std::string, uint32_t> waiting_;  // error streams by request id
  std::map<uint32_t, std::unique_ptr<Connection>> connections_;
};

}  // namespace

void ServePortForward(const http::ServerRequest& request, http::ResponseWriter& response, const std::string& pod_ip) {
  const std::string offered(request.Header("sec-websocket-protocol"));
  const std::string_view key = request.Header("sec-websocket-key");
  if (key.empty() || !absl::StrContains(offered, kProtocol)) {
    response
        .Send(400, "text/plain",
              absl::StrCat("process nodes speak WebSocket with ", kProtocol, " here; use kubectl 1.31 or later\n"))
        .IgnoreError();
    return;
  }
  absl::StatusOr<http::Duplex*> peer = response.TakeOver({{"Upgrade", "websocket"},
                                                          {"Connection", "Upgrade"},
                                                          {"Sec-WebSocket-Accept", WebSocketAccept(key)},
                                                          {"Sec-WebSocket-Protocol", kProtocol}});
  if (!peer.ok()) return;
  Tunnel tunnel(*peer);
  {
    Forwarding forwarding(tunnel, pod_ip);
    WebSocketReader reader;
    bool open = true;
    while (open) {
      absl::StatusOr<std::string> bytes = (*peer)->Read(absl::InfiniteDuration());
      if (!bytes.ok() || bytes->empty()) break;
      reader.Add(*bytes);
      while (open) {
        absl::StatusOr<std::optional<WebSocketMessage>> message = reader.Next();
        if (!message.ok()) open = false;
        if (!open || !*message) break;
        switch ((*message)->type) {
          case WebSocketMessage::Type::kBinary:
            open = forwarding.Take((*message)->payload);
            break;
          case WebSocketMessage::Type::kPing:
            tunnel.Raw(WebSocketFrame(WebSocketMessage::Type::kPong, (*message)->payload));
            break;
          case WebSocketMessage::Type::kClose:
            open = false;
            break;
          default:
            break;
        }
      }
    }
    // Threads that still write must not wait for a peer that is gone.
    (*peer)->Close();
  }
}

}  // namespace tf::process_node
