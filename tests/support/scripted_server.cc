#include "support/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "http/test_certificates.h"

namespace tf::testing {

std::string ScriptedRequest::Query(const std::string& name) const {
  const auto found = query.find(name);
  return found == query.end() ? std::string() : found->second;
}

bool ScriptedRequest::IsWatch() const { return Query("watch") == "1" || Query("watch") == "true"; }

bool Answer::Send(int status, std::string_view body, const Headers& more) {
  std::string bytes = absl::StrCat("HTTP/1.1 ", status,
                                   " Said\r\nContent-Type: application/json\r\nContent-Length: ", body.size(), "\r\n");
  for (const auto& [name, value] : more) absl::StrAppend(&bytes, name, ": ", value, "\r\n");
  bytes += "\r\n";
  bytes += body;
  return complete_ = wire_.Send(bytes);
}

bool Answer::Begin(int status, const Headers& more) {
  std::string bytes =
      absl::StrCat("HTTP/1.1 ", status, " Said\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n");
  for (const auto& [name, value] : more) absl::StrAppend(&bytes, name, ": ", value, "\r\n");
  bytes += "\r\n";
  return wire_.Send(bytes);
}

bool Answer::Chunk(std::string_view bytes) {
  if (bytes.empty()) return true;
  std::string chunk = absl::StrCat(absl::Hex(bytes.size()), "\r\n");
  chunk += bytes;
  chunk += "\r\n";
  return wire_.Send(chunk);
}

bool Answer::End() { return complete_ = wire_.Send("0\r\n\r\n"); }

void Answer::Hold() { wire_.Hold(); }

void Answer::Cut() {
  complete_ = false;
  wire_.Cut();
}

void Answer::Close() {
  complete_ = false;
  wire_.Close();
}

bool Answer::Raw(std::string_view bytes) { return wire_.Send(bytes); }

ScriptedServer::ScriptedServer(Script script, bool tls) : script_(std::move(script)), tls_(tls) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes with write(2)
  if (tls_) {
    const http::TestAuthority authority;
    const http::TestPair pair = authority.SignLoopback();
    ca_pem_ = authority.pem();
    context_ = ServerContext(pair.certificate_pem, pair.key_pem);
  }
  Listen();
}

ScriptedServer::~ScriptedServer() {
  Down();
  SSL_CTX_free(context_);
}

std::string ScriptedServer::url() const { return absl::StrCat(tls_ ? "https" : "http", "://127.0.0.1:", port_); }

void ScriptedServer::Listen() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  // A test cannot go on without its server.
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  ending_ = false;
  acceptor_ = std::thread([this] { AcceptAll(); });
}

void ScriptedServer::AcceptAll() {
  while (true) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_) {
      close(fd);
      return;
    }
    std::erase_if(connections_, [](const std::unique_ptr<Connection>& connection) {
      if (!connection->done) return false;
      connection->thread.join();
      return true;
    });
    ++accepted_;
    ++open_;
    auto connection = std::make_unique<Connection>();
    connection->wire = Wire::Accept(fd, context_);
    connection->thread = std::thread([this, raw = connection.get()] {
      Serve(*raw->wire);
      raw->wire->Cut();
      --open_;
      raw->done = true;
    });
    connections_.push_back(std::move(connection));
  }
}

void ScriptedServer::Serve(Wire& wire) {
  if (!wire.Handshake()) return;
  std::string buffer;
  while (!ending_) {
    ScriptedRequest request;
    if (!ReadHead(wire, buffer, request.head)) return;
    BodyReader body(request.head, false);
    while (true) {
      request.body += body.Take(buffer);
      if (body.done()) break;
      if (!wire.Receive(buffer)) return;
    }
    const std::string& line = request.head.first_line;
    const size_t first = line.find(' ');
    const size_t second = line.find(' ', first + 1);
    if (second == std::string::npos) return;
    request.method = line.substr(0, first);
    request.target = line.substr(first + 1, second - first - 1);
    Target target = ParseTarget(request.target);
    request.path = std::move(target.path);
    request.query = std::move(target.query);
    request.number = static_cast<int>(++requests_);
    Answer answer(wire);
    script_(request, answer);
    if (!answer.complete()) return;
  }
}

void ScriptedServer::Down() {
  std::list<std::unique_ptr<Connection>> connections;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    connections.swap(connections_);
  }
  if (listener_ >= 0) {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    listener_ = -1;
  }
  for (const auto& connection : connections) connection->wire->Shutdown();
  for (const auto& connection : connections) connection->thread.join();
}

void ScriptedServer::Up() {
  if (listener_ < 0) Listen();
}

}  // namespace tf::testing
